"""asarray, empty, zeros and from_dlpack: their arguments' order, copies, limits, and what is refused."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import processes
import pytest
from separate import separate_device

import vkdml


def test_the_type_comes_second_and_the_device_by_name(device):
    assert vkdml.asarray([1, 2], "float16").dtype == np.float16
    assert vkdml.asarray([1, 2], np.int8, device=device).device is device
    assert vkdml.empty((2, 3)).dtype == np.float32
    assert vkdml.empty(2, "int8").dtype == np.int8
    assert vkdml.empty(2, None).dtype == np.float32
    for make in (vkdml.asarray, vkdml.empty, vkdml.zeros):
        with pytest.raises(TypeError, match="positional"):
            make(3, "int8", device)
    for wrong in (device, "nvidia", 0, object()):
        with pytest.raises(TypeError, match=r"is no element type .* A device is named by device="):
            vkdml.asarray([1, 2], wrong)
    with pytest.raises(TypeError, match="positional"):
        vkdml.from_dlpack(np.zeros(3), device)


def test_large_integers_keep_their_value():
    assert vkdml.asarray([2**63, 1], "uint64").tolist() == [2**63, 1]
    assert vkdml.asarray([2**62 + 1, -1], "int64").tolist() == [2**62 + 1, -1]


def test_zeros_are_zero_where_there_was_something(device):
    for dtype in ("int8", "float64", "complex128", "S2", "bool"):
        for shape in (5000, (70, 30), (), (0, 3)):
            used = vkdml.empty(shape, dtype, device=device)
            used[...] = np.ones((), dtype)
            del used
            made = vkdml.zeros(shape, dtype, device=device)
            assert made.numpy().tobytes() == np.zeros(shape, dtype).tobytes()
    assert vkdml.zeros(3).dtype == np.float32
    assert vkdml.zeros(2, "2i4").numpy().tolist() == [[0, 0], [0, 0]]


def test_small_arrays_for_elements_become_dimensions_as_in_numpy(device):
    separate = separate_device()
    for dtype in ("2i4", "(2,3)i4", ">2f2", np.dtype((np.dtype("2i1"), (3,)))):
        for x in (5, [1, 2], np.array([1.5, 2]), [[1, 2], [3, 4]], np.int8(3)):
            expected = np.asarray(x, dtype)
            made = [
                vkdml.asarray(x, dtype),
                vkdml.array_api.asarray(x, dtype=dtype),
                vkdml.asarray(vkdml.asarray(x), dtype),
            ]
            if expected.ndim > 2:
                made.append(vkdml.asarray(x, dtype, device=[device, separate]))
                made.append(vkdml.asarray(vkdml.asarray(x, device=[device, separate]), dtype))
            for array in made:
                assert array.dtype == expected.dtype.newbyteorder("=")
                assert np.array_equal(array.numpy(), expected), (x, dtype)
        assert vkdml.empty(2, dtype).shape == np.empty(2, dtype).shape
    with pytest.raises(TypeError, match=r"type \|V3 \(3 bytes\) cannot be moved"):
        vkdml.empty(2, "2V3")


def test_texts_without_a_length_and_dates_without_a_unit_take_them_from_the_elements(device):
    dates = ["2020-01-01", "1999"]
    for x, dtype in [
        (["abcd", "d"], "S"),
        (["abcd", "d"], str),
        ([b"abcd", b"d"], "U"),
        (np.array(["abcd", "d"]), bytes),
        (["äb", ""], "2U"),
        ([1, 2], "S"),
        ("ab", "U"),
        ([], "S"),
        (dates, "M8"),
        (np.array(dates, "M8[D]"), ">M8"),
    ]:
        expected = np.asarray(x, dtype)
        made = [vkdml.asarray(x, dtype), vkdml.array_api.asarray(x, dtype=dtype)]
        if expected.ndim:
            made.append(vkdml.asarray(x, dtype, device=[device, separate_device()]))
        for array in made:
            assert array.dtype == expected.dtype.newbyteorder("=")
            assert array.tolist() == expected.tolist()
    for make, reference in ((vkdml.empty, np.empty), (vkdml.zeros, np.zeros)):
        for dtype in ("U", bytes, "2S"):
            made, expected = make(2, dtype), reference(2, dtype)
            assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    assert vkdml.array_api.full(2, "abc", dtype="S").tolist() == [b"a", b"a"]
    for x in (np.array([1, 2]), ["abcde"]):
        with pytest.raises(TypeError, match=r"asarray .*<U(21|5) \((84|20) bytes\) cannot be moved"):
            vkdml.asarray(x, str)


def test_small_floats_need_their_package_installed_but_not_imported(monkeypatch):
    made = "print(vkdml.asarray([1, 2], 'bfloat16').dtype, vkdml.empty(2, 'float8_e5m2').dtype)"
    assert processes.printed(made) == "bfloat16 float8_e5m2\n"
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for make in (vkdml.asarray, vkdml.empty, vkdml.zeros):
        with pytest.raises(
            TypeError, match="elements of type bfloat16 need the package ml_dtypes: pip install"
        ):
            make([1, 2], "bfloat16")


def test_copy_true_always_copies_and_false_never_does():
    host = np.arange(3, dtype=np.float32)
    a = vkdml.asarray(host)
    s = vkdml.ShardedArray([a, a])
    xp = vkdml.array_api
    for make in (vkdml.asarray, xp.asarray, vkdml.from_dlpack):
        assert make(a) is a
        assert make(a, copy=False) is a
        copied = make(a, copy=True)
        copied[...] = 9
        assert a.tolist() == host.tolist()
        with pytest.raises(ValueError, match="copy=False, but a copy is needed"):
            make(host, copy=False)
    assert vkdml.asarray(s) is s
    assert vkdml.asarray(s, copy=False) is s
    copied = vkdml.asarray(s, copy=True)
    copied[...] = 9
    assert s.tolist() == [0, 1, 2, 0, 1, 2]
    for x in (a, s):
        with pytest.raises(ValueError, match="copy=False, but a copy is needed"):
            vkdml.asarray(x, "float64", copy=False)
        assert vkdml.asarray(x, "<f4", copy=False) is x
        converted = vkdml.asarray(x, "float64")
        assert type(converted) is type(x)
        assert converted.dtype == np.float64
        assert converted.tolist() == x.tolist()
    assert vkdml.asarray(s, device=a.device).tolist() == s.tolist()
    with pytest.raises(TypeError, match="copy must be True, False or None, not 'yes'"):
        vkdml.asarray(host, copy="yes")


def test_the_array_api_makes_arrays_on_one_device():
    xp, sharded = vkdml.array_api, vkdml.asarray([1, 2], device=[vkdml.default_device()])
    with pytest.raises(TypeError, match=r"a device is a vkdml\.Device .*, not \["):
        xp.asarray([1], device=[vkdml.default_device()])
    with pytest.raises(TypeError, match=r"x is a ShardedArray; accepted: a vkdml\.Array"):
        xp.asarray(sharded)
    assert xp.asarray(vkdml.asarray([1]), device=vkdml.default_device().info.uuid).tolist() == [1]


def test_the_array_api_keeps_the_standards_signatures():
    xp = vkdml.array_api
    assert xp.empty((2,), dtype=xp.int8).dtype == np.int8
    assert xp.zeros((2,), dtype=xp.uint64).tolist() == [0, 0]
    assert xp.zeros(2).dtype == np.float32
    with pytest.raises(TypeError, match="positional"):
        xp.empty((2,), xp.int8)


def test_arrays_like_another_take_from_it_what_is_not_given(device):
    xp = vkdml.array_api
    like = vkdml.zeros(2, "u1", device=separate_device())
    for make in (xp.empty_like, xp.zeros_like, xp.ones_like, lambda x, **given: xp.full_like(x, 7, **given)):
        assert (make(like).device, make(like).dtype) == (like.device, np.uint8)
        made = make(like, dtype=xp.int16, device=device.info.index)
        assert (made.device, made.dtype) == (device, np.int16)


def test_numbers_that_do_not_fit_are_refused_as_by_numpy():
    xp = vkdml.array_api
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before, NumPy warned and wrapped
        with pytest.raises(OverflowError, match=r"assignment of \(2,\) int8: .* 300 out of bounds"):
            xp.full(2, 300, dtype=xp.int8)
        with pytest.raises(OverflowError, match=r"assignment of \(1,\) uint8: .* -1 out of bounds"):
            xp.full_like(vkdml.zeros(1, "u1"), -1)
        for make in (lambda: vkdml.zeros(2, "i1"), lambda: vkdml.ShardedArray([vkdml.zeros(1, "i1")] * 2)):
            made = make()
            with pytest.raises(OverflowError, match="300 out of bounds"):
                made[:] = np.int64(300)
            assert made.numpy().tolist() == [0, 0]
    for value, dtype, error in [
        (1j, "f4", TypeError),
        (1j, "u8", TypeError),
        (float("nan"), "i4", ValueError),
        (np.float64("nan"), "i8", ValueError),
        (np.datetime64("2020"), "i8", TypeError),
    ]:
        made = vkdml.zeros(2, dtype)
        with pytest.raises(error):
            made[0] = value
        assert made.tolist() == [0, 0]
        with pytest.raises(error):
            vkdml.ShardedArray([vkdml.zeros(2, dtype)])[:] = value
        if not isinstance(value, np.generic):
            with pytest.raises(error):
                vkdml.asarray(value, dtype)
            with pytest.raises(error):
                xp.full(2, value, dtype=dtype)
    made = vkdml.zeros(3, "f4")
    made[0], made[1], made[2] = np.float64(1.5), np.int64(2), np.bool_(True)
    assert made.tolist() == [1.5, 2, 1]
    for value in (True, 7, 2.5, np.int64(300), vkdml.asarray(3.5)):
        assert xp.full(2, value, dtype=xp.int8).tolist() == np.full(2, np.asarray(value), np.int8).tolist()


def test_what_numpy_makes_no_array_of_is_named_with_the_function(device):
    for options in ({}, {"device": [device]}):
        with pytest.raises(ValueError, match=r"^asarray of list: NumPy makes no array .* at each depth$"):
            vkdml.asarray([[1, 2], [3]], **options)
        with pytest.raises(TypeError, match=r"^asarray of object: NumPy makes an array of Python objects"):
            vkdml.asarray(object(), **options)
        with pytest.raises(OverflowError, match=r"^asarray of list: .* for int32 are numbers from -2"):
            vkdml.asarray([2**70], "i4", **options)
        with pytest.raises(OverflowError, match=r"^asarray of list: .* for float64 are numbers that it can"):
            vkdml.asarray([10**400], "f8", **options)


def test_limits_are_named_before_anything_is_made(device):
    limit = device.limits.max_storage_buffer_range
    for elements in (2**62, 2**70, 2 * limit, limit + 1):
        with pytest.raises(MemoryError, match=rf"{elements} bytes: .* limit for one buffer is {limit} bytes"):
            vkdml.empty((elements,), "int8")
    for size, dtype, nbytes in (
        (1 << 40, None, 1 << 40),
        (1 << 40, "float64", 8 << 40),
        (limit, "int16", 2 * limit),
    ):
        wide = np.broadcast_to(np.uint8(1), (size,))
        with pytest.raises(
            MemoryError, match=rf"asarray .*: an array of \({size},\) .* {nbytes} bytes: .*{limit}"
        ):
            vkdml.asarray(wide, dtype)
        a = vkdml.empty(3, "int8")
        with pytest.raises(ValueError, match="cannot be broadcast"):
            a[...] = wide


def test_shapes_that_no_numpy_array_has_are_refused(device):
    most = vkdml.array_api.__array_namespace_info__().capabilities()["max dimensions"]
    widest = np.iinfo(np.intp).max // 4
    xp = vkdml.array_api
    for make in (vkdml.empty, vkdml.zeros, xp.empty, xp.zeros, xp.ones):
        for shape in ((1,) * most, (0, widest), (widest, 0)):
            assert make(shape).numpy().shape == shape
        with pytest.raises(ValueError, match=rf"a shape of 70 dimensions; accepted are at most {most}, as"):
            make((1,) * 70)
        for shape in ((0, 2**62, 4), (0, widest + 1), (2**70, 0)):
            with pytest.raises(ValueError, match=r"no elements, has \d+ bytes without its zeros; accepted"):
                make(shape)
    assert vkdml.empty((1,) * most)[None].ndim == most + 1, "views of a device are not NumPy's"


def test_views_that_no_numpy_array_can_hold_are_refused_where_they_go_to_the_host(device):
    most = vkdml.array_api.__array_namespace_info__().capabilities()["max dimensions"]
    a = vkdml.zeros((2, 3))
    for view in (a[(None,) * most], a.reshape((1,) * most + (6,)), a.broadcast_to((1,) * most + (2, 3))):
        for read in (vkdml.Array.numpy, vkdml.Array.tolist, np.asarray, pickle.dumps):
            with pytest.raises(ValueError, match=rf"a shape of {view.ndim} dimensions; accepted are at most"):
                read(view)
        assert view.reshape(6).tolist() == [0] * 6
    none = vkdml.empty((0, 1))
    for view in (none.broadcast_to((0, 2**62)), none.reshape((0, 2**31, 2**31))):
        for read in (vkdml.Array.numpy, lambda view: vkdml.ShardedArray([view]).numpy()):
            with pytest.raises(ValueError, match=r"no elements, has \d+ bytes without its zeros; accepted"):
                read(view)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([object()], "Python objects"),
        (np.array([1, None]), "Python objects"),
        (np.zeros(2, "V3"), r"\(3 bytes\) cannot be moved"),
        (np.ma.array([1, 5, 3], mask=[0, 1, 0]), "mask"),
    ],
)
def test_elements_that_cannot_lie_on_a_device_are_named(x, message):
    with pytest.raises(TypeError, match=message):
        vkdml.asarray(x)
    a = vkdml.zeros(3)
    if "mask" in message:
        with pytest.raises(TypeError, match=message):
            a[...] = x


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has them")
def test_strings_of_any_length_are_named():
    strings = np.dtypes.StringDType()
    for does in (
        lambda: vkdml.asarray(np.array(["a", "b"], strings)),
        lambda: vkdml.asarray(["a"], strings),
        lambda: vkdml.empty(3, strings),
        lambda: vkdml.zeros(3, strings),
    ):
        with pytest.raises(TypeError, match="StringDType"):
            does()


def test_an_array_stays_on_its_device_when_converted():
    a = vkdml.asarray([1, 2, 3])
    assert vkdml.asarray(a, "int8").device is a.device
    assert vkdml.asarray(a, device=a.device) is a


def test_the_value_of_a_number_plays_no_part_in_the_type_of_a_result():
    """NumPy 1 looks at values, NumPy 2 does not."""
    xp = vkdml.array_api
    x = xp.asarray([1], dtype=xp.int8)
    for given, want in (
        ((xp.int8, 1000), np.int8),
        ((xp.uint8, -1), np.uint8),
        ((xp.float32, 1e300), np.float32),
        ((xp.float32, 10**20), np.float32),
        ((xp.float32, 1j), np.complex64),
        ((xp.float64, 1j), np.complex128),
        ((xp.int8, 1.5), np.float64),
        ((xp.bool, 1), np.int64),
        ((xp.bool, True), np.bool_),
        ((x, np.int64(1)), np.int64),
        ((x, 300, xp.uint8), np.int16),
        ((1, 2.5), np.float64),
        ((True,), np.bool_),
        (("int16", xp.int32), np.int32),
    ):
        assert xp.result_type(*given) == want, given
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
            plain = tuple(one.dtype if one is x else one for one in given)
            assert np.result_type(*plain) == want, given
