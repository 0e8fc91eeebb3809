"""Memory of a Vulkan device that CUDA maps too: one allocation, which either side keeps alive."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from vkdml.common import dlpack
from vkdml.common.read_only import fix
from vkdml.errors import DeviceError
from vkdml.integrations import cuda_driver
from vkdml.plan.plans import whole_vectors
from vkdml.runtime import lent_tensor
from vkdml.runtime.memory import Bytes, Memory, fill
from vkdml.runtime.recording import Buffer

if TYPE_CHECKING:
    from vkdml.runtime.device import Device


class CudaMapping:
    """An exportable buffer, mapped into CUDA; unmapped and freed with its last owner."""

    __slots__ = ("_external", "address", "buffer", "cuda", "lent")

    def __init__(self, device: Device, nbytes: int, visible: bool) -> None:
        """Allocate and map; ``visible`` where the host sees it too.

        Raises:
            MemoryError: the device has not so much, or CUDA cannot map it.
            DeviceError: the device cannot export memory, is not CUDA's, or a driver failed.
        """
        self._external = 0
        self.cuda = cuda_driver.with_uuid(device.info.uuid, device.name)
        self.buffer: Buffer = device.executions.exportable_buffer(nbytes, visible=visible)
        self.lent = False
        """Whether other libraries may use it at any time."""
        self._external, self.address = self.cuda.import_memory(
            self.buffer.export_fd(),
            self.buffer.exported_nbytes,
            self.buffer.capacity,
            self.buffer.is_dedicated,
        )

    # While the interpreter ends, CUDA may have ended before: the process gives back all memory then.
    def __del__(self, _faults: tuple[type[BaseException], ...] = (Exception,)) -> None:
        if self._external:
            with suppress(*_faults):
                self.cuda.free_memory(self._external, self.address)


class CudaMemory(Memory):
    """An allocation that CUDA maps.

    Vulkan and the host wait for CUDA before they use memory that was lent, since nobody tells which streams
    use it. What Vulkan does is done before a call returns, or waited for when the memory is lent.
    """

    __slots__ = ("_give_back", "_mapping")
    _mapping: CudaMapping
    _give_back: Callable[[CudaMapping], None]

    is_cuda = True
    _uploads_wait = True

    def __new__(cls, device: Device, nbytes: int, *, near_host: bool = False) -> CudaMemory:
        """Allocate, or take what an earlier array has left.

        Raises:
            MemoryError, DeviceError: as :class:`CudaMapping`.
        """
        device.require_usable()
        cls.require_within_limit(device, nbytes)
        size_class = device.native.capacity_for(whole_vectors(nbytes))
        visible = near_host or device.info.unified_memory
        pool, key = device.executions.cuda_mappings, (size_class, visible)
        mapping = pool.take(key)
        if mapping is None:
            mapping = device.executions.insist(lambda: CudaMapping(device, size_class, visible))
        elif mapping.lent:
            mapping.cuda.wait_for_all()  # tensors are dropped before what was started on them is done
            mapping.lent = False
        made = object.__new__(cls)
        fix(made, "_mapping", mapping)
        fix(made, "_give_back", lambda mapping: pool.put(key, mapping, size_class))
        fill(made, device, mapping.buffer, visible)
        return made

    def __del__(self) -> None:
        mapping = getattr(self, "_mapping", None)
        if mapping is None:
            return
        _forget(mapping.address)
        if all(user() is None for user in self._users):
            # Else a sequence that was recorded with this memory would find another array's in it.
            self._give_back(mapping)

    @property
    def cuda(self) -> cuda_driver.CudaDevice:
        """CUDA's device."""
        return self._mapping.cuda

    @property
    def capacity(self) -> int:
        """Its bytes."""
        return self._buffer.capacity

    @property
    def address(self) -> int:
        """Where CUDA sees the first byte."""
        return self._mapping.address

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """CUDA's name of the device."""
        return dlpack.CUDA, self.cuda.ordinal

    @property
    def buffer(self) -> Buffer:
        """What kernels are given, once CUDA no longer uses it."""
        self.wait_for_others()
        return self._buffer

    def wait_for_others(self) -> None:
        """Wait for what CUDA was given before now, if it may use this memory."""
        if self._mapping.lent:
            self.cuda.wait_for_all()

    def visible(self) -> Bytes | None:
        """Wait for CUDA too."""
        if self._is_visible:
            self.wait_for_others()
        return super().visible()

    def write(self, start: int, source: Bytes) -> None:
        """Wait for CUDA before, and for the bytes to arrive: CUDA's work does not come after Vulkan's."""
        self.wait_for_others()
        super().write(start, source)

    def elements(self, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Wait for CUDA too."""
        self.wait_for_others()
        return super().elements(start, shape, dtype)

    def lend(self, tensor: lent_tensor.Description, *, versioned: bool) -> Any:
        """Return a DLPack capsule of elements of this memory, which keeps it alive."""
        self.device.require_usable()
        self.settle()
        self._mapping.lent = True
        _remember(self)
        return lent_tensor.capsule(self.address, tensor, self.dlpack_device, self, versioned=versioned)


def allocated(device: Device, nbytes: int, *, near_host: bool = False) -> CudaMemory:
    """Return new memory, as :class:`CudaMemory`; an error names the option that asked for it."""
    try:
        return CudaMemory(device, nbytes, near_host=near_host)
    except DeviceError as error:
        raise type(error)(f'share="cuda": {error}') from None


# Memory that was lent, by address: a tensor made from it comes back without a copy.
_lock = threading.RLock()
_lent: dict[int, ref[CudaMemory]] = {}
_addresses: list[int] = []


def _remember(memory: CudaMemory) -> None:
    with _lock:
        if memory.address not in _lent:
            insort(_addresses, memory.address)
        _lent[memory.address] = ref(memory)


def _forget(address: int) -> None:
    with _lock:
        if _lent.pop(address, None) is not None:
            del _addresses[bisect_right(_addresses, address) - 1]


def memory_at(address: int, nbytes: int) -> CudaMemory | None:
    """Return the memory that has these bytes of CUDA's, or None if they are not of vkdml's."""
    with _lock:
        place = bisect_right(_addresses, address) - 1
        memory = _lent[_addresses[place]]() if place >= 0 else None
    if memory is None or address + nbytes > memory.address + memory.capacity:
        return None
    return memory
