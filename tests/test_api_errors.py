"""What argmax, argmin and slice1 refuse, what the message says, and that the device works afterwards."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
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
    for axis in (1.0, "0", "", b"\0", {0: 1}, object()):
        said = (op, "axis must be an integer or a sequence of integers")
        refuse(TypeError, said, getattr(vkdml, op), X, axis)
    for axis in ((0.5,), (None,), (0, (1,)), np.array([0.0])):
        refuse(TypeError, (op, "each entry of axis must be an integer, not"), getattr(vkdml, op), X, axis)


@OPERATORS
def test_out_that_is_a_scalar(op: str) -> None:
    said = (op, "out must be a NumPy array of shape () and type int64, not a NumPy scalar of type int64")
    refuse(TypeError, said, getattr(vkdml, op), [1, 2], out=np.int64(1))


@OPERATORS
def test_axes_come_in_any_sequence_of_integers(op: str) -> None:
    for axes in ([0, 1], range(2), deque([1, 0]), {0, 1}, np.array([1, 0])):
        for x in (X, vkdml.asarray(X)):
            found = getattr(vkdml, op)(x, axes)
            assert np.asarray(found).tolist() == getattr(vkdml, op)(X, (0, 1)).tolist()
    array = vkdml.asarray(X)
    for axes in (range(2, -1, -1), np.array([2, 1, 0]), [2, 1, 0]):
        assert np.array_equal(array.transpose(axes), X.T)
        assert np.array_equal(np.transpose(array, axes), X.T)
        assert np.array_equal(np.moveaxis(array, axes, range(3)), X.T)
    assert np.array_equal(np.flip(array, np.array([0])), np.flip(X, 0))
    for axes in ({0, 1, 2}, "210"):
        with pytest.raises(TypeError, match="axes must be an integer or a sequence of integers"):
            array.transpose(axes)


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
            ValueError if isinstance(value, str) else TypeError,
            (op, "direction", repr(value), "increasing", "decreasing"),
            function,
            X,
            direction=value,
        )
    for value in ("ignore", "Omit", "", None, True):
        refuse(
            ValueError if isinstance(value, str) else TypeError,
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
        wider = "accepted are int64, uint64"
        refuse(ValueError, (op, 2**33, dtype, wider), getattr(vkdml, op), x, 1, dtype=dtype)
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
    for name in ("offsets", "sizes", "strides", "output_sizes"):
        for without_order in ({1, 2, 3}, frozenset((1, 2, 3)), {1: 0, 2: 0, 3: 0}):
            refuse_slice(TypeError, (name, "a sequence of 3 integers"), **{name: without_order})


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


# ---- every argument, in every call -------------------------------------------------------------------------

CONTESTED = X, 1
UNCONTESTED = X[:, :1], 1
EMPTY = X[:0], 1
EVERY_KIND = pytest.mark.parametrize(
    ("x", "axis"), [CONTESTED, UNCONTESTED, EMPTY], ids=("some", "one", "none")
)


@OPERATORS
@EVERY_KIND
def test_every_argument_is_checked_whatever_there_is_to_compute(op: str, x: Any, axis: int) -> None:
    function = getattr(vkdml, op)
    where = f"{op} of {x.shape} float32: "
    for on_a_device in (False, True):
        array = vkdml.asarray(x) if on_a_device else x
        function(array, axis)  # a known call from now on
        for _ in range(2):
            refuse(vkdml.NoDeviceError, (where, "garbage"), function, array, axis, device="garbage")
            refuse(TypeError, (where, "device", "1.5"), function, array, axis, device=1.5)
            for value in ("no", 2, -1, 1.0, 0.0, None, "", [], np.int8(2)):
                says = where, repr(value), "must be True or False"
                refuse(TypeError, (*says, "keepdims"), function, array, axis, keepdims=value)
                refuse(TypeError, (*says, "return_values"), function, array, axis, return_values=value)
            refuse(ValueError, (where, "direction"), function, array, axis, direction="up")
            refuse(ValueError, (where, "nan_policy"), function, array, axis, nan_policy="drop")
            refuse(TypeError, (where, "indices cannot be"), function, array, axis, dtype="int8")
            refuse(TypeError, (where, "out must be"), function, array, axis, out=7)
            refuse(np.exceptions.AxisError, (f"{op} of {x.shape}", "7"), function, array, 7)
    refuse(ValueError, (where, "at least one device"), function, x, axis, device=[])
    for progress in (5, "yes", [print]):
        says = where, "progress must be True, a function", repr(progress)
        refuse(TypeError, says, function, x, axis, progress=progress)
    refuse(
        TypeError, (where, "host arrays", "progress=None"), function, vkdml.asarray(x), axis, progress=print
    )


@OPERATORS
def test_flags_may_be_the_integers_0_and_1_as_numpy_takes_them(op: str) -> None:
    function = getattr(vkdml, op)
    for x in (X, vkdml.asarray(X)):
        for _ in range(2):  # a known call from then on
            for yes, no in ((1, 0), (np.int8(1), np.uint64(0)), (np.True_, np.False_), (True, False)):
                assert function(x, 1, keepdims=yes).shape == (2, 1, 4)
                assert function(x, 1, keepdims=no).shape == (2, 4)
                assert len(function(x, 1, return_values=yes)) == 2
                assert function(x, 1, return_values=no, keepdims=yes).shape == (2, 1, 4)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (0, 3, 4)])
def test_every_argument_of_slice1_is_checked_whatever_there_is_to_copy(sizes: tuple[int, ...]) -> None:
    refuse_slice(vkdml.NoDeviceError, (f"of {X.shape} float32: ", "garbage"), sizes=sizes, device="garbage")
    refuse_slice(TypeError, ("progress", "5"), sizes=sizes, progress=5)
    refuse_slice(TypeError, ("out must be",), sizes=sizes, out=7)
    on_a_device = vkdml.asarray(X)
    refuse_slice(vkdml.NoDeviceError, ("garbage",), x=on_a_device, sizes=sizes, device="garbage")
    refuse_slice(TypeError, ("progress=None",), x=on_a_device, sizes=sizes, progress=print)
    refuse_slice(TypeError, ("out must be",), x=on_a_device, sizes=sizes, out=7)


@OPERATORS
def test_flags_of_numpys_type_are_taken(op: str) -> None:
    function = getattr(vkdml, op)
    for x in (X, X[:, :1], vkdml.asarray(X)):
        assert function(x, 1, keepdims=np.True_).shape == (2, 1, 4)
        assert function(x, 1, keepdims=np.False_).shape == (2, 4)
        assert function(x, 1, return_values=np.True_).values.shape == (2, 4)
        assert function(x, 1, return_values=np.False_).shape == (2, 4)


@EVERY_KIND
def test_progress_of_what_needs_no_tile_is_the_whole_at_once(x: Any, axis: int) -> None:
    for progress, calls in ((False, False), (None, False), (True, True)):
        said: list[tuple[int, int]] = []

        def report(done: int, total: int, said: list[tuple[int, int]] = said) -> None:
            said.append((done, total))

        vkdml.argmax(x, axis, progress=report if progress else progress)
        vkdml.slice1(x, (0,) * 3, x.shape, (1,) * 3, progress=report if progress else progress)
        assert said == ([(x.nbytes, x.nbytes)] * 2 if calls else [])


@OPERATORS
def test_a_sharded_array_names_what_it_does_not_take(op: str) -> None:
    shards = vkdml.ShardedArray([vkdml.asarray(X), vkdml.asarray(X)])
    function = getattr(vkdml, op)
    where = f"{op} of (4, 3, 4) float32: "
    refuse(TypeError, (where, "out= is not accepted"), function, shards, out=np.zeros(()))
    refuse(TypeError, (where, "device= is not accepted"), function, shards, device=0)
    refuse(TypeError, (where, "progress= is not accepted"), function, shards, progress=print)
    refuse(TypeError, (where, "keepdims", "'no'"), function, shards, keepdims="no")
    refuse(TypeError, (where, "return_values", "'no'"), function, shards, return_values="no")
    assert function(shards, 0, keepdims=np.True_).shape == (1, 3, 4)
    for array in (shards, shards.shards[0]):
        assert int(function(array, progress=False)) == int(function(array))


def test_slice1_of_one_dimension_takes_integers() -> None:
    for x in (np.arange(9), vkdml.asarray(np.arange(9))):
        assert np.asarray(vkdml.slice1(x, 1, 7, -2)).tolist() == [7, 5, 3, 1]
        assert np.asarray(vkdml.slice1(x, np.int8(1), (7,), 3, output_sizes=2)).tolist() == [1, 4]
        assert np.asarray(vkdml.slice1(x, np.array(1), vkdml.asarray(7), np.array([3]))).tolist() == [1, 4, 7]
        refuse(ValueError, ("slice1", "0 to 3", "stride 3"), vkdml.slice1, x, 1, 7, 3, output_sizes=9)
        refuse(ValueError, ("slice1", "offset 1", "size 9"), vkdml.slice1, x, 1, 9, 1)
        for wrong in (1.0, True, "1", None, np.bool_(True), np.float32(1), np.array(1.0), np.array(True)):
            refuse(TypeError, ("slice1", "offsets", "an integer"), vkdml.slice1, x, wrong, 7, 1)
    refuse_slice(TypeError, ("offsets", "a sequence of 3 integers, not 1"), offsets=1)
    refuse_slice(TypeError, ("strides", "a sequence of 3 integers, not array(1)"), strides=np.array(1))
    refuse(TypeError, ("a sequence of 0 integers",), vkdml.slice1, np.float32(1), 0, (), ())


def test_what_is_no_array_of_numbers_is_named_by_its_type() -> None:
    masked = np.ma.array([1, 5, 3], mask=[0, 1, 0])
    for function, operands in ((vkdml.argmax, ()), (vkdml.slice1, (0, 3, 1))):
        name = function.__name__
        refuse(
            TypeError,
            (f"{name} of (3,) int64: ", "the mask of this MaskedArray"),
            function,
            masked,
            *operands,
        )
        refuse(TypeError, (f"{name} of dict: ", "this dict"), function, {}, *operands)
        refuse(TypeError, (f"{name} of list: ", "this list"), function, [1, None, 2], *operands)
        refuse(ValueError, (f"{name} of list: ", "equal lengths"), function, [[1, 2], [3]], *operands)
        table = type("DataFrame", (), {"shape": (2, 2), "__array__": lambda *_, **__: np.array([None])})()
        refuse(TypeError, (f"{name} of DataFrame: NumPy makes",), function, table, *operands)
        group = type("Group", (), {"keys": lambda _: ["x"], "__iter__": lambda _: iter(["x"])})()
        refuse(TypeError, (f"{name} of Group: ", "by name", "x[name]"), function, group, *operands)
    assert vkdml.argmax(np.ma.array([1, 5, 3], mask=[0, 0, 0])) == 1
    assert type(vkdml.argmax(np.array([[1, 5], [7, 2]]).view(np.matrix), 1)) is np.ndarray
    refuse(TypeError, ("out must be", "MaskedArray"), vkdml.argmax, X, 1, out=np.ma.zeros((2, 4), np.int64))


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has this type")
def test_strings_of_any_length_are_no_elements_and_no_indices() -> None:
    strings = np.array(["a", "b"], np.dtypes.StringDType())
    refuse(TypeError, ("argmax of (2,) StringDType()", "strings", "numbers"), vkdml.argmax, strings)
    refuse(TypeError, ("slice1 of (2,) StringDType()", "strings"), vkdml.slice1, strings, 0, 2, 1)
    refuse(TypeError, ("argmax", "indices cannot be StringDType"), vkdml.argmax, X, dtype=strings.dtype)
    refuse(TypeError, ("out has type StringDType",), vkdml.slice1, [1, 2], 0, 2, 1, out=strings)


def test_structured_elements_move_whole_and_do_not_compete() -> None:
    pairs = np.array([(1, 2.5), (3, 4.5)], "i4,f4")
    assert vkdml.slice1(pairs, 0, 2, -1).tolist() == [(3, 4.5), (1, 2.5)]
    refuse(TypeError, ("argmax", "cannot be compared", "float32"), vkdml.argmax, pairs)


def test_no_message_puts_an_article_before_a_name_that_is_filled_in() -> None:
    """The article would be wrong for some: "a int", "a Array"."""
    package = Path(vkdml.__file__).parent
    lines = [
        f"{path.relative_to(package)}:{number}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\ba \{(?!read_only|writeable|base\})", line)
    ]
    assert not lines, lines
