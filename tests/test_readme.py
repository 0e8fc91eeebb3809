"""The README: its example prints what it says, and the commands and files it names exist."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
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


def test_the_figures_around_the_kernels_are_the_committed_ones() -> None:
    file = ROOT / "bench" / "results" / "runtime" / "nvidia-h200-x4.json"
    measured = json.loads(file.read_text())
    rebind, stream, several = measured["rebind"], measured["stream"]["gb_per_s"], measured["devices"]
    threads = measured["threads"]["host array, 1 MiB"].values()

    def rates(values: Iterable[float], digits: int = 0) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in values)

    results = [
        f"{rebind['dispatch_same_buffers_p50_us']:.1f} us",
        f"{rebind['dispatch_other_buffers_p50_us']:.1f} us",
        f"{rebind['sequence_replay_p50_us']:.1f} us",
        f"{rebind['array_argmax_to_int_p50_us']:.1f} us",
        f"{stream['argmax_all']:.1f} GB/s",
        f"{rates((stream['one_memcpy_into_pinned'], stream['threads_memcpy_into_pinned']), 1)} GB/s",
        f"{measured['resident']['gb_per_s_all']:.0f} GB/s",
        f"{rates(several['resident'].values())} GB/s",
        f"{rates(several['host'].values(), 1)} GB/s",
        f"{rates((rate / 1000 for rate in threads), 1)} thousand/s",
    ]
    table = README.partition("| measured | result |")[2].partition("\n\n")[0]
    assert re.findall(r"\| ([^|]*) \|$", table, re.MULTILINE) == results


def test_bench_takes_the_options_that_the_readme_shows() -> None:
    shown = set(re.findall(r"--[a-z-]+", "".join(re.findall(r"^vkdml bench.*$", README, re.MULTILINE))))
    text = subprocess.run(
        [sys.executable, "-m", "vkdml", "bench", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert shown
    assert shown <= set(re.findall(r"--[a-z-]+", text))


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_the_files_that_the_readme_links_to_are_there(target: str) -> None:
    assert (ROOT / target).exists()
