"""How much of the tests runs: drivers on processors take long to compile kernels, above all SwiftShader."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import forced_memory
import hypothesis

SHARE = 6  # one of so many examples, or of modes and sizes

Case = TypeVar("Case")


def every_case() -> bool:
    """Tell whether `./run test-every` runs: all tests with all their cases, on any driver."""
    return os.environ.get("VKDML_TEST_EVERY_CASE") == "1"


def for_swiftshader() -> bool:
    """Tell whether fewer cases are to run, as the driver is SwiftShader."""
    return os.environ.get("DRIVER", "").startswith("swiftshader") and not every_case()


def some_of(cases: Iterable[Case]) -> list[Case]:
    """Return the cases, a part of them on SwiftShader: for those that mean kernels of their own."""
    return list(cases)[:: SHARE if for_swiftshader() else 1]


def pipelines_of_a_kernel() -> int:
    """Return how many pipelines of each kernel a test may build that compares kernels with their twins.

    A processor's driver compiles one in a quarter of a second, which is most of what the tests take.
    """
    on_processor = os.environ.get("DRIVER", "").startswith(("swiftshader", "lavapipe"))
    return 10**9 if every_case() else 1 if on_processor else 2


def examples(count: int) -> hypothesis.settings:
    """Return hypothesis' settings for a test of so many examples, which has a part of them on SwiftShader.

    So it does where other memory is tested on lavapipe, on which it runs with all of them anyway.
    """
    fewer = for_swiftshader() or (forced_memory.wanted() and not every_case())
    return hypothesis.settings(max_examples=count // SHARE if fewer else count)
