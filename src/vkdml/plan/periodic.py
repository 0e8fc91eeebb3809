"""Planning reductions of short blocks of memory, with kept dimensions in them, that repeat again and again.

One reduced dimension is walked: the one that repeats a contiguous block. All other dimensions, kept or
reduced, are columns. A first kernel finds the best of each column, a second one the best of the columns that
belong to one output. Along one dimension positions ascend with the index, so the others may lie in memory in
any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from vkdml.plan import kernels
from vkdml.plan.columns import MOST_LANES_UNSPLIT, column_shape
from vkdml.plan.layout import Dim, ReduceLayout, contiguous
from vkdml.plan.loop_steps import PeriodLoops
from vkdml.plan.order import Order
from vkdml.plan.plans import (
    VECTOR_BYTES,
    WORDS_LIMIT,
    DeviceLimits,
    Plan,
    Step,
    TooMuchWork,
    ceil_div,
    check_work,
    checked_step,
    dim_words,
    power_of_two_at_least,
    words,
)
from vkdml.plan.reductions import (
    NARROW_SHARE,
    Results,
    bases,
    buffer_bytes,
    candidate_words,
    dimension_words,
    enough_splits,
    fixed_flags,
    most_candidates,
    order_rules,
    whole_waves,
    workgroups_at_once,
)
from vkdml.plan.schema import ElementType
from vkdml.plan.shapes import are_multiples
from vkdml.plan.tuning import Tuning

CANDIDATES_AT_ONCE = kernels.number("candidates_at_once")
# Vectors. A workgroup reads so many side by side at least, where a period is longer.
FEWEST_VECTORS = 16
# Longer periods are read in pieces of so many vectors, by element width.
_LONG_PERIOD = 128
_PIECE = {1: 16, 2: 16, 4: 32, 8: 32}
# Vectors. Blocks of a longer period share few lines.
_SHORT_PERIOD = 256
# Bytes of rows that a processor reads one by one in less time than in short periods.
_LONG_ROW = 256
# By element width, groups of elements that compete for an output and are side by side, from which on a
# processor walks longer than it reads periods: of two or four elements, and of others up to so many.
_LONG_WALK = {1: (1024, 5000), 2: (256, 1000)}
_MOST_SIDE_BY_SIDE = 12
# Longer rows are read as rows.
LONGEST_ROW_BYTES = 4096
# Bytes of aligned rows of narrow elements whose columns may be faster.
_SHORTEST_ROW_OF_COLUMNS = 64
# Of `positions_per_split` periods, which an invocation of a short period folds at least: fewer are less work
# than the exchange.
FOLDED_PERIODS = 4
# The most bytes of a row, and the fewest rows, of matrices of wide elements that are read in periods.
_NARROW_MATRICES = (VECTOR_BYTES, 400), (3 * VECTOR_BYTES, 1500)
# Fewer rows are as fast as columns.
MANY_ROWS = 256
# Of wide elements, unaligned rows of up to so many elements, if there are so many. Those of few elements are
# joined otherwise: of these, columns of so many bytes.
_LONGEST_UNALIGNED_ROW = 8192
_MANY_UNALIGNED_ROWS = 400
_SHORT_UNALIGNED_ROW = 36
_LONG_COLUMN_BYTES = 15 * 1024
# Shorter walks would leave too many candidates.
FEWEST_PERIODS = 4
_PERIODS = kernels.family("argreduce_periods")
_COMBINE = kernels.family("argreduce_combine")


@dataclass(frozen=True)
class _Column:
    """A dimension of the columns."""

    size: int
    stride: int
    """In the input, in elements; positive."""
    weight: int
    """What a step adds to the position in the reduction; 0 for a kept dimension."""
    kept: int
    """Which kept dimension of the layout it is, or -1."""


@dataclass(frozen=True)
class Walk:
    """A way to read the input: a block of memory and its repetitions are a stretch; there are several."""

    size: int
    """Repetitions."""
    block: int
    """Elements of one."""
    weight: int
    """What a repetition adds to the position in the reduction."""
    copies: int
    """Repetitions of a period."""
    inner: tuple[_Column, ...]
    """The dimensions of the block, the innermost first."""
    outer: tuple[_Column, ...]
    """The dimensions of the stretches, the innermost first."""

    @property
    def run(self) -> int:
        """Elements of a period, whole vectors."""
        return self.block * self.copies

    @property
    def stretches(self) -> int:
        return math.prod(column.size for column in self.outer)

    @property
    def columns(self) -> int:
        return self.run * self.stretches


def walks(layout: ReduceLayout, per_vector: int) -> Iterator[Walk]:
    """Yield every way to walk along one reduced dimension of this layout."""
    if not layout.reduced:
        return
    weights = [1]
    for dim in reversed(layout.reduced[1:]):
        weights.append(weights[-1] * dim.size)
    columns = [
        _Column(dim.size, dim.input_stride, 0, number)
        for number, dim in enumerate(layout.kept)
        if dim.input_stride
    ]
    columns += [
        _Column(dim.size, dim.input_stride, weight, -1)
        for dim, weight in zip(layout.reduced, reversed(weights), strict=True)
    ]
    columns.sort(key=lambda column: column.stride)
    if columns[0].stride <= 0:
        return
    block = 1
    for place, column in enumerate(columns):
        if column.stride != block:
            return
        if column.kept < 0:
            copies = per_vector // math.gcd(block, per_vector)
            inner, outer = tuple(columns[:place]), tuple(columns[place + 1 :])
            yield Walk(column.size, block, column.weight, copies, inner, outer)
        block *= column.size


def best_walk(layout: ReduceLayout, element: ElementType, input_bytes: int) -> Walk | None:
    """Return the walk with the fewest columns whose candidates fit the scratch memory, if there is one."""
    per_vector = VECTOR_BYTES // element.nbytes
    most = most_candidates(element, input_bytes)
    good = []
    for walk in walks(layout, per_vector):
        splits = ceil_div(walk.size, walk.copies * NARROW_SHARE) if element.nbytes < 4 else 1
        fits = len(walk.outer) * kernels.number("copied_dim_words") <= _PERIODS.layout_room
        fits &= walk.size * walk.block + 2 * walk.run < WORDS_LIMIT
        if fits and walk.size >= FEWEST_PERIODS * walk.copies and walk.columns * splits <= most:
            good.append(walk)
    return min(good, key=lambda walk: walk.columns, default=None)


def is_periodic(
    layout: ReduceLayout,
    element: ElementType,
    input_bytes: int,
    limits: DeviceLimits,
    *,
    with_values: bool = False,
) -> bool:
    """Tell whether other kernels would read the memory in short pieces, and so much that it matters."""
    tuning = limits.tuning
    if input_bytes < tuning.periods_from_bytes:
        return False
    if not _has_few_columns(layout, element, input_bytes, tuning.period_column_bytes):
        return False
    if is_out_of_order(layout, element, input_bytes, limits):
        return True
    if not any(dim.input_stride for dim in layout.kept):
        return False
    inner_kept = layout.kept[-1]
    kept_bytes = inner_kept.size * element.nbytes if inner_kept.input_stride == 1 else 0
    if kept_bytes:
        if kept_bytes < VECTOR_BYTES:
            return True
        if element.nbytes < 4 and input_bytes >= tuning.narrow_periods_from_bytes:
            # With values single bytes take 3% to 6% longer so.
            in_columns = element.nbytes > 1 or not with_values
            return not (in_columns and _are_unsplit_columns(layout, element, kept_bytes, input_bytes, limits))
        if element.nbytes < 4 and tuning.unaligned_periods and _is_unaligned_matrix(layout, element):
            return True
        if input_bytes >= tuning.wide_periods_from_bytes:
            row = _row_of_matrices(layout, element, tuning)
            if _are_narrow_matrices(row, layout, element, tuning):
                return True
            if _are_unaligned_matrices(row, layout, element):
                least = tuning.wide_period_column_bytes[element.nbytes == 8]
                return _has_few_columns(layout, element, input_bytes, least)
        # Several reduced dimensions, of which the innermost lies side by side with the kept one.
        beside = [dim for dim in layout.reduced if dim.input_stride == inner_kept.size]
        return len(layout.reduced) > 1 and bool(beside) and kept_bytes < tuning.columns_segment_bytes
    inner = [dim for dim in layout.reduced if dim.input_stride == 1]
    if not inner or len(layout.reduced) == 1:
        return False
    row_bytes = inner[0].size * element.nbytes
    return row_bytes <= LONGEST_ROW_BYTES and not _are_fast_rows(
        layout, element, row_bytes, input_bytes, tuning
    )


def _are_fast_rows(
    layout: ReduceLayout, element: ElementType, row_bytes: int, input_bytes: int, tuning: Tuning
) -> bool:
    """Whether a processor reads rows faster than periods, of which each column would have few positions.

    On lavapipe rows take 0.49 to 1.2 of the time then.
    """
    if not tuning.period_positions or row_bytes < _LONG_ROW or element.nbytes == 8:
        return False
    walk = best_walk(layout, element, input_bytes)
    return walk is not None and walk.size < tuning.period_positions * walk.copies


def are_long_walks(layout: ReduceLayout, element: ElementType) -> bool:
    """Tell whether periods take less time than walks from element to element out of memory order (lavapipe).

    Each invocation of a walk waits for lines of its own: in periods halves take 0.36 to 1.0 of the time and
    bytes 0.59 to 1.0, but for those of whole words. The layout can be read as periods.
    """
    order = layout.memory_order
    if order is None or order.run_dims != 2 or element.nbytes >= 4:
        return False
    side_by_side = order.dims[-1].size
    groups = layout.reduce_count // side_by_side
    if side_by_side > _MOST_SIDE_BY_SIDE or (element.nbytes == 1 and side_by_side % 4 == 0):
        return False
    in_few_words = side_by_side in (2, 4)
    return groups >= _LONG_WALK[element.nbytes][0 if in_few_words else 1]


def _has_few_columns(layout: ReduceLayout, element: ElementType, input_bytes: int, least: int) -> bool:
    """Whether the best walk reads at least so many bytes for each column, which leaves a candidate."""
    if not least:
        return True
    walk = best_walk(layout, element, input_bytes)
    nbytes = layout.outputs * layout.reduce_count * element.nbytes
    return walk is not None and nbytes >= walk.columns * least


def is_out_of_order(
    layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> bool:
    """Tell whether positions lie in another order than memory, and the way from one to the next decides.

    It does where columns jump along the innermost dimension of positions. In short rows of narrow elements,
    of which many are equal, most of what may win needs divisions to tell its position. To a processor that
    matters in rows of any length; there the number of candidates decides.
    """
    tuning, strides = limits.tuning, [dim.input_stride for dim in layout.reduced]
    if not tuning.out_of_order_row_bytes or input_bytes < tuning.out_of_order_from_bytes:
        return False
    if min(strides) > 1:
        in_vectors = bool(layout.kept) and layout.kept[-1].input_stride == 1
        return in_vectors and min(strides) < strides[-1]
    order = layout.memory_order
    if order is None or not order.run_dims:
        return False
    if tuning.out_of_order_column_bytes:
        least = tuning.out_of_order_column_bytes[element.nbytes >= 4]
        return _has_few_columns(layout, element, input_bytes, least)
    if element.nbytes >= 4:
        return False
    in_rows_of_positions = strides[-1] == 1
    if in_rows_of_positions and (not tuning.is_processor or order.run_dims == 1):
        return False
    # The third dimension of a position takes one more division.
    most = tuning.out_of_order_row_bytes * (2 if order.run_dims > 2 else 1)
    row, rest = divmod(order.dims[-1].size * element.nbytes, VECTOR_BYTES)
    # Vectors within a row tell by one division whether they may win; a processor asks that of four at once.
    return row * VECTOR_BYTES + rest <= most and (rest > 0 or row < 2 or tuning.is_processor)


def _are_unsplit_columns(
    layout: ReduceLayout, element: ElementType, kept_bytes: int, input_bytes: int, limits: DeviceLimits
) -> bool:
    """Whether narrow columns in aligned rows fill a GPU unsplit, which takes less time.

    Single bytes take 0.82 to 0.94 of the time, halves 0.85 to 1.0 (H100, H200). Shorter rows take longer.
    """
    if limits.tuning.is_processor or kept_bytes < _SHORTEST_ROW_OF_COLUMNS:
        return False
    if not are_multiples(layout.row_starts, VECTOR_BYTES // element.nbytes):
        return False
    shape = column_shape(layout, element, input_bytes, limits)
    return shape.splits == 1 and shape.lanes <= MOST_LANES_UNSPLIT


def _row_of_matrices(layout: ReduceLayout, element: ElementType, tuning: Tuning) -> int:
    """Return the elements in a row of matrices, each of which is reduced to a row; 0 if that is not so.

    Nor for floats of 8 bytes on GPUs: periods take a quarter more, since to compare them takes the time.
    """
    row, _ = contiguous(layout.kept)
    are_matrices = len(layout.reduced) == 1 and layout.reduced[0].input_stride == row
    compares_slowly = element.is_float and element.nbytes == 8 and not tuning.is_processor
    return row if are_matrices and not compares_slowly else 0


def _are_narrow_matrices(row: int, layout: ReduceLayout, element: ElementType, tuning: Tuning) -> bool:
    """Whether matrices have many rows of up to three whole vectors.

    Few invocations of a subgroup would read the same matrix. In periods they take 0.53 to 1.0 of the time
    (H100, H200).
    """
    row_bytes, rows = row * element.nbytes, layout.reduced[0]
    if not row or tuning.is_processor or row_bytes % VECTOR_BYTES:
        return False
    return any(row_bytes <= most and rows.size >= least for most, least in _NARROW_MATRICES)


def _is_unaligned_matrix(layout: ReduceLayout, element: ElementType) -> bool:
    """Whether many rows that follow each other, not all aligned, are reduced to one."""
    if not len(layout.kept) == len(layout.reduced) == 1:
        return False
    rows = layout.reduced[0]
    return rows.size >= MANY_ROWS and rows.input_stride * element.nbytes % VECTOR_BYTES != 0


def _are_unaligned_matrices(row: int, layout: ReduceLayout, element: ElementType) -> bool:
    """Whether matrices have many unaligned rows, which are not long.

    In periods, whose vectors are aligned, they take 3% to 16% less time (H200), on lavapipe 0.5 to 0.8 of it.
    """
    rows = layout.reduced[0]
    is_unaligned = row * element.nbytes % VECTOR_BYTES != 0
    is_joined = row <= _SHORT_UNALIGNED_ROW and rows.size * element.nbytes < _LONG_COLUMN_BYTES
    are_many = rows.size >= _MANY_UNALIGNED_ROWS
    return is_unaligned and row <= _LONGEST_UNALIGNED_ROW and are_many and not is_joined


@dataclass(frozen=True)
class _Shape:
    """How the work of the first kernel is divided."""

    groups_per_block: int
    lanes: int
    blocks: int
    splits: int
    periods_per_split: int
    loop_steps: int


def _at_once(limits: DeviceLimits) -> int:
    return _PERIODS.numbers_of("at_once")[-1 if limits.tuning.batched_loads else 0]


def _has_short_splits(input_bytes: int, tuning: Tuning) -> bool:
    """Whether a processor reads so much that workgroups which share lines had better do so soon."""
    return 0 < 2 * tuning.period_split_bytes <= input_bytes


def _shape(walk: Walk, element: ElementType, input_bytes: int, limits: DeviceLimits) -> _Shape:
    tuning, workgroup_size = limits.tuning, limits.workgroup_size
    per_vector = VECTOR_BYTES // element.nbytes
    vectors = walk.run // per_vector
    groups = walk.columns // per_vector
    periods = _periods(walk, per_vector)
    fewest, at_once = tuning.positions_per_split, workgroups_at_once(element, tuning)
    room = most_candidates(element, input_bytes) // walk.columns
    if vectors <= FEWEST_VECTORS and vectors <= workgroup_size:
        # Whole periods, of several stretches where these are short.
        lanes = max(min(workgroup_size // vectors, ceil_div(periods, FOLDED_PERIODS * fewest)), 1)
        side = min(workgroup_size // lanes // vectors, walk.stretches)
        if ceil_div(walk.stretches, side) < tuning.columns_workgroups:
            side = max(side * ceil_div(walk.stretches, side) // tuning.columns_workgroups, 1)
        groups_per_block = side * vectors
    else:
        is_short = vectors * VECTOR_BYTES <= tuning.short_period_bytes
        segment = tuning.short_period_segment_bytes if is_short else tuning.period_segment_bytes
        side_by_side = segment // VECTOR_BYTES
        piece = _PIECE[element.nbytes]
        groups_per_block = _side(vectors, piece, min(workgroup_size, side_by_side))
        # Narrower blocks fill a device with fewer splits, where scratch memory has room for few.
        while groups_per_block >= 2 * piece and ceil_div(groups, groups_per_block) * room < at_once:
            groups_per_block = ceil_div(groups_per_block, 2)
    lanes = max(min(workgroup_size // groups_per_block, periods // fewest), 1)
    blocks = ceil_div(groups, groups_per_block)
    most = max(min(periods, room), 1)
    longest = max(min(most, periods // (fewest * lanes)), 1)
    candidate_bytes = walk.columns * candidate_words(element) * 4
    shares = (periods / lanes, candidate_bytes / input_bytes)
    wanted = whole_waves(blocks, longest, *shares, at_once)
    if groups_per_block < vectors <= _SHORT_PERIOD and _has_short_splits(input_bytes, tuning):
        # Blocks of a period, which share lines, follow each other within a split.
        stretch_bytes = walk.size * walk.block * element.nbytes
        wanted = max(wanted, min(ceil_div(stretch_bytes, tuning.period_split_bytes), longest))
    if element.nbytes < 4:
        wanted = max(wanted, ceil_div(periods, NARROW_SHARE))

    def loop_steps(splits: int) -> int:
        loops = PeriodLoops(workgroup_size, limits.max_workgroup_count)
        share = ceil_div(periods, splits)
        return loops.periods(blocks * splits, len(walk.outer), share, lanes, _at_once(limits), per_vector)

    splits = enough_splits(wanted, most, loop_steps, limits)
    share = ceil_div(periods, splits)
    splits = ceil_div(periods, share)
    check_work("splits", blocks * splits)
    return _Shape(groups_per_block, lanes, blocks, splits, share, loop_steps(splits))


def _side(vectors: int, piece: int, most: int) -> int:
    """Return how many vectors of a period a workgroup reads side by side, such that few invocations idle."""

    def busy(side: int) -> float:
        return vectors / (ceil_div(vectors, side) * side) * (most // side * side) / most

    if vectors > _LONG_PERIOD:
        return min(piece, most)
    parts = (ceil_div(vectors, count) for count in range(1, vectors // FEWEST_VECTORS + 1))
    return max(
        (side for side in parts if side <= most), key=lambda side: (round(busy(side), 1), side), default=most
    )


def _periods(walk: Walk, per_vector: int) -> int:
    """Return how many periods a stretch spans at most, wherever it starts in a vector."""
    return ceil_div(walk.size * walk.block + per_vector - 1, walk.run)


@dataclass(frozen=True)
class _CombineShape:
    """How the work of the second kernel is divided."""

    lanes: int
    blocks: int
    splits: int
    candidates_per_split: int
    loop_steps: int


def _combine_shape(layout: ReduceLayout, dims: list[Dim], limits: DeviceLimits) -> _CombineShape:
    tuning, workgroup_size, outputs = limits.tuning, limits.workgroup_size, layout.outputs
    candidates = math.prod(dim.size for dim in dims)
    most = power_of_two_at_least(ceil_div(candidates, CANDIDATES_AT_ONCE))
    filling = ceil_div(tuning.target_workgroups * workgroup_size, outputs)
    lanes = min(workgroup_size, most, power_of_two_at_least(filling))
    blocks = ceil_div(outputs, workgroup_size // lanes)

    def loop_steps(splits: int) -> int:
        loops = PeriodLoops(workgroup_size, limits.max_workgroup_count)
        counts = (len(layout.kept), len(layout.reduced), len(dims))
        return loops.combine(blocks, splits, *counts, ceil_div(candidates, splits), lanes)

    most = ceil_div(candidates, lanes * CANDIDATES_AT_ONCE)
    splits = enough_splits(min(ceil_div(tuning.target_workgroups, blocks), most), most, loop_steps, limits)
    share = ceil_div(candidates, splits)
    splits = ceil_div(candidates, share)
    return _CombineShape(lanes, blocks, splits, share, loop_steps(splits))


def plan_periods(
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    results: Results,
    limits: DeviceLimits,
) -> Plan | None:
    """Plan a reduction so if it is faster than others and possible; arguments as of ``plan_argreduce``."""
    element = order.element_type
    if not is_periodic(layout, element, input_bytes, limits, with_values=results.with_values):
        return None
    walk = best_walk(layout, element, input_bytes)
    if walk is None:
        return None
    try:
        return plan_walk(walk, layout, order, input_bytes, results, limits)
    except TooMuchWork:
        return None


def plan_walk(
    walk: Walk,
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    results: Results,
    limits: DeviceLimits,
) -> Plan:
    """Plan a reduction as this walk.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    element = order.element_type
    check_work("columns", walk.columns)
    shape = _shape(walk, element, input_bytes, limits)
    strides, dims = _candidate_dims(walk, shape.splits)
    combine = _combine_shape(layout, dims, limits)

    # The workspace: layout, counters of the second kernel, its candidates, those of the first.
    kept_strides = (strides.get(number, 0) for number in range(len(layout.kept)))
    layout_words = (*dimension_words(layout), *words(kept_strides), *dim_words(reversed(dims)))
    in_push = len(layout_words) <= _COMBINE.layout_room
    counters_base = 0 if in_push else len(layout_words)
    counters = combine.blocks if combine.splits > 1 else 0
    combined = layout.outputs * combine.splits if combine.splits > 1 else 0
    candidates_base = counters_base + counters + combined * candidate_words(element)

    rules: dict[str, int | str] = {
        "workgroup": limits.workgroup_size,
        **order_rules(layout, order),
    }
    common = {
        **results.flags,
        **bases(layout),
        "run": walk.run,
        "tiles_per_run": 0,
        "tile_vectors": 0,
    }
    # The splits of the first kernel do not change its code, nor do the results.
    own = {"layout_in_push": True, "positions_adjacent": False}
    kernel, constants = _PERIODS.specialize(
        **element.specialization,
        **rules,
        split=False,
        at_once=_at_once(limits),
        fixed_flags=fixed_flags(_PERIODS, own, input_bytes, limits),
    )
    per_vector = VECTOR_BYTES // element.nbytes
    first = Step(
        kernel,
        constants,
        _PERIODS.push(
            **common,
            **own,
            lanes=shape.lanes,
            outputs=walk.columns,
            reduce_count=_periods(walk, per_vector),
            splits=shape.splits,
            kept_dims=len(walk.outer),
            reduced_dims=0,
            scratch_base=candidates_base,
            positions_per_split=shape.periods_per_split,
            stretch=walk.size * walk.block,
            groups_per_block=shape.groups_per_block,
            layout_words=words(
                word for column in reversed(walk.outer) for word in (column.size, column.stride, 0)
            ),
        ),
        min(shape.blocks * shape.splits, limits.max_workgroup_count),
        loop_steps=shape.loop_steps,
    )
    nearest = dims[0].input_stride if dims else 0
    own = {
        "layout_in_push": in_push,
        "positions_adjacent": not strides or nearest < min(strides.values()),
    }
    kernel, constants = _COMBINE.specialize(
        **{**element.specialization, **rules, "keys": "integer"},
        split=combine.splits > 1,
        fixed_flags=fixed_flags(_COMBINE, {**own, **results.flags}, input_bytes, limits),
    )
    second = Step(
        kernel,
        constants,
        _COMBINE.push(
            **common,
            **own,
            lanes=combine.lanes,
            outputs=layout.outputs,
            reduce_count=layout.reduce_count,
            splits=combine.splits,
            kept_dims=len(layout.kept),
            reduced_dims=len(layout.reduced),
            scratch_base=counters_base,
            positions_per_split=combine.candidates_per_split,
            candidates=math.prod(dim.size for dim in dims),
            candidate_dims=len(dims),
            walked_weight=walk.weight * walk.copies,
            candidates_base=candidates_base,
            layout_words=layout_words if in_push else (),
        ),
        min(combine.blocks * combine.splits, limits.max_workgroup_count),
        loop_steps=combine.loop_steps,
    )
    workspace = candidates_base + walk.columns * shape.splits * candidate_words(element)
    return Plan(
        (checked_step(first, limits), checked_step(second, limits)),
        buffer_bytes(element, input_bytes, results, workspace),
        () if in_push else layout_words,
        counters,
    )


def _candidate_dims(walk: Walk, splits: int) -> tuple[dict[int, int], list[Dim]]:
    """Return the candidates' strides by kept dimension, and the dimensions of the candidates of one output.

    The latter have the innermost first; their inputs are candidates, and their outputs positions.
    """
    placed, stride = [(column, column.stride) for column in walk.inner], walk.run
    copies = [Dim(walk.copies, walk.block, walk.weight)]
    for column in walk.outer:
        placed.append((column, stride))
        stride *= column.size
    reduced = [Dim(column.size, at, column.weight) for column, at in placed if column.kept < 0]
    dims = sorted([*reduced, *copies, Dim(splits, walk.columns, 0)], key=lambda dim: dim.input_stride)
    return {column.kept: at for column, at in placed if column.kept >= 0}, [
        dim for dim in dims if dim.size > 1
    ]
