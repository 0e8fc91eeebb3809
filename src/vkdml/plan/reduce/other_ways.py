"""How a reduction is read where it is not read in periods: its rows, or its columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vkdml.plan.reduce.columns import column_division
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.runs import Runs, long_runs_of
from vkdml.plan.reduce.work_division import WorkDivision

_NOWHERE = 1 << 62


@dataclass(frozen=True)
class OtherWays(Reduction):
    """A reduction, and the other ways to read it."""

    with_values: bool = False

    @property
    def is_narrow(self) -> bool:
        return self.element.nbytes < 4

    @cached_property
    def runs(self) -> Runs | None:
        """The runs of rows that are long enough to be read as rows."""
        return long_runs_of(self.layout, self.element, self.limits)

    @cached_property
    def columns(self) -> WorkDivision:
        """How it would be divided if it were read in columns."""
        return column_division(self, with_values=self.with_values)

    @property
    def are_elements(self) -> bool:
        """Whether columns of single elements would be read otherwise."""
        return self.runs is None and self.columns.variant["loads"] == "elements"

    @cached_property
    def nearest(self) -> tuple[int, int]:
        """How far apart the nearest elements are that compete for an output, and those that do not."""
        competing = min(abs(dim.input_stride) for dim in self.layout.reduced)
        others = (dim.input_stride for dim in self.layout.kept if dim.input_stride)
        return competing, min(others, default=_NOWHERE)
