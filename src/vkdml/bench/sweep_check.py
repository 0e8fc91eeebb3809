"""Says whether a sweep's results are right, from the input's bits alone: keys, NumPy and threads, no kernel.

Views are cut as :mod:`vkdml.bench.view_indices` cuts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vkdml.bench.cases import Case
from vkdml.bench.check import WrongResult
from vkdml.bench.contents import Bytes, unsigned
from vkdml.bench.keys import Array, run_in_parallel
from vkdml.bench.sweep import SweepCase
from vkdml.bench.view_indices import BLOCK_BYTES, cut, halved, part, right_indices


def check(case: SweepCase, content: Bytes, outputs: Mapping[str, Bytes], index_bytes: int) -> None:
    """Raise unless the outputs are those of the case.

    Args:
        case: what was computed.
        content: at least the input's bytes.
        outputs: role to bytes: ``indices`` or ``output``.
        index_bytes: of one index.

    Raises:
        WrongResult: naming the position, what it holds and what it should.
    """
    bits = content[: case.input_bytes].view(unsigned(case.element_bytes)).reshape(case.memory_shape)
    view = bits.transpose(case.permutation)
    if case.window is not None:
        view = view[case.cuts]
    if case.view is not None:
        byte_strides = tuple(stride * case.element_bytes for stride in case.view.strides)
        view = np.lib.stride_tricks.as_strided(bits, case.view.sizes, byte_strides, writeable=False)
    if case.is_copy:
        got = outputs["output"][: case.outputs * case.element_bytes].view(bits.dtype)
        _check_copy(view, got.reshape(view.shape))
        return
    expected = right_indices(view, case.axes, Case("", case.op, case.element, (1,)))
    got = outputs["indices"][: case.outputs * index_bytes].view(f"i{index_bytes}").reshape(expected.shape)
    different = np.flatnonzero(got != expected)
    if different.size:
        at = np.unravel_index(different[0], expected.shape)
        raise WrongResult(
            f"the index of output {tuple(map(int, at))} is {got[at]}, expected is {expected[at]} "
            f"({different.size} of {expected.size} outputs differ)"
        )


def _check_copy(expected: Array, got: Array) -> None:
    def compare(at: tuple[int, int, int]) -> None:
        axis, start, stop = at
        _compare_block(expected, got, [0] * axis + [start], part(axis, start, stop))

    run_in_parallel(compare, cut(expected))


def _compare_block(expected: Array, got: Array, origin: list[int], block: tuple[Any, ...]) -> None:
    expected, got = expected[block], got[block]
    if expected.nbytes > BLOCK_BYTES:
        axis, middle = halved(expected)
        origin = origin + [0] * (expected.ndim - len(origin))
        _compare_block(expected, got, origin, part(axis, 0, middle))
        moved = [at + (middle if each == axis else 0) for each, at in enumerate(origin)]
        _compare_block(expected, got, moved, part(axis, middle, expected.shape[axis]))
        return
    different = expected != got
    if different.any():
        at = tuple(np.argwhere(different)[0])
        origin = origin + [0] * (expected.ndim - len(origin))
        place = tuple(int(start + each) for start, each in zip(origin, at, strict=True))
        width = 2 * expected.dtype.itemsize
        raise WrongResult(
            f"element {place} holds the bits {int(got[at]):#0{width + 2}x}, "
            f"expected are {int(expected[at]):#0{width + 2}x}"
        )
