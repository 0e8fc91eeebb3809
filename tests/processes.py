"""Runs Python scripts and the `vkdml` command in processes of their own, and says how they ended.

Scripts may end as they like.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

# Long enough for a busy machine and a sanitizer: what needs longer hangs.
TIMEOUT_SECONDS = 120
PREAMBLE = f"""
import sys, threading, time, warnings
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import vkdml
warnings.simplefilter("error")
warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
"""


def command(script: str) -> list[str]:
    """What runs a script, indented as it likes, with vkdml, NumPy and the tests' modules at hand."""
    return [sys.executable, "-c", PREAMBLE + textwrap.dedent(script)]


def finished(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, whatever that is."""
    return subprocess.run(
        command(script),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, **environment},
    )


def printed(script: str, **environment: str) -> str:
    """What a script prints that must end well: exit code 0, and nothing on the error output."""
    done = finished(script, **environment)
    # Names the signal of a crash, which is a negative exit code.
    assert (done.returncode, done.stderr) == (0, ""), (
        f"exit code {done.returncode}, printed {done.stdout!r}, error output:\n{done.stderr}"
    )
    return done.stdout


def vkdml_command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m vkdml` with changed environment variables, 80 columns wide."""
    return subprocess.run(
        [sys.executable, "-m", "vkdml", *words],
        env=os.environ | {"COLUMNS": "80"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def one_line(text: str) -> str:
    """The only line of what a user is told; more than one, or a traceback, is a fault."""
    (line,) = text.splitlines()
    assert line.startswith("vkdml: ")
    return line
