"""How many sectors of memory elements touch."""

from __future__ import annotations

from collections.abc import Iterable

from vkdml.common.rounding import ceil_div
from vkdml.plan.plans import SECTOR_BYTES


def sector_bytes_of(dims: Iterable[tuple[int, int]], nbytes: int) -> int:
    """Return about how many bytes the sectors have that elements along some dimensions touch.

    >>> sector_bytes_of([(4, 1), (8, 16)], 4), sector_bytes_of([(4, 1), (8, 16)], 1)
    (256, 128)

    Args:
        dims: their sizes and strides, in elements.
        nbytes: of an element.
    """
    pieces, piece = 1, nbytes
    for size, stride in sorted(dims, key=lambda dim: abs(dim[1])):
        step = abs(stride) * nbytes
        if step - piece < SECTOR_BYTES:
            piece += (size - 1) * step
        else:
            pieces *= size
    return pieces * ceil_div(piece, SECTOR_BYTES) * SECTOR_BYTES
