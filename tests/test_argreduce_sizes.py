"""argmax and argmin at sizes around every plausible lane, workgroup and tile, ties across each boundary."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import oracle
import pytest
import strategies
from checking import OPPOSITE_MODES, check_argreduce, check_every_mode, check_opposite_modes
from oracle import AnyArray
from thinned import some_of

import vkdml
from vkdml.plan import kernels

pytestmark = pytest.mark.usefixtures("device")

BOUNDARIES = (4, 16, 64, 128, 256, 512, 1024, 4096, 8192, 16384, 32768, 65536)
SIZES = tuple(sorted({1, 2, 3} | {n for k in BOUNDARIES for n in (k - 1, k, k + 1, 2 * k)}))
FEW_PLANTS_FROM = 512  # from this size on, the ways to tie take turns
FEW_POSITIONS_FROM = 4096  # from this size on, pairs of positions do, too

# One of each element width and kind of key; the other types get the sizes that are quick.
WIDE_RANGE = ("float32", "float16", "uint8", "int64")


def test_the_wide_range_has_each_element_width() -> None:
    widths = [oracle.dtype_named(name).itemsize for name in WIDE_RANGE]
    assert sorted(widths) == sorted({element.nbytes for element in kernels.elements().values()})


@dataclasses.dataclass(frozen=True)
class Plant:
    """Two elements that tie for the win, and the losers around them."""

    nan_policy: str
    losers: AnyArray
    first: AnyArray
    second: AnyArray


def plants(dtype: np.dtype[Any], op: str) -> list[Plant]:
    """The ways in which two elements of a type can tie."""
    sign = 1 if op == "argmax" else -1
    if dtype == np.bool_:
        false, true, eighty, others = (
            np.array(b, np.uint8).view(bool) for b in ([0], [1], [0x80], [1, 2, 0xFF])
        )
        return [
            Plant("propagate", false, true, eighty)
            if op == "argmax"
            else Plant("propagate", others, false, false)
        ]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        extreme = info.max if sign > 0 else info.min
        losers = np.array([info.min, info.max, 0, 1, info.max // 2, info.min // 2, extreme - sign], dtype)
        best = np.array([extreme], dtype)
        found = [Plant("propagate", losers[losers != best], best, best)]
        near = 2**40 + 5 if dtype.itemsize == 8 else 100
        losers = np.array([near - sign * i for i in range(1, 5)], dtype)
        best = np.array([near], dtype)
        return [*found, Plant("omit", losers, best, best)]
    finite = np.array([-sign * v for v in (1, 1.5, 2, 64, 96)]).astype(dtype)
    seven = np.array([sign * 7.0]).astype(dtype)
    zero, minus_zero = np.array([0.0]).astype(dtype), np.array([-0.0]).astype(dtype)
    infinity = np.array([sign * 448.0 if dtype.name == "float8_e4m3fn" else sign * np.inf]).astype(dtype)
    everything = strategies.from_bits(strategies.special_bits(dtype), dtype)
    is_nan = np.isnan(oracle.numbers(everything))
    nans = everything[is_nan]
    return [
        Plant("propagate", finite, seven, seven),
        Plant("propagate", finite, minus_zero, zero),
        Plant("omit", np.concatenate([finite, nans]), zero, minus_zero),
        Plant("omit", np.concatenate([finite, nans]), infinity, infinity),
        Plant("propagate", everything[~is_nan], nans[:1], nans[-1:]),
        Plant("propagate", everything[~is_nan], nans[-1:], nans[:1]),
    ]


def tie_positions(n: int) -> list[tuple[int, int]]:
    """Pairs of positions on the two sides of every boundary below n, adjacent and far apart."""
    found = {(0, n - 1), (n - 2, n - 1), (0, 1), (1, 2), (2, 3), (1, 3), (n // 3, 2 * n // 3)}
    for k in BOUNDARIES:
        found |= {(k - 1, k), (0, k), (k - 1, n - 1), (k, n - 1), (n - 1 - k, n - 1)}
    return sorted((i, j) for i, j in found if 0 <= i < j < n)


def positions_in_turn(n: int) -> list[tuple[int, int]]:
    """Of a large size every third pair: sizes beside each other have the others."""
    every = tie_positions(n)
    if n < FEW_POSITIONS_FROM:
        return every
    largest = max(k for k in BOUNDARIES if k < n)
    turn = SIZES.index(n) % 3
    return [pair for at, pair in enumerate(every) if at % 3 == turn or pair == (largest - 1, largest)]


def planted_rows(dtype: np.dtype[Any], plant: Plant, n: int, positions: list[tuple[int, int]]) -> AnyArray:
    """One row of n elements for each pair of positions."""
    losers = oracle.raw(plant.losers)
    row = losers[np.random.default_rng(n).integers(0, len(losers), size=n)]
    rows = np.repeat(row[None], len(positions), axis=0)
    for r, (i, j) in enumerate(positions):
        rows[r, i] = oracle.raw(plant.first)[0]
        rows[r, j] = oracle.raw(plant.second)[0]
    return rows.view(dtype)


def plants_for(dtype: np.dtype[Any], op: str, n: int) -> list[Plant]:
    every = plants(dtype, op)
    return every if n < FEW_PLANTS_FROM else [every[SIZES.index(n) % len(every)]]


def sizes_for(name: str) -> list[int]:
    return some_of(n for n in SIZES if n >= 2 and (name in WIDE_RANGE or n <= 513))


@pytest.mark.parametrize("op", oracle.OPERATORS)
@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_ties_across_boundaries_of_many_rows_and_columns(name: str, op: str) -> None:
    """One operator by rows, the other by columns, which fill whole vectors of types outside of WIDE_RANGE."""
    dtype = oracle.dtype_named(name)
    function = getattr(vkdml, op)
    turn = oracle.ARGREDUCE_DTYPES.index(name) + oracle.OPERATORS.index(op)
    axis = turn % 2
    for n in sizes_for(name):
        positions = positions_in_turn(n)
        if name not in WIDE_RANGE:
            positions += positions[:1] * (-len(positions) % 16)
        first, last = np.array(positions).T
        for plant in plants_for(dtype, op, n):
            rows = planted_rows(dtype, plant, n, positions)
            columns = np.ascontiguousarray(oracle.raw(rows).T).view(dtype)
            x = rows if axis else columns
            for direction, want in (("increasing", first), ("decreasing", last)):
                got = function(x, axis, direction=direction, nan_policy=plant.nan_policy)
                assert np.array_equal(got, want), (
                    f"{name} {n} over axis {axis}, {direction}, {plant}: {got}, not {want}"
                )


@pytest.mark.parametrize("op", oracle.OPERATORS)
@pytest.mark.parametrize("name", WIDE_RANGE)
def test_ties_across_boundaries_of_one_long_row(name: str, op: str) -> None:
    """The whole device works on one reduction."""
    dtype = oracle.dtype_named(name)
    function = getattr(vkdml, op)
    for n in sizes_for(name):
        every = tie_positions(n)
        positions = every[SIZES.index(n) % 3 :: max(1, len(every) // 6)]
        every_plant = plants(dtype, op)
        for turn, position in enumerate(positions):
            plant = every_plant[turn % len(every_plant)]
            x = planted_rows(dtype, plant, n, [position])[0]
            for direction, want in zip(oracle.DIRECTIONS, position, strict=True):
                got, value = function(x, direction=direction, nan_policy=plant.nan_policy, return_values=True)
                assert got == want, f"{name} {n}, {direction}, {plant}: {got}, not {want}"
                assert value.tobytes() == x[want : want + 1].tobytes()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8", "uint64"])
def test_every_size_up_to_a_few_words(name: str) -> None:
    dtype = oracle.dtype_named(name)
    rng = np.random.default_rng(5)
    for n in some_of(range(1, 41)):
        x = strategies.elements(rng, dtype, 3 * n, "specials")
        for y, axis in ((x.reshape(3, n), 1), (x.reshape(n, 3), 0), (x, None)):
            check_opposite_modes(y, axis)


@pytest.mark.parametrize("name", WIDE_RANGE)
def test_sizes_over_the_last_first_and_all_axes(name: str) -> None:
    """Random values: a unique winner anywhere, and dense ties."""
    dtype = oracle.dtype_named(name)
    rng = np.random.default_rng(6)
    for n in some_of(SIZES):
        mode = OPPOSITE_MODES[SIZES.index(n) % 2]
        for fill in ("bits", "specials"):
            x = oracle.raw(strategies.elements(rng, dtype, 3 * n, fill))
            for shape, axis in (((3, n), 1), ((n, 3), 0), ((3, n), None), ((1, n, 3), (1, 2))):
                check_argreduce(x.reshape(shape).view(dtype), axis, **mode)


@pytest.mark.parametrize("n", [n for n in SIZES if n > 1000])
def test_constant_input_gives_the_first_or_the_last(n: int) -> None:
    for op, x in (
        (vkdml.argmax, np.zeros(n, np.float32)),
        (vkdml.argmin, np.full(n, np.nan, np.float16)),
        (vkdml.argmax, np.full(n, -1, np.int8)),
    ):
        assert op(x) == 0
        assert op(x, direction="decreasing") == n - 1


def test_no_elements_and_one_element() -> None:
    for shape in ((1,), (1, 1), (1, 1, 1)):
        check_every_mode(np.full(shape, 5.0, np.float32))
        check_every_mode(np.full(shape, 5, np.uint8), 0)
    for op in oracle.OPERATORS:
        function = getattr(vkdml, op)
        for shape, axis in (
            ((0,), None),
            ((0,), 0),
            ((0, 3), 0),
            ((3, 0), -1),
            ((2, 0, 3), (1, 2)),
            ((0, 0), 0),
            ((3, 0), None),
        ):
            with pytest.raises(ValueError, match=f"attempt to get {op} of an empty sequence"):
                function(np.zeros(shape, np.float32), axis)
        for shape, axes in (
            ((0, 3), (1,)),
            ((3, 0), (0,)),
            ((2, 0, 3), (0, 2)),
            ((0,), ()),
            ((0, 0, 4), (2,)),
        ):
            for keepdims in (False, True):
                check_argreduce(np.zeros(shape, np.float16), axes, op=op, keepdims=keepdims, dtype="uint32")


MANY_SMALL = ((5000, 3), (3, 5000), (70000, 2), (2, 70000), (66000, 1), (1, 66000), (300, 300))


@pytest.mark.parametrize("shape", MANY_SMALL)
def test_many_small_rows_and_columns(shape: tuple[int, int]) -> None:
    """Shapes, types and axes take turns at the two modes."""
    rng = np.random.default_rng(7)
    count = shape[0] * shape[1]
    for turn, name in enumerate(("float32", "uint8", "bfloat16", "int64"), MANY_SMALL.index(shape)):
        dtype = oracle.dtype_named(name)
        x = strategies.elements(rng, dtype, count, "specials").reshape(shape)
        for axis in (0, 1):
            check_argreduce(x, axis, **OPPOSITE_MODES[(turn + axis) % 2])


@pytest.mark.parametrize(
    "shape", [(4, 21, 33, 33), (2, 19, 1, 65), (1, 3, 127, 129), (3, 150, 17, 5)], ids=str
)
@pytest.mark.parametrize("name", ["int8", "float16", "float32", "float64"])
def test_segmentation_logits_of_odd_shape(name: str, shape: tuple[int, ...]) -> None:
    """(batch, classes, height, width) over the classes."""
    values = strategies.elements(
        np.random.default_rng(8), oracle.dtype_named(name), math.prod(shape), "specials"
    )
    for axis in (1, (0, 2, 3), (1, 3)):
        check_opposite_modes(values.reshape(shape), axis)


def test_more_outputs_than_a_dispatch_dimension_allows() -> None:
    rng = np.random.default_rng(9)
    x = rng.integers(0, 4, size=(70001, 5)).astype(np.int16)
    check_argreduce(x, 1, direction="decreasing")
    check_argreduce(x.reshape(5, 70001), 0)
    check_argreduce(x, ())
    y = rng.integers(0, 3, size=(131073, 2, 2)).astype(np.uint8)
    check_argreduce(y, 1)
    check_argreduce(y, (0, 2), direction="decreasing")


@pytest.mark.parametrize("name", ["float32", "uint8", "bfloat16", "float64"])
def test_millions_of_elements(name: str) -> None:
    """Several tiles for each workgroup, several workgroups for each reduction, more than one pass."""
    dtype = oracle.dtype_named(name)
    n = 3 * 2**20 + 17
    rng = np.random.default_rng(10)
    for place, mode in enumerate(OPPOSITE_MODES):
        plant = plants(dtype, mode["op"])[0]
        places = sorted(int(p) for p in rng.integers(0, n, size=2))
        x = planted_rows(dtype, plant, n, [(places[0], places[1])])[0]
        index, _ = getattr(vkdml, mode["op"])(
            x, direction=mode["direction"], nan_policy=mode["nan_policy"], return_values=True
        )
        assert index == places[place]
        check_argreduce(x[: 3 * 2**20].reshape(2**10, -1), 0, **mode)
        check_argreduce(x[: 3 * 2**20].reshape(3, 2**10, 2**10), (0, 1), **mode)
        check_argreduce(x[: 3 * 2**20].reshape(3, 2**20), 1, **mode)
