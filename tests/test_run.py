"""The script `run`: what it refuses, before it removes, fetches or installs anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import compile_amd
import pytest

RUN = Path(__file__).resolve().parent.parent / "run"
# What would install packages or fetch drivers.
INSTALLERS = ("apt-get", "apt-cache", "sudo", "python3", "dpkg-query")
FUZZERS = ("", "-arrays", "-descriptors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source folder of the script alone, in which something was made, and whose installers leave a mark."""
    shutil.copy(RUN, tmp_path)
    for name in (".venv", "out", ".drivers", "installers"):
        (tmp_path / name).mkdir()
    for name in INSTALLERS:
        program = tmp_path / "installers" / name
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/installed\nexit 1\n")
        program.chmod(0o755)
    return tmp_path


def ran(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'installers'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DRIVER": "", "VALIDATION": "", **variables}
    command = ["sh", str(folder / "run"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["clean", "foo"], "clean takes no arguments, and was given: foo"),
        (["clean", "-n"], "clean takes no arguments, and was given: -n"),
        (["clean", ""], "clean takes no arguments"),
        (["setup", "foo"], "setup takes no arguments, and was given: foo"),
        (["lint", "src"], "lint takes no arguments, and was given: src"),
        (
            ["wheel-test", "--only", "foo"],
            "wheel-test --only foo: accepted is nothing, or --only with native",
        ),
        (["wheel-test", "quick"], "wheel-test quick: accepted is nothing, or --only with native"),
        (["nosuch"], "there is no command 'nosuch'"),
        (["demo", "x"], "demo takes no arguments, and was given: x"),
        *((["fuzz" + of], f"usage: ./run fuzz{of} SECONDS") for of in FUZZERS),
        *(
            (["fuzz" + of, seconds], f"fuzz{of} {seconds}: accepted is a whole number of seconds from 1 on")
            for of in FUZZERS
            for seconds in ("abc", "0", "00", "-1", "1.5")
        ),
        *(
            ([command, *words], f"file or directory not found: {words[-1]}; accepted are paths from ")
            for command in ("test", "test-every", "test-cuda", "asan", "tsan")
            for words in (["tests/nosuch.py"], ["nosuch.py::test_x[1]"], ["-n", "2", "tests/nosuch"])
        ),
        (["test", "--tb=short", "nosuch.py"], "file or directory not found: nosuch.py"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_done(
    folder: Path, words: list[str], said: str
) -> None:
    done = ran(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert (folder / ".venv").exists()
    assert not (folder / "installed").exists()


@pytest.mark.parametrize("command", ["lint", "asan", "tsan", "emulated", "compile-amd", "wheel"])
def test_validation_is_refused_where_it_would_do_nothing(folder: Path, command: str) -> None:
    done = ran(folder, command, VALIDATION="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"VALIDATION=1 does nothing for {command}" in done.stderr
    assert not (folder / "installed").exists()


@pytest.mark.parametrize(
    ("name", "said"), [("DRIVER", "is none of swiftshader"), ("VALIDATION", "is neither 0")]
)
def test_wrong_values_in_the_environment_are_refused(folder: Path, name: str, said: str) -> None:
    done = ran(folder, "demo", **{name: "nosuch"})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{name}=nosuch {said}" in done.stderr
    assert not (folder / "installed").exists()


@pytest.mark.parametrize(
    "words",
    [["-k", "nosuch.py"], ["-n", "2", "run"], ["--ignore", "tests/x.py", "--ignore=x.py"], ["run::x", "-x"]],
)
def test_options_of_pytest_and_their_values_are_no_paths(folder: Path, words: list[str]) -> None:
    assert "not found" not in ran(folder, "test", *words).stderr
    assert (folder / "installed").exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-h"],
        ["--help"],
        ["help"],
        ["clean", "--help"],
        ["setup", "-h"],
        ["wheel-test", "--help"],
        ["fuzz", "-h"],
    ],
)
def test_the_usage_fits_80_columns(folder: Path, words: list[str]) -> None:
    done = ran(folder, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ./run COMMAND")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert (folder / ".venv").exists()
    assert not (folder / "installed").exists()


def test_clean_removes_what_was_made(folder: Path) -> None:
    assert ran(folder, "clean").returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["installers", "run"]


def test_families_are_checked_before_a_driver_is_fetched_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_amd.main(["--check", compile_amd.FAMILIES[0].name]) == 0
    with pytest.raises(SystemExit) as ended:
        compile_amd.main(["--check", "foo"])
    assert ended.value.code == 2
    assert "unknown foo; accepted are" in capsys.readouterr().err
    script = RUN.read_text()
    assert script.index("compile_amd.py --check") < script.index("fetch_mesa25 || say")
