"""What a test needs and a machine may lack: it is skipped there, but fails in continuous integration."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test; fail it under ``VKDML_TEST_ALL=1``, as continuous integration runs the tests."""
    if os.environ.get("VKDML_TEST_ALL") == "1":
        pytest.fail(f"{what}: under VKDML_TEST_ALL=1 no test is skipped for that")
    pytest.skip(what)
