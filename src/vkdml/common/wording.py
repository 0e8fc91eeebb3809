"""The wording of errors: what was given, and what would be accepted."""

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


def wrong_type(where: str, given: object, accepted: object) -> TypeError:
    """Return the TypeError that names an argument, the type that was given and what would be accepted.

    >>> wrong_type("axes", 1, "a sequence of integers")
    TypeError('axes is an int; accepted: a sequence of integers')
    """
    return TypeError(f"{where} is {type_of(given)}; accepted: {accepted}")


def wrong_value(where: str, given: object, accepted: object) -> ValueError:
    """Return the ValueError that names an argument, the value that was given and what would be accepted.

    >>> wrong_value("axes[0]", 4, "0 to 3")
    ValueError('axes[0] is 4; accepted: 0 to 3')
    """
    return ValueError(f"{where} is {given}; accepted: {accepted}")


def leave_as_raised(error: BaseException) -> None:
    """Mark an error of the user's own function, which keeps the arguments that it was raised with."""
    error.__dict__["_vkdml_leaves_as_raised"] = True


def is_left_as_raised(error: BaseException) -> bool:
    """Tell whether :func:`leave_as_raised` marked an error."""
    return "_vkdml_leaves_as_raised" in error.__dict__


def put_before(error: BaseException, said: str) -> None:
    """Put words before an error's message; one with other arguments, or of the user's, gets a note instead.

    >>> error = ValueError("stride 0")
    >>> put_before(error, "slice1")
    >>> error
    ValueError('slice1: stride 0')
    """
    is_message = len(error.args) == 1 and isinstance(error.args[0], str)
    if is_message and not is_left_as_raised(error):
        error.args = (f"{said}: {error.args[0]}",)
    elif hasattr(error, "add_note"):  # Python 3.11
        error.add_note(said)


def how_to_install(packages: str, extra: str) -> str:
    """Return the command that installs packages, and the one that the pages name: the extra that has them.

    >>> print(how_to_install("typer rich", "cli"))
    pip install typer rich, or pip install '.[cli]' in vkdml's source folder
    """
    return f"pip install {packages}, or pip install '.[{extra}]' in vkdml's source folder"
