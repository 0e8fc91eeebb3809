"""Descriptors of tensors with strides of any kind, and of the reductions of DirectML by their names."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from vkdml import dml
from vkdml.dml import DataType

FUNCTIONS: dict[str, type[dml.ArgMinOperatorDesc] | type[dml.ArgMaxOperatorDesc]] = {
    "ARGMIN": dml.ArgMinOperatorDesc,
    "ARGMAX": dml.ArgMaxOperatorDesc,
}


def tensor(data_type: str, *sizes: int, **fields: Any) -> dml.BufferTensorDesc:
    return dml.BufferTensorDesc(DataType[data_type], sizes=sizes, **fields)


@st.composite
def layouts(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides that keep elements apart: dimensions nested in any order, with gaps; or None."""
    if draw(st.booleans()):
        return None
    strides, span = [0] * len(sizes), 1
    for dimension in draw(st.permutations(range(len(sizes)))):
        strides[dimension] = span + draw(st.integers(0, 3))
        span = strides[dimension] * sizes[dimension]
    return tuple(strides)
