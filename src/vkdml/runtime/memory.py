"""Memory of device arrays: allocations that views share, and bytes to and from them."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

import numpy as np
import numpy.typing as npt

from vkdml import _native
from vkdml._native import MemoryKind
from vkdml.common import dlpack
from vkdml.common.read_only import ReadOnly, fix
from vkdml.plan.plans import whole_vectors
from vkdml.runtime import lent_tensor
from vkdml.runtime.host_memory import SHARED_COPY_BYTES, copy_bytes, empty
from vkdml.runtime.recording import Buffer, NativeSequence
from vkdml.runtime.small_transfers import SMALL_BYTES

if TYPE_CHECKING:
    from vkdml.runtime.device import Device

Bytes = npt.NDArray[np.uint8]

# Transfers through staging memory go in pieces of this size: one is filled while another travels.
STAGING_BYTES = 16 << 20
# Transfers that one thread copies on the host go in smaller pieces, so that there are several.
SHORT_STAGING_BYTES = 1 << 20
# A kernel's binding may start at any multiple of this; no device requires a larger alignment.
BINDING_ALIGNMENT = 256
# Held while it is noted who uses memory: threads may evaluate sequences on one array. A signal handler may
# come between.
_noting_users = threading.RLock()
# The vendor's number, as PCI has it.
NVIDIA = 0x10DE
# The host reads so many bytes of mapped memory itself.
MAPPED_READ_BYTES = _native.most_mapped_read()


class Running(Protocol):
    """Something that may use memory while the host goes on."""

    def settle(self) -> None:
        """Wait until it no longer does."""


class Memory(ReadOnly):
    """An allocation on a device. It goes back to the device's pool with the last array that uses it."""

    __slots__ = ("__weakref__", "_buffer", "_device", "_is_visible", "_users", "_visible")
    _buffer: Buffer
    _device: Device
    _is_visible: bool
    _users: tuple[ref[Running], ...]
    _visible: Bytes | None

    is_cuda = False
    """Whether CUDA maps it too, for other libraries."""
    _uploads_wait = False
    """Whether bytes must have arrived when a write returns."""

    # Not __init__(), which could be called again and leave arrays with less than they cover.
    def __new__(cls, device: Device, nbytes: int, *, near_host: bool = False) -> Memory:
        """Allocate.

        Args:
            device: where.
            nbytes: at least so many.
            near_host: the host will read it soon, so that it should lie where both reach it.

        Raises:
            MemoryError: the device has not so much, or not in one piece.
            DeviceError: the device failed.
        """
        cls.require_within_limit(device, nbytes)
        executions = device.executions
        buffer = executions.buffer(whole_vectors(nbytes), visible=near_host, writable=True)
        return memory_in(device, buffer, near_host or executions.unified_memory)

    @staticmethod
    def require_within_limit(device: Device, nbytes: int) -> None:
        """Raise MemoryError for more bytes than one buffer can have."""
        # The native module counts in 64 bits: what no buffer can be does not reach it.
        limit = device.limits.max_storage_buffer_range
        if nbytes > limit:
            raise MemoryError(
                f"cannot allocate {nbytes} bytes: the device's limit for one buffer is {limit} bytes"
            )

    @property
    def device(self) -> Device:
        """The device that it is of."""
        return self._device

    @property
    def buffer(self) -> Buffer:
        """What kernels are given."""
        return self._buffer

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's type and number of the device whose pointers reach this memory."""
        return dlpack.VULKAN, self._device.info.index

    def wait_for_others(self) -> None:
        """Wait for what other libraries, which CUDA maps it for, were given to do with it."""

    def lend(self, tensor: lent_tensor.Description, *, versioned: bool) -> Any:
        """Return a DLPack capsule of elements of this memory, where CUDA maps it."""
        on_device = ""
        if self._device.info.vendor_id == NVIDIA:
            on_device = ', and a copy on the device that CUDA sees: vkdml.asarray(a, share="cuda")'
        raise BufferError(
            "the array lies in memory that no other library can read; accepted are copies on the host: "
            "np.asarray(a), torch.from_numpy(a.numpy()), torch.from_dlpack(a.__dlpack__(dl_device=(1, 0)))"
            + on_device
        )

    @property
    def is_visible(self) -> bool:
        """Whether the host sees it."""
        return self._is_visible

    @property
    def is_busy(self) -> bool:
        """Whether the host cannot read an element here at once: where it lies, or as something runs."""
        return not self._is_mapped or bool(self._users)

    @property
    def _is_mapped(self) -> bool:
        """Whether the host can write it, and read at least a little of it."""
        return self._is_visible or self._buffer.kind is MemoryKind.mapped

    def used_by(self, running: Running) -> None:
        """Note what the host must wait for before it reads or writes here."""
        with _noting_users:
            users = tuple(user for user in self._users if user() is not None)
            fix(self, "_users", users if ref(running) in users else (*users, ref(running)))

    def settle(self) -> None:
        """Wait for what still uses this memory; what is submitted to its device comes after that anyway."""
        # They stay noted: another thread may ask meanwhile, and this wait may be interrupted.
        for user in self._users:
            running = user()
            if running is not None:
                running.settle()
        if not self._is_visible:
            self._device.executions.small_transfers.settle()

    def visible(self) -> Bytes | None:
        """Return the bytes if the host sees them, once nothing on the device writes them any more."""
        return self._mapped() if self._is_visible else None

    def _settle_for_host(self) -> None:
        """Wait until nothing else uses the memory."""
        self._device.require_usable()
        if self._users:
            self.settle()

    def _mapped(self) -> Bytes:
        """Return the bytes, which the host can write and perhaps read, once nothing else writes them."""
        self._settle_for_host()
        view = self._visible
        if view is None:
            view = self._buffer.view()
            fix(self, "_visible", view)
        return view

    def write(self, start: int, source: Bytes) -> None:
        """Copy contiguous bytes here."""
        if self._is_mapped:
            copy_bytes(self._mapped()[start : start + source.size], source)
            return
        if source.size <= min(SMALL_BYTES, STAGING_BYTES):
            small = self._device.executions.small_transfers
            small.upload(source, self._buffer, start, waits=self._uploads_wait)
            return
        with _Staging(self.device, source.size) as staging:
            for begin in range(0, source.size, staging.piece_bytes):
                part = source[begin : begin + staging.piece_bytes]
                sequence, buffer, view = staging.next()
                copy_bytes(view[: part.size], part)
                sequence.copy(buffer, self.buffer, part.size, 0, start + begin)
                sequence.submit()
            staging.finish()

    def elements(self, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return a new array of elements that lie here one after the other, from a byte on."""
        nbytes = math.prod(shape) * dtype.itemsize
        if not self._is_visible and 0 < nbytes <= MAPPED_READ_BYTES and self._is_mapped:
            self._settle_for_host()
            read = self._buffer.read_mapped(start, nbytes)
            return np.frombuffer(read, dtype).reshape(shape)
        if not self._is_visible and 0 < nbytes <= min(SMALL_BYTES, STAGING_BYTES):
            return self._device.executions.small_transfers.download(self._buffer, start, shape, dtype)
        result = empty(shape, dtype)
        if nbytes:
            self.read(start, result.reshape(-1).view(np.uint8))
        return result

    def read(self, start: int, target: Bytes) -> None:
        """Copy bytes from here to contiguous host memory."""
        visible = self.visible()
        if visible is not None:
            copy_bytes(target, visible[start : start + target.size])
            return
        with _Staging(self.device, target.size) as staging:
            waiting: list[tuple[Bytes, Bytes]] = []
            for begin in range(0, target.size, staging.piece_bytes):
                part = target[begin : begin + staging.piece_bytes]
                sequence, buffer, view = staging.next()
                sequence.copy(self.buffer, buffer, part.size, start + begin, 0)
                sequence.submit()
                waiting.append((part, view))
                if len(waiting) > 1:
                    staging.wait_for_oldest()
                    arrived, piece = waiting.pop(0)
                    copy_bytes(arrived, piece[: arrived.size])
            staging.finish()
            for arrived, piece in waiting:
                copy_bytes(arrived, piece[: arrived.size])


_set_device, _set_buffer, _set_is_visible, _set_visible, _set_users = (
    Memory.__dict__[slot].__set__ for slot in ("_device", "_buffer", "_is_visible", "_visible", "_users")
)


def memory_in(device: Device, buffer: Buffer, is_visible: bool) -> Memory:
    """Return the memory that a buffer of the device is; the host sees it or not."""
    made = object.__new__(Memory)
    fill(made, device, buffer, is_visible)
    return made


def fill(made: Memory, device: Device, buffer: Buffer, is_visible: bool) -> None:
    """Set all that a new Memory has; its attributes are read-only afterwards."""
    _set_device(made, device)
    _set_buffer(made, buffer)
    _set_is_visible(made, is_visible)
    _set_visible(made, None)
    _set_users(made, ())


class _Staging:
    """Two pieces of host-visible memory, used in turn, each with the sequence that copies from or to it."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self._device = device
        most = STAGING_BYTES if nbytes >= SHARED_COPY_BYTES else min(SHORT_STAGING_BYTES, STAGING_BYTES)
        self.piece_bytes = min(nbytes, most)
        self._pieces = 2 if nbytes > self.piece_bytes else 1
        self._idle: list[tuple[NativeSequence, Buffer, Bytes]] = []
        self._running: list[tuple[NativeSequence, Buffer, Bytes]] = []

    def __enter__(self) -> _Staging:
        for _ in range(self._pieces):
            buffer = self._device.executions.buffer(self.piece_bytes, visible=True)
            self._idle.append((self._device.executions.take_sequence(), buffer, buffer.view()))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:  # after an error they may still be running, and are dropped
            for sequence, _buffer, _view in self._idle:
                self._device.executions.give_back_sequence(sequence)

    def next(self) -> tuple[NativeSequence, Buffer, Bytes]:
        """Return a piece that nobody uses, with an empty sequence to be recorded and submitted."""
        if not self._idle:
            self.wait_for_oldest()
        piece = self._idle.pop()
        piece[0].clear()
        self._running.append(piece)
        return piece

    def wait_for_oldest(self) -> None:
        self._running[0][0].wait(None, self._device.limits.tuning.spin_microseconds)
        self._idle.insert(0, self._running.pop(0))

    def finish(self) -> None:
        while self._running:
            self.wait_for_oldest()
