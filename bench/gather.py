"""Times indexing by arrays on the device, and checks it: each kernel that gathers, beside torch on its GPU.

    python bench/gather.py [FILE.json] [--small]

A call is timed as users make it, indices already on the device, until its result is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import vkdml

ROUNDS = 20
WIDTHS = {"uint8": "u1", "float16": "f2", "float32": "f4", "float64": "f8", "complex128": "c16"}


def cases(scale: int) -> Iterator[tuple[str, np.ndarray, tuple[Any, ...]]]:
    """Name, array, and key of arrays and slices."""
    rng = np.random.default_rng(0)
    for index in ("int32", "int64"):
        for name, dtype in WIDTHS.items():
            count = scale // np.dtype(dtype).itemsize
            flat = (rng.integers(0, 250, count, np.uint8) if name == "uint8" else rng.random(count)).astype(
                dtype
            )
            yield f"{name} elements, {index}", flat, (rng.integers(-count, count, count // 8).astype(index),)
    rows = rng.random((scale // 4096, 1024), np.float32)
    chosen = rng.integers(0, len(rows), len(rows) // 2)
    yield "whole rows of 1024 float32", rows, (chosen,)
    yield "one element of each row", rows, (np.arange(len(rows)), rng.integers(0, 1024, len(rows)))
    yield "one element of each column", rows, (rng.integers(0, len(rows), 1024), np.arange(1024))


def median_ms(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS + 3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:]) * 1e3


def with_torch(array: np.ndarray, key: tuple[Any, ...]) -> float | None:
    """The same by torch on its GPU; None without one."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    x = torch.from_numpy(array).cuda()
    chosen = tuple(torch.from_numpy(part.astype(np.int64)).cuda() for part in key)

    def work() -> None:
        x[chosen]
        torch.cuda.synchronize()

    return median_ms(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="where to write JSON")
    parser.add_argument("--small", action="store_true", help="1 MiB arrays, not 256 MiB")
    given = parser.parse_args()
    warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
    results = []
    for name, array, key in cases(1 << 20 if given.small else 256 << 20):
        a = vkdml.asarray(array)
        chosen = tuple(vkdml.asarray(part) for part in key)
        assert np.array_equal(a[chosen].numpy(), array[key]), f"{name}: the result is wrong"
        ours, theirs = median_ms(lambda a=a, chosen=chosen: a[chosen]), with_torch(array, key)
        results.append({"case": name, "vkdml_ms": round(ours, 4), "torch_ms": theirs and round(theirs, 4)})
        print(f"{name:32} vkdml {ours:9.3f} ms" + (f"  torch {theirs:9.3f} ms" if theirs else ""), flush=True)
    if given.file:
        with open(given.file, "w") as file:
            json.dump({"device": vkdml.default_device().name, "results": results}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
