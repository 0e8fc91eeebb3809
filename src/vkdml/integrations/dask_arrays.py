"""What the operators on Dask arrays share: which objects are taken, and functions of whole chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml.arrays.foreign import attribute
from vkdml.common.wording import type_of
from vkdml.integrations.dask_package import dask

AnyArray = npt.NDArray[Any]


def require_dask_array(x: Any, operator: str) -> None:
    """Raise TypeError for what is no Dask array; the message says how to make one."""
    if isinstance(x, dask.array.Array):
        return
    within = attribute(x, "data")
    hint = (
        "; its .data is one"
        if isinstance(within, dask.array.Array)
        else f"; vkdml.{operator} takes others, and dask.array.from_array and from_zarr make one"
    )
    raise TypeError(f"{operator}: x is {type_of(x)}; accepted is a dask.array.Array{hint}")


def lazily(x: Any, function: Callable[[Any, np.dtype[Any]], Any], dtype: np.dtype[Any]) -> Any:
    """Return a lazy array of what a function makes of each chunk; shapes stay."""
    return x.map_blocks(function, dtype, dtype=dtype, meta=np.empty((0,) * x.ndim, dtype))


class Begins(NamedTuple):
    """Where the chunks along a dimension begin; short, as it travels with every task."""

    extent: int
    """Of every chunk but the last, if ``places`` is empty."""
    places: tuple[int, ...] = ()

    def __call__(self, number: int) -> int:
        """Return where a chunk begins.

        >>> begins_of((5, 5, 2))(2), begins_of((1, 5, 2))(2)
        (10, 6)
        """
        return self.places[number] if self.places else number * self.extent


def begins_of(extents: Sequence[float]) -> Begins:
    """Return where chunks of these extents begin; one alone begins at 0 whatever its size."""
    *full, _ = (int(extent) for extent in extents) if len(extents) > 1 else (0,)
    if len(set(full)) < 2:
        return Begins(full[0] if full else 0)
    return Begins(0, tuple(itertools.accumulate(full, initial=0)))


__all__ = ["AnyArray", "Begins", "begins_of", "lazily", "require_dask_array"]
