"""The check of timed results agrees with the oracle, and sees every kind of wrong result. No device."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import oracle
import pytest

from vkdml.bench import cases, check, contents
from vkdml.bench.cases import Case
from vkdml.bench.check import Checker, WrongResult
from vkdml.bench.keys import ordered_keys

KINDS = ("bits", "nan_rich", "ascending", "constant", "equal")


def content_of(case: Case) -> np.ndarray:
    return contents.content(case.content, case.input_bytes)


def array_of(case: Case) -> np.ndarray:
    array = content_of(case).view(oracle.dtype_named(case.element)).reshape(case.shape)
    return array[..., ::2] if case.alternate else array.T if case.transposed else array


def expected(case: Case) -> np.ndarray:
    indices = oracle.argreduce(
        array_of(case), case.axis, case.op, direction=case.direction, nan_policy=case.nan_policy
    )[0]
    return np.asarray(indices).reshape(-1)


@pytest.mark.parametrize("element", cases.REDUCE_ELEMENTS)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_indices_are_the_oracles(element, op):
    shapes = [
        ((5000,), None),
        ((30, 70), (1,)),
        ((70, 90), (0,)),
        ((3, 21, 65), (1,)),
        ((4, 9, 6, 80), (0, 2)),
    ]
    for number, (shape, axis) in enumerate(shapes):
        plain = Case("", op, element, shape, axis)
        for case in (
            plain,
            replace(plain, direction="decreasing", alternate=number % 2 == 0),
            replace(plain, nan_policy="omit"),
            replace(plain, nan_policy="omit", direction="decreasing"),
            replace(plain, transposed=True),
        ):
            assert np.array_equal(check.right_indices(case, content_of(case)), expected(case)), case.name


@pytest.mark.parametrize("element", oracle.FLOAT_DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
def test_indices_of_hard_data_are_the_oracles(element, kind, nan_policy):
    for axis in (None, (0,), (1,)):
        case = Case("", "argmax", element, (64, 66), axis, kind, nan_policy=nan_policy)
        assert np.array_equal(check.right_indices(case, content_of(case)), expected(case)), case.name


@pytest.mark.parametrize("element", ["float32", "float16", "float8_e5m2", "int8", "uint8", "bool", "int16"])
@pytest.mark.parametrize("early", [(), (4,), (16, 40)])
def test_what_is_found_early_is_the_oracles(monkeypatch, element, early):
    monkeypatch.setattr(check, "_EARLY", early)
    real = check._found_soon
    for op in ("argmax", "argmin"):
        ended: list[object] = []
        monkeypatch.setattr(check, "_found_soon", lambda *asked, to=ended: to.append(real(*asked)) or to[-1])
        for data in ("bits", "nan_rich") if "float" in element else ("bits",):
            for shape, axis in (((7, 300), (1,)), ((300, 80), (0,)), ((9000,), None)):
                for direction in ("increasing", "decreasing"):
                    case = Case("", op, element, shape, axis, data, direction)
                    assert np.array_equal(check.right_indices(case, content_of(case)), expected(case)), (
                        case.name
                    )
                    omitting = replace(case, nan_policy="omit")
                    assert np.array_equal(
                        check.right_indices(omitting, content_of(case)), expected(omitting)
                    ), omitting.name
        if element in ("bool", "float8_e5m2"):
            assert any(found is not None for found in ended) == bool(early)


@pytest.mark.parametrize("take_last", [False, True])
def test_long_runs_are_put_together_from_pieces(monkeypatch, take_last):
    monkeypatch.setattr(check, "_LONGEST_PIECE", 100)
    monkeypatch.setattr(check, "_TILE_BYTES", 1000)
    for count in (99, 100, 101, 250, 1000):
        direction = "decreasing" if take_last else "increasing"
        for case in (
            Case("", "argmax", "int8", (count,), direction=direction),
            Case("", "argmin", "uint8", (3, count), (1,), direction=direction),
            Case("", "argmax", "float16", (count, 70), (0,), direction=direction),
        ):
            assert np.array_equal(check.right_indices(case, content_of(case)), expected(case)), case.name


@pytest.mark.parametrize("element", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_keys_order_all_bit_patterns(element, op):
    nbytes = cases.ELEMENT_BYTES[element]
    bits = np.arange(1 << (8 * nbytes), dtype=contents.unsigned(nbytes))
    numbers = oracle.numbers(bits.view(oracle.dtype_named(element)))
    for nan_policy in ("propagate", "omit"):
        keys = ordered_keys(bits, Case("", op, element, bits.shape, nan_policy=nan_policy)).astype(int)
        nan = np.isnan(numbers)
        ranked = numbers[~nan] if op == "argmax" else -numbers[~nan]
        assert np.array_equal(
            np.unique(ranked, return_inverse=True)[1], np.unique(keys[~nan], return_inverse=True)[1]
        )
        assert len(set(keys[nan])) == 1
        least, most = keys[~nan].min(), keys[~nan].max()
        assert (keys[nan][0] > most) if nan_policy == "propagate" else (keys[nan][0] < least)


# ---- contents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("element", oracle.FLOAT_DTYPES)
def test_contents_are_what_they_are_called(element):
    dtype = oracle.dtype_named(element)

    def numbers(kind: str) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return contents.content(f"{kind} {element}", 1 << 12).view(dtype).astype(np.float64)

    assert np.isfinite(numbers("numbers")).all()
    assert 0.3 < np.isnan(numbers("nan_rich")).mean() < 0.9
    ascending = numbers("ascending")
    assert (ascending[1:] >= ascending[:-1]).all()
    assert ascending[0] < -100
    assert ascending[-1] > 100
    equal = numbers("equal")
    assert (equal == 0).all()
    assert len(set(np.signbit(equal))) == 2
    assert set(contents.content("flags", 1000)) == {0, 1}


def test_contents_do_not_depend_on_their_size(monkeypatch):
    monkeypatch.setattr(contents, "_CHUNK_BYTES", 1 << 10)
    monkeypatch.setattr(contents, "_SMALL_BYTES", 0)
    long = contents.content("bits", 5000)
    assert np.array_equal(long[:1024], contents.content("bits", 1024))
    assert len(np.unique(long.view(np.uint64)[:600])) == 600
    ascending = contents.content("ascending float16", 5000).view(np.float16)
    assert (ascending[1:] >= ascending[:-1]).all()


def test_unknown_contents_are_refused():
    with pytest.raises(ValueError, match="'zeros' is unknown; accepted are bits, flags"):
        contents.content("zeros", 16)


# ---- what must be seen --------------------------------------------------------------------------


def outputs_of(case: Case, indices: np.ndarray, index_bytes: int = 4) -> dict[str, np.ndarray]:
    outputs = {"indices": indices.astype(contents.unsigned(index_bytes)).view(np.uint8)}
    if case.return_values:
        bits = content_of(case).view(contents.unsigned(case.element_bytes))
        outputs["values"] = bits[check._offsets(case, indices)].view(np.uint8)
    return outputs


@pytest.mark.parametrize("index_bytes", [4, 8])
def test_one_wrong_index_is_seen_and_located(index_bytes):
    case = Case("", "argmax", "int16", (40, 50), (1,), return_values=True)
    right = expected(case)
    Checker().check(case, content_of(case), outputs_of(case, right, index_bytes), index_bytes)
    wrong = right.copy()
    wrong[17] = (wrong[17] + 1) % 50
    with pytest.raises(
        WrongResult, match=rf"output 17 is {wrong[17]}, expected is {right[17]} \(1 of 40 out"
    ):
        Checker().check(case, content_of(case), outputs_of(case, wrong, index_bytes), index_bytes)


@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
def test_the_other_one_of_equals_is_wrong(direction):
    case = Case("", "argmax", "bool", (1000,), direction=direction)
    other = replace(case, direction="increasing" if direction == "decreasing" else "decreasing")
    with pytest.raises(WrongResult, match="index of output 0"):
        Checker().check(case, content_of(case), outputs_of(case, expected(other)), 4)


def test_a_number_where_a_nan_should_win_is_wrong():
    case = Case("", "argmax", "float16", (8, 300), (1,), "nan_rich")
    omitting = replace(case, nan_policy="omit")
    for right, other in ((case, omitting), (omitting, case)):
        Checker().check(right, content_of(case), outputs_of(case, expected(right)), 4)
        with pytest.raises(WrongResult, match="8 of 8 outputs differ"):
            Checker().check(right, content_of(case), outputs_of(case, expected(other)), 4)


def test_a_wrong_bit_of_a_value_is_seen():
    case = Case("", "argmin", "float32", (5, 9, 7), (1,), alternate=True, return_values=True)
    outputs = outputs_of(case, expected(case))
    Checker().check(case, content_of(case), outputs, 4)
    outputs["values"][4 * 11] ^= 1
    with pytest.raises(WrongResult, match="bits of the value of output 11"):
        Checker().check(case, content_of(case), outputs, 4)


@pytest.mark.parametrize("element", list(cases.SLICE_ELEMENTS))
@pytest.mark.parametrize("window", list(cases.WINDOWS))
def test_a_wrong_bit_of_a_copy_is_seen(element, window, monkeypatch):
    monkeypatch.setattr(check, "_COPY_TILE", 7)
    shape = (20, 33, 3) if window == "turned" else (20, 33)
    case = Case("", "slice1", element, shape, window=window)
    words = content_of(case).reshape(*shape, case.element_bytes)
    view = {
        "copy": words, "flip": words[::-1, ::-1], "[::2, ::2]": words[::2, ::2],
        "narrow": words[1:19, 9:24], "transposed": words.swapaxes(0, 1),
        "[::-2, ::-2]": words[::-2, ::-2], "[:, ::-1]": words[:, ::-1],
        "transposed [::2]": words[:, ::2].swapaxes(0, 1),
        "transposed [::3]": words[:, ::3].swapaxes(0, 1), "[:, ::3]": words[:, ::3],
        "transposed [:3]": words[:, :3].swapaxes(0, 1), "turned": words.swapaxes(0, 1),
    }[window]  # fmt: skip
    output = np.ascontiguousarray(view).reshape(-1)
    assert output.size == case.outputs * case.element_bytes
    Checker().check(case, content_of(case), {"output": output}, 4)
    output[-1] ^= 0x80
    last = ", ".join(str(size - 1) for size in view.shape[:-1])
    with pytest.raises(WrongResult, match=rf"element \({last}\) holds"):
        Checker().check(case, content_of(case), {"output": output}, 4)


@pytest.mark.parametrize("element", list(cases.SLICE_ELEMENTS))
def test_a_wrong_bit_of_one_channel_is_seen(element):
    """What lies beside the channel is not the case's."""
    case = Case("", "slice1", element, (20, 33), window="flip", channels=3)
    words = content_of(case).reshape(20, 33, case.element_bytes)
    output = np.random.default_rng(3).integers(0, 256, (20, 33, 3, case.element_bytes), np.uint8)
    output[:, :, 0] = words[::-1, ::-1]
    assert output.size == case.written_bytes(4)
    Checker().check(case, content_of(case), {"output": output.reshape(-1)}, 4)
    output[7, 8, 1] ^= 0xFF
    Checker().check(case, content_of(case), {"output": output.reshape(-1)}, 4)
    output[7, 8, 0, -1] ^= 1
    with pytest.raises(WrongResult, match=r"1 of 3 channels: element \(7, 8\) holds"):
        Checker().check(case, content_of(case), {"output": output.reshape(-1)}, 4)


def test_cases_that_share_a_result_share_it_and_others_do_not(monkeypatch):
    computed = []
    real = check.right_indices
    monkeypatch.setattr(
        check, "right_indices", lambda case, content: computed.append(case) or real(case, content)
    )
    checker = Checker()
    case = Case("", "argmax", "int8", (math.prod((20, 30)),))
    for each in (case, replace(case, return_values=True), replace(case, op="argmin"), case):
        checker.check(each, content_of(each), outputs_of(each, expected(each)), 4)
    assert len(computed) == 2
    checker.forget("bits")
    checker.check(case, content_of(case), outputs_of(case, expected(case)), 4)
    assert len(computed) == 3
