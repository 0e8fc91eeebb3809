"""DirectML's descriptors as canonical layouts and plans."""

from __future__ import annotations

from vkdml.dml import AxisDirection, BufferTensorDesc, OperatorDesc, ReduceFunction, Slice1OperatorDesc
from vkdml.dml.descriptors import spanned_elements
from vkdml.plan import elements as dtypes
from vkdml.plan.argreduce import plan_argreduce
from vkdml.plan.layout import CopyLayout, ReduceLayout, canonical_copy, canonical_reduce, row_major_strides
from vkdml.plan.plans import DeviceLimits, Element, Plan
from vkdml.plan.slice1 import plan_slice1


def strides_of(tensor: BufferTensorDesc) -> tuple[int, ...]:
    """Return a tensor's strides in elements, also where it is packed."""
    return row_major_strides(tuple(tensor.sizes)) if tensor.strides is None else tuple(tensor.strides)


def layout_of(desc: OperatorDesc, input_base: int = 0, output_base: int = 0) -> ReduceLayout | CopyLayout:
    """Return the canonical layout of a valid descriptor; the bases are the elements where its tensors start.

    >>> from vkdml.dml import ArgMaxOperatorDesc, DataType
    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(2, 3))
    >>> y = BufferTensorDesc(DataType.UINT32, sizes=(2, 1))
    >>> layout_of(ArgMaxOperatorDesc(x, y, axes=(1,))).reduced
    (Dim(size=3, input_stride=1, output_stride=1),)
    """
    strides, output_strides = strides_of(desc.input_tensor), strides_of(desc.output_tensor)
    if isinstance(desc, Slice1OperatorDesc):
        steps = tuple(desc.input_window_strides)
        window = zip(desc.input_window_offsets, desc.input_window_sizes, steps, strides, strict=True)
        for offset, size, step, stride in window:
            input_base += (offset + (size - 1 if step < 0 else 0)) * stride
        return canonical_copy(
            tuple(desc.output_tensor.sizes),
            tuple(step * stride for step, stride in zip(steps, strides, strict=True)),
            output_strides,
            input_base=input_base,
            output_base=output_base,
        )
    return canonical_reduce(
        tuple(desc.input_tensor.sizes),
        strides,
        tuple(sorted(desc.axes)),
        output_strides,
        take_last=desc.axis_direction is AxisDirection.DECREASING,
        input_base=input_base,
        output_base=output_base,
    )


def plan_of(desc: OperatorDesc, limits: DeviceLimits, input_base: int = 0, output_base: int = 0) -> Plan:
    """Return the plan of a valid descriptor; the bases are as for :func:`layout_of`.

    All bases that are multiples of 16 bytes give the same kernels, constants and buffer sizes: sizes are
    counted from the tensors' starts.

    Raises:
        MemoryError: a tensor is more than a buffer of the device can hold.
        ValueError: more work than the kernels count.
    """
    layout = layout_of(desc, input_base, output_base)
    x, y = desc.input_tensor, desc.output_tensor
    input_elements = spanned_elements(x.sizes, x.strides)
    output_elements = spanned_elements(y.sizes, y.strides)
    if isinstance(layout, CopyLayout):
        return plan_slice1(
            layout, x.data_type.size_in_bytes, input_elements, limits, output_elements=output_elements
        )
    assert not isinstance(desc, Slice1OperatorDesc)
    return plan_argreduce(
        layout,
        Element(dtypes.element_name(x.data_type.dtype), x.data_type.size_in_bytes),
        input_elements,
        limits,
        take_min=desc.function is ReduceFunction.ARGMIN,
        take_last=desc.axis_direction is AxisDirection.DECREASING,
        omit_nan=True,
        index_bytes=y.data_type.size_in_bytes,
        with_values=False,
        output_elements=output_elements,
    )
