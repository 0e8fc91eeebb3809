"""Planning columns of unaligned rows that are read in aligned vectors; see ``argreduce_phases.comp``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels
from vkdml.plan.plans import VECTOR_BYTES, DeviceLimits
from vkdml.plan.reduce.column_costs import splits_to_compare
from vkdml.plan.reduce.phase_costs import PhaseWork
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import VECTOR_LOADS, least_splits, most_splits, settled_splits
from vkdml.plan.reduce.work_division import WorkDivision, are_multiples, loops_of
from vkdml.plan.tuning import PhaseTuning

_FAMILY = kernels.family("argreduce_phases")
_FEWEST_VECTORS = kernels.number("fewest_phase_vectors")
_ROWS_PER_SPLIT = 8
"""The fewest that an invocation has of a split."""


@dataclass(frozen=True)
class Phases(Reduction):
    """A reduction of columns whose rows begin anywhere in a vector."""

    @cached_property
    def _per_vector(self) -> int:
        return VECTOR_BYTES // self.element.nbytes

    @cached_property
    def _columns(self) -> int:
        """Side by side."""
        return self.layout.kept[-1].size

    @cached_property
    def _phases(self) -> int:
        """Rows from one to the next that begins at the same place of a vector."""
        return self._per_vector // math.gcd(self.layout.reduced[0].input_stride, self._per_vector)

    @cached_property
    def _tuning(self) -> PhaseTuning | None:
        by_width = (each for each in self.limits.tuning.phases if each.element_bytes == self.element.nbytes)
        return next(by_width, None)

    def are_worth_it(self) -> bool:
        """Whether they take less time than loads that start anywhere."""
        layout, tuning = self.layout, self._tuning
        if tuning is None or self.input_bytes < tuning.from_bytes:
            return False
        if len(layout.reduced) != 1 or not layout.kept or layout.kept[-1].input_stride != 1:
            return False
        return (
            self._columns >= tuning.fewest_columns
            and layout.reduce_count >= tuning.rows_of_phase * self._phases
            and self.limits.workgroup_size >= _FEWEST_VECTORS * self._phases
            and not are_multiples(layout.row_starts, self._per_vector)
        )

    def are_faster_than_periods(self) -> bool:
        """Whether they take less time than periods, too."""
        return self._tuning is not None and self._columns >= self._tuning.columns_of_periods

    def _divisions(self, work: PhaseWork) -> Iterator[tuple[int, int, int]]:
        """Yield workgroup sizes, lanes and splits to compare."""
        count, least = self.layout.reduce_count, least_splits(self.layout.reduce_count, self.element)
        room = most_splits(self.layout.outputs, self.element, self.input_bytes)
        size = self.limits.workgroup_size
        for workgroup_size in sorted({size, self.limits.with_workgroup_size(2 * size).workgroup_size}):
            lanes = self._phases
            while workgroup_size // lanes >= _FEWEST_VECTORS:
                blocks = work.blocks(workgroup_size, lanes)
                in_waves = [wave // blocks for wave in work.full_waves(workgroup_size)]
                most = min(ceil_div(count, _ROWS_PER_SPLIT * lanes), room)
                for splits in sorted(splits_to_compare(in_waves, least, max(most, 1))):
                    yield workgroup_size, lanes, splits
                lanes *= 2

    def division(self) -> tuple[WorkDivision, DeviceLimits]:
        """Return how the work is divided, and limits with the size of the workgroups."""
        layout, element, count = self.layout, self.element, self.layout.reduce_count
        work = PhaseWork(
            columns=self._columns,
            rows_of_outputs=layout.outputs // self._columns,
            positions=count,
            element_bytes=element.nbytes,
            tuning=self.limits.tuning,
        )
        workgroup_size, lanes, splits = min(self._divisions(work), key=lambda division: work.time(*division))
        limits = self.limits.with_workgroup_size(workgroup_size)
        blocks = work.blocks(workgroup_size, lanes)

        def loop_steps(splits: int) -> int:
            loops = loops_of(layout, limits, lanes, blocks, splits)
            columns = self._per_vector, work.block_columns(workgroup_size, lanes)
            return loops.phases(ceil_div(count, splits), VECTOR_LOADS, *columns)

        splits, positions = settled_splits(splits, count, count, blocks, loop_steps, limits)
        division = WorkDivision(
            _FAMILY,
            {"one_run": self._columns == layout.outputs},
            lanes,
            blocks,
            splits,
            self._columns,
            tiles_per_run=0,
            tile_vectors=0,
            positions_per_split=positions,
            loop_steps=loop_steps(splits),
            writes_vectors=True,
        )
        return division, limits
