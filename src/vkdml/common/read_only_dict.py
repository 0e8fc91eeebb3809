"""A read-only dict that JSON, pickle and dataclasses.asdict accept."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ReadOnlyDict(dict[Key, Value]):
    """A dict whose items cannot be assigned or removed; hashable if its values are hashable.

    >>> limits = ReadOnlyDict(subgroup=8)
    >>> limits["subgroup"], limits | {"subgroup": 4}
    (8, {'subgroup': 4})

    Raises:
        TypeError: an attempt to change it; ``dict(...)`` of it is a copy that can be changed.
    """

    # json.dumps, pickle, copy.deepcopy and asdict refuse types.MappingProxyType.
    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this dict is read-only; accepted: a copy made by dict(...), which can be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def read_only(value: Any) -> Any:
    """Return a read-only copy of a value: at any depth, dicts are read-only and lists are tuples.

    >>> read_only({"sizes": [1, 2]})
    {'sizes': (1, 2)}
    """
    if isinstance(value, dict):
        return ReadOnlyDict({key: read_only(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(read_only, value))
    return value
