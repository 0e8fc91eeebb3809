"""Device arrays: views, operators that read through them, assignment, interchange, lifetime."""

from __future__ import annotations

import datetime
import gc
import math
from array import array as flat_array
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import views
from array_bits import element_type, random_bits, same_bits
from hypothesis import given
from hypothesis import strategies as st
from separate import separate_device
from thinned import examples

import vkdml
from vkdml.operators import on_device
from vkdml.plan.elements import ML_DTYPES_ELEMENTS, NUMPY_ELEMENTS
from vkdml.runtime import memory as device_memory

ELEMENTS = (*NUMPY_ELEMENTS, *ML_DTYPES_ELEMENTS)
MOVED = (*ELEMENTS, "complex128", "S16", "datetime64[s]")


@st.composite
def view_chains(draw: st.DrawFn):
    """A shape, an element type, and steps that make views, as names with arguments."""
    shape = draw(views.shapes)
    dtype = draw(st.sampled_from(ELEMENTS))
    array = np.empty(shape, np.uint8)
    steps = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["index", "transpose", "T", "moveaxis", "reshape"]))
        if kind == "index":
            argument = draw(views.keys(array.shape))
        elif kind == "transpose":
            argument = tuple(draw(st.permutations(range(array.ndim)))) or None
        elif kind == "moveaxis" and array.ndim:
            axes = st.integers(-array.ndim, array.ndim - 1)
            argument = draw(axes), draw(axes)
        elif kind == "reshape" and array.size:
            argument = draw(views.factorizations(array.size))
        else:
            kind, argument = "T", None
        made = apply_to_numpy(array, kind, argument)
        if made.size and not np.may_share_memory(made, array):
            continue  # NumPy copied: there is no such view
        array = made
        steps.append((kind, argument))
    return shape, dtype, steps, draw(st.integers(0, 2**32 - 1))


def apply_to_numpy(array: np.ndarray, kind: str, argument: object) -> np.ndarray:
    if kind == "index":
        return views.view_of(array, argument)
    if kind == "T":
        return array.T
    if kind == "transpose":
        return array.transpose(argument)
    if kind == "moveaxis":
        return np.moveaxis(array, *argument)
    return array.reshape(argument)


def apply_to_device(array: vkdml.Array, kind: str, argument: object) -> vkdml.Array:
    if kind == "index":
        return array[argument]
    if kind == "T":
        return array.T
    if kind == "transpose":
        return array.transpose(argument)
    if kind == "moveaxis":
        return array.moveaxis(*argument)
    return array.reshape(argument)


@examples(300)
@given(view_chains())
def test_views_are_those_of_numpy_and_operators_read_through_them(case):
    shape, name, steps, seed = case
    rng = np.random.default_rng(seed)
    host = random_bits(rng, shape, element_type(name))
    array = vkdml.asarray(host)
    for kind, argument in steps:
        host, array = apply_to_numpy(host, kind, argument), apply_to_device(array, kind, argument)
        assert array.shape == host.shape
    assert array.dtype == host.dtype
    assert (array.ndim, array.size, array.nbytes) == (host.ndim, host.size, host.nbytes)
    assert same_bits(np.asarray(array), host)
    assert same_bits(array.copy().numpy(), host)
    axes = tuple(a for a in range(host.ndim) if rng.random() < 0.5)
    options = {
        "keepdims": bool(rng.integers(2)),
        "direction": ("increasing", "decreasing")[rng.integers(2)],
        "nan_policy": ("propagate", "omit")[rng.integers(2)],
        "dtype": ("int64", "uint32")[rng.integers(2)],
    }
    for operator in (vkdml.argmax, vkdml.argmin):
        for axis in (None, axes):
            try:
                indices, values = operator(host, axis, return_values=True, **options)
            except ValueError:  # nothing to choose from
                with pytest.raises(ValueError, match="empty sequence"):
                    operator(array, axis, return_values=True, **options)
                continue
            got = operator(array, axis, return_values=True, **options)
            assert same_bits(got.indices.numpy(), np.asarray(indices))
            assert same_bits(got.values.numpy(), np.asarray(values).reshape(got.values.shape))
            assert same_bits(operator(array, axis, **options).numpy(), np.asarray(indices))


@examples(200)
@given(st.data())
def test_assignment_writes_what_numpy_writes_and_nothing_else(data):
    shape = data.draw(views.shapes)
    dtype = element_type(data.draw(st.sampled_from(MOVED)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    bits = rng.integers(0, 255, (math.prod(shape) + 4) * dtype.itemsize, np.uint8)
    if dtype.name == "bool":
        bits &= 1
    host = bits.view(dtype)[: math.prod(shape)].reshape(shape).copy()
    array = vkdml.asarray(host)
    key = data.draw(views.keys(shape))
    window = views.view_of(host, key)
    value = np.resize(bits[::-1].copy().view(dtype), window.shape).astype(dtype)
    if window.ndim and data.draw(st.booleans()):
        value = value[:1]  # repeated along the first dimension
    on_device = data.draw(st.booleans())
    array[key] = vkdml.asarray(value) if on_device else value
    if host.size:
        raw = f"V{dtype.itemsize}"
        views.view_of(host.view(raw), key)[...] = value.view(raw)
    assert same_bits(array.numpy(), host)


def test_assigning_overlapping_windows_reads_before_it_writes():
    host = np.arange(60, dtype=np.int16).reshape(6, 10)
    array = vkdml.asarray(host)
    for target, source in [
        (np.s_[1:], np.s_[:-1]),
        (np.s_[:, :-1], np.s_[:, 1:]),
        (np.s_[...], np.s_[::-1, ::-1]),
        (np.s_[:5, :5], np.s_[1:, 1::2]),
    ]:
        host[target] = host[source].copy()
        array[target] = array[source]
        assert np.array_equal(array.numpy(), host)


def test_assignments_from_views_of_the_array_itself_are_numpys():
    host = np.arange(25, dtype=np.int32).reshape(5, 5)
    array = vkdml.asarray(host)
    for target, source in [
        (lambda a: a[...], lambda a: a.T),
        (lambda a: a[1:], lambda a: a[:-1]),
        (lambda a: a[::-1], lambda a: a[:, 2]),
        (lambda a: a.T, lambda a: a[::-1, ::-1]),
        (lambda a: a[:, 1:], lambda a: a[:1, 1:]),
        (lambda a: a[2], lambda a: a[1:2]),
        (lambda a: a[3], lambda a: a[None, None, 0]),
        (lambda a: a[1, 1:2], lambda a: a[4:5, 3:4]),
        (lambda a: a[4], lambda a: a[0, 0]),
    ]:
        wanted = source(host).copy()
        target(host)[...] = wanted
        target(array)[...] = source(array)
        assert np.array_equal(array.numpy(), host)
    array[0] = wanted = np.arange(5)[None]  # as NumPy, without the dimensions of size 1 in front
    host[0] = wanted
    assert np.array_equal(array.numpy(), host)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        array[0] = np.arange(10).reshape(2, 5)


def test_scalars_and_other_types_are_converted_on_the_host():
    array = vkdml.asarray(np.zeros((3, 4), np.float16))
    array[1, ::2] = 2
    array[:, 3] = [1, 2, 3]
    array[0] = np.arange(4.0)
    assert array.numpy().tolist() == [[0, 1, 2, 3], [2, 0, 2, 2], [0, 0, 0, 3]]
    with pytest.raises(
        TypeError, match="type float64 cannot be assigned to an array of float16 on the device"
    ):
        array[0] = vkdml.asarray(np.zeros(4))
    with pytest.raises(ValueError, match=r"assignment of \(4,\) float16: shape \(3,\) cannot be broadcast"):
        array[0] = [1, 2, 3]
    with pytest.raises(ValueError, match="repeats elements and is read-only"):
        array[:, :1].broadcast_to((3, 4))[0] = 1


def test_out_may_be_a_strided_view_and_nothing_else_is_written():
    rng = np.random.default_rng(4)
    host = rng.integers(0, 9, (7, 5, 6)).astype(np.int8)
    array = vkdml.asarray(host)
    for dtype in (np.int64, np.int32):
        poison = np.full((12, 20), 77, dtype)
        target = vkdml.asarray(poison)
        out = target[1:11:2, 18:6:-2].T
        assert vkdml.argmax(array, axis=0, out=out.T) is not None
        poison[1:11:2, 18:6:-2] = host.argmax(axis=0)
        assert np.array_equal(target.numpy(), poison)
    values = vkdml.asarray(np.full((5, 30), 77, np.int8))
    indices = vkdml.asarray(np.full((6, 5), 77, np.uint32))
    got = vkdml.argmin(array, axis=0, return_values=True, out=(indices.T, values[:, 3:27:4]))
    assert np.array_equal(indices.numpy().T, host.argmin(axis=0))
    assert np.array_equal(values[:, 3:27:4].numpy(), host.min(axis=0))
    assert (values.numpy()[:, 4:27:4] == 77).all()
    assert got.indices.shape == (5, 6)
    # An out that overlaps the input is filled from a copy.
    row = vkdml.asarray(np.arange(40, dtype=np.int64).reshape(8, 5))
    vkdml.argmin(row[:, ::-1], axis=1, out=row[:, 2])
    assert row[:, 2].numpy().tolist() == [4] * 8


def test_out_is_checked_before_anything_runs():
    array = vkdml.asarray(np.zeros((3, 4), np.float32))
    wrong = [
        (np.empty(3, np.int64), TypeError, "out must be a vkdml.Array of shape"),
        (vkdml.empty(4, np.int64), ValueError, r"out has shape \(4,\), the result has shape \(3,\)"),
        (vkdml.empty(3, np.float32), TypeError, "indices cannot be float32"),
        (vkdml.empty(1, np.int64).broadcast_to(3), ValueError, "repeats elements"),
        (vkdml.empty(3, np.int64, device=separate_device()), ValueError, "arrays on two devices"),
    ]
    for out, error, message in wrong:
        with pytest.raises(error, match=rf"argmax of \(3, 4\) float32: .*{message}"):
            vkdml.argmax(array, axis=1, out=out)
    pair = vkdml.empty((2, 3), np.int64)
    with pytest.raises(ValueError, match="overlap"):
        vkdml.argmax(
            vkdml.asarray(np.zeros((3, 4), np.int64)), axis=1, return_values=True, out=(pair[0], pair[0])
        )


def test_devices_do_not_mix():
    first, second = separate_device(), separate_device()
    a, b = vkdml.asarray([1, 3, 2], device=first), vkdml.asarray([0, 0, 0], device=second)
    named = rf"{first!r}.* and .*{second!r}".replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=named):
        vkdml.argmax(a, device=second)
    with pytest.raises(ValueError, match=named):
        a[...] = b
    with pytest.raises(ValueError, match=named):
        vkdml.slice1(a, (0,), (3,), (1,), device=second)
    assert vkdml.argmax(a, device=first).item() == 1
    assert a.to_device(second).device is second
    assert vkdml.asarray(a, device=second).numpy().tolist() == [1, 3, 2]
    assert vkdml.asarray(a) is a


def test_slice1_makes_a_compact_array_of_a_window(device):
    host = np.arange(7 * 9, dtype=np.uint16).reshape(7, 9)
    array = vkdml.asarray(host, device=device)
    got = vkdml.slice1(array[:, ::-1], (1, 2), (5, 6), (-2, 3), output_sizes=(2, 2))
    expected = vkdml.slice1(host[:, ::-1], (1, 2), (5, 6), (-2, 3), output_sizes=(2, 2))
    assert np.array_equal(got.numpy(), expected)
    assert got.strides == expected.strides
    out = vkdml.asarray(np.zeros((4, 3), np.uint16), device=device)
    assert vkdml.slice1(array, (1, 2), (5, 6), (-2, 3), output_sizes=(2, 2), out=out[::3, ::2]) is not None
    assert np.array_equal(out.numpy()[::3, ::2], host[1:6, 2:8][::-1][::2, ::3][:2])
    with pytest.raises(ValueError, match=r"slice1 of \(7, 9\) uint16: the window of dimension 0"):
        vkdml.slice1(array, (3, 0), (5, 9), (1, 1))


def test_repr_tells_shape_type_and_device_without_reading(device, monkeypatch):
    array = vkdml.empty((3, 4), np.float32, device=device)
    monkeypatch.setattr(vkdml.Array, "numpy", None)
    assert repr(array) == (
        f"<vkdml.Array shape=(3, 4) dtype=float32 device={device.info.index}: {device.info.name}>"
    )


def test_scalars_convert():
    array = vkdml.asarray(np.float32([[1, 7], [3, 2]]))
    index = array.argmax()
    assert (int(index), index.item(), index.shape, index.dtype) == (1, 1, (), np.dtype(np.int64))
    assert [10, 20, 30][index] == 20
    assert float(array[0, 1]) == 7.0
    assert bool(array[1, 1]) is True
    assert complex(array[1, 1]) == 2 + 0j
    assert array.tolist() == [[1, 7], [3, 2]]
    assert [row.tolist() for row in array] == array.tolist()
    assert len(array) == 2
    with pytest.raises(TypeError, match=r"int\(\) takes an array of one element, not one of shape \(2, 2\)"):
        int(array)
    with pytest.raises(ValueError, match="accepted is an array of one"):
        array.item()
    with pytest.raises(TypeError, match="integer arrays of no dimensions"):
        [1, 2][array[0, 0]]
    with pytest.raises(TypeError, match="does not compare"):
        _ = array == array
    with pytest.raises(TypeError, match="without dimensions"):
        len(index)


@pytest.mark.parametrize("value", [np.nan, np.inf, "x", None, 1j, 1 << 40, [1, "x"], object()])
def test_values_that_a_type_cannot_hold_are_refused_with_those_that_it_can(value):
    array = vkdml.asarray(np.arange(4, dtype=np.int16))
    with pytest.raises(
        (TypeError, ValueError, OverflowError), match=r"; accepted for int16 are numbers from -32768 to"
    ):
        array[1:3] = value
    assert array.tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="nested sequences of numbers, of which integers fit 64 bits"):
        vkdml.argmax([1 << 64, 1])
    with pytest.raises(ValueError, match="cannot convert float NaN to integer; accepted for int16 are numb"):
        vkdml.asarray([np.nan], np.int16)


def test_arrays_of_objects_are_assigned_and_converted_as_numpys():
    array = vkdml.zeros((2, 2))
    array[0, 0] = np.array([[1.5]], object)
    array[1] = np.array([2, 3.5], object)
    assert array.tolist() == [[1.5, 0], [2, 3.5]]
    with pytest.raises(TypeError, match=r"assignment of \(\) float32: .*; accepted for float32 are numbers"):
        array[0, 0] = np.array([{}])
    for refused, dtype in (([2**70], "i8"), (["x"], "f4")):
        with pytest.raises(
            (OverflowError, ValueError), match=r"asarray of \(1,\) .*; accepted for .* are numbers"
        ):
            vkdml.asarray(np.array(refused, object), dtype)


@pytest.mark.parametrize(
    ("dtype", "value", "held", "accepted"),
    [
        ("M8[D]", "noon", datetime.date(2026, 1, 31), "dates and times: numpy.datetime64, .*'2026-01-31'$"),
        ("M8[D]", 1.5, "2026-01-31", "dates and times"),
        ("m8[s]", "noon", datetime.timedelta(seconds=3), "durations: numpy.timedelta64, .* and integers$"),
        ([("a", "i4"), ("b", "f4")], (1, 2, 3), (1, 2), "tuples of the fields a, b$"),
    ],
)
def test_values_that_are_no_numbers_are_accepted_for_types_that_are_none(dtype, value, held, accepted):
    array = vkdml.asarray(np.zeros(2, dtype))
    with pytest.raises(ValueError, match=rf"; accepted for .* are {accepted}"):
        array[0] = value
    with pytest.raises(ValueError, match=rf"; accepted for .* are {accepted}"):
        vkdml.asarray([value], dtype)
    array[0] = held
    assert array[0].numpy() == np.array(held, dtype)


def test_elements_without_a_meaning_take_bytes():
    array = vkdml.asarray(np.zeros(2, "V4"))
    accepted = r"; accepted for \|V4 are objects of 4 bytes, such as bytes$"
    with pytest.raises(TypeError, match=accepted):
        array[0] = 5
    with pytest.raises(TypeError, match=accepted):
        vkdml.asarray([5], "V4")
    array[0] = b"abcd"
    assert array[0].numpy().tobytes() == b"abcd"


def test_a_reshaping_takes_a_shape_and_says_whether_to_copy():
    array = vkdml.zeros(4)
    with pytest.raises(TypeError, match=r"reshape\(\) takes a shape"):
        array.reshape()
    with pytest.raises(TypeError, match="copy is 'no'; accepted are True, False and None"):
        vkdml.array_api.reshape(array, (2, 2), copy="no")


def test_views_that_do_not_exist_are_refused_with_what_would_do():
    array = vkdml.empty((3, 4), np.int8)
    with pytest.raises(ValueError, match=r"cannot be seen as \(12,\) without a copy: a.copy\(\).reshape"):
        array.T.reshape(-1)
    with pytest.raises(ValueError, match="not one for each of 2 dimensions"):
        array.transpose((0,))
    with pytest.raises(ValueError, match="duplicate value in axis"):
        array.transpose(1, 1)
    with pytest.raises(np.exceptions.AxisError):
        array.moveaxis(2, 0)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        array.broadcast_to((3, 5))


def test_interchange_with_numpy_and_dlpack(device):
    host = np.arange(6, dtype=np.int32).reshape(2, 3)
    array = vkdml.from_dlpack(host)
    assert np.array_equal(array.numpy(), host)
    assert array.__dlpack_device__() == (7, device.info.index)
    with pytest.raises(BufferError, match=r"DLPack device \(7, 0\); accepted are tensors in host memory"):
        vkdml.from_dlpack(Foreign(array))
    with pytest.raises(TypeError, match="int does not offer DLPack"):
        vkdml.from_dlpack(3)
    assert np.asarray(array, np.float64).dtype == np.float64
    assert vkdml.asarray(array, dtype=np.uint8).dtype == np.uint8
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(copy=False)
    big_endian = vkdml.asarray(host.astype(">i4")[:, ::-1])
    assert big_endian.dtype.isnative
    assert np.array_equal(big_endian.numpy(), host[:, ::-1])
    assert np.array_equal(vkdml.asarray(memoryview(b"abc")).numpy(), [97, 98, 99])
    with pytest.raises(TypeError, match="Python objects"):
        vkdml.asarray([object()])
    with pytest.raises(TypeError, match=r"\(3 bytes\) cannot be moved"):
        vkdml.empty(2, "S3")
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert np.array_equal(np.from_dlpack(array, device="cpu"), host)


def test_dlpack_of_an_array_in_vulkans_own_memory_names_what_works_on_its_device(device, monkeypatch):
    array = vkdml.asarray([1.0, 2.0])
    for options in ({}, {"copy": True}):
        for vendor, with_cuda in ((device.info.vendor_id, True), (0, False)):
            monkeypatch.setattr(device_memory, "NVIDIA", vendor)
            with pytest.raises(BufferError, match="memory that no other library can read") as refused:
                array.__dlpack__(**options)
            said = str(refused.value)
            assert "torch.from_numpy(a.numpy())" in said
            assert "torch.from_dlpack(a.__dlpack__(dl_device=(1, 0)))" in said
            assert ('vkdml.asarray(a, share="cuda")' in said) == with_cuda


class Foreign:
    """A tensor that lies on some other device."""

    def __init__(self, array: vkdml.Array) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("must not be asked for")


def test_the_array_api_subset(device):
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7
    array = vkdml.asarray(host, device=device)
    xp = array.__array_namespace__(api_version="2023.12")
    assert xp is vkdml.array_api
    with pytest.raises(ValueError, match="accepted are 2021"):
        array.__array_namespace__(api_version="1999.1")
    assert np.array_equal(xp.argmax(array, axis=1, keepdims=True).numpy(), host.argmax(axis=1, keepdims=True))
    assert int(xp.argmin(array)) == host.argmin()
    assert np.array_equal(xp.permute_dims(array, (2, 0, 1)).numpy(), host.transpose(2, 0, 1))
    assert np.array_equal(xp.flip(array, axis=(0, 2)).numpy(), np.flip(host, (0, 2)))
    assert np.array_equal(xp.moveaxis(array, 0, 2).numpy(), np.moveaxis(host, 0, 2))
    assert xp.expand_dims(array, axis=-1).shape == (2, 3, 4, 1)
    assert xp.squeeze(xp.expand_dims(array, axis=1), 1).shape == (2, 3, 4)
    assert np.array_equal(xp.reshape(array.T, (-1,)).numpy(), host.T.reshape(-1))
    with pytest.raises(ValueError, match="without a copy"):
        xp.reshape(array.T, (-1,), copy=False)
    with pytest.raises(ValueError, match="dimension 1 has size 3"):
        xp.squeeze(array, 1)
    copied = xp.asarray(array, copy=True)
    copied[...] = 0
    assert np.array_equal(array.numpy(), host)
    assert xp.broadcast_to(array[0, 0], (5, 4)).numpy().tolist() == [host[0, 0].tolist()] * 5
    with pytest.raises(ValueError, match="accepted are copy=None and copy=True"):
        xp.asarray(host, copy=False)
    for name in xp.__all__:
        assert hasattr(xp, name)


def test_only_python_s_numbers_become_float32_in_the_array_api(device):
    xp = vkdml.array_api
    great, small = np.array(1e300), np.float32(0.1)
    on_device = vkdml.asarray(great)
    for keeping in (
        great, on_device, np.float64(1e300), [great], [on_device, on_device],
        [np.array([1e300]), on_device[None]], ([1.5], (np.float64(1e300),)), [1, on_device],
        [small, great], [[1.5], np.array([1e300])],
        flat_array("d", [1e300]), [flat_array("d", [1e300])],
    ):  # fmt: skip
        wanted = np.asarray(keeping)
        made = xp.asarray(keeping)
        assert (made.dtype, made.tolist()) == (np.float64, wanted.tolist()), keeping
        filled = xp.full((3, *wanted.shape), keeping)
        assert filled.dtype == np.float64
        assert np.array_equal(filled, np.full(filled.shape, wanted))
    assert xp.asarray([np.int64(2**53 + 1), 0.5]).dtype == np.float64
    assert xp.asarray([1j, great]).dtype == np.complex128
    for becoming in (1.5, [1.5, 2], [[0.1], (True,)], [small, 0.1], [np.array([1.5], np.float16), [0.1]], []):
        assert xp.asarray(becoming).dtype == np.float32, becoming
    for becoming in (1.5, [1.5, 2, 3], [small, 0.1, 1]):
        assert xp.full((2, 3), becoming).dtype == np.float32, becoming
    assert xp.asarray([1j, small]).dtype == xp.full(2, 1j).dtype == np.complex64
    assert xp.full(2, small).dtype == np.float32
    assert xp.full(2, 3).dtype == np.int64


def test_the_array_api_fills_with_no_masked_element(device):
    xp = vkdml.array_api
    for value in (np.ma.masked, np.ma.array(2.0, mask=True), np.ma.array([1, 2, 3], mask=[0, 1, 0])):
        for call in (lambda v: xp.full((2, 3), v), lambda v: xp.full_like(vkdml.zeros((2, 3)), v)):
            with pytest.raises(TypeError, match=r"full of .*: the mask of this Masked.* hides elements"):
                call(value)
    assert xp.full((2, 3), np.ma.array([1, 2, 3])).tolist() == [[1, 2, 3]] * 2


def test_the_array_api_refuses_arrays_of_other_kinds():
    xp = vkdml.array_api
    host = np.zeros((3, 2))
    parts = vkdml.ShardedArray([vkdml.asarray(host)] * 2)
    for x, named in ((host, "ndarray"), (parts, "ShardedArray"), ([1, 2], "list")):
        for call in (
            xp.empty_like, xp.zeros_like, xp.ones_like, xp.expand_dims, xp.flip, xp.unstack,
            xp.broadcast_arrays, xp.argmax, xp.argmin,
            lambda x: xp.full_like(x, 1), lambda x: xp.take(x, xp.asarray([0]), axis=0),
            lambda x: xp.take_along_axis(x, xp.asarray([[0]])), lambda x: xp.broadcast_to(x, (2, 3, 2)),
            lambda x: xp.moveaxis(x, 0, 1), lambda x: xp.permute_dims(x, (1, 0)),
            lambda x: xp.reshape(x, (-1,)), lambda x: xp.squeeze(x, 0),
        ):  # fmt: skip
            with pytest.raises(TypeError, match=f"x is an? {named}; accepted: a vkdml.Array"):
                call(x)


def test_axes_that_an_array_does_not_have_are_refused():
    xp = vkdml.array_api
    a, scalar = vkdml.zeros((2, 3)), vkdml.asarray(3)
    for call in (lambda: xp.expand_dims(a, axis=None), lambda: xp.squeeze(a[:1, :1], axis=None)):
        with pytest.raises(TypeError, match="axis must be an integer or a sequence of integers, not None"):
            call()
    for axes in (None, 0, {0, 1}, "10"):
        with pytest.raises(TypeError, match=r"axes is .*; accepted: a sequence of integers"):
            xp.permute_dims(a, axes)
    for call in (lambda: xp.permute_dims(a, ()), lambda: a.transpose(()), lambda: np.transpose(a, ())):
        with pytest.raises(ValueError, match=r"axes \(\) are not one for each of 2 dimensions"):
            call()
    assert a.transpose().shape == a.transpose(None).shape == np.transpose(a).shape == (3, 2)
    assert scalar.transpose(()).shape == xp.permute_dims(scalar, ()).shape == xp.flip(scalar).shape == ()
    assert xp.expand_dims(a, axis=[0, -1]).shape == (1, 2, 3, 1)
    for call in (
        lambda: xp.permute_dims(scalar, (3, 4)),
        lambda: xp.unstack(scalar),
        lambda: xp.take(scalar, [0], axis=0),
        lambda: xp.take_along_axis(scalar, xp.asarray([0]), axis=0),
        lambda: xp.flip(scalar, axis=0),
        lambda: xp.squeeze(scalar, axis=0),
        lambda: np.flip(scalar, 0),
    ):
        with pytest.raises(np.exceptions.AxisError, match="for array of dimension 0"):
            call()
    assert np.take(scalar, np.array([0]), axis=0).tolist() == [3]


def test_empty_arrays():
    array = vkdml.asarray(np.empty((0, 3), np.int32))
    assert array.numpy().shape == (0, 3)
    assert vkdml.argmax(array, axis=1).numpy().shape == (0,)
    with pytest.raises(ValueError, match="attempt to get argmax of an empty sequence"):
        vkdml.argmax(array)
    array[...] = 3
    assert array.copy().T.reshape(0).shape == (0,)


def test_memory_returns_with_the_last_view():
    device = separate_device()
    array = vkdml.asarray(np.zeros((64, 1024), np.float32), device=device)
    held = device.memory()["used"]
    assert held >= array.nbytes
    view = array[3:, ::2].T
    del array
    gc.collect()
    assert device.memory()["used"] == held
    assert int(view.argmin()) == 0
    del view
    memory = device.memory()
    assert memory["used"] < 64 * 1024 * 4
    assert memory["pooled"] >= 64 * 1024 * 4
    assert memory["budget"] > 0
    again = vkdml.empty((64, 1024), np.float32, device=device)
    assert device.memory()["pooled"] < memory["pooled"]
    del again
    assert device.trim() >= 64 * 1024 * 4
    assert device.memory() | {"budget": 0, "limit": 0} == {"used": 0, "pooled": 0, "limit": 0, "budget": 0}


def test_the_pool_keeps_what_was_used_last(device):
    device = separate_device()
    limit = device.memory()["limit"]
    size = min(limit // 3, device.limits.max_storage_buffer_range // 2)
    if limit > 8 << 30:
        pytest.skip("a pool as large as this one would take too long to fill")
    count = limit // size + 2
    arrays = [vkdml.empty(size, np.uint8, device=device) for _ in range(min(count, 3))]
    del arrays
    assert 0 < device.memory()["pooled"] <= limit


def test_the_same_call_on_other_arrays_builds_nothing(device):
    arrays = [vkdml.asarray(np.roll(np.arange(999), n), device=device) for n in range(5)]
    vkdml.argmax(arrays[0])
    vkdml._native.inject_failure(0)
    for n, array in enumerate(arrays):
        assert int(vkdml.argmax(array)) == (998 + n) % 999
    calls = vkdml._native.fallible_calls()
    for n, array in enumerate(arrays):
        assert int(vkdml.argmax(array)) == (998 + n) % 999
    # A recording: reset, begin, one descriptor set, end, submit; no pipeline, no buffer. On lavapipe also a
    # view of the input for each of up to three widths of texels.
    assert vkdml._native.fallible_calls() - calls <= (5 + 3) * len(arrays)


def test_a_known_call_reads_where_the_view_lies(device):
    host = np.random.default_rng(3).integers(-9, 9, (7, 40)).astype(np.int16)
    array = vkdml.asarray(host, device=device)
    for _ in range(2):
        for row in range(7):
            for cut in (slice(None), slice(5, 25), slice(25, 5, -1), slice(None, None, -3)):
                assert int(array[row, cut].argmax()) == host[row, cut].argmax()
                assert vkdml.argmin(array[row:, cut], 0).tolist() == host[row:, cut].argmin(0).tolist()
        indices, values = array[:, ::-2].argmin((0, 1), return_values=True, dtype="uint32")
        every_second = host[:, ::-2]
        assert (int(indices), int(values)) == (every_second.argmin(), every_second.min())
        assert indices.dtype == np.uint32


def test_a_known_call_gives_each_caller_memory_of_its_own(device):
    arrays = [vkdml.asarray(np.roll(np.arange(99), n), device=device) for n in range(9)]
    results = [array.argmax() for array in arrays]
    assert [int(result) for result in results] == [(98 + n) % 99 for n in range(9)]


@pytest.mark.parametrize(
    ("known", "refused"),
    [
        ({"axis": 1}, {"axis": True}),
        ({"axis": (1,)}, {"axis": (True,)}),
        ({"axis": 0}, {"axis": 0.0}),
        ({"keepdims": False}, {"keepdims": 0.0}),
        ({"return_values": False}, {"return_values": 0.0}),
        ({"direction": "increasing"}, {"direction": ["increasing"]}),
    ],
)
def test_what_equals_a_known_argument_is_checked_all_the_same(device, known, refused):
    array = vkdml.asarray(np.zeros((2, 3), np.int8), device=device)
    for _ in range(2):
        array.argmax(**known)
    with pytest.raises((TypeError, ValueError)):
        array.argmax(**refused)


def test_a_known_call_in_many_threads(device):
    rows = np.random.default_rng(4).integers(0, 1000, (16, 300))
    array = vkdml.asarray(rows, device=device)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: int(array[n % 16].argmax()), range(200)))
    assert found == [rows[n % 16].argmax() for n in range(200)]


def test_a_known_call_that_is_interrupted_harms_nothing(device, monkeypatch):
    host = np.random.default_rng(5).integers(0, 99, (4, 5000))
    array = vkdml.asarray(host, device=device)
    for row in range(4):
        array[row].argmax()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:  # while the device computes
        patched.setattr(on_device, "array_in", interrupted)
        with pytest.raises(KeyboardInterrupt):
            array[0].argmax()
    for row in range(4):
        assert int(array[row].argmax()) == host[row].argmax()


def test_a_known_call_on_a_closed_device_is_refused():
    device = separate_device()
    array = vkdml.asarray(np.arange(100), device=device)
    result = array.argmax()
    assert int(array.argmax()) == int(result) == 99
    device.close()
    with pytest.raises(vkdml.DeviceError, match=r"argmax of \(100,\) int64: device .* was closed"):
        array.argmax()
    with pytest.raises(vkdml.DeviceError, match="was closed"):
        int(result)


def test_parts_of_an_array_share_their_plan(device):
    array = vkdml.asarray(np.random.default_rng(0).integers(0, 99, (40, 512)).astype(np.int32), device=device)
    host = array.numpy()
    device.executions.known_calls.clear()
    for row in range(40):
        assert int(vkdml.argmin(array[row])) == host[row].argmin()
    assert len(device.executions.known_calls) == 1


def test_copies_of_windows_are_known_by_the_view_and_the_window(device):
    host = np.random.default_rng(0).integers(0, 1 << 30, (30, 40)).astype(np.int32)
    array = vkdml.asarray(host, device=device)
    device.executions.known_calls.clear()
    views = [(array, host), (array[3:, 1:], host[3:, 1:]), (array.T, host.T), (array[::-1], host[::-1])]
    first = {}
    for _ in range(3):
        for number, (view, expected) in enumerate(views):
            rows, columns = view.shape
            whole = vkdml.slice1(view, (0, 0), view.shape, (1, 1))
            assert (whole.numpy() == expected).all()
            part = vkdml.slice1(view, (1, 2), (rows - 1, columns - 2), (-2, 3))
            assert (part.numpy() == expected[:0:-2, 2::3]).all()
            few = vkdml.slice1(view, (1, 2), (rows - 1, columns - 2), (-2, 3), output_sizes=(1, 4))
            assert (few.numpy() == expected[:0:-2, 2::3][:1, :4]).all()
            first.setdefault(number, part)
    assert len(device.executions.known_calls) == 3 * len(views)
    # Each call has a result of its own.
    part = vkdml.slice1(array, (1, 2), (29, 38), (-2, 3))
    part[...] = 0
    assert (first[0].numpy() == host[:0:-2, 2::3]).all()
    assert (vkdml.slice1(array, (1, 2), (29, 38), (-2, 3)).numpy() == host[:0:-2, 2::3]).all()


def test_a_known_copy_does_not_excuse_bad_arguments(device):
    array = vkdml.asarray(np.arange(12, dtype=np.uint8), device=device)
    for _ in range(2):
        assert vkdml.slice1(array, 1, 4, 1).tolist() == [1, 2, 3, 4]
        assert vkdml.slice1(array, (1,), (4,), (1,)).tolist() == [1, 2, 3, 4]
        assert vkdml.slice1(array, [1], np.array([4]), [1]).tolist() == [1, 2, 3, 4]
        assert vkdml.slice1(array, np.int64(1), 4, 1).tolist() == [1, 2, 3, 4]
        for bad in ((1.0, 4, 1), ((1,), (4,), (1.0,)), ((1,), (4.0,), (1,))):
            with pytest.raises(TypeError):
                vkdml.slice1(array, *bad)
        with pytest.raises(ValueError, match="not inside"):
            vkdml.slice1(array[:4], 1, 4, 1)
    out = vkdml.empty(4, np.uint8, device=device)
    assert vkdml.slice1(array, 1, 4, 1, out=out) is out
    assert vkdml.slice1(array, 1, 0, 1).tolist() == []


def test_a_known_copy_on_a_closed_device_is_refused():
    device = separate_device()
    array = vkdml.asarray(np.arange(100), device=device)
    for _ in range(2):
        assert vkdml.slice1(array, 90, 10, -3).tolist() == [99, 96, 93, 90]
    device.close()
    with pytest.raises(vkdml.DeviceError, match=r"slice1 of \(100,\) int64: device .* was closed"):
        vkdml.slice1(array, 90, 10, -3)
