"""Planning reductions of few positions each, of which there are many: short rows, and short stacks of rows.

A workgroup copies a tile of the input to shared memory; see ``shaders/short_tile.glsl``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from vkdml.plan import kernels, loop_steps
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.order import Order
from vkdml.plan.plans import (
    VECTOR_BYTES,
    DeviceLimits,
    Plan,
    Step,
    ceil_div,
    check_work,
    checked_step,
    round_up,
    words,
)

# Dimensions of outputs that a tile may have.
BOX_DIMS = 3
ALONG_POSITIONS, ONE_SEGMENT = BOX_DIMS, BOX_DIMS + 1
NO_DIM = Dim(1, 0, 0)
# Bytes. Memory is read and written in sectors, and rows this far apart are read with what lies between.
SECTOR = 32
# A segment starts and ends within vectors that it may not share with its neighbours.
SEGMENT_MARGIN = 2 * VECTOR_BYTES
# Outputs side by side that a tile writes at least, where others lie nearer in the input.
FEWEST_SIDE_BY_SIDE = 16
MOST_POSITIONS = 32
# Bytes. Shorter segments, one for each position, would be read with too much beside them.
SHORTEST_SEGMENT = 256


@dataclass(frozen=True)
class _Tile:
    """What a workgroup processes at once."""

    dims: tuple[tuple[Dim, int], ...]
    """Dimensions of outputs and how many of each, in the order of the outputs' memory."""
    segments_along: int
    shared_pitch: int
    """Elements from one segment to the next in shared memory."""
    outer: tuple[Dim, ...]
    """Kept dimensions that are not among ``dims``."""

    @property
    def outputs(self) -> int:
        return prod(count for _, count in self.dims)

    @property
    def tiles(self) -> int:
        inner = prod(ceil_div(dim.size, count) for dim, count in self.dims)
        return inner * prod(dim.size for dim in self.outer)


def plan_short(
    layout: ReduceLayout,
    order: Order,
    input_bytes: int,
    limits: DeviceLimits,
    *,
    index_bytes: int,
    with_values: bool,
    output_elements: int,
) -> Plan | None:
    """Plan a reduction of short rows or short stacks; None if it is neither.

    Args:
        layout: canonical, with a reduced dimension.
        order: of the elements.
        input_bytes: of the input buffer.
        limits: of the device.
        index_bytes: 4 or 8.
        with_values: also copy the chosen elements.
        output_elements: elements in each output buffer.

    Raises:
        TooMuchWork: more than the kernel counts, or than the driver's loops make.
    """
    tuning, element = limits.tuning.short, order.element_type
    nbytes = element.nbytes
    if not tuning.tile_bytes or len(layout.reduced) != 1 or not layout.kept:
        return None
    positions, near = layout.reduced[0], layout.kept[-1]
    packed = False
    if positions.input_stride == 1:
        if positions.size * nbytes >= limits.tuning.shortest_row_bytes:
            return None
    elif near.input_stride == 1 and positions.size <= MOST_POSITIONS:
        packed = nbytes < 4
    elif nbytes < 4 or positions.size * positions.input_stride * nbytes > 4 * SECTOR:
        return None
    per_word = max(4 // nbytes, 1)
    total = layout.outputs * positions.size * nbytes
    budget = min(tuning.tile_bytes, max(total // limits.tuning.target_workgroups, 1024))
    tile = _tile(layout, nbytes, budget, tuning.tile_bytes // 2 // 4 * (per_word if packed else 4), packed)
    if tile is None:
        return None
    check_work("tiles", tile.tiles)

    steps = [dim.input_stride for dim, _ in tile.dims if dim is not near] + [
        dim.input_stride for dim in tile.outer
    ]
    steps += [layout.input_base, tile.shared_pitch]
    if packed:
        steps += [
            positions.input_stride,
            *(count for dim, count in tile.dims if dim is near and count < dim.size),
        ]
    else:
        steps += [near.input_stride]
    box = (*tile.dims, *((NO_DIM, 1),) * (BOX_DIMS - len(tile.dims)))
    near_place = next((i for i, (dim, _) in enumerate(tile.dims) if dim is near), 0)
    kernel_family = kernels.family("argreduce_short")
    lane_bytes = box[0][0].input_stride * nbytes
    kernel, constants = kernel_family.specialize(
        **element.specialization,
        columns="packed" if packed else "single",
        workgroup=min(tuning.workgroup_size, limits.workgroup_size),
        take_min=order.take_min,
        take_last=order.take_last != layout.reversed_order,
        omit_nan=order.omit_nan,
        tile_words=(tuning.tile_bytes + 4 * VECTOR_BYTES) // 128 * 33 + 33,
        result_words=tuning.tile_bytes // 8 if packed else 1,
        near=near_place,
        positions=positions.size if tuning.fixed_positions else 0,
        segments_along=tile.segments_along,
        one_dim=len(tile.dims) == 1 and not tile.outer,
        word_aligned=nbytes < 4 and all(step % per_word == 0 for step in steps),
        padded=not packed and lane_bytes % 8 == 0,
    )
    layout_words = words(
        (
            *(word for dim in tile.outer for word in (dim.size, dim.input_stride, dim.output_stride)),
            *(positions.size, positions.input_stride, positions.output_stride, positions.output_stride >> 32),
        )
    )
    in_push = len(layout_words) <= kernel_family.layout_room
    box_words = {}
    for i, (dim, count) in enumerate(box):
        box_words |= {
            f"size_{i}": dim.size,
            f"tile_{i}": count,
            f"tiles_{i}": ceil_div(dim.size, count),
            f"input_stride_{i}": dim.input_stride,
            f"output_stride_{i}": dim.output_stride,
        }
    push = kernel_family.push(
        layout_in_push=in_push,
        wide_indices=index_bytes == 8,
        with_values=with_values,
        tiles=tile.tiles,
        kept_dims=len(tile.outer),
        reduced_dims=1,
        input_base=layout.input_base,
        output_base=layout.output_base,
        index_base=layout.index_base,
        shared_pitch=tile.shared_pitch,
        **box_words,
        layout_words=layout_words if in_push else (),
    )
    workgroup_size = min(tuning.workgroup_size, limits.workgroup_size)
    step = checked_step(
        Step(
            kernel,
            constants,
            push,
            min(tile.tiles, limits.max_workgroup_count),
            0,
            loop_steps.short(
                loop_steps.rounds_of(tile.tiles, limits.max_workgroup_count),
                len(tile.outer),
                tuning.tile_bytes // VECTOR_BYTES,
                tile.outputs,
                positions.size,
                workgroup_size,
            ),
        ),
        limits,
    )
    return Plan(
        (step,),
        (
            ("input", round_up(input_bytes, VECTOR_BYTES)),
            ("indices", output_elements * index_bytes),
            ("values", round_up(output_elements * nbytes, 4) if with_values else 0),
            ("workspace", 0 if in_push else 4 * len(layout_words)),
        ),
        () if in_push else layout_words,
    )


def _tile(
    layout: ReduceLayout, nbytes: int, budget_bytes: int, most_outputs: int, packed: bool
) -> _Tile | None:
    """Choose the tile, of ``budget_bytes`` at most; None if not even one output fits."""
    positions, near = layout.reduced[0], layout.kept[-1]
    budget = budget_bytes // nbytes
    per_vector, gap = VECTOR_BYTES // nbytes, 2 * SECTOR // nbytes
    counts: dict[Dim, int] = {}

    def pitch(stride: int, length: int) -> int:
        """The distance of segments in shared memory: equal to that in the input, modulo a vector."""
        least = length + SEGMENT_MARGIN // nbytes
        return least + (stride - least) % per_vector

    def finished(segments_along: Dim | int, shared_pitch: int) -> _Tile:
        chosen = sorted(counts.items(), key=lambda item: abs(item[0].output_stride))
        if isinstance(segments_along, Dim):
            segments_along = [dim for dim, _ in chosen].index(segments_along)
        outer = tuple(dim for dim in layout.kept if dim not in counts)
        return _Tile(tuple(chosen), segments_along, shared_pitch, outer)

    fast = min(layout.kept, key=lambda dim: abs(dim.output_stride))
    extent = (positions.size - 1) * positions.input_stride + 1
    far_apart = near.input_stride < positions.input_stride and extent + near.size - 1 > budget
    if far_apart:
        # A segment for each position.
        extent, gap, room = 1, 0, budget // positions.size - (SEGMENT_MARGIN // nbytes + per_vector)
        side_by_side = 1
    else:
        side_by_side = 1 if fast is near else min(fast.size, FEWEST_SIDE_BY_SIDE)
        room = budget
        if fast is not near:
            room = budget // side_by_side - (SEGMENT_MARGIN // nbytes + per_vector)
    outputs = max(most_outputs // side_by_side, 1)
    for dim in reversed(layout.kept):
        apart = dim is not near and dim.input_stride > extent + gap
        outside = far_apart and dim.input_stride >= positions.input_stride
        if (
            (dim is fast and side_by_side > 1)
            or apart
            or outside
            or len(counts) == BOX_DIMS - (fast is not near)
        ):
            break
        count = min(dim.size, 1 + max(room - extent, 0) // max(dim.input_stride, 1), outputs)
        if count < dim.size:
            count -= count % (per_vector if far_apart else _step_of(count, per_vector))
        counts[dim] = max(count, 1)
        extent += (counts[dim] - 1) * dim.input_stride
        outputs //= max(_padded(counts[dim], nbytes) if packed and dim is near else counts[dim], 1)
        if counts[dim] < dim.size:
            break
    if extent > budget:
        return None
    if far_apart:
        if fast not in counts or extent * nbytes < SHORTEST_SEGMENT or not packed:
            return None
        return finished(ALONG_POSITIONS, pitch(positions.input_stride, extent))
    rest = [dim for dim in layout.kept if dim not in counts]
    along = fast if fast not in counts else rest[-1] if rest and len(counts) < BOX_DIMS else None
    if (
        along is None
        or outputs * side_by_side < 2
        or (fast in counts and any(n < d.size for d, n in counts.items()))
    ):
        return finished(ONE_SEGMENT, 0)
    if along.input_stride <= extent + gap:
        counts[along] = min(
            along.size, 1 + (budget - extent) // max(along.input_stride, 1), outputs * side_by_side
        )
        return finished(ONE_SEGMENT, 0)
    shared_pitch = pitch(along.input_stride, extent)
    count = max(min(along.size, budget // shared_pitch, outputs * side_by_side), 1)
    if 8 < count < along.size:
        count -= count % 8  # whole sectors of indices
    counts[along] = count
    return finished(along, shared_pitch)


def _step_of(count: int, per_vector: int) -> int:
    """Of what number a long dimension's share of a tile is a multiple."""
    return next((step for step in (256, 64, per_vector) if count >= step), 1)


def _padded(count: int, nbytes: int) -> int:
    return round_up(count, 4 // nbytes)
