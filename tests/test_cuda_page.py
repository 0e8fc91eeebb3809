"""The figures of docs/cuda.md are those of the committed record; its example says what it needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COLUMNS = ("torch", "tensor", "shared_after_cuda", "shared_in_a_row")


def test_the_table_has_the_measured_times():
    text = (ROOT / "docs" / "cuda.md").read_text()
    (file,) = set(re.findall(r"`(bench/results/cuda/[\w-]+\.json)`", text))
    record = json.loads((ROOT / file).read_text())
    rows = [
        f"| {case['dtype']} {tuple(case['shape'])} | {case['axis']} | "
        + " | ".join(f"{case[column]:.0f}" for column in COLUMNS)
        + " |"
        for case in record["cases_us"]
    ]
    assert re.findall(r"^\| \w+ \(.*\|$", text, re.M) == rows
    assert record["device"].split(" 80GB")[0] in text
    assert f"torch {record['torch'].rpartition('.')[0]}" in text
    allocation = record["first_allocation_us"]
    assert f"{allocation['1'] / 1000:.1f} ms, of 1 GiB {allocation['1024'] / 1000:.0f} ms" in text
    change = (
        record["parts_us"]["argmax(plain Array), after CUDA"]
        - record["parts_us"]["argmax(plain Array), in a row"]
    )
    assert f"about {round(change, -1):.0f} us to change" in text
    parts = record["parts_us"]
    for name in ("torch: a kernel, in a row", "torch: a kernel, after Vulkan"):
        assert f"{parts[name]:.0f} us" in " ".join(text.split())


WITHOUT_TORCH = "sys.modules['torch'] = None"
WITHOUT_CUDA = (
    "torch = sys.modules['torch'] = types.ModuleType('torch'); "
    "torch.cuda = types.SimpleNamespace(is_available=lambda: False)"
)


def ran(setting: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the example with a torch as the setting makes it."""
    example = str(ROOT / "examples" / "torch_argmax.py")
    script = f"import runpy, sys, types; {setting}; runpy.run_path({example!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (WITHOUT_TORCH, "torch is not installed; this example needs torch with CUDA"),
        (WITHOUT_CUDA, "torch finds no GPU; this example needs an NVIDIA GPU and torch with CUDA"),
    ],
)
def test_the_example_says_what_it_needs(setting, said):
    done = ran(setting)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == f"torch_argmax: {said}"


def test_the_example_says_how_it_is_run():
    done = ran(WITHOUT_CUDA, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "python examples/torch_argmax.py" in done.stdout
    assert ran(WITHOUT_CUDA, "x").returncode == 2
