"""The step of short rows and short stacks: what its kernel is told of a tile and of how outputs are found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels, loop_steps
from vkdml.plan.layout import NO_DIM, Dim, ReduceLayout
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, Plan, Step, check_work, checked_step
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import (
    FOUR,
    Results,
    bases,
    buffer_bytes,
    dimension_words,
    fixed_flags,
    order_rules,
)
from vkdml.plan.reduce.short_tile import BOX_DIMS, ShortTile
from vkdml.plan.reduce.walks import Walk
from vkdml.plan.tuning import ShortTuning

# Bytes of adjacent columns that an invocation takes.
COLUMN_BYTES = kernels.number("walked_column_bytes")
# Positions of a row of single bytes whose ranks, which start at 1, are bytes too.
_MOST_RANKED = 255
# Positions. Loops for more of them are not unrolled, since each number is a pipeline.
_MOST_UNROLLED = 128
# Bytes. Of shorter rows a stack is walked rather than read by a loop for its number of positions.
_LONG_STACK_ROW = 1024
# Of a stack in a tile. With fewer positions, few invocations read the same bank.
_FEWEST_IN_BANKS = 3
# Words, in bytes, of which a multiple lies between rows that meet in few banks, wherever they start.
_FEW_BANKS = 32
# Outputs side by side. Of fewer, neighbouring invocations walk in other rows.
_FEW_SIDE_BY_SIDE = 8
# Vectors of indices that a processor stores at once. Shorter rows of outputs are mostly ends.
_FEWEST_OF_VECTORS = 4
# Of two words, which a walk loads together.
_PAIR_BYTES = 8
# Bytes. Shorter runs are read word by word: on SwiftShader runs of 9 would take 1.6 times as long.
_LEAST_RUN_IN_PAIRS = 16
# Shared memory is allocated in so many words, since each number is a pipeline.
_SHARED_STEP = 256


@dataclass(frozen=True)
class Work:
    """How the outputs of a tile are found."""

    tile: ShortTile
    columns: str
    """The variant of the kernel."""
    walk: Walk | None = None
    at_once: int = 1
    """Columns that an invocation of a walk takes."""
    direct: bool = False
    """Elements are read where they are."""

    @property
    def packed(self) -> bool:
        return self.columns in ("packed", "walked_packed")


def plan_of_work(work: Work, reduction: Reduction, results: Results) -> Plan | None:
    """Return the plan of this work; None if it makes more loop steps than walks may."""
    layout, element, limits = reduction.layout, reduction.element, reduction.limits
    input_bytes, tile, walk = reduction.input_bytes, work.tile, work.walk
    check_work("tiles", tile.tiles)
    family = kernels.family("argreduce_short")
    layout_words = dimension_words(replace(layout, kept=tile.outer)) + (walk.words if walk else ())
    placed = family.placed(layout_words)
    flags = {"layout_in_push": placed.in_push, **results.flags}
    kernel, constants = family.specialize(
        **element.specialization,
        workgroup=tile.workgroup_size,
        **order_rules(layout, reduction.order),
        fixed_flags=fixed_flags(family, flags, input_bytes, limits, writes_vectors=True),
        in_rounds=limits.in_rounds(tile.tiles, input_bytes),
        **_variant(work, layout, element.nbytes, limits.tuning.short, with_values=results.with_values),
    )
    push = family.push(
        **flags,
        tiles=tile.tiles,
        kept_dims=len(tile.outer),
        reduced_dims=len(layout.reduced),
        **bases(layout),
        shared_pitch=tile.shared_pitch,
        position_pitch=tile.position_pitch,
        **_box_words(tile),
        layout_words=placed.pushed,
    )
    steps = _loop_steps(work, layout, element.nbytes, limits)
    if walk and steps > limits.max_loop_steps:
        return None
    workgroups = limits.started(tile.tiles)
    step = checked_step(Step(kernel, constants, push, workgroups, 0, steps), limits)
    return Plan(
        (step,),
        buffer_bytes(element, input_bytes, results, len(placed.stored)),
        placed.stored,
    )


def _variant(
    work: Work, layout: ReduceLayout, nbytes: int, tuning: ShortTuning, *, with_values: bool
) -> dict[str, int | str]:
    """Return the axis and the constants that say how the kernel finds the outputs of a tile."""
    tile, walk, packed = work.tile, work.walk, work.packed
    positions, near = walk.run if walk else layout.reduced[0], layout.kept[-1]
    few_columns = _few_columns(work, layout, nbytes)
    positions_at_once = _positions_at_once(few_columns, nbytes)
    shared_words = _padded(round_up(words_of(tile.shared_elements, nbytes) + 2, _SHARED_STEP))
    word_aligned, pair_aligned = (
        nbytes < 4 and _starts_together(layout, tile, together // nbytes, packed, walk, positions_at_once)
        for together in (4, _PAIR_BYTES)
    )
    pair_aligned &= walk is not None and work.direct
    is_fixed = positions.size <= most_fixed(positions, near, nbytes, tuning)
    are_contiguous = positions.input_stride == 1
    is_long_run = nbytes < 4 and are_contiguous and positions.size * nbytes >= _LEAST_RUN_IN_PAIRS
    return {
        "columns": work.columns,
        "tile_words": 1 if work.direct else shared_words,
        "result_words": _SHARED_STEP if work.direct else round_up(tile.outputs, _SHARED_STEP),
        "near": [dim for dim, _ in tile.dims].index(near),
        "positions": positions.size if is_fixed else 0,
        "segments_along": tile.segments_along,
        "positions_apart": tile.position_pitch > 0,
        "dims": max(len(tile.dims), 2 if tile.outer else 1),
        "evenly_apart": tile.evenly_apart,
        "word_aligned": word_aligned,
        "pair_aligned": pair_aligned,
        "direct": work.direct,
        "neighbours": _takes_neighbours(work, nbytes, tuning),
        "output_vectors": not few_columns and _stores_vectors(work, near) and not with_values,
        "long_rows": nbytes == 1 and positions.size > _MOST_RANKED and walk is None,
        "run_apart": walk is not None and not are_contiguous,
        "in_pairs": walk is not None and is_long_run and work.direct,
        "joined": walk.joined.size if walk else 1,
        "few_columns": few_columns,
        "keeps_pair": not pair_aligned
        and work.direct
        and positions.input_stride * positions_at_once * nbytes <= _PAIR_BYTES,
        "padded": _meets_in_few_banks(work, layout, nbytes, word_aligned=word_aligned),
    }


def _few_columns(work: Work, layout: ReduceLayout, nbytes: int) -> int:
    """Return how many columns each of several positions has that a walk loads together; 0 if it loads one."""
    near, walk = layout.kept[-1], work.walk
    are_few = walk is not None and work.packed and are_few_columns(near, walk.run, nbytes)
    return near.size if are_few else 0


def _positions_at_once(few_columns: int, nbytes: int) -> int:
    """Return how many positions a walk of so many columns, or of none that are few, loads together."""
    return COLUMN_BYTES // nbytes // few_columns if few_columns else 1


def _box_words(tile: ShortTile) -> dict[str, int]:
    """Return the push constants of a tile's dimensions."""
    box = (*tile.dims, *((NO_DIM, 1),) * (BOX_DIMS - len(tile.dims)))
    return {
        name: value
        for i, (dim, count) in enumerate(box)
        for name, value in (
            (f"size_{i}", dim.size),
            (f"tile_{i}", count),
            (f"tiles_{i}", ceil_div(dim.size, count)),
            (f"input_stride_{i}", dim.input_stride),
            (f"output_stride_{i}", dim.output_stride),
        )
    }


def _loop_steps(work: Work, layout: ReduceLayout, nbytes: int, limits: DeviceLimits) -> int:
    """Return the most loop steps of an invocation."""
    tile = work.tile
    rounds = loop_steps.rounds_of(tile.tiles, limits.max_workgroup_count)
    vectors = ceil_div(tile.shared_elements * nbytes, VECTOR_BYTES)
    if work.walk:
        return _steps_of_walks(work.walk, work, layout, nbytes, rounds, vectors)
    positions = layout.reduced[0].size
    return loop_steps.short(*(rounds, len(tile.outer), vectors, tile.outputs, positions, tile.workgroup_size))


def most_fixed(positions: Dim, near: Dim, nbytes: int, tuning: ShortTuning) -> int:
    """Return up to how many positions their number is compiled in."""
    in_short_rows = positions.input_stride != 1 and near.size * nbytes < _LONG_STACK_ROW
    most = tuning.most_fixed_positions if nbytes >= 4 or in_short_rows else tuning.narrow_most_fixed_positions
    return min(most, _MOST_UNROLLED)


def are_few_columns(near: Dim, positions: Dim, nbytes: int) -> bool:
    """Whether two columns or more fit in a word, and those of the next position follow."""
    return near.size > 1 and are_close_columns(near, positions, nbytes, COLUMN_BYTES // 2)


def are_close_columns(near: Dim, positions: Dim, nbytes: int, most_bytes: int = COLUMN_BYTES) -> bool:
    """Whether the columns of a position fit in so many bytes, and those of the next position follow."""
    follow = near.input_stride == 1 and near.size == positions.input_stride
    return follow and near.size * nbytes <= most_bytes


def words_of(elements: int, nbytes: int) -> int:
    return ceil_div(elements * nbytes, 4)


def _meets_in_few_banks(work: Work, layout: ReduceLayout, nbytes: int, *, word_aligned: bool) -> bool:
    """Whether neighbouring invocations would read few banks of shared memory if no words were left out."""
    if work.direct:
        return False
    if work.packed:
        positions = layout.reduced[0]
        pitch = positions.size * positions.input_stride * nbytes
        return positions.size >= _FEWEST_IN_BANKS and (word_aligned or pitch % _FEW_BANKS == 0)
    (along, count), *others = work.tile.dims
    steps = [along.input_stride]
    if work.walk is not None and others and count <= _FEW_SIDE_BY_SIDE:
        steps.append(others[0][0].input_stride)
    return any(step * nbytes % (4 if work.columns == "fours" else 8) == 0 for step in steps)


def _takes_neighbours(work: Work, nbytes: int, tuning: ShortTuning) -> bool:
    """Whether an invocation walks through outputs that follow each other, and not through every so many.

    Then a subgroup waits for several lines at a time. Of few short runs, side by side in the lines of a few
    places, every so many take 0.5 to 1.0 of the time (lavapipe).
    """
    if not work.direct or work.walk is None:
        return False
    run, (most_runs, run_bytes) = work.walk.run, tuning.walked_side_by_side
    are_side_by_side = run.input_stride == 1 and run.size * nbytes < run_bytes
    return not (are_side_by_side and 1 < work.walk.runs <= most_runs)


def _stores_vectors(work: Work, near: Dim) -> bool:
    """Whether columns are outputs that a processor stores as vectors: rows of them are long enough."""
    if not (work.direct and work.packed) or near.output_stride != 1:
        return False
    along = next(count for dim, count in work.tile.dims if dim is near)
    are_outputs = work.walk is None or work.walk.joined.size == 1
    return are_outputs and along >= _FEWEST_OF_VECTORS * FOUR


def _padded(shared_words: int) -> int:
    """Words of shared memory with one more for each 32; see ``bank_of``."""
    return shared_words + ceil_div(shared_words, 32)


def _starts_together(
    layout: ReduceLayout,
    tile: ShortTile,
    elements: int,
    packed: bool,
    walk: Walk | None,
    positions_at_once: int,
) -> bool:
    """Whether every row, run of a walk, or row of a stack's words of columns, starts with so many elements
    that are loaded together."""
    near = layout.kept[-1]
    steps = [layout.input_base, tile.shared_pitch, *(dim.input_stride for dim in layout.kept[:-1])]
    if packed:
        steps += [
            *(
                (*walk.starts, walk.run.input_stride * positions_at_once)
                if walk
                else (dim.input_stride for dim in layout.reduced)
            ),
            *(n * near.input_stride for dim, n in tile.dims if dim is near and n < dim.size),
        ]
    else:
        steps += [near.input_stride, *(walk.starts if walk else ())]
    return all(step % elements == 0 for step in steps)


def _steps_of_walks(
    walk: Walk, work: Work, layout: ReduceLayout, nbytes: int, rounds: int, vectors: int
) -> int:
    tile, at_once, few_columns = work.tile, work.at_once, _few_columns(work, layout, nbytes)
    (_, along), *others = tile.dims
    before = FOUR - 1 if at_once > 1 and not few_columns else 0  # of a row that starts within a vector
    groups = ceil_div(before + along, at_once) * prod(count for _, count in others)
    run, *runs = walk.sizes
    words = 4 // nbytes if nbytes < 4 and walk.run.input_stride == 1 else 1
    # A processor loads pairs of words, and then what is left.
    sizes = (ceil_div(ceil_div(run, _positions_at_once(few_columns, nbytes)), words) + (words > 1), *runs)
    dims = len(tile.outer), len(layout.reduced)
    return loop_steps.walks(rounds, dims, groups, at_once, sizes, tile.workgroup_size, vectors)
