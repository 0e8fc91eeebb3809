"""What the validation layers log reaches the test that caused it, whatever pieces it arrives in."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from validation_plugin import ValidationLog


class Gathered:
    """A pipe, and the file into which its content goes, each time followed by what other processes write."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "pipe")
        self._pipe = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self._file = (folder / "log").open("ab", buffering=0)
        self.log = ValidationLog(folder)
        os.set_blocking(self._pipe, True)

    def close(self) -> None:
        os.close(self._pipe)
        self._file.close()
        self.log.close()

    def since_last_test(self, before: bytes, after: bytes) -> str:
        def forward() -> None:
            self._file.write(before + os.read(self._pipe, 1000) + after)

        thread = threading.Thread(target=forward)
        thread.start()
        said = self.log.since_last_test("tests/test_this.py::test_this")
        thread.join()
        return said


@pytest.fixture
def gathered(tmp_path: Path) -> Iterator[Gathered]:
    gathered = Gathered(tmp_path)
    yield gathered
    gathered.close()


def test_half_of_another_process_marker_is_no_message(gathered):
    assert gathered.since_last_test(b"", b"-- tests/test_other.py::test_ot") == ""
    assert gathered.since_last_test(b"her 17\n", b"") == ""


def test_half_of_a_message_is_reported_once_it_is_whole(gathered):
    assert gathered.since_last_test(b"", b"Validation Er") == ""
    assert gathered.since_last_test(b"ror: a hazard\n", b"") == "Validation Error: a hazard"


def test_a_message_belongs_to_the_test_before_it(gathered):
    assert gathered.since_last_test(b"Validation Error: a hazard\n", b"") == "Validation Error: a hazard"
    assert gathered.since_last_test(b"", b"") == ""
