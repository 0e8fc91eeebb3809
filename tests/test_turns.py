"""Copies whose workgroups take turns in parts of the output: which ones do, and all bytes that they write."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from plans import GPU_LIMITS
from slice1_kernels import NO_TILES, PLAN_SLICE1, base_of, check, use

from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE, SOFTWARE, tuning_for
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.slice import slice1 as plan_slice1
from vkdml.plan.slice import turns
from vkdml.plan.slice.turns import IN_ORDER, Turns, turns_of
from vkdml.plan.tuning import TurnTuning

MIB = 1 << 20
LIMITS = replace(GPU_LIMITS, tuning=DISCRETE)
# Of short rows that are copied row by row, element widths by the kernel that does so.
WIDTHS = {"slice1_rows": (1, 4, 8), "slice1_words": (1, 2, 4), "slice1_runs": (1, 2, 4, 8, 16)}
BY_FAMILY = {
    "slice1_rows": {"row_workgroup_size": 8},
    "slice1_words": {"word_workgroup_size": 8},
    "slice1_runs": {},
}
NOT_TRANSPOSED = {
    **NO_TILES,
    "box_near_bytes": 1 << 40,
    "turns": TurnTuning(1, longest_row_bytes=192, longest_row_of_bytes=104),
}


def parts_of(parts: int, rows: int, row: int, *, pitch: int, outer: int = 1, gap: int = 0) -> CopyLayout:
    """Rows that lie ``pitch`` apart from part to part, and with a gap from row to row of a part."""
    apart = parts * pitch + gap
    dims = Dim(parts, pitch, rows * row), Dim(rows, apart, row), Dim(row, 1, 1)
    if outer > 1:
        dims = Dim(outer, rows * apart, parts * rows * row), *dims
    return CopyLayout(dims, 0, 0)


@pytest.mark.parametrize(
    ("family", "width"), [(family, width) for family, widths in WIDTHS.items() for width in widths]
)
def test_every_byte_is_copied_in_turn(device, monkeypatch, family, width):
    """Turns are full or not, groups of parts follow each other, and parts end within shares."""
    use(monkeypatch, **NOT_TRANSPOSED, **BY_FAMILY[family])
    monkeypatch.setattr(turns, "_LEAST_PART_BYTES", 1)
    row = max((16 if family == "slice1_rows" else 10) // width, 1) + (width < 8)
    told = set()
    for parts, outer, base, sign in itertools.product((2, 3, 9, 12), (1, 3), (0, 1), (1, -1)):
        layout = parts_of(parts, 101, row, pitch=row + 1, outer=outer)
        dims = tuple(replace(dim, input_stride=dim.input_stride * sign) for dim in layout.dims)
        layout = CopyLayout(dims, base_of(dims), base)
        kernel = kernels.table()[check(device, layout, width, spare=base)]
        assert kernel.family.name == family
        (step,) = plan_slice1.plan_slice1(
            layout, width, 1 << 20, device.limits, output_elements=layout.count + base
        ).steps
        assert kernel.named(step.constants)["parts_in_turn"] == {2: 2, 3: 3, 9: 8, 12: 6}[parts]
        of_part = kernel.family.unpack(step.push)["shares_in_turn"]
        told.add(outer * parts * of_part < step.workgroups)
    assert True in told  # shares that fill no turn


def shares(parts: int, of_part: int, workgroups: int) -> np.ndarray:
    """The share of each workgroup, as the shader finds it."""
    workgroup = np.arange(workgroups)
    group, place = np.divmod(workgroup, parts * of_part)
    in_turn = (group * parts + place % parts) * of_part + place // parts
    return np.where((group + 1) * parts * of_part <= workgroups, in_turn, workgroup)


@pytest.mark.parametrize(("parts", "in_turn"), [(2, 2), (7, 7), (9, 8), (12, 6), (17, 8), (64, 8)])
def test_workgroups_that_follow_each_other_copy_neighbouring_parts(parts, in_turn):
    layout = parts_of(parts, 8 * MIB // parts, 12, pitch=12)
    workgroups = 100_003
    found = turns_of(layout, 4, LIMITS)
    assert found == Turns(in_turn, parts)
    of_part = found.push(workgroups)["shares_in_turn"]
    taken = shares(in_turn, of_part, workgroups)
    np.testing.assert_array_equal(np.sort(taken), np.arange(workgroups))
    part = np.minimum(taken // of_part, parts - 1)
    first = part[: in_turn * of_part].reshape(-1, in_turn)
    np.testing.assert_array_equal(first, np.broadcast_to(np.arange(in_turn), first.shape))


@pytest.mark.parametrize(
    ("layout", "takes_turns"),
    [
        (parts_of(3, MIB, 12, pitch=12), True),
        (parts_of(3, MIB, 12, pitch=20), True),
        (parts_of(3, MIB, 48, pitch=49), True),  # 192 bytes
        (parts_of(3, MIB, 48, pitch=48), False),  # whole reads of 64 bytes
        (parts_of(3, MIB, 49, pitch=49), False),
        (parts_of(7, MIB, 16, pitch=16), False),
        (parts_of(8, MIB, 16, pitch=16), True),
        (parts_of(8, MIB, 16, pitch=16, gap=1), True),  # which then start anywhere
        (parts_of(8, MIB, 32, pitch=32), False),
        (parts_of(8, MIB, 32, pitch=40), True),
        (parts_of(3, 10 * MIB // 36 - 1, 12, pitch=12), False),  # a cache holds 40 MiB
        (parts_of(3, 10 * MIB // 36 + 1, 12, pitch=12), True),
        (parts_of(64, MIB // 48 + 1, 12, pitch=20), True),
        (parts_of(64, MIB // 48 - 1, 12, pitch=20), False),  # parts of less than 1 MiB
        (CopyLayout((Dim(MIB, 36, 36), Dim(3, 12, 12), Dim(12, 1, 1)), 0, 0), False),  # in order of memory
        (CopyLayout((Dim(3, 0, 12 * MIB), Dim(12 * MIB, 1, 1)), 0, 0), True),  # repeated
        (CopyLayout((Dim(3, 0, 9 * MIB), Dim(9 * MIB, 1, 1)), 0, 0), False),
        (CopyLayout((Dim(3, 1, 12 * MIB), Dim(12 * MIB, 1, 1)), 0, 0), True),  # overlapping
        (CopyLayout((Dim(3, 12 * MIB, 12 * MIB), Dim(12 * MIB, 1, 1)), 0, 0), False),
        (CopyLayout((Dim(12 * MIB, 1, 1),), 0, 0), False),
        (CopyLayout((), 0, 0), False),
    ],
)
def test_only_parts_that_read_the_same_memory_are_copied_in_turn(layout, takes_turns):
    found = turns_of(layout, 4, LIMITS)
    assert (found != IN_ORDER) == takes_turns
    slice1 = replace(DISCRETE.slice1, turns=None)
    assert turns_of(layout, 4, replace(LIMITS, tuning=replace(DISCRETE, slice1=slice1))) == IN_ORDER


@pytest.mark.parametrize(
    ("layout", "takes_turns"),
    [
        (parts_of(4, MIB // 2, 12, pitch=12), True),
        (parts_of(3, MIB, 12, pitch=12), True),
        (parts_of(2, MIB, 12, pitch=12), False),
        (parts_of(4, MIB // 2, 50, pitch=51), True),  # 200 bytes
        (parts_of(4, MIB // 2, 51, pitch=52), False),
        (parts_of(32, MIB // 2, 12, pitch=12), True),
        (parts_of(33, MIB // 2, 12, pitch=12), False),
        (parts_of(4, 8 * MIB // 208 - 1, 12, pitch=13), False),  # less than 8 MiB
    ],
)
def test_lavapipe_copies_some_parts_in_turn(layout, takes_turns):
    assert (turns_of(layout, 4, replace(LIMITS, tuning=SOFTWARE)) != IN_ORDER) == takes_turns
    on_swiftshader = replace(LIMITS, tuning=tuning_for("software", "SwiftShader driver"))
    assert turns_of(layout, 4, on_swiftshader) == IN_ORDER


def test_recent_lavapipe_copies_large_arrays_in_turn():
    recent = replace(LIMITS, tuning=tuning_for("software", "llvmpipe", "Mesa 25.0.7"))
    for rows, in_turn in ((MIB // 16, False), (MIB // 8, True)):  # 13 and 26 MiB
        assert (turns_of(parts_of(4, rows, 12, pitch=13), 4, recent) != IN_ORDER) == in_turn


def test_rows_of_single_bytes_are_copied_in_order_earlier():
    for row, in_turn in ((104, True), (105, False)):
        assert (turns_of(parts_of(3, MIB, row, pitch=107), 1, LIMITS) != IN_ORDER) == in_turn


@pytest.mark.parametrize(
    ("width", "row", "parts", "family"),
    [
        (1, 48, 16, "slice1_runs"),
        (1, 49, 16, "slice1_rows"),
        (2, 25, 16, "slice1_words"),
        (8, 6, 16, "slice1_runs"),
        # Few parts, which boxes copied before.
        (1, 7, 3, "slice1_words"),
        (1, 17, 3, "slice1_rows"),
        (2, 9, 2, "slice1_words"),
        (4, 11, 4, "slice1_words"),
        (8, 7, 4, "slice1_rows"),
    ],
)
def test_transposed_rows_are_copied_in_turn(width, row, parts, family):
    """As users have them: ``x.transpose(1, 0, 2)``; smaller ones are copied in order, or in boxes."""
    for nbytes, in_turn in ((256 * MIB, True), (32 * MIB, False)):
        layout = parts_of(parts, nbytes // (parts * row * width), row, pitch=row)
        (step,) = PLAN_SLICE1(layout, width, layout.count, LIMITS).steps
        kernel = kernels.table()[step.kernel]
        takes_turns = kernel.named(step.constants).get("parts_in_turn", 1) > 1
        assert takes_turns == in_turn
        assert not in_turn or kernel.family.name == family


@pytest.mark.parametrize(
    ("parts", "step", "family"),
    [(3, 1, "words"), (3, -1, "words"), (5, 1, "boxes"), (3, 2, "boxes")],
)
def test_few_parts_of_adjacent_elements_leave_boxes(parts, step, family):
    rows, row, pitch = 1 << 21, 5, 5 * abs(step)
    dims = Dim(parts, pitch, rows * row), Dim(rows, pitch * parts, row), Dim(row, step, 1)
    (of_rows,) = PLAN_SLICE1(CopyLayout(dims, base_of(dims), 0), 4, 1 << 29, LIMITS).steps
    assert kernels.table()[of_rows.kernel].family.name == f"slice1_{family}"


@pytest.mark.parametrize(
    ("width", "parts", "row", "family"),
    [
        (1, 4, 6, "words"),
        (1, 5, 6, "boxes"),
        (1, 4, 40, "words"),  # not vectors, whose bytes are loaded one by one
        (2, 4, 3, "words"),
        (2, 5, 3, "boxes"),
        (2, 5, 4, "words"),
        (4, 3, 5, "boxes"),
        (8, 5, 3, "boxes"),
        (8, 5, 4, "rows"),
    ],
)
def test_rows_whose_elements_lie_apart_leave_boxes_in_turn(width, parts, row, family):
    """Of few parts, or in rows that are long enough; here no tiles take them."""
    limits = replace(LIMITS, tuning=replace(DISCRETE, slice1=replace(DISCRETE.slice1, **NO_TILES)))
    rows, apart = (192 * MIB) // (parts * row * width), parts + 1
    dims = Dim(parts, 1, rows * row), Dim(rows, row * apart + 3, row), Dim(row, apart, 1)
    (step,) = PLAN_SLICE1(CopyLayout(dims, 0, 0), width, (512 * MIB) // width, limits).steps
    assert kernels.table()[step.kernel].family.name == f"slice1_{family}"


def test_rows_that_share_reads_along_two_dimensions_stay_in_boxes():
    rows, row = 600_000, 28
    dims = Dim(10, 3, 2 * rows * row), Dim(2, 2, rows * row), Dim(rows, 840, row), Dim(row, 30, 1)
    for outer, family in ((dims, "boxes"), (dims[1:], "words")):
        (step,) = PLAN_SLICE1(CopyLayout(outer, 0, 0), 1, 512 * MIB, LIMITS).steps
        assert kernels.table()[step.kernel].family.name == f"slice1_{family}"
