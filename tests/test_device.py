"""Choosing devices, and what is said of software ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import vkdml
from vkdml.device import select


@pytest.fixture(scope="module")
def made_up():
    info = vkdml.devices()[0]

    def make(index, name, kind, uuid, driver):
        return replace(info, index=index, name=name, type=kind, uuid=uuid * 32, driver_name=driver)

    return [
        make(0, "llvmpipe (LLVM 15)", "software", "a", "llvmpipe"),
        make(1, "Some Integrated 770", "integrated", "b", "Mesa"),
        make(2, "NVIDIA H200", "discrete", "c", "NVIDIA"),
        make(3, "NVIDIA H200", "discrete", "d", "NVIDIA"),
    ]


@pytest.mark.parametrize(
    ("selector", "index"),
    [
        (None, 2),
        (0, 0),
        ("1", 1),
        ("nvidia", 2),
        ("LLVM", 0),
        ("mesa", 1),
        ("d" * 32, 3),
        ("DDDDDDDD-dddd-dddd-dddd-dddddddddddd", 3),
    ],
)
def test_selectors(made_up, selector, index):
    assert select(selector, made_up).index == index


def test_discrete_before_integrated_before_software(made_up):
    assert select(None, made_up[:2]).index == 1
    assert select(None, made_up[:1]).index == 0


@pytest.mark.parametrize("selector", [7, -1, "amd", "", "e" * 32])
def test_what_matches_nothing_is_answered_with_what_there_is(made_up, selector):
    with pytest.raises(
        vkdml.NoDeviceError, match=r"no device matches .*there is 0: llvmpipe .* 3: NVIDIA H200"
    ):
        select(selector, made_up)


@pytest.mark.parametrize("selector", [True, 1.5, b"nvidia", ["0"]])
def test_selectors_of_other_types_are_refused(made_up, selector):
    with pytest.raises(TypeError, match="a device is chosen by index"):
        select(selector, made_up)
    with pytest.raises(TypeError, match=r"device is a vkdml\.Device"):
        vkdml.argmax([1, 2], device={"0": 1} if isinstance(selector, list) else selector)


def test_the_environment_variable_chooses_the_default_and_is_named_in_errors(monkeypatch):
    info = vkdml.devices()[0]
    monkeypatch.setenv("VKDML_DEVICE", info.uuid)
    assert vkdml.default_device().info.uuid == info.uuid
    assert vkdml.default_device() is vkdml.default_device()
    monkeypatch.setenv("VKDML_DEVICE", "no such card")
    with pytest.raises(vkdml.NoDeviceError, match="VKDML_DEVICE: no device matches 'no such card'"):
        vkdml.argmax([1, 2])
    monkeypatch.delenv("VKDML_DEVICE")
    assert vkdml.argmax([1, 2]) == 1


def test_info_tells_limits_and_types():
    info = vkdml.Device().info
    assert info in vkdml.devices() or [i for i in vkdml.devices() if i.uuid == info.uuid]
    assert info.type in ("discrete", "integrated", "virtual", "software", "other")
    assert len(info.uuid) == 32
    assert info.limits["max_storage_buffer_range"] >= 1 << 27
    assert info.limits["max_push_constants_size"] >= 128
    assert info.limits["timestamp_period_ns"] >= 0
    assert info.subgroup["size"] >= 1
    assert info.heaps
    assert repr(vkdml.Device(info.index)) == f"<vkdml.Device {info.index}: {info.name} ({info.type})>"


SOFTWARE_SCRIPT = """
import warnings, vkdml
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    vkdml.argmax([1, 2])  # this line
    vkdml.argmin([1, 2])
    vkdml.slice1([1, 2], (0,), (2,), (1,))
found = [w for w in caught if issubclass(w.category, vkdml.SoftwareDeviceWarning)]
print(len(found), [w.lineno for w in found], [w.filename for w in found])
"""


def test_a_software_default_is_said_once_where_it_was_used():
    expected = "0 [] []" if vkdml.Device().info.type != "software" else "1 [5] ['<string>']"
    done = subprocess.run([sys.executable, "-c", SOFTWARE_SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == expected, done.stderr
