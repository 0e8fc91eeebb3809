"""Objects with read-only attributes: shape, type and memory of an array must stay consistent."""

from __future__ import annotations

from typing import NoReturn, TypeVar


class ReadOnly:
    """Refuses to set or delete attributes; constructors set them with :func:`fix`."""

    __slots__ = ()
    _instead = ""
    """The end of the message: what to do instead."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise self._refusal("set", name)

    def __delattr__(self, name: str) -> NoReturn:
        raise self._refusal("delete", name)

    def _refusal(self, verb: str, name: str) -> AttributeError:
        kind = type(self).__qualname__
        return AttributeError(
            f"cannot {verb} {name!r}: all attributes of {kind} are read-only{self._instead}"
        )


Fixed = TypeVar("Fixed", bound=ReadOnly)


def refuses_as_read_only(cls: type[Fixed]) -> type[Fixed]:
    """Let a frozen dataclass with slots refuse all attributes as its base class does.

    The methods that ``dataclass`` adds to it fail for names that are no fields: they look for the class as it
    was before it got slots.
    """
    for method in ("__setattr__", "__delattr__"):
        setattr(cls, method, getattr(ReadOnly, method))
    return cls


fix = object.__setattr__
