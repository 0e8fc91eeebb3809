"""Operators compiled for a device: validated and planned once, dispatched any number of times."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from vkdml.arrays.array import Array, array_in, require_same_device
from vkdml.arrays.indexing import View
from vkdml.common.one_object import OneObject
from vkdml.common.overlap import Layout, may_share_bytes
from vkdml.common.wording import put_before, type_of, with_article, wrong_type
from vkdml.compiled.explain import explain
from vkdml.dml import (
    MINIMUM_BUFFER_TENSOR_ALIGNMENT,
    BufferTensorDesc,
    OperatorDesc,
    TypedOperatorDesc,
    validate,
)
from vkdml.dml.descriptors import operator_of, spanned_elements
from vkdml.dml.enums import FeatureLevelLike
from vkdml.dml.lowering import call_of, strides_of
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device
from vkdml.runtime.memory import BINDING_ALIGNMENT, Memory
from vkdml.runtime.recording import Region, recordable_steps


class CompiledOperator(OneObject):
    """A DirectML operator compiled for a device; made by :meth:`vkdml.Device.compile`. Immutable.

    >>> import numpy as np, vkdml
    >>> from vkdml import dml
    >>> x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
    >>> y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
    >>> op = vkdml.default_device().compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
    >>> op.dispatch(input=vkdml.asarray(np.float32([[1, 3, 2], [9, 8, 7]]))).tolist()
    [[1], [0]]

    Any number of threads may dispatch it at the same time.
    """

    __slots__ = ("_desc", "_device", "_input", "_output", "_plans")

    def __init__(
        self,
        device: Device,
        desc: OperatorDesc | TypedOperatorDesc,
        *,
        feature_level: FeatureLevelLike = "4_1",
    ) -> None:
        """See :meth:`vkdml.Device.compile`."""
        if not isinstance(device, Device):
            raise wrong_type("device", device, "a vkdml.Device")
        validate(desc, feature_level)
        desc = operator_of(desc)
        device.require_usable()
        self._device = device
        self._desc = desc
        self._input = _Slot(f"{desc.operator}: input", desc.input_tensor)
        self._output = _Slot(f"{desc.operator}: output", desc.output_tensor)
        # By the bytes from the start of each binding region to its tensor; nothing else changes the plan.
        self._plans: dict[tuple[int, int], Plan] = {}
        try:
            device.executions.insist(lambda: recordable_steps(device.executions, self._plan(0, 0)))
        except (MemoryError, ValueError) as error:
            put_before(error, desc.operator)
            raise

    @property
    def desc(self) -> OperatorDesc:
        """The descriptor that was compiled."""
        return self._desc

    @property
    def device(self) -> Device:
        """The device that the operator was compiled for."""
        return self._device

    @property
    def temporary_size(self) -> int:
        """Bytes of workspace that a dispatch uses; the device allocates and keeps them."""
        return self._plan(0, 0).bytes_of("workspace")

    def __repr__(self) -> str:
        x, y = self._desc.input_tensor, self._desc.output_tensor
        return (
            f"<vkdml.CompiledOperator {self._desc.operator} {x.data_type.name} {tuple(x.sizes)} -> "
            f"{y.data_type.name} {tuple(y.sizes)} device={self._device.info.index}: {self._device.name}>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a compiled operator is bound to its device and cannot be pickled; accepted: its desc, to be "
            "compiled again"
        )

    def explain(self) -> str:
        """Describe a dispatch (tensors, layout, kernels, buffers) in lines of at most 80 columns.

        >>> x = vkdml.dml.BufferTensorDesc(vkdml.dml.DataType.INT32, sizes=(4, 4))
        >>> y = vkdml.dml.BufferTensorDesc(vkdml.dml.DataType.INT32, sizes=(4, 2))
        >>> op = vkdml.default_device().compile(
        ...     vkdml.dml.Slice1OperatorDesc(x, y, (0, 0), (4, 4), (-1, 2)))
        >>> print(op.explain())  # doctest: +ELLIPSIS
        SLICE1 on ...
          input   INT32 sizes (4, 4) packed, strides (4, 1), 64 bytes
          output  INT32 sizes (4, 2) packed, strides (2, 1), 32 bytes
        ...
        """
        return explain(self._desc, self._plan(0, 0), f"{self._device.info.index}: {self._device.name}")

    def dispatch(self, input: Array, output: Array | None = None) -> Array:
        """Run the operator on arrays of its device and wait for it.

        >>> import numpy as np, vkdml
        >>> from vkdml import dml
        >>> x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(3,), strides=(2,))
        >>> y = dml.BufferTensorDesc(dml.DataType.INT64, sizes=(1,))
        >>> op = vkdml.default_device().compile(dml.ArgMinOperatorDesc(x, y, axes=(0,)))
        >>> elements = vkdml.asarray(np.float32([5, 0, 1, 0, 3]))
        >>> op.dispatch(input=elements[::2]).item()
        1
        >>> buffer = vkdml.asarray(np.float32([5, 0, 1, 0, 3]).view(np.uint8))
        >>> op.dispatch(input=buffer, output=vkdml.empty(1, np.int64)).item()
        1

        Args:
            input: an array with the dtype, sizes and strides of ``desc.input_tensor`` (packed if it has no
                strides; dimensions of size 1 may have any stride); or the tensor's buffer, a compact 1-D
                uint8 array of at least ``total_tensor_size_in_bytes`` bytes. Both must start in their memory
                at a multiple of 16 bytes, or of ``guaranteed_base_offset_alignment`` if that is larger.
            output: where to write, in the same two forms; None allocates a new array. Bytes between and after
                the elements keep their values.

        Returns:
            An array with the dtype, sizes and strides of ``desc.output_tensor``: ``output`` itself, a view of
            ``output`` if that is a buffer, or a new array.

        Raises:
            TypeError: not an Array (``vkdml.asarray`` makes one), or an Array of another dtype.
            ValueError: another device, other sizes or strides, a buffer that is too small, a start that is
                not aligned, or an output that is read-only or overlaps the input. Nothing is written then.
            MemoryError: no memory for the output or the workspace.
            DeviceError: the device failed.

        Source of the rule: DirectML's ``IDMLCommandRecorder::RecordDispatch`` and ``DML_BUFFER_BINDING``.
        """
        plan, regions, result = self.bind(input, output)
        self._device.executions.run(plan, regions)
        return result

    # ---- for sequences -------------------------------------------------------------------------------------

    def bind(self, input: Array, output: Array | None) -> tuple[Plan, dict[str, Region], Array]:
        """Check arrays as :meth:`dispatch` does; return the plan, its buffers, and the output array."""
        wanted, device = self._input, self._device
        start = wanted.start(input, device)
        if output is None:
            output = self._new_output()
            result, output_start = output, 0
        else:
            written = self._output
            output_start = written.start(output, device)
            written.require_writeable(output)
            if input.memory is output.memory:
                self._require_apart(start, output_start)
            result = written.array_in(output, output_start)
        skipped, output_skipped = start % BINDING_ALIGNMENT, output_start % BINDING_ALIGNMENT
        plan = self._plans.get((skipped, output_skipped)) or self._plan(skipped, output_skipped)
        regions = {
            "input": (input.memory.buffer, start - skipped),
            self.output_role: (output.memory.buffer, output_start - output_skipped),
        }
        return plan, regions, result

    @property
    def output_role(self) -> str:
        """The name of the output among the kernels' bindings."""
        return "output" if self._desc.operator == "SLICE1" else "indices"

    def _plan(self, input_skipped: int, output_skipped: int) -> Plan:
        """Return the plan for tensors that start this many bytes into their binding regions."""
        key = (input_skipped, output_skipped)
        if key not in self._plans:
            call = call_of(
                self._desc,
                input_skipped // self._input.dtype.itemsize,
                output_skipped // self._output.dtype.itemsize,
            )
            self._plans[key] = call.plan(self._device.limits)
        return self._plans[key]

    def _new_output(self) -> Array:
        slot = self._output
        near_host = self._device.executions.is_near_host(slot.new_bytes)
        try:
            memory = Memory(self._device, slot.new_bytes, near_host=near_host)
        except MemoryError as error:
            raise MemoryError(f"{slot.where} of {slot.sizes} {slot.dtype}: {error}") from None
        return array_in(memory, slot.dtype, View(slot.sizes, slot.strides, 0))

    def _require_apart(self, start: int, output_start: int) -> None:
        end, output_end = start + self._input.spanned_bytes, output_start + self._output.spanned_bytes
        if end <= output_start or output_end <= start:
            return
        if may_share_bytes(self._input.layout_at(start), self._output.layout_at(output_start)):
            raise ValueError(
                f"{self._output.where} in bytes {output_start} to {output_end} overlaps the input in bytes "
                f"{start} to {end} of the same memory; accepted: an output that shares no byte with the "
                "input, or None"
            )


class _Slot:
    """A tensor of an operator, and the arrays that are accepted for it."""

    __slots__ = (
        "accepted",
        "alignment",
        "dtype",
        "new_bytes",
        "sizes",
        "spanned_bytes",
        "strides",
        "total",
        "where",
    )

    def __init__(self, where: str, tensor: BufferTensorDesc) -> None:
        self.where = where
        self.dtype: np.dtype[Any] = tensor.data_type.dtype
        self.sizes = tuple(tensor.sizes)
        self.strides = strides_of(tensor)
        self.total = tensor.total_tensor_size_in_bytes
        self.spanned_bytes = spanned_elements(tensor.sizes, tensor.strides) * self.dtype.itemsize
        self.new_bytes = self.spanned_bytes if tensor.strides is None else self.total
        self.alignment = max(MINIMUM_BUFFER_TENSOR_ALIGNMENT, tensor.guaranteed_base_offset_alignment)
        self.accepted = (
            f"{with_article(self.dtype)} Array of shape {self.sizes} with strides "
            f"{tuple(stride * self.dtype.itemsize for stride in self.strides)} bytes, or a compact 1-D uint8 "
            f"Array of at least {self.total} bytes"
        )

    def start(self, array: Array, device: Device) -> int:
        """Check an array; return the byte of its memory where the tensor starts."""
        if not isinstance(array, Array):
            hint = " (vkdml.asarray copies it to an Array)" if isinstance(array, np.ndarray) else ""
            raise TypeError(f"{self.where} is {type_of(array)}{hint}; accepted: {self.accepted}")
        if array.memory.device is not device:
            require_same_device(device, array.device)
        if not self._is_tensor(array):
            self._require_buffer(array)
        start = array.placement.offset * array.dtype.itemsize
        if start % self.alignment:
            raise ValueError(
                f"{self.where} starts at byte {start} of its memory; accepted: multiples of {self.alignment}"
            )
        return start

    def _is_tensor(self, array: Array) -> bool:
        """Whether an array has the tensor's type, sizes and strides."""
        view = array.placement
        return (
            array.dtype == self.dtype
            and view.shape == self.sizes
            and (view.strides == self.strides or self._strides_fit(view.strides))
        )

    def _require_buffer(self, array: Array) -> None:
        """Raise TypeError or ValueError unless an array that is not the tensor is its buffer."""
        view, dtype = array.placement, array.dtype
        if dtype == np.uint8 and len(view.shape) == 1:
            (size,), (stride,) = view.shape, view.strides
            if size >= self.total and stride == 1:
                return
            spacing = "" if stride == 1 else f" with a stride of {stride} bytes"
            raise ValueError(f"{self.where} is a buffer of {size} bytes{spacing}; accepted: {self.accepted}")
        if dtype == self.dtype and view.shape == self.sizes:
            raise ValueError(f"{self.where} has strides {array.strides} bytes; accepted: {self.accepted}")
        error = ValueError if dtype == self.dtype else TypeError
        raise error(
            f"{self.where} is {with_article(dtype)} Array of shape {view.shape}; accepted: {self.accepted}"
        )

    def layout_at(self, start: int) -> Layout:
        """Return the layout of a tensor that starts at this byte of its memory."""
        itemsize = self.dtype.itemsize
        return Layout(start, self.sizes, tuple(stride * itemsize for stride in self.strides), itemsize)

    def _strides_fit(self, strides: tuple[int, ...]) -> bool:
        """Whether strides equal the tensor's in every dimension of more than one element."""
        wanted = zip(self.sizes, strides, self.strides, strict=True)
        return all(size == 1 or stride == other for size, stride, other in wanted)

    def require_writeable(self, array: Array) -> None:
        if not array.writeable:
            raise ValueError(f"{self.where} is a read-only view; accepted: a writeable Array")

    def array_in(self, array: Array, start: int) -> Array:
        """Return the tensor in a checked array: the array itself, or a view of a buffer."""
        if self._is_tensor(array):
            return array
        return array_in(
            array.memory, self.dtype, View(self.sizes, self.strides, start // self.dtype.itemsize)
        )


__all__ = ["CompiledOperator"]
