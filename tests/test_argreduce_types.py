"""argmax and argmin of every input dtype, direction, NaN policy and output dtype, and every sort of value."""

from __future__ import annotations

import itertools

import checking
import numpy as np
import oracle
import pytest
import strategies
from checking import check_argreduce, check_every_mode, check_modes_in_turn, modes_of

import vkdml

pytestmark = pytest.mark.usefixtures("device")


MODES = tuple(itertools.product(oracle.OPERATORS, oracle.DIRECTIONS, oracle.NAN_POLICIES))
RESULTS = tuple(itertools.product(oracle.OUTPUT_DTYPES, (True, False)))


@pytest.mark.in_turn(every_element=True)
@pytest.mark.parametrize(("op", "direction", "nan_policy"), MODES)
@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_every_combination(name: str, op: str, direction: str, nan_policy: str) -> None:
    """Each mode with half of the layouts, rows and columns among them, and with all output dtypes."""
    dtype = oracle.dtype_named(name)
    specials = oracle.raw(strategies.elements(np.random.default_rng(3), dtype, 3 * 67 * 5, "specials"))
    bits = oracle.raw(strategies.elements(np.random.default_rng(4), dtype, 3 * 67 * 5, "bits"))
    cube = specials.reshape(3, 67, 5).view(dtype)
    layouts = (
        (cube.reshape(15, 67), 1),
        (cube.reshape(67, 15), 0),
        (cube, 1),
        (cube, (0, 2)),
        (cube.transpose(2, 0, 1)[::-1, :, ::2], None),
        (bits.reshape(67, 15).view(dtype), -1),
    )
    call = {"op": op, "direction": direction, "nan_policy": nan_policy}
    mode = MODES.index((op, direction, nan_policy))
    for place, (x, axis) in enumerate(layouts):
        if (op, direction, nan_policy) in modes_of(place):
            for turn in range(2):
                output, with_values = RESULTS[(mode // 2 + 3 * place + 4 * turn) % len(RESULTS)]
                check_argreduce(x, axis, **call, dtype=output, return_values=with_values)


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_every_ordered_pair_of_special_values(name: str) -> None:
    dtype = oracle.dtype_named(name)
    bits = strategies.special_bits(dtype)
    pairs = strategies.from_bits(list(itertools.product(bits, repeat=2)), dtype)
    check_modes_in_turn((pairs, 1), (np.ascontiguousarray(oracle.raw(pairs).T).view(dtype), 0))


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_a_special_value_among_many_of_another(name: str) -> None:
    """Rows full of one value with a second one somewhere inside."""
    dtype = oracle.dtype_named(name)
    bits = np.array(strategies.special_bits(dtype), dtype=f"u{dtype.itemsize}")
    many, one = (side.ravel() for side in np.meshgrid(bits, bits))
    rows = np.repeat(many[:, None], 37, axis=1)
    rows[np.arange(len(rows)), np.arange(len(rows)) % 37] = one
    columns = np.ascontiguousarray(rows.T)
    check_modes_in_turn((strategies.from_bits(columns, dtype), 0), (strategies.from_bits(rows, dtype), 1))


@pytest.mark.parametrize("name", [n for n in oracle.ARGREDUCE_DTYPES if oracle.dtype_named(n).itemsize == 1])
def test_every_pair_of_eight_bit_values(name: str) -> None:
    dtype = oracle.dtype_named(name)
    pairs = np.array(list(itertools.product(range(256), repeat=2)), dtype=np.uint8).view(dtype)
    check_every_mode(pairs, 1)


@pytest.mark.parametrize("name", [n for n in oracle.ARGREDUCE_DTYPES if oracle.dtype_named(n).itemsize == 2])
def test_every_sixteen_bit_value_beside_its_neighbour_and_a_special_value(name: str) -> None:
    dtype = oracle.dtype_named(name)
    every = np.arange(65536, dtype=np.uint16)
    beside = np.stack([every, every + np.uint16(1)])
    check_modes_in_turn((beside.T.copy().view(dtype), 1), (beside.view(dtype), 0))
    special = np.array(strategies.special_bits(dtype), np.uint16)
    beside = np.stack([every, special[every % len(special)]])
    check_modes_in_turn((beside.T.copy().view(dtype), 1), (beside.view(dtype), 0))


@pytest.mark.parametrize("name", ["int64", "uint64", "float64"])
def test_the_low_word_of_a_wide_element_decides(name: str) -> None:
    high = np.uint64(0x3FF00001 << 32)
    low = np.array([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF], np.uint64)
    for sign in (np.uint64(0), np.uint64(1 << 63)):
        bits = np.array(list(itertools.product(low, repeat=3)), np.uint64) | high | sign
        check_modes_in_turn((bits.view(name), 1), (bits.view(name), None))


def test_the_documented_types_are_taken() -> None:
    documented = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    documented |= {"float16", "float32", "float64", "bool", "bfloat16", "float8_e4m3fn", "float8_e5m2"}
    assert documented == set(oracle.ARGREDUCE_DTYPES)
    for name in documented:
        x = np.array([0, 1, 0]).astype(oracle.dtype_named(name))
        assert (vkdml.argmax(x), vkdml.argmin(x)) == (1, 0), name


def test_integers_beyond_two_to_the_53rd_are_compared_exactly() -> None:
    x = np.array([2**53, 2**53 + 1, 2**53, 2**63 - 2, 2**63 - 1, -(2**63), -(2**63) + 1])
    assert vkdml.argmax(x) == 4
    assert vkdml.argmin(x) == 5
    assert vkdml.argmax(x[:3]) == 1
    assert vkdml.argmin(x[1:3]) == 1
    assert vkdml.argmax(np.array([2**64 - 2, 2**64 - 1, 2**63], np.uint64)) == 1


def test_documented_ties() -> None:
    assert vkdml.argmin([1, 2, 3, 2, 1]) == 0
    assert vkdml.argmin([1, 2, 3, 2, 1], direction="decreasing") == 4
    assert vkdml.argmax([3, 2, 1, 2, 3]) == 0
    assert vkdml.argmax([3, 2, 1, 2, 3], direction="decreasing") == 4


def test_zeros_of_both_signs_are_equal() -> None:
    for x in ([-0.0, 0.0], [0.0, -0.0]):
        for op in (vkdml.argmax, vkdml.argmin):
            assert op(x) == 0
            assert op(x, direction="decreasing") == 1


def test_nans() -> None:
    nan = float("nan")
    assert vkdml.argmax([1, nan, 3, -nan]) == 1
    assert vkdml.argmin([1, nan, 3, -nan]) == 1
    assert vkdml.argmax([1, nan, 3, -nan], direction="decreasing") == 3
    assert vkdml.argmax([1, nan, 3, -nan], nan_policy="omit") == 2
    assert vkdml.argmin([nan, 1, 3, -nan], nan_policy="omit") == 1
    assert vkdml.argmin([nan, -nan], nan_policy="omit") == 0
    assert vkdml.argmin([nan, -nan], nan_policy="omit", direction="decreasing") == 1
    infinities = [-np.inf, np.inf]
    assert vkdml.argmax([nan, -np.inf], nan_policy="omit") == 1, "even -inf beats an omitted NaN"
    assert vkdml.argmin([nan, np.inf], nan_policy="omit") == 1
    assert vkdml.argmax([*infinities, nan]) == 2
    assert vkdml.argmin([*infinities, nan]) == 2


@pytest.mark.parametrize("name", oracle.FLOAT_DTYPES)
def test_subnormal_numbers_are_compared_exactly(name: str) -> None:
    x = strategies.from_bits([0, 1, 2, 1, 0], oracle.dtype_named(name))
    check_every_mode(x)
    assert vkdml.argmax(x) == 2
    assert np.float32(1e-45) * np.float32(1) > 0, "the driver must not change how this thread rounds"


def test_booleans_of_any_nonzero_byte_are_true() -> None:
    x = np.array([0, 2, 1, 255, 0], np.uint8).view(bool)
    assert vkdml.argmax(x) == 1
    assert vkdml.argmin(x) == 0
    assert vkdml.argmax(x, direction="decreasing") == 3
    assert vkdml.argmin(x, direction="decreasing") == 4
    _, values = vkdml.argmax(x.reshape(1, 5), axis=1, direction="decreasing", return_values=True)
    assert values.view(np.uint8).tolist() == [255]


@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_results_are_scalars_of_the_right_type(name: str) -> None:
    x = np.array([1, 0, 1]).astype(oracle.dtype_named(name))
    for output in oracle.OUTPUT_DTYPES:
        index = vkdml.argmax(x, dtype=output)
        assert isinstance(index, np.generic)
        assert index.dtype == np.dtype(output)
        assert index == 0
    index, value = vkdml.argmin(x, return_values=True)
    assert isinstance(index, np.int64)
    assert index == 1
    assert isinstance(value, np.generic)
    assert np.asarray(value).dtype == x.dtype
    assert not bool(value)
    result = vkdml.argmin(x, return_values=True)
    assert type(result) is vkdml.ArgReduceResult
    assert result._fields == ("indices", "values")


def test_dtype_is_whatever_names_one_of_the_four() -> None:
    for spelling in (np.int32, "int32", "i4", np.dtype("int32")):
        assert vkdml.argmax([1, 3, 2], dtype=spelling).dtype == np.int32
    assert vkdml.argmax([1, 3, 2], dtype=None).dtype == np.int64
    assert vkdml.argmax(np.ones((2, 2)), axis=0, dtype=np.uint32).dtype == np.uint32


def test_values_keep_every_payload() -> None:
    """Signalling NaNs, quiet ones of both signs and -0.0 come back with the bits that went in."""
    for name in oracle.FLOAT_DTYPES:
        dtype = oracle.dtype_named(name)
        x = strategies.from_bits(strategies.special_bits(dtype), dtype)
        for op in oracle.OPERATORS:
            result = getattr(vkdml, op)(x, axis=(), return_values=True)
            assert checking.difference(result.values, x) is None
            assert not result.indices.any()
            assert result.indices.dtype == np.int64
            single = getattr(vkdml, op)(x.reshape(-1, 1), axis=1, return_values=True)
            assert checking.difference(single.values, x) is None
