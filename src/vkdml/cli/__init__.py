"""The entry point of the `vkdml` command; imports typer and rich only when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from vkdml.common.wording import how_to_install

__all__ = ["main"]

_EXTRA = {"typer", "rich", "click"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `vkdml` command and return its exit status.

    >>> main(["--version"])
    vkdml 0.1.0
    0

    Args:
        arguments: the words after ``vkdml``; None takes them from ``sys.argv``.

    Returns:
        0 if the command succeeded, 1 if it found a fault, 2 for wrong arguments, 130 if it was interrupted.
    """
    try:
        from vkdml.cli.app import run
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        print(
            f"vkdml: the command line needs {package}, which is not installed: "
            + how_to_install("typer rich", "cli"),
            file=sys.stderr,
        )
        return 2
    return run(sys.argv[1:] if arguments is None else list(arguments))
