"""Words and numbers as the commands print them."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Say a number of bytes in the largest unit that keeps it at least 1: `size(1536)` is '1.5 KiB'."""
    amount = float(count)
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    return f"{amount:.3g} {_UNITS[unit]}" if unit and amount < 1000 else f"{amount:.0f} {_UNITS[unit]}"


def count(number: int, noun: str) -> str:
    """Say how many of something there are: `count(2, "problem")` is '2 problems'."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
