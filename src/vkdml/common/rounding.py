"""Rounding of integers."""

from __future__ import annotations


def ceil_div(a: int, b: int) -> int:
    """Return the quotient, rounded up.

    >>> ceil_div(9, 4), ceil_div(8, 4)
    (3, 2)
    """
    return -(-a // b)


def round_up(n: int, step: int) -> int:
    """Return the least multiple of ``step`` from ``n`` on.

    >>> round_up(9, 4), round_up(8, 4)
    (12, 8)
    """
    return ceil_div(n, step) * step
