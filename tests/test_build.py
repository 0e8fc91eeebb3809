"""The build refuses Kompute sources that are not there or not the ones it knows, and says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def configure(folder: Path, sdist: Path) -> str:
    """Configure the project with this file as Kompute's source release; what CMake says when it fails."""
    command = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder / "build")]
    command += [f"-DPython_EXECUTABLE={sys.executable}", f"-DKOMPUTE_SDIST={sdist}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    return " ".join(done.stderr.split())


def test_other_sources_are_refused_with_both_hashes_and_the_remedy(tmp_path: Path) -> None:
    other = tmp_path / "kp-0.9.0.tar.gz"
    other.write_text("junk\n")
    said = configure(tmp_path, other)
    assert "is not Kompute 0.9.0's source release" in said
    assert "edff58f2a441868dc58c35d06f2b1c86e12e12bedfaa793a49c227672f77566e" in said
    assert "98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949" in said
    assert "pip download kp==0.9.0" in said


def test_missing_sources_are_named_with_the_remedy(tmp_path: Path) -> None:
    said = configure(tmp_path, tmp_path / "nowhere.tar.gz")
    assert f"KOMPUTE_SDIST names no file: {tmp_path / 'nowhere.tar.gz'}" in said
    assert "-DKOMPUTE_SDIST=/path/to/kp-0.9.0.tar.gz" in said
