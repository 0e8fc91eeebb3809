"""Which way to read memory with gaps in periods is chosen; test_kernels_periods.py runs the ways."""

from __future__ import annotations

import pytest
from period_layouts import layout_of_window
from plans import GPU_LIMITS, as_of_a_processor

from vkdml.plan import kernels
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.gaps import Gaps
from vkdml.plan.reduce.other_ways import OtherWays
from vkdml.plan.reduce.sectors import sector_bytes_of


def gaps_of(name, sizes, strides, axes, limits=GPU_LIMITS):
    layout = layout_of_window(sizes, strides, axes, 0, take_last=False)
    return Gaps(OtherWays(layout, Order(name), kernels.elements()[name].nbytes << 28, limits))


@pytest.mark.parametrize(("name", "sizes", "strides", "part", "repetitions"), [
    # Rows are columns of a block, and not stretches, each of which has candidates.
    ("float16", (1022, 1382), (8942, 2), 2763, 1022),
    ("uint8", (9, 57, 3340), (1 << 24, 65536, 1), 3340, 57),
    # A part of 8 bytes of 16 begins and ends with a sector; one of 15 of 16 is slower than the block.
    ("int64", (3185, 700, 8), (77592, 16, 1), 8, 3185),
    ("float32", (700_000, 15), (16, 1), 0, 700_000),
])  # fmt: skip
def test_the_fastest_way_is_that_of_least_bytes_columns_and_stretches(
    name, sizes, strides, part, repetitions
):
    gaps = gaps_of(name, sizes, strides, tuple(range(len(sizes))))
    fastest = gaps.fastest_of(gaps.ways)
    assert (fastest.part, fastest.size) == (part, repetitions)


def test_a_processor_does_not_mind_stretches():
    sizes, strides = (1022, 1382), (8942, 2)
    processor = gaps_of("float16", sizes, strides, (0, 1), as_of_a_processor(GPU_LIMITS))
    assert processor.fastest_of(processor.ways).stretches == 1022
    gpu = gaps_of("float16", sizes, strides, (0, 1))
    assert gpu.fastest_of(gpu.ways).stretches == 1


def test_other_kernels_read_what_is_little_or_lies_apart():
    """Two dispatches take their time, and memory that is read in vain takes its own."""
    sizes, strides = (32_000, 195, 2), (2052, 4, 1)
    assert gaps_of("float32", sizes, strides, (0, 1)).fastest is not None
    assert gaps_of("float32", (3_000, *sizes[1:]), strides, (0, 1)).fastest is None
    assert gaps_of("float32", sizes, (8 * 2052, 32, 8), (0, 1)).fastest is None


@pytest.mark.parametrize(("dims", "nbytes", "sectors"), [
    ([(1, 0)], 8, 1), ([(33, 1)], 1, 2), ([(4, 1), (8, 16)], 4, 8), ([(8, 16), (4, 1)], 1, 4),
    ([(3, -100), (2, 7)], 4, 3), ([(3, -100), (2, 9)], 4, 6), ([(3, -100), (2, 8)], 4, 6),
])  # fmt: skip
def test_sectors_of_elements_that_lie_near_each_other_count_once(dims, nbytes, sectors):
    assert sector_bytes_of(dims, nbytes) == 32 * sectors


@pytest.mark.parametrize(("sizes", "strides", "axes", "is_faster"), [
    # Positions go to the farthest elements first: 398 planes are repetitions of a part.
    ((584, 44, 4, 398), (910, 7, 1, 1 << 20), (1, 2, 3), True),
    # So do they in short rows, and the same positions in long rows are read in the order of memory.
    ((66098, 180, 2, 2), (4, 2924910, 649980, 1), (1, 2, 3), True),
    ((64, 180, 2, 2066), (4132, 2924910, 649980, 2), (1, 2, 3), False),
    # Outputs side by side share loads, but for few positions each waits by itself.
    ((14060, 1039, 2), (2, 163840, 32768), (1, 2), True),
    ((14060, 1039, 20), (2, 163840, 32768 // 16), (1, 2), False),
    # Two dispatches take longer than so few elements do.
    ((584, 4, 4, 50), (910, 7, 1, 1 << 20), (1, 2, 3), False),
])  # fmt: skip
def test_elements_that_are_slow_by_themselves_are_read_in_parts_of_blocks(sizes, strides, axes, is_faster):
    assert (gaps_of("uint8", sizes, strides, axes).instead_of_elements is not None) == is_faster
    processor = as_of_a_processor(GPU_LIMITS)
    assert gaps_of("uint8", sizes, strides, axes, processor).instead_of_elements is None


def test_one_dimension_of_elements_by_themselves_is_as_fast():
    assert gaps_of("uint8", (14060, 1039), (2, 163840), (1,)).instead_of_elements is None


def test_elements_that_are_slow_by_themselves_are_planned_in_periods():
    layout = layout_of_window((584, 44, 4, 398), (910, 7, 1, 584 * 910), (1, 2, 3), 0, take_last=False)
    plan = plan_argreduce(
        layout, Order("uint8"), 398 * 584 * 910, GPU_LIMITS, index_bytes=4, with_values=False
    )
    assert [step.kernel.split("_")[1] for step in plan.steps] == ["periods", "combine"]


@pytest.mark.parametrize(("name", "run", "in_periods"), [
    ("uint8", 8001, False), ("uint8", 4096, False), ("uint8", 4095, True), ("float16", 8001, True),
])  # fmt: skip
def test_long_runs_of_bytes_are_read_as_rows_rather_than_with_the_gaps_between_them(name, run, in_periods):
    pitch = run + 16 - run % 16
    sizes, strides = (150, run, 257), (pitch, 1, 150 * pitch + 64)
    assert (gaps_of(name, sizes, strides, (1, 2)).fastest is not None) == in_periods


def test_long_runs_of_bytes_are_read_in_parts_where_these_are_few():
    sizes, strides = (742, 1676, 119), (1, 307188, 742)
    gaps = gaps_of("uint8", sizes, strides, (0, 1, 2))
    assert gaps.fastest_of(gaps.ways).part
    assert gaps.fastest is not None
