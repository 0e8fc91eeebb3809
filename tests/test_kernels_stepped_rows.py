"""Rows with a step: the kernel, which masks what lies between, against its twin; which plans have it."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import replace

import numpy as np
import pytest
from plans import GPU_LIMITS
from reduce_kernels import ELEMENTS, element_bits, limits_for, run_both
from reduce_kernels import small_limits as small_limits

from vkdml.plan import kernels
from vkdml.plan.device_classes import SOFTWARE
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce import runs
from vkdml.plan.reduce.argreduce import plan_argreduce

ROWS = kernels.family("argreduce_rows")
NAMES = ("uint8", "bool", "float16", "float32", "int64", "float64")
RULES = list(itertools.product((False, True), repeat=3))
# Outputs; runs of each; elements of a run, in vectors of memory, and some more; elements between runs;
# elements before the first of all.
CASES = {
    "channels": (37, 1, (18, 0), 0, 0),
    "second channel": (37, 1, (24, 0), 0, 1),
    "long rows": (5, 1, (150, 0), 0, 1),
    "unaligned rows": (21, 1, (17, 1), 1, 0),
    "long unaligned rows": (3, 1, (131, 1), 3, 5),
    "several runs": (4, 3, (24, 0), 0, 1),
    "several long runs": (3, 2, (70, 0), 0, 0),
    "unaligned runs": (3, 4, (11, 1), 1, 3),
    "one output": (1, 1, (400, 1), 0, 2),
}


@pytest.fixture
def _all_unaligned_rows(monkeypatch):
    """Of these only some are read in vectors; the kernel can read all."""
    monkeypatch.setattr(runs, "UNALIGNED_STEP_BYTES", 32)
    monkeypatch.setattr(runs, "UNALIGNED_STEPS_FROM", 0)
    monkeypatch.setattr(runs, "SHORTEST_STEPPED_RUN", 0)


def sizes_of(case, name, step) -> tuple[int, int]:
    """Return the elements of a run, and the distance of runs in memory."""
    _, _, (vectors, more), between, _ = CASES[case]
    length = max(vectors * (16 // ELEMENTS[name].nbytes) // step, 1) + more
    return length, length * step + between


def planned(case, name, step, limits, rules=(False, False, False), *, backwards=False):
    """Plan a case; return the plan and the elements of the array."""
    outputs, runs, _, _, base = CASES[case]
    length, pitch = sizes_of(case, name, step)
    count = base + outputs * runs * pitch
    strides = (runs * pitch, pitch, -step if backwards else step)
    if backwards:
        base += (length - 1) * step
    order = Order(name, *rules)
    layout = canonical_reduce(
        *((outputs, runs, length), strides, (1, 2), row_major_strides((outputs, 1, 1))),
        take_last=order.take_last,
        input_base=base,
    )
    return plan_argreduce(layout, order, count, limits, index_bytes=4, with_values=rules[0]), count


def constants_of(plan) -> dict[str, int]:
    (step,) = plan.steps
    assert kernels.table()[step.kernel].family == ROWS
    return kernels.table()[step.kernel].named(step.constants)


@pytest.mark.usefixtures("_all_unaligned_rows")
@pytest.mark.in_turn(any_of=("name", "case"))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_kernels_write_what_their_twin_writes(device, small_limits, name, case):
    step = (2, 3, 4)[(NAMES.index(name) + [*CASES].index(case)) % 3]
    limits = limits_for(small_limits, fast=True)
    limits = replace(limits, tuning=replace(limits.tuning, shortest_row_bytes=16), max_subgroups=16)
    seed = zlib.crc32(f"{name} {step} {case}".encode())
    # Backwards, several runs follow each other in one direction and their elements in the other.
    plan, count = planned(case, name, step, limits, RULES[seed % 8], backwards=seed % 3 == 0)
    assert constants_of(plan)["row_step"] == step
    bits = element_bits(np.random.default_rng(seed), name, count)
    run_both(device, plan, {"input": bits})


@pytest.mark.usefixtures("_all_unaligned_rows")
@pytest.mark.in_turn(any_of=("name", "take_last", "case"))
@pytest.mark.parametrize("name", ["uint8", "float16", "int32", "int64"])
@pytest.mark.parametrize("take_last", [False, True])
@pytest.mark.parametrize("case", ["second channel", "long unaligned rows", "unaligned runs", "one output"])
def test_what_lies_between_never_wins(device, small_limits, name, take_last, case):
    """Between are the greatest keys, and the row has the least alone: its first or last element wins."""
    step = min(5 if take_last else 7, 32 // ELEMENTS[name].nbytes)
    limits = replace(limits_for(small_limits, fast=True), max_subgroups=16)
    plan, count = planned(case, name, step, limits, (False, take_last, False))
    assert constants_of(plan)["row_step"] == step
    element = {"uint8": np.uint8, "float16": np.float16, "int32": np.int32, "int64": np.int64}[name]
    least, most = (-np.inf, np.inf) if name == "float16" else (np.iinfo(element).min, np.iinfo(element).max)
    x = np.full(count, most, element)
    outputs, runs, _, _, base = CASES[case]
    length, pitch = sizes_of(case, name, step)
    for run in range(outputs * runs):
        x[base + run * pitch :][: length * step : step] = least
    run_both(device, plan, {"input": x.view(np.uint8)})


def test_gpus_read_rows_with_few_elements_between_them_in_vectors():
    def steps_of(limits, name, step, case="channels", **options) -> int:
        plan, _ = planned(case, name, step, limits, **options)
        kernel = kernels.table()[plan.steps[0].kernel]
        return kernel.named(plan.steps[0].constants).get("row_step", 0) if kernel.family == ROWS else 0

    for name, nbytes in (("uint8", 1), ("float16", 2), ("float32", 4), ("int64", 8)):
        assert steps_of(GPU_LIMITS, name, 2) == 2
        # Masks of unaligned rows are worth their time for the narrowest elements.
        assert steps_of(GPU_LIMITS, name, 2, "unaligned rows") == (2 if nbytes < 4 else 0)
        assert steps_of(GPU_LIMITS, name, 3, "unaligned rows") == 0, "too few bytes"
        assert steps_of(GPU_LIMITS, name, 3, "long rows") == (3 if nbytes == 1 else 0)
        assert steps_of(GPU_LIMITS, name, 5, "long rows") == 0
        assert steps_of(GPU_LIMITS, name, 2, backwards=True) == 2
        # Several short runs of wide elements take longer.
        assert steps_of(GPU_LIMITS, name, 2, "several runs", backwards=True) == (2 if nbytes < 4 else 0)
        assert steps_of(GPU_LIMITS, name, 2, "several long runs", backwards=True) == 2
        assert steps_of(GPU_LIMITS, name, 16 // nbytes) == 16 // nbytes
        assert steps_of(GPU_LIMITS, name, 32 // nbytes) == 0, "no vector has a whole step"
        assert steps_of(replace(GPU_LIMITS, tuning=SOFTWARE), name, 2) == 0
        assert steps_of(replace(GPU_LIMITS, subgroup_size=0), name, 2) == 0


def test_other_outputs_may_not_lie_between():
    """All of their elements are needed: tiles read them once."""
    layout = canonical_reduce((3000, 40, 2), (80, 2, 1), (1,), (2, 2, 1), take_last=False)
    plan = plan_argreduce(layout, Order("uint8"), 240_000, GPU_LIMITS, index_bytes=4, with_values=False)
    assert kernels.table()[plan.steps[0].kernel].family != ROWS


def test_all_channels_of_aligned_rows_are_aligned():
    for channel in range(4):
        layout = canonical_reduce(*((64, 256), (1024, 4), (1,), (1, 0)), take_last=False, input_base=channel)
        plan = plan_argreduce(layout, Order("uint8"), 64 * 1024, GPU_LIMITS, index_bytes=4, with_values=False)
        constants = constants_of(plan)
        assert (constants["aligned"], constants["row_step"], constants["row_first"]) == (1, 4, channel)
