"""The demo runs, writes its pictures, and fails when a result is wrong."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

import vkdml

SCRIPT = Path(__file__).parents[1] / "examples" / "demo.py"
PICTURES = ("palette.png", "mirrored.png", "peaks.png")


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("demo", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run_demo(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--small", *words],
        env=os.environ | {"COLUMNS": "80"} | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_demo_equals_numpy_and_writes_its_pictures(tmp_path: Path, device: vkdml.Device) -> None:
    ran = run_demo("--out", str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80
    assert device.name in lines[0]
    assert sum(line.split()[-1:] == ["True"] for line in lines) == 7
    assert "False" not in ran.stdout
    assert lines[-1] == "all 7 results equal NumPy's, bit for bit"
    assert [line for line in lines if line.startswith("wrote ")] == [
        f"wrote {tmp_path / name}" for name in PICTURES
    ]
    for name in PICTURES:
        with Image.open(tmp_path / name) as picture:
            low, high = np.asarray(picture.convert("L")).min(), np.asarray(picture.convert("L")).max()
            assert high - low > 200, f"{name} shows nothing"


def test_the_mirrored_picture_mirrors(tmp_path: Path, demo: ModuleType, device: vkdml.Device) -> None:
    pixels = np.asarray(demo.load_photo(small=True))
    _, (crop, mirrored, turned) = demo.mirrored_crops(pixels, device)
    window = pixels[5:125, 21:106]
    assert crop.tobytes() == window[::2, ::2].tobytes()
    assert mirrored.tobytes() == window[::2, ::-2].tobytes()
    assert turned.tobytes() == window[::-2, ::-2].tobytes()


@pytest.mark.parametrize("operator", ["argmin", "argmax", "slice1"])
def test_a_wrong_result_ends_the_demo_non_zero(
    operator: str,
    tmp_path: Path,
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = getattr(vkdml, operator)

    def wrong(*arguments: object, **options: object) -> object:
        """The right answer with the lowest bit of its last element changed."""
        answer = right(*arguments, **options)
        last = answer[-1] if isinstance(answer, tuple) else answer
        last.reshape(-1).view(np.uint8)[-1] ^= 1
        return answer

    monkeypatch.setattr(vkdml, operator, wrong)
    assert demo.main(["--small", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "False" in said.out
    assert "differ from NumPy's" in said.err


@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_another_dtype_or_shape_is_not_equal(demo: ModuleType, dtype: type[np.generic]) -> None:
    array = np.arange(6).reshape(2, 3)
    assert demo.same_bits(array, array.copy())
    assert not demo.same_bits(array.astype(dtype), array)
    assert not demo.same_bits(array.reshape(3, 2), array)
    assert not demo.same_bits((array,), (array, array))


def test_without_a_device_the_demo_says_so_in_one_line(tmp_path: Path) -> None:
    no_driver = "/nonexistent/icd.json"
    ran = run_demo("--out", str(tmp_path), VK_DRIVER_FILES=no_driver, VK_ICD_FILENAMES=no_driver)
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("demo: ")


def test_the_table_is_as_narrow_without_rich(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = demo.Step(
        "nearest of 64 colours", (600, 512, 64), "float32", "axis 1,2", 1.0, 0.0123, 0.000456, True
    )
    monkeypatch.setitem(sys.modules, "rich", None)
    demo.show([step], "A Device With A Long Name")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[-6:] == ["s", "12.3", "ms", "456", "us", "True"] for line in lines)
