"""Public calls: what a user writes for a case, on an array of the host or of the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import vkdml
from vkdml.arrays.array import array_in
from vkdml.arrays.indexing import compact_view
from vkdml.bench.cases import MIB, Case, copied_view, window_of
from vkdml.bench.check import WrongResult
from vkdml.bench.contents import Bytes, numpy_dtype
from vkdml.bench.keys import run_in_parallel
from vkdml.common.rounding import round_up
from vkdml.measuring import OUTPUT_ROLES
from vkdml.runtime.device import Device
from vkdml.runtime.memory import Memory

HOST_CALL_BYTES = 4 * MIB
"""Beside a GPU, calls on host arrays are timed up to this size; larger ones time the bus."""
_PIECE_BYTES = 4 * MIB


def host_array(case: Case, content: Bytes) -> npt.NDArray[Any]:
    """Return the case's array over its content.

    Raises:
        Unsupported: NumPy has no such elements.
    """
    return content[: case.input_bytes].view(numpy_dtype(case.element)).reshape(case.shape)


def device_array(case: Case, memory: Memory) -> vkdml.Array:
    """Return the case's array over memory of the device with its content; raises as :func:`host_array`."""
    return array_in(memory, numpy_dtype(case.element), compact_view(case.shape), writeable=False)


def public_call(case: Case, array: Any, index_bytes: int, device: Device | None = None) -> Callable[[], Any]:
    """Return the call of the public function.

    Args:
        case: what to compute.
        array: the case's, of the host or of the device.
        index_bytes: 4 or 8.
        device: where to compute; None for an array that lies on one.
    """
    if case.op == "slice1":
        window = window_of(case)
        moved = array.transpose(*window.axes(array.ndim))
        if case.channels > 1:
            return _channel_call(case, moved, device)
        return lambda: vkdml.slice1(moved, window.offsets, window.sizes, window.steps, device=device)
    view = array[..., ::2] if case.alternate else array
    view = view.T if case.transposed else view
    function: Any = vkdml.argmax if case.op == "argmax" else vkdml.argmin
    return lambda: function(
        view,
        case.axis,
        dtype=f"int{8 * index_bytes}",
        direction=case.direction,
        nan_policy=case.nan_policy,
        return_values=case.return_values,
        device=device,
    )


def _channel_call(case: Case, moved: Any, device: Device | None) -> Callable[[], Any]:
    """Return a call that copies to one channel of an array, and returns all of that."""
    shape = (*copied_view(case)[0], case.channels)
    whole: Any = np.empty(shape, moved.dtype)
    if isinstance(moved, vkdml.Array):
        whole = vkdml.empty(shape, moved.dtype, device=moved.device)
    window, channel = window_of(case), whole[..., 0]

    def call() -> Any:
        vkdml.slice1(moved, window.offsets, window.sizes, window.steps, out=channel, device=device)
        return whole

    return call


def outputs_of(result: Any) -> dict[str, Bytes]:
    """Return what a call returned as the bytes of a plan's outputs."""
    arrays = result if isinstance(result, tuple) else (result,)
    found = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
    return dict(zip(OUTPUT_ROLES, found, strict=False)) | {"output": found[0]}


def require_same(what: str, case: Case, got: Mapping[str, Bytes], right: Mapping[str, Bytes]) -> None:
    """Raise unless outputs are those that were found right.

    Args:
        what: was run, for the message.
        case: that was run.
        got: role to bytes.
        right: of the same roles, in whole words.

    Raises:
        WrongResult: naming the first byte that differs, or the sizes.
    """
    for role, expected in right.items():
        found = got[role]
        nbytes = min(found.size, expected.size)
        # A plan's buffers are whole words, and may have bytes after the last element.
        if round_up(nbytes, 4) != round_up(expected.size, 4):
            raise WrongResult(
                f"{case.name}: {what}: {found.size} bytes of the {role}, expected are {expected.size}"
            )
        first = _first_difference(found[:nbytes], expected[:nbytes])
        if first is not None:
            raise WrongResult(
                f"{case.name}: {what}: byte {first} of the {role} is {found[first]}, expected is "
                f"{expected[first]} as the kernels wrote before"
            )


def _first_difference(found: Bytes, expected: Bytes) -> int | None:
    """Return the first byte that differs, of many bytes with all cores."""
    pieces = list(range(0, found.size, _PIECE_BYTES))
    differ = np.zeros(len(pieces), np.bool_)

    def compare(number: int) -> None:
        piece = slice(pieces[number], pieces[number] + _PIECE_BYTES)
        differ[number] = not np.array_equal(found[piece], expected[piece])

    if len(pieces) == 1:
        compare(0)
    else:
        run_in_parallel(compare, list(range(len(pieces))))
    if not differ.any():
        return None
    start = pieces[int(differ.argmax())]
    piece = slice(start, start + _PIECE_BYTES)
    return start + int(np.flatnonzero(found[piece] != expected[piece])[0])
