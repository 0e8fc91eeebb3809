"""What all planners of argmin and argmax are given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from vkdml.plan.layout import ReduceLayout
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.schema import ElementType

_Some = TypeVar("_Some", bound="Reduction")


@dataclass(frozen=True)
class Reduction:
    """A reduction on a device."""

    layout: ReduceLayout
    """Canonical, with a reduced dimension."""
    order: Order
    input_bytes: int
    """Of the input buffer."""
    limits: DeviceLimits

    @classmethod
    def of(cls: type[_Some], reduction: Reduction) -> _Some:
        """Return the same reduction, seen as one of this kind."""
        return cls(reduction.layout, reduction.order, reduction.input_bytes, reduction.limits)

    @cached_property
    def element(self) -> ElementType:
        """What the schema says about the elements."""
        return self.order.element_type
