"""Any valid call of argmax, argmin or slice1, drawn by hypothesis, against the oracle."""

from __future__ import annotations

import checking
import numpy as np
import oracle
import pytest
import strategies
from hypothesis import Phase, given, settings
from thinned import examples

import vkdml

pytestmark = pytest.mark.usefixtures("device")


@given(strategies.argreduce_cases())
def test_argreduce(case: strategies.ArgReduceCase) -> None:
    checking.check_argreduce_case(case)
    check_values_are_the_elements_at_the_indices(case)
    check_a_reversed_input_gives_the_mirrored_index(case)


@given(strategies.slice1_cases())
def test_slice1(case: strategies.Slice1Case) -> None:
    checking.check_slice1_case(case)
    check_slice1_agrees_with_numpy_slicing(case)


# Failing cases of many megabytes are not shrunk: that would take longer than all other tests.
NOT_SHRUNK = (Phase.generate,)


@settings(examples(12), phases=NOT_SHRUNK)
@given(strategies.argreduce_cases(large=True))
def test_large_argreduce(case: strategies.ArgReduceCase) -> None:
    checking.check_argreduce_case(case)


@settings(examples(25), phases=NOT_SHRUNK)
@given(strategies.slice1_cases(large=True))
def test_large_slice1(case: strategies.Slice1Case) -> None:
    checking.check_large_slice1_case(case)


def check_values_are_the_elements_at_the_indices(case: strategies.ArgReduceCase) -> None:
    """No oracle of ours: what NumPy finds at the index returned is the value returned."""
    x = case.input()
    reduced = oracle.axis_set(case.axis, x.ndim)
    kept = tuple(a for a in range(x.ndim) if a not in reduced)
    call = {
        "axis": reduced,
        "direction": case.direction,
        "nan_policy": case.nan_policy,
        "dtype": case.output_dtype,
    }
    indices, values = getattr(vkdml, case.op)(x, return_values=True, **call)
    rows = (
        oracle.raw(x)
        .transpose(kept + reduced)
        .reshape(np.size(indices), strategies.reduced_count(x.shape, reduced))
    )
    found = (
        rows[np.arange(len(rows)), np.ravel(indices).astype(np.int64)]
        .view(x.dtype)
        .reshape(np.shape(indices))
    )
    checking.assert_same(values, found, str(case))


def check_a_reversed_input_gives_the_mirrored_index(case: strategies.ArgReduceCase) -> None:
    """Reversing the reduced axes and the direction picks the same element."""
    x = case.input()
    reduced = oracle.axis_set(case.axis, x.ndim)
    count = strategies.reduced_count(x.shape, reduced)
    other = oracle.DIRECTIONS[1 - oracle.DIRECTIONS.index(case.direction)]
    flipped = x[tuple(slice(None, None, -1 if a in reduced else 1) for a in range(x.ndim))]
    function = getattr(vkdml, case.op)
    forwards = function(x, axis=reduced, direction=case.direction, nan_policy=case.nan_policy)
    backwards = function(flipped, axis=reduced, direction=other, nan_policy=case.nan_policy)
    assert np.array_equal(forwards, count - 1 - backwards), case


def check_slice1_agrees_with_numpy_slicing(case: strategies.Slice1Case) -> None:
    """The same window as a NumPy basic slice."""
    x = case.input()
    key = []
    for offset, size, stride in zip(case.offsets, case.sizes, case.strides, strict=True):
        window = range(offset, offset + size) if stride > 0 else range(offset + size - 1, offset - 1, -1)
        stop: int | None = window.stop
        key.append(slice(window.start, None if stop is not None and stop < 0 else stop, stride))
    want = oracle.raw(x)[tuple(key)].view(x.dtype) if key else x
    got = vkdml.slice1(x, case.offsets, case.sizes, case.strides)
    checking.assert_same(got, want, str(case))
