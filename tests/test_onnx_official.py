"""ONNX's own backend tests of ArgMax, ArgMin and Slice, run through its runner."""

from __future__ import annotations

import importlib
import unittest
import warnings
from itertools import product

import onnx.backend.test
import onnx.backend.test.loader
import pytest

import vkdml
import vkdml.onnx

ARG_CASES = [
    f"test_{operator}_{form}_{data}{tie}"
    for operator, form, data, tie in product(
        ("argmax", "argmin"),
        ("default_axis", "keepdims", "no_keepdims", "negative_axis_keepdims"),
        ("example", "random"),
        ("", "_select_last_index"),
    )
]
SLICE_CASES = [
    f"test_slice{form}"
    for form in (
        *("", "_neg", "_neg_steps", "_negative_axes", "_default_axes", "_default_steps"),
        *("_start_out_of_bounds", "_end_out_of_bounds"),
    )
]


@pytest.fixture(scope="module")
def official() -> type[unittest.TestCase]:
    """The runner's cases of nodes, of the three operators alone: making those of all takes 12 seconds."""

    def of_three_operators(package: object) -> None:
        for operator in ("argmax", "argmin", "slice"):
            importlib.import_module(f"onnx.backend.test.case.node.{operator}")

    with pytest.MonkeyPatch.context() as patch:
        # Older versions of onnx read their cases from files instead, which takes no time.
        patch.setattr(onnx.backend.test.loader, "import_recursive", of_three_operators, raising=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner = onnx.backend.test.BackendTest(vkdml.onnx.Backend, __name__)
    return runner.test_cases["OnnxBackendNodeModelTest"]


def test_there_are_as_many_as_onnx_has(official: type[unittest.TestCase]) -> None:
    prefixes = ("test_argmax_", "test_argmin_", "test_slice_")
    found = {name for name in dir(official) if name.startswith(prefixes) and name.endswith("_cpu")}
    assert found == {f"{name}_cpu" for name in (*ARG_CASES, *SLICE_CASES)}
    assert (len(ARG_CASES), len(SLICE_CASES)) == (32, 8)


@pytest.mark.parametrize("name", [*ARG_CASES, *SLICE_CASES])
def test_it_passes(name: str, official: type[unittest.TestCase], device: vkdml.Device) -> None:
    result = unittest.TestResult()
    official(f"{name}_cpu").run(result)
    assert not result.skipped
    assert [text for _, text in (*result.failures, *result.errors)] == []
    assert result.testsRun == 1
