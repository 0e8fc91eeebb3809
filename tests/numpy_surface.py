"""NumPy's whole function list, asked about an array on a device and about the same array on the host.

The answers must be equal, or the device array's must be a refusal.
"""

from __future__ import annotations

import contextlib
import io
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import vkdml

DEVICE_ARRAYS = (vkdml.Array, vkdml.ShardedArray)
# They look at no array; or at files, at settings, at the interpreter; or make something huge of a shape.
SKIPPED_NAMES = """
    test info show_config show_runtime get_include lookfor source who safe_eval DataSource tracemalloc_domain
    save savez savez_compressed savetxt load loadtxt genfromtxt fromfile recfromcsv recfromtxt disp
    set_printoptions get_printoptions printoptions set_string_function add_newdoc_ufunc
    add_docstring add_newdoc
    seterr geterr seterrcall geterrcall geterrobj seterrobj setbufsize getbufsize deprecate deprecate_with_doc
    byte_bounds fastCopyAndTranspose get_array_wrap compat issubclass_ obj2sctype sctype2char maximum_sctype
    find_common_type zeros ones empty full indices eye identity tri fromfunction frompyfunc
    bartlett blackman hamming hanning kaiser is_busday busday_count busday_offset
"""
# They know no arrays but NumPy's: bmat says None of others, asmatrix does not squeeze them.
# NumPy 1.26 has asmatrix by the name mat, too.
SKIPPED = {*SKIPPED_NAMES.split(), "bmat", "asmatrix", "mat"}
# What NumPy refuses of its own arrays alone: it takes other objects' attribute dtype for a type, and other
# arrays of one element for a number.
OF_NUMPYS_OWN = (
    "Cannot construct a dtype from an array",
    "only 0-dimensional arrays can be converted",
    "setting an array element with a sequence",
)
ARBITRARY = {"empty_like"}
OF_FUNCTIONS = {"apply_along_axis", "apply_over_axes"}
OF_SHAPE_ALONE = {"tile", "resize", "broadcast_to", "repeat", "pad"}


def functions() -> list[tuple[str, Callable[..., Any]]]:
    """Every function and universal function of numpy, numpy.linalg and numpy.fft, by name."""
    found = {}
    for where in (np, np.linalg, np.fft):
        for name in dir(where):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                thing = getattr(where, name)
            if name.startswith("_") or name in SKIPPED or isinstance(thing, type | types.ModuleType):
                continue
            if callable(thing):
                found[f"{where.__name__}.{name}"] = thing
    for ufunc in (np.add, np.maximum, np.logical_or):
        for method in ("reduce", "accumulate", "outer", "reduceat", "at"):
            found[f"numpy.{ufunc.__name__}.{method}"] = getattr(ufunc, method)
    for scalar in (np.float32, np.int32, np.complex64, np.bool_):
        found[f"numpy.{scalar.__name__}"] = scalar
    return sorted(found.items())


def calls(name: str) -> Iterator[tuple[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]]]:
    """Ways to hand an array to a function: each gives arguments and options."""
    yield "f(x)", lambda x: ((x,), {})
    for option, value in (("axis", 0), ("axis", -1), ("axis", None), ("keepdims", True), ("dtype", "f8")):
        yield f"f(x, {option}={value!r})", lambda x, o=option, v=value: ((x,), {o: v})
    if name.rpartition(".")[2] not in OF_SHAPE_ALONE:
        yield "f(x, x)", lambda x: ((x, x), {})
        yield "f(x, x, x)", lambda x: ((x, x, x), {})
    for value in (0, 1, -1, 1.5, [0], (1,), (-1,), (2, 1), "C"):
        yield f"f(x, {value!r})", lambda x, v=value: ((x, v), {})
    yield "f(x, 0, 1)", lambda x: ((x, 0, 1), {})
    yield "f(x, (2, *x.shape))", lambda x: ((x, (2, *x.shape)), {})
    yield "f(0, x)", lambda x: ((0, x), {})
    yield "f([x, x])", lambda x: (([x, x],), {})
    yield "f([x, x], axis=0)", lambda x: (([x, x],), {"axis": 0})
    yield "f((x,), 0)", lambda x: (((x,), 0), {})
    yield "f([[x], [x]])", lambda x: (([[x], [x]],), {})
    yield "f([0], x)", lambda x: (([0], x), {})
    yield "f('...->...', x)", lambda x: (("...->...", x), {})
    if name.rpartition(".")[2] in OF_FUNCTIONS:
        yield "f(function, x, 0)", lambda x: ((np.sum, x, 0), {})
        yield "f(function, 0, x)", lambda x: ((np.sum, 0, x), {})
    yield "f(host, x)", lambda x: ((np.ones(x.shape, x.dtype), x), {})
    yield "f(x, host)", lambda x: ((x, np.ones(x.shape, x.dtype)), {})
    yield "f(bools, x)", lambda x: ((np.ones(x.shape, bool), x), {})
    yield "f(x, bools, 3)", lambda x: ((x, np.ones(x.shape, bool), 3), {})
    yield "f(x, [0], 3)", lambda x: ((x, [0], 3), {})
    yield "f(bools, x, x)", lambda x: ((np.ones(x.shape, bool), x, x), {})
    yield (
        "f(x, out=host)",
        lambda x: ((x,), {"out": np.zeros(x.shape or (1,), x.dtype)}),
    )  # NumPy 2.4 crashes at ()
    yield "f(x, copy=False)", lambda x: ((x,), {"copy": False})
    yield "f(x, x, out=x)", lambda x: ((x, x), {"out": x})
    if "argm" not in name:  # which may well write to a device array
        yield "f(x, out=x)", lambda x: ((x,), {"out": x})
    yield "f(3, like=x)", lambda x: ((3,), {"like": x})


def outcome(function: Callable[..., Any], arguments: Any) -> tuple[Any, BaseException | None]:
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            args, options = arguments()
            result = function(*args, **options)
            if isinstance(result, Iterator | np.nditer | np.broadcast | np.ndenumerate):
                result = list(result)
            return result, None
        except Exception as error:
            return None, error


def check(name: str, function: Callable[..., Any], x: Any, host: np.ndarray) -> int:
    """Compare all calls of one function; returns how many gave answers. ``x`` holds what ``host`` does."""
    answers = 0
    if "cum" in name and not host.ndim:
        return answers  # NumPy 2.4 crashes where out= is an array of no dimensions
    for call, arguments in calls(name):
        given = host.copy()
        wanted, fault = outcome(function, lambda arguments=arguments, given=given: arguments(given))
        got, refused = outcome(function, lambda arguments=arguments: arguments(x))
        where = f"{name}, {call}, of {x!r} holding {host!r}: "
        changed = given.tobytes() != host.tobytes()
        kept = x.numpy().tobytes() == host.tobytes()
        if any(said in str(fault) for said in OF_NUMPYS_OWN):
            continue
        if refused is not None:
            assert kept, f"{where}raised {refused!r}, and the array is changed"
            same_fault = fault is not None and isinstance(refused, type(fault))
            assert same_fault or is_refusal(refused), (
                f"{where}{refused!r}; of a host array {fault or wanted!r}"
            )
            continue
        assert fault is None, f"{where}{got!r}, where a host array raises {fault!r}"
        # An array given for out, also by its place, is written to, as a host array is.
        as_on_host = changed and x.numpy().tobytes() == given.tobytes()
        assert kept or as_on_host, f"{where}answers, and the array is changed"
        assert not changed or as_on_host or "out=" in call, f"{where}answers, but a host array is written to"
        if not kept:
            x[...] = host
            continue
        # Transforms and bits of no element are what the memory held before.
        unfilled = not host.size and (".fft." in name or name == "numpy.unpackbits")
        arbitrary = unfilled or name.rpartition(".")[2] in ARBITRARY
        if not arbitrary:
            assert same(got, wanted), f"{where}{got!r}; of a host array {wanted!r}"
        answers += 1
    return answers


# What others than TypeErrors say: that there is no such attribute, no way without a copy or through DLPack;
# and NumPy of strings of no dimensions in a list.
REFUSALS = (
    "accepted are sizes from -1 on",  # NumPy takes any negative size for -1
    "cannot convert float",  # NaN and infinity in a list: NumPy casts its own, of others it asks for int()
    "has no attribute",
    "cannot be seen by NumPy without a copy",
    "no other library can read",
    "setting an array element with a sequence",
)


def is_refusal(error: BaseException) -> bool:
    """Whether an error says that NumPy cannot be asked so, and not something about the elements."""
    return isinstance(error, TypeError) or any(said in str(error) for said in REFUSALS)


def same(got: Any, wanted: Any) -> bool:
    """Whether two answers are equal: bit for bit, in the same structure."""
    if isinstance(got, DEVICE_ARRAYS):
        got = got.numpy()
    if isinstance(wanted, np.ndarray | np.generic) or isinstance(got, np.ndarray | np.generic):
        got, wanted = np.asarray(got), np.asarray(wanted)
        if wanted.ndim == 0 and wanted.dtype.kind in "SU" and got.dtype.kind == wanted.dtype.kind:
            wanted = wanted.astype(got.dtype)  # NumPy's scalars of texts do not know their type's length
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return False
        if got.dtype.hasobject:
            return all(same(a, b) for a, b in zip(got.reshape(-1), wanted.reshape(-1), strict=True))
        return got.tobytes() == wanted.tobytes()
    if isinstance(wanted, list | tuple):
        return (
            isinstance(got, list | tuple)
            and len(got) == len(wanted)
            and all(same(a, b) for a, b in zip(got, wanted, strict=True))
        )
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(same(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, float | complex):
        return repr(got) == repr(wanted)
    if isinstance(wanted, str | int | float | complex | bytes | np.dtype | type | None):
        return bool(got == wanted)
    return type(got) is type(wanted)
