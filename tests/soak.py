"""Long runs that must not grow: python tests/soak.py [--share 0.01]; writes out/soak/<driver>.json.

A million replays of a recorded sequence, a hundred thousand calls each with a shape of its own, and a hundred
thousand arrays made, viewed and freed by eight threads. Results are compared with NumPy all along; resident
memory, device memory, open files and threads are noted all along, and must be flat after a warm-up.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import vkdml
from vkdml import _native, dml

OUT = pathlib.Path(__file__).resolve().parent.parent / "out" / "soak"
REPLAYS, CALLS, ARRAYS, THREADS = 1_000_000, 100_000, 100_000, 8
SAMPLES = 60
# What caches may still take after the first third: kernels of types not met before, the allocator's slack.
GROWTH_MIB = 48.0


def resident_mib() -> float:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("the system does not tell the resident memory")


def sample(device: vkdml.Device, done: int) -> dict[str, float]:
    memory = device.memory()
    return {
        "done": done,
        "resident_mib": round(resident_mib(), 1),
        "used_mib": round(memory["used"] / 2**20, 2),
        "pooled_mib": round(memory["pooled"] / 2**20, 2),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def replays(device: vkdml.Device, count: int) -> Iterator[int]:
    """One recorded sequence, evaluated again and again; its input changes now and then."""
    rng = np.random.default_rng(1)
    host = rng.random((16, 64), np.float32)
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=host.shape)
    y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(16, 1))
    op = device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
    array = vkdml.asarray(host, device=device)
    sequence = device.sequence(timings=False)
    indices = sequence.record(op, input=array)
    sequence.eval()
    _native.inject_failure(0)
    for done in range(1, count + 1):
        sequence.eval()
        if done % 1000 == 0:
            calls = _native.fallible_calls()
            if calls != 1000:
                raise AssertionError(
                    f"1000 replays made {calls} calls that make something, not 1000 submissions"
                )
            if not np.array_equal(indices.numpy(), host.argmax(axis=1, keepdims=True)):
                raise AssertionError(f"wrong indices after {done} replays")
            host = rng.random((16, 64), np.float32)
            array[...] = host
            _native.inject_failure(0)
        yield done


def fresh_calls(device: vkdml.Device, count: int) -> Iterator[int]:
    """Calls of which each has a shape of its own."""
    rng = np.random.default_rng(2)
    # In any order, so that what the caches keep is as large at the beginning as at the end.
    for done, number in enumerate(rng.permutation(count), 1):
        shape = (int(number) % 317 + 1, int(number) // 317 + 1)
        x = rng.integers(-9, 9, shape).astype((np.int16, np.float32, np.uint8)[done % 3])
        axis = done % 2
        if done % 5:
            right = np.array_equal(vkdml.argmax(x, axis, device=device), x.argmax(axis))
        else:
            window = vkdml.slice1(x, (0, 0), shape, (1, -1), device=device)
            right = np.array_equal(window, x[:, ::-1])
        if not right:
            raise AssertionError(f"call {done}: a wrong result of {shape} {x.dtype} over axis {axis}")
        yield done


def arrays(device: vkdml.Device, count: int) -> Iterator[int]:
    """Arrays made, viewed, reduced and freed by several threads at once."""
    made = [0] * THREADS
    faults: list[BaseException] = []

    def work(thread: int) -> None:
        rng = np.random.default_rng(100 + thread)
        try:
            for _ in range(count // THREADS):
                rows, columns = rng.integers(1, 40, 2)
                host = rng.integers(0, 99, (rows, columns)).astype(np.int32)
                array = vkdml.asarray(host, device=device)
                step = int(rng.integers(1, 4))
                view, expected = array[::-step].T, host[::-step].T
                if not np.array_equal(view.argmin(axis=1).numpy(), expected.argmin(axis=1)):
                    raise AssertionError(f"thread {thread}: a wrong argmin of {view!r}")
                made[thread] += 1
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.05)
        yield sum(made)
    if faults:
        raise faults[0]
    yield sum(made)


def run(
    name: str, device: vkdml.Device, count: int, work: Callable[[vkdml.Device, int], Iterator[int]]
) -> dict:
    """Do the work, noting what the process takes; say whether that stayed flat."""
    curve = [sample(device, 0)]
    started = time.monotonic()
    every = max(count // SAMPLES, 1)
    for done in work(device, count):
        if done >= curve[-1]["done"] + every:
            curve.append(sample(device, done))
    seconds = time.monotonic() - started
    gc.collect()
    curve.append(sample(device, count))
    warm = curve[len(curve) // 3]
    last = curve[-1]
    growth = {key: round(last[key] - warm[key], 2) for key in warm if key != "done"}
    flat = (
        growth["resident_mib"] <= GROWTH_MIB
        and growth["used_mib"] + growth["pooled_mib"] <= GROWTH_MIB
        and growth["files"] <= 0
        and growth["threads"] <= 0
    )
    print(
        f"{name:8} {count:8} in {seconds:6.0f} s ({count / seconds:7.0f}/s)  "
        f"resident {warm['resident_mib']:.0f}"
        f" -> {last['resident_mib']:.0f} MiB  files {last['files']:.0f}  {'flat' if flat else 'GROWS'}",
        flush=True,
    )
    return {"count": count, "seconds": round(seconds, 1), "growth": growth, "flat": flat, "curve": curve}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts, to try it out")
    share = parser.parse_args().share
    if not 0 < share <= 1:
        parser.error(f"--share {share:g}: more than 0 is accepted, up to 1")
    warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
    device = vkdml.Device()
    results = {
        name: run(name, device, max(int(count * share) // THREADS * THREADS, THREADS), work)
        for name, count, work in [
            ("replays", REPLAYS, replays),
            ("calls", CALLS, fresh_calls),
            ("arrays", ARRAYS, arrays),
        ]
    }
    del results["replays"]["curve"][1:-1:2]
    device.trim()
    gc.collect()
    left = device.memory()
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{device.info.driver_name.replace(' ', '-').lower()}.json"
    report = {"device": device.info.name, "driver": device.info.driver_info, "left": left, **results}
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"left after trim: used {left['used']} bytes, pooled {left['pooled']}; curves in {path}")
    ok = left["used"] == left["pooled"] == 0 and all(result["flat"] for result in results.values())
    print("nothing grew" if ok else "SOMETHING GREW")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
