"""Elements of one and two bytes share a word with their position in a split, for which 16 bits are left.

A split has at most 65535 positions. Where the last of equals is taken, a position ranks one above its number:
the 65536th would have rank 0 again. One position more to a split gives wrong indices near multiples of 65536.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plans import run_plan

import vkdml
from vkdml.plan import kernels
from vkdml.plan.calls import Operand, ReduceCall, plan_for
from vkdml.plan.layout import row_major_strides
from vkdml.plan.order import Order

MOST = 1 << 16
COUNTS = (MOST - 1, MOST, MOST + 1, 2 * MOST - 2, 2 * MOST, 2 * MOST + 3)
# Outputs, and elements from one to the next and from row to row: aligned vectors, unaligned ones, none.
COLUMNS = {"aligned": (16, 1, 16), "unaligned": (16, 1, 17), "single": (2, 2, 5)}


@pytest.fixture
def few_splits(device):
    """No more splits than positions ask for."""
    tuning = replace(device.limits.tuning, columns_workgroups=1, split_workgroups=1, target_workgroups=1)
    return replace(device.limits, tuning=tuning)


def reduced(device, limits, columns: str, x: np.ndarray, take_last: bool) -> np.ndarray:
    """The indices of the greatest elements along axis 0 of an array laid out so."""
    count, outputs = x.shape
    _, across, down = COLUMNS[columns]
    elements = down * count
    flat = np.zeros(elements, x.dtype)
    np.lib.stride_tricks.as_strided(flat, x.shape, (down * x.itemsize, across * x.itemsize))[...] = x
    source = Operand(x.shape, (down, across), 0, elements)
    target = Operand((1, outputs), row_major_strides((1, outputs)), 0, outputs)
    plan = plan_for(ReduceCall(source, (0,), Order(x.dtype.name, False, take_last), target, 4), limits)
    families = {kernels.table()[step.kernel].family for step in plan.steps}
    assert families == {kernels.family("argreduce_columns")}
    return run_plan(device, plan, {"input": flat.tobytes()})["indices"].view(np.uint32)[:outputs]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("columns", "name"), [("aligned", "uint8"), ("unaligned", "int16"), ("single", "uint8")]
)
def test_positions_around_sixteen_bits(device, few_splits, columns, name, count):
    places = [place for place in (0, MOST - 2, MOST - 1, MOST, count - 2, count - 1) if place < count]
    outputs = COLUMNS[columns][0]
    least = np.iinfo(name).min
    x = np.full((count, outputs), least, name)
    for column in range(1, outputs):  # of the first, all elements are the least there is
        x[places[column % len(places)], column] = 5 + least
    for take_last in (False, True):
        wanted = count - 1 - x[::-1].argmax(0) if take_last else x.argmax(0)
        assert np.array_equal(reduced(device, few_splits, columns, x, take_last), wanted)


def test_as_called(device):
    """Many columns, so that there is one split, and winners far down."""
    x = np.zeros((MOST + 2, 700), np.uint8)
    places = (np.arange(700) * 97 + MOST - 300) % (MOST + 2)
    x[places, np.arange(700)] = 1
    assert np.array_equal(vkdml.argmax(x, 0, device=device), places)
