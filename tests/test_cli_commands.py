"""The `vkdml` command as a user runs it: real processes, real drivers, and the faults of real machines."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import one_line, vkdml_command
from rich.console import Console

import vkdml
from vkdml.bench.libraries.peers import NAMES as PEERS
from vkdml.bench.tables import print_whole
from vkdml.cli import main, probe
from vkdml.cli.devices import device_memory, table
from vkdml.cli.text import size

NO_DRIVER = {"VK_DRIVER_FILES": "/nonexistent/icd.json", "VK_ICD_FILENAMES": "/nonexistent/icd.json"}


# ---- where all is well --------------------------------------------------------------------------


def test_devices_fit_a_terminal_of_80_columns() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(table(vkdml.devices(), 0))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80


def test_devices_are_listed_and_the_default_is_marked(device: vkdml.Device) -> None:
    ran = vkdml_command("devices")
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    heading = next(line for line in lines if "subgroup" in line)
    assert heading.split() == ["#", "name", "type", "driver", "API", "memory", "subgroup"]
    (marked,) = [line for line in lines if "*" in line]
    assert marked.split()[0] == f"*{device.info.index}"
    assert device.info.type in marked
    for info in vkdml.devices():
        assert any(info.name.split()[0] in line and info.api_version in line for line in lines)


def test_devices_as_json_are_what_the_library_says(device: vkdml.Device) -> None:
    ran = vkdml_command("devices", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = json.loads(ran.stdout)
    assert said["default"] == device.info.index
    assert [info["uuid"] for info in said["devices"]] == [info.uuid for info in vkdml.devices()]
    assert said["devices"][0]["limits"]["max_push_constants_size"] >= 128


def test_devices_in_a_pipe_have_a_line_each(device: vkdml.Device) -> None:
    ran = vkdml_command("devices", COLUMNS="40")
    lines = [line for line in ran.stdout.splitlines() if line.strip()]
    assert len(lines) == 2 + len(vkdml.devices())
    assert f" {device.name} " in lines[2 + device.info.index]
    assert f" {device.info.driver_name} {device.info.driver_info} " in lines[2 + device.info.index]


@pytest.mark.parametrize("columns", [1, 20, 40, *range(60, 80)])
def test_a_narrow_terminal_cuts_no_number(columns: int) -> None:
    console = Console(file=io.StringIO(), width=columns)
    infos = vkdml.devices()
    print_whole(console, table(infos, 0))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert console.width == columns
    assert "…" not in said
    for info in infos:
        numbers = [
            info.type,
            info.api_version,
            *size(device_memory(info)).split(),
            str(info.subgroup["size"]),
        ]
        (line,) = [
            line
            for line in said.splitlines()
            if line.strip().startswith((f"*{info.index} ", f"{info.index} "))
        ]
        assert [word for word in line.split() if word in numbers] == numbers


def test_doctor_finds_no_problem_and_computes_on_every_device(device: vkdml.Device) -> None:
    ran = vkdml_command("doctor")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    assert "problem  " not in ran.stdout
    assert ran.stdout.count("argmax: right") == len(vkdml.devices())
    assert device.name in ran.stdout
    assert ran.stdout.splitlines()[-1].endswith("vkdml works here")


def test_doctor_as_json_has_the_same_findings(device: vkdml.Device) -> None:
    ran = vkdml_command("doctor", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = json.loads(ran.stdout)
    assert said["status"] in {"ok", "warning"}
    assert {"level", "subject", "detail", "remedy"} == set(said["findings"][0])
    assert any(device.name in finding["detail"] for finding in said["findings"])


def test_the_version_and_the_help_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"vkdml {vkdml.__version__}\n"
    for words in ([], ["--help"], ["-h"]):
        assert main(words) == 0
        said = capsys.readouterr().out
        assert "devices" in said
        assert "doctor" in said
        assert "..." not in said.replace("[ARGS]...", ""), "no summary is cut"


def test_the_installed_script_is_this_command() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="vkdml")
    assert script.load() is main


# ---- where something is wrong -------------------------------------------------------------------


@pytest.fixture
def no_loader(tmp_path: Path) -> dict[str, str]:
    """An environment in which the loader's library is found and cannot be opened."""
    (tmp_path / "libvulkan.so.1").write_text("not a library")
    (tmp_path / "libvulkan.so").write_text("not a library")
    return {"LD_LIBRARY_PATH": str(tmp_path)}


def test_devices_without_a_loader(no_loader: dict[str, str]) -> None:
    ran = vkdml_command("devices", **no_loader)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no Vulkan loader" in one_line(ran.stderr)


def test_doctor_without_a_loader(no_loader: dict[str, str]) -> None:
    ran = vkdml_command("doctor", **no_loader)
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("problem")]
    assert lines[at].split()[1] == "loader"
    assert "apt install libvulkan1" in lines[at + 1]


def test_devices_without_a_driver() -> None:
    ran = vkdml_command("devices", **NO_DRIVER)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "vkdml doctor" in one_line(ran.stderr)
    assert "VK_DRIVER_FILES names /nonexistent/icd.json, which does not exist" in ran.stderr


def test_devices_as_json_without_a_driver() -> None:
    ran = vkdml_command("devices", "--json", **NO_DRIVER)
    assert ran.returncode == 1
    said = json.loads(ran.stdout)
    assert (said["default"], said["devices"]) == (None, [])
    assert said["error"] in ran.stderr


def test_doctor_without_a_driver() -> None:
    ran = vkdml_command("doctor", **NO_DRIVER)
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "/nonexistent/icd.json: no such file" in line)
    assert lines[at].startswith("problem")
    assert "unset VK_DRIVER_FILES" in lines[at + 1]
    assert any(line.endswith("icd.json, which does not exist") for line in lines)  # its remedy follows
    assert lines[-1].endswith("fix the problems above first")


def test_doctor_as_json_without_a_driver() -> None:
    ran = vkdml_command("doctor", "--json", **NO_DRIVER)
    assert ran.returncode == 1
    said = json.loads(ran.stdout)
    assert said["status"] == "problem"
    assert all(finding["remedy"] for finding in said["findings"] if finding["level"] == "problem")


FAULTS_OF_MANIFESTS = {
    "{": "not an ICD file",
    "[]": "not an ICD file",
    '{"ICD": {}}': "not an ICD file",
    '{"ICD": {"library_path": null, "api_version": "1.1.0"}}': "not an ICD file",
    '{"ICD": {"library_path": "", "api_version": "1.1.0"}}': "not an ICD file",
    '{"ICD": {"library_path": "a\\u0000b", "api_version": "1.1.0"}}': "not an ICD file",
    '{"ICD": {"library_path": "./libvulkan_lvp.so"}}': "accepted: JSON with ICD.library_path and ICD.api_ver",
    '{"ICD": {"library_path": "./libé.so", "api_version": "1.1.0"}}': "libé.so: cannot open",
    '{"ICD": {"library_path": "./nosuch.so", "api_version": "1.1.0"}}': "nosuch.so: cannot open",
    '{"ICD": {"library_path": "libnosuch.so.7", "api_version": "1.1.0"}}': "libnosuch.so.7: cannot open",
}


def test_doctor_names_what_is_wrong_with_each_driver_manifest(tmp_path: Path) -> None:
    files = [tmp_path / f"icd{number}.json" for number in range(len(FAULTS_OF_MANIFESTS))]
    for file, manifest in zip(files, FAULTS_OF_MANIFESTS, strict=True):
        file.write_text(manifest, encoding="utf-8")
    listed = os.pathsep.join(map(str, files))
    ran = vkdml_command("doctor", VK_DRIVER_FILES=listed, VK_ICD_FILENAMES=listed)
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = [line for line in ran.stdout.splitlines() if line.startswith("problem  driver")]
    for line, file, fault in zip(lines, files, FAULTS_OF_MANIFESTS.values(), strict=True):
        assert str(file) in line
        assert fault in line


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_doctor_escapes_what_the_encoding_of_its_output_lacks(encoding: str) -> None:
    named = "/nosuch/\udcff\u65e5.json"  # a byte that is no text, and a letter beyond Latin-1
    ran = vkdml_command("doctor", VK_DRIVER_FILES=named, VK_ICD_FILENAMES=named, PYTHONIOENCODING=encoding)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "driver    /nosuch/\\udcff" in ran.stdout
    ran = vkdml_command("devices", VK_DRIVER_FILES=named, VK_ICD_FILENAMES=named, PYTHONIOENCODING=encoding)
    assert ran.returncode == 1
    assert "VK_DRIVER_FILES names /nosuch/\\udcff" in one_line(ran.stderr)


UNREADABLE = os.fsdecode(b"\xff\xfe")


@pytest.mark.parametrize("selector", ["nosuch", "7", "-1", "True", "0" * 32, UNREADABLE])
def test_devices_are_listed_and_the_exit_is_1_when_the_selector_names_none(
    device: vkdml.Device, selector: str
) -> None:
    ran = vkdml_command("devices", VKDML_DEVICE=selector)
    assert ran.returncode == 1
    assert device.name.split()[0] in ran.stdout
    assert "*" not in ran.stdout
    assert f"VKDML_DEVICE: no device matches {selector!r}; the devices are: 0: " in one_line(ran.stderr)

    ran = vkdml_command("devices", "--json", VKDML_DEVICE=selector)
    assert ran.returncode == 1
    said = json.loads(ran.stdout)
    assert (said["default"], len(said["devices"])) == (None, len(vkdml.devices()))
    assert said["error"].startswith("VKDML_DEVICE: no device matches ")
    assert ran.stderr == f"vkdml: {said['error']}\n"


@pytest.mark.parametrize("selector", ["", "  "])
def test_an_empty_selector_is_none(device: vkdml.Device, selector: str) -> None:
    ran = vkdml_command("devices", "--json", VKDML_DEVICE=selector)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["default"] == 0


def test_doctor_when_the_selector_is_unreadable() -> None:
    ran = vkdml_command("doctor", VKDML_DEVICE=UNREADABLE)
    assert (ran.returncode, ran.stderr) == (1, "")
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("problem")]
    assert line.endswith(f"no device matches {UNREADABLE!r}")


def test_doctor_when_the_selector_names_no_device(device: vkdml.Device) -> None:
    ran = vkdml_command("doctor", VKDML_DEVICE="nosuch")
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("problem")]
    assert lines[at].split()[1] == "VKDML_DEVICE"
    assert "nosuch" in lines[at]
    assert f"{device.info.index} ({device.name})" in lines[at + 1]


def test_doctor_accepts_a_selector_that_names_a_device(device: vkdml.Device) -> None:
    ran = vkdml_command("doctor", VKDML_DEVICE=device.name[:6].upper())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"selects device {device.info.index}" in ran.stdout


@pytest.mark.parametrize(
    ("words", "named", "command"),
    [
        (["devces"], "devces", "vkdml"),
        (["devices", "--jsn"], "--jsn", "vkdml devices"),
        (["doctor", "now"], "now", "vkdml doctor"),
        (["--frobnicate"], "--frobnicate", "vkdml"),
    ],
)
def test_a_mistyped_command_is_one_line(
    words: list[str], named: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    line = one_line(said.err)
    assert named in line
    assert line.endswith(f"({command} --help lists what is accepted)")


def test_a_message_that_lists_what_is_accepted_points_nowhere_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "--op", "argmean"]) == 2
    line = one_line(capsys.readouterr().err)
    assert "accepted are" in line
    assert "--help" not in line


def test_a_closed_output_is_no_fault(device: vkdml.Device) -> None:
    for word in ("devices", "--version", "--help"):
        ran = subprocess.run(
            ["sh", "-c", f'"$0" -m vkdml {word} >&-', sys.executable],
            stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, "")


def test_profiles_that_are_ignored_are_said_in_one_line_and_by_the_doctor(device: vkdml.Device) -> None:
    ran = vkdml_command("devices", VKDML_PROFILE="yes")
    assert ran.returncode == 0
    assert one_line(ran.stderr).startswith("vkdml: VKDML_PROFILE is 'yes', so profiles are ignored")
    ran = vkdml_command("doctor", VKDML_PROFILE="yes")
    (line,) = [line for line in ran.stdout.splitlines() if "profile: VKDML_PROFILE is 'yes'" in line]
    assert line.split()[0] == "warning"
    assert "to fix: set VKDML_PROFILE to on or off, or unset it" in ran.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_output_that_cannot_be_written_is_one_line(device: vkdml.Device) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "vkdml", "devices"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ran.returncode == 1
    assert one_line(ran.stderr) == "vkdml: the output could not be written: No space left on device"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (OSError(24, "Too many open files"), "vkdml: Too many open files"),
        (KeyboardInterrupt(), None),
    ],
)
def test_a_fault_that_is_not_the_outputs_is_not_taken_for_it(
    fault: BaseException,
    said: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> list[vkdml.DeviceInfo]:
        raise fault

    monkeypatch.setattr(vkdml, "devices", fail)
    assert main(["devices"]) == (130 if said is None else 1)
    err = capsys.readouterr().err
    assert (one_line(err) if err else None) == said


def test_an_interrupt_while_the_command_is_imported_is_no_traceback() -> None:
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *others):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from vkdml.cli import main; sys.exit(main(['doctor']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (130, "")


def test_a_help_of_80_columns_breaks_no_name() -> None:
    ran = vkdml_command("bench", "--help")
    assert all(
        name in ran.stdout.split() or f"{name}," in ran.stdout.split() or f"{name}." in ran.stdout.split()
        for name in PEERS
    )
    assert "<" not in ran.stdout


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None; from vkdml.cli import main; sys.exit(main(['doctor']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert one_line(ran.stderr) == (
        f"vkdml: the command line needs {package}, which is not installed: "
        "pip install typer rich, or pip install '.[cli]' in vkdml's source folder"
    )


# ---- drivers that misbehave ---------------------------------------------------------------------


def test_a_crash_in_a_child_is_a_fault_not_the_end() -> None:
    output, fault = probe._run_child(["-c", "import os; os.abort()"])
    assert output is None
    assert fault == "a driver crashed the process (SIGABRT)"


def test_a_child_that_hangs_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_PATIENCE_S", 0.5)
    assert probe._run_child(["-c", "import time; time.sleep(60)"]) == (None, "no answer within 0.5 s")


def test_a_child_that_fails_is_reported_with_its_last_line() -> None:
    assert probe._run_child(["-c", "raise OSError('no such thing')"]) == (None, "OSError: no such thing")
    assert probe._run_child(["-c", "print('well')"]) == ("well\n", None)


def test_a_wrong_answer_of_a_device_is_a_fault(device: vkdml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe._say_trial(device.info.index)["milliseconds"] > 0
    monkeypatch.setattr(vkdml, "argmax", lambda data, device: 4)
    assert "gave 4; NumPy gives" in probe._say_trial(device.info.index)["fault"]
