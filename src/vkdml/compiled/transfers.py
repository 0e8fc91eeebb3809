"""Uploads and downloads of a sequence: the NumPy arrays, the staging buffers and the copies between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn
from weakref import ref

import numpy as np
import numpy.typing as npt

from vkdml.arrays.array import Array, require_same_device
from vkdml.common.bits import opaque
from vkdml.common.wording import wrong_type
from vkdml.compiled.evaluation import Evaluation, Fault, fault_from
from vkdml.compiled.recorded import Place, RecordedOperation, recorded_dispatches
from vkdml.errors import DeviceError
from vkdml.plan.calls import CopyCall, Operand, plan_for
from vkdml.runtime.device import Device
from vkdml.runtime.host_memory import copy_bytes
from vkdml.runtime.memory import Bytes
from vkdml.runtime.recording import Buffer


@dataclass(frozen=True)
class HostArray:
    """A NumPy array of an upload or a download, with the shape and dtype that it had when it was recorded."""

    role: str
    label: str
    operation: int
    array: npt.NDArray[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def require_unchanged(self) -> None:
        """Raise ValueError if the array has another shape or dtype by now, or is a read-only target."""
        array, is_target = self.array, self.label == "download"
        writeable_enough = array.flags.writeable or not is_target
        if array.dtype == self.dtype and array.shape == self.shape and writeable_enough:
            return
        read_only = "" if array.flags.writeable else "read-only "
        writeable = "writeable " if is_target else ""
        raise ValueError(
            f"the {self.role} array of operation {self.operation} ({self.label}) was changed after it was "
            f"recorded: it is now a {read_only}NumPy array of shape {array.shape} and type "
            f"{array.dtype}; accepted: a {writeable}NumPy array of shape {self.shape} and type {self.dtype}, "
            "as recorded"
        )

    def fill(self, arrived: Bytes) -> None:
        """Copy elements from contiguous bytes to the array."""
        self.require_unchanged()
        target = np.asarray(self.array)
        _copy_elements(target, arrived.view(opaque(target).dtype).reshape(self.shape))

    def copy_to(self, staged: Bytes) -> None:
        """Copy the elements of the array to contiguous bytes."""
        source = np.asarray(self.array)
        _copy_elements(staged.view(opaque(source).dtype).reshape(self.shape), source)


class Download:
    """Elements that a sequence copies to the host; made by :meth:`vkdml.Sequence.download`."""

    __slots__ = (
        "__weakref__",
        "_arrived",
        "_device",
        "_dtype",
        "_evaluation",
        "_fault",
        "_is_filled",
        "_out",
        "_shape",
    )

    def __init__(
        self,
        device: Device,
        evaluation: Evaluation,
        arrived: Bytes,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        out: HostArray | None,
    ) -> None:
        self._device = device
        self._evaluation = evaluation
        self._arrived = arrived
        self._is_filled = False
        self._fault: Fault | None = None
        self._shape = shape
        self._dtype = dtype
        self._out = out

    def __repr__(self) -> str:
        state = "" if self._is_filled else " (not arrived)"
        return f"<vkdml.Download shape={self._shape} dtype={self._dtype}{state}>"

    def numpy(self) -> npt.NDArray[Any]:
        """Wait for the evaluation, and return its elements.

        >>> a = vkdml.asarray([1, 2, 3])
        >>> sequence = a.device.sequence()
        >>> elements = sequence.download(a)
        >>> _ = sequence.eval_async()
        >>> elements.numpy()
        array([1, 2, 3])

        Returns:
            ``out`` if the download has one, otherwise a new array.

        Raises:
            DeviceError: the elements never arrived: the sequence was not evaluated after the download was
                recorded, or the device failed or was closed first.
            ValueError: ``out`` did not take the elements, because its shape or dtype was changed or it was
                made read-only after it was recorded.
        """
        self._evaluation.finish(None)
        self._evaluation.need_not_be_awaited()
        if self._fault is not None:
            raise self._fault()
        if not self._is_filled:
            self._device.require_usable()
            raise DeviceError(
                "the sequence has not been evaluated since this download was recorded: call its eval() first"
            )
        if self._out is not None:
            return self._out.array
        result = np.empty(self._shape, self._dtype)
        copy_bytes(result.reshape(-1).view(np.uint8), self._arrived)
        return result

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a download belongs to its sequence and cannot be copied or pickled; accepted: its numpy()"
        )

    def require_unchanged(self) -> None:
        """Raise ValueError if ``out`` cannot take the elements any more."""
        if self._out is not None:
            self._out.require_unchanged()

    def deliver(self) -> Fault | None:
        """Note that the elements have arrived, and fill ``out``; return the fault if that fails."""
        self._fault = None
        try:
            if self._out is not None:
                self._out.fill(self._arrived)
            self._is_filled = True
        except Exception as error:
            self._fault = fault_from(error)
        return self._fault

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False and self._out is None:
            raise ValueError(
                "NumPy gets a copy of a download that has no out=; accepted: copy=None and copy=True"
            )
        if copy is False and dtype is not None and np.dtype(dtype) != self._dtype:
            raise ValueError(
                f"NumPy gets a copy of a download of type {self._dtype} as {np.dtype(dtype)}; accepted: "
                "copy=None and copy=True"
            )
        host = self.numpy()
        wanted = host if dtype is None else host.astype(dtype, copy=False)
        return wanted.copy() if copy and wanted is host and self._out is not None else wanted


def require_array(device: Device, action: str, array: Any) -> None:
    """Raise TypeError or ValueError unless a transfer on this device can use the array."""
    if not isinstance(array, Array):
        raise wrong_type(f"{action}: array", array, "a vkdml.Array")
    require_same_device(device, array.device)
    if not array.size:
        raise ValueError(f"{action}: array has shape {array.shape} and no elements; accepted: at least one")


def require_pair(device: Device, action: str, array: Any, host: Any, role: str) -> None:
    """Raise TypeError or ValueError unless elements can be copied between the two arrays."""
    require_array(device, action, array)
    accepted = f"a NumPy array of shape {array.shape} and type {array.dtype}"
    if isinstance(host, np.ma.MaskedArray):
        raise TypeError(f"{action}: {role} has a mask; accepted: {accepted}, such as its data attribute")
    if not isinstance(host, np.ndarray):
        raise wrong_type(f"{action}: {role}", host, accepted)
    if host.dtype != array.dtype or host.shape != array.shape:
        error = TypeError if host.dtype != array.dtype else ValueError
        raise error(
            f"{action}: {role} is a NumPy array of shape {host.shape} and type {host.dtype}; "
            f"accepted: {accepted}"
        )


def staging_buffer(device: Device, array: Array) -> Buffer:
    """Return a buffer in host memory for the elements of an array.

    Raises:
        MemoryError: no memory for it.
    """
    try:
        return device.executions.buffer(array.nbytes, visible=True)
    except MemoryError as error:
        raise MemoryError(f"the staging buffer for {array.shape} {array.dtype}: {error}") from None


def recorded_transfer(device: Device, label: str, array: Array, staging: Buffer) -> RecordedOperation:
    """Return the upload or download of an array: a copy of bytes if it is compact, else a SLICE1 kernel."""
    upload = label == "upload"
    offset = array.placement.offset * array.itemsize if array.is_compact else array.region[1]
    in_array = Place("output" if upload else "input", ref(array.memory), None, offset)
    staged = Place("input" if upload else "output", None, staging, 0)
    places = (staged, in_array) if upload else (in_array, staged)
    if array.is_compact:
        return RecordedOperation(label, places, copied_bytes=array.nbytes)
    compact = Operand.compact(array.shape)
    operands = (compact, array.operand) if upload else (array.operand, compact)
    plan = plan_for(CopyCall(*operands, array.itemsize), device.limits)
    return recorded_dispatches(device, label, plan, places)


def _copy_elements(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy elements bit for bit between arrays of the same shape and element size."""
    if target.flags.c_contiguous and source.flags.c_contiguous:
        copy_bytes(target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8))
    else:
        opaque(target)[...] = opaque(source)
