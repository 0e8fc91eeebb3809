"""From validated descriptors to canonical layouts and plans."""

from __future__ import annotations

from vkdml.dml.descriptors import BufferTensorDesc, OperatorDesc, Slice1OperatorDesc, spanned_elements
from vkdml.dml.enums import AxisDirection, ReduceFunction
from vkdml.plan import elements as dtypes
from vkdml.plan.argreduce import plan_argreduce
from vkdml.plan.layout import CopyLayout, ReduceLayout, canonical_copy, canonical_reduce, row_major_strides
from vkdml.plan.plans import DeviceLimits, Element, Plan
from vkdml.plan.slice1 import plan_slice1


def strides_of(tensor: BufferTensorDesc) -> tuple[int, ...]:
    """Return a tensor's strides in elements, those of a packed tensor too."""
    return row_major_strides(tuple(tensor.sizes)) if tensor.strides is None else tuple(tensor.strides)


def layout_of(desc: OperatorDesc, input_base: int = 0, output_base: int = 0) -> ReduceLayout | CopyLayout:
    """Return the canonical layout of a valid descriptor.

    >>> from vkdml.dml import ArgMaxOperatorDesc, DataType
    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(2, 3))
    >>> y = BufferTensorDesc(DataType.UINT32, sizes=(2, 1))
    >>> layout_of(ArgMaxOperatorDesc(x, y, axes=(1,))).reduced
    (Dim(size=3, input_stride=1, output_stride=1),)

    Args:
        desc: a descriptor that :func:`validate` accepts.
        input_base: element of the input's memory where its tensor starts.
        output_base: element of the output's memory where its tensor starts.
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
    """Return the plan of a valid descriptor.

    Bases that differ by multiples of 16 bytes change push constants only: buffer sizes count from the
    tensors' starts.

    Args:
        desc, input_base, output_base: as for :func:`layout_of`.
        limits: the limits of the device.

    Raises:
        MemoryError: a tensor is larger than a buffer of the device can be.
        ValueError: more work than the kernels can count.
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
