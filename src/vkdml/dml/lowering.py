"""From validated descriptors to the planner's calls."""

from __future__ import annotations

from vkdml.common import windows
from vkdml.dml.descriptors import BufferTensorDesc, OperatorDesc, Slice1OperatorDesc, spanned_elements
from vkdml.dml.enums import AxisDirection, ReduceFunction
from vkdml.plan import elements
from vkdml.plan.calls import CopyCall, Operand, ReduceCall
from vkdml.plan.layout import row_major_strides
from vkdml.plan.order import Order


def strides_of(tensor: BufferTensorDesc) -> tuple[int, ...]:
    """Return a tensor's strides in elements, those of a packed tensor too."""
    return row_major_strides(tuple(tensor.sizes)) if tensor.strides is None else tuple(tensor.strides)


def call_of(desc: OperatorDesc, input_base: int = 0, output_base: int = 0) -> ReduceCall | CopyCall:
    """Return the planner's call for a valid descriptor.

    All bases that are multiples of 16 bytes give plans of the same kernels, constants and buffer sizes: sizes
    are counted from the tensors' starts.

    >>> from vkdml.dml import ArgMaxOperatorDesc, DataType
    >>> x = BufferTensorDesc(DataType.FLOAT32, sizes=(2, 3))
    >>> y = BufferTensorDesc(DataType.UINT32, sizes=(2, 1))
    >>> call_of(ArgMaxOperatorDesc(x, y, axes=(1,))).layout.reduced
    (Dim(size=3, input_stride=1, output_stride=1),)

    Args:
        desc: valid.
        input_base: the element of the input buffer at which the input tensor starts.
        output_base: the same for the output.
    """
    x, y = desc.input_tensor, desc.output_tensor
    sizes, strides = tuple(x.sizes), strides_of(x)
    output = Operand(tuple(y.sizes), strides_of(y), output_base, spanned_elements(y.sizes, y.strides))
    span = spanned_elements(x.sizes, x.strides)
    if isinstance(desc, Slice1OperatorDesc):
        steps = tuple(desc.input_window_strides)
        first, stepped = windows.placed(desc.input_window_offsets, desc.input_window_sizes, steps, strides)
        source = Operand(output.sizes, stepped, input_base + first, span)
        return CopyCall(source, output, x.data_type.size_in_bytes)
    order = Order(
        elements.element_name(x.data_type.dtype),
        take_min=desc.function is ReduceFunction.ARGMIN,
        take_last=desc.axis_direction is AxisDirection.DECREASING,
        omit_nan=True,
    )
    return ReduceCall(
        Operand(sizes, strides, input_base, span),
        tuple(sorted(desc.axes)),
        order,
        output,
        y.data_type.size_in_bytes,
    )
