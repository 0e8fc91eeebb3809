"""The namespace as the suite array-api-tests is given it: vkdml's, and what the suite itself computes with.

The suite compares results by ``==``, ``all``, ``isnan`` and the like, of the library that it tests, and vkdml
has none of them. ``xp`` has them from NumPy, on copies in host memory, for the suite's own needs;
``tests/array_api_skips.txt`` leaves out the tests of all that is not vkdml's. ``./run array-api`` uses this.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import vkdml
from vkdml.arrays.base import DeviceArray

NEEDED_BY_THE_SUITE = (
    *(
        "abs",
        "add",
        "all",
        "any",
        "arange",
        "argsort",
        "astype",
        "equal",
        "imag",
        "isfinite",
        "isinf",
        "isnan",
    ),
    *(
        "less",
        "linspace",
        "logical_not",
        "matrix_transpose",
        "max",
        "nonzero",
        "real",
        "signbit",
        "sort",
        "sum",
    ),
    *("searchsorted", "where"),
)


def _on_host(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return value.numpy()
    return tuple(map(_on_host, value)) if isinstance(value, tuple) else value


def _on_device(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return vkdml.asarray(value)
    return tuple(map(_on_device, value)) if isinstance(value, tuple) else value


def computed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's for Arrays: copies go to it, and its results come back."""

    def on_copies(*values: Any, **options: Any) -> Any:
        return _on_device(function(*map(_on_host, values), **options))

    return on_copies


def _operator(name: str) -> Callable[..., Any]:
    plain = name.removeprefix("__").removesuffix("__")
    if hasattr(operator, name):
        apply = computed(getattr(operator, name))
    elif plain.startswith("r") and hasattr(operator, f"__{plain[1:]}__"):
        reflected = getattr(operator, f"__{plain[1:]}__")
        apply = computed(lambda a, b: reflected(b, a))
    else:  # divmod
        apply = computed(divmod)
    # Not a callable object: only functions become methods.
    return lambda *values: apply(*values)


xp = ModuleType("vkdml.array_api")
for _name in vkdml.array_api.__all__:
    setattr(xp, _name, getattr(vkdml.array_api, _name))
for _name in NEEDED_BY_THE_SUITE:
    if hasattr(np, _name):
        setattr(xp, _name, computed(getattr(np, _name)))
_not_computed = DeviceArray._not_computed
for _name, _method in list(vars(DeviceArray).items()):
    if _method is _not_computed and _name.startswith("__"):
        setattr(DeviceArray, _name, _operator(_name))
