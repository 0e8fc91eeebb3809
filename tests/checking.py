"""Calls the library, compares with the oracle byte for byte, and says where they differ."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import oracle
import strategies
import thinned
from oracle import AnyArray

import vkdml

Axis = int | Sequence[int] | None


def describe(x: AnyArray) -> str:
    """Enough of an array's header to build another like it."""
    return f"{x.dtype} shape {x.shape} strides {x.strides}"


def difference(got: AnyArray, want: AnyArray) -> str | None:
    """None where two arrays hold the same bytes, else the first place where they do not."""
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    if got.size == 0:
        return None
    itemsize = got.dtype.itemsize
    got_bytes = np.frombuffer(got.tobytes(), np.uint8).reshape(-1, itemsize)
    want_bytes = np.frombuffer(want.tobytes(), np.uint8).reshape(-1, itemsize)
    wrong = np.flatnonzero((got_bytes != want_bytes).any(axis=1))
    if not wrong.size:
        return None
    at = int(wrong[0])
    got_text, want_text = f"bytes {got_bytes[at].tobytes().hex()}", f"{want_bytes[at].tobytes().hex()}"
    if got.dtype.kind in "iu":
        got_text, want_text = str(got.ravel()[at]), str(want.ravel()[at])
    place = tuple(int(i) for i in np.unravel_index(at, got.shape))
    return f"{wrong.size} of {got.size} differ, the first at {place}: {got_text}, not {want_text}"


def assert_same(got: object, want: AnyArray, what: str) -> None:
    """The same shape, dtype and bytes."""
    if isinstance(got, np.generic):
        if want.dtype == np.bool_:
            want = oracle.numbers(want)  # a NumPy boolean scalar has no room for other bytes
        if not want.dtype.isnative:
            want = want.astype(want.dtype.newbyteorder("="))  # nor a scalar for a byte order
    else:
        assert isinstance(got, np.ndarray), f"{what}: got a {type(got).__name__}"
    problem = difference(np.asarray(got), want)
    assert problem is None, f"{what}: {problem}"


def check_argreduce(
    x: Any,
    axis: Axis = None,
    *,
    op: str = "argmax",
    direction: str = "increasing",
    nan_policy: str = "propagate",
    keepdims: bool = False,
    dtype: str | None = None,
    return_values: bool = True,
) -> None:
    """One call of argmax or argmin against the oracle."""
    array = np.asarray(x)
    call = {"axis": axis, "keepdims": keepdims, "direction": direction, "nan_policy": nan_policy}
    what = f"{op}({describe(array)}, {call}, dtype={dtype})"
    want_indices, want_values = oracle.argreduce(array, op=op, dtype=dtype or "int64", **call)  # type: ignore[arg-type]
    got = getattr(vkdml, op)(x, dtype=dtype, return_values=return_values, **call)
    indices = got.indices if return_values else got
    expected_type = np.generic if want_indices.shape == () and not keepdims else np.ndarray
    if x_has_axes := array.ndim > 0:  # NumPy itself is of two minds about rank 0
        assert isinstance(indices, expected_type), f"indices of {what}: got a {type(indices).__name__}"
    assert_same(indices, want_indices, f"indices of {what}")
    if return_values:
        if x_has_axes:
            assert isinstance(got.values, expected_type), (
                f"values of {what}: got a {type(got.values).__name__}"
            )
        assert_same(got.values, want_values, f"values of {what}")


def modes_of(turn: int) -> list[tuple[str, str, str]]:
    """Half of the eight modes: operator, direction and NaN policy, any two of them in all four combinations.

    Each mode means other kernels to be built, which takes software drivers a second.
    """
    return [
        (oracle.OPERATORS[op], oracle.DIRECTIONS[direction], oracle.NAN_POLICIES[nan_policy])
        for op, direction, nan_policy in itertools.product((0, 1), repeat=3)
        if (op + direction + nan_policy + turn) % 2 == 0
    ]


def check_every_mode(x: Any, axis: Axis = None, **call: Any) -> None:
    """Both operators, both directions, both NaN policies."""
    check_modes_in_turn((x, axis), (x, axis), **call)


# The defaults and their opposites: enough where it is the layout that matters.
OPPOSITE_MODES = (
    {"op": "argmax", "direction": "increasing", "nan_policy": "propagate"},
    {"op": "argmin", "direction": "decreasing", "nan_policy": "omit"},
)


def check_opposite_modes(x: Any, axis: Axis = None) -> None:
    """One array over one axis in both."""
    for mode in OPPOSITE_MODES:
        check_argreduce(x, axis, **mode)


def check_modes_in_turn(even: tuple[Any, Axis], odd: tuple[Any, Axis], **call: Any) -> None:
    """One half of the modes over one axis of one array, the other half over another.

    On SwiftShader it is one of them each: the defaults and their opposites.
    """
    for turn, (x, axis) in enumerate((even, odd)):
        modes = modes_of(turn)
        for op, direction, nan_policy in thinned.some_of(modes[::-1] if turn else modes):
            check_argreduce(x, axis, op=op, direction=direction, nan_policy=nan_policy, **call)


class Poisoned:
    """An output laid out inside a larger buffer, whose other bytes must not change."""

    def __init__(self, layout: strategies.Layout, dtype: np.dtype[Any], seed: int = 0) -> None:
        self.view, self.buffer = layout.place(dtype, np.random.Generator(np.random.PCG64(seed)))
        self._poison = self.buffer.copy()

    @staticmethod
    def scaled(layout: strategies.Layout, dtype: np.dtype[Any], seed: int = 0) -> Poisoned:
        """From a layout in elements rather than bytes."""
        n = dtype.itemsize
        strides = tuple(s * n for s in layout.strides)
        return Poisoned(
            strategies.Layout(layout.shape, strides, layout.before * n, layout.after * n), dtype, seed
        )

    def assert_holds(self, want: AnyArray, what: str) -> None:
        """`want` in the view, and every byte outside it as it was."""
        problem = difference(self.view, want)
        assert problem is None, f"{what}: {problem}"
        expected = self._poison.copy()
        address = self.view.ctypes.data - self.buffer.ctypes.data
        twin: AnyArray = np.ndarray(self.view.shape, want.dtype, expected.data, address, self.view.strides)
        oracle.raw(twin)[...] = oracle.raw(want)
        touched = np.flatnonzero(self.buffer != expected)
        assert not touched.size, (
            f"{what}: wrote outside the output, first at byte {touched[0]} of {self.buffer.size}"
        )

    def assert_untouched(self, what: str) -> None:
        """No byte has changed, inside the view or out."""
        assert np.array_equal(self.buffer, self._poison), f"{what}: the output was written"


def check_argreduce_case(case: strategies.ArgReduceCase) -> None:
    """One generated call of argmax or argmin, with its out= if it has one."""
    x = case.input()
    before = x.tobytes()
    if case.out is None:
        check_argreduce(
            x,
            case.axis,
            op=case.op,
            direction=case.direction,
            nan_policy=case.nan_policy,
            keepdims=case.keepdims,
            dtype=case.output_dtype,
            return_values=case.return_values,
        )
    else:
        call: dict[str, Any] = {
            "axis": case.axis,
            "direction": case.direction,
            "nan_policy": case.nan_policy,
            "keepdims": case.keepdims,
        }
        want_indices, want_values = oracle.argreduce(x, op=case.op, dtype=case.output_dtype, **call)
        indices = Poisoned.scaled(case.out, np.dtype(case.output_dtype))
        values = Poisoned.scaled(case.out, x.dtype, seed=1)
        out = (indices.view, values.view) if case.return_values else indices.view
        result = getattr(vkdml, case.op)(
            x, dtype=case.output_dtype, return_values=case.return_values, out=out, **call
        )
        indices.assert_holds(want_indices, f"indices of {case}")
        if case.return_values:
            values.assert_holds(want_values, f"values of {case}")
            assert result.indices is indices.view
            assert result.values is values.view
        else:
            values.assert_untouched(str(case))
            assert result is indices.view
    assert x.tobytes() == before, f"{case}: the input was written"


def check_slice1(
    x: Any,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> None:
    """One call of slice1 against the oracle."""
    array = np.asarray(x)
    want = oracle.slice1(array, offsets, sizes, strides, output_sizes)
    got = vkdml.slice1(x, offsets, sizes, strides, output_sizes=output_sizes)
    what = f"slice1({describe(array)}, {offsets}, {sizes}, {strides}, output_sizes={output_sizes})"
    assert_same(got, want, what)


def check_slice1_case(case: strategies.Slice1Case) -> None:
    """One generated call of slice1, with its out= if it has one."""
    x = case.input()
    before = x.tobytes()
    if case.out is None:
        check_slice1(x, case.offsets, case.sizes, case.strides, case.output_sizes)
    else:
        want = oracle.slice1(x, case.offsets, case.sizes, case.strides, case.output_sizes)
        out = Poisoned.scaled(case.out, x.dtype)
        result = vkdml.slice1(
            x, case.offsets, case.sizes, case.strides, output_sizes=case.output_sizes, out=out.view
        )
        assert result is out.view
        out.assert_holds(want, str(case))
    assert x.tobytes() == before, f"{case}: the input was written"


def check_large_slice1_case(case: strategies.Slice1Case) -> None:
    """One generated call of slice1 on a large array, by one of the ways that lead to its kernels."""
    x = case.input()
    window = tuple(slice(o, o + size) for o, size in zip(case.offsets, case.sizes, strict=True))
    steps = tuple(slice(None, None, step) for step in case.strides)
    want = oracle.raw(x)[window][steps]
    call = (case.offsets, case.sizes, case.strides)
    way = case.seed % 5
    if case.out is not None:
        out = Poisoned.scaled(case.out, x.dtype)
        vkdml.slice1(x, *call, out=out.view)
        out.assert_holds(np.ascontiguousarray(want).view(x.dtype), str(case))
        return
    if way == 0:
        got = vkdml.slice1(x, *call)
    elif way == 1:
        got = vkdml.slice1(x, *call, progress=lambda done, total: None)
    else:
        # On the device the dimensions lie in memory in the order in which they lie on the host.
        order = tuple(np.argsort([-abs(stride) for stride in x.strides], kind="stable"))
        on_device = vkdml.asarray(oracle.raw(x).transpose(order)).transpose(*np.argsort(order).tolist())
        if way == 2:
            got = vkdml.slice1(on_device, *call).numpy()
        elif way == 3:
            got = np.asarray(on_device[window][steps])
        else:
            target = vkdml.empty(want.shape[::-1], on_device.dtype)
            target.T[...] = on_device[window][steps]
            got = target.numpy().T
    problem = difference(oracle.raw(got), want)
    assert problem is None, f"{case}, way {way}: {problem}"
