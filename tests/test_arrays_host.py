"""What a user's object means as a host array: what carries only numbers is taken, all else is named."""

from __future__ import annotations

import ctypes
import math
import sys
from collections import UserList, deque
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
import polars
import pytest

from vkdml.arrays import element_types
from vkdml.arrays.assignment import assigned
from vkdml.arrays.host import as_host_array

MASKED = np.ma.array([1, 5, 3], mask=[False, True, False])


class Converts:
    """Hands an array to NumPy, as array-likes of other libraries do."""

    def __init__(self, array: object, **attributes: object) -> None:
        self._array = array
        self.__dict__.update(attributes)

    def __array__(self, dtype: object = None, copy: object = None) -> object:
        return self._array


class Interface:
    """Offers elements by NumPy's protocol, whose mask is True where an element counts."""

    def __init__(self, **masks: object) -> None:
        self._array = np.int64([1, 5, 3])
        self.__array_interface__ = {**self._array.__array_interface__, **masks}


class ExtensionType:
    """pandas' nullable types are no NumPy dtypes."""


class Categories:
    categories = ("low", "high")


class OfNumPyType:
    """As pandas' sparse types."""

    subtype = np.dtype(float)


class Columns(Converts):
    """A table whose columns have types of their own."""

    loc = property(lambda self: self)

    def __getitem__(self, chosen: tuple[slice, list[bool]]) -> Columns:
        return Columns(None, na=[self.na[column] for column, kept in enumerate(chosen[1]) if kept])

    def isna(self) -> list[bool]:
        return self.na


class Nested(Converts):
    """As polars' columns of arrays and structures: their own count of nulls leaves out what is within."""

    def __init__(self, *within: object, shape: tuple[int, ...] | None = None) -> None:
        kind = SimpleNamespace(inner=within[0], shape=shape) if shape else SimpleNamespace(fields=[])
        super().__init__(np.arange(3), null_count=lambda: 0, dtype=kind)
        if shape:
            self.reshape = lambda _: within[0]
        else:
            self.struct = SimpleNamespace(unnest=lambda: SimpleNamespace(get_columns=lambda: list(within)))


NAN = np.array([1, np.nan, 3])
NULLS = Converts(NAN, null_count=lambda: 2)


class ArrowDtype:
    """As pandas' type of Arrow's elements."""


class Lends:
    def __arrow_array__(self) -> Converts:
        return NULLS


class HoldsArrow(Converts):
    """As pandas' columns of Arrow's elements."""

    array = Lends()


class RunEndEncodedArray(Converts):
    """As Arrow's, whose nulls its package decodes."""


RunEndEncodedArray.__module__ = "arrow_double.lib"
sys.modules["arrow_double"] = ModuleType("arrow_double")
sys.modules["arrow_double.compute"] = ModuleType("arrow_double.compute")
sys.modules["arrow_double.compute"].run_end_decode = lambda x: NULLS  # type: ignore[attr-defined]
REFUSED = {
    "a masked array": (MASKED, "the mask of this MaskedArray hides elements (1 of them)"),
    "a masked scalar": (np.ma.masked, "the mask of this MaskedConstant"),
    "a masked array of no dimensions": (np.ma.array(3, mask=True), "(1 of them)"),
    "a masked record": (np.ma.array([(1, 2)], dtype="i4,i4", mask=[(1, 0)]), "(1 of them)"),
    "a masked array in a list": ([np.arange(3), MASKED], "(1 of them)"),
    "a masked scalar in a tuple of tuples": (((1, np.ma.masked), (1, 2)), "(1 of them)"),
    "what converts to a masked array": (Converts(MASKED), "the mask of this MaskedArray"),
    "a setting called mask, and a masked array": (
        Converts(MASKED, shape=(3,), mask=True),
        "the mask of this MaskedArray",
    ),
    "a masked array in a sequence of another type": (deque([np.arange(3), MASKED]), "(1 of them)"),
    "a masked array in a user's sequence": ([UserList([np.arange(3), MASKED])], "(1 of them)"),
    "what converts to a masked array, in a list": ([np.arange(3), Converts(MASKED)], "of this MaskedArray"),
    "a mask beside the array": (
        Converts(np.arange(3), shape=(3,), mask=np.array([True, True, False])),
        "the mask of this Converts hides elements (2 of them)",
    ),
    "a mask of NumPy's protocol": (
        Interface(mask=np.array([True, False, False])),
        "the mask of this Interface hides elements (2 of them)",
    ),
    "a mask of NumPy's protocol, in a list": (
        [Interface(mask=Interface(typestr="|b1", shape=(3,), strides=None))],
        "the mask of this Interface",
    ),
    "missing elements of an extension type": (
        Converts(NAN, dtype=ExtensionType(), isna=lambda: np.isnan(NAN)),
        "missing elements (null or NA, 1 of them)",
    ),
    "the same by xarray's name": (
        Converts(NAN, dtype=ExtensionType(), isnull=lambda: np.isnan(NAN)),
        "(null or NA, 1 of them)",
    ),
    "one column with missing elements": (
        Columns(NAN, dtypes=[np.dtype(float), ExtensionType()], na=[[True, False], [True, False]]),
        "this Columns has missing elements (null or NA, 1 of them)",
    ),
    "counted nulls": (Converts(NAN, null_count=2), "(null or NA, 2 of them)"),
    "nulls counted by a method": (Converts(NAN, null_count=lambda: 2), "(null or NA, 2 of them)"),
    "nulls within chunks": (Converts(NAN, null_count=0, chunks=[NULLS, NULLS]), "(null or NA, 4 of them)"),
    "nulls within a dictionary": (
        Converts(NAN, null_count=0, dictionary_decode=lambda: NULLS),
        "(null or NA, 2 of them)",
    ),
    "nulls within encoded runs": (RunEndEncodedArray(NAN, null_count=0), "(null or NA, 2 of them)"),
    "nulls within what pandas has of Arrow's": (
        HoldsArrow(NAN, dtype=ArrowDtype(), isna=lambda: [False] * 3),
        "(null or NA, 2 of them)",
    ),
    "nulls within arrays": (Nested(NULLS, shape=(2,)), "this Nested has missing elements (null or NA, 2 of"),
    "nulls within structures": (Nested(Nested(NULLS), NULLS), "(null or NA, 4 of them)"),
    "nulls within arrays of structures": ([Nested(Nested(NULLS), shape=(3, 1))], "(null or NA, 2 of them)"),
    "a query": (
        type("LazyFrame", (), {"collect": lambda self: self})(),
        "this LazyFrame is a query that was",
    ),
    "nulls of a table": (
        Converts(NAN, columns=[Converts(None, null_count=0), Converts(None, null_count=3)]),
        "(null or NA, 3 of them)",
    ),
    "categories": (Converts(np.arange(3), dtype=Categories()), "this Converts holds categories"),
    "a column of categories": (
        Converts(np.arange(3), dtypes=[np.dtype(int), Categories()]),
        "this Converts holds categories",
    ),
    "a sparse matrix": (type("csr_array", (), {"toarray": None})(), "of this csr_array; accepted are"),
    "None": (None, "None is no array; accepted are arrays and nested sequences of numbers"),
    "a dictionary": ({}, "no array of this dict: it holds what it has by name; accepted are its arrays"),
    "an integer beyond 64 bits": ([2**70], "an array of Python objects of this list"),
    "None among numbers": ([1, None], "an array of Python objects of this list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_would_drop_is_refused(name):
    x, says = REFUSED[name]
    with pytest.raises(TypeError) as caught:
        as_host_array(x)
    assert says in str(caught.value)
    assert "; accepted are " in str(caught.value)


def test_a_sparse_matrix_is_told_how_it_becomes_dense():
    with pytest.raises(TypeError, match=r"x\.toarray\(\) makes one"):
        as_host_array(REFUSED["a sparse matrix"][0])
    by_name = type("dok_array", (), {"keys": dict.keys, "toarray": print})
    with pytest.raises(TypeError, match=r"x\.toarray\(\) makes one"):
        as_host_array(by_name())


class OneShot:
    """A sequence to NumPy, whose iterator can be used once."""

    def __init__(self, *items: float) -> None:
        self.items, self.left = items, iter(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> float:
        return self.items[number]

    def __iter__(self) -> object:
        return self.left


class MaskedList(UserList):
    """A sequence that has a mask of its own."""

    shape, mask = (3,), np.array([False, True, False])


REFUSED["a sequence with a mask of its own"] = MaskedList([1, 9, 3]), "the mask of this MaskedList"

TAKEN = {
    "a sequence that can be iterated once": (OneShot(1.0, 3.0, 2.0), [1.0, 3.0, 2.0]),
    "a masked array without a mask": (np.ma.array([1, 5, 3]), [1, 5, 3]),
    "a masked array with nothing masked": (np.ma.array([1, 5, 3], mask=[0, 0, 0]), [1, 5, 3]),
    "NumPy's protocol without a mask": (Interface(), [1, 5, 3]),
    "NumPy's protocol with a mask of None": (Interface(mask=None), [1, 5, 3]),
    "NumPy's protocol with nothing masked": (Interface(mask=np.ones(3, bool)), [1, 5, 3]),
    "a matrix": (np.array([[1, 2]]).view(np.matrix), [[1, 2]]),
    "an object that converts": (Converts(np.arange(3)), [0, 1, 2]),
    "a method called mask": (Converts(np.arange(3), mask=lambda condition: None), [0, 1, 2]),
    "another attribute called mask": (Converts(np.arange(3), mask="a file"), [0, 1, 2]),
    "a setting called mask": (Converts(np.ma.array([1, 5, 3]), shape=(3,), mask=True), [1, 5, 3]),
    "another attribute called columns": (Converts(np.arange(3), columns=80), [0, 1, 2]),
    "an extension type with nothing missing": (
        Converts(np.arange(3), dtype=ExtensionType(), isna=lambda: [False] * 3),
        [0, 1, 2],
    ),
    "NaN of NumPy's own type": (
        Converts(np.array([1, np.inf]), dtype=np.dtype(float), isna=lambda: [True, False]),
        [1, np.inf],
    ),
    "NaN of a sparse type of NumPy's": (
        Converts(np.array([1, 2]), dtype=OfNumPyType(), isna=lambda: [True, False]),
        [1, 2],
    ),
    "no nulls within": (Nested(Nested(Converts(np.arange(3), null_count=0)), shape=(1,)), [0, 1, 2]),
    "no nulls": (Converts(np.arange(3), null_count=0), [0, 1, 2]),
    "no nulls in a dictionary": (
        Converts(np.arange(3), null_count=0, dictionary_decode=lambda: Converts(NAN, null_count=0)),
        [0, 1, 2],
    ),
    "a range": (range(3), [0, 1, 2]),
    "ranges in a sequence": (deque([range(2), range(2)]), [[0, 1], [0, 1]]),
    "sequences of other types": (deque([UserList([1, 2]), (3, 4)]), [[1, 2], [3, 4]]),
    "bytes that can be written": (bytearray(3), [0, 0, 0]),
    "arrays in a list": ([np.arange(2), np.arange(2)], [[0, 1], [0, 1]]),
    "a number": (3.5, 3.5),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_carries_only_numbers_is_taken(name):
    x, want = TAKEN[name]
    array = as_host_array(x)
    assert type(array) is np.ndarray
    assert array.tolist() == want


def test_missing_elements_within_polars_columns_are_refused():
    arrays, structures = polars.Array(polars.Int64, 2), polars.Struct({"a": polars.Int64, "b": polars.Int64})
    for dtype, empty, full in (
        (arrays, [[1, None], [3, 4]], [[1, 2], [3, 4]]),
        (structures, [{"a": None, "b": 2}, {"a": 5, "b": 1}], [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        (polars.Array(structures, 1), [[{"a": None, "b": 2}]], [[{"a": 1, "b": 2}]]),
        (polars.Array(arrays, 1), [[[1, None]], [[3, 4]]], [[[1, 2]], [[3, 4]]]),
    ):
        with pytest.raises(TypeError, match=r"missing elements \(null or NA, 1 of them\)"):
            as_host_array(polars.Series(empty, dtype=dtype))
        array = as_host_array(polars.Series(full, dtype=dtype))
        assert array.ravel().tolist() == list(range(1, array.size + 1))
    with pytest.raises(TypeError, match=r"this LazyFrame is a query .*: x\.collect\(\)"):
        as_host_array(polars.DataFrame({"a": [1]}).lazy())


def test_a_plain_array_is_returned_as_it_is():
    x = np.arange(3)
    assert as_host_array(x) is x
    assert as_host_array(x, x.dtype) is x


def test_subclasses_are_views():
    x = np.arange(3).view(np.recarray)
    assert np.shares_memory(as_host_array(x), x)


def test_types():
    x = np.arange(3)
    assert as_host_array(x, "float16").dtype == np.float16
    assert as_host_array([2**64 - 1], np.uint64).tolist() == [2**64 - 1]


def test_a_text_is_no_bytes_also_alone():
    for text in ("abc", ["abc"]):
        with pytest.raises(TypeError, match="a bytes-like object is required, not 'str'"):
            as_host_array(text, "V4")
    assert as_host_array("abc", "S4") == b"abc"
    assert as_host_array("12", "int8") == 12


def test_a_copy_that_no_memory_can_hold_is_refused_before_numpy_asks_for_it():
    x = np.broadcast_to(np.uint8(1), (1 << 50,))
    assert as_host_array(x) is x
    with pytest.raises(MemoryError, match=rf"of type int64 of {1 << 53} bytes does not fit in the \d+ bytes"):
        as_host_array(x, np.int64)


def test_numbers_fit_an_integer_type_also_where_numpy_wraps_them(monkeypatch):
    monkeypatch.setattr(element_types, "WRAPS", True)  # as before NumPy 2
    for dtype, outside, held in (
        ("int8", (128, -129, [0, 300], [[1.5, -129.5]], np.int64(300), math.inf), [127, -128.9]),
        ("uint8", (-1, 256, [1, -1], [256.5]), [0, 255]),
        ("uint64", (-1, [-1, 2], 1 << 64), [(1 << 64) - 1, 1 << 63]),
        ("int64", (1 << 63, [-1.0, 1e30]), [(1 << 63) - 1, -(1 << 63)]),
    ):
        for value in outside:
            with pytest.raises(OverflowError, match=rf"; accepted for {dtype} are numbers from "):
                assigned(value, np.dtype(dtype))
        assert assigned(held, np.dtype(dtype)).tolist() == [int(number) for number in held]


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "bfloat16", "float8_e5m2"])
def test_integers_of_numpy_are_rounded_to_a_float_once(dtype):
    wanted = np.dtype(getattr(ml_dtypes, dtype, dtype))
    for number in (np.int64(2**60 + 2**36 + 1), np.uint64(2**63 + 2**39 + 1), np.uint64(2**64 - 1)):
        with np.errstate(over="ignore"):
            assert assigned(number, wanted).tobytes() == np.array([number]).astype(wanted).tobytes()


def test_an_error_of_the_object_itself_is_named():
    class Refuses:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("call detach() first")

    with pytest.raises(TypeError, match=r"no array of this Refuses: call detach\(\) first"):
        as_host_array(Refuses())


def test_lists_deeper_than_arrays_and_lists_in_themselves_end():
    deep: list[object] = [1]
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    endless: list[object] = [1]
    endless.append(endless)
    for x in (deep, endless):
        with pytest.raises((TypeError, ValueError)):
            as_host_array(x)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has this type")
def test_strings_of_any_length_are_named():
    strings = np.dtypes.StringDType()
    for call in (lambda: as_host_array(np.array(["a"], strings)), lambda: as_host_array([1], strings)):
        with pytest.raises(
            TypeError, match=r"StringDType\(\) are strings; accepted are numbers and, .* of a fixed length"
        ):
            call()


# ---- DLPack ------------------------------------------------------------------------------------------------


CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12, "float8_e3m4": 7}


class OnlyDLPack:
    """A tensor that offers DLPack and nothing else, as elements of a type that NumPy may not know."""

    def __init__(self, bits: np.ndarray, element: str = "", device: tuple[int, int] = (1, 0)) -> None:
        self._bits, self._element, self._device = bits, element, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **options: object) -> object:
        capsule = self._bits.__dlpack__()
        if self._element:
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            tensor = pointer(capsule, b"dltensor")
            # After the pointer, the device (two 32-bit numbers) and the rank.
            ctypes.c_uint8.from_address(tensor + 8 + 8 + 4).value = CODES[self._element]
        return capsule


class Torch(OnlyDLPack):
    """As torch does it: NumPy's own way ends in an error for types that NumPy lacks."""

    def __array__(self, dtype: object = None, copy: object = None) -> object:
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_what_offers_only_dlpack_is_taken_without_a_copy():
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    array = as_host_array(OnlyDLPack(x))
    assert np.shares_memory(array, x)
    assert array.tolist() == x.tolist()
    assert as_host_array(OnlyDLPack(x), np.float32).dtype == np.float32


@pytest.mark.parametrize("kind", [OnlyDLPack, Torch])
@pytest.mark.parametrize("element", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_come_through_dlpack(kind, element):
    x = np.arange(6).astype(getattr(ml_dtypes, element))
    array = as_host_array(kind(x.view(f"u{x.itemsize}"), element))
    assert array.dtype == x.dtype
    assert array.astype(float).tolist() == x.astype(float).tolist()


def test_small_floats_without_their_package_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="elements of type bfloat16 need the package ml_dtypes"):
        as_host_array(OnlyDLPack(np.zeros(3, np.uint16), "bfloat16"))


def test_tensors_that_numpy_does_not_take_are_named():
    with pytest.raises(
        TypeError,
        match=r"this OnlyDLPack cannot be taken through DLPack: .*; accepted are tensors in host memory .* "
        r"of numbers of NumPy's types or of bfloat16, float8_e4m3fn, float8_e5m2$",
    ):
        as_host_array(OnlyDLPack(np.zeros(3, np.uint8), "float8_e3m4"))


@pytest.mark.parametrize("kind", [OnlyDLPack, Torch])
def test_tensors_on_other_devices_are_named(kind):
    with pytest.raises(TypeError, match=r"lies on DLPack device \(2, 1\); accepted are tensors in host"):
        as_host_array(kind(np.zeros(3), device=(2, 1)))


@pytest.mark.parametrize("kind", [OnlyDLPack, Torch])
@pytest.mark.parametrize("negative", [True, False])
def test_views_with_another_sign_than_is_stored_are_refused(kind, negative):
    tensor = kind(np.arange(3.0))
    tensor.is_neg = lambda: negative  # as torch's, which lends what is stored
    if negative:
        with pytest.raises(TypeError, match=r"changes the sign of what .*: x\.resolve_neg\(\) makes"):
            as_host_array(tensor)
    else:
        assert as_host_array(tensor).tolist() == [0, 1, 2]


class WithNegativeBit(OnlyDLPack):
    """Lends what is stored, as torch's ``x.conj().imag`` does, which has the other sign."""

    is_negative = True

    def is_neg(self):
        return self.is_negative


def test_views_with_another_sign_of_torchs_are_refused():
    x = WithNegativeBit(np.arange(3))
    with pytest.raises(TypeError, match="its negative bit is set"):
        as_host_array(x)
    x.is_negative = False
    assert as_host_array(x).tolist() == [0, 1, 2]


def test_pinned_memory_is_host_memory():
    assert as_host_array(OnlyDLPack(np.arange(3), device=(3, 0))).tolist() == [0, 1, 2]
