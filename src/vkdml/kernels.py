"""The kernel table of ``shaders/kernels.json``: which kernels there are, and their SPIR-V."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True)
class KernelEntry:
    """One SPIR-V module of the table."""

    name: str
    """Module name: the kernel's name, an underscore, the variant's name."""
    kernel: str
    variant: str
    bindings: tuple[str, ...]
    """What binding 0, 1, ... is: ``input``, ``indices``, ``values``, ``output`` or ``workspace``."""


@lru_cache(maxsize=1)
def table() -> dict[str, KernelEntry]:
    """Return every kernel by module name.

    >>> table()["argreduce_rows_float32"].bindings
    ('input', 'indices', 'values', 'workspace')
    """
    content = json.loads((resources.files("vkdml") / "spirv" / "kernels.json").read_text())
    entries = {}
    for kernel in content["kernels"]:
        for variant in content["variants"][kernel["variants"]]:
            name = f"{kernel['name']}_{variant}"
            entries[name] = KernelEntry(name, kernel["name"], variant, tuple(kernel["bindings"]))
    return entries


@lru_cache(maxsize=256)
def spirv(name: str) -> bytes:
    """Return the SPIR-V of one kernel of the table."""
    return (resources.files("vkdml") / "spirv" / f"{name}.spv").read_bytes()
