"""The long run of tests/soak.py, very short: it works, its results are right, and nothing is left behind."""

import re
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).with_name("soak.py")


def test_a_short_soak_is_right_and_leaves_nothing() -> None:
    ran = subprocess.run(
        [sys.executable, SOAK, "--share", "0.002"], capture_output=True, text=True, timeout=300
    )
    assert not ran.stderr, ran.stderr
    assert re.findall(r"^(\w+) +(\d+) in", ran.stdout, re.MULTILINE) == [
        ("replays", "2000"),
        ("calls", "200"),
        ("arrays", "200"),
    ]
    assert "left after trim: used 0 bytes, pooled 0" in ran.stdout
