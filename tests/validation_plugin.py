"""The pytest plugin of `VALIDATION=1 ./run test`: fails a test if the validation layers report something."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LAYER = "VkLayer_khronos_validation"


class ValidationLog:
    """The file into which `run` gathers what every process under the validation layers logs."""

    def __init__(self, folder: Path) -> None:
        self.pipe = os.open(folder / "pipe", os.O_WRONLY)
        self.file = (folder / "log").open("rb")
        self.incomplete_line = b""
        self.tests_with_messages = 0
        self.vulkan_loaded = self.layer_loaded = False

    def since_last_test(self, name: str) -> str:
        """What was logged since the last call, once all that was sent before it has arrived."""
        marker = f"-- {name} {time.monotonic_ns()}\n".encode()
        os.write(self.pipe, marker)
        logged = self.incomplete_line
        deadline = time.monotonic() + 60
        while marker not in logged:  # other processes that run tests leave theirs beside it
            if time.monotonic() > deadline:
                raise TimeoutError("the validation log does not fill up: has its reader ended?")
            logged += self.file.read() or time.sleep(0.0002) or b""
        complete, _, self.incomplete_line = logged.rpartition(b"\n")  # a read may end within another's marker
        lines = [
            line for line in complete.decode(errors="replace").splitlines() if not line.startswith("-- ")
        ]
        self.tests_with_messages += bool(lines)
        return "\n".join(lines)

    def close(self) -> None:
        os.close(self.pipe)
        self.file.close()

    def look_for_layer(self) -> None:
        if not self.layer_loaded:
            mapped = Path("/proc/self/maps").read_text()
            self.vulkan_loaded |= "libvulkan.so" in mapped
            self.layer_loaded = LAYER in mapped


log = pytest.StashKey[ValidationLog]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[log] = ValidationLog(Path(os.environ["VKDML_VALIDATION"]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    result = yield
    validation = item.config.stash[log]
    validation.look_for_layer()
    if said := validation.since_last_test(item.nodeid):
        pytest.fail(f"validation layers:\n{said}", pytrace=False)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    validation = session.config.stash[log]
    validation.look_for_layer()
    if validation.vulkan_loaded and not validation.layer_loaded:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    validation = config.stash[log]
    if validation.vulkan_loaded and not validation.layer_loaded:
        verdict = "FAILED, the tests used Vulkan without the validation layers"
    elif validation.tests_with_messages:
        verdict = f"FAILED, messages during {validation.tests_with_messages} tests"
    else:
        verdict = "no messages"
    terminalreporter.write_line(f"validation: {verdict}")
