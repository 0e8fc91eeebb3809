"""Which pipelines plans ask of a device: of the benchmark's cases, and of the calls that the tests draw."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import hypothesis
import strategies
from hypothesis import strategies as st
from plans import GPU_LIMITS

import vkdml
from vkdml.bench import cases, suites
from vkdml.common.read_only import fix
from vkdml.plan import kernels
from vkdml.plan.device_classes import SOFTWARE, tuning_for
from vkdml.plan.elements import SLICE_ELEMENT_BYTES
from vkdml.plan.gather import INDEX_WIDTHS, plan_elements, plan_places
from vkdml.plan.layout import CopyLayout, Dim, canonical_reduce
from vkdml.plan.order import Order
from vkdml.plan.plans import UNLIMITED_SUBGROUPS, DeviceLimits, Plan
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.slice.slice1 import plan_slice1

DRAWN_CALLS = 1000


class Pipeline(NamedTuple):
    """What one compute pipeline is built from."""

    kernel: str
    constants: tuple[int, ...]
    subgroup_size: int

    @property
    def named_constants(self) -> dict[str, int]:
        """The constants that the module has, by name."""
        return kernels.table()[self.kernel].named(self.constants)


class _PlannedError(Exception):
    """Carries a plan out of a call that was about to run it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


def of_plan(plan: Plan) -> Iterator[Pipeline]:
    """The pipelines that a plan's steps use."""
    return (Pipeline(step.kernel, step.constants, step.subgroup_size) for step in plan.steps)


def of_benchmark(limits: DeviceLimits) -> set[Pipeline]:
    """The pipelines of the benchmark's cases, made smaller where a buffer of the device is."""
    found: set[Pipeline] = set()
    for name in suites.SUITES:
        for case in cases.fitted_suite(suites.suite(name), limits.max_storage_buffer_range // 2):
            for index_bytes in (4, 8):
                found.update(of_plan(cases.plan_of(case, limits, index_bytes)))
    return found


def of_single_bytes(limits: DeviceLimits) -> set[Pipeline]:
    """The pipelines of reductions of single bytes with few positions, in rows that start anywhere."""
    found: set[Pipeline] = set()
    names = [name for name, element in kernels.elements().items() if element.nbytes == 1]
    for name, row, index_bytes in itertools.product(names, (1 << 20, (1 << 20) + 1), (4, 8)):
        layout = canonical_reduce((3, row), (row, 1), (0,), (row, 1), take_last=False)
        options: dict[str, Any] = {"index_bytes": index_bytes, "with_values": False}
        found.update(of_plan(plan_argreduce(layout, Order(name), 3 * row, limits, **options)))
    return found


def of_turns(limits: DeviceLimits) -> set[Pipeline]:
    """The pipelines of transposed short rows whose parts are copied in turn, as many as there may be."""
    found: set[Pipeline] = set()
    for width, parts in itertools.product((1, 2, 4, 8, 16), range(2, 9)):
        row = max(48 // width, 1)
        rows = (48 << 20) // (48 * parts)
        dims = Dim(parts, row + 1, rows * row), Dim(rows, parts * (row + 1), row), Dim(row, 1, 1)
        found.update(of_plan(plan_slice1(CopyLayout(dims, 0, 0), width, rows * parts * (row + 1), limits)))
    return found


def of_outputs_with_gaps(limits: DeviceLimits) -> set[Pipeline]:
    """The pipelines of copies whose elements lie apart in the output, or in short rows with gaps."""
    found: set[Pipeline] = set()
    for width, row, step, stride in itertools.product((1, 2, 4, 8), (3, 99), (1, 2, 3, 5), (1, 2)):
        dims = Dim(999, row * stride, row * step + 2), Dim(row, stride, step)
        reach = 999 * (row * max(stride, step) + 2)
        plan = plan_slice1(CopyLayout(dims, 0, 0), width, reach, limits, output_elements=reach)
        found.update(of_plan(plan))
    return found


def of_common_calls(limits: DeviceLimits) -> set[Pipeline]:
    """The pipelines of the benchmark's cases, and of what these leave out."""
    drawn = of_single_bytes(limits) | of_turns(limits) | of_outputs_with_gaps(limits)
    return of_benchmark(limits) | drawn


def of_each_kernel() -> list[Pipeline]:
    """Of each kernel that such plans have on GPUs or processors, a pipeline."""
    found = {}
    for limits in (GPU_LIMITS, dataclasses.replace(GPU_LIMITS, tuning=SOFTWARE, subgroup_size=8)):
        found |= {each.kernel: each for each in sorted(of_common_calls(limits))}
    return list(found.values())


def of_gathers(limits: DeviceLimits) -> set[Pipeline]:
    """The pipelines of indexing by arrays, with few dimensions and with more than fit the push constants."""
    found: set[Pipeline] = set()
    for rank in (1, 10):
        dims = tuple(Dim(3, 2 * 5**dim, 3**dim) for dim in range(rank))[::-1]
        last = 1 + sum(2 * dim.input_stride for dim in dims)
        for width, signed in itertools.product(INDEX_WIDTHS, (True, False)):
            plan = plan_places(
                dims, 0, last, limits, index_bytes=width, signed=signed, size=9, stride=1, number=0
            )
            found.update(of_plan(plan))
        for width in SLICE_ELEMENT_BYTES:
            found.update(of_plan(plan_elements(dims, 0, 2 * last, 3**rank, width, limits)))
    return found


def of_drawn_calls(device: vkdml.Device, count: int = DRAWN_CALLS) -> set[Pipeline]:
    """The pipelines of calls as the property tests draw them, always the same ones; nothing is run."""
    found: set[Pipeline] = set()

    def take(plan: Plan) -> Any:
        raise _PlannedError(plan)

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=count,
        derandomize=False,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.one_of(strategies.argreduce_cases(), strategies.slice1_cases()))
    def draw(case: strategies.ArgReduceCase | strategies.Slice1Case) -> None:
        try:
            if isinstance(case, strategies.ArgReduceCase):
                options: dict[str, Any] = {
                    "axis": case.axis,
                    "dtype": case.output_dtype,
                    "return_values": case.return_values,
                    "direction": case.direction,
                    "nan_policy": case.nan_policy,
                }
                getattr(vkdml, case.op)(case.input(), device=device, **options)
            else:
                window = (case.offsets, case.sizes, case.strides)
                vkdml.slice1(case.input(), *window, output_sizes=case.output_sizes, device=device)
        except _PlannedError as planned:
            found.update(of_plan(planned.plan))

    own = device.executions
    fix(device, "executions", _Lender(take))
    try:
        draw()
    finally:
        fix(device, "executions", own)
    return found


class _Lender:
    """Stands for a device's executions; what a call asks of it ends the call."""

    def __init__(self, take: Any) -> None:
        self.take = take
        self.known_calls: dict[Any, Any] = {}

    def imports(self, nbytes: int) -> bool:
        return False


def on(device: vkdml.Device, drawn_calls: int = DRAWN_CALLS) -> dict[Pipeline, bool]:
    """The pipelines of a device, and whether its own plans use them: each kernel of the table is among them.

    Kernels that no plan of the device uses are specialized as plans of other devices would have them.
    """
    limits = device.limits
    pipelines = dict.fromkeys(
        sorted(of_common_calls(limits) | of_gathers(limits) | of_drawn_calls(device, drawn_calls)), True
    )
    seen = {pipeline.kernel for pipeline in pipelines}
    for other in _like_other_devices(device):
        more = sorted(pipeline for pipeline in of_common_calls(other) if pipeline.kernel not in seen)
        seen |= {pipeline.kernel for pipeline in more}
        pipelines |= dict.fromkeys(more, False)
    missing = kernels.table().keys() - seen
    if missing:
        raise LookupError(f"no plan uses these kernels of the table: {', '.join(sorted(missing))}")
    return pipelines


def _like_other_devices(device: vkdml.Device) -> Iterator[DeviceLimits]:
    """The device's limits with what its own lack: subgroups, boxes, splits, parts of runs."""
    limits = device.limits
    size = device.info.subgroup["size"]
    yield dataclasses.replace(limits, subgroup_size=size, max_subgroups=UNLIMITED_SUBGROUPS)
    yield dataclasses.replace(limits, subgroup_size=0)
    boxes = dataclasses.replace(
        tuning_for("discrete").slice1,
        box_near_bytes=-1,
        box_cache_bytes=0,
        tile_least_bytes=1 << 32,
        narrow_tile_least_bytes=1 << 32,
    )
    yield dataclasses.replace(limits, tuning=dataclasses.replace(limits.tuning, slice1=boxes))
    software = tuning_for("software")
    for tuning in (
        dataclasses.replace(software, workgroup_size=limits.tuning.workgroup_size),
        software,
    ):
        yield dataclasses.replace(limits, subgroup_size=0, tuning=tuning)
