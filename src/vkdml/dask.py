"""argmax, argmin and slice1 of Dask arrays: lazy, by chunks, each on the device of the worker that has it.

>>> import dask.array, numpy as np, vkdml.dask
>>> x = dask.array.from_array(np.array([[1, 5, 5], [7, 2, 7]]), chunks=(1, 2))
>>> vkdml.dask.argmax(x, axis=1).compute()
array([1, 0])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from vkdml.arguments import Direction, NanPolicy, ReduceRequest, SliceRequest
from vkdml.integrations import dask_reduction, dask_slice
from vkdml.integrations.dask_devices import Selector

if TYPE_CHECKING:
    import dask.array


def argmax(
    x: dask.array.Array,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
    direction: Direction = "increasing",
    nan_policy: NanPolicy = "propagate",
    return_values: bool = False,
    device: Selector = None,
    split_every: int | Mapping[int, int] | None = None,
) -> Any:
    """Return, lazily, the indices of the greatest elements along one axis, several, or all.

    >>> import dask.array, vkdml.dask
    >>> x = dask.array.zeros((6, 6), chunks=3)
    >>> x[0, 5] = x[1, 0] = 1
    >>> int(vkdml.dask.argmax(x)), int(vkdml.dask.argmax(x, direction="decreasing"))
    (5, 6)

    Args:
        x: a Dask array of elements that :func:`vkdml.argmax` takes.
        axis: as of :func:`vkdml.argmax`, and so are ``keepdims``, ``dtype``, ``direction``, ``nan_policy``
            and ``return_values``.
        device: a number, a name, a UUID, or a list of them, which every worker looks up; None takes the
            worker's own default device if it has chosen one, else workers of a host take its devices in turn.
        split_every: how many chunks' results a task of the tree folds, at least 2, or a dict of it by axis;
            None takes Dask's configuration.

    Returns:
        A lazy Dask array of indices in the whole array, or a named tuple ``(indices, values)`` of two that
        share their work: compute them together, by ``dask.compute(*result)``.

    Raises:
        ValueError: nothing to choose from, the greatest index does not fit ``dtype``, a bad option, or chunks
            of unknown size along a reduced axis.
        TypeError: ``x`` is no Dask array, or ``device`` is an open device.
        numpy.exceptions.AxisError: an axis that ``x`` does not have.

    What :func:`vkdml.argmax` raises for a chunk, the computation raises.

    Source of the rule: :func:`vkdml.argmax`. Dask's own argmax takes one axis, and of equals in several
    chunks not always the first.
    """
    request = ReduceRequest(
        "argmax", axis, keepdims, dtype, direction, nan_policy, return_values, None, device
    )
    return dask_reduction.reduce(x, request, split_every)


def argmin(
    x: dask.array.Array,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
    direction: Direction = "increasing",
    nan_policy: NanPolicy = "propagate",
    return_values: bool = False,
    device: Selector = None,
    split_every: int | Mapping[int, int] | None = None,
) -> Any:
    """Return, lazily, the indices of the least elements along one axis, several, or all.

    >>> import dask, dask.array, vkdml.dask
    >>> x = dask.array.arange(10, chunks=4) % 4 - 1
    >>> index, value = dask.compute(*vkdml.dask.argmin(x, return_values=True))
    >>> int(index), int(value)
    (0, -1)

    Arguments, results and errors are those of :func:`argmax`.

    Source of the rule: :func:`vkdml.argmin`.
    """
    request = ReduceRequest(
        "argmin", axis, keepdims, dtype, direction, nan_policy, return_values, None, device
    )
    return dask_reduction.reduce(x, request, split_every)


def slice1(
    x: dask.array.Array,
    offsets: int | Sequence[int],
    sizes: int | Sequence[int],
    strides: int | Sequence[int],
    *,
    output_sizes: int | Sequence[int] | None = None,
    device: Selector = None,
) -> Any:
    """Return, lazily, a strided, possibly mirrored window of an array.

    >>> import dask.array, vkdml.dask
    >>> x = dask.array.arange(16, chunks=4)
    >>> vkdml.dask.slice1(x, 1, 14, -5).compute()
    array([14,  9,  4])

    Args:
        x: a Dask array of elements that :func:`vkdml.slice1` takes.
        offsets: as of :func:`vkdml.slice1`, and so are ``sizes``, ``strides`` and ``output_sizes``.
        device: as of :func:`argmax`.

    Returns:
        A Dask array with a chunk for each chunk of ``x`` that holds an element of the window. Others are not
        computed.

    Raises:
        ValueError: as :func:`vkdml.slice1`; chunks of unknown size.
        TypeError: elements of another size, ``x`` is no Dask array, or ``device`` is an open device.

    Source of the rule: :func:`vkdml.slice1`.
    """
    return dask_slice.slice1(x, SliceRequest(offsets, sizes, strides, output_sizes, None, device))


__all__ = ["argmax", "argmin", "slice1"]
