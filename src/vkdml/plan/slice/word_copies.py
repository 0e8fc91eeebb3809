"""Copies of elements of up to 4 bytes that are gathered by words of the output; ``slice1.py`` says which."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import run_words
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import SECTOR_BYTES, DeviceLimits, Step, check_work
from vkdml.plan.slice.counted_runs import is_one_run, near_dims, units_of_run
from vkdml.plan.slice.often_read import is_read_often
from vkdml.plan.slice.turns import IN_ORDER, turns_of

# Where at least so much of the sectors that are read is copied, instructions take longer than the memory.
_DENSE = 0.45


def is_of_words(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Return whether the output is one run of a word or more, whose words have elements of two rows at most.

    >>> from vkdml.plan.layout import Dim
    >>> from vkdml.plan.device_classes import DISCRETE
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> pixels = (Dim(640, 4, 3), Dim(3, 1, 1)), (Dim(640, 4, 4), Dim(3, 1, 1))
    >>> [is_of_words(CopyLayout(dims, 0, 0), 1, limits) for dims in pixels]
    [True, False]
    """
    per_word = 4 // element_bytes
    if element_bytes > 4 or not layout.dims or layout.count < per_word or not is_one_run(layout.dims):
        return False
    # In pairs, two of which make up a word, a word begins with a pair.
    row = layout.dims[-1].size
    if row < per_word - 1 and (2 * row != per_word or layout.output_base % row):
        return False
    return _share_of(layout, element_bytes, limits).near_dims is not None


@dataclass(frozen=True)
class _Share:
    """What a workgroup copies of the output, or of each of its parts."""

    workgroup_size: int
    at_once: int
    """Words that an invocation loads together."""
    words: int
    near_dims: int | None
    """Innermost dimensions in which words find their place by division; None if they cannot."""


def _share_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> _Share:
    tuning, dims, per_word = limits.tuning.slice1, layout.dims, 4 // element_bytes
    workgroup_size = min(limits.workgroup_size, tuning.word_workgroup_size)
    count = units_of_run(layout, per_word)
    at_once, sparse = tuning.invocation_words, tuning.sparse_invocation_words
    are_many = count >= 2 * tuning.full_workgroups * sparse * workgroup_size
    if are_many and _share_copied(layout, element_bytes) < _DENSE:
        at_once = sparse
    # Workgroups make one round where the device has room for so many.
    rounds = ceil_div(count, at_once * workgroup_size * limits.max_workgroup_count)
    words = at_once * workgroup_size * rounds
    return _Share(workgroup_size, at_once, words, near_dims(dims, (words + 1) * per_word))


def _share_copied(layout: CopyLayout, element_bytes: int) -> float:
    """Return how much of the sectors that are read is copied, about: all of what is read often.

    >>> from vkdml.plan.layout import Dim
    >>> _share_copied(CopyLayout((Dim(999, 8, 3), Dim(3, 2, 1)), 0, 0), 2)
    0.375
    """
    if is_read_often(layout):
        return 1.0
    share = element_bytes / SECTOR_BYTES
    for dim in layout.dims:
        apart = abs(dim.input_stride) * element_bytes
        if 0 < apart < SECTOR_BYTES:
            share *= min(dim.size, SECTOR_BYTES / apart)
    return min(share, 1.0)


def word_copy(
    layout: CopyLayout, element_bytes: int, limits: DeviceLimits, beside: Dim | None = None
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Args:
        layout: of which ``is_of_words`` is true.
        element_bytes: at most 4.
        limits: of the device.
        beside: a dimension whose elements share sectors of the input, which no cache holds from one to the
            next: the workgroups have a share of each of its parts of the output.

    Raises:
        TooMuchWork: more words than the kernel counts.
    """
    dims, per_word = layout.dims, 4 // element_bytes
    count = units_of_run(layout, per_word)
    check_work("words", count)
    family = kernels.family("slice1_words")
    placed = family.placed(run_words(dims))
    share = _share_of(layout, element_bytes, limits)
    assert share.near_dims is not None
    parts = beside.size if beside is not None else 1
    groups = math.prod(dim.size for dim in dims[: dims.index(beside)]) if beside is not None else 1
    words_of_part = ceil_div(count, groups * parts)
    shares = ceil_div(words_of_part, share.words)
    turns = turns_of(layout, element_bytes, limits) if beside is None else IN_ORDER
    rounds = share.words // (share.at_once * share.workgroup_size)
    loops = loop_steps.words(len(dims), parts, rounds, share.at_once, per_word, share.near_dims)
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=share.workgroup_size,
        layout_in_push=placed.in_push,
        dims=len(dims),
        near_dims=share.near_dims,
        at_once=share.at_once,
        rows_of_words=layout.output_base % per_word == dims[-1].size % per_word == 0,
        parts=parts,
        **turns.constants,
    )
    push = family.push(
        words=count,
        words_per_workgroup=share.words,
        words_of_part=words_of_part,
        shares_of_part=shares,
        elements=layout.count,
        input_base=layout.input_base,
        output_base=layout.output_base,
        **turns.push(shares),
        layout_words=placed.pushed,
    )
    step = Step(kernel, constants, push, groups * shares, loop_steps=loops)
    return step, placed.stored
