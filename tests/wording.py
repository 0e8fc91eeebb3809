"""What a message of the form "X is Y; accepted: Z" states, apart from how it is worded."""

from __future__ import annotations

import re

from vkdml import dml

WORD = re.compile(r"-?\w[\w.\[\]]*")


def facts(message: str) -> tuple[str, list[str], list[str], bool]:
    """Return the subject, the numbers and names given and accepted, and whether the rule is vkdml's own.

    "axes[0] is 4; accepted: 0 to 3" states ("axes[0]", ["axes[0]", "4"], ["0", "3"], False).
    """
    subject, is_, _ = message.partition(" is ")
    given, accepted, rest = message.partition("; accepted")
    assert is_, message
    assert accepted, message
    return subject, _facts(given), _facts(rest), "a rule of vkdml" in message


def _facts(text: str) -> list[str]:
    words = (word.rstrip(".") for word in WORD.findall(text))
    return [
        word
        for word in words
        if re.search(r"\d|_", word) or (len(word) > 1 and word.isupper()) or hasattr(dml, word)
    ]
