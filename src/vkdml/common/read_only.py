"""Objects whose attributes cannot be changed: their shape, type and memory belong together."""

from __future__ import annotations

from typing import NoReturn


class ReadOnly:
    """Refuses that attributes are set or deleted; :func:`fix` sets them where the object is made."""

    __slots__ = ()
    _instead = ""
    """What to do instead, for the message."""

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
