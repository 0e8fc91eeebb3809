"""The model that divides the columns of GPUs: what it chooses, and what it must keep to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import GPU_LIMITS

from vkdml.plan import kernels
from vkdml.plan.device_classes import TUNING
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce.column_costs import ColumnWork
from vkdml.plan.reduce.columns import column_division
from vkdml.plan.reduce.reduction import Reduction

DISCRETE = TUNING["discrete"]
AT_ONCE = DISCRETE.columns_workgroups // 2


def division(
    name: str,
    rows: int,
    columns: int,
    *,
    with_values: bool = False,
    omit_nan: bool = False,
    limits: DeviceLimits = GPU_LIMITS,
):
    """Of a matrix that is reduced along its columns."""
    order = Order(name, omit_nan=omit_nan)
    layout = canonical_reduce(
        (rows, columns), row_major_strides((rows, columns)), (0,), (columns, 1), take_last=False
    )
    nbytes = rows * columns * order.element_type.nbytes
    return column_division(Reduction(layout, order, nbytes, limits), with_values=with_values)


@pytest.mark.parametrize("name", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("row_bytes", [16, 32])
def test_several_lanes_read_a_line_of_narrow_matrices(name, row_bytes):
    """Where one lane had a matrix, the invocations of a subgroup read 16 bytes of as many matrices."""
    order = Order(name)
    columns, rows = row_bytes // order.element_type.nbytes, 160
    sizes = (512 << 20) // row_bytes // rows, rows, columns
    layout = canonical_reduce(sizes, row_major_strides(sizes), (1,), (columns, columns, 1), take_last=False)
    chosen = column_division(Reduction(layout, order, 512 << 20, GPU_LIMITS), with_values=False)
    assert chosen.lanes * row_bytes >= 128


def work(groups: int, positions: int, tuning=DISCRETE) -> ColumnWork:
    return ColumnWork(
        "vectors",
        groups,
        4,
        positions,
        4 * groups,
        kernels.elements()["float32"],
        16 * groups,
        False,
        False,
        False,
        256,
        tuning,
    )


@pytest.mark.parametrize(
    ("name", "rows", "columns", "lanes", "splits"),
    [
        # The fastest of all divisions that were timed, or within 2% of it, on an H100 and an H200.
        ("float16", 4096, 131072, 16, 1),
        ("float16", 2048, 65536, 32, 1),
        ("float32", 4096, 65536, 16, 1),
        ("float32", 445, 150528, 4, 1),
        ("float32", 32, 524288, 1, 1),
        ("int64", 512, 65536, 8, 1),
        ("int8", 1783, 150528, 8, 1),
        # Of less than 4 MiB a whole workgroup reads 16 bytes of each row, and nothing is split.
        ("uint8", 6400, 512, 256, 1),
        ("uint8", 9084, 17, 256, 1),
        ("bfloat16", 1952, 185, 256, 1),
        ("int16", 4071, 14, 256, 1),
        ("int64", 745, 41, 256, 1),
    ],
)
def test_measured_shapes_are_divided_as_was_fastest(name, rows, columns, lanes, splits):
    chosen = division(name, rows, columns)
    assert (chosen.lanes, chosen.splits) == (lanes, splits)


@pytest.mark.parametrize("name", ["int8", "float16", "float32", "int64", "float64"])
@pytest.mark.parametrize("mib", [64, 256, 1024])
def test_workgroups_fill_a_gpu_and_a_last_wave_of_few_is_avoided(name, mib):
    nbytes = kernels.elements()[name].nbytes
    for columns in (1 << 13, 49152, 1 << 16, 100352, 150528, 1 << 18):
        rows = (mib << 20) // columns // nbytes
        chosen = division(name, rows, columns)
        workgroups = chosen.blocks * chosen.splits
        assert workgroups >= 128, (rows, columns)
        assert not AT_ONCE < workgroups <= 1.4 * AT_ONCE, (rows, columns)


def test_few_columns_are_split_and_many_are_not():
    assert division("float32", 1 << 20, 128).splits > 100
    assert division("float32", 64, 1 << 20).splits == 1


def test_small_columns_have_fewer_workgroups():
    """A cache reads them as fast, and each workgroup takes time to start."""
    small, large = division("float32", 64, 65536), division("float32", 4096, 65536)
    assert small.blocks * small.splits < large.blocks * large.splits / 2


def test_values_doubles_and_halves_that_omit_nan_leave_fewer_workgroups_at_once():
    """They take more registers. More workgroups than run at once take up to 1.3 times as long."""
    for chosen in (
        division("float16", 4096, 131072, omit_nan=True),
        division("float64", 131072, 255),
        division("float64", 131072, 256),
        division("float32", 131072, 256, with_values=True),
    ):
        assert chosen.blocks * chosen.splits <= AT_ONCE * 3 // 4


@given(
    st.integers(1, 1 << 16),
    st.integers(1, 1 << 20),
    st.integers(0, 8),
    st.integers(1, 40),
    st.integers(1, 500),
)
def test_a_division_keeps_to_what_is_allowed(groups, positions, most_lanes, least_splits, most_splits):
    most_lanes = 1 << most_lanes
    lanes, splits = work(groups, positions).cheapest_division(
        most_lanes, least_splits, lambda lanes: most_splits // lanes
    )
    assert lanes.bit_count() == 1
    assert lanes <= most_lanes
    assert least_splits <= splits <= max(most_splits, least_splits)


@given(st.integers(1, 1 << 14), st.integers(1, 1 << 16))
def test_a_device_of_half_the_size_divides_half_the_columns_alike(groups, positions):
    """What is chosen depends on shares of the device alone."""
    half = replace(DISCRETE, columns_workgroups=DISCRETE.columns_workgroups // 2)
    whole = work(2048 * groups, positions).cheapest_division(64, 1, lambda lanes: 1)
    assert work(1024 * groups, positions, half).cheapest_division(64, 1, lambda lanes: 1) == whole
