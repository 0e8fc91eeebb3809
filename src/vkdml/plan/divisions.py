"""What kernels read instead of dividing: they multiply by a reciprocal, and take the high word."""

from __future__ import annotations

from collections.abc import Iterable

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import Dim
from vkdml.plan.plans import WORDS_LIMIT, words


def reciprocal(size: int) -> int:
    """Return what ``slice1_divide.glsl`` takes for a size: quotients are 1 too low at most.

    >>> 1000 * reciprocal(8) >> 32
    125
    """
    return min(WORDS_LIMIT // size, WORDS_LIMIT - 1)


def reciprocal_below(size: int) -> int:
    """Return what ``rows_memory_order.glsl`` takes for a size: quotients are 1 too low at most.

    >>> 1000 * reciprocal_below(8) >> 32
    124
    """
    return (WORDS_LIMIT - 1) // size


def exact_reciprocal(size: int) -> int:
    """Return what ``slice1_boxes.comp`` takes for a size: quotients of numbers below 2^16 are exact.

    >>> 1000 * exact_reciprocal(3) >> 32
    333

    Returns:
        0 for a size of 1.
    """
    return 0 if size == 1 else ceil_div(WORDS_LIMIT, size)


def run_words(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Return what kernels that divide so read of dimensions: size, reciprocal, input and output stride."""
    return words(
        word for dim in dims for word in (dim.size, reciprocal(dim.size), dim.input_stride, dim.output_stride)
    )
