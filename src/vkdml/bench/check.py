"""Says which results are right, from the input's bits alone: integer keys, NumPy and threads, no kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vkdml.bench import view_indices
from vkdml.bench.cases import Case, copied_view
from vkdml.bench.contents import Bytes, unsigned
from vkdml.bench.keys import Array, ordered_keys, run_in_parallel

_TILE_BYTES = 1 << 20
_LONGEST_PIECE = 1 << 20
_NARROW = 64
_COPY_TILE = 512
_EARLY = (256, 4096, 32768)


class WrongResult(Exception):
    """A kernel wrote something else than it should have; the message says where."""


class Checker:
    """Compares results with the right ones, and keeps those for cases that share them."""

    def __init__(self) -> None:
        self._indices: dict[tuple[Any, ...], Array] = {}

    def check(self, case: Case, content: Bytes, outputs: Mapping[str, Bytes], index_bytes: int) -> None:
        """Raise unless the outputs are those of the case.

        Args:
            case: what was computed.
            content: at least the input's bytes.
            outputs: role to bytes: ``indices`` and ``values``, or ``output``.
            index_bytes: of one index.

        Raises:
            WrongResult: naming the case, the position, what it holds and what it should.
        """
        content = content[: case.input_bytes]
        if case.op == "slice1":
            _check_copy(case, content, outputs["output"])
            return
        expected = self._expected(case, content)
        got = outputs["indices"][: expected.size * index_bytes].view(unsigned(index_bytes))
        _compare(case, "index", got, expected)
        if case.return_values:
            bits = content.view(unsigned(case.element_bytes))
            values = outputs["values"][: expected.size * case.element_bytes].view(bits.dtype)
            _compare(case, "bits of the value", values, bits[_offsets(case, expected)])

    def _expected(self, case: Case, content: Bytes) -> Array:
        identity = (
            case.content, case.element, case.shape, case.alternate, case.transposed, case.op, case.axes,
            case.direction, case.nan_policy,
        )  # fmt: skip
        known = self._indices.get(identity)
        if known is None:
            known = self._indices[identity] = right_indices(case, content)
        return known

    def forget(self, content: str) -> None:
        """Drop what is kept of a content that no case needs any more."""
        self._indices = {key: value for key, value in self._indices.items() if key[0] != content}


def right_indices(case: Case, content: Bytes) -> Array:
    """Return the indices of an argmin or argmax, in row-major order, from exactly the input's bytes."""
    bits = content.view(unsigned(case.element_bytes)).reshape(case.shape)
    if case.alternate:
        bits = bits[..., ::2]
    if case.transposed:
        bits = bits.T
    axes = case.axes
    if not axes:
        return np.zeros(case.outputs, np.int64)
    if case.transposed or axes != tuple(range(axes[0], axes[-1] + 1)):
        return view_indices.right_indices(bits, axes, case).reshape(-1)
    # Neighbouring reduced axes are one.
    sizes = bits.shape
    outer, count = math.prod(sizes[: axes[0]]), math.prod(sizes[axes[0] : axes[-1] + 1])
    return _best(bits.reshape(outer, count, -1), case)[1].reshape(-1)


def _best(data: Array, case: Case) -> tuple[Array, Array]:
    """Return the greatest key along the middle axis of three, and where it is."""
    outer, count, inner = data.shape
    keys = np.empty((outer, inner), ordered_keys(data[:1, :1, :1], case).dtype)
    found = np.empty((outer, inner), np.int64)
    if inner < _NARROW and inner > 1:
        # Too few side by side for NumPy to be quick: one row after the other instead.
        for column in range(inner):
            best = _best(data[:, :, column : column + 1], case)
            keys[:, column], found[:, column] = best[0][:, 0], best[1][:, 0]
        return keys, found
    if inner == 1 and count > _LONGEST_PIECE:
        return _in_pieces(data, case)
    take_last = case.direction == "decreasing"

    def along_rows(rows: slice) -> None:
        part = data[rows, :, 0]
        soon = _found_soon(part, 1, case)
        if soon is not None:
            keys[rows, 0], found[rows, 0] = soon
            return
        part = ordered_keys(part, case)
        at = _first_greatest(part, take_last)
        found[rows, 0] = at
        keys[rows, 0] = np.take_along_axis(part, at[:, None], 1)[:, 0]

    def along_columns(tile: tuple[int, slice]) -> None:
        which, columns = tile
        part = data[which, :, columns]
        soon = _found_soon(part, 0, case)
        if soon is not None:
            keys[which, columns], found[which, columns] = soon
            return
        part = ordered_keys(part, case)
        greatest = part.max(axis=0)
        keys[which, columns] = greatest
        found[which, columns] = _first_row_equal(part, greatest, take_last)

    width = data.dtype.itemsize
    if inner == 1:
        step = max(1, _TILE_BYTES // (count * width))
        run_in_parallel(along_rows, [slice(start, start + step) for start in range(0, outer, step)])
    else:
        step = max(512, _TILE_BYTES // (count * width))
        columns = [slice(start, start + step) for start in range(0, inner, step)]
        run_in_parallel(along_columns, [(which, each) for which in range(outer) for each in columns])
    return keys, found


def _found_soon(part: Array, along: int, case: Case) -> tuple[int, Array] | None:
    """Return the greatest key that there can be and where each line has it first, if all have it early.

    What follows it cannot win. Random bytes have it soon as the greatest byte, random floats as a NaN.
    """
    if case.data not in ("bits", "nan_rich") or case.nan_policy == "omit":
        return None
    if part.dtype.itemsize > 1 and "float" not in case.element:
        return None
    count = part.shape[along]
    for length in _EARLY:
        if 2 * length > count:
            return None
        take_last = case.direction == "decreasing"
        early = slice(count - length, count) if take_last else slice(length)
        keys = ordered_keys(part[:, early] if along else part[early], case)
        is_flag = case.element == "bool" and case.op == "argmax"
        greatest = 1 if is_flag else np.iinfo(keys.dtype).max
        has = keys == greatest
        if has.any(axis=along).all():
            at = np.flip(has, along).argmax(axis=along) if take_last else has.argmax(axis=along)
            return greatest, count - 1 - at if take_last else at
    return None


def _in_pieces(data: Array, case: Case) -> tuple[Array, Array]:
    outer, count, _ = data.shape
    whole = count // _LONGEST_PIECE * _LONGEST_PIECE
    pieces = data[:, :whole, 0].reshape(outer * (whole // _LONGEST_PIECE), _LONGEST_PIECE, 1)
    keys, found = (part.reshape(outer, whole // _LONGEST_PIECE) for part in _best(pieces, case))
    found = found + np.arange(found.shape[1]) * _LONGEST_PIECE
    if whole < count:
        rest_keys, rest_found = _best(data[:, whole:], case)
        keys = np.concatenate([keys, rest_keys], axis=1)
        found = np.concatenate([found, rest_found + whole], axis=1)
    at = _first_greatest(keys, case.direction == "decreasing")[:, None]
    return np.take_along_axis(keys, at, 1), np.take_along_axis(found, at, 1)


def _check_copy(case: Case, content: Bytes, output: Bytes) -> None:
    shape, strides, base = copied_view(case)
    # NumPy compares no more than 8 bytes at a time by their bits.
    width = min(case.element_bytes, 8)
    words = case.element_bytes // width
    source = content.view(unsigned(width))
    written = output[: math.prod(shape) * case.channels * case.element_bytes].view(source.dtype)
    got = written.reshape(*shape, case.channels, words)[..., 0, :]
    expected = np.lib.stride_tricks.as_strided(
        source[base * words :],
        (*shape, words),
        (*(stride * case.element_bytes for stride in strides), width),
        writeable=False,
    )

    def compare(tile: tuple[slice, slice]) -> None:
        different = got[tile] != expected[tile]
        if different.any():
            axes = np.nonzero(different.any(axis=-1))
            starts = *(part.start for part in tile), *(0,) * (len(shape) - 2)
            at = tuple(int(start + axis[0]) for start, axis in zip(starts, axes, strict=True))
            raise WrongResult(
                f"{case.name}: element {at} holds the bits {got[at].tolist()}, "
                f"expected are {expected[at].tolist()}"
            )

    # Long and narrow copies have tall tiles.
    width = min(shape[1], _COPY_TILE)
    height = max(1, _COPY_TILE * _COPY_TILE // width)
    tiles = [
        (slice(row, row + height), slice(column, column + width))
        for row in range(0, shape[0], height)
        for column in range(0, shape[1], width)
    ]
    run_in_parallel(compare, tiles)


def _first_greatest(keys: Array, take_last: bool) -> Array:
    at: Array = np.ascontiguousarray(keys[:, ::-1] if take_last else keys).argmax(axis=1)
    return keys.shape[1] - 1 - at if take_last else at


def _first_row_equal(keys: Array, greatest: Array, take_last: bool) -> Array:
    """Return for each column the first (or last) row that holds its greatest key."""
    count = keys.shape[0]
    found = np.full(keys.shape[1], -1, np.int64)
    step = 32
    blocks = range(0, count, step)
    for start in reversed(blocks) if take_last else blocks:
        equal = keys[start : start + step] == greatest
        columns = np.nonzero(equal.any(axis=0) & (found < 0))[0]
        if columns.size:
            here = equal[:, columns]
            at = here.argmax(axis=0) if not take_last else len(here) - 1 - here[::-1].argmax(axis=0)
            found[columns] = start + at
            if not (found < 0).any():
                break
    return found


def _offsets(case: Case, indices: Array) -> Array:
    """Return where in memory, in elements, the chosen elements of all outputs lie."""
    offsets = np.zeros((1,), np.int64)
    for axis, (size, stride) in enumerate(zip(case.sizes, case.strides, strict=True)):
        if axis not in case.axes:
            offsets = (offsets[:, None] + np.arange(size) * stride).reshape(-1)
    reduced = [case.sizes[axis] for axis in case.axes]
    for axis, position in zip(case.axes, np.unravel_index(indices, reduced), strict=True):
        offsets = offsets + position * case.strides[axis]
    return offsets


def _compare(case: Case, what: str, got: Array, expected: Array) -> None:
    different = np.nonzero(got != expected)[0]
    if different.size:
        at = int(different[0])
        raise WrongResult(
            f"{case.name}: {what} of output {at} is {got[at]}, expected is {expected[at]} "
            f"({different.size} of {expected.size} outputs differ)"
        )
