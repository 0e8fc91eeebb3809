"""Reductions in periods whose candidates do not fit the scratch memory: a part of the outputs at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import twins_combine
from period_layouts import layout_of
from planned_reductions import PROCESSOR, WALKED, families, families_of, steps_of_view
from plans import GPU_LIMITS, run_plan
from reduce_kernels import ELEMENTS, run_both

from vkdml.plan.layout import row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce import argreduce, in_parts, period_division, periodic_plans, repetition
from vkdml.plan.reduce.joined import Joining
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import Results

# The array in memory, its order of axes, the axes that are reduced, how many candidates fit, and the parts.
CASES = {
    "bytes in planes": ((9, 5, 30, 4), (2, 3, 1, 0), (1, 3), 260, 3),
    "no equal parts": ((40, 7, 11), (1, 2, 0), (2,), 30, 3),
    "one output each": ((33, 5, 12), (1, 2, 0), (1, 2), 15, 5),
    "inside a block": ((12, 10, 20), (2, 1, 0), (0, 2), 120, 2),
}


def divided(case, name, rules, monkeypatch):
    """Return the layout of a case and how it is read, if scratch memory has room for so few candidates."""
    memory, order, axes, candidates, _ = case
    layout, count = layout_of((memory, order, axes, 0), rules)
    element = ELEMENTS[name]
    room = candidates * repetition.column_words(element)
    for module in (repetition, period_division):
        monkeypatch.setattr(module, "scratch_words", lambda _: room)
    return layout, in_parts.fastest_in_parts(layout, element, count * element.nbytes)


@pytest.mark.parametrize("name", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("what", CASES)
def test_parts_are_reduced_one_after_the_other(device, monkeypatch, what, name):
    memory, order, axes, _, most = CASES[what]
    count = math.prod(memory)
    rng = np.random.default_rng(count)
    content = rng.integers(-3, 4, count).astype(name)  # many are equal
    array = content.reshape(memory).transpose(order)
    for number, rules in enumerate(itertools.product((False, True), (False, True), (False,))):
        layout, found = divided(CASES[what], name, rules, monkeypatch)
        assert found is not None
        assert 2 <= len(found.layouts) <= most
        index_bytes = 8 if number % 2 else 4
        results = Results(index_bytes, True, layout.outputs, layout.greatest_index)
        reduction = Reduction(layout, Order(name, *rules), content.nbytes, device.limits)
        plan = in_parts.plan_in_parts(found, reduction, results)
        assert len(plan.steps) == 2 * len(found.layouts)
        run_both(device, plan, {"input": content.view(np.uint8)}, twins_combine.run)
        got = run_plan(device, plan, {"input": content.view(np.uint8)})
        rows = np.moveaxis(array, axes, range(-len(axes), 0))
        rows = rows.reshape(*rows.shape[: -len(axes)], -1)
        best = rows.min(-1, keepdims=True) if rules[0] else rows.max(-1, keepdims=True)
        found_at = rows == best
        expected = rows.shape[-1] - 1 - found_at[..., ::-1].argmax(-1) if rules[1] else found_at.argmax(-1)
        assert np.array_equal(got["indices"].view(f"<u{index_bytes}"), expected.reshape(-1))
        values = got["values"].view(name)[: layout.outputs]
        assert np.array_equal(values, best.reshape(-1))


@pytest.mark.parametrize("what", CASES)
def test_parts_have_every_output(monkeypatch, what):
    layout, found = divided(CASES[what], "float32", (False, False, False), monkeypatch)
    outputs = np.zeros(layout.outputs, int)
    for part in found.layouts:
        places = np.array(part.output_base)
        for dim in part.kept:
            places = np.add.outer(places, np.arange(dim.size) * dim.output_stride)
        outputs[places] += 1
    assert outputs.min() == 1
    assert outputs.sum() < 2 * layout.outputs


def families_of_window(memory, order, axes, name):
    """The kernels that reduce an array whose last two elements of each innermost row take no part."""
    strides = row_major_strides(memory)
    shown = (*memory[:-1], memory[-1] - 2)
    sizes, strides = (tuple(each[axis] for axis in order) for each in (shown, strides))
    return families(steps_of_view(sizes, strides, axes, math.prod(memory), name))


@pytest.mark.parametrize(
    ("memory", "order", "axes", "name", "planned"),
    [
        # Runs of 5 bytes, of 12, of 16 and of 80 out of the order of positions, in one part.
        ((3137, 14322, 7), (1, 2, 0), (1, 2), "int8", WALKED),
        ((200, 97090, 5), (1, 2, 0), (1, 2), "float32", WALKED),
        ((16549, 99, 8, 6), (1, 3, 2, 0), (1, 2, 3), "float32", WALKED),
        ((128, 243, 70, 12), (1, 3, 2, 0), (1, 2, 3), "int64", WALKED),
        # More outputs, of which scratch memory has no room for all candidates.
        ((200, 294875, 9), (1, 2, 0), (1, 2), "int8", 2 * WALKED),
        ((64, 3276, 200, 7), (1, 3, 2, 0), (1, 2, 3), "int8", 5 * WALKED),
        # Longer runs, and so many outputs that there would be too many parts.
        ((33, 24960, 127), (1, 2, 0), (1, 2), "float32", ["rows"]),
        ((40, 129600, 62), (1, 2, 0), (1, 2), "int8", ["rows"]),
    ],
)
def test_short_runs_out_of_order_are_read_in_periods(memory, order, axes, name, planned):
    """Each run would be found by divisions; every part takes two dispatches, and reads shorter pieces."""
    assert families_of_window(memory, order, axes, name) == planned


@pytest.mark.parametrize(
    ("sizes", "strides", "axes", "limits"),
    [
        ((63, 64, 800, 15), (819200, 12800, 16, 1), (1, 3), GPU_LIMITS),  # runs in the order of positions
        ((9, 22, 513, 354), (12312, 1, 24, 110808), (1, 2, 3), PROCESSOR),
    ],
)
def test_other_runs_stay_rows(sizes, strides, axes, limits):
    count = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    assert families(steps_of_view(sizes, strides, axes, count, "int64", limits)) == ["rows"]


@pytest.mark.parametrize(
    ("name", "outputs", "run", "positions", "in_periods"),
    [
        ("uint8", 2, 90, 513, True), ("float16", 16, 400, 50, True), ("float32", 5, 100, 57, True),
        # More outputs, longer runs, fewer positions, wider elements.
        ("uint8", 17, 90, 50, False), ("uint8", 2, 1000, 50, False), ("uint8", 2, 90, 39, False),
    ],
)  # fmt: skip
def test_a_processor_reads_short_runs_of_few_outputs_in_periods(name, outputs, run, positions, in_periods):
    """Their positions are out of the order of memory, and other outputs lie between the runs."""
    memory = (positions, 40, outputs, run)
    strides = row_major_strides(memory)
    sizes, strides = (
        tuple(memory[axis] for axis in (0, 3, 1, 2)),
        tuple(strides[axis] for axis in (0, 3, 1, 2)),
    )
    planned = families(steps_of_view(sizes, strides, (0, 1, 2), math.prod(memory), name, PROCESSOR))
    assert planned == (["periods", "combine"] if in_periods else ["rows"])


@pytest.mark.parametrize(
    ("name", "memory", "order", "axes", "planned"),
    [
        ("float16", (150, 5, 60, 30, 100), (0, 3, 2, 1, 4), (0, 2, 3, 4), WALKED),
        # The innermost rows are long, or the input is small.
        ("float16", (5, 150, 60, 30, 100), (0, 3, 2, 1, 4), (0, 2, 3, 4), ["joined"]),
        ("float16", (30, 6, 40, 25, 9), (0, 3, 2, 1, 4), (0, 2, 3, 4), ["joined"]),
        # Two dimensions of narrow elements: in short rows, in long ones, and in long ones of copies.
        ("uint8", (6, 578, 2764, 14), (3, 1, 2, 0), (0, 1, 3), WALKED),
        ("uint8", (513, 513, 15, 68), (3, 2, 1, 0), (0, 2, 3), ["joined"]),
        ("float16", (513, 102, 513, 5), (0, 3, 2, 1), (0, 2), WALKED),
        ("float32", (9220, 85, 17, 10), (1, 0, 2, 3), (0, 2), ["joined"]),
    ],
)
def test_joined_columns_are_read_in_periods_if_dimensions_begin_often(
    monkeypatch, name, memory, order, axes, planned
):
    case = memory, order, axes, name
    assert families_of(*case) == planned
    monkeypatch.setattr(Joining, "is_slower_than_periods", False)
    assert families_of(*case) == ["joined"]


@pytest.mark.parametrize(
    ("name", "memory", "order", "axes", "planned"),
    [
        ("float16", (840, 2, 3, 50257), (0, 1, 2, 3), (0, 2), WALKED),
        ("float32", (2525, 4, 25, 513), (0, 1, 2, 3), (0, 2), WALKED),
        ("int64", (2525, 2, 25, 513), (0, 1, 2, 3), (0, 2), WALKED),
        # Rows shorter than a line.
        ("int64", (4266, 1431, 11), (2, 1, 0), (2,), WALKED),
        # Together these are aligned.
        ("int64", (4266, 1430, 11), (2, 1, 0), (2,), ["columns"]),
        # Longer ones along one dimension, what takes long to compare, many stretches, and a small input.
        ("int64", (4266, 715, 22), (2, 1, 0), (2,), ["columns"]),
        ("float64", (2525, 2, 25, 513), (0, 1, 2, 3), (0, 2), ["columns"]),
        ("float16", (6, 5, 218, 41045), (0, 1, 2, 3), (0, 2), ["columns"]),
        ("float16", (84, 2, 3, 50257), (0, 1, 2, 3), (0, 2), ["columns"]),
    ],
)
def test_unaligned_columns_are_read_in_periods(monkeypatch, name, memory, order, axes, planned):
    """Their loads start anywhere in a vector."""
    case = memory, order, axes, name
    assert families_of(*case) == planned
    monkeypatch.setattr(argreduce, "plan_periods_instead_of_unaligned_columns", lambda *_: None)
    assert families_of(*case) == ["columns"]


def test_no_ways_are_compared_to_read_small_unaligned_columns(monkeypatch):
    """Two dispatches take longer than these take at all, and to compare takes as long as to plan them."""
    monkeypatch.setattr(periodic_plans, "fastest_in_parts", None)
    assert families_of((100, 33, 77), (0, 1, 2), (1,), "float32") == ["columns"]
