"""Every gather kernel of the table against its NumPy twin: all bytes that it writes, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import twins_gather
from plans import run_beside_twins, run_plan

import vkdml
from vkdml.plan import kernels, loop_steps
from vkdml.plan.device_classes import tuning_for
from vkdml.plan.gather import INDEX_WIDTHS, plan_elements, plan_places
from vkdml.plan.layout import Dim
from vkdml.plan.loop_steps import LAVAPIPE_LOOP_STEPS
from vkdml.plan.plans import DeviceLimits, Plan, TooMuchWork

WIDTHS = kernels.family("gather_elements").numbers_of("element_bytes")


@pytest.fixture(scope="module")
def limits(device: vkdml.Device) -> DeviceLimits:
    """Small shares, so that small arrays have several workgroups."""
    slice1 = replace(
        device.limits.tuning.slice1, runs_workgroup_size=32, workgroup_vectors=2, full_workgroups=2
    )
    return replace(device.limits, tuning=replace(device.limits.tuning, slice1=slice1))


def check(device: vkdml.Device, plan: Plan, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a plan on the device and by its twin; all bytes must agree. Returns the buffers afterwards."""
    contents = {role: content.view(np.uint8).reshape(-1) for role, content in given.items()}
    return run_beside_twins(device, plan, contents, twins_gather.run)


def many_dims(rank: int) -> tuple[Dim, ...]:
    """More than fit the push constants."""
    return tuple(Dim(2, 3 * 2**dim, 2**dim) for dim in range(rank))[::-1]


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 200])
@pytest.mark.parametrize("kind", ["i4", "i8", "u4", "u8"])
def test_indices_become_places(kind: str, count: int, device: vkdml.Device, limits: DeviceLimits) -> None:
    rng = np.random.default_rng(count)
    size, stride = 7, -3
    low = -size if kind[0] == "i" else 0
    spread = rng.integers(low, size, 2 * count + 1).astype(kind)
    for number in (0, 1):
        plan = plan_places(
            (Dim(count, -2, 0),), 2 * count, spread.size, limits,
            index_bytes=spread.itemsize, signed=kind[0] == "i", size=size, stride=stride, number=number,
        )  # fmt: skip
        before = rng.integers(0, 1 << 32, count, np.uint32)
        faults = np.full(number + 1, 0xFFFFFFFF, np.uint32)
        got = check(device, plan, {"input": spread, "places": before, "faults": faults})
        wanted = spread[2 * count : 0 : -2].astype(np.int64) % size * stride + (before if number else 0)
        assert np.array_equal(got["places"].view(np.uint32), (wanted % (1 << 32)).astype(np.uint32))
        assert (got["faults"] == 255).all()


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("i4", (5, -6, 2**31 - 1, -(2**31))), ("u4", (5, 2**32 - 1, 2**32 - 5)),
        ("i8", (5, -6, 2**32, 2**32 + 1, -(2**32) + 1, 2**63 - 1, -(2**63), -(2**32) - 1)),
        ("u8", (5, 2**32, 2**63, 2**64 - 1)),
    ],
)  # fmt: skip
def test_the_first_index_out_of_bounds_is_noted(
    kind: str, wrong: tuple[int, ...], device: vkdml.Device, limits: DeviceLimits
) -> None:
    for number in wrong:
        indices = np.zeros(150, kind)
        indices[[40, 41, 149]] = number
        for size in (5, 0):
            plan = plan_places(
                (Dim(150, 1, 0),), 0, 150, limits,
                index_bytes=indices.itemsize, signed=kind[0] == "i", size=size, stride=1, number=1,
            )  # fmt: skip
            faults = np.full(2, 0xFFFFFFFF, np.uint32)
            got = check(device, plan, {"input": indices, "faults": faults, "places": np.zeros(150, "u4")})
            assert got["faults"].view(np.uint32).tolist() == [0xFFFFFFFF, 40 if size else 0]


@pytest.mark.parametrize("width", WIDTHS)
def test_elements_come_from_their_places(width: int, device: vkdml.Device, limits: DeviceLimits) -> None:
    rng = np.random.default_rng(width)
    for dims, places in (
        ((), 1),
        ((Dim(1, 0, 0),), 1),
        ((Dim(7, 0, 1),), 7),
        ((Dim(130, 0, 1),), 130),
        ((Dim(5, 0, 1), Dim(13, 1, 0)), 5),
        ((Dim(3, -29, 0), Dim(6, 0, 1), Dim(5, 2, 0)), 6),
        ((Dim(4, 10, 3), Dim(3, 1, 1)), 12),
        (many_dims(10), 1 << 10),
    ):
        reach = sum((dim.size - 1) * abs(dim.input_stride) for dim in dims)
        base = sum((1 - dim.size) * dim.input_stride for dim in dims if dim.input_stride < 0) + 1
        span = base + reach + 40
        plan = plan_elements(dims, base, span, places, width, limits)
        assert bool(plan.layout) == (len(dims) == 10)
        source = rng.integers(0, 256, span * width, np.uint8)
        check(device, plan, {"input": source, "places": rng.integers(0, 40, places, np.uint32)})


@pytest.mark.parametrize("width", INDEX_WIDTHS)
def test_indices_of_many_dimensions(width: int, device: vkdml.Device, limits: DeviceLimits) -> None:
    dims = many_dims(10)
    last = 1 + sum(dim.input_stride for dim in dims)
    plan = plan_places(dims, 0, last, limits, index_bytes=width, signed=True, size=9, stride=5, number=0)
    assert plan.layout
    indices = np.random.default_rng(0).integers(-9, 9, last).astype(f"i{width}")
    check(device, plan, {"input": indices, "faults": np.full(1, 0xFFFFFFFF, np.uint32)})


@pytest.mark.parametrize("family", ["places", "elements"])
def test_the_largest_plans_allowed_finish(family: str, device: vkdml.Device, limits: DeviceLimits) -> None:
    """One workgroup does all the work, so that a small array takes as many steps as a large one elsewhere."""
    one = replace(limits, max_workgroup_count=1, max_loop_steps=LAVAPIPE_LOOP_STEPS)
    per_round = 1 + loop_steps.loop(2)
    if family == "elements":
        per_round = 2 + loop_steps.loop(4, loop_steps.loop(2))
    size = min(one.workgroup_size, one.tuning.slice1.runs_workgroup_size)
    items = (LAVAPIPE_LOOP_STEPS - 1) // per_round * size

    def plan_of(items: int) -> Plan:
        if family == "places":
            dims = (Dim(items // size, 1, 0), Dim(size, 3, 0))
            span = items // size + 3 * size
            return plan_places(dims, 0, span, one, index_bytes=4, signed=True, size=9, stride=1, number=0)
        dims = (Dim(items // size, 0, 4 * size), Dim(4 * size, 0, 1))
        # Not canonical, so that there are two dimensions.
        return plan_elements(dims, 0, 9, 4 * items, 1, one)

    plan = plan_of(items)
    assert LAVAPIPE_LOOP_STEPS * 9 // 10 < plan.steps[0].loop_steps <= LAVAPIPE_LOOP_STEPS
    rng = np.random.default_rng(0)
    if family == "places":
        indices = rng.integers(-9, 9, plan.bytes_of("input") // 4, np.int32)
        got = run_plan(device, plan, {"input": indices, "faults": np.full(1, -1, "i4")}, ("places",))
        wanted = (indices[np.arange(items) // size + np.arange(items) % size * 3] % 9).astype(np.uint32)
        assert np.array_equal(got["places"].view(np.uint32), wanted)
    else:
        source, places = rng.integers(0, 256, 16, np.uint8), rng.integers(0, 9, 4 * items, np.uint32)
        got = run_plan(device, plan, {"input": source, "places": places}, ("gathered",))
        assert np.array_equal(got["gathered"], source[places])
    with pytest.raises(TooMuchWork, match="loop steps"):
        plan_of(items + 2 * size)


@pytest.mark.parametrize(("element_bytes", "rank"), [(1, 1), (1, 6), (2, 7), (4, 12)])
def test_large_gathers_have_as_many_workgroups_as_loops_require(element_bytes: int, rank: int) -> None:
    """A driver that ends loops early would else refuse what it can do in more workgroups."""
    limits = DeviceLimits(
        tuning_for("software"), 1 << 30, 65535, 1024, 32 << 10, 8, max_loop_steps=LAVAPIPE_LOOP_STEPS
    )
    outer = tuple(Dim(2, 0, 3 * 2**place) for place in range(rank - 1))
    dims = (Dim((64 << 20) >> (rank - 1), 0, 1 << 20), *outer)
    (step,) = plan_elements(dims, 0, 9, 1 << 22, element_bytes, limits).steps
    assert step.loop_steps <= LAVAPIPE_LOOP_STEPS
    assert step.workgroups <= 65535
    plan_places(dims, 0, 9, limits, index_bytes=8, signed=True, size=9, stride=1, number=0)


def test_there_are_tests_for_every_kernel() -> None:
    tested = {f"gather_places_{width}_bytes" for width in INDEX_WIDTHS}
    tested |= {f"gather_elements_{width}_bytes" for width in WIDTHS}
    assert tested == {name for name in kernels.table() if name.startswith("gather")}
    assert {kernels.table()[name].family.name for name in tested} == set(twins_gather.TWINS)
