"""The findings of `vkdml doctor`, derived from facts; reads no device, file or environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vkdml import DeviceInfo
from vkdml.cli.text import size
from vkdml.common.wording import how_to_install
from vkdml.runtime.device_info import driver_of

Level = Literal["ok", "warning", "problem"]

DEBUGGING_LAYER = "VK_LAYER_KHRONOS_validation"
LOWEST_API = (1, 1)
# Bytes. With less free memory, even a small call may fail.
LITTLE_MEMORY = 256 << 20


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: its level, what was found and, unless the level is "ok", a remedy."""

    level: Level
    subject: str
    detail: str
    remedy: str | None = None


@dataclass(frozen=True)
class Need:
    """A device limit that vkdml needs: its key in `DeviceInfo.limits` and its smallest accepted value."""

    limit: str
    least: int
    in_bytes: bool

    def text(self, value: int) -> str:
        return size(value) if self.in_bytes else str(value)


NEEDS = (
    Need("max_push_constants_size", 128, in_bytes=True),
    Need("max_compute_workgroup_invocations", 128, in_bytes=False),
    Need("max_compute_shared_memory_size", 16 << 10, in_bytes=True),
    Need("max_storage_buffer_range", 128 << 20, in_bytes=True),
    Need("max_per_stage_descriptor_storage_buffers", 4, in_bytes=False),
)


@dataclass(frozen=True)
class NamedDrivers:
    """The variable that names all of the loader's drivers, and its fault if none of them can be used."""

    variable: str
    fault: str
    remedy: str

    @property
    def whole_remedy(self) -> str:
        """The remedy where the fault does not stand beside it."""
        return self.remedy.replace("unset it", f"unset {self.variable}")


@dataclass(frozen=True)
class Loader:
    """The Vulkan loader: the path of the opened library, or the reason why none could be opened."""

    path: str | None
    error: str | None
    api_version: str | None
    layers: tuple[str, ...] = ()
    named_drivers: NamedDrivers | None = None


@dataclass(frozen=True)
class Driver:
    """One driver manifest (ICD file): the library that it names, and why that cannot be loaded, if so."""

    manifest: str
    library: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class Trial:
    """One computation on a device: milliseconds of a second call, or its fault.

    ``profile_fault`` is why the stored profile, or the variable that switches profiles, has no effect.
    """

    milliseconds: float | None
    fault: str | None = None
    profile_fault: str | None = None


@dataclass(frozen=True)
class Card:
    """A graphics card or accelerator on the PCI bus."""

    vendor_id: int
    device_id: int


@dataclass(frozen=True)
class Facts:
    """All that `vkdml doctor` checks; memory sizes are in bytes.

    ``environment`` holds the variables that affect Vulkan or vkdml and are set, the empty ones too: the
    loader follows them.
    """

    versions: Mapping[str, str | None]
    loader: Loader
    environment: Mapping[str, str] = field(default_factory=dict)
    drivers: tuple[Driver, ...] = ()
    devices: tuple[DeviceInfo, ...] = ()
    devices_fault: str | None = None
    default: int | None = None
    default_fault: str | None = None
    trials: Mapping[int, Trial] = field(default_factory=dict)
    cards: tuple[Card, ...] = ()
    closed_nodes: tuple[str, ...] = ()
    free_memory: int | None = None


def findings(facts: Facts) -> list[Finding]:
    """Return all findings about a machine; a fault stands before the faults that it causes.

    Args:
        facts: what :func:`vkdml.cli.probe.gather` returns.
    """
    found = [*versions(facts), *loader(facts)]
    if facts.loader.error is None:
        found += [*drivers(facts), *layers(facts), *cards(facts)]
        for info in facts.devices:
            found += device(info, facts)
        found += default(facts)
    return [*found, *memory(facts)]


def worst(found: list[Finding]) -> Level:
    """Return the most serious level of the findings; "ok" if there are none."""
    levels = {finding.level for finding in found}
    return "problem" if "problem" in levels else "warning" if "warning" in levels else "ok"


def versions(facts: Facts) -> Iterator[Finding]:
    known = ", ".join(f"{name} {version}" for name, version in facts.versions.items() if version)
    yield Finding("ok", "versions", known)
    if not facts.versions.get("ml_dtypes"):
        yield Finding(
            "ok",
            "ml_dtypes",
            f"not installed; needed only for bfloat16 and float8: {how_to_install('ml_dtypes', 'dtypes')}",
        )


def loader(facts: Facts) -> Iterator[Finding]:
    if facts.loader.error is None:
        yield Finding("ok", "loader", f"{facts.loader.path}, Vulkan {facts.loader.api_version or '1.0'}")
    else:
        yield Finding("problem", "loader", f"cannot be opened: {facts.loader.error}", LOADER_REMEDY)


LOADER_REMEDY = (
    "install the Vulkan loader and a driver: apt install libvulkan1 mesa-vulkan-drivers (Debian, Ubuntu), "
    "dnf install vulkan-loader mesa-vulkan-drivers (Fedora)"
)
DRIVER_REMEDY = "install a driver: apt install mesa-vulkan-drivers, or the GPU vendor's driver"
CONTAINER_REMEDY = (
    "install the NVIDIA driver's graphics libraries; in a container set NVIDIA_DRIVER_CAPABILITIES=all"
)

# Mesa writes its cache of kernels to mapped memory, which ends in this signal where the disk is full.
FULL_DISK_REMEDY = (
    "make room on the disk of the driver's cache (Mesa's: ~/.cache/mesa_shader_cache), or set "
    "MESA_SHADER_CACHE_DISABLE=true"
)


def drivers(facts: Facts) -> Iterator[Finding]:
    named = facts.loader.named_drivers
    if not facts.drivers and named is not None:
        yield Finding("problem", "drivers", named.fault, named.remedy)
    elif not facts.drivers:
        yield Finding("problem", "drivers", "the loader finds no driver manifest (ICD file)", DRIVER_REMEDY)
    for driver in facts.drivers:
        if driver.fault is None:
            yield Finding("ok", "driver", f"{driver.manifest}: {driver.library}")
        elif named is not None:
            yield Finding(
                "problem",
                "driver",
                f"{driver.manifest}: {driver.fault}",
                named.whole_remedy,
            )
        else:
            nvidia = "nvidia" in (driver.library or driver.manifest).lower()
            yield Finding(
                "warning" if facts.devices else "problem",
                "driver",
                f"{driver.manifest}: {driver.fault}",
                CONTAINER_REMEDY
                if nvidia
                else "reinstall the package this file belongs to, or remove the file",
            )
    if facts.devices_fault is not None:
        yield Finding("problem", "devices", _without_advice(facts.devices_fault), _devices_remedy(facts))


def _without_advice(fault: str) -> str:
    """Return an error message without its general advice: the remedy is more exact."""
    fault = fault.removeprefix("VKDML_DEVICE: ")
    for advice in (": install ", ": unset ", ": reinstall ", "; the devices are: ", "; choose one by "):
        fault = fault.partition(advice)[0]
    return fault


def _devices_remedy(facts: Facts) -> str:
    named = facts.loader.named_drivers
    usable = [driver.manifest for driver in facts.drivers if driver.fault is None]
    if not usable:
        if named is None:
            return DRIVER_REMEDY
        return named.whole_remedy
    if len(usable) < len(facts.drivers):
        return f"exclude the faulty driver: VK_DRIVER_FILES={':'.join(usable)}"
    if len(usable) == 1:
        return (
            f"reinstall the driver of {usable[0]}, or install a software one: apt install mesa-vulkan-drivers"
        )
    return f"find the faulty driver: try each driver alone, beginning with VK_DRIVER_FILES={usable[0]}"


def layers(facts: Facts) -> Iterator[Finding]:
    present = DEBUGGING_LAYER in facts.loader.layers
    yield Finding(
        "ok", "layers", f"{DEBUGGING_LAYER} {'present' if present else 'absent'} (needed for debugging only)"
    )
    # Some loaders open no device then, others go on without the layer.
    works = any(trial.fault is None for trial in facts.trials.values())
    wanted = [name for name in facts.environment.get("VK_INSTANCE_LAYERS", "").split(":") if name]
    for name in wanted:
        if name not in facts.loader.layers:
            yield Finding(
                "warning" if works else "problem",
                "layers",
                f"VK_INSTANCE_LAYERS names {name}, which is not installed",
                f"unset VK_INSTANCE_LAYERS, or name only installed layers: {_list(facts.loader.layers)}",
            )


FORCED_FAMILY = "RADV_FORCE_FAMILY"
"""Set, it makes Mesa's driver for AMD stand for a GPU that is not there."""
VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel"}


def cards(facts: Facts) -> Iterator[Finding]:
    """Yield findings about cards on the PCI bus that are no Vulkan devices."""
    for node in facts.closed_nodes:
        yield Finding(
            "warning",
            "card",
            f"this user may not open {node}",
            "sudo usermod -aG render,video $USER, then log in again",
        )
    if facts.loader.named_drivers is not None:
        return
    served = {info.vendor_id for info in facts.devices}
    for card in facts.cards:
        vendor = VENDORS.get(card.vendor_id)
        if vendor is not None and card.vendor_id not in served:
            yield Finding(
                "warning",
                "card",
                f"the {vendor} card {card.vendor_id:04x}:{card.device_id:04x} has no working Vulkan driver",
                CONTAINER_REMEDY if vendor == "NVIDIA" else "apt install mesa-vulkan-drivers",
            )


def device(info: DeviceInfo, facts: Facts) -> Iterator[Finding]:
    """Yield findings about a device's versions, limits, memory and one computation.

    A device that is not the default one and lacks something that vkdml needs is a warning: it fails only if
    it is selected.
    """
    subject = f"device {info.index}"
    lacking: Level = "warning" if facts.default not in (None, info.index) else "problem"
    another = "update its driver, or choose another device with VKDML_DEVICE"
    if not info.heaps:  # a driver that only compiles
        forced = FORCED_FAMILY in facts.environment
        another = f"unset {FORCED_FAMILY}" if forced else "choose another device with VKDML_DEVICE"
    driver = driver_of(info)
    yield Finding("ok", subject, f"{info.name}, {info.type}, Vulkan {info.api_version}, driver {driver}")

    unmet = False
    if _version(info.api_version) < LOWEST_API:
        unmet = True
        least = ".".join(map(str, LOWEST_API))
        yield Finding(
            lacking, subject, f"limits: Vulkan {info.api_version}; vkdml needs at least {least}", another
        )
    for need in NEEDS:
        value = info.limits[need.limit]
        if not isinstance(value, int) or value < need.least:
            unmet = True
            text = need.text(value) if isinstance(value, int) else str(value)
            yield Finding(
                lacking,
                subject,
                f"limits: {need.limit} is {text}; vkdml needs at least {need.text(need.least)}",
                another,
            )
    if not unmet:
        smallest = info.limits["max_storage_buffer_range"]
        text = size(smallest) if isinstance(smallest, int) else str(smallest)
        yield Finding("ok", subject, f"limits: all {len(NEEDS) + 1} are sufficient; largest buffer {text}")

    if info.heaps:
        yield from _heaps(info, subject)
    else:
        unmet = True
        hardware = "its driver compiles kernels for hardware that is not here, and runs none"
        yield Finding(lacking, subject, f"memory: none: {hardware}", another)
    trial = facts.trials.get(info.index)
    if trial is not None and trial.fault is None:
        yield Finding("ok", subject, f"argmax: right, {trial.milliseconds:.2f} ms")
    elif trial is not None:
        remedy = FULL_DISK_REMEDY if trial.fault is not None and "SIGBUS" in trial.fault else another
        yield Finding(lacking if unmet else "problem", subject, f"argmax: {trial.fault}", remedy)
    if trial is not None and trial.profile_fault is not None:
        yield Finding(
            "warning",
            subject,
            f"profile: {trial.profile_fault}",
            "set VKDML_PROFILE to on or off, or unset it"
            if trial.profile_fault.startswith("VKDML_PROFILE")
            else "run 'vkdml tune', or delete the profile with 'vkdml tune --reset'",
        )


def _heaps(info: DeviceInfo, subject: str) -> Iterator[Finding]:
    own = [heap for heap in info.heaps if heap["device_local"]] or list(info.heaps)
    total = sum(int(heap["size"]) for heap in own)
    free = sum(
        int(heap["size"] if heap["budget"] is None else max(0, heap["budget"] - (heap["usage"] or 0)))
        for heap in own
    )
    known = any(heap["budget"] is not None for heap in own)
    detail = f"memory: {size(total)}" + (f", {size(free)} of it free" if known else "")
    if free < LITTLE_MEMORY:
        yield Finding("warning", subject, detail, "end other programs that use this device")
    else:
        yield Finding("ok", subject, detail)


def default(facts: Facts) -> Iterator[Finding]:
    """Yield findings about the device of calls without `device=`, and about VKDML_DEVICE."""
    if not facts.devices:
        return
    selector = facts.environment.get("VKDML_DEVICE", "").strip()
    subject = "VKDML_DEVICE" if selector else "default"
    chosen = next((info for info in facts.devices if info.index == facts.default), None)
    if chosen is None:
        accepted = _list([f"{info.index} ({info.name})" for info in facts.devices])
        change = "unset VKDML_DEVICE, or set it" if selector else "set VKDML_DEVICE"
        yield Finding(
            "problem",
            subject,
            _without_advice(facts.default_fault or "no device is chosen"),
            f"{change} to one of these: {accepted}",
        )
        return
    text = f"device {chosen.index}, {chosen.name}"
    yield Finding("ok", subject, f"{selector!r} selects {text}" if selector else text)
    if chosen.type == "software" and not selector:
        yield Finding(
            "warning",
            subject,
            f"device {chosen.index} is a software driver: results are right, but slower than on a GPU",
            "install the GPU's Vulkan driver, or set VKDML_DEVICE to this device's name to keep it",
        )


def memory(facts: Facts) -> Iterator[Finding]:
    if facts.free_memory is None:
        return
    if facts.free_memory < LITTLE_MEMORY:
        yield Finding(
            "warning", "memory", f"only {size(facts.free_memory)} free", "end other programs, or add memory"
        )
    else:
        yield Finding("ok", "memory", f"{size(facts.free_memory)} free")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
