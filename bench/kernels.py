"""Times every kernel of the table on one device, checks each result against NumPy, and prints a table.

    python bench/kernels.py [--device SELECTOR] [--mib SIZE] [--json FILE] [--kernel PART_OF_A_NAME]

Kernel times are the device's own timestamps, host times a call of the public function with its copies; both
are medians. Compare ratios between runs on one machine only: other programs may be running on it.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

import vkdml
from vkdml import kernels
from vkdml.execute import Execution, ExecutionCache

WARM_UP_SECONDS = 0.25
REPEATS = 9


@dataclass
class Case:
    """One timed call: which kernels it must use, the call itself, and the same in NumPy."""

    name: str
    uses: set[str]
    array: np.ndarray
    moved_bytes: int
    call: Callable[[Any], Any]
    numpy_call: Callable[[], Any]


def random_elements(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> np.ndarray:
    """Random bits, but no NaN: NumPy's time must be that of numbers."""
    bits = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    if dtype.kind == "b":
        return (bits & 1).view(bool)
    values = bits.view(dtype)
    if "float" in dtype.name:
        with np.errstate(invalid="ignore"):
            values[np.isnan(values)] = 1
    return values


def reduce_case(
    name: str, element: str, dtype: np.dtype[Any], shape: tuple[int, int], axis: int | None
) -> Case:
    rng = np.random.default_rng(0)
    x = random_elements(rng, dtype, shape[0] * shape[1]).reshape(shape)
    uses = {"all": {f"argreduce_rows_{element}", f"argreduce_combine_{dtype.itemsize}_bytes"}}
    uses["rows"] = {f"argreduce_rows_{element}"}
    uses["columns"] = {f"argreduce_{'columns' if dtype.itemsize < 4 else 'strided'}_{element}"}
    uses["strided"] = {f"argreduce_strided_{element}"}
    if name == "strided":
        x = x[:, ::2]
    return Case(
        f"argmax {name} {element}",
        uses[name],
        x,
        x.nbytes,
        lambda device: vkdml.argmax(x, axis=axis, device=device),
        lambda: np.argmax(x, axis=axis),
    )


def slice_case(name: str, width: int, mib: int) -> Case:
    side = math.isqrt((mib << 20) // width) // 16 * 16
    rng = np.random.default_rng(0)
    dtype = np.dtype({1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "V16"}[width])
    x = rng.integers(0, 256, side * side * width, np.uint8).view(dtype).reshape(side, side)
    step = -1 if name == "flip" else 2
    window = ((0, 0), (side, side), (step, step))
    kernel = f"slice1_{'narrow' if width < 4 else 'wide'}_{width}_bytes"
    view = x[::step, ::step]
    return Case(
        f"slice1 {name} {width} B",
        {kernel},
        x,
        2 * view.size * width,
        lambda device: vkdml.slice1(x, *window, device=device),
        lambda: np.ascontiguousarray(view),
    )


def element_dtypes() -> dict[str, np.dtype[Any]]:
    import ml_dtypes

    names = [entry.variant for entry in kernels.table().values() if entry.kernel == "argreduce_rows"]
    return {name: np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name)) for name in names}


def all_cases(mib: int) -> list[Case]:
    cases = []
    for element, dtype in element_dtypes().items():
        count = (mib << 20) // dtype.itemsize
        cases.append(reduce_case("all", element, dtype, (1, count), None))
        cases.append(reduce_case("rows", element, dtype, (count // 4096, 4096), 1))
        cases.append(reduce_case("columns", element, dtype, (count // 4096, 4096), 0))
        cases.append(reduce_case("strided", element, dtype, (count // 4096, 4096), 1))
    for width in (1, 2, 4, 8, 16):
        cases.append(slice_case("flip", width, mib))
        cases.append(slice_case("[::2, ::2]", width, mib))
    return cases


def median_seconds(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class RecordingCache(ExecutionCache):
    """A cache whose executions take timestamps, and which remembers the last one lent."""

    last: Execution | None = None

    def _take(self, plan):  # type: ignore[no-untyped-def]
        self.last = Execution(self, plan, timestamps=True)
        return self.last

    def _give_back(self, plan, execution):  # type: ignore[no-untyped-def]
        pass


def measure(case: Case, device: vkdml.Device) -> dict[str, Any]:
    result = case.call(device)
    if not np.array_equal(result, case.numpy_call()):
        raise SystemExit(f"{case.name}: the result differs from NumPy's")
    host_seconds = median_seconds(lambda: case.call(device))

    ordinary = device.executions
    device.executions = RecordingCache(ordinary.device, ordinary.unified_memory, ordinary.tuning)
    device.executions._kernels = ordinary._kernels
    try:
        case.call(device)
        execution = device.executions.last
    finally:
        device.executions = ordinary
    assert execution is not None
    until = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < until:
        execution.run()
    totals, ran = [], set()
    for _ in range(REPEATS):
        execution.run()
        steps = [(label, ns) for label, ns in execution.timings() if label in kernels.table()]
        ran = {label for label, _ in steps}
        totals.append(sum(ns for _, ns in steps))
    if not case.uses <= ran:
        raise SystemExit(f"{case.name}: ran {sorted(ran)}, meant to time {sorted(case.uses)}")
    kernel_ns = statistics.median(totals)
    return {
        "case": case.name,
        "kernels": sorted(ran),
        "shape": list(case.array.shape),
        "kernel_us": kernel_ns / 1e3,
        "kernel_us_spread": (max(totals) - min(totals)) / 1e3,
        "gb_per_s": case.moved_bytes / kernel_ns if kernel_ns else None,
        "host_us": host_seconds * 1e6,
        "numpy_us": median_seconds(case.numpy_call) * 1e6,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", help="index, UUID or part of a name (default: the best device)")
    parser.add_argument(
        "--mib", type=int, help="input size in MiB (default: 4 on software devices, else 256)"
    )
    parser.add_argument("--json", help="write all numbers to this file")
    parser.add_argument("--kernel", default="", help="only cases that use a kernel with this in its name")
    options = parser.parse_args()
    if options.mib is not None and options.mib < 1:
        parser.error(f"--mib {options.mib}: at least 1 is accepted")
    warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
    device = vkdml.Device(options.device)
    mib = options.mib or (4 if device.info.type == "software" else 256)
    cases = [case for case in all_cases(mib) if any(options.kernel in kernel for kernel in case.uses)]
    if not cases:
        parser.error(f"--kernel {options.kernel}: accepted is a part of {', '.join(sorted(kernels.table()))}")
    untimed = set(kernels.table()) - {kernel for case in cases for kernel in case.uses}
    if untimed and not options.kernel:
        raise SystemExit(f"no case times {sorted(untimed)}")

    print(f"{device.name} ({device.info.driver_name}), {mib} MiB inputs")
    print(f"{'case':<32}{'kernel us':>12}{'GB/s':>9}{'call us':>12}{'NumPy us':>13}")
    rows = []
    for case in cases:
        row = measure(case, device)
        rows.append(row)
        rate = f"{row['gb_per_s']:.2f}" if row["gb_per_s"] else "-"
        print(
            f"{row['case']:<32}{row['kernel_us']:>12.1f}{rate:>9}{row['host_us']:>12.1f}{row['numpy_us']:>13.1f}",
            flush=True,
        )
    if options.json:
        report = {
            "date": date.today().isoformat(),
            "device": device.name,
            "driver": f"{device.info.driver_name} {device.info.driver_info}".strip(),
            "type": device.info.type,
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "vkdml": vkdml.__version__,
            "mib": mib,
            "repeats": REPEATS,
            "rows": rows,
        }
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
        print(f"written to {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
