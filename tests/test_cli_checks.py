"""What `vkdml doctor` concludes from facts; no device takes part."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import vkdml
from vkdml.cli import checks
from vkdml.cli.checks import Card, Driver, Facts, Finding, Loader, NamedDrivers, Trial
from vkdml.cli.doctor import summary
from vkdml.cli.text import count, size
from vkdml.plan import kernels
from vkdml.plan.device_classes import TUNING
from vkdml.plan.plans import PUSH_BYTES, SHARED_BYTES_OF_INVOCATION, DeviceLimits
from vkdml.runtime.device_info import select

LOADER = Loader("/lib/libvulkan.so.1", None, "1.3.239", ("VK_LAYER_KHRONOS_validation",))
NAMED = NamedDrivers("VK_ICD_FILENAMES", "VK_ICD_FILENAMES names /no", "unset it, or set it to another")
LOADER_OF_NAMED = dataclasses.replace(LOADER, named_drivers=NAMED)
ENOUGH = {need.limit: need.least for need in checks.NEEDS}


def a_device(index: int = 0, *, limits: dict[str, int] | None = None, **changes: Any) -> vkdml.DeviceInfo:
    """A device that has exactly what vkdml needs, changed as asked."""
    known: dict[str, Any] = {
        "index": index,
        "name": f"Card {index}",
        "type": "discrete",
        "uuid": "0" * 32,
        "vendor_id": 0x10DE,
        "device_id": 1,
        "api_version": "1.1.0",
        "driver_name": "driver",
        "driver_info": "1.0",
        "limits": ENOUGH | (limits or {}),
        "features": {},
        "subgroup": {"size": 32, "operations": [], "stages": []},
        "heaps": [{"size": 4 << 30, "device_local": True, "budget": 3 << 30, "usage": 1 << 30}],
        "queue_timestamp_bits": 64,
        "unified_memory": False,
    } | changes
    return vkdml.DeviceInfo(**known)


def facts(*devices: vkdml.DeviceInfo, **changes: Any) -> Facts:
    """A machine on which all is well, changed as asked; the first device is the default one."""
    devices = devices or (a_device(),)
    healthy: dict[str, Any] = {
        "versions": {"vkdml": "0.1.0", "ml_dtypes": "0.5"},
        "loader": LOADER,
        "drivers": (Driver("/icd.json", "/lib/driver.so"),),
        "devices": devices,
        "default": devices[0].index,
        "trials": {info.index: Trial(0.5) for info in devices},
        "free_memory": 8 << 30,
    }
    return Facts(**healthy | changes)


def faults(machine: Facts) -> list[Finding]:
    return [finding for finding in checks.findings(machine) if finding.level != "ok"]


def only_fault(machine: Facts) -> Finding:
    (finding,) = faults(machine)
    return finding


def test_nothing_is_wrong_with_a_machine_that_just_suffices() -> None:
    found = checks.findings(facts())
    assert faults(facts()) == []
    assert checks.worst(found) == "ok"
    assert summary(found) == "no problems, no warnings: vkdml works here"
    assert {finding.subject for finding in found} == {
        "versions", "loader", "driver", "layers", "device 0", "default", "memory",
    }  # fmt: skip


@pytest.mark.parametrize("need", checks.NEEDS, ids=lambda need: need.limit)
def test_a_limit_one_too_small_is_a_problem(need: checks.Need) -> None:
    fault = only_fault(facts(a_device(limits={need.limit: need.least - 1})))
    assert (fault.level, fault.subject) == ("problem", "device 0")
    assert need.limit in fault.detail
    assert need.text(need.least) in fault.detail
    assert fault.remedy is not None
    assert "VKDML_DEVICE" in fault.remedy


@pytest.mark.parametrize("need", checks.NEEDS, ids=lambda need: need.limit)
def test_a_limit_too_small_on_another_device_is_a_warning(need: checks.Need) -> None:
    machine = facts(a_device(0), a_device(1, limits={need.limit: need.least - 1}))
    fault = only_fault(machine)
    assert (fault.level, fault.subject) == ("warning", "device 1")
    assert summary(checks.findings(machine)) == "no problems, 1 warning: vkdml works here"


# The specification's table of required limits.
EVERY_VULKAN_HAS = {
    "max_push_constants_size": 128,
    "max_compute_workgroup_invocations": 128,
    "max_compute_shared_memory_size": 16384,
    "max_storage_buffer_range": 2**27,
    "max_per_stage_descriptor_storage_buffers": 4,
}


def test_no_more_is_needed_than_vulkan_requires_of_every_device() -> None:
    for limit, least in ENOUGH.items():
        assert least <= EVERY_VULKAN_HAS[limit], limit


def test_what_is_needed_suffices_for_the_kernels() -> None:
    assert ENOUGH["max_push_constants_size"] >= PUSH_BYTES
    most_bindings = max(len(kernel.bindings) for kernel in kernels.table().values())
    assert ENOUGH["max_per_stage_descriptor_storage_buffers"] >= most_bindings
    shared = ENOUGH["max_compute_shared_memory_size"]
    for tuning in TUNING.values():
        limits = DeviceLimits(
            tuning,
            ENOUGH["max_storage_buffer_range"],
            65535,
            ENOUGH["max_compute_workgroup_invocations"],
            shared,
        )
        assert 0 < limits.workgroup_size <= limits.max_workgroup_invocations
        assert limits.workgroup_size * SHARED_BYTES_OF_INVOCATION <= shared


@pytest.mark.parametrize(
    ("version", "well"),
    [("1.0.255", False), ("1.1", True), ("1.1.0", True), ("1.2.3", True), ("1.10.0", True), ("2.0.0", True)],
)
def test_vulkan_1_1_is_the_oldest_that_serves(version: str, well: bool) -> None:
    found = faults(facts(a_device(api_version=version)))
    assert [finding.level for finding in found] == ([] if well else ["problem"])


def test_without_a_loader_only_the_loader_is_named() -> None:
    missing = Loader(None, "libvulkan.so.1: no such file", None)
    fault = only_fault(facts(loader=missing, drivers=(), devices=(), default=None))
    assert (fault.level, fault.subject) == ("problem", "loader")
    assert "libvulkan.so.1: no such file" in fault.detail
    assert fault.remedy is not None
    assert "apt install libvulkan1" in fault.remedy


def test_a_named_driver_that_is_not_there_is_a_problem() -> None:
    found = faults(
        facts(
            loader=LOADER_OF_NAMED, drivers=(Driver("/no.json", fault="no such file"),),
            devices=(), default=None, devices_fault="no usable driver: install the Vulkan loader",
        )
    )  # fmt: skip
    assert [(finding.level, finding.subject) for finding in found] == [
        ("problem", "driver"),
        ("problem", "devices"),
    ]
    assert found[0].detail == "/no.json: no such file"
    assert found[1].detail == "no usable driver"
    assert all(finding.remedy is not None and "unset VK_ICD_FILENAMES" in finding.remedy for finding in found)


def test_a_variable_that_leaves_no_driver_is_named_and_nothing_is_to_be_installed() -> None:
    said, to_do = NAMED.fault, NAMED.remedy
    found = faults(
        facts(
            loader=LOADER_OF_NAMED, drivers=(), devices=(), default=None,
            devices_fault=f"the Vulkan loader found no usable driver: {said}: {to_do}",
        )
    )  # fmt: skip
    assert [(finding.detail, finding.remedy) for finding in found] == [
        (said, to_do),
        (f"the Vulkan loader found no usable driver: {said}", "unset VK_ICD_FILENAMES, or set it to another"),
    ]


def test_a_broken_driver_beside_a_working_one_is_a_warning() -> None:
    broken = Driver("/nvidia_icd.json", "libGLX_nvidia.so.0", "cannot open shared object file")
    fault = only_fault(facts(drivers=(Driver("/icd.json", "/lib/driver.so"), broken)))
    assert fault.level == "warning"
    assert fault.remedy is not None
    assert "NVIDIA_DRIVER_CAPABILITIES" in fault.remedy


def test_a_machine_with_no_driver_is_told_to_install_one() -> None:
    found = faults(facts(drivers=(), devices=(), default=None, devices_fault="no usable driver"))
    assert {finding.level for finding in found} == {"problem"}
    assert {finding.remedy for finding in found} == {checks.DRIVER_REMEDY}


def test_drivers_that_load_but_offer_nothing_are_to_be_tried_alone() -> None:
    drivers = (Driver("/a.json", "/a.so"), Driver("/b.json", "/b.so"))
    fault = only_fault(facts(drivers=drivers, devices=(), default=None, devices_fault="a driver crashed"))
    assert fault.remedy is not None
    assert "VK_DRIVER_FILES=/a.json" in fault.remedy


def test_a_driver_that_spoils_the_others_is_to_be_left_out() -> None:
    drivers = (Driver("/a.json", "/a.so"), Driver("/b.json", "/b.so", "crashes"), Driver("/c.json", "/c.so"))
    _, fault = faults(facts(drivers=drivers, devices=(), default=None, devices_fault="a driver crashed"))
    assert fault.remedy == "exclude the faulty driver: VK_DRIVER_FILES=/a.json:/c.json"


def test_a_selector_that_names_nothing_is_a_problem_that_lists_the_devices() -> None:
    environment = {"VKDML_DEVICE": "nosuch"}
    machine = facts(
        a_device(0),
        a_device(1),
        environment=environment,
        default=None,
        default_fault="'nosuch' matches no device",
    )
    fault = only_fault(machine)
    assert (fault.level, fault.subject) == ("problem", "VKDML_DEVICE")
    assert fault.detail == "'nosuch' matches no device"
    assert fault.remedy == "unset VKDML_DEVICE, or set it to one of these: 0 (Card 0), 1 (Card 1)"


@pytest.mark.parametrize("selector", ["card", "nosuch"])
def test_the_fault_of_a_selector_is_said_without_the_list_that_the_remedy_gives(selector: str) -> None:
    listed = "0: Card 0 (discrete, driver 1.0); 1: Card 1 (discrete, driver 1.0)"
    said = {
        "card": f"'card' matches 2 devices: {listed}; choose one by its index, UUID or whole name",
        "nosuch": f"no device matches 'nosuch'; the devices are: {listed}",
    }
    infos = a_device(0), a_device(1)
    with pytest.raises(vkdml.NoDeviceError) as caught:
        select(selector, list(infos))
    assert str(caught.value) == said[selector]
    fault = only_fault(
        facts(
            *infos,
            environment={"VKDML_DEVICE": selector},
            default=None,
            default_fault=f"VKDML_DEVICE: {said[selector]}",
        )
    )
    assert fault.detail == (
        f"'card' matches 2 devices: {listed}" if selector == "card" else "no device matches 'nosuch'"
    )


def test_a_software_default_is_a_warning_unless_it_was_asked_for() -> None:
    software = a_device(type="software")
    assert only_fault(facts(software)).level == "warning"
    assert faults(facts(software, environment={"VKDML_DEVICE": "card"})) == []
    assert only_fault(facts(software, environment={"VKDML_DEVICE": "  "})).level == "warning"
    assert faults(facts(a_device(0), a_device(1, type="software"))) == []


def test_a_wrong_computation_is_a_problem_on_any_device() -> None:
    machine = facts(a_device(0), a_device(1), trials={0: Trial(0.5), 1: Trial(None, "argmax gave 3")})
    fault = only_fault(machine)
    assert (fault.level, fault.subject, fault.detail) == ("problem", "device 1", "argmax: argmax gave 3")


def test_a_failed_computation_on_an_unfit_device_is_no_graver_than_its_limits() -> None:
    unfit = a_device(1, limits={"max_push_constants_size": 64})
    machine = facts(a_device(0), unfit, trials={0: Trial(0.5), 1: Trial(None, "refused")})
    assert [finding.level for finding in faults(machine)] == ["warning", "warning"]


def test_the_disk_of_the_drivers_cache_is_named_where_a_full_one_ends_the_process() -> None:
    crash = "a driver crashed the process (SIGBUS)"
    fault = only_fault(facts(a_device(0), trials={0: Trial(None, crash)}))
    assert "MESA_SHADER_CACHE_DISABLE=true" in str(fault.remedy)
    fault = only_fault(facts(a_device(0), trials={0: Trial(None, crash.replace("BUS", "SEGV"))}))
    assert str(fault.remedy).startswith("update its driver")


def test_a_driver_without_hardware_is_told_by_the_variable_that_makes_it() -> None:
    """More memory or a newer driver would not help."""
    machine = facts(a_device(0), a_device(1, heaps=[]), trials={0: Trial(0.5), 1: Trial(None, "no memory")})
    forced = dataclasses.replace(machine, environment={"RADV_FORCE_FAMILY": "navi21"})
    for one, remedy in (
        (forced, "unset RADV_FORCE_FAMILY"),
        (machine, "choose another device with VKDML_DEVICE"),
    ):
        assert [(finding.level, finding.remedy) for finding in faults(one)] == [("warning", remedy)] * 2
        assert faults(one)[0].detail.startswith("memory: none: its driver compiles kernels for hardware")


def test_the_gravest_finding_decides() -> None:
    well, warned, bad = Finding("ok", "a", "b"), Finding("warning", "a", "b"), Finding("problem", "a", "b")
    assert checks.worst([]) == checks.worst([well]) == "ok"
    assert checks.worst([well, warned]) == "warning"
    assert checks.worst([bad, warned, well]) == "problem"
    assert summary([bad, warned, warned]) == "1 problem, 2 warnings: fix the problems above first"


@pytest.mark.parametrize(
    ("heap", "little"),
    [
        ({"budget": None, "usage": None}, False),
        ({"budget": 1 << 30, "usage": (1 << 30) - checks.LITTLE_MEMORY}, False),
        ({"budget": 1 << 30, "usage": (1 << 30) - checks.LITTLE_MEMORY + 1}, True),
        ({"budget": 1 << 20, "usage": 1 << 30}, True),
    ],
)
def test_little_free_device_memory_is_a_warning(heap: dict[str, int | None], little: bool) -> None:
    found = faults(facts(a_device(heaps=[{"size": 4 << 30, "device_local": True, **heap}])))
    assert [finding.level for finding in found] == ["warning"] * little


def test_only_the_devices_own_heaps_count() -> None:
    host = {"size": 64 << 30, "device_local": False, "budget": 64 << 30, "usage": 0}
    own = {"size": 1 << 30, "device_local": True, "budget": 1 << 20, "usage": 0}
    assert only_fault(facts(a_device(heaps=[host, own]))).level == "warning"
    assert faults(facts(a_device(heaps=[host]))) == []


@pytest.mark.parametrize(("free", "little"), [(None, False), (checks.LITTLE_MEMORY, False), (1 << 20, True)])
def test_little_main_memory_is_a_warning(free: int | None, little: bool) -> None:
    assert [finding.subject for finding in faults(facts(free_memory=free))] == ["memory"] * little


def test_the_validation_layer_is_information() -> None:
    absent = facts(loader=dataclasses.replace(LOADER, layers=()))
    said = [finding for finding in checks.findings(absent) if finding.subject == "layers"]
    assert [finding.level for finding in said] == ["ok"]
    assert "absent" in said[0].detail


def test_a_layer_that_is_asked_for_and_missing_is_a_problem_unless_a_device_computes() -> None:
    present = facts(environment={"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"})
    assert faults(present) == []
    lacking = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation:VK_LAYER_none"}
    fault = only_fault(facts(environment=lacking))
    assert (fault.level, fault.subject) == ("warning", "layers")
    assert "VK_LAYER_none" in fault.detail
    without_device = facts(environment=lacking, trials={})
    levels = [finding.level for finding in faults(without_device) if finding.subject == "layers"]
    assert levels == ["problem"]


def test_a_card_without_a_vulkan_driver_is_a_warning() -> None:
    amd, nvidia, virtual = Card(0x1002, 0x73BF), Card(0x10DE, 0x2335), Card(0x1AF4, 0x1050)
    fault = only_fault(facts(cards=(amd, nvidia, virtual)))
    assert fault.level == "warning"
    assert "AMD card 1002:73bf" in fault.detail
    assert faults(facts(cards=(amd,), loader=LOADER_OF_NAMED)) == []


def test_a_render_node_that_is_closed_to_the_user_is_a_warning() -> None:
    fault = only_fault(facts(closed_nodes=("/dev/dri/renderD128",)))
    assert fault.remedy is not None
    assert "render" in fault.remedy


def test_ml_dtypes_is_optional() -> None:
    machine = facts(versions={"vkdml": "0.1.0", "ml_dtypes": None})
    assert faults(machine) == []
    assert any("pip install ml_dtypes" in finding.detail for finding in checks.findings(machine))


def test_every_fault_comes_with_its_remedy() -> None:
    broken = facts(
        a_device(limits=dict.fromkeys(ENOUGH, 0), api_version="1.0.0", heaps=[]),
        environment={"VKDML_DEVICE": "x", "VK_INSTANCE_LAYERS": "none"}, loader=LOADER_OF_NAMED,
        drivers=(Driver("/no", fault="no such file"),), default=None, trials={0: Trial(None, "crashed")},
        closed_nodes=("/dev/dri/renderD128",), free_memory=0,
    )  # fmt: skip
    assert len(faults(broken)) == len(ENOUGH) + 8
    assert all(finding.remedy for finding in faults(broken))


def test_numbers_are_said_in_their_units() -> None:
    assert [size(number) for number in (0, 1023, 1024, 1536, 16 << 10, 1 << 27, 1000 << 20, 139 << 30)] == [
        "0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "16 KiB", "128 MiB", "1000 MiB", "139 GiB",
    ]  # fmt: skip
    assert [count(number, "problem") for number in (0, 1, 2)] == ["no problems", "1 problem", "2 problems"]
