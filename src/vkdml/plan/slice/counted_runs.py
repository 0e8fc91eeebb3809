"""What words and rows share: copies into one run, whose workgroups find their place once and count on."""

from __future__ import annotations

from collections.abc import Sequence

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import WORDS_LIMIT


def is_one_run(dims: Sequence[Dim]) -> bool:
    """Return whether the output is contiguous along all dimensions.

    >>> is_one_run((Dim(9, 40, 3), Dim(3, 2, 1))), is_one_run((Dim(9, 40, 4), Dim(3, 2, 1)))
    (True, False)
    """
    run = 1
    for dim in reversed(dims):
        if dim.output_stride != run:
            return False
        run *= dim.size
    return True


def near_dims(dims: Sequence[Dim], elements: int) -> int | None:
    """Return in how many innermost dimensions a workgroup of so many elements finds places by division.

    They are repeated along the next dimension: the workgroup touches two of these planes at most.

    Returns:
        None where the quotients would not be exact.

    >>> near_dims((Dim(99, 4000, 21), Dim(7, 500, 3), Dim(3, 1, 1)), 8)
    1
    """
    near, within = 0, 1
    while near < len(dims) - 1 and within * dims[-1 - near].size < elements:
        within *= dims[-1 - near].size
        near += 1
    return near if (elements + within) * within < WORDS_LIMIT else None


def units_of_run(layout: CopyLayout, per_unit: int) -> int:
    """Return the words or vectors that a run touches, of so many elements each; at its ends, in part.

    >>> units_of_run(CopyLayout((Dim(3, 1, 1),), 0, 3), 4)
    2
    """
    return ceil_div(layout.output_base % per_unit + layout.count, per_unit)
