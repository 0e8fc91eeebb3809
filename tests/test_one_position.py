"""Reductions over one position: every index is known, and next to nothing is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plans import GPU_LIMITS
from reduce_kernels import run_both

import vkdml
from vkdml.plan import kernels
from vkdml.plan.calls import Operand, ReduceCall, plan_for
from vkdml.plan.layout import extent
from vkdml.plan.order import Order

DTYPES = (np.int8, np.float16, np.float32, np.int64)


def operand(sizes, strides) -> Operand:
    """An operand in a buffer without room before or after it."""
    low, high = extent(sizes, strides)
    return Operand(sizes, strides, -low, high - low)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (3,), (4,), (1003,), (4096,), (2, 3, 4), (5, 7, 11), (64, 9, 4)])
def test_indices_are_0(dtype, shape):
    x = np.full((*shape, 1), 1, dtype)
    a = vkdml.asarray(x)
    for view in (x, x[::-1], a, a[::-1], a[..., ::-1, :]):
        for axis in (-1, view.ndim - 1):
            for dtype_of_indices in (np.int32, np.int64):
                found = vkdml.argmax(view, axis=axis, dtype=dtype_of_indices)
                got = np.asarray(found)
                assert got.dtype == dtype_of_indices
                assert got.shape == shape
                assert not got.any()


@pytest.mark.parametrize("shape", [(6, 1, 4), (7, 1, 5), (8, 1, 1024)])
def test_the_one_element_is_its_value(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0, 0, 0] = np.nan
    indices, values = vkdml.argmax(vkdml.asarray(x), axis=1, return_values=True)
    np.testing.assert_array_equal(np.asarray(values), x[:, 0])
    assert not np.asarray(indices).any()


@pytest.mark.parametrize(("direction", "index"), [("increasing", 0), ("decreasing", 49)])
def test_a_repeated_element_has_its_first_or_last_index(direction, index):
    x = np.broadcast_to(np.arange(64, dtype=np.float32)[:, None], (64, 50))
    got = np.asarray(vkdml.argmax(vkdml.asarray(x), axis=1, direction=direction))
    assert (got == index).all()


@pytest.mark.parametrize("index_bytes", [4, 8])
@pytest.mark.parametrize(("sizes", "strides", "written"), [
    ((30, 4, 1), (4, 1, 1), (4, 1, 1)),
    ((31, 4, 1), (-4, 1, 1), (4, 1, 1)),
    ((50, 4, 1), (4, -1, 1), (9, 1, 1)),
    ((6, 2, 10, 1), (1, 60, -6, 1), (20, 10, 1, 1)),
    ((257, 64, 1), (64, 1, 1), (64, -1, 1)),
])  # fmt: skip
def test_kernels_read_one_vector_and_write_what_their_twin_writes(sizes, strides, written, index_bytes):
    """What lies between the outputs stays as it was."""
    device = vkdml.default_device()
    short = replace(device.limits.tuning.short, tile_bytes=0)
    tuning = replace(device.limits.tuning, is_processor=False, short=short)
    limits = replace(device.limits, tuning=tuning)
    source, result = operand(sizes, strides), operand(sizes, written)
    call = ReduceCall(source, (len(sizes) - 1,), Order("uint8"), result, index_bytes)
    plan = plan_for(call, limits)
    assert kernels.table()[plan.steps[0].kernel].variant["element_bytes"] == "4_bytes"
    run_both(device, plan, {"input": np.random.default_rng(1).integers(0, 256, source.span, np.uint8)})


@pytest.mark.parametrize(("sizes", "strides", "is_read_once"), [
    ((1 << 20, 1), (3, 1), True),
    ((50, 4, 1), (-4, 1, 1), True),
    # Not whole vectors of indices.
    ((1_000_003, 1), (1, 1), False),
])  # fmt: skip
def test_outputs_in_whole_vectors_read_one_vector(sizes, strides, is_read_once):
    axis = len(sizes) - 1

    def strides_read(with_values: bool) -> list[int]:
        call = ReduceCall(
            operand(sizes, strides),
            *((axis,), Order("float16"), Operand.compact(sizes)),
            index_bytes=4,
            with_values=with_values,
        )
        (step,) = plan_for(call, GPU_LIMITS).steps
        family = kernels.table()[step.kernel].family
        push = family.unpack(step.push)
        words = push["layout_words"]
        return [words[dim * kernels.number("copied_dim_words") + 1] for dim in range(push["kept_dims"])]

    assert (strides_read(False) == [0, 1]) == is_read_once
    assert strides_read(True) != [0, 1]
