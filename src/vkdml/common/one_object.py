"""Objects that stand for something there is once, as an open device: a copy of one is the object itself."""

from __future__ import annotations

from typing import TypeVar

Self = TypeVar("Self", bound="OneObject")


class OneObject:
    """Is returned by ``copy.copy`` and ``copy.deepcopy`` as it is."""

    __slots__ = ()

    def __copy__(self: Self) -> Self:
        return self

    def __deepcopy__(self: Self, _: object) -> Self:
        return self
