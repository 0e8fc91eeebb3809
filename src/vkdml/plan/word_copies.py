"""Copies of elements of up to 4 bytes that are gathered by words of the output; ``slice1.py`` says which."""

from __future__ import annotations

from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import run_words
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import DeviceLimits, Step, ceil_div, check_work

# Words that an invocation of `slice1_words.comp` loads together.
_AT_ONCE = 2


def is_of_words(layout: CopyLayout, element_bytes: int) -> bool:
    """Return whether the output is one run of a word or more, whose words have elements of two rows at most.

    >>> from vkdml.plan.layout import Dim
    >>> pixels = (Dim(640, 4, 3), Dim(3, 1, 1)), (Dim(640, 4, 4), Dim(3, 1, 1))
    >>> [is_of_words(CopyLayout(dims, 0, 0), 1) for dims in pixels]
    [True, False]
    """
    per_word = 4 // element_bytes
    if element_bytes > 4 or not layout.dims or layout.count < per_word:
        return False
    run = 1
    for dim in reversed(layout.dims):
        if dim.output_stride != run:
            return False
        run *= dim.size
    # In pairs, two of which make up a word, a word begins with a pair.
    row = layout.dims[-1].size
    return row >= per_word - 1 or (2 * row == per_word and layout.output_base % row == 0)


def row_words(inner: Dim, element_bytes: int) -> int:
    """Return how kernels read rows of single bytes by words: 1 forwards, 2 backwards; 0 where they do not.

    >>> from vkdml.plan.layout import Dim
    >>> row_words(Dim(3, -1, 1), 1), row_words(Dim(3, 2, 1), 1), row_words(Dim(3, 1, 1), 2)
    (2, 0, 0)
    """
    return {1: 1, -1: 2}.get(inner.input_stride, 0) if element_bytes == 1 else 0


def word_copy(
    layout: CopyLayout, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Raises:
        TooMuchWork: more words than the kernel counts.
    """
    tuning = limits.tuning.slice1
    per_word = 4 // element_bytes
    count = ceil_div(layout.output_base % per_word + layout.count, per_word)
    check_work("words", count)
    family = kernels.family("slice1_words")
    layout_words = run_words(layout.dims)
    in_push = len(layout_words) <= family.layout_room
    workgroup_size = min(limits.workgroup_size, tuning.word_workgroup_size)
    per_round = _AT_ONCE * (loop_steps.loop(len(layout.dims) - 1) + loop_steps.loop(per_word))
    rounds = min(tuning.invocation_words // _AT_ONCE, (limits.max_loop_steps - 1) // (1 + per_round))
    rounds = max(rounds, 1, ceil_div(count, _AT_ONCE * workgroup_size * limits.max_workgroup_count))
    per_workgroup = _AT_ONCE * rounds * workgroup_size
    kernel, constants = family.specialize(
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=in_push,
        dims=len(layout.dims),
        row_words=row_words(layout.dims[-1], element_bytes),
    )
    push = family.push(
        words=count,
        words_per_workgroup=per_workgroup,
        elements=layout.count,
        input_base=layout.input_base,
        output_base=layout.output_base,
        last_vector=last_vector,
        layout_words=layout_words if in_push else (),
    )
    loops = loop_steps.loop(rounds, per_round)
    step = Step(kernel, constants, push, ceil_div(count, per_workgroup), loop_steps=loops)
    return step, () if in_push else layout_words
