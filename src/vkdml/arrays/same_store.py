"""Whether two arrays of zarr, tensorstore or h5py lie in one store, by whatever names it was opened."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from typing import Any, NamedTuple

from vkdml.arrays.foreign import attribute

# zarr's stores may be wrapped: in caches, in logs.
DEEPEST_WRAPPING = 8


class _Place(NamedTuple):
    """Where an array lies; equal for equal places only."""

    store: Any
    part: tuple[Any, ...] = (None, None)
    """Tells apart arrays that lie side by side in one store."""


def share_a_store(first: Any, second: Any) -> bool:
    """Tell whether two arrays are known to have elements in common, in one folder, file or store."""
    try:
        if _shares_parts(first, second):
            return True
        one, other = _place(first), _place(second)
        if one is None or other is None or one.part != other.part:
            return False
        return (one.store == other.store or _share_context(first, second)) and not _are_apart(first, second)
    except Exception:  # libraries raise errors of their own for stores that have no description
        return False


def _place(held: Any) -> _Place | None:
    if _kvstore(held) is not None:
        spec = held.spec().to_json()
        return _Place(
            _resolved(_kvstore(held).spec().to_json()), (spec.get("scale_index"), spec.get("field"))
        )
    system, folder = _folder(attribute(held, "store"))
    path = attribute(held, "path")
    if folder is None or not isinstance(path, str):
        return None
    if system is None:
        return _Place(_file(os.path.join(folder, path)))
    return _Place((system, _from_root(folder, path)))


def _folder(store: Any) -> tuple[Any, str | None]:
    """Return where a store of zarr's begins, and in which file system of fsspec's: None is this machine's."""
    for _ in range(DEEPEST_WRAPPING):
        system = attribute(store, "fs")
        protocols = attribute(system, "protocol")
        if "file" in ([protocols] if isinstance(protocols, str) else protocols or ()):
            system = None
        for name in ("root", "path"):
            folder = attribute(store, name)
            if isinstance(folder, str | os.PathLike):
                return system, os.fspath(folder)
        store = attribute(store, "_store")
    return None, None


def _from_root(*parts: str) -> str:
    return posixpath.normpath("/".join(parts)).lstrip("/")


def _file(path: str) -> Any:
    """Return what is equal for all names of a file or folder."""
    try:
        found = os.stat(path)
    except OSError:  # within a file, such as an archive
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


# ---- arrays that are made of others' parts -----------------------------------------------------------------


def _shares_parts(first: Any, second: Any) -> bool:
    """Tell whether one array is made of others' parts, and the other is one of these or made of one."""
    one, other = list(_parts(first)), list(_parts(second))
    if not one and not other:
        return False
    return any(a == b for a in one or [_whole(first)] for b in other or [_whole(second)] if a is not None)


def _parts(held: Any) -> Iterator[Any]:
    """Yield where the parts of a virtual dataset of HDF5 lie, or of a stack of tensorstore's."""
    if attribute(held, "is_virtual") is True:
        file = held.file.filename
        for source in held.virtual_sources():
            path = file if source.file_name == "." else os.path.join(os.path.dirname(file), source.file_name)
            yield _file(path), _from_root(source.dset_name)
    elif callable(attribute(held, "spec")):
        for layer in held.spec().to_json().get("layers", ()):
            yield _resolved(layer.get("kvstore"))


def _whole(held: Any) -> Any:
    """Return the same of an array that is no such one."""
    if callable(attribute(held, "virtual_sources")):
        return _file(held.file.filename), _from_root(held.name)
    place = _place(held)
    return place and place.store


# ---- tensorstore -------------------------------------------------------------------------------------------


def _kvstore(held: Any) -> Any:
    return attribute(held, "kvstore")


def _resolved(spec: Any) -> Any:
    """Return the description of a key-value store, with files in place of their names."""
    if isinstance(spec, list):
        return [_resolved(entry) for entry in spec]
    if not isinstance(spec, dict):
        return spec
    if spec.get("driver") == "file":
        return _file(spec.get("path", ""))
    if spec.get("driver") == "memory":
        return object()  # equal names are of one store only in one context
    return {name: _resolved(entry) for name, entry in spec.items() if name != "context"}


def _share_context(first: Any, second: Any) -> bool:
    """Tell whether two arrays of tensorstore lie in one store of one context, as views of an array do."""
    if _kvstore(first) is None or _kvstore(second) is None:
        return False
    one, other = (_kvstore(held).spec(retain_context=True) for held in (first, second))
    return bool(one == other)


def _are_apart(first: Any, second: Any) -> bool:
    """Tell whether two views of one array of tensorstore have no element in common."""
    if _kvstore(first) is None or _kvstore(second) is None:
        return False
    one, other = _spanned(first), _spanned(second)
    if one is None or other is None or len(one) != len(other):
        return False
    return any(a.stop <= b.start or b.stop <= a.start for a, b in zip(one, other, strict=True))


def _spanned(view: Any) -> list[range] | None:
    """Return which positions of the stored array a view spans along each dimension; None if not known."""
    spans = []
    for of in view.spec().transform.output:
        if of.index_array is not None:
            return None
        low = high = of.offset
        if of.input_dimension is not None:
            bounds = view.domain[of.input_dimension]
            ends = [of.offset + of.stride * place for place in (bounds.inclusive_min, bounds.inclusive_max)]
            low, high = min(ends), max(ends)
        spans.append(range(low, high + 1))
    return spans


__all__ = ["share_a_store"]
