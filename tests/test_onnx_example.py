"""The example of a model's tail runs, says what it did, and fails when a result is wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import vkdml
from vkdml import ops

SCRIPT = Path(__file__).parents[1] / "examples" / "onnx_tail.py"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_tail", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_labels_equal_those_of_the_reference(
    example: ModuleType, device: vkdml.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example.main(["--small"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "nodes of the tail: ArgMax, Cast"
    assert lines[1] == "logits (1, 21, 33, 33) float32 -> labels (1, 33, 33) int32"
    assert lines[-1] == "equal: True"


def test_a_wrong_label_ends_it_non_zero(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = ops.argmax

    def wrong(*arguments: Any, **options: Any) -> Any:
        labels = right(*arguments, **options)
        labels[..., -1] ^= 1
        return labels

    monkeypatch.setattr(ops, "argmax", wrong)
    assert example.main(["--small"]) == 1
    assert capsys.readouterr().out.endswith("equal: False\n")


def test_a_device_that_is_not_there_is_one_line(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example.main(["--small", "--device", "VULKAN:99"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("onnx_tail: no device matches '99'")
