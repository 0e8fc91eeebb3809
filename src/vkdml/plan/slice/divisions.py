"""What kernels read instead of dividing: a multiplication takes the place of a division."""

from __future__ import annotations

from collections.abc import Iterable

from vkdml.plan.layout import Dim
from vkdml.plan.plans import WORDS_LIMIT, words


def whole_inverse(size: int) -> int:
    """Return what ``slice1_divide.glsl`` takes for a size: quotients are 1 too low at most."""
    return min(WORDS_LIMIT // size, WORDS_LIMIT - 1)


def run_words(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Return what kernels that divide so read of dimensions: size, inverse, input and output stride."""
    return words(
        word
        for dim in dims
        for word in (dim.size, whole_inverse(dim.size), dim.input_stride, dim.output_stride)
    )
