"""Plans by the description of a call, kept for the next call of the kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from vkdml.plan.argreduce import plan_argreduce
from vkdml.plan.layout import CopyLayout, ReduceLayout, canonical_copy, canonical_reduce
from vkdml.plan.plans import DeviceLimits, Element, Plan
from vkdml.plan.slice1 import plan_slice1


@lru_cache(maxsize=1024)
def argreduce_plan(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    base: int,
    input_elements: int,
    axes: tuple[int, ...],
    output_strides: tuple[int, ...],
    element: Element,
    take_min: bool,
    take_last: bool,
    omit_nan: bool,
    index_bytes: int,
    with_values: bool,
    limits: DeviceLimits,
    output_base: int = 0,
    output_elements: int | None = None,
    index_weights: tuple[int, ...] | None = None,
) -> Plan:
    """Return the plan of an argmin or argmax; strides, bases and counts are in elements."""
    layout: ReduceLayout = canonical_reduce(
        sizes,
        strides,
        axes,
        output_strides,
        take_last=take_last,
        input_base=base,
        output_base=output_base,
        index_weights=index_weights,
    )
    return plan_argreduce(
        layout,
        element,
        input_elements,
        limits,
        take_min=take_min,
        take_last=take_last,
        omit_nan=omit_nan,
        index_bytes=index_bytes,
        with_values=with_values,
        output_elements=output_elements,
    )


@lru_cache(maxsize=1024)
def slice1_plan(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    base: int,
    input_elements: int,
    output_strides: tuple[int, ...],
    element_bytes: int,
    limits: DeviceLimits,
    output_base: int = 0,
    output_elements: int | None = None,
) -> Plan:
    """Return the plan of a strided copy; strides, bases and counts are in elements."""
    layout: CopyLayout = canonical_copy(
        shape, strides, output_strides, input_base=base, output_base=output_base
    )
    return plan_slice1(layout, element_bytes, input_elements, limits, output_elements=output_elements)


class KnownCall(NamedTuple):
    """A call that was right once: the next one of the kind need not be looked at again."""

    plan: Plan
    limits: DeviceLimits
    """Those that the plan was made for: on a device with others the call is not known."""
    shape: tuple[int, ...]
    """Of the indices."""
    index_dtype: np.dtype[Any]


class CallCache:
    """Known calls by all that tells calls apart, so many at most; the oldest make room.

    Threads share it. A look-up is a single read, and what it returns is complete in itself.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: dict[Hashable, KnownCall] = {}
        self._lock = threading.RLock()  # a signal handler may call in the middle of a call
        self.get: Callable[[Hashable], KnownCall | None] = self._calls.get
        """Return the known call of a key, or None."""

    def put(self, key: Hashable, call: KnownCall) -> None:
        """Remember a call."""
        with self._lock:
            self._calls[key] = call
            while len(self._calls) > self._most:
                self._calls.pop(next(iter(self._calls)), None)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._calls.clear()

    def __len__(self) -> int:
        return len(self._calls)


known_calls = CallCache(1024)
"""Of the public functions, on all devices."""
