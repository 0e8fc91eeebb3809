"""The order of elements: which of two wins a reduction, and which of two equal ones."""

from __future__ import annotations

from typing import NamedTuple

from vkdml.plan import kernels
from vkdml.plan.schema import ElementType


class Order(NamedTuple):
    """What decides a reduction, on the device and on the host."""

    element: str
    """The element type's name in the kernels' schema."""
    take_min: bool = False
    """The least element wins, not the greatest."""
    take_last: bool = False
    """Of equal elements the one with the greatest index wins, not the least."""
    omit_nan: bool = False
    """A NaN loses to every number instead of beating it."""

    @property
    def element_type(self) -> ElementType:
        """What the schema says about the elements.

        >>> Order("float16").element_type.nbytes
        2
        """
        return kernels.elements()[self.element]
