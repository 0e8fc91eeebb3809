"""Objects with read-only attributes: shape, type and memory of an array must stay consistent."""

from __future__ import annotations

from typing import NoReturn


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


fix = object.__setattr__
