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


def test_the_example_prints_what_the_readme_says() -> None:
    example, printed = blocks("python")[0], blocks("text")[0]
    ran = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert ran.stdout == printed


def test_run_has_the_commands_that_the_readme_names() -> None:
    usage = subprocess.run([ROOT / "run"], capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"\./run ([a-z]+)", README))
    assert named
    assert named <= set(re.findall(r"^  ([a-z]+)", usage, re.MULTILINE))


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`vkdml ([a-z]+)`", README))))
def test_vkdml_has_the_commands_that_the_readme_names(command: str) -> None:
    subprocess.run([sys.executable, "-m", "vkdml", command, "--help"], capture_output=True, check=True)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_the_files_that_the_readme_links_to_are_there(target: str) -> None:
    assert (ROOT / target).exists()
