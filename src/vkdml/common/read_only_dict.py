"""A mapping that cannot be changed, and still is a dict to JSON, pickle and dataclasses.asdict."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ReadOnlyDict(dict[Key, Value]):
    """A dict whose items cannot be assigned or removed; hashable if its values are.

    >>> limits = ReadOnlyDict(subgroup=8)
    >>> limits["subgroup"], limits | {"subgroup": 4}
    (8, {'subgroup': 4})

    Raises:
        TypeError: on every attempt to change it; ``dict(it)`` is a copy that can be changed.
    """

    # types.MappingProxyType would do, but for json.dumps, pickle, copy.deepcopy and asdict, which refuse it.
    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this dict is read-only: dict(...) makes a copy that can be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def read_only(value: Any) -> Any:
    """Return a value of which no part can be changed: dicts read-only, lists as tuples, at any depth.

    >>> read_only({"sizes": [1, 2]})
    {'sizes': (1, 2)}
    """
    if isinstance(value, dict):
        return ReadOnlyDict({key: read_only(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(read_only, value))
    return value
