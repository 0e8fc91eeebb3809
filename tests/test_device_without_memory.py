"""A driver without hardware, which compiles kernels and has no memory: Mesa's RADV can be told to be one."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest
from needs import missing

FAMILIES = ("polaris10", "navi21", "gfx1100")
"""Of several generations: waited for as the last of them, Mesa's driver crashes."""


def radv() -> str:
    found = sorted(Path("/usr/share/vulkan/icd.d").glob("radeon_icd*.json"))
    if not found:
        missing("Mesa's driver RADV is not installed (Debian: mesa-vulkan-drivers)")
    return str(found[0])


def on(drivers: str, family: str) -> dict[str, str]:
    """The environment; the validation layers have a say on devices that work."""
    return {
        "RADV_FORCE_FAMILY": family,
        "VK_DRIVER_FILES": drivers,
        "VK_ICD_FILENAMES": drivers,
        "VK_INSTANCE_LAYERS": "",
        "VKDML_DEVICE": "",
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_listed_and_compiles_and_every_use_of_memory_says_what_is_missing(family):
    lines = processes.printed(
        """
        from vkdml import dml
        print([info.name for info in vkdml.devices()])
        device = vkdml.Device(0)
        x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
        y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
        op = device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
        host = np.zeros((2, 3), np.float32)
        uses = dict(
            small=lambda: vkdml.argmax([1, 3, 2], device=device),
            copied=lambda: vkdml.slice1([1, 3, 2], (0,), (3,), (-1,), device=device),
            large=lambda: vkdml.argmax(np.zeros(1 << 20), device=device),
            tiles=lambda: vkdml.argmax(np.zeros(1 << 10), device=device, progress=lambda done, total: None),
            asarray=lambda: vkdml.asarray([1.0], device=device),
            empty=lambda: vkdml.empty(3, device=device),
            nothing=lambda: vkdml.empty(0, device=device),
            default=lambda: vkdml.argmax([1, 3, 2]),
            executed=lambda: dml.run(dml.ArgMaxOperatorDesc(x, y, axes=(1,)), host, device=device),
        )
        for name, use in uses.items():
            try:
                use()
            except vkdml.DeviceError as error:
                print(name, type(error).__name__, error)
        print(device.trim(), device.memory()["used"], device.memory()["budget"])
        """,
        **on(radv(), family),
    ).splitlines()
    assert f"RADV {family.upper()}" in lines[0]
    assert len(lines) == 11
    for line in lines[1:-1]:
        assert " DeviceError " in line, line
        assert f"(RADV {family.upper()}) reports no memory: its driver compiles kernels for hardware" in line
        assert "choose another device" in line
    assert lines[-1] == "0 0 0"


def test_it_is_not_the_default_beside_a_device_that_has_memory():
    """RADV says that it is a discrete GPU, which would go before a software driver."""
    lavapipe = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    if not lavapipe:
        missing("lavapipe is not installed (Debian: mesa-vulkan-drivers)")
    lines = processes.printed(
        """
        print([info.type for info in vkdml.devices()])
        print(vkdml.default_device().info.type, vkdml.argmax([1, 3, 2]))
        """,
        **on(f"{radv()}:{lavapipe[0]}", "navi21"),
    ).splitlines()
    assert sorted(eval(lines[0])) == ["discrete", "software"]
    assert lines[1] == "software 1"


@pytest.mark.parametrize("command", ["tune", "bench"])
def test_commands_end_with_a_line_that_says_what_is_missing(command):
    script = f"from vkdml.cli import main; raise SystemExit(main(['{command}', '--device', '0']))"
    ran = processes.finished(script, **on(radv(), "navi21"))
    assert ran.returncode == 1
    line = ran.stderr.splitlines()[-1]
    assert line.startswith("vkdml: ")
    assert "reports no memory: its driver compiles kernels for hardware that is not here" in line


def test_doctor_names_the_variable_that_makes_it():
    ran = processes.finished("from vkdml.cli import main; main(['doctor'])", **on(radv(), "navi21"))
    remedies = [line.strip() for line in ran.stdout.splitlines() if "to fix:" in line]
    assert remedies[:2] == ["to fix: unset RADV_FORCE_FAMILY"] * 2, ran.stdout
