"""
Vulkan and Kompute, as vkdml uses them. Private: use the vkdml package.
"""

from collections.abc import Sequence as _Sequence
import enum
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray


def loader() -> dict[str, Any]:
    """What is known of the Vulkan loader; never raises."""

def devices() -> list[dict[str, Any]]:
    """A description of every Vulkan device."""

def available_host_memory(root: str = '') -> int:
    """
    Bytes of RAM that this process can still have, within the limits of its control groups.
    """

def copy_in_host_memory(target: Annotated[NDArray[numpy.uint8], dict(shape=(None,))], source: Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]) -> None:
    """Copies bytes, many of them with several threads."""

def with_fixed_parameters(spirv: bytes, first_slot: int) -> bytes:
    """
    The module with specialization constants, from a slot on, in place of its push constants.
    """

def specialized(spirv: bytes, constants: _Sequence[int]) -> bytes:
    """
    The module with these values of its specialization constants, without the code that they exclude.
    """

def with_paired_words(spirv: bytes) -> bytes:
    """
    The module with integers of 64 bits in place of its buffers' vectors of words.
    """

def with_texel_loads(spirv: bytes, bindings: int, widths: int) -> tuple[bytes, list[int]]:
    """
    The module with loads of texels in place of those of its buffer 0, and the words that a texel of each buffer of texels has. These come after so many bindings.
    """

def with_unrolled_loops(spirv: bytes) -> bytes:
    """
    The module with a request to unroll its loops, but for long ones and those with own arrays.
    """

def with_vector_arithmetic(spirv: bytes) -> bytes:
    """
    The module with multiplications and masks in place of shifts and of divisions by powers of two.
    """

def most_mapped_read() -> int:
    """
    The most bytes that Buffer.read_mapped() takes less time for than the device does.
    """

def inject_failure(countdown: int, result: int = -2, call: str = '') -> None:
    """
    Test hook: make the given fallible Vulkan call from now on fail (1: the next, 0: none), or with the name of a Vulkan function the given one of its calls.
    """

def dlpack_capsule(address: int, shape: _Sequence[int], strides: _Sequence[int], code: int, bits: int, device: tuple[int, int], flags: int, owner: object, versioned: bool) -> object:
    """
    A DLPack capsule of the elements at an address, which keeps its owner alive. Strides count elements; flags are 1 for read only and 2 for copied.
    """

def fallible_calls() -> int:
    """Calls counted since inject_failure()."""

def injected_call() -> str:
    """The Vulkan function that failed by injection, or ''."""

class MemoryKind(enum.Enum):
    device = 0
    """The fastest for shaders; invisible to the host."""

    mapped = 2
    """The same, but the host can write it, and read a little."""

    host = 1
    """Mapped and coherent; shaders can use it too."""

class Buffer:
    """A piece of a device's memory."""

    @property
    def id(self) -> int:
        """Of the memory: a later buffer has it only if it has the same memory."""

    @property
    def nbytes(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    @property
    def kind(self) -> MemoryKind: ...

    def view(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """The mapped memory as bytes; keeps the memory alive."""

    def read_mapped(self, start: int, nbytes: int, widest: int = 64) -> bytearray:
        """
        A copy of bytes of the mapped memory, which the processor does not cache, by loads of up to `widest` bytes: 64, 32, or 0 for usual ones.
        """

    def export_fd(self) -> int:
        """
        A new file descriptor of memory made exportable; the caller closes it, or an importer takes it over.
        """

    @property
    def exported_nbytes(self) -> int:
        """
        Bytes of the allocation that is exported, which importers must be told; 0 where none can be.
        """

    @property
    def is_dedicated(self) -> bool:
        """
        Whether importers must be told that the allocation serves this buffer only.
        """

class Kernel:
    """A compute pipeline, bound to no buffer."""

    @property
    def texel_words(self) -> list[int]:
        """
        How many words the texels have that it loads of its first buffer, once for each number.
        """

class Sequence:
    """Operations recorded once and evaluated any number of times."""

    def copy(self, source: Buffer, target: Buffer, nbytes: int, source_offset: int = 0, target_offset: int = 0) -> None: ...

    def dispatch(self, kernel: Kernel, buffers: _Sequence[Buffer], push: bytes, workgroups: _Sequence[int], offsets: _Sequence[int] = [], read_only: _Sequence[bool] = []) -> None:
        """
        Offsets are bytes, 0 where none is given; a buffer not said to be read only is taken as written.
        """

    def clear(self) -> None: ...

    def watch(self, result: Buffer, words: int) -> None:
        """
        Lets wait() return once the host sees these words of a recorded result, all of them written.
        """

    def submit(self, holding: _Sequence[Buffer] = []) -> None:
        """
        Starts an evaluation. A sequence that does not own its buffers keeps those given until it ends; they must have the memory of those recorded.
        """

    def wait(self, timeout: float | None = None, spin_us: float = 1000.0) -> bool:
        """
        True when done; False when the time (seconds) ran out, which harms nothing: wait again.
        """

    def eval(self, timeout: float | None = None, spin_us: float = 1000.0, holding: _Sequence[Buffer] = []) -> bool:
        """submit() and wait()."""

    def timings(self) -> list[float]:
        """Nanoseconds of each recorded operation in the last evaluation."""

class Replay:
    """A plan made ready to run on whatever buffers it is given."""

    def run(self, regions: _Sequence[tuple[Buffer, int]]) -> None:
        """
        Evaluates on these buffers, each from a byte on, and waits; the results come last.
        """

    def start_on(self, input: Buffer, offset: int) -> list[Buffer] | None:
        """
        Starts an evaluation with one input and results in new memory; None, and nothing was done, where that memory is not to be had.
        """

    def submit(self, regions: _Sequence[tuple[Buffer, int]]) -> None:
        """Starts an evaluation; wait() for it."""

    def wait(self) -> None: ...

class Device:
    """A logical device with one compute queue."""

    def __init__(self, index: int) -> None: ...

    def buffer(self, nbytes: int, kind: MemoryKind) -> Buffer: ...

    def exportable_buffer(self, nbytes: int, kind: MemoryKind) -> Buffer: ...

    def imported(self, bytes: NDArray[numpy.uint8]) -> tuple[Buffer, int] | None:
        """
        A buffer that is memory of the host's, and the byte in it where these bytes begin; they are kept as long as a device may use them. None where they can only be copied.
        """

    def kernel(self, spirv: bytes, bindings: int, push_bytes: int, constants: _Sequence[int] = [], subgroup_size: int = 0, fixed: bytes = ...) -> Kernel:
        """
        Builds a pipeline. `fixed` are push constants that are compiled in: the kernel then has none.
        """

    def sequence(self, timestamps: int = 0, owns_buffers: bool = True) -> Sequence: ...

    def capacity_for(self, nbytes: int) -> int:
        """
        Bytes that a buffer of so many really has: requests of one size class share it.
        """

    def replay(self, workspace: Buffer | None, steps: list[tuple[Kernel, bytes, int, list[tuple[int, bool]]]], results: list[tuple[int, MemoryKind]], watched_words: int, spin_us: float) -> Replay:
        """
        A step is a kernel, its push constants, its workgroups, and for each binding the region that it takes (-1: the workspace) and whether it is written. A result is bytes and a kind of memory; start_on() watches so many words of the last one, see Sequence.watch().
        """

    def integer(self, buffer: Buffer, offset: int, nbytes: int, signed: bool) -> int:
        """The integer at a byte of a buffer that the host sees."""

    def require_usable(self) -> None:
        """
        Raises what every use of this device would raise: it was lost, or the process forked.
        """

    @property
    def maps_device_memory(self) -> bool:
        """Whether there is memory of the kind `mapped`."""

    @property
    def imports_host_memory(self) -> bool:
        """
        Whether the device reads and writes memory of the host's where it lies.
        """

    @property
    def offset_alignment(self) -> int:
        """Kernels can be given a buffer from any multiple of so many bytes on."""

    @property
    def ends_with_events(self) -> bool:
        """
        Whether an event, and at first no fence, tells the host that a sequence without times is done.
        """

    @property
    def lost(self) -> bool:
        """Whether the driver has given the device up."""

    def memory(self) -> dict[str, int]: ...

    def trim(self) -> int: ...
