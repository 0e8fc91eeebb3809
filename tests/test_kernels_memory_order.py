"""Rows that subgroups read as they lie in memory: each way to find the winner's position, as the twins do."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
import twins
from period_layouts import layout_of, layout_of_window
from plans import GPU_LIMITS
from reduce_kernels import ELEMENTS, element_bits, run_both

import vkdml
from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce import element_costs, rows, runs
from vkdml.plan.reduce.argreduce import plan_argreduce

# Outputs, sizes of the reduced dimensions as they lie in memory, and elements from the end of an output to
# the next one.
SHAPES = {
    "short, aligned": (9, (3, 16), 0),
    "short, aligned, three dimensions": (6, (2, 2, 16), 16),
    "short": (6, (3, 10), 3),
    "short, three dimensions": (6, (2, 3, 11), 1),
    "short, split": (5, (17, 29), 3),
    "runs, split": (4, (4, 5, 32), 0),
    "long": (4, (13, 401), 5),
    "long, aligned": (4, (13, 512), 0),
    "long, three dimensions": (4, (7, 3, 250), 1),
    "long, split": (4, (41, 501), 1),
    "long, four dimensions": (2, (5, 3, 7, 45), 3),
}
TEN_DIMENSIONS = "long, ten dimensions"
ALL_SHAPES = {**SHAPES, TEN_DIMENSIONS: (2, (2, 3, 2, 2, 2, 2, 2, 2, 2, 5), 3)}
APART = {"runs, split": 16}
"""Elements from the end of a run to the next one."""


def plan_of(
    shape: str,
    name: str,
    limits: DeviceLimits,
    order: tuple[int, ...],
    *,
    backwards: tuple[int, ...] = (),
    rules: tuple[bool, bool, bool] = (False, False, False),
    with_values: bool = False,
    weights: tuple[int, ...] | None = None,
    index_bytes: int = 4,
    step: int = 1,
    first: int = 0,
):
    """Return the plan and the elements of its input: reduced dimensions in this order, then the outputs.

    Only every ``step``-th element of the input takes part, from ``first`` on.
    """
    outputs, reduced, apart = ALL_SHAPES[shape]
    strides = [stride * step for stride in row_major_strides(reduced)]
    strides[0] += step * APART.get(shape, 0)
    extent = strides[0] * reduced[0] + step * apart
    base = first + sum((reduced[dim] - 1) * strides[dim] for dim in backwards)
    signed = [-stride if dim in backwards else stride for dim, stride in enumerate(strides)]
    sizes = (*(reduced[dim] for dim in order), outputs)
    axes = tuple(range(len(reduced)))
    kept = (*(1 for _ in reduced), outputs)
    layout = canonical_reduce(
        sizes,
        (*(signed[dim] for dim in order), extent),
        axes,
        row_major_strides(kept),
        take_last=rules[1],
        input_base=base,
        index_weights=weights,
    )
    plan = plan_argreduce(
        layout,
        Order(name, *rules),
        outputs * extent,
        limits,
        index_bytes=index_bytes,
        with_values=with_values,
    )
    return plan, outputs * extent


def is_outside(shape: str) -> np.ndarray:
    """Tell of each element of the input whether it lies between runs or outputs."""
    outputs, reduced, apart = SHAPES[shape]
    run, gap = math.prod(reduced[1:]), APART.get(shape, 0)
    rows = np.tile(np.repeat([False, True], [run, gap]), reduced[0])
    return np.tile(np.concatenate([rows, np.ones(apart, bool)]), outputs)


def limits_of(device: vkdml.Device, split_workgroups: int = 1) -> DeviceLimits:
    """Of a GPU whose workgroup is one subgroup, so that small inputs are many chunks to an invocation."""
    size = device.limits.subgroup_size
    short = replace(DISCRETE.short, tile_bytes=0)
    tuning = replace(
        DISCRETE,
        workgroup_size=size,
        row_lanes=4,
        tile_bytes=512,
        fewest_vectors_per_lane=1,
        split_bytes=0,
        target_workgroups=1,
        split_workgroups=split_workgroups,
        shortest_row_bytes=16,
        short=short,
        periods=replace(
            device.limits.tuning.periods,
            from_bytes=1 << 30,
            elements_from_bytes=1 << 30,
            gaps_from_bytes=1 << 30,
        ),
    )
    return replace(device.limits, tuning=tuning)


def constants_of(plan) -> dict[str, int]:
    (step,) = plan.steps
    assert "subgroups_memory_order" in step.kernel
    return kernels.table()[step.kernel].named(step.constants)


def contents_of(rng, name: str, count: int):
    """Two values, so equal elements everywhere; all the same bits; any bits, with NaNs of both signs."""
    nbytes = ELEMENTS[name].nbytes
    few = rng.integers(0, 2, count, np.uint64).astype(f"<u{nbytes}")
    yield few.view(np.uint8)
    yield np.zeros(count * nbytes, np.uint8)
    yield element_bits(rng, name, count)
    yield rng.integers(0, 256, count * nbytes, np.uint8)


@pytest.mark.parametrize("name", ["int8", "bool", "float8_e4m3fn", "float16", "float32", "float64"])
def test_every_way_to_find_the_winner_in_memory_order(device, name):
    element = ELEMENTS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    ways = set()
    for number, shape in enumerate(SHAPES):
        dims = len(SHAPES[shape][1])
        orders = [order for order in itertools.permutations(range(dims)) if order != tuple(range(dims))]
        limits = limits_of(device, 8 if "split" in shape else 1)
        for order in {orders[number % len(orders)], orders[-1]}:
            backwards = (order[0],) if number % 3 else ()
            rules = (bool(number & 1), bool(number & 2), bool(number & 4) and element.is_float)
            plan, count = plan_of(
                shape, name, limits, order, backwards=backwards, rules=rules, with_values=order == orders[-1]
            )
            constants = constants_of(plan)
            ways.add((constants["kept_vectors"] > 0, constants["aligned"] > 0, twins.is_split(plan.steps[0])))
            beside = is_outside(shape) != rules[0]  # what lies beside the rows would win
            for content in (
                *contents_of(rng, name, count),
                beside.astype(f"<u{element.nbytes}").view(np.uint8),
            ):
                run_both(device, plan, {"input": content})
    kept_and_aligned = {way[:2] for way in ways}
    assert len(kept_and_aligned) == 4
    assert {way[2] for way in ways} == {False, True}


@pytest.mark.parametrize(
    ("turn", "name"), [(0, "uint8"), (1, "bool"), (2, "float16"), (3, "float32"), (4, "int64")]
)
def test_every_way_to_find_the_winner_of_rows_with_steps(device, turn, name):
    """What lies between the elements of a row would win, in some inputs."""
    element, ways = ELEMENTS[name], set()
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for number, shape in enumerate(SHAPES):
        step = 2 + (number + turn) % 3
        dims, first = len(SHAPES[shape][1]), number % step
        orders = [order for order in itertools.permutations(range(dims)) if order[-1] != dims - 1]
        order = orders[number % len(orders)]
        rules = (bool(number & 1), bool(number & 2), bool(number & 4) and element.is_float)
        plan, count = plan_of(
            *(shape, name, limits_of(device, 8 if "split" in shape else 1), order),
            backwards=(order[0],) if number % 3 else (),
            rules=rules,
            with_values=bool(number & 1),
            step=step,
            first=first,
        )
        constants = constants_of(plan)
        assert constants["row_step"] == step
        ways.add((constants["kept_vectors"] > 0, constants["aligned"] > 0, twins.is_split(plan.steps[0])))
        takes_part = np.zeros(count, bool)
        takes_part[first::step] = ~is_outside(shape)
        beside = (takes_part == rules[0]).astype(f"<u{element.nbytes}").view(np.uint8)
        for content in (*contents_of(rng, name, count), beside):
            run_both(device, plan, {"input": content})
    for way in zip(*ways, strict=True):
        assert set(way) == {False, True}


@pytest.mark.in_turn(any_of=("name", "run"))
@pytest.mark.parametrize(
    ("name", "run"),
    [("uint8", 14), ("float16", 5), ("float32", 3), ("float32", 14), ("int64", 2), ("int64", 7)],
)
def test_short_runs_out_of_order_are_read_at_once(device, monkeypatch, name, run):
    """However short they are, and wherever they start and end within vectors."""
    monkeypatch.setattr(element_costs.ElementCosts, "is_in_rows", True)
    limits, rng = limits_of(device), np.random.default_rng(run)
    limits = replace(limits, tuning=replace(limits.tuning, shortest_row_bytes=1 << 10))
    for number, (outer, beside, last) in enumerate(itertools.product((2, 21), (0, 3), (False, True))):
        memory = outer, 37, run + beside
        outer_stride, kept_stride, _ = row_major_strides(memory)
        strides = 1, outer_stride, kept_stride
        layout = layout_of_window((run, outer, 37), strides, (0, 1), number, take_last=last)
        count = math.prod(memory) + number
        order = Order(name, take_last=last)
        plan = plan_argreduce(layout, order, count, limits, index_bytes=4, with_values=True)
        kernel = kernels.table()[plan.steps[0].kernel]
        assert "memory_order" in kernel.name
        assert kernel.family.unpack(plan.steps[0].push)["run"] == run
        for content in contents_of(rng, name, count):
            run_both(device, plan, {"input": content})


def test_short_runs_out_of_order_are_read_at_once_where_no_cache_holds_their_elements():
    """14 words in each of 20 places are; few places, small inputs and positions in order are not."""

    def is_read_at_once(memory, order, name="float32"):
        layout, count = layout_of((memory, order, (0, 1), 0), (False, False, False))
        plan = plan_argreduce(layout, Order(name), count, GPU_LIMITS, index_bytes=4, with_values=False)
        return "argreduce_rows_subgroups_memory_order" in plan.steps[0].kernel

    assert is_read_at_once((20, 462451, 14), (2, 0, 1))
    assert is_read_at_once((30, 300000, 7), (2, 0, 1), "int64")
    assert not is_read_at_once((20, 462451, 14), (0, 2, 1))
    assert not is_read_at_once((3, 1 << 22, 14), (2, 0, 1))
    assert not is_read_at_once((20, 9999, 14), (2, 0, 1))


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_far_rows_whose_indices_are_side_by_side_follow_each_other(device, monkeypatch, name):
    """Indices side by side of far rows, and of neighbours, whose plan stays the same."""
    limits, rng = limits_of(device), np.random.default_rng(zlib.crc32(name.encode()))
    length = 64 // ELEMENTS[name].nbytes
    for number, (order, extra) in enumerate(itertools.product(((2, 1, 0, 3), (1, 0, 2, 3)), (0, 1))):
        memory = 5, 7, 6, length + extra
        monkeypatch.setattr(rows, "FARTHEST_CACHED", 0)
        layout, count = layout_of((memory, order, (3,), number), (False, number % 2 == 1, False))
        how = {"index_bytes": 4 * (1 + number % 2), "with_values": number < 2}
        plan = plan_argreduce(layout, Order(name, take_last=number % 2 == 1), count, limits, **how)
        assert kernels.table()[plan.steps[0].kernel].family.name == "argreduce_rows"
        for content in contents_of(rng, name, count):
            run_both(device, plan, {"input": content})
        monkeypatch.setattr(rows, "FARTHEST_CACHED", 1 << 40)
        as_in_memory = plan_argreduce(layout, Order(name, take_last=number % 2 == 1), count, limits, **how)
        assert (plan == as_in_memory) == (order[-2] == 2)  # the nearest in the input, too


def test_which_rows_follow_each_other_in_the_order_of_their_indices():
    """Short rows, few and far apart: sectors of indices would leave caches before they are full."""

    def is_reordered(memory, order, name="float32"):
        layout, _ = layout_of((memory, order, (len(memory) - 1,), 0), (False, False, False))
        found = runs.long_runs_of(layout, Order(name).element_type, GPU_LIMITS)
        return rows.with_rows_beside(layout, found, Order(name).element_type, GPU_LIMITS) != layout

    assert is_reordered((13, 322638, 32), (1, 0, 2))
    assert is_reordered((4, 8, 65536, 32), (2, 1, 0, 3), "int64")
    assert not is_reordered((13, 322638, 32), (0, 1, 2))
    assert not is_reordered((17, 322638, 32), (1, 0, 2))  # more than two sectors
    assert not is_reordered((13, 32263, 32), (1, 0, 2))  # near each other
    assert not is_reordered((13, 80660, 128), (1, 0, 2))  # long rows


@pytest.mark.in_turn(any_of=("name", "last"))
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["uint8", "float16", "int64"])
def test_equal_elements_in_more_dimensions_than_bounds_know(device, name, last):
    """Elements are refused by their coordinates in the eight outermost dimensions of a run."""
    rng = np.random.default_rng(last)
    limits, element, dims = limits_of(device), ELEMENTS[name], len(ALL_SHAPES[TEN_DIMENSIONS][1])
    for _ in range(6):
        order = tuple(map(int, rng.permutation(dims)))
        backwards = tuple(dim for dim in range(dims) if rng.integers(3) == 0)
        plan, count = plan_of(
            TEN_DIMENSIONS, name, limits, order, backwards=backwards, rules=(False, last, False)
        )
        assert constants_of(plan)["kept_vectors"] == 0
        for share in (0.003, 0.5, 1):
            content = (rng.random(count) < share).astype(f"<u{element.nbytes}")
            run_both(device, plan, {"input": content.view(np.uint8)})


@pytest.mark.in_turn(any_of=("name", "last"))
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["uint8", "float16"])
def test_few_equal_winners_in_any_order_of_dimensions(device, name, last):
    """Vectors are refused by the best position that they could have, wherever dimensions lie in memory."""
    rng = np.random.default_rng(last)
    element = ELEMENTS[name]
    limits = limits_of(device)
    for shape in ("long, three dimensions", "long, four dimensions"):
        dims = range(len(SHAPES[shape][1]))
        for order in itertools.permutations(dims):
            if order == tuple(dims):
                continue
            backwards = tuple(dim for dim in dims if rng.integers(4) == 0)
            plan, count = plan_of(shape, name, limits, order, backwards=backwards, rules=(False, last, False))
            assert constants_of(plan)["kept_vectors"] == 0
            for share in (0.01, 0.1):
                content = (rng.random(count) < share).astype(f"<u{element.nbytes}")
                run_both(device, plan, {"input": content.view(np.uint8)})


@pytest.mark.in_turn(any_of=("name", "last"))
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["float32", "int32", "uint32"])
def test_no_output_takes_the_rank_of_another(device, name, last):
    """Invocations of an output tell each other ranks of equal keys; those of others have such keys, too."""
    rng = np.random.default_rng(last)
    limits, size = limits_of(device), device.limits.subgroup_size
    limits = replace(limits, tuning=replace(limits.tuning, workgroup_size=4 * size, row_lanes=size))
    for shape, order in (("long", (1, 0)), ("long, three dimensions", (2, 1, 0)), ("long, split", (1, 0))):
        plan, count = plan_of(shape, name, limits, order, rules=(False, last, False))
        assert constants_of(plan)["whole_subgroups"]
        assert constants_of(plan)["workgroup"] == 4 * size
        # Each output has its first equal elements at a later, and its last ones at an earlier position.
        outputs, (*_, row) = SHAPES[shape][0], SHAPES[shape][1]
        columns = np.arange(count) % (count // outputs) % row
        nth = np.arange(count) // (count // outputs)
        for share in (0.02, 0.3):
            inside = (columns >= nth * row // 9) & (columns < row - nth * row // 9)
            content = ((rng.random(count) < share) & inside).astype("<u4")
            run_both(device, plan, {"input": content.view(np.uint8)})


@pytest.mark.parametrize("index_bytes", [4, 8])
def test_indices_that_are_no_positions(device, index_bytes):
    """A part of a larger reduction has weights of its own; backwards, positions descend with the index."""
    rng = np.random.default_rng(index_bytes)
    limits = limits_of(device)
    large = 1 << (33 if index_bytes == 8 else 20)
    for weights, backwards in ((None, ()), ((large, 3, 0), ()), (None, (0, 1)), ((large, 3, 0), (0,))):
        plan, count = plan_of(
            "short",
            "int16",
            limits,
            (1, 0),
            weights=weights and weights[:2],
            backwards=backwards,
            index_bytes=index_bytes,
        )
        for content in contents_of(rng, "int16", count):
            run_both(device, plan, {"input": content})


def reading_plan(memory: tuple[int, ...], permutation: tuple[int, ...], axes, name: str, with_values: bool):
    strides = row_major_strides(memory)
    sizes = tuple(memory[axis] for axis in permutation)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    layout = canonical_reduce(
        sizes,
        tuple(strides[axis] for axis in permutation),
        axes,
        row_major_strides(kept),
        take_last=False,
    )
    return plan_argreduce(
        layout, Order(name), math.prod(memory), GPU_LIMITS, index_bytes=4, with_values=with_values
    )


def test_layouts_in_memory_order_are_push_constants_where_nobody_asks_for_the_order_of_positions():
    plan = reading_plan((139810, 24, 40), (2, 1, 0), (0, 1), "float16", False)
    (step,) = plan.steps
    push = kernels.table()[step.kernel].family.unpack(step.push)
    assert push["layout_in_push"]
    assert not plan.layout
    with_values = reading_plan((139810, 24, 40), (2, 1, 0), (0, 1), "float16", True)
    (step,) = with_values.steps
    push = kernels.table()[step.kernel].family.unpack(step.push)
    room = kernels.table()[step.kernel].family.layout_room
    assert not push["layout_in_push"]
    assert push["layout_words"] == with_values.layout[:room]


@pytest.mark.parametrize(
    ("memory", "name", "kept"),
    [
        ((1118480, 4, 30), "float16", 4),
        ((1118480, 4, 15), "float64", 4),
        ((654729, 5, 41), "int8", 7),
        ((1743136, 7, 11), "float32", 5),
        ((139810, 24, 40), "float16", 8),
        ((279620, 24, 40), "int8", 8),
        ((279620, 24, 40), "bool", 0),
        ((131072, 64, 32), "float16", 0),
        ((139810, 24, 40), "float32", 8),
        ((139810, 23, 41), "float32", 8),
        ((20000, 64, 100), "float32", 0),
        ((2000, 254, 251), "float32", 0),
        ((64, 4096, 512), "float32", 0),
    ],
)
def test_invocations_keep_short_rows(memory, name, kept):
    plan = reading_plan(memory, (2, 1, 0), (0, 1), name, False)
    assert constants_of(plan)["kept_vectors"] == kept
    (step,) = plan.steps
    push = kernels.table()[step.kernel].family.unpack(step.push)
    assert kept == 0 or push["splits"] == push["tiles_per_run"] == 1
