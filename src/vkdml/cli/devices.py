"""`vkdml devices`: a table of the Vulkan devices, with a mark at the default one."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence

import typer
from rich import box
from rich.table import Table

import vkdml
from vkdml.bench.tables import console_of_whole_lines, print_whole
from vkdml.cli.text import size
from vkdml.runtime.device_info import driver_of


def devices(
    as_json: bool = typer.Option(False, "--json", help="Print all information about each device as JSON."),
) -> int:
    """List the Vulkan devices; * marks the default device."""
    try:
        infos = vkdml.devices()
        fault = None if infos else "no Vulkan device was found; run 'vkdml doctor' to find out why"
    except vkdml.DeviceError as error:
        infos, fault = [], str(error)
    if fault is not None:
        if as_json:
            print(json.dumps({"default": None, "devices": [], "error": fault}, indent=2))
        print("vkdml: " + " ".join(fault.split()), file=sys.stderr)
        return 1

    default, why_none = _default_index()
    if as_json:
        listed = [dataclasses.asdict(info) for info in infos]
        print(json.dumps({"default": default, "devices": listed, "error": why_none}, indent=2))
    else:
        print_whole(console_of_whole_lines(), table(infos, default))
    if why_none is not None:
        print("vkdml: " + " ".join(why_none.split()), file=sys.stderr)
    return 0 if why_none is None else 1


def _default_index() -> tuple[int | None, str | None]:
    """Return the default device's index and None, or None and the reason why there is none."""
    try:
        return vkdml.default_device().info.index, None
    except (vkdml.DeviceError, ValueError) as error:
        return None, str(error)


def table(infos: Sequence[vkdml.DeviceInfo], default: int | None) -> Table:
    """Return a table with a row per device; long names wrap where the console is narrow."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="bold")
    result.add_column("#", justify="right", no_wrap=True, min_width=2)
    result.add_column("name", overflow="fold", min_width=12)
    result.add_column("type", no_wrap=True)
    result.add_column("driver", overflow="fold")
    result.add_column("API", no_wrap=True)
    result.add_column("memory", justify="right", no_wrap=True)
    result.add_column("subgroup", justify="right", no_wrap=True)
    for info in infos:
        mark = "*" if info.index == default else " "
        result.add_row(
            f"{mark}{info.index}",
            info.name,
            info.type,
            driver_of(info),
            info.api_version,
            size(device_memory(info)),
            str(info.subgroup["size"]),
            style="bold" if info.index == default else None,
        )
    return result


def device_memory(info: vkdml.DeviceInfo) -> int:
    """Return the bytes in the device-local heaps; in all heaps if none is device-local."""
    own = sum(int(heap["size"]) for heap in info.heaps if heap["device_local"])
    return own or sum(int(heap["size"]) for heap in info.heaps)
