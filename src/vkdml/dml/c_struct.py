"""Dataclasses that are built and read like the C structures that they represent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import Any, Final, TypeVar

from vkdml.common.integers import index

from .c_names import C_NAMES, c_field_name

_T = TypeVar("_T")

# Metadata of a field that holds the number of entries of the array after it.
COUNT: Final[Mapping[str, bool]] = {"count": True}


def c_struct(name: str) -> Callable[[type[_T]], type[_T]]:
    """Register a dataclass under its C name; make its fields accept C's names and C's order.

    >>> tensor = C_NAMES["DML_BUFFER_TENSOR_DESC"]
    >>> tensor(1, Sizes=(2, 3)).sizes == tensor(1, 0, 2, (2, 3)).Sizes
    True

    Fields are given by position, in the order of their definitions, or by either name. A count that is given
    by position may be left out: an array in its place is recognized as the next field.

    Args:
        name: the structure's name in C.

    Returns:
        A class decorator.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        C_NAMES[name] = cls
        members = fields(cls)  # type: ignore[arg-type]
        python_init = vars(cls)["__init__"]

        @functools.wraps(python_init)
        def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
            python_init(self, **_by_name(cls.__name__, members, args, kwargs))

        setattr(cls, "__init__", init)  # noqa: B010 - mypy refuses the plain assignment
        for member in members:
            doc = f"Same as ``{member.name}``."
            setattr(cls, c_field_name(member.name), property(attrgetter(member.name), doc=doc))
        return cls

    return decorate


def _by_name(
    struct: str, members: Sequence[Field[Any]], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of the given fields by Python name.

    Raises:
        TypeError: too many values, an unknown field, a field given twice, or a missing one.
    """
    given: dict[str, Any] = {}
    left = list(members)
    for value in args:
        if left and left[0].metadata.get("count") and not _is_integer(value):
            del left[0]
        if not left:
            raise TypeError(f"{struct} has {len(args)} values by position, too many; {_accepted(members)}")
        given[left.pop(0).name] = value
    by_position = ", ".join(given)
    python_names = {name: m.name for m in members for name in (m.name, c_field_name(m.name))}
    for name, value in kwargs.items():
        if name not in python_names:
            raise TypeError(f"{struct} has no field {name}; {_accepted(members)}")
        field = python_names[name]
        if field in given:
            raise TypeError(
                f"{struct}: {field} is given twice; accepted: one value, by position, as {field} or as "
                f"{c_field_name(field)}"
            )
        given[field] = value
    missing = [m.name for m in members if m.default is MISSING and m.name not in given]
    if missing:
        taken_as = f"; the values by position were taken as {by_position}" if by_position else ""
        raise TypeError(f"{struct} lacks {', '.join(missing)}{taken_as}; {_accepted(members)}")
    return given


def _accepted(members: Sequence[Field[Any]]) -> str:
    names = ", ".join(
        f"{m.name} or {c_field_name(m.name)}" + ("" if m.default is MISSING else " (optional)")
        for m in members
    )
    return f"accepted, by name or in this order: {names}"


def _is_integer(value: object) -> bool:
    try:
        index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
