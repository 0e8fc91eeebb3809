"""Calls on host arrays in one piece, on one device, which reads them where they lie or is sent them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml.arrays.host_span import HostSpan, host_span
from vkdml.operators import stream
from vkdml.plan.calls import CopyCall, ReduceCall, plan_for
from vkdml.plan.plans import Plan, TooMuchWork
from vkdml.runtime.device import Device
from vkdml.runtime.execution_cache import ExecutionCache
from vkdml.runtime.host_memory import copy_bytes, empty
from vkdml.runtime.imported_memory import lead_of, region_around, result_region
from vkdml.runtime.recording import Region

Results = dict[str, npt.NDArray[Any]]
Wanted = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and type of each result."""


class OnePiece(NamedTuple):
    """What a call in one piece runs."""

    plan: Plan
    span: HostSpan
    """What the kernels read."""
    sent_as: np.dtype[Any]
    """Its type in the byte order that kernels read."""
    in_place: bool
    """They reach it where it lies; else it is sent."""


def planned(
    x: npt.NDArray[Any],
    sent_as: np.dtype[Any],
    device: Device,
    call_of: Callable[[HostSpan], ReduceCall | CopyCall],
    *,
    alignment: int = 1,
) -> OnePiece | None:
    """Return the plan of a call, or None if it goes in tiles.

    Args:
        x: to read.
        sent_as: its type in the byte order that kernels read.
        device: on which it runs.
        call_of: returns the call on a span.
        alignment: bytes; an array at another address is copied first, which is faster.
    """
    span = host_span(x)
    lead = lead_of(device.executions, span.flat, alignment) if span.flat.dtype == sent_as else None
    if lead:
        span = replace(span, base=span.base + lead, lead=lead)
    try:
        plan = plan_for(call_of(span), device.limits)
    except TooMuchWork:
        return None
    in_tiles = stream.wanted((nbytes for _, nbytes in plan.buffer_bytes), device.limits)
    return None if in_tiles else OnePiece(plan, span, sent_as, lead is not None)


def run(device: Device, piece: OnePiece, wanted: Wanted) -> Results:
    """Upload in the kernels' byte order, run and download; no bit changes."""
    plan, span, sent_as, in_place = piece
    executions = device.executions
    found = _run_in_place(executions, plan, span.flat, wanted) if in_place else None
    if found is not None:
        return found
    results = {}
    execution = executions.take(plan)
    flat, begin = span.flat, span.lead * span.flat.itemsize
    upload = execution.views["input"][begin : begin + flat.nbytes]
    if flat.dtype == sent_as:
        copy_bytes(upload, flat.view(np.uint8))
    else:
        np.copyto(upload.view(sent_as), flat)
    try:
        execution.run()
    except MemoryError as error:
        raise executions.explained(error, plan) from None
    for role, (shape, dtype) in wanted.items():
        result = empty(shape, dtype)
        target = result.reshape(-1).view(np.uint8)
        copy_bytes(target, execution.views[role][: target.size])
        results[role] = result
    executions.give_back(plan, execution)
    return results


def _run_in_place(
    executions: ExecutionCache, plan: Plan, flat: npt.NDArray[Any], wanted: Wanted
) -> Results | None:
    """Run on memory of the host's where it lies; None, and nothing was done, where it can only be copied."""
    results: Results = {}
    regions: dict[str, Region] = {}
    try:
        source = region_around(executions, flat)
        if source is None:
            return None
        regions["input"] = source
        for role, (shape, dtype) in wanted.items():
            made = result_region(executions, shape, dtype)
            if made is None:
                return None
            results[role], regions[role] = made
    except MemoryError as error:
        raise executions.explained(error, plan) from None
    executions.run(plan, regions)
    return results
