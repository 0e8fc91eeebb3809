"""The package dask with its arrays, or the sentence that says how to get it."""

import re
from importlib.metadata import version

from vkdml.common.wording import how_to_install

try:
    import dask
    import dask.array
except ImportError as error:
    # dask.array asks for NumPy's and toolz's versions in sentences of its own.
    if not isinstance(error, ModuleNotFoundError) or error.name not in ("dask", "toolz"):
        raise
    raise ModuleNotFoundError(
        "vkdml.dask works on the arrays of the package dask, which is not installed: "
        + how_to_install("'dask[array,distributed]'", "dask"),
        name="dask",
    ) from None

OLDEST = 2025, 12
"""Its earlier reductions fail on candidates, which have two fields."""


def require_recent(installed: str) -> None:
    """Raise ImportError for a version of Dask that is too old.

    >>> require_recent("2025.12.0"), require_recent("2026.3.1+local")
    (None, None)
    """
    numbers = re.match(r"(\d+)\.(\d+)", installed)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise ImportError(
            f"vkdml.dask needs dask {OLDEST[0]}.{OLDEST[1]} or newer, and {installed} is installed: "
            + how_to_install("'dask[array,distributed]>=2025.12'", "dask"),
            name="dask",
        )


require_recent(version("dask"))

__all__ = ["dask"]
