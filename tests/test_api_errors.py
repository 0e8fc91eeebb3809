"""What argmax, argmin and slice1 refuse, what the message says, and that the device works afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import oracle
import pytest

import vkdml

pytestmark = pytest.mark.usefixtures("device")

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(autouse=True)
def the_device_still_works() -> Iterator[None]:
    yield
    assert vkdml.argmax([1, 3, 2]) == 1
    assert vkdml.slice1([1, 3, 2], [0], [3], [-1]).tolist() == [2, 3, 1]


def refuse(
    kind: type[Exception] | tuple[type[Exception], ...],
    says: tuple[object, ...],
    call: Any,
    *args: Any,
    **kwargs: Any,
) -> None:
    """The call raises, and says every fragment: the operator, the fault's numbers, what would be accepted."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    missing = [str(fragment) for fragment in says if str(fragment) not in message]
    assert not missing, f"{message!r} does not say {missing}"


OPERATORS = pytest.mark.parametrize("op", oracle.OPERATORS)


@OPERATORS
def test_axis_out_of_range(op: str) -> None:
    function = getattr(vkdml, op)
    for axis in (3, -4, 100, (0, 3), (-4,), 2**40):
        worst = axis if isinstance(axis, int) else axis[-1]
        refuse(np.exceptions.AxisError, (op, worst, 3), function, X, axis)
    for axis in (1, -2, (0,), (-1,)):
        refuse(np.exceptions.AxisError, (op,), function, np.float32(1), axis)
    refuse((ValueError, IndexError), (op,), function, X, 3)  # what AxisError derives from


@OPERATORS
def test_duplicate_axes(op: str) -> None:
    for axis in ((0, 0), (1, -2), (0, 1, 2, 0), (-1, 2)):
        refuse(ValueError, (op, "ax"), getattr(vkdml, op), X, axis)


@OPERATORS
def test_axis_of_the_wrong_type(op: str) -> None:
    for axis in (1.0, "0", (0.5,), (None,), {0: 1}, object()):
        refuse(TypeError, (op, "axis"), getattr(vkdml, op), X, axis)


@OPERATORS
def test_unsupported_dtypes(op: str) -> None:
    function = getattr(vkdml, op)
    inputs = (
        np.array([1, 2], dtype=object),
        np.array(["a", "b"]),
        np.array([b"a", b"b"]),
        np.array([1j, 2]),
        np.array([1, 2], dtype=np.complex64),
        np.array([1, 2], dtype=np.longdouble),
        np.array([1, 2], dtype="datetime64[s]"),
        np.array([1, 2], dtype="timedelta64[s]"),
        np.zeros(2, dtype=[("a", "f4")]),
        np.zeros(2, dtype="V4"),
    )
    for x in inputs:
        refuse(TypeError, (op, x.dtype, "float32", "float16", "int64", "uint8", "bool"), function, x)
    for not_an_array in (None, "text", {}, object(), [1, "a"], [None, 1]):
        refuse(TypeError, (op,), function, not_an_array)


@OPERATORS
def test_unsupported_small_floats_are_named(op: str) -> None:
    import ml_dtypes

    for name in ("float8_e4m3b11fnuz", "int4", "float8_e5m2fnuz"):
        x = np.zeros(3, getattr(ml_dtypes, name))
        refuse(TypeError, (op, name, "bfloat16"), getattr(vkdml, op), x)


@OPERATORS
def test_ragged_lists(op: str) -> None:
    refuse((ValueError, TypeError), (), getattr(vkdml, op), [[1, 2], [3]])


@OPERATORS
def test_options_out_of_their_sets(op: str) -> None:
    function = getattr(vkdml, op)
    for value in ("up", "Increasing", "", None, 1, b"increasing"):
        refuse(
            (ValueError, TypeError),
            (op, "direction", repr(value), "increasing", "decreasing"),
            function,
            X,
            direction=value,
        )
    for value in ("ignore", "Omit", "", None, True):
        refuse(
            (ValueError, TypeError),
            (op, "nan_policy", repr(value), "propagate", "omit"),
            function,
            X,
            nan_policy=value,
        )
    for dtype in ("int16", "float32", "bool", "uint8", np.float64, "datetime64[s]", "object"):
        refuse(
            (TypeError, ValueError), (op, np.dtype(dtype), *oracle.OUTPUT_DTYPES), function, X, dtype=dtype
        )
    for not_a_dtype in ("no such type", 3.5):
        refuse((TypeError, ValueError), (op,), function, X, dtype=not_a_dtype)
    refuse(ValueError, ("direction",), function, X, direction="sideways")
    refuse(ValueError, ("nan_policy",), function, X, nan_policy="sideways")


@OPERATORS
def test_bad_devices(op: str) -> None:
    function = getattr(vkdml, op)
    refuse((ValueError, vkdml.DeviceError), ("no such device",), function, X, device="no such device")
    refuse((ValueError, IndexError, vkdml.DeviceError), ("99",), function, X, device=99)
    refuse((ValueError, IndexError, vkdml.DeviceError), ("-1",), function, X, device=-1)
    refuse((ValueError, vkdml.DeviceError), ("ab" * 16,), function, X, device="ab" * 16)
    for device in (1.5, object(), [1.5], {0: 0}):
        refuse(TypeError, ("device",), function, X, device=device)
    refuse(
        (ValueError, vkdml.DeviceError),
        ("no such device",),
        vkdml.slice1,
        [1],
        [0],
        [1],
        [1],
        device="no such device",
    )


@OPERATORS
def test_good_devices(op: str, device: vkdml.Device) -> None:
    function = getattr(vkdml, op)
    want = function(X, 1)
    info = vkdml.devices()[device.info.index]
    for selector in (
        None,
        device,
        info.index,
        info.name,
        info.name.upper(),
        info.name[:4].lower(),
        info.uuid,
    ):
        assert np.array_equal(function(X, 1, device=selector), want)
    assert vkdml.slice1(X, (0, 0, 0), (1, 1, 1), (1, 1, 1), device=device).shape == (1, 1, 1)
    assert device.name == info.name


@OPERATORS
def test_reducing_nothing(op: str) -> None:
    function = getattr(vkdml, op)
    wording = f"attempt to get {op} of an empty sequence"
    for shape, axis in (((0,), None), ((2, 0, 3), 1), ((2, 0, 3), (0, 1)), ((0, 0), 1)):
        refuse(ValueError, (wording,), function, np.zeros(shape, np.uint8), axis)
        refuse(ValueError, (wording,), function, np.zeros(shape), axis, keepdims=True, return_values=True)
    refuse(ValueError, (wording,), function, [])


@OPERATORS
def test_counts_that_do_not_fit(op: str) -> None:
    x = np.broadcast_to(np.int8(1), (3, 2**33))
    for dtype in ("int32", "uint32"):
        refuse(ValueError, (op, 2**33, dtype, "int64"), getattr(vkdml, op), x, 1, dtype=dtype)
        refuse(ValueError, (op, 3 * 2**33, dtype, "int64"), getattr(vkdml, op), x, None, dtype=dtype)


@OPERATORS
def test_out_of_the_wrong_kind(op: str) -> None:
    function = getattr(vkdml, op)
    refuse(ValueError, (op, "out", (2, 3), (2, 4)), function, X, 1, out=np.zeros((2, 3), np.int64))
    refuse(ValueError, (op, "out", (2, 1, 4)), function, X, 1, keepdims=True, out=np.zeros((2, 4), np.int64))
    refuse(
        (TypeError, ValueError),
        (op, "float32", "int64"),
        function,
        X,
        1,
        out=np.zeros((2, 4), np.float32),
    )
    refuse(
        (TypeError, ValueError),
        (op, "out", "int32", "uint32"),
        function,
        X,
        1,
        dtype="uint32",
        out=np.zeros((2, 4), np.int32),
    )
    refuse(TypeError, (op, "out"), function, X, 1, out=[[0] * 4] * 2)
    indices, values = np.zeros((2, 4), np.int64), np.zeros((2, 4), np.float32)
    refuse((TypeError, ValueError), (op, "out"), function, X, 1, return_values=True, out=indices)
    refuse((TypeError, ValueError), (op, "out"), function, X, 1, out=(indices, values))
    refuse(
        (TypeError, ValueError),
        (op, "out"),
        function,
        X,
        1,
        return_values=True,
        out=(indices, values, values),
    )
    refuse(
        (TypeError, ValueError),
        (op, "float64", "float32"),
        function,
        X,
        1,
        return_values=True,
        out=(indices, values.astype(float)),
    )
    refuse(
        ValueError,
        (op, (4, 2), (2, 4)),
        function,
        X,
        1,
        return_values=True,
        out=(indices, values.reshape(4, 2)),
    )
    indices.flags.writeable = False
    refuse(ValueError, (op, "out"), function, X, 1, out=indices)


@OPERATORS
def test_keyword_only_and_unknown_arguments(op: str) -> None:
    function = getattr(vkdml, op)
    refuse(TypeError, (), function, X, 0, True)
    refuse(TypeError, (), function, X, 0, where=True)
    refuse(TypeError, (), function)


WHOLE = {"offsets": (0, 0, 0), "sizes": (2, 3, 4), "strides": (1, 1, 1)}


def refuse_slice(
    kind: type[Exception] | tuple[type[Exception], ...], says: tuple[object, ...], x: Any = X, **changes: Any
) -> None:
    refuse(kind, ("slice1", *says), vkdml.slice1, x, **{**WHOLE, **changes})


def test_windows_outside_the_input() -> None:
    refuse_slice(ValueError, (1, 3), offsets=(0, 1, 0))
    refuse_slice(ValueError, (2, 3, 4), offsets=(0, 0, 2), sizes=(2, 3, 3))
    refuse_slice(ValueError, (5, 4), sizes=(2, 3, 5))
    refuse_slice(ValueError, (2,), offsets=(2, 0, 0), sizes=(1, 3, 4))
    refuse_slice(ValueError, (2**33, 4), sizes=(2, 3, 2**33))
    refuse_slice(ValueError, (2**63, 4), sizes=(2, 3, 2**63))
    refuse_slice(ValueError, (2**64 - 1,), offsets=(0, 0, 2**64 - 1), sizes=(2, 3, 2))
    refuse_slice(ValueError, (-1,), offsets=(0, -1, 0), sizes=(2, 2, 4))


def test_empty_windows() -> None:
    """DirectML has none; here they give an empty result, and a negative size is refused."""
    for sizes in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        assert vkdml.slice1(X, (0, 0, 0), sizes, (1, -1, 2)).size == 0
        refuse_slice(ValueError, ("output", 1, 0), sizes=sizes, output_sizes=(1, 1, 1))
    refuse_slice(ValueError, ("size", -1), sizes=(2, 3, -1))
    for shape in ((0, 3), (3, 0)):
        x = np.zeros(shape, np.float32)
        got = vkdml.slice1(x, (0, 0), shape, (1, -2))
        assert got.dtype == x.dtype
        assert got.shape == (shape[0], -(-shape[1] // 2))
        refuse_slice(ValueError, (), x=x, offsets=(0, 0), sizes=(1, 1), strides=(1, 1))
    refuse_slice(ValueError, ("stride", 0), sizes=(0, 3, 4), strides=(0, 1, 1))


def test_zero_strides() -> None:
    for axis in range(3):
        strides = [1, -1, 2]
        strides[axis] = 0
        refuse_slice(ValueError, ("stride", 0), strides=tuple(strides))


def test_output_sizes_that_the_window_does_not_give() -> None:
    refuse_slice(ValueError, ("output", 5, 4), output_sizes=(2, 3, 5))
    refuse_slice(ValueError, ("output", 3, 2), strides=(1, 1, 3), output_sizes=(2, 3, 3))
    refuse_slice(ValueError, ("output", 3, 2), strides=(1, 1, -2), output_sizes=(2, 3, 3))
    assert vkdml.slice1(X, **{**WHOLE, "output_sizes": (2, 0, 4)}).shape == (2, 0, 4)
    refuse_slice(ValueError, ("output", -1), output_sizes=(2, 3, -1))


def test_lists_of_the_wrong_length() -> None:
    for name, short in itertools.product(
        ("offsets", "sizes", "strides", "output_sizes"), ((), (1, 1), (1, 1, 1, 1))
    ):
        refuse_slice(ValueError, (name, len(short), 3), **{name: short})
    refuse_slice(ValueError, ("offsets", 3, 0), x=np.float32(1))


def test_entries_of_the_wrong_type() -> None:
    for name in ("offsets", "sizes", "strides", "output_sizes"):
        for entry in (1.0, "1", None):
            refuse_slice(TypeError, (name,), **{name: (entry, 1, 1)})
    for name in ("offsets", "sizes", "strides"):
        refuse_slice(TypeError, (name,), **{name: None})
        refuse_slice((TypeError, ValueError), (name,), **{name: 1})


def test_element_sizes_that_slice1_does_not_move() -> None:
    for dtype in ("S3", "V3", "U3", "V5", "V32", "S12", "V24", "complex256"):
        if dtype == "complex256" and not hasattr(np, "complex256"):
            continue
        x = np.zeros(4, dtype)
        refuse_slice(TypeError, (x.dtype.itemsize, "1, 2, 4, 8"), x=x, offsets=(0,), sizes=(4,), strides=(1,))
    refuse_slice(TypeError, ("object",), x=np.array([1, None]), offsets=(0,), sizes=(2,), strides=(1,))
    for x in (np.zeros(2, [("a", object)]), np.zeros(2, [("a", object), ("b", "i8")])):
        refuse_slice(TypeError, (), x=x, offsets=(0,), sizes=(2,), strides=(1,))


def test_slice1_out_of_the_wrong_kind() -> None:
    refuse_slice(ValueError, ("out", (2, 3, 5), (2, 3, 4)), out=np.zeros((2, 3, 5), np.float32))
    refuse_slice(
        ValueError, ("out", (2, 3, 4), (2, 3, 2)), strides=(1, 1, 2), out=np.zeros((2, 3, 4), np.float32)
    )
    refuse_slice((TypeError, ValueError), ("out", "float64", "float32"), out=np.zeros((2, 3, 4)))
    refuse_slice(TypeError, ("out",), out=[0.0] * 24)
    frozen = np.zeros((2, 3, 4), np.float32)
    frozen.flags.writeable = False
    refuse_slice(ValueError, ("out",), out=frozen)


def test_a_thousand_refusals_leave_nothing_behind(device: vkdml.Device) -> None:
    vkdml.argmax(X, 1)
    before = device.memory()["used"]
    for _ in range(250):
        for call in (
            lambda: vkdml.argmax(X, 7),
            lambda: vkdml.argmin(X, direction="sideways"),
            lambda: vkdml.argmax(X, out=np.zeros(3)),
            lambda: vkdml.slice1(X, (0, 0, 9), (1, 1, 1), (1, 1, 1)),
        ):
            with pytest.raises((ValueError, TypeError)):
                call()
    assert device.memory()["used"] == before
