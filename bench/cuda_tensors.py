"""Measures argmax of CUDA tensors beside torch's own: python bench/cuda_tensors.py --json out.json.

Needs an NVIDIA GPU and torch with CUDA. All times are medians of calls that wait for their result, in
microseconds: torch's ends with torch.cuda.synchronize(). A GPU that changes between CUDA's work and Vulkan's
takes time for it, so the time of a call depends on what ran before: "after CUDA" follows a kernel of torch's,
which is waited for and not counted; "in a row" follows Vulkan's own work. Every timed result is checked.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import vkdml
from vkdml.integrations import cuda_tensors

GPU = "cuda:0"
WARM_SECONDS, SECONDS, LEAST = 0.25, 0.15, 7

CASES = [
    ("float32", (1024,), 0),
    ("float16", (64, 128256), 1),
    ("bfloat16", (64, 128256), 1),
    ("float32", (4096, 16384), 1),
    ("float32", (4096, 16384), 0),
    ("float16", (16384, 32768), 1),
    ("int8", (1 << 30,), 0),
    ("int8", (32768, 32768), 1),
]


def p50_us(call: Callable[[], object], before: Callable[[], object] | None = None) -> float:
    """Time calls, each after another that is not counted."""
    times = []
    begin = time.perf_counter()
    while time.perf_counter() < begin + WARM_SECONDS + SECONDS or len(times) < LEAST:
        if before is not None:
            before()
            torch.cuda.synchronize()
        started = time.perf_counter()
        call()
        ended = time.perf_counter()
        if started > begin + WARM_SECONDS:
            times.append(ended - started)
    return statistics.median(times) * 1e6


def random_tensor(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if not kind.is_floating_point:
        return torch.randint(-128, 128, shape, device=GPU, dtype=kind)
    return torch.randn(shape, device=GPU).to(kind)


def require_greatest(x: torch.Tensor, axis: int, result: Any) -> None:
    """Torch may take another of equal elements, so the values are compared."""
    index = torch.as_tensor(result.numpy() if isinstance(result, vkdml.Array) else result, device=GPU)
    if not torch.equal(x.gather(axis, index.unsqueeze(axis)).squeeze(axis), x.amax(axis)):
        raise AssertionError(f"argmax of {tuple(x.shape)} {x.dtype} over axis {axis} is wrong")


def measured(dtype: str, shape: tuple[int, ...], axis: int) -> dict[str, Any]:
    x = random_tensor(dtype, shape)
    shared = vkdml.asarray(x, copy=True)
    seen = torch.from_dlpack(shared)
    out = torch.empty(x.argmax(axis).shape, dtype=torch.int64, device=GPU)
    small = torch.zeros(64, device=GPU)
    require_greatest(x, axis, vkdml.argmax(x, axis))
    require_greatest(x, axis, vkdml.argmax(x, axis, out=out))
    require_greatest(x, axis, vkdml.argmax(shared, axis))

    def torchs() -> None:
        x.argmax(axis)
        torch.cuda.synchronize()

    def cuda_work() -> None:
        small.add_(1)

    del seen
    return {
        "dtype": dtype,
        "shape": list(shape),
        "axis": axis,
        "torch": p50_us(torchs),
        "tensor": p50_us(lambda: vkdml.argmax(x, axis)),
        "tensor_out": p50_us(lambda: vkdml.argmax(x, axis, out=out)),
        "shared_after_cuda": p50_us(lambda: vkdml.argmax(shared, axis), before=cuda_work),
        "shared_in_a_row": p50_us(lambda: vkdml.argmax(shared, axis)),
        "copy": p50_us(lambda: cuda_tensors.taken(x)),
    }


def parts() -> dict[str, float]:
    """What a call on 1024 elements consists of."""
    x = torch.randn(1024, device=GPU)
    small = torch.zeros(64, device=GPU)
    lent, own, plain = (vkdml.asarray(x, copy=True) for _ in range(3))
    plain = vkdml.asarray(x.cpu())
    torch.from_dlpack(lent)
    result = vkdml.argmax(lent)
    cuda = cuda_tensors.tensor_of(x).device

    def kernel() -> None:
        small.add_(1)
        torch.cuda.synchronize()

    def after_vulkan() -> float:
        return p50_us(kernel, before=lambda: vkdml.argmax(plain))

    return {
        "torch: argmax": p50_us(lambda: (x.argmax(), torch.cuda.synchronize())),
        "torch: a kernel, in a row": p50_us(kernel),
        "torch: a kernel, after Vulkan": after_vulkan(),
        "torch: __dlpack__()": p50_us(lambda: x.__dlpack__(stream=1)),
        "tensor_of(tensor)": p50_us(lambda: cuda_tensors.tensor_of(x)),
        "taken(tensor): copied": p50_us(lambda: cuda_tensors.taken(x)),
        "a stream's wait, idle": p50_us(lambda: cuda.wait(1)),
        "a wait for all streams, idle": p50_us(cuda.wait_for_all),
        "argmax(tensor)": p50_us(lambda: vkdml.argmax(x)),
        "argmax(shared, lent), in a row": p50_us(lambda: vkdml.argmax(lent)),
        "argmax(shared, not lent), in a row": p50_us(lambda: vkdml.argmax(own)),
        "argmax(plain Array), in a row": p50_us(lambda: vkdml.argmax(plain)),
        "argmax(plain Array), after CUDA": p50_us(lambda: vkdml.argmax(plain), before=lambda: small.add_(1)),
        "int(shared result)": p50_us(lambda: int(result)),
        "torch.from_dlpack(shared)": p50_us(lambda: torch.from_dlpack(lent)),
        "empty(64, share), of the cache": p50_us(lambda: vkdml.empty(64, share="cuda")),
    }


def first_allocations() -> dict[str, float]:
    """What shared memory costs that is not in the cache, by mebibytes."""
    found = {}
    for mebibytes in (1, 64, 1024):
        vkdml.default_device().trim()
        started = time.perf_counter()
        vkdml.empty(mebibytes << 20, "uint8", share="cuda")
        found[str(mebibytes)] = (time.perf_counter() - started) * 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", help="the file to write")
    chosen = parser.parse_args()
    device = vkdml.default_device()
    record: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": device.name,
        "driver": device.info.driver_info,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cases_us": [],
    }
    columns = ("torch", "tensor", "tensor_out", "shared_after_cuda", "shared_in_a_row", "copy")
    print(f"{'median us':34}" + "".join(f"{name:>18}" for name in columns))
    for dtype, shape, axis in CASES:
        row = measured(dtype, shape, axis)
        record["cases_us"].append(row)
        name = f"{dtype} {shape} axis {axis}"
        print(f"{name:34}" + "".join(f"{row[column]:18.1f}" for column in columns), flush=True)
        device.trim()
        torch.cuda.empty_cache()
    record["parts_us"] = parts()
    record["first_allocation_us"] = first_allocations()
    for name, us in {**record["parts_us"], **record["first_allocation_us"]}.items():
        print(f"{name:40}{us:10.1f}")
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
