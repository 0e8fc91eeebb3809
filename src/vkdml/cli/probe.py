"""Gathers the facts for `vkdml doctor`. Drivers run in child processes: a crash becomes a finding."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import vkdml
from vkdml.cli.checks import FORCED_FAMILY, Card, Driver, Facts, Loader, NamedDrivers, Trial
from vkdml.runtime import device_info, host_memory

_VARIABLES = (
    "VKDML_DEVICE",
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_ADD_DRIVER_FILES",
    "VK_INSTANCE_LAYERS",
    "VK_LOADER_DRIVERS_SELECT",
    "VK_LOADER_DRIVERS_DISABLE",
    FORCED_FAMILY,
)
# The child gets the parent's module path, and no entry for the working directory.
_CHILD = (
    "import json, sys; path, part, argument = map(json.loads, sys.argv[1:]); sys.path[:] = path; "
    "from vkdml.cli import probe; probe.answer(part, argument)"
)
# Seconds. A software driver needs some seconds for its first kernel on a busy machine.
_PATIENCE_S = 60.0
_TRIAL_ELEMENTS = 4099


def gather(progress: Callable[[str], None] = lambda doing: None) -> Facts:
    """Gather the facts about this machine.

    Args:
        progress: is called with a few words about each step before it starts.
    """
    progress("looking for the loader")
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    said, fault = _ask("loader")
    loader = Loader(None, fault, None) if said is None else _loader(said)
    facts = Facts(
        versions=_versions(), loader=loader, environment=environment, cards=tuple(_cards()),
        closed_nodes=tuple(_closed_nodes()), free_memory=_free_memory(),
    )  # fmt: skip
    if loader.error is not None:
        return facts

    progress("loading the drivers")
    drivers = tuple(_driver(path) for path in said["icd_files"]) if said is not None else ()
    progress("listing the devices")
    said, fault = _ask("devices")
    facts = dataclasses.replace(facts, drivers=drivers, devices_fault=fault)
    if said is None:
        return facts

    devices = tuple(vkdml.DeviceInfo(**fields) for fields in said["devices"])
    trials = {}
    for info in devices:
        progress(f"computing on {info.name}")
        answer, fault = _ask("trial", info.index)
        trials[info.index] = (
            Trial(None, fault)
            if answer is None
            else Trial(float(answer["milliseconds"]), profile_fault=answer["profile_fault"])
        )
    return dataclasses.replace(
        facts, devices=devices, default=said["default"], default_fault=said["default_fault"], trials=trials
    )


def _ask(part: str, argument: object = None) -> tuple[dict[str, Any] | None, str | None]:
    """Run one part of the probe in a child process; return its answer, or None and the fault."""
    output, fault = _run_child(["-c", _CHILD, *(json.dumps(word) for word in (sys.path, part, argument))])
    if output is None:
        return None, fault
    said: dict[str, Any] = json.loads(_last_line(output))
    return (None, str(said["fault"])) if said.get("fault") else (said, None)


def _run_child(words: list[str]) -> tuple[str | None, str | None]:
    """Run this interpreter with `words`; return its output, or None and the fault."""
    try:
        child = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"no answer within {_PATIENCE_S:g} s"
    if child.returncode < 0:
        return None, f"a driver crashed the process ({signal.Signals(-child.returncode).name})"
    if child.returncode > 0:
        return None, _last_line(child.stderr) or f"exit status {child.returncode}"
    return child.stdout, None


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def answer(part: str, argument: Any) -> None:
    """Print the answer to one question of the parent process as a line of JSON; runs in the child.

    Args:
        part: "loader", "devices" or "trial".
        argument: of a trial, the index of the device.
    """
    parts = {"loader": _say_loader, "devices": _say_devices, "trial": _say_trial}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            said = parts[part](argument)
        except (vkdml.DeviceError, MemoryError, ValueError) as error:
            said = {"fault": " ".join(str(error).split()) or type(error).__name__}
    print("\n" + json.dumps(said))


def _say_loader(_: object) -> dict[str, Any]:
    return device_info.loader()


def _say_devices(_: object) -> dict[str, Any]:
    devices = vkdml.devices()
    said: dict[str, Any] = {"devices": [dataclasses.asdict(info) for info in devices]}
    try:
        said |= {"default": vkdml.default_device().info.index, "default_fault": None}
    except (vkdml.DeviceError, ValueError) as error:
        said |= {"default": None, "default_fault": " ".join(str(error).split())}
    return said


def _say_trial(index: int) -> dict[str, Any]:
    # Few distinct numbers, so that the largest one occurs several times: the first occurrence is the answer.
    data = np.random.default_rng(0).integers(0, 1000, _TRIAL_ELEMENTS).astype(np.float32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", vkdml.ProfileWarning)
        device = vkdml.Device(index)
    profile_fault = next((str(each.message) for each in said if each.category is vkdml.ProfileWarning), None)
    milliseconds = 0.0
    for _ in range(2):  # the second call builds nothing
        start = time.perf_counter()
        found = vkdml.argmax(data, device=device)
        milliseconds = (time.perf_counter() - start) * 1e3
        if found != np.argmax(data):
            return {"fault": f"argmax of {data.size} float32 gave {found}; NumPy gives {np.argmax(data)}"}
    return {"milliseconds": milliseconds, "profile_fault": profile_fault}


def _loader(said: dict[str, Any]) -> Loader:
    error = said["error"] or (None if said["path"] else "no Vulkan loader was found")
    named = said["named_drivers"] and NamedDrivers(**said["named_drivers"])
    return Loader(said["path"], error, said["api_version"], tuple(said["layers"]), named)


def _versions() -> dict[str, str | None]:
    try:
        ml_dtypes: str | None = importlib.metadata.version("ml_dtypes")
    except importlib.metadata.PackageNotFoundError:
        ml_dtypes = None
    return {
        "vkdml": vkdml.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "ml_dtypes": ml_dtypes,
    }


def _driver(manifest: str) -> Driver:
    """Read one ICD file, and open the library that it names in a child process."""
    try:
        icd = json.loads(Path(manifest).read_bytes())["ICD"]
        library, version = icd["library_path"], icd["api_version"]
        if not isinstance(library, str) or not library or "\0" in library or not isinstance(version, str):
            raise ValueError
    except FileNotFoundError:
        return Driver(manifest, fault="no such file")
    except OSError as error:
        return Driver(manifest, fault=error.strerror or str(error))
    except (ValueError, KeyError, TypeError):
        accepted = "JSON with ICD.library_path and ICD.api_version"
        return Driver(manifest, fault=f"not an ICD file; accepted: {accepted}")
    # A path with a slash is relative to the manifest; the system searches for a bare name.
    path = str(Path(manifest).parent / library) if "/" in library else library
    _, fault = _run_child(["-S", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", path])
    return Driver(manifest, path, fault and fault.removeprefix("OSError: "))


def _cards() -> Iterable[Card]:
    for folder in sorted(Path("/sys/bus/pci/devices").glob("*")):
        try:
            kind, vendor, device = (
                int((folder / name).read_text(), 16) for name in ("class", "vendor", "device")
            )
        except (OSError, ValueError):
            continue
        if kind >> 16 == 0x03 or kind >> 8 == 0x1200:  # display controllers, processing accelerators
            yield Card(vendor, device)


def _closed_nodes() -> Iterable[str]:
    for node in sorted(Path("/dev/dri").glob("renderD*")):
        if not os.access(node, os.R_OK | os.W_OK):
            yield str(node)


def _free_memory() -> int | None:
    """Return the bytes of main memory that vkdml can have; None if the system does not tell."""
    free = host_memory.available()
    return free if free < 1 << 63 else None
