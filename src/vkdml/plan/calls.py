"""Calls as the planner sees them: where the elements lie and what to compute. Plans are cached by call."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from vkdml.plan.gather import plan_elements, plan_places
from vkdml.plan.layout import (
    CopyLayout,
    ReduceLayout,
    canonical_copy,
    canonical_gather,
    canonical_reduce,
    row_major_strides,
)
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits, Plan
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.slice.slice1 import plan_slice1


class Operand(NamedTuple):
    """A strided array in a buffer. All numbers count elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base: int
    """Where in the buffer the element of coordinate 0 lies."""
    span: int
    """Elements of the buffer that belong to the array, those between its own included."""

    @classmethod
    def compact(cls, sizes: tuple[int, ...]) -> Operand:
        """Return an array whose elements fill its buffer, in row-major order.

        >>> Operand.compact((2, 3))
        Operand(sizes=(2, 3), strides=(3, 1), base=0, span=6)
        """
        return cls(sizes, row_major_strides(sizes), 0, math.prod(sizes))


class ReduceCall(NamedTuple):
    """An argmin or argmax."""

    input: Operand
    axes: tuple[int, ...]
    """Distinct, ascending, not negative."""
    order: Order
    output: Operand
    """Of indices and values. It has a dimension for each of the input's; reduced ones have any stride."""
    index_bytes: int
    with_values: bool = False
    """The chosen elements are copied too."""
    index_weights: tuple[int, ...] | None = None
    """What a step along each axis adds to the index, if this is a part of a larger reduction."""

    @property
    def layout(self) -> ReduceLayout:
        """The canonical layout."""
        return canonical_reduce(
            self.input.sizes,
            self.input.strides,
            self.axes,
            self.output.strides,
            take_last=self.order.take_last,
            input_base=self.input.base,
            output_base=self.output.base,
            index_weights=self.index_weights,
        )

    def plan(self, limits: DeviceLimits) -> Plan:
        """Plan it for a device; raises as :func:`vkdml.plan.reduce.argreduce.plan_argreduce`."""
        return plan_argreduce(
            self.layout,
            self.order,
            self.input.span,
            limits,
            index_bytes=self.index_bytes,
            with_values=self.with_values,
            output_elements=self.output.span,
        )


class CopyCall(NamedTuple):
    """A copy of strided elements, as slice1 makes it: the two operands have the same sizes."""

    input: Operand
    output: Operand
    element_bytes: int

    @property
    def layout(self) -> CopyLayout:
        """The canonical layout."""
        return canonical_copy(
            self.output.sizes,
            self.input.strides,
            self.output.strides,
            input_base=self.input.base,
            output_base=self.output.base,
        )

    def plan(self, limits: DeviceLimits) -> Plan:
        """Plan it for a device; raises as :func:`vkdml.plan.slice.slice1.plan_slice1`."""
        return plan_slice1(
            self.layout, self.element_bytes, self.input.span, limits, output_elements=self.output.span
        )


class PlacesCall(NamedTuple):
    """An array of indices of one dimension becomes places, or is added to those of other dimensions."""

    indices: Operand
    index_bytes: int
    signed: bool
    size: int
    """Of the dimension."""
    stride: int
    """Of the dimension, in elements."""
    number: int
    """Of the dimension, among those that are indexed by arrays."""

    def plan(self, limits: DeviceLimits) -> Plan:
        """Plan it for a device; raises as :func:`vkdml.plan.gather.plan_places`."""
        indices = self.indices
        layout = canonical_gather(indices.sizes, indices.strides, (0,) * len(indices.sizes))
        return plan_places(
            layout,
            indices.base,
            indices.span,
            limits,
            index_bytes=self.index_bytes,
            signed=self.signed,
            size=self.size,
            stride=self.stride,
            number=self.number,
        )


class GatherCall(NamedTuple):
    """A compact array of elements from given places."""

    sizes: tuple[int, ...]
    """Of the result."""
    strides: tuple[int, ...]
    """Of the input, along the dimensions of the result."""
    place_strides: tuple[int, ...]
    """Of the places, along the dimensions of the result."""
    base: int
    span: int
    """As of an :class:`Operand`."""
    places: int
    element_bytes: int

    def plan(self, limits: DeviceLimits) -> Plan:
        """Plan it for a device; raises as :func:`vkdml.plan.gather.plan_elements`."""
        layout = canonical_gather(self.sizes, self.strides, self.place_strides)
        return plan_elements(layout, self.base, self.span, self.places, self.element_bytes, limits)


@lru_cache(maxsize=2048)
def plan_for(call: ReduceCall | CopyCall | PlacesCall | GatherCall, limits: DeviceLimits) -> Plan:
    """Return the plan of a call; equal calls on equal limits share one."""
    return call.plan(limits)
