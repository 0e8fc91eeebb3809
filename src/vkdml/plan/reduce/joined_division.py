"""Dividing the work of joined columns among invocations and workgroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits, power_of_two_at_least, power_of_two_up_to
from vkdml.plan.reduce.column_costs import splits_to_compare
from vkdml.plan.reduce.joined_columns import Joined
from vkdml.plan.reduce.joined_costs import JoinedWork, Loads
from vkdml.plan.reduce.reductions import VECTOR_LOADS, least_splits, most_splits, settled_splits
from vkdml.plan.reduce.work_division import are_multiples, loops_of
from vkdml.plan.schema import ElementType

JOINED = kernels.family("argreduce_joined")
# At least so many invocations share the positions: their exchange leaves room for the columns of all.
_FEWEST_LANES = 2
# Vectors. A workgroup reads so many side by side at least, where there are so many.
_FEWEST_SIDE_BY_SIDE = 4
# Splits that make so many eighths of a wave of workgroups are compared.
_EIGHTHS_OF_WAVES = (1, 2, 3, 4, 6, 8, 16, 24, 32)


@dataclass(frozen=True)
class Pieces:
    """The pieces of runs that a workgroup takes; see the push constants in ``shaders/kernels.json``."""

    lanes: int
    piece_columns: int
    pieces_per_run: int
    pieces_per_block: int
    pieces: int
    blocks: int
    """Workgroups of each split."""
    outputs_per_block: int
    joiners: int
    loads: Loads


@dataclass(frozen=True)
class JoinedDivision:
    """How the work is divided."""

    pieces: Pieces
    splits: int
    positions_per_split: int
    loop_steps: int
    """Steps that the loops of one invocation make at most."""

    @property
    def workgroups(self) -> int:
        return self.pieces.blocks * self.splits


def most_vectors(limits: DeviceLimits) -> int:
    """Return how many vectors the columns of an output may lie in, with the columns between them."""
    return limits.workgroup_size // _FEWEST_LANES


def divide_joined(
    joined: Joined, layout: ReduceLayout, element: ElementType, input_bytes: int, limits: DeviceLimits
) -> JoinedDivision | None:
    """Return the division that takes a GPU the least time; None if a workgroup is too small for an output.

    Raises:
        TooMuchWork: more than the driver's loops make, or than the kernels count.
    """
    return _Dividing(joined, layout, element, input_bytes, limits).division()


@dataclass(frozen=True)
class _Dividing:
    """What is divided."""

    joined: Joined
    layout: ReduceLayout
    element: ElementType
    input_bytes: int
    limits: DeviceLimits

    def division(self) -> JoinedDivision | None:
        """See ``divide_joined``."""
        choices = [
            (self._time(pieces, splits), pieces.lanes, splits, pieces)
            for pieces in self._choices()
            for splits in self._splits(pieces)
        ]
        if not choices:
            return None
        _, _, splits, pieces = min(choices, key=lambda choice: choice[:3])

        def loop_steps(splits: int) -> int:
            return self._loop_steps(pieces, splits)

        positions = self.joined.positions
        splits, share = settled_splits(splits, positions, positions, pieces.blocks, loop_steps, self.limits)
        return JoinedDivision(pieces, splits, share, loop_steps(splits))

    @cached_property
    def _columns_of_vector(self) -> int:
        return VECTOR_BYTES // self.element.nbytes

    def _vectors(self, columns: int) -> int:
        return ceil_div(columns, self._columns_of_vector)

    def _choices(self) -> Iterator[Pieces]:
        """Yield the pieces by how many lanes share the positions, a power of two."""
        joined = self.joined
        runs = self.layout.outputs * joined.columns // joined.run
        side_by_side = min(_FEWEST_SIDE_BY_SIDE, runs * self._vectors(joined.run))
        side_by_side = max(side_by_side, self._vectors(joined.unit))
        most = max(self.limits.workgroup_size // side_by_side, _FEWEST_LANES)
        most = min(most, max(power_of_two_at_least(joined.positions), _FEWEST_LANES))
        lanes = _FEWEST_LANES
        while lanes <= most:
            pieces = self._pieces(lanes)
            if pieces is not None:
                yield pieces
            lanes *= 2

    def _pieces(self, lanes: int) -> Pieces | None:
        """Return them for so many lanes; None if the columns of an output do not fit beside each other."""
        joined, outputs, workgroup_size = self.joined, self.layout.outputs, self.limits.workgroup_size
        side = workgroup_size // lanes
        if self._vectors(joined.unit) > side:
            return None
        vectors_of_run = self._vectors(joined.run)
        if vectors_of_run > side:
            columns, per_block = side * self._columns_of_vector // joined.unit * joined.unit, 1
        else:
            columns, per_block = joined.run, side // vectors_of_run
        per_run = ceil_div(joined.run, columns)
        pieces = outputs * joined.columns // joined.run * per_run
        per_block = max(min(per_block, pieces), 1)
        of_block = min(per_block * columns // joined.columns, outputs)
        fitting = power_of_two_up_to(workgroup_size // of_block)
        return Pieces(
            lanes=lanes,
            piece_columns=columns,
            pieces_per_run=per_run,
            pieces_per_block=per_block,
            pieces=pieces,
            blocks=ceil_div(pieces, per_block),
            outputs_per_block=of_block,
            joiners=min(fitting, power_of_two_at_least(joined.columns)),
            loads=Loads(
                is_aligned=self._are_aligned(columns),
                busy=per_block * self._vectors(columns) * lanes / workgroup_size,
                adjacent_bytes=self._adjacent(columns, lanes) * self.element.nbytes,
            ),
        )

    def _adjacent(self, piece_columns: int, lanes: int) -> int:
        """Return the elements side by side in memory that a workgroup reads at the same time."""
        innermost, stride = self.joined.folded[-1]
        if stride == self.joined.run == piece_columns:
            return piece_columns * min(lanes, innermost)
        return piece_columns

    def _are_aligned(self, piece_columns: int) -> bool:
        """Whether all loads are of aligned vectors."""
        joined = self.joined
        offsets = [self.layout.input_base, joined.run, piece_columns, joined.overlap * joined.block]
        offsets += [stride for _, stride in joined.folded]
        offsets += [dim.input_stride for dim in self._outside]
        return are_multiples(offsets, self._columns_of_vector)

    @cached_property
    def _outside(self) -> tuple[Dim, ...]:
        """The kept dimensions from run to run; runs of overlapping views overlap."""
        outputs, kept = self.joined.block // self.joined.joined, len(self.layout.kept)
        while outputs > 1:
            kept -= 1
            outputs //= self.layout.kept[kept].size
        return self.layout.kept[:kept]

    def _splits(self, pieces: Pieces) -> set[int]:
        """Return the numbers of splits to compare.

        A split has a batch of loads for each invocation, unless positions have to be divided further.
        """
        positions = self.joined.positions
        most = min(
            ceil_div(positions, VECTOR_LOADS * pieces.lanes),
            most_splits(self.layout.outputs, self.element, self.input_bytes),
        )
        least = least_splits(positions, self.element)
        in_waves = [eighths * self._work.at_once // 8 // pieces.blocks for eighths in _EIGHTHS_OF_WAVES]
        return splits_to_compare(in_waves, least, most)

    @cached_property
    def _work(self) -> JoinedWork:
        folded = self.joined.folded
        return JoinedWork(
            element_bytes=self.element.nbytes,
            elements=self.layout.outputs * self.layout.reduce_count,
            outputs=self.layout.outputs,
            innermost=folded[-1][0] if len(folded) > 1 else 0,
            workgroup_size=self.limits.workgroup_size,
            tuning=self.limits.tuning,
        )

    def _time(self, pieces: Pieces, splits: int) -> float:
        """Return how long this takes, in the model's unit."""
        share = ceil_div(self.joined.positions, splits)
        return self._work.time(pieces.lanes, splits, pieces.blocks, share, pieces.loads)

    def _loop_steps(self, pieces: Pieces, splits: int) -> int:
        """Return the steps that the loops of one invocation make at most."""
        joined, lanes = self.joined, pieces.lanes
        loops = loops_of(self.layout, self.limits, lanes, pieces.blocks, splits)
        sizes = tuple(size for size, _ in joined.folded)
        positions, of_joiner = ceil_div(joined.positions, splits), ceil_div(joined.columns, pieces.joiners)
        return loops.joined(
            *(positions, sizes, VECTOR_LOADS, self._columns_of_vector),
            *(pieces.outputs_per_block, of_joiner, pieces.joiners),
        )
