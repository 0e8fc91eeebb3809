"""The long run of tests/soak.py, very short: it works, its results are right, and nothing is left behind."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.parametrize("share", ["2", "0", "-1", "nan"])
def test_a_share_beyond_the_whole_is_refused(share: str) -> None:
    ran = subprocess.run([sys.executable, SOAK, "--share", share], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert f"--share {share}: more than 0 is accepted, up to 1" in ran.stderr


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
