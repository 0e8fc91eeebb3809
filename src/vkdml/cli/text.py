"""Numbers as the commands print them."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Return a number of bytes as text, in the largest unit in which it is at least 1.

    >>> size(1536)
    '1.5 KiB'
    """
    amount = float(count)
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    return f"{amount:.3g} {_UNITS[unit]}" if unit and amount < 1000 else f"{amount:.0f} {_UNITS[unit]}"


def count(number: int, noun: str) -> str:
    """Return a number and a noun, with "no" for 0 and the plural's s.

    >>> count(2, "problem"), count(0, "warning")
    ('2 problems', 'no warnings')
    """
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
