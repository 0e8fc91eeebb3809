"""The code blocks of README.md and of the pages of docs/, and what those in Python print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MAIN_GUARD = 'if __name__ == "__main__":'
# Each block has names of its own, so that it can be copied alone.
RUNNER = """
import contextlib, io, json, sys, warnings
import vkdml
warnings.simplefilter("error")
warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
printed = []
for place, source in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, place, "exec"), {"__name__": "__main__"})
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


@dataclass(frozen=True)
class Block:
    """A fenced code block and the number of the line on which its fence stands."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]
    assert text.count("```") == 2 * len(found), f"{page.name}: a fence is not closed, or stands within a line"
    return found


def printed_by(sources: list[tuple[str, str]], folder: Path) -> list[str]:
    """Run each source, known by its place, and return what it prints.

    One with a guard runs as a file, as its user saves it: the processes that it spawns import it.
    """
    in_one_process = [source for source in sources if MAIN_GUARD not in source[1]]
    printed = dict(zip(in_one_process, printed_in_one_process(in_one_process, folder), strict=True))
    return [printed[source] if source in printed else printed_as_file(*source, folder) for source in sources]


def printed_as_file(place: str, source: str, folder: Path) -> str:
    script = folder / "example.py"
    script.write_text(source)
    ran = subprocess.run(
        [sys.executable, script.name], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, f"{place}: {ran.stderr}"
    return ran.stdout


def printed_in_one_process(sources: list[tuple[str, str]], folder: Path) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(sources),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    printed: list[str] = json.loads(ran.stdout)
    return printed


def check_printed(page: Path, folder: Path) -> None:
    """Run a page's Python blocks in a folder and compare what they print with the text after each."""
    found = blocks(page)
    examples: list[Block] = []
    said: list[str] = []
    for block in found:
        if block.language == "python":
            examples.append(block)
            said.append("")
        elif block.language == "text":
            assert examples, f"{page.name}:{block.line}: no Python block prints this"
            assert said[-1] == "", (
                f"{page.name}:{block.line}: the block above prints the text before this one"
            )
            said[-1] = block.text
    if not examples:
        return
    printed = printed_by([(f"{page.name}:{block.line}", block.text) for block in examples], folder)
    for block, got, expected in zip(examples, printed, said, strict=True):
        assert got == expected, f"{page.name}:{block.line}"
