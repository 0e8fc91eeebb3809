"""Reductions of elements that are side by side in memory: how their work is divided."""

from __future__ import annotations

import math
from dataclasses import replace

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels
from vkdml.plan.layout import ReduceLayout
from vkdml.plan.order import Order
from vkdml.plan.plans import (
    VECTOR_BYTES,
    DeviceLimits,
    check_work,
    power_of_two_at_least,
    power_of_two_up_to,
)
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import (
    enough_splits,
    most_splits,
    order_rules,
    rows_workgroups,
    worthwhile_workgroups,
)
from vkdml.plan.reduce.row_costs import RowWork
from vkdml.plan.reduce.runs import Runs, first_in_step, vectors_of_run
from vkdml.plan.reduce.work_division import Share, WorkDivision, loops_of, subgroup_size_of
from vkdml.plan.schema import ElementType
from vkdml.plan.tuning import Tuning

ROWS = kernels.family("argreduce_rows")
# Vectors of 16 bytes that one invocation loads in one batch.
_BATCH_VECTORS = kernels.number("batch_vectors")
# Candidates of splits that one invocation loads in one batch.
_CANDIDATES_AT_ONCE = kernels.number("candidates_at_once")
# The most vectors that one invocation keeps in registers, but for unaligned rows in the order of positions.
# These take 0.70 to 0.95 of the time if more are kept (H200): all are loaded before the first is masked.
_MOST_KEPT = 2 * _BATCH_VECTORS
# In unaligned rows of up to _MOST_FEW_VECTORS vectors, an invocation takes at least _FEWEST_STEPS steps.
_MOST_FEW_VECTORS = 192
_FEWEST_STEPS = 12
# The fewest outputs whose runs in the order of positions are processed by as few invocations of a processor
# as can be, and by one each.
_FEWEST_OF_SEPARATE, _ENOUGH_FOR_ONE_LANE = 4, 32
# The least share of invocations that have an output.
_LEAST_BUSY = 3 / 4
# Bytes of the longest runs out of memory order that have as few invocations.
_LONGEST_SEPARATE_BYTES = 3000
# Rows of narrow floats of more than _SHORT_WHOLE_ROW and up to _MOST_FEW_VECTORS whole vectors are processed
# in many steps too, if one or two steps would load more than _MOST_LOADED_PAST_END times the row, or would
# need more than _MOST_LANES_OF_ONE_STEP invocations.
_SHORT_WHOLE_ROW = 64
_MOST_LOADED_PAST_END = 1.15
# If more than so many invocations would read a row in one step, half as many may read it in two steps, and
# exchange less.
_MOST_LANES_OF_ONE_STEP = 16
# The same for rows of narrow elements out of memory order.
_MOST_NARROW_LANES_OF_ONE_STEP = 4
# Rows of narrow elements out of memory order are kept in registers up to so many vectors.
_MOST_NARROW_VECTORS_KEPT = 160
# Rows of bools are kept only up to fewer: the more elements are equal, the more of them an invocation that
# reads on refuses together.
_MOST_BOOL_VECTORS_KEPT = 32
# Unaligned rows of more vectors are kept by at least two invocations: one reads memory in more places.
_MOST_VECTORS_OF_ONE_LANE = 8
# More invocations than usual keep such a row only if each then has so many vectors (0.83 to 0.97 of the time;
# 1.1 with 7), and not in inputs of these sizes, of which a cache holds much (up to 1.23), nor in larger ones
# of narrow elements (0.97 to 1.11; H200).
_FEWEST_VECTORS_OF_MANY_LANES = 8
_CACHED_BYTES = range(24 << 20, 128 << 20)
# Rows of at most so many bytes, at least so far apart in memory, are reduced one after the other if at most
# so many indices lie side by side. Otherwise sectors of indices are written in parts, each of which has left
# the cache before the next (0.55 to 1.00 of the time, H100 and H200).
_LONGEST_ROW_BESIDE, FARTHEST_CACHED, _MOST_ROWS_BESIDE = 400, 32 << 20, 16
# Rows from this size on are split even if an output then has only two of the workgroups that run at once:
# 77 MiB in 256 rows take 0.93 of the time so (H200).
_LONG_ROW_BYTES = 256 * 1024


def with_rows_beside(
    layout: ReduceLayout, runs: Runs, element: ElementType, limits: DeviceLimits
) -> ReduceLayout:
    """Return the layout with the rows one after the other whose indices share a sector, if they are far."""
    if limits.tuning.is_processor or not layout.kept or runs.length != layout.reduce_count:
        return layout
    beside = layout.innermost_of_outputs
    share_sectors = abs(beside.output_stride) == 1 and beside.size <= _MOST_ROWS_BESIDE
    is_far = abs(beside.input_stride) * element.nbytes >= FARTHEST_CACHED
    if not (share_sectors and is_far and runs.extent * element.nbytes <= _LONGEST_ROW_BESIDE):
        return layout
    others = (dim for dim in layout.kept if dim is not beside)
    return replace(layout, kept=(*others, beside))


def _are_few(layout: ReduceLayout, runs: Runs, element: ElementType, tuning: Tuning) -> bool:
    """Whether outputs are so few that each may have several of the workgroups that run at once."""
    workgroups = 2 if runs.extent * element.nbytes >= _LONG_ROW_BYTES else 4
    return layout.outputs * workgroups <= tuning.split_workgroups


def _limits_of_whole_rows(
    layout: ReduceLayout, runs: Runs, element: ElementType, limits: DeviceLimits
) -> DeviceLimits | None:
    """Return limits whose workgroup keeps a row in registers, or None where rows may as well be split.

    Few rows of up to 128 KiB take 12% to 30% less time so than split, which makes workgroups wait for each
    other (H100).
    """
    tuning = limits.tuning
    vectors, _ = vectors_of_run(layout, runs, element)
    # Other kernels keep no row.
    if runs.reading or layout.reduce_count != runs.length or not tuning.subgroups:
        return None
    if not _are_few(layout, runs, element, tuning):
        return None
    wanted = max(power_of_two_at_least(ceil_div(vectors, _MOST_KEPT)), tuning.workgroup_size)
    if wanted > min(tuning.widest_workgroup, limits.subgroup_size * limits.max_subgroups):
        return None
    wide = limits.with_workgroup_size(wanted)
    return wide if wide.workgroup_size == wanted else None


def row_division(reduction: Reduction, runs: Runs) -> tuple[WorkDivision, DeviceLimits]:
    """Return how rows of such runs are divided, and limits with the size of the workgroups."""
    layout, element = reduction.layout, reduction.element
    input_bytes, limits = reduction.input_bytes, reduction.limits
    outputs, runs_of_output = layout.outputs, layout.reduce_count // runs.length
    per_vector = VECTOR_BYTES // element.nbytes
    vectors, whole = vectors_of_run(layout, runs, element)
    most = most_splits(outputs, element, input_bytes)
    share, limits = _share_of(layout, runs, element, most, limits)
    lanes, wanted, parts, tuning = share.lanes, share.splits, share.parts, limits.tuning
    outputs_per_block = limits.workgroup_size // parts // lanes
    blocks = ceil_div(outputs, outputs_per_block)

    # Splits take tiles in turn, so that at any time they read neighbouring memory.
    subgroup_size = subgroup_size_of(limits)
    tile_vectors = vectors
    if wanted * parts > runs_of_output:
        combining = subgroup_size if runs_of_output == 1 and runs.reading is None else 0
        tile_vectors = _tile_vectors(
            vectors, lanes, ceil_div(wanted * parts, runs_of_output), combining, tuning
        )

    def tiles() -> int:
        """How many an output has."""
        return runs_of_output * ceil_div(vectors, tile_vectors)

    def loop_steps(splits: int) -> int:
        loops = loops_of(layout, limits, lanes, blocks, splits, subgroup_size)
        in_block = min(outputs_per_block, outputs)
        return loops.rows(tiles(), tile_vectors, _BATCH_VECTORS, in_block, runs.pieces_of(per_vector), parts)

    # A split has at least one tile: where the loops are too long even so, tiles are shorter.
    batch = lanes * _BATCH_VECTORS
    while loop_steps(tiles()) > limits.max_loop_steps and tile_vectors > batch:
        tile_vectors = round_up(ceil_div(tile_vectors, 2), batch)
    check_work("tiles", tiles())
    rounds = ceil_div(tiles(), min(tiles(), min(wanted, most) * parts))
    splits = enough_splits(ceil_div(tiles(), rounds * parts), tiles(), loop_steps, limits)
    check_work("splits", blocks * splits)
    kept = ceil_div(tile_vectors, lanes)
    most_kept = _MOST_KEPT if whole or runs.reading else tuning.unaligned_vectors_kept
    if tiles() > splits * parts or kept > most_kept:
        kept = 0
    # Unaligned rows that are read in loops may take longer with it (up to 1.27 of the time, H200).
    can_be_simple = layout.is_simple and runs.reading is None and (whole or kept > 0 or splits > 1)
    variant: dict[str, int | str] = {
        "memory_order": runs.reading is not None,
        "subgroups": bool(subgroup_size),
        "subgroup": subgroup_size,
        "aligned": whole,
        "one_run": runs_of_output == 1,
        "kept_vectors": kept,
        "reads_backwards": _reads_backwards(layout, runs, reduction.order),
        "runs_are_planes": runs.reading is not None and runs.reading.stepped_dims <= 2,
        "whole_subgroups": lanes >= subgroup_size,
        "parts_in_workgroup": parts,
        "row_step": runs.step,
        "row_first": first_in_step(layout, runs) if whole else 0,
        "simple_layout": can_be_simple and limits.has_fixed_start(input_bytes, rows=True),
    }
    division = WorkDivision(
        ROWS,
        variant,
        lanes,
        blocks,
        splits,
        runs.length * runs.step if whole else runs.extent,
        ceil_div(vectors, tile_vectors),
        tile_vectors,
        positions_per_split=0,
        loop_steps=loop_steps(splits),
        subgroup_size=subgroup_size,
        reading=runs.reading,
    )
    return division, limits


def _share_of(
    layout: ReduceLayout, runs: Runs, element: ElementType, most: int, limits: DeviceLimits
) -> tuple[Share, DeviceLimits]:
    """Return how many invocations and splits rows have, and limits with the size of their workgroups."""
    whole_rows = _limits_of_whole_rows(layout, runs, element, limits)
    if whole_rows is not None:
        lanes = _lanes(layout, runs, element, whole_rows)
        return Share(whole_rows.workgroup_size, lanes, splits=1), whole_rows
    modelled = _modelled_share(layout, runs, element, most, limits)
    if modelled is not None:
        return modelled, limits.with_workgroup_size(modelled.workgroup_size)
    lanes = _lanes(layout, runs, element, limits)
    splits = _splits_that_fill(layout, runs, element, lanes, limits)
    return Share(limits.workgroup_size, lanes, splits), limits


def _modelled_share(
    layout: ReduceLayout, runs: Runs, element: ElementType, most: int, limits: DeviceLimits
) -> Share | None:
    """Return how to divide rows of several runs, or many too long for one or two steps; None for others.

    Args:
        layout: canonical.
        runs: its runs.
        element: its elements.
        most: splits.
        limits: of the device.
    """
    tuning, runs_of_output = limits.tuning, layout.reduce_count // runs.length
    if tuning.is_processor:
        return None
    vectors, whole = vectors_of_run(layout, runs, element)
    longest = _MOST_KEPT * tuning.row_lanes if whole else _MOST_FEW_VECTORS
    are_kept = vectors <= longest or _lanes_keeping(layout, runs, element, limits)
    # Many rows out of memory order take fewest invocations each.
    are_many = runs.reading is not None and layout.outputs > 2 * tuning.split_workgroups
    if runs_of_output == 1 and (are_kept or are_many or _are_few(layout, runs, element, tuning)):
        return None
    work = RowWork(
        layout.outputs,
        runs_of_output,
        vectors,
        runs.extent * element.nbytes,
        whole,
        runs.reading is None,
        element,
        limits.workgroup_size,
        limits.subgroup_size,
        bool(subgroup_size_of(limits)),
        tuning,
    )
    return work.cheapest_division(most)


def _workgroups_that_fill(layout: ReduceLayout, element: ElementType, tuning: Tuning) -> int:
    return rows_workgroups(layout.outputs * layout.reduce_count * element.nbytes, tuning)


def _splits_that_fill(
    layout: ReduceLayout, runs: Runs, element: ElementType, lanes: int, limits: DeviceLimits
) -> int:
    """Return about how many splits fill the device."""
    tuning = limits.tuning
    blocks = ceil_div(layout.outputs, limits.workgroup_size // lanes)
    wanted = max(tuning.split_workgroups // blocks, 1)
    if layout.reduce_count != runs.length:  # each step waits for the previous one
        wanted = ceil_div(2 * _workgroups_that_fill(layout, element, tuning), blocks)
    return min(wanted, ceil_div(worthwhile_workgroups(layout, element, tuning), blocks))


def _lanes(layout: ReduceLayout, runs: Runs, element: ElementType, limits: DeviceLimits) -> int:
    """Return how many invocations process a row.

    They are as few as fill the device: each of them takes part in the final exchange.
    """
    tuning = limits.tuning
    if _are_separate_runs(layout, runs, element, tuning):
        return _fewest_lanes(layout.outputs, runs, limits.workgroup_size)
    vectors, whole = vectors_of_run(layout, runs, element)
    workgroups = _workgroups_that_fill(layout, element, tuning)
    workgroups = min(workgroups, worthwhile_workgroups(layout, element, tuning))
    filling = ceil_div(workgroups * limits.workgroup_size, layout.outputs)
    keeping = 0 if tuning.is_processor else _lanes_keeping(layout, runs, element, limits)
    fewest = keeping or min(_row_lanes(vectors, whole, runs, element, tuning), tuning.row_lanes)
    # With more invocations than fill a GPU, its last workgroups run alone.
    in_order_on_gpu = not tuning.is_processor and runs.reading is None
    fewest = max(fewest, power_of_two_up_to(filling) if in_order_on_gpu else power_of_two_at_least(filling))
    return min(limits.workgroup_size, power_of_two_at_least(ceil_div(vectors, _BATCH_VECTORS)), fewest)


def _are_separate_runs(layout: ReduceLayout, runs: Runs, element: ElementType, tuning: Tuning) -> bool:
    """Whether a processor takes less time for an output's runs with the fewest lanes.

    It takes all invocations of a workgroup as long to begin and to end a run as it takes one. In long runs
    out of memory order positions take most of the time, which lanes compute together.
    """
    if not tuning.is_processor or runs.length == layout.reduce_count:
        return False
    if runs.reading is None:
        return layout.outputs >= _FEWEST_OF_SEPARATE
    return runs.extent * element.nbytes <= _LONGEST_SEPARATE_BYTES


def _fewest_lanes(outputs: int, runs: Runs, workgroup_size: int) -> int:
    """Return how many invocations of a processor process each run, of which splits fill the device.

    With so few runs take 0.36 to 1.0 of the time in the order of positions, and 0.25 to 0.6 out of it
    (lavapipe).
    """
    lanes = power_of_two_at_least(ceil_div(workgroup_size, outputs))
    if runs.reading is not None or outputs >= _ENOUGH_FOR_ONE_LANE:
        return lanes
    lanes = max(lanes, 2)
    # The last workgroup's invocations without an output wait for the others.
    while outputs * lanes < _LEAST_BUSY * round_up(outputs * lanes, workgroup_size):
        lanes *= 2
    return lanes


def _reads_backwards(layout: ReduceLayout, runs: Runs, order: Order) -> bool:
    """Tell whether the last elements in memory are read first.

    Where all elements are equal, those read first should win: what is read later is then refused by its place
    alone.
    """
    if runs.reading is None:
        return False
    return runs.reading.ascends == order_rules(layout, order)["take_last"]


def _tile_vectors(vectors: int, lanes: int, wanted: int, combining: int, tuning: Tuning) -> int:
    """Return the vectors of a tile, of which a run has at least one.

    Args:
        vectors: of a run.
        lanes: invocations that share a tile.
        wanted: about how many tiles.
        combining: invocations that combine the splits if they can load all candidates at once; 0: none do.
        tuning: of the device.
    """
    tile_vectors = max(ceil_div(vectors, wanted), lanes * tuning.fewest_vectors_per_lane)
    tile_vectors = min(tile_vectors, tuning.tile_bytes // VECTOR_BYTES)
    batch = lanes * _BATCH_VECTORS
    tile_vectors = min(round_up(tile_vectors, batch), vectors)
    if combining:
        # 4 MiB in so few tiles take 0.87 of the time (H200).
        few = round_up(ceil_div(vectors, combining * _CANDIDATES_AT_ONCE), batch)
        if few <= _MOST_KEPT * lanes:
            tile_vectors = max(tile_vectors, min(few, vectors))
    return tile_vectors


def _row_lanes(vectors: int, whole: bool, runs: Runs, element: ElementType, tuning: Tuning) -> int:
    """Return how many invocations process a row while there are enough rows to fill the device."""
    if runs.reading and not tuning.is_processor:
        # To find and exchange positions takes longer the more invocations do, to read the fewer do.
        return power_of_two_up_to(math.isqrt(vectors) // 2)
    if not whole and vectors <= _MOST_FEW_VECTORS:
        # Vectors within a row need no masks: the longer an invocation's part, the fewer do.
        return power_of_two_up_to(vectors // _FEWEST_STEPS)
    return (_lanes_of_whole_row(vectors, element, tuning) if whole else 0) or tuning.row_lanes


def _lanes_of_whole_row(vectors: int, element: ElementType, tuning: Tuning) -> int:
    """Return how many invocations process a row of whole vectors, or 0 if it takes more than a row has.

    Where more than 16 read it in one step, half as many in two exchange less: narrow elements, and others of
    which these would have less than a batch each (H200: 0.86 to 0.94 of the time, H100: 1 to 1.05). Narrow
    floats, which take longest to compare, are processed in many steps where others would load much past the
    end, or exchange among more (H200: 0.86 to 0.95, H100: 0.94 to 1.02).
    """
    lanes, (_, in_two) = _lanes_at_once(vectors, tuning), _lanes_of_steps(vectors)
    if element.nbytes == 8:
        return lanes
    are_narrow, are_many = element.nbytes < 4, lanes > _MOST_LANES_OF_ONE_STEP
    if are_many and lanes > in_two and (are_narrow or ceil_div(vectors, lanes) < _BATCH_VECTORS):
        return in_two
    in_steps = are_narrow and element.is_float and _SHORT_WHOLE_ROW < vectors <= _MOST_FEW_VECTORS
    past_end = round_up(vectors, lanes or 1) > vectors * _MOST_LOADED_PAST_END
    return power_of_two_up_to(vectors // _FEWEST_STEPS) if in_steps and (are_many or past_end) else lanes


def _lanes_of_steps(vectors: int) -> tuple[int, int]:
    """Return how many invocations read a row in one step, and how many in two."""
    in_one, in_two = (
        power_of_two_at_least(ceil_div(vectors, count)) for count in (_BATCH_VECTORS, _MOST_KEPT)
    )
    return in_one, in_two


def _lanes_at_once(vectors: int, tuning: Tuning) -> int:
    """Return how many invocations read a row in one step or in two, or 0 if it takes more than a row has.

    The fewest loads past its end decide which.
    """
    in_one, in_two = _lanes_of_steps(vectors)
    if in_one <= tuning.row_lanes and round_up(vectors, in_one) <= round_up(vectors, in_two):
        return in_one
    return in_two if in_two <= tuning.row_lanes else 0


def _lanes_keeping(layout: ReduceLayout, runs: Runs, element: ElementType, limits: DeviceLimits) -> int:
    """Return how many invocations keep a row in registers, or 0 where reading on is faster."""
    tuning = limits.tuning
    vectors, whole = vectors_of_run(layout, runs, element)
    if runs.reading:
        return _lanes_keeping_out_of_order(vectors, whole, element, tuning)
    if whole or not subgroup_size_of(limits):  # other kernels keep no row
        return 0
    lanes = power_of_two_at_least(ceil_div(vectors, tuning.unaligned_vectors_kept))
    if vectors > _MOST_VECTORS_OF_ONE_LANE:
        lanes = max(lanes, 2)
    if lanes <= tuning.row_lanes:
        return lanes
    have_enough = ceil_div(vectors, lanes) >= _FEWEST_VECTORS_OF_MANY_LANES
    fill_device = layout.outputs * lanes >= tuning.split_workgroups * limits.workgroup_size
    nbytes = layout.outputs * runs.extent * element.nbytes
    has_size = nbytes < _CACHED_BYTES.start or (nbytes >= _CACHED_BYTES.stop and element.nbytes >= 4)
    return lanes if have_enough and fill_device and has_size and lanes <= limits.workgroup_size else 0


def _lanes_keeping_out_of_order(vectors: int, whole: bool, element: ElementType, tuning: Tuning) -> int:
    """Return the same for rows out of memory order.

    What is kept is searched for the winner's position once, and only by who has the winner's key.
    """
    in_one, in_two = _lanes_of_steps(vectors)
    are_narrow = element.nbytes < 4
    most_in_one = _MOST_NARROW_LANES_OF_ONE_STEP if are_narrow else _MOST_LANES_OF_ONE_STEP
    if whole and in_one <= most_in_one and round_up(vectors, in_one) <= round_up(vectors, in_two):
        return in_one
    if are_narrow:
        is_kept = vectors <= (
            _MOST_BOOL_VECTORS_KEPT if element.kind == "bool" else _MOST_NARROW_VECTORS_KEPT
        )
    else:
        # As many invocations as may be that keep less than they can take longer than fewer that read on.
        is_kept = in_two < tuning.row_lanes or ceil_div(vectors, in_two) == _MOST_KEPT
    return in_two if is_kept and in_two <= tuning.row_lanes else 0
