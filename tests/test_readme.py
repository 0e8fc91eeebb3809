"""The README: its example prints what it says, and the commands and files it names exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_print_what_the_readme_says(number: int) -> None:
    example, printed = blocks("python")[number], blocks("text")[number]
    ran = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert ran.stdout == printed


def test_the_compiled_example_finds_the_classes() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", blocks("python")[2]], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[[1], [0]]\n[[2], [1]]\n"


def test_run_has_the_commands_that_the_readme_names() -> None:
    usage = subprocess.run([ROOT / "run"], capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"\./run ([a-z-]+)", README))
    assert named
    assert named <= set(re.findall(r"^  ([a-z-]+)", usage, re.MULTILINE))


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`vkdml ([a-z]+)`", README))))
def test_vkdml_has_the_commands_that_the_readme_names(command: str) -> None:
    subprocess.run([sys.executable, "-m", "vkdml", command, "--help"], capture_output=True, check=True)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_the_files_that_the_readme_links_to_are_there(target: str) -> None:
    assert (ROOT / target).exists()
