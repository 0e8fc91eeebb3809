"""CUDA's driver, called in NVIDIA's library libcuda.so.1: no package, toolkit or compiler is needed for it.

torch, cupy and jax load the same library, and use the same context of each GPU (its primary one), so pointers
of theirs and of vkdml's mean the same. Every call to CUDA that vkdml makes is in this file.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any

from vkdml.errors import DeviceError

LIBRARY = "libcuda.so.1"
OUT_OF_MEMORY, NOT_READY = 2, 600
OPAQUE_FD, DEDICATED = 1, 1
NON_BLOCKING = 1
MEMORY_ON_DEVICE = 2
LEGACY_STREAM = 1
"""The handle of the default stream, where 0 would leave open which default stream is meant."""
# Polled with the interpreter's lock for so long: giving it up costs milliseconds if other threads compute.
SPIN_SECONDS = 0.001
PAUSE_SECONDS = 0.0001

_Pointer = ctypes.c_void_p
_Address = ctypes.c_uint64


class _Win32(ctypes.Structure):
    _fields_ = (("handle", _Pointer), ("name", _Pointer))


class _Handle(ctypes.Union):
    _fields_ = (("fd", ctypes.c_int), ("win32", _Win32))


class ExternalMemoryHandle(ctypes.Structure):
    """``CUDA_EXTERNAL_MEMORY_HANDLE_DESC``."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle", _Handle),
        ("size", ctypes.c_uint64),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    )


class ExternalMemoryBuffer(ctypes.Structure):
    """``CUDA_EXTERNAL_MEMORY_BUFFER_DESC``."""

    _fields_ = (
        ("offset", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    )


class Copy2D(ctypes.Structure):
    """``CUDA_MEMCPY2D``: rows of bytes at a distance from each other."""

    _fields_ = (
        ("srcXInBytes", ctypes.c_size_t),
        ("srcY", ctypes.c_size_t),
        ("srcMemoryType", ctypes.c_int),
        ("srcHost", _Pointer),
        ("srcDevice", _Address),
        ("srcArray", _Pointer),
        ("srcPitch", ctypes.c_size_t),
        ("dstXInBytes", ctypes.c_size_t),
        ("dstY", ctypes.c_size_t),
        ("dstMemoryType", ctypes.c_int),
        ("dstHost", _Pointer),
        ("dstDevice", _Address),
        ("dstArray", _Pointer),
        ("dstPitch", ctypes.c_size_t),
        ("WidthInBytes", ctypes.c_size_t),
        ("Height", ctypes.c_size_t),
    )


# The names of functions as the library exports them, with their arguments. Those that wait give up the
# interpreter's lock.
_QUICK: dict[str, tuple[Any, ...]] = {
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGetName": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetUuid_v2": (ctypes.c_char_p, ctypes.c_int),
    "cuCtxPushCurrent_v2": (_Pointer,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(_Pointer),),
    "cuStreamQuery": (_Pointer,),
    "cuMemcpyDtoDAsync_v2": (_Address, _Address, ctypes.c_size_t, _Pointer),
    "cuMemcpy2DAsync_v2": (ctypes.POINTER(Copy2D), _Pointer),
}
_WAITING: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(_Pointer), ctypes.c_int),
    "cuCtxSynchronize": (),
    "cuStreamCreate": (ctypes.POINTER(_Pointer), ctypes.c_uint),
    "cuImportExternalMemory": (ctypes.POINTER(_Pointer), ctypes.POINTER(ExternalMemoryHandle)),
    "cuExternalMemoryGetMappedBuffer": (
        ctypes.POINTER(_Address),
        _Pointer,
        ctypes.POINTER(ExternalMemoryBuffer),
    ),
    "cuDestroyExternalMemory": (_Pointer,),
    "cuMemFree_v2": (_Address,),
}


class _Driver:
    """The library's functions, each of which raises what it returns."""

    def __init__(self) -> None:
        try:
            quick, waiting = ctypes.PyDLL(LIBRARY), ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise DeviceError(
                f"sharing memory with CUDA needs NVIDIA's driver, whose library {LIBRARY} is not here "
                f"({error}): accepted are machines with an NVIDIA GPU and its driver"
            ) from None
        self.functions: dict[str, Any] = {}
        for library, signatures in ((quick, _QUICK), (waiting, _WAITING)):
            for name, arguments in signatures.items():
                try:
                    function = getattr(library, name)
                except AttributeError:
                    raise DeviceError(
                        f"{LIBRARY} lacks {name}: accepted is NVIDIA's driver of CUDA 11.4 or newer"
                    ) from None
                function.argtypes, function.restype = arguments, ctypes.c_int
                self.functions[name] = function
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise as :meth:`check`."""
        self.check(name, self.functions[name](*arguments))

    def check(self, name: str, result: int) -> None:
        """Raise what a function returned, unless it succeeded.

        Raises:
            MemoryError: CUDA has not so much memory.
            DeviceError: any other fault.
        """
        if result:
            kind = MemoryError if result == OUT_OF_MEMORY else DeviceError
            raise kind(f"CUDA's {name} failed: {self._text(result)}")

    def _text(self, result: int) -> str:
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            self.functions[function](result, ctypes.byref(text))
            texts.append(text.value.decode() if text.value else f"error {result}")
        return f"{texts[0]} ({texts[1]})"


class CudaDevice:
    """A GPU as CUDA sees it."""

    def __init__(self, driver: _Driver, ordinal: int) -> None:
        self._driver = driver
        self.ordinal = ordinal
        """CUDA's number of it, which ``CUDA_VISIBLE_DEVICES`` changes; DLPack's too."""
        self._handle = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(self._handle), ordinal)
        name, uuid = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
        driver.call("cuDeviceGetName", name, len(name), self._handle)
        driver.call("cuDeviceGetUuid_v2", uuid, self._handle)
        self.name: str = name.value.decode()
        self.uuid: str = uuid.raw.hex()
        """As Vulkan's: 32 hexadecimal digits."""
        self._lock = threading.RLock()
        self._context: _Pointer | None = None
        self._stream: int | None = None

    def _current(self) -> _Pointer:
        """Return the primary context; retained at first use and kept, as CUDA's runtime does."""
        if self._context is None:
            with self._lock:
                if self._context is None:
                    context = _Pointer()
                    self._driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._handle)
                    self._context = context
        return self._context

    def _result(self, name: str, *arguments: Any) -> int:
        """Call a function in the primary context, whichever the thread's own is."""
        driver, previous = self._driver, _Pointer()
        driver.call("cuCtxPushCurrent_v2", self._current())
        try:
            result: int = driver.functions[name](*arguments)
        finally:
            driver.call("cuCtxPopCurrent_v2", ctypes.byref(previous))
        return result

    def _call(self, name: str, *arguments: Any) -> None:
        self._driver.check(name, self._result(name, *arguments))

    @property
    def stream(self) -> int:
        """A stream of vkdml's own, which waits for no other on its own account."""
        if self._stream is None:
            with self._lock:
                if self._stream is None:
                    stream = _Pointer()
                    self._call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
                    self._stream = stream.value
        assert self._stream is not None
        return self._stream

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Start a copy between two addresses."""
        if nbytes:
            self._call("cuMemcpyDtoDAsync_v2", target, source, nbytes, stream)

    def copy_rows(
        self, target: tuple[int, int], source: tuple[int, int], width: int, height: int, stream: int
    ) -> None:
        """Start a copy of rows of ``width`` bytes between two addresses with their pitches."""
        self._call(
            "cuMemcpy2DAsync_v2",
            Copy2D(
                srcMemoryType=MEMORY_ON_DEVICE,
                srcDevice=source[0],
                srcPitch=source[1],
                dstMemoryType=MEMORY_ON_DEVICE,
                dstDevice=target[0],
                dstPitch=target[1],
                WidthInBytes=width,
                Height=height,
            ),
            stream,
        )

    def wait(self, stream: int) -> None:
        """Wait until a stream has done all that it was given. Ctrl-C ends the wait."""
        end = time.monotonic() + SPIN_SECONDS
        while (result := self._result("cuStreamQuery", stream)) == NOT_READY:
            if time.monotonic() > end:
                time.sleep(PAUSE_SECONDS)
        self._driver.check("cuStreamQuery", result)

    def wait_for_all(self) -> None:
        """Wait for all that any library has given this GPU in this process."""
        self._call("cuCtxSynchronize")

    def import_memory(self, fd: int, nbytes: int, mapped: int, dedicated: bool) -> tuple[int, int]:
        """Map memory that Vulkan exported; return CUDA's handle of it and its address.

        Args:
            fd: which CUDA takes over, or which is closed if it does not.
            nbytes: of the allocation.
            mapped: bytes from its start.
            dedicated: the allocation serves one buffer only.
        """
        description = ExternalMemoryHandle(type=OPAQUE_FD, size=nbytes, flags=DEDICATED if dedicated else 0)
        description.handle.fd = fd
        memory, address = _Pointer(), _Address()
        try:
            self._call("cuImportExternalMemory", ctypes.byref(memory), ctypes.byref(description))
        except BaseException:
            os.close(fd)
            raise
        assert memory.value is not None
        part = ExternalMemoryBuffer(offset=0, size=mapped)
        try:
            self._call("cuExternalMemoryGetMappedBuffer", ctypes.byref(address), memory, ctypes.byref(part))
        except BaseException:
            self._call("cuDestroyExternalMemory", memory)
            raise
        return memory.value, address.value

    def free_memory(self, memory: int, address: int) -> None:
        """Unmap imported memory; waits for what still uses it."""
        self._call("cuMemFree_v2", address)
        self._call("cuDestroyExternalMemory", memory)


_lock = threading.RLock()
_found: list[CudaDevice] = []


def cuda_devices() -> list[CudaDevice]:
    """Return CUDA's devices, in its order.

    Raises:
        DeviceError: there is no NVIDIA driver, or no device that this process may use.
    """
    if not _found:
        with _lock:
            if not _found:
                driver = _Driver()
                count = ctypes.c_int()
                driver.call("cuDeviceGetCount", ctypes.byref(count))
                if not count.value:
                    raise DeviceError(
                        "CUDA finds no GPU that this process may use: CUDA_VISIBLE_DEVICES may hide them"
                    )
                _found.extend([CudaDevice(driver, ordinal) for ordinal in range(count.value)])
    return _found


def numbered(ordinal: int) -> CudaDevice:
    """Return the device of a number that CUDA gave."""
    found = cuda_devices()
    if not 0 <= ordinal < len(found):
        raise DeviceError(f"CUDA has no device {ordinal}: it numbers {len(found)}, from 0")
    return found[ordinal]


def with_uuid(uuid: str, name: str) -> CudaDevice:
    """Return CUDA's device for a GPU that Vulkan calls by this UUID and name."""
    found = cuda_devices()
    for device in found:
        if device.uuid == uuid:
            return device
    known = "; ".join(f"{device.ordinal}: {device.name} ({device.uuid})" for device in found)
    raise DeviceError(
        f"{name} ({uuid}) is no device of CUDA's, which sees {known}: accepted is a vkdml.Device of one of "
        "these, and CUDA_VISIBLE_DEVICES may hide others"
    )
