"""The wording of errors: what a field holds and what it may hold."""

from __future__ import annotations


def refusal(where: str, given: object, accepted: object) -> ValueError:
    """Return the ValueError that names a field, what it holds and what it may hold.

    >>> refusal("axes[0]", 4, "0 to 3")
    ValueError('axes[0] is 4; accepted: 0 to 3')
    """
    return ValueError(f"{where} is {given}; accepted: {accepted}")


def wrong_type(where: str, given: object, accepted: object) -> TypeError:
    """Return the TypeError that names a field, what it holds, of which type, and what it may hold.

    >>> wrong_type("axes", 1, "a sequence of integers")
    TypeError('axes is 1, of type int; accepted: a sequence of integers')
    """
    return TypeError(f"{where} is {given!r}, of type {type(given).__name__}; accepted: {accepted}")
