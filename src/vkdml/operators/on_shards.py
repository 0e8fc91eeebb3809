"""The operators on sharded arrays: each device processes its shards, and the host folds the results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vkdml.arguments import ReduceRequest, SliceRequest, context
from vkdml.arrays.array import Array
from vkdml.arrays.sharded import ShardedArray, cell_of
from vkdml.operators.fold import fold
from vkdml.operators.on_device import StartedReduction
from vkdml.operators.progress import is_reported
from vkdml.operators.result import ArgReduceResult
from vkdml.plan.layout import row_major_strides


def reduce(x: ShardedArray, request: ReduceRequest) -> Any:
    """See :func:`vkdml.argmax`."""
    with context(request.operator, x):
        _require_no_place(request)
        reduction = request.checked(x.shape, x.dtype)
        reduction.require_elements(request.operator)
        request = request._replace(axis=reduction.axes)  # an iterator has its entries once
        weights = row_major_strides(
            tuple(size if a in reduction.axes else 1 for a, size in enumerate(x.shape))
        )
        indices = np.empty(reduction.kept_shape, np.uint64)
        bits = np.empty(reduction.kept_shape, f"u{x.itemsize}")
        started = [
            (
                start,
                StartedReduction(
                    shard, replace(request.checked(shard.shape, x.dtype), with_values=True), weights
                ),
            )
            for shard, start in zip(x.shards, x.starts, strict=True)
            if shard.size
        ]
        for number, (start, part) in enumerate(started):
            found, values = part.finish()
            found_bits = values.view(bits.dtype)
            if x.axis not in reduction.axes:
                cell = cell_of(x.axis, start, found.shape[x.axis], x.ndim)
                indices[cell], bits[cell] = found, found_bits
                continue
            found += np.uint64(start * weights[x.axis])
            if number == 0:
                indices[...], bits[...] = found, found_bits
            else:
                fold(reduction.order, bits, indices, found_bits, found)
        result = indices.reshape(reduction.shape).astype(reduction.index_dtype)[()]
        if not reduction.with_values:
            return result
        return ArgReduceResult(result, bits.reshape(reduction.shape).view(x.dtype)[()])


def slice1(x: ShardedArray, request: SliceRequest) -> ShardedArray:
    """See :func:`vkdml.slice1`: each shard's part of the window is copied on its device."""
    with context("slice1", x):
        _require_no_place(request)
        window = request.checked(x.shape)
        chosen = window.view_of(x)
        parts = (chosen,) if isinstance(chosen, Array) else chosen.shards
        return ShardedArray([part.copy() for part in parts], x.axis)


def _require_no_place(request: ReduceRequest | SliceRequest) -> None:
    """Raise TypeError for options that say where to compute or where to write."""
    progress = request.progress if is_reported(request.progress) else None
    for name, value in (("out", request.out), ("device", request.device), ("progress", progress)):
        if value is not None:
            raise TypeError(
                f"{name}= is not accepted with a sharded array: the devices of its shards process it, and "
                "results are new arrays"
            )
