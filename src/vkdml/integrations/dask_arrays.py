"""What the operators on Dask arrays share: which objects are taken, and functions of whole chunks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkdml.arrays.chunked import require_as_said
from vkdml.arrays.foreign import FILLED_BY_DASK, attribute, require_plain
from vkdml.common.wording import put_before, type_of
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
    """If ``places`` is empty: the length of every chunk but the last, which may be shorter."""
    places: tuple[int, ...] = ()
    end: int | None = None
    """Where the last chunk ends; None if that is not known."""

    def __call__(self, number: int) -> int:
        """Return where a chunk begins.

        >>> begins_of((5, 5, 2))(2), begins_of((1, 5, 2))(2)
        (10, 6)
        """
        return self.places[number] if self.places else number * self.extent

    def extent_of(self, number: int) -> int | None:
        """Return the size of a chunk, or None if it is not known.

        >>> begins_of((5, 5, 2)).extent_of(2), begins_of((1, 5, 2)).extent_of(1)
        (2, 5)
        """
        if self.end is None:
            return None
        if not self.places:
            return min(self.extent, self.end - self(number))
        return (*self.places, self.end)[number + 1] - self.places[number]


def begins_of(extents: Sequence[float]) -> Begins:
    """Return where chunks of these extents begin; of unknown extents, only a first chunk's is right: 0."""
    if any(math.isnan(extent) for extent in extents):
        return Begins(0)
    *full, last = (int(extent) for extent in extents)
    end = sum(full) + last
    if all(extent == full[0] for extent in full) and last <= (full or [last])[0]:
        return Begins((full or [last])[0], (), end)
    return Begins(0, tuple(itertools.accumulate(full, initial=0)), end)


def checked_chunk(chunk: Any, dtype: np.dtype[Any], dims: Sequence[Begins], place: tuple[int, ...]) -> Any:
    """Return a chunk if it is of the type and the size that Dask was told, as an array.

    Args:
        chunk: what Dask computed.
        dtype: of the whole array.
        dims: where the chunks along each dimension begin.
        place: the chunk's number along each of them.

    Raises:
        TypeError: another type.
        ValueError: another shape.
    """
    try:
        require_plain(chunk, filled=FILLED_BY_DASK)
        if not isinstance(attribute(chunk, "dtype"), np.dtype):
            chunk = np.asarray(chunk)
        shape = [begins.extent_of(number) for begins, number in zip(dims, place, strict=True)]
        require_as_said(chunk, dtype, shape)
    except (TypeError, ValueError) as error:
        put_before(error, f"chunk {place} of this dask Array")
        raise
    return chunk


__all__ = ["AnyArray", "Begins", "begins_of", "checked_chunk", "lazily", "require_dask_array"]
