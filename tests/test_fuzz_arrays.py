"""The fuzz tool of device arrays, for a fixed number of cases: it works, and finds nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import fuzz
import fuzz_arrays
import fuzz_descriptors
import numpy as np
import pytest

import vkdml

TOOL = Path(__file__).with_name("fuzz_arrays.py")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, timeout=300)


def test_a_short_run_finds_nothing():
    ran = run("--cases", "60", "--seed", "7", "--seconds", "250")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"no failure in 60 cases, seeds 7 to 66", ran.stdout)


def test_a_run_ends_in_time():
    assert "no failure in" in run("--seconds", "1", "--seed", "7").stdout


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
@pytest.mark.parametrize("tool", [fuzz, fuzz_arrays, fuzz_descriptors])
def test_no_time_is_refused(tool, seconds, capsys):
    with pytest.raises(SystemExit) as ended:
        tool.main(["--seconds", seconds])
    assert ended.value.code == 2
    assert f"--seconds {seconds}: more than 0 is accepted" in capsys.readouterr().err


def test_a_fault_is_found(monkeypatch):
    monkeypatch.setattr(vkdml.Array, "copy", lambda self: vkdml.asarray(np.zeros(self.shape, self.dtype)))
    with pytest.raises(AssertionError, match="wanted"):
        run_cases(200)


def run_cases(count: int) -> None:
    for seed in range(count):
        fuzz_arrays.Case(seed).run()
