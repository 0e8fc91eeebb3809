"""The operators on CUDA tensors, and on Arrays whose results go to CUDA tensors."""

from __future__ import annotations

from typing import Any

from vkdml.arguments import ReduceRequest, SliceRequest, context
from vkdml.arrays import foreign
from vkdml.arrays.array import Array
from vkdml.integrations.cuda_tensors import Output, taken
from vkdml.operators import on_device
from vkdml.operators.result import ArgReduceResult


def reduce(x: Any, request: ReduceRequest) -> Any:
    """See :func:`vkdml.argmax`."""
    with context(request.operator, x):
        array = _array(x)
        given = request.outputs()
        outputs = [_output(out, what) for out, what in zip(given, ("out", "out for the values"), strict=True)]
    if not any(outputs):
        return on_device.reduce(array, request)
    written = tuple(
        out if output is None else output.array for out, output in zip(given, outputs, strict=True)
    )
    result = on_device.reduce(array, request._replace(out=written if request.return_values else written[0]))
    with context(request.operator, x):
        if not request.return_values:
            return _delivered(result, outputs[0])
        indices, values = (_delivered(part, output) for part, output in zip(result, outputs, strict=True))
        return ArgReduceResult(indices, values)


def slice1(x: Any, request: SliceRequest) -> Any:
    """See :func:`vkdml.slice1`."""
    with context("slice1", x):
        array, output = _array(x), _output(request.out, "out")
    result = on_device.slice1(array, request if output is None else request._replace(out=output.array))
    with context("slice1", x):
        return _delivered(result, output)


def _array(x: Any) -> Array:
    return x if isinstance(x, Array) else taken(x)


def _output(out: Any, what: str) -> Output | None:
    """Return a CUDA tensor given for a result as an output; None for an Array and for nothing."""
    if out is None or isinstance(out, Array):
        return None
    if foreign.lies_on_cuda(out):
        return Output(out, what)
    raise TypeError(
        f"{what} must be a CUDA tensor or a vkdml.Array on the GPU where the input lies, not "
        f"{type(out).__name__}"
    )


def _delivered(result: Any, output: Output | None) -> Any:
    return result if output is None else output.deliver()
