"""Planning reductions of few positions each, of which there are many: short rows, and short stacks of rows.

A workgroup copies a tile of the input to shared memory; see ``shaders/short_tile.glsl``.
"""

from __future__ import annotations

from vkdml.common.rounding import round_up
from vkdml.plan.layout import ReduceLayout, contiguous
from vkdml.plan.plans import LINE_BYTES, PAGE_BYTES, VECTOR_BYTES, DeviceLimits, Plan
from vkdml.plan.reduce.columns import are_in_pairs
from vkdml.plan.reduce.periodic import Periodicity
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import FOUR, NARROW_SHARE, Results, are_few_in_turn, rows_workgroups
from vkdml.plan.reduce.runs import long_runs_of
from vkdml.plan.reduce.short_step import (
    COLUMN_BYTES,
    Work,
    are_close_columns,
    are_few_columns,
    most_fixed,
    plan_of_work,
)
from vkdml.plan.reduce.short_tile import ShortTile
from vkdml.plan.reduce.short_tiles import are_dense, busier_tile, is_short, tile_of
from vkdml.plan.reduce.tiles_in_place import tile_of_walks, workgroup_size_of
from vkdml.plan.reduce.walked_tiles import gains_by_tile, has_few_outputs, walked_tile_of
from vkdml.plan.reduce.walks import Walk, walk_of
from vkdml.plan.reduce.work_division import are_multiples
from vkdml.plan.tuning import ShortTuning, Tuning

# Positions of an unaligned stack: where they start in a word repeats after so many.
_FEWEST_PHASED = 4
# Positions of unaligned stacks from which they are walked; the same of rows with more outputs than these, if
# outputs lie in another order, unaligned and aligned.
_MANY_PHASED = 12
_SHORT_ROW_ACROSS, _MANY_ACROSS, _MANY_ALIGNED_ACROSS = 100, 5, 7
# Positions of columns of words from which periods, where they are faster than columns, are faster than walks.
_MANY_WORDS = 300
# Positions of stacks from which columns that are pairs of words are walked. Two take 1.3 times as long so.
_FEWEST_IN_PAIRS = 6
# Lines of memory that outputs beside each other share. Of more a processor finds few in its cache when it
# comes to the next output, and what periods load in order takes 0.4 to 1.06 of the time (lavapipe). Lines at
# multiples of a page from each other use the same places of the cache; of bytes twice as many do.
_MOST_LINES, _MOST_LINES_AT_PAGES = 1100, 500
# Of halves whose rows do not all start with a word, which a walk loads from two: periods take 0.76 to 0.92 of
# the time from here on (50 shapes).
_MOST_LINES_OF_SPLIT_WORDS = 700
# So many times fewer outputs are walked where their elements would be read one by one otherwise.
_TIMES_FEWER_AS_LAST_WAY = 8
# Bytes. Shorter rows that are loaded in pairs of words at any byte take up to three times as long as tiles.
_LONG_ROW_OF_PAIRS = 1200


def plan_short(reduction: Reduction, results: Results) -> Plan | None:
    """Plan a reduction of short rows or short stacks; None if it is neither.

    Raises:
        TooMuchWork: more than the kernel counts, or than the driver's loops make.
    """
    layout, input_bytes, limits = reduction.layout, reduction.input_bytes, reduction.limits
    tuning, element = limits.tuning.short, reduction.element
    if not tuning.tile_bytes or input_bytes < tuning.from_bytes:
        return None
    if input_bytes < tuning.rows_from_bytes and long_runs_of(layout, element, limits) is not None:
        return None
    short = is_short(layout, element, limits)
    nbytes = element.nbytes
    if not short or _walks_rows(layout, nbytes, tuning) or _walks_stacks(layout, nbytes, limits):
        walk = _walk(reduction)
        if walk is not None:
            return _plan_walk(*walk, reduction, results)
    return _plan_tiles(reduction, results) if short else None


def plan_walk_instead_of_elements(reduction: Reduction, results: Results) -> Plan | None:
    """Plan a reduction as a walk where a processor would read its elements one by one otherwise.

    None if no walk goes through its elements, or too few would.
    """
    tuning = reduction.limits.tuning.short
    if not (tuning.direct and tuning.walked_runs) or reduction.input_bytes < tuning.from_bytes:
        return None
    walk = _walk(reduction, is_last_way=True)
    return _plan_walk(*walk, reduction, results) if walk is not None else None


def _plan_walk(walk: Walk, at_once: int, reduction: Reduction, results: Results) -> Plan | None:
    """Plan a walk, of so many columns at once; None if a single output takes too many loop steps."""
    layout, nbytes, limits = reduction.layout, reduction.element.nbytes, reduction.limits
    most_outputs = None
    while True:
        tile = tile_of_walks(layout, walk, nbytes, at_once, limits, most_outputs)
        work = Work(tile, "walked_packed" if at_once > 1 else "walked", walk, at_once, direct=True)
        plan = plan_of_work(work, reduction, results)
        if plan is not None or tile.outputs <= tile.workgroup_size * at_once:
            return plan
        most_outputs = tile.outputs // 2


def plan_walked_tiles(reduction: Reduction, results: Results, loads: str) -> Plan | None:
    """Plan a reduction of few elements that are read one by one, or partly in vain, otherwise.

    ``loads`` is how columns would load them. None if tiles do not help.
    """
    layout, element, limits = reduction.layout, reduction.element, reduction.limits
    tuning = limits.tuning.short
    if not tuning.tile_bytes or tuning.direct or reduction.input_bytes < tuning.from_bytes:
        return None
    if not gains_by_tile(layout, element.nbytes, loads):
        return None
    walk = walk_of(layout)
    chosen = walked_tile_of(layout, walk, element.nbytes, limits) if walk is not None else None
    if chosen is None:
        return None
    walk, tile = chosen
    if loads == "elements" and has_few_outputs(tile, layout):
        return None
    return plan_of_work(Work(tile, "walked", walk), reduction, results)


def _plan_tiles(reduction: Reduction, results: Results) -> Plan | None:
    """Plan a reduction along one dimension; None if no tile of it fits."""
    layout, nbytes, limits = reduction.layout, reduction.element.nbytes, reduction.limits
    columns = "packed" if nbytes < 4 and layout.reduced[0].input_stride != 1 else "single"
    tile = tile_of(layout, nbytes, columns == "packed", limits)
    if tile is None or _is_faster_in_columns(layout, tile, nbytes, limits):
        return None
    tile = busier_tile(tile, layout, nbytes, limits)
    columns = "fours" if _is_in_fours(layout, tile, nbytes, limits) else columns
    work = Work(tile, columns, direct=limits.tuning.short.direct)
    return plan_of_work(work, reduction, results)


def _is_faster_in_columns(layout: ReduceLayout, tile: ShortTile, nbytes: int, limits: DeviceLimits) -> bool:
    """Whether it is faster to read the columns of a stack where they are, without a tile.

    Narrow elements in aligned rows take 0.67 to 0.97 of the time (H200) and 0.88 to 1.04 (H100), words in
    long aligned rows 0.69 to 0.97 and 0.92 to 1.02. So do wide elements where few invocations fold a tile:
    0.39 to 0.89 (H200), 0.53 to 1.09 (H100). So do long rows of single bytes that are loaded in pairs of
    words, wherever they start: 0.70 to 1.03 (H200, 17 stacks).
    """
    positions, near = layout.reduced[0], layout.kept[-1]
    are_columns = near.input_stride == 1 and layout.outputs_follow_input
    total = layout.outputs * positions.size * nbytes
    is_large = total >= rows_workgroups(total, limits.tuning) * limits.tuning.short.tile_bytes
    if not are_columns or not is_large or limits.tuning.short.direct:
        return False
    row_bytes = near.size * nbytes
    if are_in_pairs(positions.size, nbytes, limits.tuning) and row_bytes >= _LONG_ROW_OF_PAIRS:
        return True
    is_aligned = are_multiples(layout.row_starts, VECTOR_BYTES // nbytes)
    short = limits.tuning.short
    in_place = dict(short.columns_in_place).get(nbytes)
    if is_aligned and in_place is not None:
        least_bytes, fewest, most = in_place
        if row_bytes >= least_bytes and fewest <= positions.size <= most:
            return True
    if nbytes < 4:
        return is_aligned and nbytes == 2 and positions.size <= short.most_halves_in_place
    busy = 1 / 4
    wide, wide_aligned = short.wide_rows_in_place
    if row_bytes >= wide:
        busy = 1 / 2 if is_aligned and row_bytes >= wide_aligned else 3 / 8
    return tile.outputs <= busy * round_up(tile.outputs, tile.workgroup_size)


def _walks_rows(layout: ReduceLayout, nbytes: int, tuning: ShortTuning) -> bool:
    """Whether rows are long enough to be walked."""
    least, most = _walked_row_bytes(layout, nbytes, tuning)
    positions = layout.reduced[0]
    return positions.input_stride == 1 and least <= positions.size * nbytes < most


def _walked_row_bytes(layout: ReduceLayout, nbytes: int, tuning: ShortTuning) -> tuple[int, int]:
    """Return the least bytes of rows that are walked, and of those that are not any more."""
    least, most = next((bounds for width, *bounds in tuning.walked_rows if width == nbytes), (0, 0))
    near = layout.kept[-1]
    if not layout.outputs_follow_input:
        # Rows that do not follow each other in the order of the outputs: wide ones where no tile takes them.
        least = max(least, tuning.shortest_narrow_apart_bytes) if nbytes < 4 else most
        return least, min(most, tuning.longest_walked_apart_bytes)
    if len(layout.reduced) > 1 and near.size < tuning.walked_rows_side_by_side:
        most = min(most, tuning.longest_walked_apart_bytes)
    return least, most


def _walks_stacks(layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> bool:
    """Whether a short stack of narrow elements takes less time as a walk, if it can be one.

    It does where the number of positions is not compiled in, and where the columns of a position or of
    several fit in two words. In unaligned rows it does where there are so few positions that what is found
    out about where each starts in a word is used once, or so many that walks, which find it out for each,
    load faster. Of long rows whose outputs lie in another order fewer are many: walks take 0.74 of the time
    (41 shapes on lavapipe, 0.40 to 1.18).
    """
    positions, near = layout.reduced[0], layout.kept[-1]
    if nbytes >= 4 or positions.input_stride == 1 or near.input_stride != 1:
        return False
    fewest = _FEWEST_IN_PAIRS if near.size * nbytes == COLUMN_BYTES else 1
    most = most_fixed(positions, near, nbytes, limits.tuning.short)
    if positions.size > most or (are_close_columns(near, positions, nbytes) and positions.size >= fewest):
        return True
    is_aligned = are_multiples(layout.row_starts, 4 // nbytes)
    if not is_aligned and positions.size < _FEWEST_PHASED:
        return True
    if near.size > _SHORT_ROW_ACROSS and not layout.outputs_follow_input:
        return positions.size >= (_MANY_ALIGNED_ACROSS if is_aligned else _MANY_ACROSS)
    return not is_aligned and positions.size >= _MANY_PHASED


def _is_in_fours(layout: ReduceLayout, tile: ShortTile, nbytes: int, limits: DeviceLimits) -> bool:
    """Whether an invocation folds four rows."""
    count = tile.dims[0][1]
    return are_dense(layout, nbytes, limits) and (count % FOUR == 0 or count == layout.kept[0].size)


def _walk(reduction: Reduction, *, is_last_way: bool = False) -> tuple[Walk, int] | None:
    """Return how an invocation walks through the elements of an output, and of how many columns at once.

    None where other kernels are faster: few outputs, rows, or runs in more places than a cache has lines for.
    The last way but for reading elements one by one may have fewer outputs and more runs.
    """
    layout, limits, nbytes = reduction.layout, reduction.limits, reduction.element.nbytes
    tuning, inner = limits.tuning, layout.reduced[-1]
    if not layout.kept:
        return None
    longest = max(tuning.shortest_row_bytes, _walked_row_bytes(layout, nbytes, tuning.short)[1])
    if inner.input_stride == 1 and inner.size * nbytes >= longest:
        return None
    is_cached = reduction.input_bytes <= tuning.cached_columns_bytes
    near = layout.kept[-1]
    join = nbytes * near.input_stride in (2, 4) and nbytes * near.input_stride * near.size >= COLUMN_BYTES
    walk = walk_of(layout, join=join) if tuning.short.walked_runs else None
    if walk is None or (nbytes < 4 and layout.reduce_count > NARROW_SHARE):
        return None
    are_columns = near.input_stride == 1 or walk.joined.size > 1
    packed = nbytes < 4 and are_columns and walk.run.input_stride != 1
    columns = COLUMN_BYTES // nbytes // walk.joined.size if packed else 1
    fills_words = are_few_columns(near, walk.run, nbytes)
    if fills_words:
        columns = near.size
    few_columns = near.size < columns
    if 2 * near.size < columns:
        # Few columns, beside which there may be others along another dimension.
        if any(dim.input_stride == near.size for dim in layout.kept[:-1]):
            return None
        columns = 1
    lines = walk.runs if few_columns else walk.lines(nbytes)
    periodicity = Periodicity.of(reduction)
    has_periods = periodicity.is_worthwhile() and periodicity.repetition is not None
    if has_periods and periodicity.are_long_walks:
        return None
    if nbytes == 4 and layout.reduce_count >= _MANY_WORDS and periodicity.are_columns_ahead:
        return None
    if (
        _are_many_lines(walk, lines, layout, nbytes)
        and periodicity.may_be_ahead
        and (periodicity.are_aligned_columns or periodicity.is_faster)
    ):
        return None
    most_runs = _most_runs(layout, walk, nbytes, tuning, has_periods=has_periods, is_cached=is_cached)
    if lines > most_runs and not is_last_way:
        return None
    run_bytes = walk.run.size * walk.run.input_stride * nbytes
    shares_lines = run_bytes < LINE_BYTES and (columns == 1 or fills_words)
    if has_periods and shares_lines and walk.runs > tuning.short.walked_runs_of_periods:
        return None
    fewest = tuning.target_workgroups * workgroup_size_of(limits) * columns
    if is_last_way:
        fewest = max(fewest // _TIMES_FEWER_AS_LAST_WAY, workgroup_size_of(limits) * columns)
    return (walk, columns) if layout.outputs >= fewest else None


def _are_many_lines(walk: Walk, lines: int, layout: ReduceLayout, nbytes: int) -> bool:
    """Whether a processor's cache does not hold the lines of a walk until it comes to the next output."""
    if nbytes == 2 and not are_multiples(layout.row_starts, 2):
        return lines > _MOST_LINES_OF_SPLIT_WORDS
    pitch = walk.pitch(nbytes)
    if pitch and pitch % PAGE_BYTES == 0:
        return lines > _MOST_LINES_AT_PAGES * (2 if nbytes == 1 else 1)
    return lines > _MOST_LINES


def _most_runs(
    layout: ReduceLayout, walk: Walk, nbytes: int, tuning: Tuning, *, has_periods: bool, is_cached: bool
) -> int:
    """Return how many runs apart a walk may have."""
    short, are_columns = tuning.short, layout.kept[-1].input_stride == 1
    if are_few_in_turn(layout) and (nbytes >= 4 or not has_periods):
        return short.walked_runs
    if nbytes >= 4 and not are_columns:
        return short.walked_runs
    if nbytes < 4 and are_columns:
        if not is_cached and are_multiples(layout.row_starts, VECTOR_BYTES // nbytes):
            return short.walked_columns
        if _are_parts_of_vectors(layout, nbytes):
            return short.walked_columns // nbytes
    most = short.walked_columns if nbytes >= 4 else short.narrow_walked_runs
    # A processor loads the next line before it is asked for.
    near = walk.pitch(nbytes) < short.far_runs_from_bytes
    return most * (2 if near else 1)


def _are_parts_of_vectors(layout: ReduceLayout, nbytes: int) -> bool:
    """Whether columns follow each other in aligned vectors, but are outputs in groups that fill no vector."""
    side_by_side, dims = contiguous(layout.kept)
    per_vector = VECTOR_BYTES // nbytes
    are_parts = dims > 1 and layout.kept[-1].size % FOUR != 0
    are_vectors = side_by_side >= per_vector and are_multiples(layout.starts_of_rows(dims), per_vector)
    return are_parts and are_vectors
