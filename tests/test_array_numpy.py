"""Device arrays among NumPy's functions, Python's operators, and modules that copy or store objects."""

from __future__ import annotations

import copy
import inspect
import math
import operator
import pickle
from collections import deque

import ml_dtypes
import numpy as np
import numpy_surface
import pytest

import vkdml

HOST = np.float32([[1, 5, 2], [7, 7, 0]])


def shards(host: np.ndarray) -> vkdml.ShardedArray:
    return vkdml.ShardedArray([vkdml.asarray(host[:1]), vkdml.asarray(host[1:])])


BOTH = pytest.mark.parametrize("make", [vkdml.asarray, shards])


def test_every_function_of_numpy_answers_right_or_refuses():
    rng = np.random.default_rng(0)
    hosts = [
        rng.integers(0, 4, (2, 3)).astype(np.float32),
        rng.integers(0, 5, 4),
        rng.random((3, 3)),
        np.array(2, np.uint8),
    ]
    whole = [(vkdml.asarray(host), host) for host in hosts]
    parts = [(shards(host), host) for host in hosts[:3]]
    cases = [*whole, *parts]
    answers = 0
    for number, (name, function) in enumerate(numpy_surface.functions()):
        x, host = cases[number % len(cases)]
        answers += numpy_surface.check(name, function, x, host)
    assert number > 350
    assert answers > 2000


@BOTH
def test_numpy_sees_the_elements_and_not_an_object(make):
    x = make(HOST)
    assert np.argmax(x) == 3
    assert np.asarray(x).shape == (2, 3)
    assert np.max(x) == 7
    assert np.array_equal(np.asarray(x), HOST)
    assert np.array_equal(np.add(x, 1), HOST + 1)
    assert np.array_equal(np.stack([x, x]), np.stack([HOST, HOST]))
    assert np.array_equal(np.asarray([x, x]), np.stack([HOST, HOST]))
    assert np.array_equal(HOST + x, HOST + HOST)
    assert np.array_equal(np.isin(x, [7]), HOST == 7)
    assert np.ndim(x) == 2
    assert int(np.argmin(x, axis=0, keepdims=True)[0, 2]) == 1


@BOTH
def test_what_would_write_to_a_copy_is_refused(make):
    x = make(HOST)
    for does in (
        lambda: np.copyto(x, 0),
        lambda: np.put(x, [0], 9),
        lambda: np.ma.put(x, [0], 9),
        lambda: np.place(x, HOST > 1, [9]),
        lambda: np.putmask(x, HOST > 1, 9),
        lambda: np.fill_diagonal(x, 9),
        lambda: np.add.at(x, 0, 9),
        lambda: np.add(HOST, 1, out=x),
        lambda: np.clip(HOST, 0, 1, x),
        lambda: np.cumsum(HOST, 0, None, x),
        lambda: np.nan_to_num(x, copy=False),
    ):
        with pytest.raises(TypeError, match="cannot write to a device"):
            does()
        assert np.array_equal(x.numpy(), HOST)
    with pytest.raises(TypeError, match="cannot look into the memory of a device"):
        np.shares_memory(x, x)
    assert np.may_share_memory(x, x[1:])
    assert not np.may_share_memory(x[:1], x[1:])
    assert not np.may_share_memory(x, x.copy())
    assert not np.may_share_memory(x, HOST)
    assert np.array_equal(np.sort(np.random.default_rng(0).permutation(x), axis=0), np.sort(HOST, axis=0))
    with pytest.raises(
        TypeError, match=r"does not take an array on a device in this way: use np.asarray\(a\)"
    ):
        np.vstack(deque([x, x]))
    # A view that NumPy makes of the copy cannot be written to either.
    with pytest.raises(ValueError, match="read-only"):
        np.ravel(x)[0] = 3


@BOTH
def test_like_is_refused_by_name(make):
    x = make(HOST)
    with_like = [f for f in vars(np).values() if "like : array_like" in (getattr(f, "__doc__", None) or "")]
    assert len(with_like) > 20
    for function in with_like:
        arguments = {
            np.full: (3, 0),
            np.fromstring: ("3",),
            np.fromiter: ([1], int),
            np.fromfunction: (np.sum, (3,)),
        }
        with pytest.raises(TypeError) as refused:
            function(*arguments.get(function, (3,)), like=x)
        name = f"numpy.{function.__name__}"
        assert str(refused.value).startswith(f"{name} does not take an array on a device as like=; accepted")
        assert f"{name} without like=, and vkdml.asarray(x)" in str(refused.value)
        assert "vkdml.dask.argmax" in str(refused.value)


def test_views_stay_on_the_device_and_indices_are_found_there():
    a = vkdml.asarray(HOST)
    assert isinstance(np.argmax(a), np.int64)
    assert np.argmax(a, axis=1).tolist() == [1, 0]
    for got, wanted in [
        (np.transpose(a), HOST.T),
        (np.reshape(a, (3, -1)), HOST.reshape(3, -1)),
        (np.moveaxis(a, 0, 1), HOST.T),
        (np.flip(a, 0), HOST[::-1]),
        (np.broadcast_to(a, (2, 2, 3)), np.broadcast_to(HOST, (2, 2, 3))),
    ]:
        assert isinstance(got, vkdml.Array)
        assert np.array_equal(got.numpy(), wanted)
    out = vkdml.zeros(2, "int64")
    assert np.argmax(a, axis=1, out=out) is out
    assert out.tolist() == [1, 0]
    for x in (a, shards(HOST)):
        on_host = np.zeros(2, np.intp)
        assert np.argmax(x, 1, on_host) is on_host
        assert on_host.tolist() == [1, 0]
        with pytest.raises(ValueError, match=r"out must be .* \(2,\) and type int64, not \(3,\)"):
            np.argmax(x, 1, out=np.zeros(3, np.intp))
        with pytest.raises(TypeError, match=r"out must be .*, not a list"):
            np.argmax(x, 1, out=[0, 0])
        with pytest.raises(TypeError, match="NumPy writes indices of type int64 to out="):
            np.argmax(x, 1, out=np.zeros(2, np.int32))
    # As in NumPy, what is no array is the first fault.
    with pytest.raises(TypeError, match=r"out must be .*, not an int"):
        np.argmax(vkdml.empty((0, 4)), 0, 1)
    with pytest.raises(np.exceptions.AxisError):
        np.moveaxis(vkdml.empty(3), (), 3)


def arranged(change) -> tuple[vkdml.Array, np.ndarray]:
    """The same view of an array on a device and of one on the host."""
    host = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    return change(vkdml.asarray(host)), change(host)


ARRANGED = {
    "in order": lambda x: x,
    "in order of columns": lambda x: x.transpose(2, 1, 0),
    "in another order": lambda x: x.transpose(1, 0, 2),
    "backwards": lambda x: x.transpose(2, 0, 1)[::-1, :, ::-1],
    "steps": lambda x: x.transpose(2, 1, 0)[::2],
    "columns of columns": lambda x: x[0].transpose(1, 0)[1:],
    "one element in a dimension": lambda x: x.transpose(2, 1, 0)[:, None, :1],
    "no dimension": lambda x: x[1, 2, 3, ...],
}


@pytest.mark.parametrize("name", ARRANGED)
def test_the_order_of_elements_is_that_of_the_strides(name):
    a, host = arranged(ARRANGED[name])
    for order in ("C", "F", "A", "K", "k", None):
        got = np.ravel(a, order=order)
        assert isinstance(got, np.ndarray)
        assert got.tolist() == np.ravel(host, order=order).tolist()
        assert np.ravel(shards(HOST), order=order).tolist() == np.ravel(HOST, order=order).tolist()
    for order in ("C", "F", "A", "f", None):
        for shape in (-1, host.shape[::-1], (1, -1, 1)):
            got = np.reshape(a, shape, order=order)
            assert isinstance(got, vkdml.Array)
            assert np.array_equal(got.numpy(), np.reshape(host, shape, order=order))
    for function, order in ((np.ravel, "X"), (np.reshape, "X"), (np.reshape, "K")):
        with pytest.raises(ValueError, match="order"):
            function(*(a, -1)[: 1 + (function is np.reshape)], order=order)


def test_elements_that_are_repeated_have_no_order_in_memory():
    a = np.broadcast_to(vkdml.asarray(HOST), (2, 2, 3))
    assert np.ravel(a, order="A").tolist() == np.ravel(np.broadcast_to(HOST, (2, 2, 3)), order="A").tolist()
    with pytest.raises(TypeError, match="order='K' of a view that repeats elements; accepted are 'C', 'F'"):
        np.ravel(a, order="K")


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="np.reshape has no copy=")
def test_reshape_copies_where_it_is_asked_to():
    a = vkdml.asarray(HOST)
    for x, order in ((a, "C"), (a, "A"), (a.T, "F"), (a.T, "A")):
        seen, copied = (np.reshape(x, -1, order=order, copy=copy) for copy in (False, True))
        assert isinstance(copied, vkdml.Array)
        assert np.may_share_memory(seen, a)
        assert not np.may_share_memory(copied, a)
        assert seen.tolist() == copied.tolist() == np.ravel(HOST).tolist()
    for x, order in ((a.T, "C"), (a, "F"), (a[:, :2], "A")):
        with pytest.raises(ValueError, match=r"cannot be seen as .* without a copy"):
            np.reshape(x, -1, order=order, copy=False)
        assert np.reshape(x, -1, copy=True).tolist() == np.reshape(x.numpy(), -1).tolist()
    parts = shards(HOST)
    with pytest.raises(ValueError, match="cannot be seen by NumPy without a copy"):
        np.reshape(parts, -1, copy=False)
    assert np.reshape(parts, -1, order="F", copy=True).tolist() == HOST.reshape(-1, order="F").tolist()


@BOTH
def test_operators_are_refused_and_say_what_computes(make):
    x = make(HOST)
    binary = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.add]
    binary += [operator.sub, operator.mul, operator.matmul, operator.truediv, operator.floordiv, operator.mod]
    binary += [operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, divmod]
    binary += [operator.iadd, operator.imul]
    for compute in binary:
        for other in (x, 1, HOST.tolist(), None):
            with pytest.raises(TypeError, match=r"does not compare or compute: use np.asarray\(a\)"):
                compute(x, other)
        with pytest.raises(TypeError, match=r"use np.asarray\(a\)"):
            compute(1, x)
    for compute in (operator.neg, operator.pos, abs, operator.invert, lambda x: 7 in x, sorted, min, sum):
        with pytest.raises(TypeError, match=r"use np.asarray\(a\)"):
            compute(x)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(AttributeError, match=r"has no attribute 'mean'; NumPy has it: np.asarray\(a\).mean"):
        x.mean()
    assert np.array_equal([row.numpy() for row in x], HOST)
    assert np.array_equal([row.numpy() for row in list(reversed(x))], HOST[::-1])
    assert len(x) == 2
    assert bytes(x) == HOST.tobytes()


def test_scalars_format_and_round_as_numpys():
    a = vkdml.asarray(HOST)
    assert f"{a.argmax():d} {a[0, 1]:.2f} {a[0, 1]:>6.1f}|{a.argmax()}" == "3 5.00    5.0|3"
    assert f"{a}" == repr(a)
    assert str(a[0, 1]) == "5.0"
    with pytest.raises(
        TypeError, match=r"format '.2f' takes an array of no dimensions, not one of shape \(2, 3\)"
    ):
        f"{a:.2f}"
    half = vkdml.asarray(np.float64(2.567))
    assert (round(half), round(half, 1), math.floor(half), math.ceil(half), math.trunc(half)) == (
        3,
        2.6,
        2,
        3,
        2,
    )
    great = vkdml.asarray(np.int64(2**60 + 1))
    assert math.floor(great) == 2**60 + 1
    assert operator.index(great) == 2**60 + 1
    assert (complex(half), bool(half), float(half), int(half)) == (2.567, True, 2.567, 2)
    for refused in (int, float):
        with pytest.raises(TypeError, match="would drop the imaginary part"):
            refused(vkdml.asarray(np.complex64(1 + 2j)))
    for complex_half in ("complex32", "bcomplex32"):
        if hasattr(ml_dtypes, complex_half):
            with pytest.raises(TypeError, match="would drop the imaginary part"):
                int(vkdml.asarray(np.zeros(1, getattr(ml_dtypes, complex_half))))
    for name in ("float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4", "uint4", "float8_e3m4"):
        if hasattr(ml_dtypes, name):  # whose codes are those of NumPy's types
            ones = vkdml.asarray(np.ones(16, getattr(ml_dtypes, name)))
            assert (ones[9].item(), int(ones[9]), float(ones[9])) == (1, 1, 1.0)
            if "float" in name:
                with pytest.raises(TypeError):
                    operator.index(ones[9])
    small = vkdml.asarray(ml_dtypes.bfloat16(1.5))
    assert f"{small:.2f}" == "1.50"
    for refused in (int, float, round, operator.index):
        with pytest.raises(TypeError):
            refused(a)
    for several in (a, a[:0]):
        with pytest.raises(ValueError, match=r"bool\(\) takes an array of one element"):
            bool(several)
    one = vkdml.ShardedArray([vkdml.asarray(np.int32([])), vkdml.asarray(np.int32([41]))])
    assert (int(one), float(one), bool(one), one.item(), one.tolist()) == (41, 41.0, True, 41, [41])
    with pytest.raises(ValueError, match=r"bool\(\) takes an array of one element"):
        bool(shards(HOST))


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "S2", "datetime64[s]", [("a", "i4"), ("b", "f4")]])
def test_copies_and_pickles_hold_the_elements(make, dtype):
    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    host = np.arange(6 * dtype.itemsize, dtype=np.uint8).view(dtype).reshape(2, 3)
    x = make(host)
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.deepcopy([x, x])[1]):
        assert type(made) is type(x)
        assert made.dtype == dtype
        assert made.numpy().tobytes() == host.tobytes()
        made[...] = np.zeros((), dtype)
        assert x.numpy().tobytes() == host.tobytes()
    if isinstance(x, vkdml.Array):
        view = pickle.loads(pickle.dumps(x[:, ::-1]))
        assert view.numpy().tobytes() == host[:, ::-1].tobytes()


def test_options_as_numpys_wrappers_pass_them_on():
    host = np.arange(6).reshape(2, 3)
    array = vkdml.asarray(host)
    no_value = inspect.signature(np.argmax).parameters["keepdims"].default
    for function in (np.argmax, np.argmin):
        found = function(array, axis=1, out=None, keepdims=no_value)
        assert found.tolist() == function(host, axis=1, out=None, keepdims=no_value).tolist()
    for axis in (True, 1.0):
        for call in (
            lambda axis: np.argmax(array, axis=axis),
            lambda axis: np.take(array, np.array([0]), axis=axis),
            lambda axis: np.take_along_axis(array, np.array([[0]]), axis=axis),
        ):
            with pytest.raises(TypeError, match="axis must be an integer, not"):
                call(axis)


def test_huge_arrays_print_at_once(monkeypatch):
    monkeypatch.setattr(vkdml.Array, "numpy", None)  # nothing is read
    a = vkdml.zeros(1, "int8").broadcast_to((1 << 40, 1 << 10))
    assert f"{a}" == str(a) == repr(a)
    assert "shape=(1099511627776, 1024)" in repr(a)
    assert "shape=(2199023255552, 1024)" in repr(vkdml.ShardedArray([a, a]))


def test_what_the_host_cannot_hold_is_refused_with_numbers():
    a = vkdml.zeros(1, "int8").broadcast_to(1 << 50)
    for does in (a.numpy, lambda: np.asarray(a), vkdml.ShardedArray([a, a]).numpy, lambda: np.sum(a)):
        with pytest.raises(MemoryError, match="bytes of host memory that are free"):
            does()
    with pytest.raises(MemoryError, match=f"{1 << 50} bytes: the device's limit for one buffer is"):
        a.copy()
