"""How much of the tests runs: less on SwiftShader, whose compiler takes seconds for each kernel."""

from __future__ import annotations

import os

import hypothesis

SHARE = 4  # one of so many examples


def every_case() -> bool:
    """Tell whether `./run test-every` runs: all tests with all their cases, on any driver."""
    return os.environ.get("VKDML_TEST_EVERY_CASE") == "1"


def for_swiftshader() -> bool:
    """Tell whether fewer cases are to run, as the driver is SwiftShader."""
    return os.environ.get("DRIVER", "").startswith("swiftshader") and not every_case()


def examples(count: int) -> hypothesis.settings:
    """Return hypothesis' settings for a test of so many examples, which has a part of them on SwiftShader."""
    return hypothesis.settings(max_examples=count // SHARE if for_swiftshader() else count)
