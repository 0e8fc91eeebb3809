"""Measures the runtime around the kernels: python bench/runtime.py --json out.json [--part NAME ...].

Parts: rebind (what other buffers cost a compiled operator), threads (one device from several threads), stream
(host memory to indices, beside one memcpy into pinned memory), resident (a set of Arrays larger than any
buffer), devices (host arrays and resident shards on several devices).
Every timed result is checked: the extreme's place is known, since this script put it there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import vkdml
from vkdml import dml
from vkdml.runtime.host_memory import copy_bytes

GIB = 1 << 30
# A card that has idled while its memory was filled takes longer than usual to reach its clocks.
WARM_SECONDS = 1.0


def p50_us(call: Callable[[int], object], count: int) -> float:
    times = []
    for n in range(count):
        started = time.perf_counter_ns()
        call(n)
        times.append((time.perf_counter_ns() - started) / 1000)
    return statistics.median(times)


def best_and_median(call: Callable[[], object], count: int) -> dict[str, float]:
    """Seconds; clocks are warm when the first is taken."""
    until = time.perf_counter() + WARM_SECONDS
    call()
    while time.perf_counter() < until:
        call()
    times = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return {"best_s": min(times), "median_s": statistics.median(times)}


def expect(got: Any, wanted: int, what: str) -> None:
    if int(got) != wanted:
        raise AssertionError(f"{what}: {int(got)} instead of {wanted}")


def rows_op(device: vkdml.Device, rows: int, columns: int) -> vkdml.CompiledOperator:
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(rows, columns))
    y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(rows, 1))
    return device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))


def rebind(devices: list[vkdml.Device], count: int = 2000) -> dict[str, Any]:
    device = devices[0]
    op = rows_op(device, 4, 1024)
    host = np.random.default_rng(0).random((4, 1024), np.float32)
    expected = host.argmax(axis=1, keepdims=True)
    inputs = [vkdml.asarray(host, device=device) for _ in range(8)]
    outputs = [vkdml.empty((4, 1), np.uint32, device=device) for _ in range(8)]
    for array, out in zip(inputs, outputs, strict=True):
        op.dispatch(input=array, output=out)
    until = time.perf_counter() + WARM_SECONDS
    while time.perf_counter() < until:
        op.dispatch(input=inputs[0], output=outputs[0])
    same = p50_us(lambda _: op.dispatch(input=inputs[0], output=outputs[0]), count)
    other = p50_us(lambda n: op.dispatch(input=inputs[n % 8], output=outputs[n % 7]), count)
    for out in outputs:
        if not np.array_equal(out.numpy(), expected):
            raise AssertionError("rebind: wrong indices")
    vector = vkdml.asarray(host[0], device=device)
    to_index = p50_us(lambda _: int(vector.argmax()), count)
    expect(vector.argmax(), int(host[0].argmax()), "rebind")
    sequence = device.sequence(timings=False)
    indices = sequence.record(op, input=inputs[0])
    replay = p50_us(lambda _: sequence.eval(), count)
    if not np.array_equal(indices.numpy(), expected):
        raise AssertionError("rebind: wrong indices of the sequence")
    return {
        "dispatch_same_buffers_p50_us": same,
        "dispatch_other_buffers_p50_us": other,
        "rebinding_p50_us": other - same,
        "array_argmax_to_int_p50_us": to_index,
        "sequence_replay_p50_us": replay,
    }


def threads(devices: list[vkdml.Device]) -> dict[str, Any]:
    return {
        "recorded, 4 KiB": evaluations(devices[0], 4, 256),
        "recorded, 64 MiB": evaluations(devices[0], 4096, 4096),
        "host array, 1 MiB": host_calls(devices[0], (256, 1024)),
    }


def rates_by_threads(make: Callable[[], tuple[Callable[[], object], Callable[[], bool]]]) -> dict[str, float]:
    """Calls a second with 1 to 8 threads; ``make`` gives each its call, and a check of its last result."""
    rates = {}
    for count in (1, 2, 4, 8):
        done = [0] * count
        wrong: list[int] = []
        barrier = threading.Barrier(count + 1)
        stop = threading.Event()

        def work(thread: int, done=done, wrong=wrong, barrier=barrier, stop=stop) -> None:
            call, is_right = make()
            call()
            barrier.wait()
            while not stop.is_set():
                call()
                done[thread] += 1
            if not is_right():
                wrong.append(thread)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(count)]
        for worker in workers:
            worker.start()
        barrier.wait()
        time.sleep(WARM_SECONDS)
        before, started = sum(done), time.perf_counter()
        time.sleep(1.5)
        rates[str(count)] = (sum(done) - before) / (time.perf_counter() - started)
        stop.set()
        for worker in workers:
            worker.join()
        if wrong:
            raise AssertionError(f"threads {wrong} got wrong indices")
    return rates


def evaluations(device: vkdml.Device, rows: int, columns: int) -> dict[str, float]:
    host = np.random.default_rng(1).random((rows, columns), np.float32)
    expected = host.argmax(axis=1, keepdims=True)

    def make() -> tuple[Callable[[], object], Callable[[], bool]]:
        array = vkdml.asarray(host, device=device)
        sequence = device.sequence(timings=False)
        indices = sequence.record(rows_op(device, rows, columns), input=array)

        def call(keep: vkdml.Array = array) -> object:
            return sequence.eval()

        return call, lambda: np.array_equal(indices.numpy(), expected)

    return rates_by_threads(make)


def host_calls(device: vkdml.Device, shape: tuple[int, int]) -> dict[str, float]:
    def make() -> tuple[Callable[[], object], Callable[[], bool]]:
        host = np.random.default_rng().random(shape, np.float32)
        expected = host.argmax(axis=1)
        return (
            lambda: vkdml.argmax(host, 1, device=device),
            lambda: np.array_equal(vkdml.argmax(host, 1, device=device), expected),
        )

    return rates_by_threads(make)


def planted(nbytes: int) -> tuple[np.ndarray, int]:
    """Random float32 in pageable host memory, with one greatest element, and its place."""
    block = np.random.default_rng(2).random(1 << 24, np.float32)
    host = np.empty(nbytes // 4, np.float32)
    for start in range(0, host.size, block.size):
        host[start : start + block.size] = block[: host.size - start]
    place = int(host.size * 0.8) + 12345
    host[place] = 2
    return host, place


def memcpy_rates(device: vkdml.Device, host: np.ndarray) -> tuple[float, float]:
    """GB/s of one memcpy into pinned memory, and of one shared out to threads."""
    nbytes = min(GIB, device.limits.max_storage_buffer_range // 2, host.nbytes)
    pinned = device.executions.buffer(nbytes, visible=True).view()
    source = host.view(np.uint8)[:nbytes]
    one = best_and_median(lambda: np.copyto(pinned, source), 5)
    many = best_and_median(lambda: copy_bytes(pinned, source), 5)
    return nbytes / one["median_s"] / 1e9, nbytes / many["median_s"] / 1e9


def stream(devices: list[vkdml.Device], gib: float) -> dict[str, Any]:
    device = devices[0]
    host, place = planted(int(gib * GIB))
    one_memcpy, many = memcpy_rates(device, host)
    reduce = best_and_median(lambda: expect(vkdml.argmax(host, device=device), place, "stream"), 3)
    matrix = host.reshape(-1, 4096)
    rows = best_and_median(lambda: vkdml.argmax(matrix, axis=1, device=device), 3)
    got = vkdml.argmax(matrix, axis=1, device=device)
    expect(got[place // 4096], place % 4096, "stream rows")
    columns = best_and_median(lambda: vkdml.argmax(matrix, axis=0, device=device), 3)
    expect(vkdml.argmax(matrix, axis=0, device=device)[place % 4096], place // 4096, "stream columns")
    rate = {
        "one_memcpy_into_pinned": one_memcpy,
        "threads_memcpy_into_pinned": many,
        "argmax_all": host.nbytes / reduce["median_s"] / 1e9,
        "argmax_rows": host.nbytes / rows["median_s"] / 1e9,
        "argmax_columns": host.nbytes / columns["median_s"] / 1e9,
    }
    share = rate["argmax_all"] / rate["one_memcpy_into_pinned"]
    return {"gib": gib, "gb_per_s": rate, "argmax_all_of_one_memcpy": share}


def sharded(devices: list[vkdml.Device], shard_gib: float, shards: int) -> tuple[vkdml.ShardedArray, int]:
    host, place = planted(int(shard_gib * GIB))
    parts = []
    for number in range(shards):
        last = number == shards - 1
        host[place] = 2 if last else 0.5
        parts.append(vkdml.asarray(host, device=devices[number % len(devices)]))
    return vkdml.ShardedArray(parts), (shards - 1) * host.size + place


def resident(devices: list[vkdml.Device], gib: float) -> dict[str, Any]:
    shard_gib = shard_size(devices[0], gib / 4)
    rates = []
    for shards in (1, int(gib / shard_gib)):
        whole, place = sharded(devices[:1], shard_gib, shards)
        seconds = best_and_median(lambda w=whole, p=place: expect(w.argmax(), p, "resident"), 10)
        rates.append(whole.nbytes / seconds["median_s"] / 1e9)
    return {
        "gib": whole.nbytes / GIB,
        "shards": len(whole.shards),
        "gb_per_s_one_shard": rates[0],
        "gb_per_s_all": rates[1],
        "memory": whole.shards[0].device.memory(),
    }


def shard_size(device: vkdml.Device, most_gib: float) -> float:
    return min(2.0, most_gib, device.limits.max_storage_buffer_range / GIB / 2)


def several(devices: list[vkdml.Device], gib_each: float, host_gib: float) -> dict[str, Any]:
    counts = [n for n in (1, 2, 4, 8) if n <= len(devices)]
    shard_gib = shard_size(devices[0], gib_each)
    per_device = max(int(gib_each / shard_gib), 1)
    host, place = planted(int(host_gib * GIB))
    result: dict[str, Any] = {"gib_each": gib_each, "host_gib": host_gib, "resident": {}, "host": {}}
    for count in counts:
        some = devices[:count]
        whole, where = sharded(some, shard_gib, per_device * count)
        seconds = best_and_median(lambda w=whole, p=where: expect(w.argmax(), p, "devices"), 20)
        result["resident"][str(count)] = whole.nbytes / seconds["median_s"] / 1e9
        del whole
        seconds = best_and_median(lambda s=some: expect(vkdml.argmax(host, device=s), place, "host"), 3)
        result["host"][str(count)] = host.nbytes / seconds["median_s"] / 1e9
        for device in some:
            device.trim()
    for kind in ("resident", "host"):
        result[f"{kind}_scaling"] = {n: rate / result[kind]["1"] for n, rate in result[kind].items()}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument(
        "--part", action="append", choices=["rebind", "threads", "stream", "resident", "devices"]
    )
    parser.add_argument(
        "--gib", type=float, default=1.0, help="of host arrays; resident sets are 8 times that"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
    found = vkdml.devices()
    kind = vkdml.Device().info.type
    devices = [vkdml.Device(info.index) for info in found if info.type == kind]
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "rebind": lambda: rebind(devices),
        "threads": lambda: threads(devices),
        "stream": lambda: stream(devices, arguments.gib),
        "resident": lambda: resident(devices, 8 * arguments.gib),
        "devices": lambda: several(devices, 2 * arguments.gib, arguments.gib),
    }
    report: dict[str, Any] = {
        "device": devices[0].info.name,
        "devices": len(devices),
        "driver": f"{devices[0].info.driver_name} {devices[0].info.driver_info}",
        "host": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "vkdml": vkdml.__version__,
        "date": datetime.date.today().isoformat(),
    }
    for name in arguments.part or parts:
        started = time.perf_counter()
        report[name] = parts[name]()
        print(
            f"{name} ({time.perf_counter() - started:.0f} s)", json.dumps(report[name], indent=1), flush=True
        )
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(report, file, indent=1)
                file.write("\n")


if __name__ == "__main__":
    main()
