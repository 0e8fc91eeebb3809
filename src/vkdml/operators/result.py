"""What argmin and argmax return when values are asked for."""

from __future__ import annotations

from typing import Any, NamedTuple


class ArgReduceResult(NamedTuple):
    """What ``return_values=True`` returns."""

    indices: Any
    """The chosen indices."""
    values: Any
    """The chosen elements, bit for bit, in the input's dtype."""
