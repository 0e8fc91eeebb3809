"""Operators compiled for a device: validated and planned once, dispatched on any arrays that fit."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from vkdml.arrays.array import Array, array_in
from vkdml.arrays.indexing import View
from vkdml.arrays.operations import require_same_device
from vkdml.arrays.overlap import Box, may_overlap
from vkdml.common.wording import type_of, with_article
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
from vkdml.dml.lowering import plan_of, strides_of
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device
from vkdml.runtime.memory import BINDING_ALIGNMENT, Memory
from vkdml.runtime.recording import Region, recordable_steps


class CompiledOperator:
    """A DirectML operator made ready for a device; made by :meth:`vkdml.Device.compile`. Immutable.

    >>> import numpy as np, vkdml
    >>> from vkdml import dml
    >>> x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
    >>> y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
    >>> op = vkdml.default_device().compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
    >>> op.dispatch(input=vkdml.asarray(np.float32([[1, 3, 2], [9, 8, 7]]))).tolist()
    [[1], [0]]

    Any number of threads may dispatch it at once.
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
            raise TypeError(f"device is {type_of(device)}; accepted: a vkdml.Device")
        validate(desc, feature_level)
        desc = operator_of(desc)
        device.require_usable()
        self._device = device
        self._desc = desc
        self._input = _Slot(f"{desc.operator}: input", desc.input_tensor)
        self._output = _Slot(f"{desc.operator}: output", desc.output_tensor)
        # By where in their binding regions the tensors start: the rest of a plan is the same for all starts.
        self._plans: dict[tuple[int, int], Plan] = {}
        try:
            device.executions.insist(lambda: recordable_steps(device.executions, self._plan(0, 0)))
        except (MemoryError, ValueError) as error:
            error.args = (f"{desc.operator}: {error}",)
            raise

    @property
    def desc(self) -> OperatorDesc:
        """The descriptor that was compiled."""
        return self._desc

    @property
    def device(self) -> Device:
        """The device that it was compiled for."""
        return self._device

    @property
    def temporary_size(self) -> int:
        """Bytes of workspace that a dispatch takes; it is allocated and kept by the device."""
        return self._plan(0, 0).bytes_of("workspace")

    def __repr__(self) -> str:
        x, y = self._desc.input_tensor, self._desc.output_tensor
        return (
            f"<vkdml.CompiledOperator {self._desc.operator} {x.data_type.name} {tuple(x.sizes)} -> "
            f"{y.data_type.name} {tuple(y.sizes)} device={self._device.info.index}: {self._device.name}>"
        )

    def __copy__(self) -> CompiledOperator:
        return self

    def __deepcopy__(self, _: object) -> CompiledOperator:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a compiled operator is bound to its device and cannot be pickled: "
            "send its desc, and compile that there"
        )

    def explain(self) -> str:
        """Return what a dispatch does, as text of at most 80 columns: tensors, layout, kernels, buffers.

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
        """Run the operator on arrays of its device, and wait until it is done.

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
            input: an array with the dtype, sizes and strides of ``desc.input_tensor`` (packed where it has
                no strides; dimensions of size 1 may have any stride); or else the tensor's buffer, a compact
                1-D uint8 array of at least ``total_tensor_size_in_bytes``. Either starts at a multiple of 16
                bytes in its memory, or of ``guaranteed_base_offset_alignment`` if that is more.
            output: None, or where to write, in the same two forms; bytes between and after the elements are
                kept.

        Returns:
            An array of ``desc.output_tensor``'s dtype, sizes and strides: ``output`` itself, a view of it
            where it is a buffer, or a new array.

        Raises:
            TypeError: not an Array (``vkdml.asarray`` makes one), or one of another dtype.
            ValueError: another device, other sizes or strides, too small a buffer, a start that is not
                aligned, a read-only output, or one that overlaps the input. Nothing is written.
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
        """What the kernels call the output."""
        return "output" if self._desc.operator == "SLICE1" else "indices"

    def _plan(self, input_skipped: int, output_skipped: int) -> Plan:
        """Return the plan for tensors that start so many bytes into their regions."""
        key = (input_skipped, output_skipped)
        if key not in self._plans:
            self._plans[key] = plan_of(
                self._desc,
                self._device.limits,
                input_skipped // self._input.dtype.itemsize,
                output_skipped // self._output.dtype.itemsize,
            )
        return self._plans[key]

    def _new_output(self) -> Array:
        slot = self._output
        near_host = slot.new_bytes <= self._device.limits.tuning.shared_bytes
        try:
            memory = Memory(self._device, slot.new_bytes, near_host=near_host)
        except MemoryError as error:
            raise MemoryError(f"{slot.where} of {slot.sizes} {slot.dtype}: {error}") from None
        return array_in(memory, slot.dtype, View(slot.sizes, slot.strides, 0))

    def _require_apart(self, start: int, output_start: int) -> None:
        read, written = self._input.box(start), self._output.box(output_start)
        end, output_end = read.end, written.end
        if start < output_end and output_start < end and may_overlap(read, written):
            raise ValueError(
                f"{self._output.where} in bytes {output_start} to {output_end} overlaps the input in bytes "
                f"{start} to {end} of the same memory; accepted: an output that lies apart, or None"
            )


class _Slot:
    """What an array must be to stand for one of an operator's tensors."""

    __slots__ = (*("accepted", "alignment", "dtype", "new_bytes", "sizes", "strides", "total", "where"),)

    def __init__(self, where: str, tensor: BufferTensorDesc) -> None:
        self.where = where
        self.dtype: np.dtype[Any] = tensor.data_type.dtype
        self.sizes = tuple(tensor.sizes)
        self.strides = strides_of(tensor)
        self.total = tensor.total_tensor_size_in_bytes
        elements = spanned_elements(tensor.sizes, tensor.strides)
        self.new_bytes = elements * self.dtype.itemsize if tensor.strides is None else self.total
        self.alignment = max(MINIMUM_BUFFER_TENSOR_ALIGNMENT, tensor.guaranteed_base_offset_alignment)
        self.accepted = (
            f"{with_article(self.dtype)} Array of shape {self.sizes} with strides "
            f"{tuple(stride * self.dtype.itemsize for stride in self.strides)} bytes, or a compact 1-D uint8 "
            f"Array of at least {self.total} bytes"
        )

    def start(self, array: Array, device: Device) -> int:
        """Return the byte of its memory where the tensor starts in an array, which is checked."""
        if not isinstance(array, Array):
            hint = " (vkdml.asarray makes one of it)" if isinstance(array, np.ndarray) else ""
            raise TypeError(f"{self.where} is {type_of(array)}{hint}; accepted: {self.accepted}")
        if array.memory.device is not device:
            require_same_device(device, array.device)
        view, dtype = array.view, array.dtype
        if dtype == self.dtype and view.shape == self.sizes:
            if view.strides != self.strides and not self._strides_fit(view.strides):
                raise ValueError(f"{self.where} has strides {array.strides} bytes; accepted: {self.accepted}")
        elif dtype != np.uint8 or len(view.shape) != 1:
            error = ValueError if dtype == self.dtype else TypeError
            raise error(
                f"{self.where} is {with_article(dtype)} Array of shape {view.shape}; "
                f"accepted: {self.accepted}"
            )
        elif view.shape[0] < self.total or view.strides[0] != 1:
            spacing = "" if view.strides[0] == 1 else f" that lie {view.strides[0]} apart"
            raise ValueError(
                f"{self.where} is a buffer of {view.shape[0]} bytes{spacing}; accepted: {self.accepted}"
            )
        start = view.offset * dtype.itemsize
        if start % self.alignment:
            raise ValueError(
                f"{self.where} starts at byte {start} of its memory; accepted: multiples of {self.alignment}"
            )
        return start

    def box(self, start: int) -> Box:
        """Return where the elements lie of a tensor that starts at a byte."""
        itemsize = self.dtype.itemsize
        return Box(start, self.sizes, tuple(stride * itemsize for stride in self.strides), itemsize)

    def _strides_fit(self, strides: tuple[int, ...]) -> bool:
        """Whether strides are the tensor's but for dimensions of size 1."""
        wanted = zip(self.sizes, strides, self.strides, strict=True)
        return all(size == 1 or stride == other for size, stride, other in wanted)

    def require_writeable(self, array: Array) -> None:
        if not array.writeable:
            raise ValueError(f"{self.where} is a read-only view; accepted: a writeable Array")

    def array_in(self, array: Array, start: int) -> Array:
        """Return the tensor in an array that was checked: itself, or a view of a buffer."""
        if array.dtype == self.dtype and array.view.shape == self.sizes:
            return array
        return array_in(
            array.memory, self.dtype, View(self.sizes, self.strides, start // self.dtype.itemsize)
        )


__all__ = ["CompiledOperator"]
