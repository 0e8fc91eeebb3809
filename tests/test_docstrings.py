"""The examples in the package's docstrings, and the native module's type stub, are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vkdml

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(vkdml.__path__, "vkdml.")
    if not module.name.endswith(("_native", "__main__"))
)


@pytest.mark.parametrize("name", ["vkdml", *MODULES])
def test_examples(name):
    module = importlib.import_module(name)
    results = doctest.testmod(module, extraglobs={"vkdml": vkdml, "np": np}, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


@pytest.mark.parametrize("function", [vkdml.argmax, vkdml.argmin, vkdml.slice1])
def test_public_functions_show_an_example_and_name_their_source(function):
    assert ">>> " in function.__doc__
    assert "Source of the rule: DirectML's" in function.__doc__


def test_the_type_stub_is_what_the_module_gives(tmp_path):
    made = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "vkdml._native", "-o", str(made)]
    subprocess.run(command, check=True, timeout=60)
    committed = Path(vkdml.__file__).parent / "_native.pyi"
    assert made.read_text() == committed.read_text(), f"renew it with: {' '.join(command[:-1])} {committed}"
