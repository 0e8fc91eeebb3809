"""How messages name what was given."""

from __future__ import annotations


def with_article(name: object) -> str:
    """Put the article before the name of a type.

    >>> with_article("int64"), with_article("uint8")
    ('an int64', 'a uint8')
    """
    return f"{'an' if str(name)[:1].lower() in tuple('aeio') else 'a'} {name}"


def type_of(value: object) -> str:
    """Name the type of a value with its article.

    >>> type_of(1), type_of("x"), type_of(None)
    ('an int', 'a str', 'None')
    """
    return "None" if value is None else with_article(type(value).__name__)
