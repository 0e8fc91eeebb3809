"""The other libraries by name, and what one of them answers to a request. Runs in a child process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from vkdml.bench import latency
from vkdml.bench.cases import Case
from vkdml.bench.host_clock import time_calls
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.cub_library import Cub
from vkdml.bench.libraries.cupy_library import CuPy
from vkdml.bench.libraries.jax_library import Jax
from vkdml.bench.libraries.library import OUT_OF_TIME, WARM_SECONDS, Library, one_line
from vkdml.bench.libraries.numpy_library import NumPy
from vkdml.bench.libraries.onnx_libraries import OnnxRuntime, OnnxRuntimeWebGpu
from vkdml.bench.libraries.torch_library import Torch
from vkdml.bench.libraries.torch_vulkan import TorchVulkan
from vkdml.bench.record import Latency, Times
from vkdml.bench.sweep import SweepCase, SweepView, SweepWindow
from vkdml.bench.unsupported import Unsupported
from vkdml.measuring import spread

LIBRARIES: dict[str, type[Library]] = {
    "numpy": NumPy,
    "torch": Torch,
    "cupy": CuPy,
    "jax": Jax,
    "onnxruntime": OnnxRuntime,
    "onnxruntime-webgpu": OnnxRuntimeWebGpu,
    "torchvulkan": TorchVulkan,
    "cub": Cub,
}


def case_from(plain: dict[str, Any]) -> Case:
    """Return a case as JSON has it."""
    axis = plain["axis"]
    return Case(**plain | {"shape": tuple(plain["shape"]), "axis": None if axis is None else tuple(axis)})


def sweep_case_from(plain: dict[str, Any]) -> SweepCase:
    """Return a case of a sweep as JSON has it."""
    window, view = plain["window"], plain["view"]
    lists = {name: tuple(plain[name]) for name in ("memory_shape", "permutation")}
    return SweepCase(
        **plain
        | lists
        | {
            "axis": None if plain["axis"] is None else tuple(plain["axis"]),
            "window": window and SweepWindow(**{name: tuple(values) for name, values in window.items()}),
            "view": view and SweepView(view["kind"], tuple(view["sizes"]), tuple(view["strides"])),
        }
    )


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Time what a request asks for; yield one answer about the library, then one for each case.

    A request has ``peer``, ``cuda``, ``seconds``, ``most_bytes``, ``cases``, ``latency`` and, for a sweep's
    cases, ``sweep`` (see :mod:`vkdml.bench.libraries.peers`).
    """
    cases = [case_from(case) for case in request["cases"]]
    latency_cases = [LatencyCase(**case) for case in request["latency"]]
    sweep = [sweep_case_from(case) for case in request.get("sweep", ())]
    sizes = [case.input_bytes for case in cases] + [case.nbytes for case in latency_cases]
    largest = max([*sizes, *(case.input_bytes for case in sweep)], default=0)
    try:
        library = LIBRARIES[request["peer"]](request["cuda"], largest)
        library.select(request.get("device", ""))
    except ModuleNotFoundError as error:
        yield {"missing": f"{error.name} is not installed"}
        return
    except Unsupported as error:
        yield {"missing": str(error)}
        return
    yield {"version": library.version, "runs_on": library.runs_on, "method": library.method}
    until = time.perf_counter() + request["seconds"]
    for number, latency_case in enumerate(latency_cases):
        yield {"latency": number, **_latency_answer(library, latency_case, until)}
    for number, case in enumerate(cases):
        if request["most_bytes"] is not None and case.input_bytes > request["most_bytes"]:
            yield {"case": number, "why": "too large for the processor"}
        else:
            yield {"case": number, **_case_answer(library, case, until)}
    for number, swept in enumerate(sweep):
        yield {"sweep": number, **_answer(partial(library.time_sweep, swept), until)}


def _case_answer(library: Library, case: Case, until: float) -> dict[str, Any]:
    """Return a case's times: by the library's own means, of its public call, and of a chain."""
    answer = _answer(partial(library.time, case), until)
    if "us" in answer and time.perf_counter() < until:
        answer["call"] = _times(lambda: _time_public_call(library, case))
        if case.is_chained:
            answer["chain"] = _times(lambda: library.time_chain(case))
    return answer


def _time_public_call(library: Library, case: Case) -> Times | None:
    call = library.public_call(case)
    return None if call is None else time_calls(call)


def _times(timed: Callable[[], Times | None]) -> dict[str, Any] | None:
    """Return times as JSON has them; None where the library has none."""
    try:
        times = timed()
    except Exception:  # whatever a library makes of what it does not have
        return None
    return None if times is None else asdict(times)


def _answer(timed: Callable[[], list[float]], until: float) -> dict[str, Any]:
    if time.perf_counter() > until:
        return {"why": OUT_OF_TIME}
    try:
        median, low, high = spread(timed())
    except Unsupported as error:
        return {"why": str(error)}
    except Exception as error:  # whatever a library makes of a type that it does not have
        return {"why": one_line(error)}
    return {"us": median, "low_us": low, "high_us": high}


def _latency_answer(library: Library, case: LatencyCase, until: float) -> dict[str, Any]:
    if time.perf_counter() > until:
        return {"why": OUT_OF_TIME}
    try:
        find = library.finder(case, library.host_bytes("numbers float32"))
        measured = latency.time_calls(find, case.calls, WARM_SECONDS)
    except Unsupported as error:
        return {"why": str(error)}
    except Exception as error:
        return {"why": one_line(error)}
    return _plain(measured)


def _plain(measured: Latency) -> dict[str, Any]:
    return {
        "p50_us": measured.p50_us,
        "p99_us": measured.p99_us,
        "calls": measured.calls,
        "quantiles_us": measured.quantiles_us,
    }
