"""Copies into one run of rows that are no shorter than a vector, but of halves; ``slice1.py`` says which."""

from __future__ import annotations

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import run_words
from vkdml.plan.layout import CopyLayout
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, Step, check_work
from vkdml.plan.slice.counted_runs import is_one_run, near_dims, units_of_run
from vkdml.plan.slice.rounds import rounds_of_workgroup
from vkdml.plan.slice.turns import turns_of


def is_of_rows(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> bool:
    """Return whether the output is one run of several rows, each of a vector or more.

    >>> from vkdml.plan.layout import Dim
    >>> from vkdml.plan.device_classes import DISCRETE
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> rows = (Dim(640, 600, 301), Dim(301, 1, 1)), (Dim(640, 600, 9), Dim(9, 1, 1))
    >>> [is_of_rows(CopyLayout(dims, 0, 0), 1, limits) for dims in rows]
    [True, False]
    """
    has_kernel = bool(kernels.family("slice1_rows").numbers_of("step", element_bytes=element_bytes))
    if not has_kernel or not limits.tuning.slice1.row_workgroup_size or len(layout.dims) < 2:
        return False
    if layout.dims[-1].size * element_bytes < VECTOR_BYTES or not is_one_run(layout.dims):
        return False
    near, tuning = _share_of(layout, element_bytes, limits)[1], limits.tuning.slice1
    most = tuning.narrow_most_near_dims if element_bytes < 4 else tuning.most_near_dims
    return near is not None and near <= most


def _share_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> tuple[int, int | None]:
    """Return the vectors that a workgroup copies, and the dimensions that are near for so many."""
    per_vector, workgroup_size = VECTOR_BYTES // element_bytes, _workgroup_size(limits)
    count = units_of_run(layout, per_vector)
    rounds = rounds_of_workgroup(count, workgroup_size, limits.tuning.slice1.workgroup_row_vectors, limits)
    vectors = rounds * workgroup_size
    return vectors, near_dims(layout.dims, (vectors + 1) * per_vector)


def _workgroup_size(limits: DeviceLimits) -> int:
    return min(limits.workgroup_size, limits.tuning.slice1.row_workgroup_size)


def row_copy(
    layout: CopyLayout, element_bytes: int, last_vector: int, limits: DeviceLimits
) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Args:
        layout: of which ``is_of_rows`` is true.
        element_bytes: 1, 4, 8 or 16.
        last_vector: of the input.
        limits: of the device.

    Raises:
        TooMuchWork: more vectors than the kernel counts.
    """
    dims, per_vector = layout.dims, VECTOR_BYTES // element_bytes
    count = units_of_run(layout, per_vector)
    check_work("vectors", count)
    family = kernels.family("slice1_rows")
    placed = family.placed(run_words(dims))
    workgroup_size = _workgroup_size(limits)
    share, near = _share_of(layout, element_bytes, limits)
    assert near is not None
    stride = dims[-1].input_stride
    workgroups = ceil_div(count, share)
    turns = turns_of(layout, element_bytes, limits)
    kernel, constants = family.specialize(
        step=stride if stride in family.numbers_of("step", element_bytes=element_bytes) else 0,
        element_bytes=element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        dims=len(dims),
        near_dims=near,
        **turns.constants,
    )
    push = family.push(
        vectors=count,
        vectors_per_workgroup=share,
        elements=layout.count,
        input_base=layout.input_base,
        output_base=layout.output_base,
        last_vector=last_vector,
        **turns.push(workgroups),
        layout_words=placed.pushed,
    )
    loops = loop_steps.copied_rows(len(dims), share // workgroup_size, near)
    step = Step(kernel, constants, push, workgroups, loop_steps=loops)
    return step, placed.stored
