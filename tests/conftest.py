"""The device that the tests run on, their order and their processes, and how hypothesis draws."""

from __future__ import annotations

import gc
import os
import signal
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asked_driver
import forced_memory
import hypothesis
import pytest
import thinned

import vkdml
from vkdml.plan import kernels

# Helpers that assert for several files: where they fail, pytest shows what was compared, as in tests.
pytest.register_assert_rewrite("layout_rules", "needs", "page_examples", "planned_reductions", "processes")

os.environ["VKDML_PROFILE"] = "off"  # plans must not depend on what this machine's user has stored

hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=300
)
# SwiftShader takes most of the time to compile kernels and three times as long as lavapipe for the rest.
hypothesis.settings.register_profile("brief", hypothesis.settings.get_profile("ci"), max_examples=100)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True, max_examples=10000)


hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("brief" if thinned.for_swiftshader() else "ci")
)


if forced_memory.wanted():
    forced_memory.force()


MOST_PROCESSES = 16
# What a driver on a processor and the validation layers keep of all kernels that one process has built.
PROCESS_BYTES = 3 << 30


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes `-n auto` starts: one for each core, or 0, which runs the tests in this one.

    A few tests take less time than a process does to start, and what they print with `-s` is to be seen.
    """
    chosen = config.option.keyword or any("::" in argument for argument in config.args)
    if chosen or config.option.capture == "no" or config.option.collectonly:
        return 0
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    count = min(len(os.sched_getaffinity(0)), memory // PROCESS_BYTES, MOST_PROCESSES)
    return count if count > 1 else 0


# Files whose tests need no device, choose their drivers, run examples of documents, check arguments, run the
# benchmark and the tuner, rewrite modules, divide work among tiles and devices, give arrays of many sizes
# or of other libraries to the public functions, whose kernels other tests cover, or are about lavapipe's
# limit: a run there proves them for all.
ANY_DRIVER = frozenset(
    {
        "argreduce_sizes", "bench_cases", "bench_record", "bench_resume", "bench_run", "bench_sweep",
        "build", "chunked", "chunked_tiles", "cli_checks", "cli_commands", "conftest", "dask",
        "dask_cluster", "demo", "device_without_memory", "directml_names", "dml_descriptors",
        "dml_header", "dml_validation", "docs", "docstrings", "driver", "emulated_limits",
        "fixed_modules", "fuzz_arrays", "gallery", "hostile", "import", "indexing", "indexing_windows",
        "layout", "loop_steps", "native_instance", "numpy_own_cases", "onnx_backend", "onnx_lowering",
        "onnx_official", "onnx_properties", "operators_host", "other_gpus", "overlap", "packaging",
        "pictures", "plan", "plots", "pool", "profile", "public_names", "readme", "row_costs", "run",
        "schema", "sequence_contract", "sharded", "soak", "specialized_modules", "strategies", "stream",
        "targets", "tiles", "troubleshooting", "tune", "two_devices", "typing", "validation_plugin",
        "write_docs", "xarray",
    }
)  # fmt: skip


# They use the kernels of every type, which the process that has run test_argreduce_* has built.
MANY_KERNELS = frozenset(
    {"kernels_periods", "numpy_own_cases", "onnx_properties", "places", "properties", "sharded"}
)


def out_of_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with parameters but for a few, which have each value of each parameter.

    Of element types as wide as each other one has to occur, not the same in all tests, unless the mark
    ``in_turn`` says ``every_element=True``. SwiftShader's plans are lavapipe's: there one test of those alike
    will do, unless it has that mark. Tests of kernels, and those that are the same on any driver, have one of
    all narrow types and one of all wide ones there, and any value of the parameters that the mark's
    ``any_of`` names.
    """
    tests: dict[tuple[Path, str], list[Any]] = {}
    for item in items:
        if hasattr(item, "callspec"):
            tests.setdefault((item.path, item.originalname), []).append(item)  # type: ignore[attr-defined]
    left_out = []
    for (path, name), alike in tests.items():
        first = zlib.crc32(f"{path.stem} {name}".encode()) % len(alike)
        alike = [*alike[first:], *alike[:first]]
        parameters = {id(item): _parameters(item) for item in alike}
        missing = set().union(*parameters.values())
        while missing:
            chosen = max(alike, key=lambda item: len(missing & parameters[id(item)]))
            missing -= parameters[id(chosen)]
            alike.remove(chosen)
        left_out += alike
    return left_out


def _parameters(item: Any) -> set[tuple[str, str]]:
    """Return what tells a test from those that differ from it in their parameters alone."""
    mark = item.get_closest_marker("in_turn")
    options = {} if mark is None else mark.kwargs
    swiftshader, every_element = thinned.for_swiftshader(), options.get("every_element", False)
    file = item.path.stem.removeprefix("test_")
    if swiftshader and not (every_element or file in ANY_DRIVER or file.startswith("kernels")):
        return {("", "any")}

    def told_apart(name: str, value: object) -> str:
        if swiftshader and name in options.get("any_of", ()):
            return "any"
        element = None if every_element else kernels.elements().get(str(value))
        if element is None:
            return str(value)
        if swiftshader:
            return "narrow" if element.nbytes < 4 else "wide"
        return f"of {element.nbytes} bytes"

    return {(name, told_apart(name, value)) for name, value in item.callspec.params.items()}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Of tests that differ in their parameters alone, run some, or all under ``VKDML_TEST_EVERY_CASE=1``.

    They are taken from what ``-k`` and ``-m`` have left. ``-m "not any_driver"`` leaves out what another
    driver's run proves.

    Tests of one element type run one after another, and after them all that use the same kernels, so few
    kernels are built by several processes.
    """
    for item in items:
        if item.path.stem.removeprefix("test_") in ANY_DRIVER:
            item.add_marker(pytest.mark.any_driver)
    yield
    if not thinned.every_case():
        left_out = out_of_turn(items)
        config.hook.pytest_deselected(items=left_out)
        gone = {id(item) for item in left_out}
        items[:] = [item for item in items if id(item) not in gone]
    order = {name: turn for turn, name in enumerate(kernels.elements())}

    def turn(item: pytest.Item) -> int:
        parameters = getattr(item, "callspec", None)
        if parameters is None or not item.path.name.startswith("test_argreduce_"):
            return len(order)
        return order.get(parameters.params.get("name"), len(order))

    items.sort(key=lambda item: (turn(item), item.path.stem.removeprefix("test_") not in MANY_KERNELS))


def pytest_collection_finish() -> None:
    """Spare the tests that collect garbage a look at all modules and all tests, which live to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def few_objects() -> None:
    """Spare a test that collects garbage again and again a look at what earlier tests have left."""
    gc.collect()
    gc.freeze()


def pytest_sessionstart() -> None:
    """Results of another driver than the one that was asked for would be taken for that one's."""
    fault = asked_driver.fault(os.environ.get("DRIVER", ""))
    if fault is not None:
        raise pytest.UsageError(fault)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse paths that do not exist: several processes would run no test without saying so.

    Hear interrupts, here and in child processes: some shells start background jobs that ignore them.
    """
    for argument in () if config.option.pyargs else config.args:
        if not (config.invocation_params.dir / argument.partition("::")[0]).exists():
            raise pytest.UsageError(f"file or directory not found: {argument}")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """What the tests run on."""
    try:
        found = vkdml.devices()
    except vkdml.DeviceError as error:
        return [f"vulkan: no device: {error}"]
    chosen = os.environ.get("VKDML_DEVICE")
    lines = [f"vulkan {d.index}: {d.name} ({d.type}), {d.driver_name} {d.driver_info}" for d in found]
    memory = ["memory: taken for a discrete device's"] if forced_memory.wanted() else []
    return lines + memory + ([f"VKDML_DEVICE={chosen}"] if chosen else [])


@pytest.fixture(scope="session")
def device() -> vkdml.Device:
    """The default device. Without one, tests fail: a missing driver is a fault, not a reason to skip."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
        try:
            return vkdml.default_device()
        except vkdml.DeviceError as error:
            pytest.fail(f"these tests need a Vulkan device and there is none: {error}", pytrace=False)
