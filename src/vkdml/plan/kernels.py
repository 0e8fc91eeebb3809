"""The kernels that are installed: the schema they were built from, and their SPIR-V."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from vkdml.plan.schema import ElementType, Family, Kernel, Schema, parse


@lru_cache(maxsize=1)
def schema() -> Schema:
    """Return what ``shaders/kernels.json`` says."""
    return parse(json.loads((resources.files("vkdml") / "spirv" / "kernels.json").read_text()))


def table() -> Mapping[str, Kernel]:
    """Return every kernel by module name.

    >>> table()["slice1_runs_4_bytes"].bindings
    ('input', 'output', 'workspace')
    """
    return schema().kernels


def family(name: str) -> Family:
    """Return the kernels of one shader file.

    >>> family("argreduce_rows").source
    'argreduce_rows.comp'
    """
    return schema().families[name]


def elements() -> Mapping[str, ElementType]:
    """Return every element type by name.

    >>> elements()["float16"].nbytes
    2
    """
    return schema().elements


def number(name: str) -> int:
    """Return a number that shaders use too.

    >>> number("vector_bytes")
    16
    """
    return schema().numbers[name]


@lru_cache(maxsize=256)
def spirv(name: str) -> bytes:
    """Return the SPIR-V of one kernel of the table."""
    return (resources.files("vkdml") / "spirv" / f"{name}.spv").read_bytes()
