"""How much scratch memory a reduction may take for candidates."""

from __future__ import annotations

from vkdml.plan.schema import ElementType


def candidate_words(element: ElementType) -> int:
    """Return the words of one candidate: a key and a rank."""
    return (2 if element.nbytes == 8 else 1) + 1


def most_candidates(element: ElementType, input_bytes: int) -> int:
    """Return how many candidates fit the scratch memory, 1% of the input plus 1 MiB.

    Layout and counters take less than the 64 KiB that are left.
    """
    scratch = input_bytes // 100 + (1 << 20) - (1 << 16)
    return scratch // (candidate_words(element) * 4)
