"""argmax and argmin into arrays of the caller's: contiguous, strided, and never a byte beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import strategies
from checking import Poisoned

import vkdml

pytestmark = pytest.mark.usefixtures("device")


def ties(shape: tuple[int, ...], name: str = "float32") -> oracle.AnyArray:
    x = np.random.default_rng(1).integers(0, 5, size=shape)
    return np.asarray(x).astype(oracle.dtype_named(name))


def layouts_of(shape: tuple[int, ...]) -> list[strategies.Layout]:
    """In elements: contiguous, transposed, with gaps, reversed, and each away from the buffer's ends."""
    contiguous = strategies.Layout(
        shape, tuple(int(np.prod(shape[a + 1 :])) for a in range(len(shape))), 3, 5
    )
    fortran = strategies.Layout(shape, tuple(int(np.prod(shape[:a])) for a in range(len(shape))), 1, 2)
    gaps = strategies.Layout(shape, tuple(3 * s + 1 for s in contiguous.strides), 2, 1)
    backwards = strategies.Layout(shape, tuple(-s for s in contiguous.strides), 1, 1)
    mixed = strategies.Layout(shape, tuple((-1) ** a * 2 * s for a, s in enumerate(fortran.strides)), 0, 0)
    return [contiguous, fortran, gaps, backwards, mixed]


@pytest.mark.parametrize("dtype", oracle.OUTPUT_DTYPES)
@pytest.mark.parametrize("name", oracle.ARGREDUCE_DTYPES)
def test_every_layout_of_out(name: str, dtype: str) -> None:
    x = ties((7, 5, 6), name)
    for axis, keepdims in ((1, False), ((0, 2), True), ((), False)):
        want_indices, want_values = oracle.argreduce(
            x, axis, "argmin", "decreasing", "propagate", keepdims, dtype
        )
        for layout in layouts_of(want_indices.shape):
            indices, values = (Poisoned.scaled(layout, d) for d in (np.dtype(dtype), x.dtype))
            call: dict[str, Any] = {"keepdims": keepdims, "direction": "decreasing", "dtype": dtype}
            result = vkdml.argmin(x, axis, return_values=True, out=(indices.view, values.view), **call)
            assert result.indices is indices.view
            assert result.values is values.view
            indices.assert_holds(want_indices, f"indices into {layout}")
            values.assert_holds(want_values, f"values into {layout}")
        alone = Poisoned.scaled(layout, np.dtype(dtype))
        assert vkdml.argmin(x, axis, out=alone.view, **call) is alone.view
        alone.assert_holds(want_indices, f"indices alone into {layout}")


def test_out_of_a_full_reduction_has_rank_0() -> None:
    x = ties((7, 5))
    indices, values = np.array(-1, np.int64), np.array(-1, np.float32)
    assert vkdml.argmax(x, out=indices) is indices
    assert indices == oracle.argreduce(x)[0]
    for pair in ((indices, values), [indices, values]):
        result = vkdml.argmax(x, return_values=True, out=pair)
        assert result.indices is indices
        assert result.values is values
    assert values == x.max()
    kept = np.full((1, 1), -1, np.int64)
    assert vkdml.argmin(x, keepdims=True, out=kept) is kept
    assert kept[0, 0] == x.argmin()


def test_an_out_that_cannot_hold_indices_is_named() -> None:
    x = np.zeros((3, 300), np.float32)
    says = (
        r"argmax of \(3, 300\) float32: out has type float32: indices cannot be float32; accepted are int64"
    )
    floats = np.zeros(3, np.float32)
    for array, out in ((x, floats), (vkdml.asarray(x), vkdml.asarray(floats))):
        with pytest.raises(TypeError, match=says):
            vkdml.argmax(array, 1, out=out)
    with pytest.raises(TypeError, match=r"out for the indices has type int16: indices cannot be int16"):
        vkdml.argmax(x, 1, return_values=True, out=(np.zeros(3, np.int16), None))
    with pytest.raises(TypeError, match=r"out for the values has type int16, the result has type float32"):
        vkdml.argmax(x, 1, return_values=True, out=(None, np.zeros(3, np.int16)))
    with pytest.raises(TypeError, match=r"float32: indices cannot be int16"):
        vkdml.argmax(x, 1, dtype=np.int16, out=np.zeros(3, np.int16))


def test_without_a_dtype_that_of_out_is_taken() -> None:
    x = ties((7, 5))
    for dtype in oracle.OUTPUT_DTYPES:
        indices = np.full(7, 99, dtype)
        assert vkdml.argmin(x, 1, out=indices) is indices
        assert np.array_equal(indices, oracle.argreduce(x, 1, "argmin")[0])


def test_one_element_of_a_larger_array() -> None:
    for dtype in oracle.OUTPUT_DTYPES:
        for at in range(5):
            buffer = np.full(5, 77, dtype)
            vkdml.argmax(ties((7, 5)), dtype=dtype, out=buffer[at : at + 1].reshape(()))
            want = np.full(5, 77, dtype)
            want[at] = ties((7, 5)).argmax()
            assert np.array_equal(buffer, want)


@pytest.mark.parametrize("name", ["uint8", "bool", "float8_e4m3fn", "float16", "int16"])
def test_narrow_values_leave_their_neighbours_alone(name: str) -> None:
    """Values of 1 and 2 bytes share words with poison on both sides."""
    dtype = oracle.dtype_named(name)
    for n in (1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 257, 1025):
        x = ties((4, n), name)
        want_indices, want_values = oracle.argreduce(x, 0)
        for before in range(5):
            for step in (1, 2, 3, -1, -3):
                layout = strategies.Layout(
                    (n,), (step * dtype.itemsize,), before * dtype.itemsize, 7 - before
                )
                values = Poisoned(layout, dtype)
                indices = np.empty(n, np.int64)
                vkdml.argmax(x, 0, return_values=True, out=(indices, values.view))
                values.assert_holds(want_values, f"{name}[{n}] step {step} after {before}")
                assert np.array_equal(indices, want_indices)


def test_out_at_an_odd_address() -> None:
    x = ties((30, 4))
    for odd in range(1, 8):
        indices = Poisoned(strategies.Layout((30,), (8,), odd, 9), np.dtype(np.int64))
        values = Poisoned(strategies.Layout((30,), (4,), odd, 9), x.dtype)
        vkdml.argmax(x, 1, return_values=True, out=(indices.view, values.view))
        indices.assert_holds(oracle.argreduce(x, 1)[0], f"indices at {odd}")
        values.assert_holds(oracle.argreduce(x, 1)[1], f"values at {odd}")


def test_out_field_of_a_packed_record() -> None:
    record = np.dtype([("tag", "u1"), ("index", "i4"), ("more", "u2")])
    table = np.full(30, 0x5A, np.uint8).repeat(record.itemsize)[: 30 * record.itemsize].view(record).copy()
    x = ties((30, 4))
    vkdml.argmin(x, 1, dtype="int32", out=table["index"])
    assert np.array_equal(table["index"], oracle.argreduce(x, 1, "argmin")[0])
    assert (table["tag"] == 0x5A).all()
    assert (table["more"] == 0x5A5A).all()


@pytest.mark.parametrize("name", [">f4", ">i2", "bool", "float16"])
def test_rank_0_keeps_its_bytes(name: str) -> None:
    """NumPy turns a rank-0 array into a scalar all too readily: native, and a bool of 0 or 1."""
    x = np.arange(0x41, 0x41 + np.dtype(name).itemsize, dtype=np.uint8).view(name)
    for shape in ((), (1,), (1, 1)):
        y = x.reshape(shape)
        indices, values = np.array(7), Poisoned.scaled(strategies.Layout((), (), 1, 2), x.dtype)
        vkdml.argmax(y, return_values=True, out=(indices, values.view))
        values.assert_holds(x.reshape(()), name)
        assert indices == 0


def test_empty_out() -> None:
    x = np.empty((0, 3), np.float32)
    indices, values = np.empty((0,), np.int64), np.empty((0,), np.float32)
    assert vkdml.argmax(x, 1, out=indices) is indices
    result = vkdml.argmax(x, 1, return_values=True, out=(indices, values))
    assert result.indices is indices
    assert result.values is values


def test_many_outputs_into_a_strided_array() -> None:
    x = ties((70001, 3), "uint8")
    buffer = np.full((70001, 3), -7, np.int32)
    vkdml.argmax(x, 1, dtype="int32", out=buffer[::-1, 1])
    assert np.array_equal(buffer[::-1, 1], oracle.argreduce(x, 1)[0])
    assert (buffer[:, [0, 2]] == -7).all()


def test_out_of_rejected_calls_is_untouched() -> None:
    x = ties((6, 7))
    for out, dtype, faults in (
        (np.full(6, 9, np.int32), "int64", (TypeError, ValueError)),
        (np.full(6, 9, np.int64), "int32", (TypeError, ValueError)),
        (np.full(6, 9, np.float64), None, (TypeError, ValueError)),
        (np.full(6, 9, np.int16), None, (TypeError, ValueError)),
        (np.full(7, 9, np.int64), None, ValueError),
        (np.full((6, 1), 9, np.int64), None, ValueError),
        (np.full((), 9, np.int64), None, ValueError),
        (np.full(5, 9, np.int64), None, ValueError),
    ):
        with pytest.raises(faults, match="argmax"):
            vkdml.argmax(x, 1, dtype=dtype, out=out)
        assert (out == 9).all()
    frozen = np.full(6, 9, np.int64)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="argmax"):
        vkdml.argmax(x, 1, out=frozen)
    assert (frozen == 9).all()
    indices, values = np.full(6, 9, np.int64), np.full(6, 9, np.float32)
    for pair in (
        (indices, values[:5]),
        (indices[:5], values),
        (indices, values.astype("f8")),
        (indices,),
        indices,
    ):
        with pytest.raises((TypeError, ValueError), match="argmax"):
            vkdml.argmax(x, 1, return_values=True, out=pair)
    with pytest.raises((TypeError, ValueError), match="argmax"):
        vkdml.argmax(x, 1, out=(indices, values))
    with pytest.raises(TypeError, match="argmax"):
        vkdml.argmax(x, 1, out=[0] * 6)
    assert (indices == 9).all()
    assert (values == 9).all()


def test_out_that_overlaps_the_input_is_as_if_it_did_not() -> None:
    x = np.random.default_rng(3).integers(0, 50, size=(8, 9))
    want = oracle.argreduce(x, 1)[0]
    vkdml.argmax(x, 1, out=x[:, 4])
    assert np.array_equal(x[:, 4], want)


def test_two_mappings_of_one_file_are_one_memory(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(bytes(100_000))

    def mapped(offset: int, dtype: str, mode: str = "r+", name: str = "out") -> np.ndarray:
        return np.memmap(tmp_path / name, dtype, mode, offset, (8,))

    x = np.random.default_rng(3).standard_normal((8, 9))
    want = oracle.argreduce(x, 1)
    overlapping = [
        (mapped(0, "i8"), mapped(0, "f8")),
        (mapped(0, "i8"), mapped(56, "f8")),
        (mapped(40_000, "i8"), mapped(40_060, "f8")[::-1]),
    ]
    os.link(file, tmp_path / "the same")
    overlapping.append((mapped(0, "i8"), mapped(8, "f8", name="the same")))
    for indices, values in overlapping:
        with pytest.raises(ValueError, match="the indices and the values of out overlap"):
            vkdml.argmax(x, 1, return_values=True, out=(indices, values))
    assert not any(file.read_bytes()), "nothing was written"

    (tmp_path / "another").write_bytes(bytes(100))
    both = np.memmap(file, "f8", "r+", 0, (16,))
    for indices, values in (
        (mapped(0, "i8"), mapped(64, "f8")),
        (mapped(0, "i8"), mapped(0, "f8", "c")),
        (mapped(0, "i8"), mapped(0, "f8", name="another")),
        (mapped(0, "i8"), both[8:]),
    ):
        vkdml.argmax(x, 1, return_values=True, out=(indices, values))
        assert np.array_equal(indices, want[0])
        assert np.array_equal(values, want[1])


def test_a_mapped_out_that_overlaps_the_mapped_input_is_as_if_it_did_not(tmp_path: Path) -> None:
    x = np.random.default_rng(3).integers(0, 50, (8, 9))
    x.tofile(tmp_path / "x")
    want = oracle.argreduce(x, 1)[0]
    read = np.memmap(tmp_path / "x", x.dtype, "r", 0, (8, 9))
    out = np.memmap(tmp_path / "x", np.int64, "r+", 8, (8,))
    vkdml.argmax(read, 1, out=out)
    assert np.array_equal(out, want)
    x.tofile(tmp_path / "x")
    mirrored = np.memmap(tmp_path / "x", x.dtype, "r+", 0, (8, 9))
    vkdml.slice1(read, (0, 0), (8, 9), (-1, -1), out=mirrored)
    assert np.array_equal(mirrored, x[::-1, ::-1])


def test_values_of_no_dimensions_keep_their_byte_order() -> None:
    x = np.frombuffer(bytes.fromhex("80800000"), ">f4").reshape(())
    indices, values = np.zeros((), np.int64), np.zeros((), ">f4")
    vkdml.argmax(x, return_values=True, out=(indices, values))
    assert values.tobytes() == x.tobytes()
