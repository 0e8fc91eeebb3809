"""What upper folders do for methods of classes in lower ones. The package sets these when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

argmax: Callable[..., Any]
"""Of :class:`vkdml.Array` and :class:`vkdml.ShardedArray`: the public function."""
argmin: Callable[..., Any]
"""The same."""
array_namespace: Callable[[str | None], ModuleType]
"""Of ``Array.__array_namespace__``: the namespace for a version of the array API standard."""
