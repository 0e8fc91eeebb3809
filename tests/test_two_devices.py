"""A machine with several devices: two software drivers, loaded side by side in a process of its own."""

from __future__ import annotations

import needs
import processes
import pytest
from processes import one_line, vkdml_command


@pytest.fixture(scope="module")
def both() -> dict[str, str]:
    """An environment in which the loader offers lavapipe and SwiftShader."""
    return needs.two_drivers()


PREPARED = """
    import re
    infos = vkdml.devices()
    llvm = next(info.index for info in infos if info.driver_name == "llvmpipe")
    swift = 1 - llvm

    def refusal(error, use):
        try:
            use()
        except error as caught:
            assert type(caught) is error, caught
            return str(caught)
        raise AssertionError("nothing was raised")
"""


def test_each_device_is_one_object_by_any_of_its_names(both):
    processes.printed(
        PREPARED
        + """
    for index, part in ((llvm, "llvm"), (swift, "swiftshader")):
        info = infos[index]
        device = vkdml.Device(index)
        for selector in (str(index), part, part.upper(), info.name, info.uuid, np.int16(index), device):
            assert vkdml.Device(selector) is device
        assert device.info == info
        assert vkdml.argmax([1, 3, 2], device=part) == 1
    assert vkdml.Device(llvm) is not vkdml.Device(swift)
    assert vkdml.Device(llvm) != vkdml.Device(swift)
    assert vkdml.default_device() is vkdml.Device(0)
        """,
        **both,
    )


def test_a_name_that_both_have_is_an_error_that_lists_them(both):
    processes.printed(
        PREPARED
        + """
    listed = re.escape(f"0: {infos[0].name} ") + ".*; " + re.escape(f"1: {infos[1].name} ")
    for use in (
        lambda: vkdml.Device("e"),
        lambda: vkdml.set_default_device("E"),
        lambda: vkdml.asarray([1, 2], device="e"),
        lambda: vkdml.argmax([1, 2], device="e"),
        lambda: vkdml.argmax([1, 2], device=[0, "e"]),
    ):
        said = refusal(vkdml.NoDeviceError, use)
        assert re.search(f"'[eE]' matches 2 devices: {listed}", said), said
    said = refusal(vkdml.NoDeviceError, lambda: vkdml.Device("garbage"))
    assert re.match(f"no device matches 'garbage'; the devices are: {listed}", said), said
        """,
        **both,
    )


def test_an_ambiguous_environment_is_an_error_that_names_it(both):
    script = """
    for use in (vkdml.Device, vkdml.default_device, lambda: vkdml.argmax([1, 2])):
        try:
            use()
        except vkdml.NoDeviceError as error:
            print("VKDML_DEVICE: 'e' matches 2 devices: 0: " in str(error))
    vkdml.set_default_device(1)
    print(vkdml.argmax([1, 2]), vkdml.default_device().info.index)
    """
    said = processes.printed(script, **both | {"VKDML_DEVICE": "e"})
    assert said == "True\nTrue\nTrue\n1 1\n"
    assert processes.printed("print(vkdml.Device().info.index)", **both | {"VKDML_DEVICE": " 1 "}) == "1\n"


def test_arrays_move_between_devices_and_do_not_mix(both):
    processes.printed(
        PREPARED
        + """
    x = np.int32([[1, 5, 3], [7, 2, 9]])
    a, b = vkdml.asarray(x, device=llvm), vkdml.asarray(x, device="swift")
    assert (a.device, b.device) == (vkdml.Device(llvm), vkdml.Device(swift))
    moved = a.to_device(swift)
    assert moved.device is b.device and (moved.numpy() == x).all()
    assert a.to_device("llvm") is a and b.to_device(swift) is b
    assert vkdml.argmax(a, 1, device="llvm").tolist() == [1, 2]
    both_named = re.escape(repr(a.device)) + ".* and .*" + re.escape(repr(b.device))
    for use in (
        lambda: vkdml.argmax(a, device=swift),
        lambda: vkdml.argmax(a, device=[llvm, swift]),
        lambda: a.__setitem__(..., b),
        lambda: vkdml.argmax(a, 1, out=vkdml.empty(2, np.int64, device=swift)),
    ):
        assert re.search(both_named, refusal(ValueError, use)), refusal(ValueError, use)
        """,
        **both,
    )


def test_a_list_of_devices_shares_the_work_and_has_none_twice(both):
    processes.printed(
        PREPARED
        + """
    x = np.random.default_rng(1).integers(0, 1 << 20, (300, 400), np.int32)
    assert (vkdml.argmax(x, 1, device=[0, 1]) == x.argmax(1)).all()
    shards = vkdml.asarray(x, device=["swift", "llvm"])
    assert set(shards.devices) == {vkdml.Device(0), vkdml.Device(1)}
    assert (shards.argmax(1) == x.argmax(1)).all()
    for twice in ([0, 0], [llvm, "llvm"], [llvm, infos[llvm].uuid, swift], [vkdml.Device(0), 1, "0"]):
        for use in (lambda: vkdml.argmax(x, device=twice), lambda: vkdml.asarray(x, device=twice)):
            assert "twice; accepted are distinct devices" in refusal(ValueError, use)
        """,
        **both,
    )


def test_the_default_can_be_set_and_one_device_closed_without_the_other(both):
    processes.printed(
        PREPARED
        + """
    for index in (1, 0, 1):
        vkdml.set_default_device(index)
        assert vkdml.asarray([1]).device is vkdml.default_device() is vkdml.Device() is vkdml.Device(index)
    first, second = vkdml.Device(0), vkdml.Device(1)
    vkdml.set_default_device(None)
    assert vkdml.default_device() is first
    kept = vkdml.asarray([1, 3, 2], device=second)
    with first:
        assert vkdml.argmax([1, 3, 2]) == 1
    assert "was closed" in refusal(vkdml.DeviceError, lambda: vkdml.argmax([1, 2], device=first))
    assert vkdml.Device(1) is second and int(vkdml.argmax(kept)) == 1
    assert vkdml.default_device() is vkdml.Device(0) is not first
    assert vkdml.argmax([1, 3, 2]) == 1
        """,
        **both,
    )


def test_the_commands_list_the_devices_when_a_name_means_both(both):
    environment = both | {"VKDML_DEVICE": "e"}
    ran = vkdml_command("devices", **environment)
    assert ran.returncode == 1
    assert "llvmpipe" in ran.stdout
    assert "SwiftShader" in ran.stdout
    assert "*" not in ran.stdout
    assert "VKDML_DEVICE: 'e' matches 2 devices: 0: " in one_line(ran.stderr)

    ran = vkdml_command("doctor", **environment)
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = ran.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("problem")]
    assert lines[at].split()[1] == "VKDML_DEVICE"
    assert "'e' matches 2 devices: 0: " in lines[at]
    assert "unset VKDML_DEVICE, or set it to one of these: 0 (" in lines[at + 1]
    assert ran.stdout.count("argmax: right") == 2

    ran = vkdml_command("tune", "--show", "--device", "e", **both)
    assert ran.returncode == 2
    assert "--device: 'e' matches 2 devices: 0: " in one_line(ran.stderr)
