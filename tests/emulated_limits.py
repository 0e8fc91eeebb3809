"""Runs the operators on lavapipe, shown as GPUs with lower limits and other memory; `./run emulated` runs it.

A Vulkan layer (`emulated_limits.c`) stands between the native module and the driver: it shows other limits,
other types of memory and another kind of device, and ends the process where one of them is not kept. So what
is lowered is what all of vkdml sees, the native module included. What the driver computes stays its own:
subgroups have the sizes that lavapipe can have, which are 4, 8 and 16.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import processes
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = Path(__file__).with_suffix(".c")
LAYER = "VK_LAYER_VKDML_emulated_limits"
SYSTEM_LAYERS = tuple(
    f"{root}/vulkan/explicit_layer.d" for root in ("/etc", "/usr/local/share", "/usr/share")
)
NOT_KEPT = 97
"""The exit code with which the layer ends a process."""

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# VkPhysicalDeviceType.
INTEGRATED, DISCRETE = 1, 2


@dataclasses.dataclass(frozen=True)
class Emulated:
    """A device as it is shown. What is more than the driver beneath has stays the driver's."""

    name: str
    about: str
    device_type: int = INTEGRATED
    storage_range: int = 128 * MIB
    allocation: int = GIB
    shared_memory: int = 32 * KIB
    invocations: int = 1024
    workgroups: int = 65535
    alignment: int = 16
    storage_buffers: int = 24
    subgroup_size: int = 0
    """4, 8 or 16; 0: subgroups can neither shuffle nor be asked for."""
    timestamps: bool = True
    memory: str = "one type"
    """``one type``; ``apart``: the host does not see the device's own; ``not coherent``: the cached type."""
    leaves_late: bool = False
    """The driver reads commands that have set an event until the host submits more, or waits for all.

    It takes a core meanwhile.
    """

    def environment(self) -> dict[str, str]:
        """What shows it, on lavapipe, to a process that starts with it."""
        shown = {
            "DEVICE_TYPE": self.device_type,
            "STORAGE_RANGE": self.storage_range,
            "ALLOCATION": self.allocation,
            "SHARED_MEMORY": self.shared_memory,
            "INVOCATIONS": self.invocations,
            "WORKGROUPS": self.workgroups,
            "ALIGNMENT": self.alignment,
            "STORAGE_BUFFERS": self.storage_buffers,
            "SUBGROUPS": int(self.subgroup_size > 0),
            "TIMESTAMPS": int(self.timestamps),
            "MEMORY": self.memory,
            "LEAVES_LATE": int(self.leaves_late),
        }
        layers = ":".join(filter(None, (os.environ.get("VK_INSTANCE_LAYERS"), LAYER)))
        driver = lavapipe()
        environment = {f"VKDML_EMULATED_{name}": str(value) for name, value in shown.items()}
        if self.subgroup_size:
            environment["LP_NATIVE_VECTOR_WIDTH"] = str(32 * self.subgroup_size)
        return {
            **environment,
            # The loader orders layers as it finds them: ours below the validation layers, so that these check
            # against what is shown.
            "VK_LAYER_PATH": ":".join((*SYSTEM_LAYERS, str(built_layer()))),
            "VK_INSTANCE_LAYERS": layers,
            "VK_DRIVER_FILES": driver,
            "VK_ICD_FILENAMES": driver,
            "VKDML_TEST_MEMORY": "",
            "VKDML_PROFILE": "off",
        }


DEVICES = (
    Emulated(
        "least",
        "the least that Vulkan 1.1 allows, in all at once",
        device_type=DISCRETE,
        shared_memory=16 * KIB,
        invocations=128,
        alignment=256,
        storage_buffers=4,
        timestamps=False,
        memory="apart",
    ),
    Emulated(
        "Mali-G78",
        "Arm's driver: 512 invocations, subgroups of 16, cached memory that is not coherent",
        invocations=512,
        subgroup_size=16,
        memory="not coherent",
        timestamps=False,
    ),
    Emulated(
        "Mali-G72",
        "Arm's driver: 384 invocations, subgroups of 4, of which a workgroup has no more than 32 here",
        invocations=384,
        alignment=256,
        subgroup_size=4,
        memory="not coherent",
        timestamps=False,
    ),
    Emulated("Adreno 640", "Qualcomm's driver: offsets by 64 bytes", alignment=64, memory="not coherent"),
    Emulated("Apple M1", "MoltenVK: workgroups without a bound, offsets by 16 bytes", workgroups=1 << 30),
    Emulated(
        "Intel UHD 630",
        "Mesa: subgroups of 8, offsets by 64 bytes",
        alignment=64,
        subgroup_size=8,
        storage_range=GIB,
    ),
    Emulated(
        "VideoCore VII",
        "Mesa on a Raspberry Pi 5: 16 KiB of shared memory, 256 invocations, subgroups of 16",
        shared_memory=16 * KIB,
        invocations=256,
        subgroup_size=16,
    ),
    Emulated(
        "PowerVR GE8320",
        "Imagination's driver: 16 KiB of shared memory, 512 invocations, no subgroups",
        shared_memory=16 * KIB,
        invocations=512,
        alignment=256,
        timestamps=False,
    ),
    Emulated(
        "discrete",
        "a discrete GPU of any vendor: memory that the host does not see",
        device_type=DISCRETE,
        alignment=256,
        subgroup_size=8,
        memory="apart",
    ),
    Emulated(
        "tiny",
        "no GPU: buffers of 64 KiB and 7 workgroups, so that small arrays go in tiles and in many rounds",
        device_type=DISCRETE,
        storage_range=64 * KIB,
        allocation=256 * KIB,
        shared_memory=16 * KIB,
        invocations=128,
        workgroups=7,
        alignment=256,
        storage_buffers=4,
        subgroup_size=4,
        timestamps=False,
        memory="apart",
    ),
)
BY_NAME = {emulated.name: emulated for emulated in DEVICES}
QUICK = ("least", "Mali-G78", "VideoCore VII", "discrete", "tiny")
"""For continuous integration: each limit, each kind of memory and each subgroup size is among them."""


def table() -> str:
    """The devices, for people: a part of `docs/other-gpus.md`."""
    lines = [
        "| shown as | kind | buffers | shared memory | invocations | workgroups | offsets | subgroups "
        "| clock | memory | about |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|---|---|",
    ]
    for shown in DEVICES:
        kind = "discrete" if shown.device_type == DISCRETE else "integrated"
        room = f"{shown.storage_range // MIB} MiB" if shown.storage_range >= MIB else "64 KiB"
        lines.append(
            f"| {shown.name} | {kind} | {room} | {shown.shared_memory // KIB} KiB | {shown.invocations} "
            f"| {shown.workgroups} | {shown.alignment} | {shown.subgroup_size or 'none'} "
            f"| {'yes' if shown.timestamps else 'no'} | {shown.memory} | {shown.about} |"
        )
    return "\n".join(lines) + "\n"


def lavapipe() -> str:
    """The manifest of the driver beneath, whatever DRIVER says: others compile for minutes."""
    found = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    if not found:
        raise AssertionError("lavapipe is not here; apt-get install mesa-vulkan-drivers brings it")
    return str(found[0])


def built_layer() -> Path:
    """The folder with the layer and its manifest, compiled unless that is done."""
    content = SOURCE.read_bytes()
    folder = ROOT / "out" / "emulated_limits" / hashlib.sha256(content).hexdigest()[:16]
    library, manifest = folder / "libemulated_limits.so", folder / "emulated_limits.json"
    if manifest.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    # Other processes may do the same at the same time.
    unfinished = folder / f"{os.getpid()}.unfinished"
    flags = (
        "-std=gnu11",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
    )
    subprocess.run([os.environ.get("CC", "cc"), *flags, str(SOURCE), "-o", str(unfinished)], check=True)
    unfinished.replace(library)
    layer = {
        "name": LAYER,
        "type": "GLOBAL",
        "library_path": f"./{library.name}",
        "api_version": "1.3.0",
        "implementation_version": "1",
        "description": "Shows lower limits",
        "functions": {
            "vkGetInstanceProcAddr": "emulated_GetInstanceProcAddr",
            "vkGetDeviceProcAddr": "emulated_GetDeviceProcAddr",
        },
    }
    unfinished.write_text(json.dumps({"file_format_version": "1.1.2", "layer": layer}))
    unfinished.replace(manifest)
    return folder


# ---- what is run on such a device, in a process of its own -------------------------------------------------


def shown() -> dict[str, Any]:
    """What vkdml takes the device for."""
    import vkdml

    info = vkdml.Device().info
    limits = vkdml.Device().limits
    return {
        "type": info.type,
        "unified_memory": info.unified_memory,
        "storage_range": limits.max_storage_buffer_range,
        "shared_memory": limits.max_shared_memory,
        "invocations": limits.max_workgroup_invocations,
        "workgroups": limits.max_workgroup_count,
        "subgroup_size": limits.subgroup_size,
        "alignment": info.limits["min_storage_buffer_offset_alignment"],
        "timestamps": info.queue_timestamp_bits > 0,
    }


def calls(quick: bool) -> int:
    """Make calls of every kind and compare all bits with the oracle; returns how many were made."""
    return sum(1 for part in (_host_calls, _arrays, _sequences, _streams) for _ in part(quick))


_TYPES = ("float32", "int8", "float16", "int64", "uint16", "bool")
_SHAPES = (
    ((5000,), None),
    ((9, 700), 1),
    ((700, 9), 0),
    ((300, 64), 0),
    ((4, 33, 21), (0, 2)),
    ((4, 33, 21), 1),
)


def _elements(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    import strategies

    rng = np.random.Generator(np.random.PCG64(seed))
    kind = np.dtype(dtype)
    return strategies.elements(rng, kind, int(np.prod(shape)), "specials").reshape(shape)


def _host_calls(quick: bool) -> Iterator[None]:
    import checking

    types = _TYPES[:1] if quick else _TYPES
    for number, dtype in enumerate(types):
        for shape, axis in _SHAPES:
            x = _elements(dtype, shape, number)
            checking.check_argreduce(x, axis, direction="decreasing", nan_policy="omit")
            checking.check_argreduce(x[..., ::-2], axis, op="argmin", return_values=False)
            yield
        x = _elements(dtype, (120, 97), number)
        for steps in ((1, 1), (-1, -1), (2, 3), (1, -2)):
            checking.check_slice1(x, (1, 2), (118, 95), steps)
            checking.check_slice1(x.T, (2, 1), (95, 118), steps)
            yield


def _arrays(quick: bool) -> Iterator[None]:
    """Views that start anywhere: kernels are given the buffer from a multiple of the alignment on."""
    import oracle
    from checking import assert_same

    import vkdml

    for dtype in ("uint8",) if quick else _TYPES:
        host = _elements(dtype, (50, 131), 3)
        whole = vkdml.asarray(host)
        for row, column in ((0, 0), (1, 1), (7, 30), (49, 130)):
            part, there = host[row:, column:], whole[row:, column:]
            what = f"{dtype} from ({row}, {column})"
            assert_same(vkdml.argmax(there, 1).numpy(), oracle.argreduce(part, 1)[0], what)
            assert_same(vkdml.argmin(there, 0).numpy(), oracle.argreduce(part, 0, "argmin")[0], what)
            assert_same(there[::-1, ::2].numpy(), np.ascontiguousarray(part[::-1, ::2]), what)
            yield
        target = vkdml.asarray(host)
        wanted = host.copy()
        wanted[3:45, 5:125] = host[44:2:-1, 5:125]
        vkdml.slice1(whole, (3, 5), (42, 120), (-1, 1), out=target[3:45, 5:125])
        assert_same(target.numpy(), wanted, f"{dtype}, out=")
        yield


def _sequences(quick: bool) -> Iterator[None]:
    """Recorded once, run twice with other contents; times where the queue has a clock, an error where not."""
    import oracle
    from checking import assert_same

    import vkdml
    from vkdml import dml

    device = vkdml.Device()
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(40, 77))
    y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(40, 1))
    argmax = device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
    host = _elements("float32", (40, 77), 5)
    there = vkdml.empty((40, 77), np.float32)
    sequence = device.sequence()
    sequence.upload(there, host)
    indices = sequence.record(argmax, input=there)
    found = sequence.download(indices)
    for seed in (5, 6):
        host[...] = _elements("float32", (40, 77), seed)
        sequence.eval()
        # DirectML lets NaNs lose.
        wanted = oracle.argreduce(host, 1, nan_policy="omit", keepdims=True, dtype="uint32")[0]
        assert_same(found.numpy(), wanted, f"sequence, contents {seed}")
        yield
    if device.info.queue_timestamp_bits:
        assert len(sequence.timings()) == 3
    else:
        with pytest.raises(vkdml.DeviceError, match="has no timestamps"):
            sequence.timings()
    yield


def _streams(quick: bool) -> Iterator[None]:
    """In tiles, however small, since progress is asked for."""
    import oracle
    from checking import assert_same

    import vkdml

    for dtype in ("float32",) if quick else _TYPES:
        x = _elements(dtype, (300, 411), 8)
        for axis in (0, 1, None):
            told: list[int] = []
            got = vkdml.argmax(x, axis, progress=lambda done, total, told=told: told.append(done))
            assert_same(got, oracle.argreduce(x, axis)[0], f"{dtype} in tiles, axis {axis}")
            assert told[-1] == x.nbytes, told
            yield
        got = vkdml.slice1(x, (0, 0), x.shape, (-1, 2), progress=lambda done, total: None)
        assert_same(got, np.ascontiguousarray(x[::-1, ::2]), f"{dtype} in tiles")
        yield


SCRIPT = """
import json
import emulated_limits
print(json.dumps([emulated_limits.shown(), emulated_limits.calls({quick})]))
"""


def run_on(emulated: Emulated, *, quick: bool) -> tuple[dict[str, Any], int]:
    """Make the calls on an emulated device; returns what vkdml took it for, and how many calls were made.

    Raises:
        AssertionError: a result differs, a limit was not kept, or the process failed; the message says which.
    """
    printed = processes.printed(SCRIPT.format(quick=quick), **emulated.environment())
    described, made = json.loads(printed)
    return described, made


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Run the operators on devices with lower limits.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BY_NAME)}; default all")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - BY_NAME.keys())
    if unknown:
        parser.error(f"unknown {', '.join(unknown)}; accepted are {', '.join(BY_NAME)}")
    failed = 0
    for name in given.names or BY_NAME:
        try:
            described, made = run_on(BY_NAME[name], quick=given.quick)
            print(f"{name}: {made} calls, all bits right; taken for {described}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"{name}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
