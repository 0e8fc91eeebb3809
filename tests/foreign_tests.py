"""Tests that other packages ship, imported to run some of their cases through vkdml."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest


def imported(*names: str) -> ModuleType:
    """The first of these modules that there is; their marks need not be known here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest.mark, "_config", None)
        for name in names:
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError:
                continue
    pytest.fail(f"the installed package has no tests of its own: {' or '.join(names)}")
