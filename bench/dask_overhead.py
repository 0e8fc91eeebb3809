"""What a chunk costs beside its computation: vkdml.dask on threads and on processes, against plain threads.

    python bench/dask_overhead.py [FILE.json]

The same chunks are reduced in three ways: by vkdml.argmax in a pool of threads, whose results are folded; by
vkdml.dask with Dask's threads; by vkdml.dask on worker processes that hold the chunks in memory. The
difference to the first, divided by the number of chunks, is the overhead of a chunk.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
from distributed import Client, LocalCluster

import vkdml
import vkdml.dask

WORKERS, ROUNDS = 2, 7
CASES = ((1 << 10, 400), (1 << 20, 100), (16 << 20, 16))
"""Bytes of a chunk, and how many."""


def seconds(work: Callable[[], Any], wanted: int) -> float:
    """Those of the fastest of some rounds, after one that is not counted: others use this machine too."""
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - start)
        assert int(found) == wanted, f"{found} is not {wanted}"
    return min(times[1:])


def by_threads(x: np.ndarray, elements: int, pool: ThreadPoolExecutor) -> int:
    """The index of the greatest element: chunks by vkdml.argmax, the rest by hand."""

    def part(begin: int) -> tuple[float, int]:
        found = vkdml.argmax(x[begin : begin + elements], return_values=True)
        return float(found.values), -(begin + int(found.indices))

    return -max(pool.map(part, range(0, x.size, elements)))[1]


def measured(client: Client) -> list[dict[str, Any]]:
    results = []
    for nbytes, count in CASES:
        elements = nbytes // 4
        host = np.random.default_rng(0).random(elements * count, np.float32)
        wanted = int(host.argmax())
        x = da.from_array(host, chunks=elements)
        with ThreadPoolExecutor(WORKERS) as pool:
            plain = seconds(lambda host=host, n=elements, pool=pool: by_threads(host, n, pool), wanted)
        with dask.config.set(scheduler="threads", num_workers=WORKERS):
            threads = seconds(lambda x=x: vkdml.dask.argmax(x).compute(), wanted)
        held = client.persist(x)
        distributed.wait(held)
        processes = seconds(lambda held=held: vkdml.dask.argmax(held).compute(), wanted)
        results.append(
            {
                "chunk_bytes": nbytes,
                "chunks": count,
                "plain_threads_ms_per_chunk": round(plain / count * 1e3, 3),
                "dask_threads_overhead_ms_per_chunk": round((threads - plain) / count * 1e3, 3),
                "distributed_overhead_ms_per_chunk": round((processes - plain) / count * 1e3, 3),
            }
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", metavar="FILE.json", help="write the numbers to this file, too")
    output = parser.parse_args().file
    warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
    warnings.filterwarnings("ignore", "Sending large graph")  # once, and not timed
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        record = {
            "device": vkdml.default_device().name,
            "dask": dask.__version__,
            "workers": WORKERS,
            "results": measured(client),
        }
    text = json.dumps(record, indent=1)
    print(text)
    if output is not None:
        with open(output, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
