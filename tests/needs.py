"""What a test needs and may not have: it is skipped then, but with ``DRIVER=`` it fails."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test; with ``DRIVER=``, under which ``./run`` installs all that tests need, fail it."""
    if os.environ.get("DRIVER"):
        pytest.fail(f"{what}; ./run setup installs it")
    pytest.skip(what)
