"""Options that say what they accept; an empty text is not taken for an option that is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer

Number = TypeVar("Number", int, float)


def text(*names: str, help: str, metavar: str, accepted: str) -> Any:
    """Return an option that is "" where it is not given, and refused where that is given."""

    def named(given: str | None) -> str:
        if given == "":
            raise typer.BadParameter(f"'': accepted: {accepted}")
        return given or ""

    return typer.Option(None, *names, help=help, metavar=metavar, callback=named, show_default=False)


def file(name: str, help: str) -> Any:
    """Return the option of a file's name; it is "" where it is not given."""

    def named(given: str | None) -> str:
        if given == "":
            raise typer.BadParameter("'': accepted is the name of a file")
        if given == "-":
            raise typer.BadParameter("'-': accepted is the name of a file (./- is the file of that name)")
        return given or ""

    return typer.Option(None, name, help=help, metavar="FILE", callback=named, show_default=False)


def whole_number(text: str | int) -> int:
    """Return the whole number that an option's text is.

    >>> whole_number("12")
    12
    """
    return _read(int, text, "a whole number")


def number(text: str | float) -> float:
    """Return the number that an option's text is.

    >>> number("1.5")
    1.5
    """
    return _read(float, text, "a number")


def _read(kind: Callable[[Any], Number], text: object, accepted: str) -> Number:
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: accepted is {accepted}") from None
