"""Every kernel of the table against its NumPy twin: all bytes that every pass writes, and no others."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
import twins
from reduce_kernels import (
    ELEMENTS,
    PERMUTED,
    cases,
    element_bits,
    limits_for,
    limits_of_columns,
    of_width,
    plan_case,
    run_both,
)
from reduce_kernels import small_limits as small_limits

from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.layout import canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.reduce import column_costs
from vkdml.plan.reduce import columns as plan_columns
from vkdml.plan.reduce.argreduce import plan_argreduce

ARGREDUCE_KERNELS = [kernel for kernel in kernels.table().values() if kernel.family.name in twins.TWINS]


@pytest.fixture(autouse=True)
def _small_columns_are_split(monkeypatch):
    """As if splits took no time and many workgroups were needed: GPUs split only columns of some MiB."""
    for name in ("_START", "_COMBINING", "_COMBINING_COLUMN", "_COMBINING_COLUMN_OF_SPLIT", "_CANDIDATES"):
        monkeypatch.setattr(column_costs, name, 0)
    many = {loads: {1: 0.5, 2: 0.5, 4: 0.5, 8: 2} for loads in column_costs._ENOUGH}
    monkeypatch.setattr(column_costs, "_ENOUGH", many)
    monkeypatch.setattr(plan_columns, "_MOST_POSITIONS_IN_PAIRS", 0)  # but where a test wants pairs


def chosen(name: str, limits, fast: bool, of_kernels=None) -> list:
    """Cases and their rules: one pipeline of each kernel or a few, since compilers take longer than all else.

    Elements of the same width share the cases. Each element has all rules, with one kernel or another.
    """
    alike = of_width(ELEMENTS[name].nbytes)
    turn = alike.index(name)
    rules = list(itertools.product((False, True), repeat=3))
    pipelines = {}
    for case in cases():
        (step,) = plan_case(case, name, limits).steps
        if of_kernels is not None and step.kernel not in of_kernels:
            continue
        pipelines.setdefault((step.kernel, twins.is_split(step)), {}).setdefault(step.constants, []).append(
            case
        )
    plans = []
    for number, kernel in enumerate(sorted(pipelines)):
        groups = [pipelines[kernel][constants] for constants in sorted(pipelines[kernel])]
        mine = groups[turn :: len(alike)] or [groups[turn % len(groups)]]
        # The next element has the opposite of every rule.
        rule = rules[number % 8 ^ turn // 2 ^ 2 * fast ^ (7 if turn % 2 else 0)]
        plans += [(case, rule) for group in mine for case in group]
    return plans


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_lanes_take_short_innermost_dimensions_whole(device, small_limits, monkeypatch, name):
    """In splits that begin and end inside of one, too."""
    monkeypatch.setattr(column_costs.ColumnWork, "cheapest_division", lambda *_: (16, 3))
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    splits = set()
    for number, (outer, innermost, between, columns) in enumerate(
        ((41, 5, 3, 64), (97, 4, 7, 48), (301, 3, 2, 21), (35, 11, 6, 128), (59, 7, 5, 33), (211, 7, 3, 18))
    ):
        limits = limits_for(small_limits, True, ELEMENTS[name].nbytes)
        shape = outer, between, innermost, columns
        strides = between * innermost * columns, columns, between * columns, 1
        periods = replace(limits.tuning.periods, from_bytes=1 << 40, elements_from_bytes=1 << 40)
        tuning = replace(limits.tuning, reads_ahead=0, periods=periods, joined_from_bytes=1 << 40)
        limits = replace(limits, tuning=tuning)
        case = shape, (0, 1, 2), strides, 0, math.prod(shape)
        plan = plan_case(case, name, limits, (number % 2 > 0, number % 3 > 0, False))
        (step,) = plan.steps
        kernel = kernels.table()[step.kernel]
        assert kernel.family.name == "argreduce_columns"
        assert kernel.named(step.constants)["whole_segments"]
        pushed = kernel.family.unpack(step.push)
        splits.add((pushed["splits"] > 1, pushed["positions_per_split"] % innermost > 0))
        run_both(device, plan, {"input": element_bits(rng, name, case[-1])})
    assert (True, True) in splits


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_neighbouring_lanes_read_neighbouring_positions_of_short_rows(device, small_limits, name):
    """Along an innermost dimension that lies near, and along the next one, whose lanes take it whole."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    per_vector = 16 // ELEMENTS[name].nbytes
    limits = limits_of_columns(small_limits, ELEMENTS[name].nbytes)
    seen = set()
    for number, (near, across, groups, row, is_far) in enumerate(
        (
            (30, 5, 37, per_vector, True),
            (13, 6, 150, per_vector, True),
            (97, 3, 4, 2 * per_vector, True),
            (45, 7, 19, 2, True),
            (129, 1, 23, per_vector, False),
            (70, 3, 41, per_vector, False),
            (300, 2, 9, 2 * per_vector, False),
        )
    ):
        backwards = number % 2 > 0
        stride, first = (-row, (near - 1) * row) if backwards else (row, 0)
        shape, strides = [near, across, groups, row], [stride, groups * near * row, near * row, 1]
        if not is_far:
            shape[:2], strides[:2] = shape[1::-1], strides[1::-1]
        case = tuple(shape), (0, 1), tuple(strides), first, math.prod(shape)
        plan = plan_case(case, name, limits, (number % 3 > 0, number % 2 > 0, False))
        (step,) = plan.steps
        kernel = kernels.table()[step.kernel]
        assert kernel.family.name == "argreduce_columns"
        adjacent = bool(kernel.family.unpack(step.push)["positions_adjacent"])
        seen.add((adjacent, bool(kernel.named(step.constants)["whole_segments"])))
        run_both(device, plan, {"input": element_bits(rng, name, case[-1])})
    assert (True, True) in seen
    assert name == "uint8" or (True, False) in seen
    assert (False, True) in seen


@pytest.mark.parametrize("name", ELEMENTS)
def test_argreduce_kernels_of_processors_write_what_their_twins_write(device, small_limits, name):
    limits = limits_for(small_limits, False, ELEMENTS[name].nbytes)
    check_kernels(device, name, limits, kernels_for(name, subgroups=False))


@pytest.mark.in_turn(any_of=("name",))
@pytest.mark.parametrize("name", ELEMENTS)
def test_argreduce_kernels_of_gpus_write_what_their_twins_write(device, small_limits, name):
    assert small_limits.subgroup_size, "both software drivers can do this"
    limits = limits_for(small_limits, True, ELEMENTS[name].nbytes)
    check_kernels(device, name, limits, kernels_for(name, subgroups=True), fast=True)


@pytest.mark.in_turn(any_of=("name",))
@pytest.mark.parametrize("name", of_width(1))
def test_pairs_of_words_have_columns_of_single_bytes(device, small_limits, monkeypatch, name):
    """Indices of one and two words, with and without values, of rows that start anywhere."""
    monkeypatch.setattr(plan_columns, "_MOST_POSITIONS_IN_PAIRS", 1 << 30)
    limits = limits_for(small_limits, True)
    pairs = [kernel for kernel in kernels_for(name, subgroups=True, words=2) if "columns" in kernel[0]]
    assert len(pairs) == 4
    check_kernels(device, name, limits, set(pairs), fast=True, of_kernels={kernel for kernel, _ in pairs})


def check_kernels(device, name, limits, wanted, *, fast=False, of_kernels=None):
    """Compare kernels with their twins: all that the cases have."""
    rng = np.random.default_rng(zlib.crc32(name.encode()) + fast)
    ran = set()
    for case, rules in chosen(name, limits, fast, of_kernels):
        plan = plan_case(case, name, limits, rules)
        run_both(device, plan, {"input": element_bits(rng, name, case[-1])})
        ran.update((step.kernel, twins.is_split(step)) for step in plan.steps)
    assert ran == wanted


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_elements_of_each_width_share_all_cases_and_rules(small_limits, width, fast):
    limits = limits_for(small_limits, fast, width)
    ran, rules_of_kernel, rules_of_element = set(), {}, {}
    for name in ELEMENTS:
        if ELEMENTS[name].nbytes != width:
            continue
        for case, rules in chosen(name, limits, fast):
            ran.add(case)
            (step,) = plan_case(case, name, limits, rules).steps
            kernel = kernels.table()[step.kernel]
            alike = tuple(value for axis, value in kernel.variant.items() if axis != "keys")
            alike = (kernel.family.name, alike, twins.is_split(step))
            rules_of_kernel.setdefault(alike, []).append(rules)
            rules_of_element.setdefault(name, set()).add(rules)
    assert ran == set(cases())
    for rules in rules_of_kernel.values():
        assert all(set(rule) == {False, True} for rule in zip(*rules, strict=True))
    assert all(len(rules) == 8 for rules in rules_of_element.values())


def kernels_for(name: str, subgroups: bool, words: int = 4) -> set[tuple[str, bool]]:
    """The kernels that compare these elements so, each with split reductions and without.

    ``words`` are those of a vector of columns.
    """
    element, found = ELEMENTS[name].specialization, set()
    for kernel in ARGREDUCE_KERNELS:
        axes = kernel.family.axes
        numbers = {axis: axes[axis][value] for axis, value in kernel.variant.items()}
        if (kernel.variant["keys"], numbers["element_bytes"]) != (element["keys"], element["element_bytes"]):
            continue
        if (numbers.get("subgroups", subgroups), numbers.get("vector_words", words)) == (subgroups, words):
            found |= {(kernel.name, False), (kernel.name, True)}
    return found


@pytest.mark.in_turn(any_of=("name", "last"))
@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("row_bytes", [16, 44])
@pytest.mark.parametrize("last", [False, True])
def test_gpus_read_short_rows_with_others_between_them_in_vectors(device, name, row_bytes, last):
    """Rows of a window: element by element they take up to ten times as long."""
    nbytes = ELEMENTS[name].nbytes
    row, pitch, rows, base = row_bytes // nbytes, 128 // nbytes, 300, 3
    limits = replace(device.limits, tuning=DISCRETE, subgroup_size=device.limits.subgroup_size or 4)
    rng = np.random.default_rng(row_bytes + nbytes)
    order = Order(name, take_last=last)
    layout = canonical_reduce((rows, row), (pitch, 1), (1,), (1, 1), take_last=last, input_base=base)
    count = base + (rows - 1) * pitch + row
    plan = plan_argreduce(layout, order, count, limits, index_bytes=4, with_values=last)
    (step,) = plan.steps
    assert kernels.table()[step.kernel].family.name == "argreduce_rows"
    run_both(device, plan, {"input": element_bits(rng, name, count)})


@pytest.mark.parametrize("name", ["uint8", "float16", "int32", "float64"])
def test_invocations_of_one_subgroup_tell_each_other_what_they_found_in_memory_order(
    device, small_limits, name
):
    """Ties and few distinct values; rows of two, three and more dimensions, forwards and backwards."""
    limits = limits_for(small_limits, fast=False)
    one = replace(limits.tuning, workgroup_size=limits.subgroup_size, row_lanes=limits.subgroup_size)
    limits = replace(limits, tuning=one, subgroups_are_threads=True)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    permuted = [*cases()][-len(PERMUTED) :]
    ran = set()
    for case, take_last in itertools.product(permuted, (False, True)):
        plan = plan_case(case, name, limits, (False, take_last, False))
        constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
        ran.add(constants.get("one_subgroup"))
        for distinct in (2, 1 << 8 * ELEMENTS[name].nbytes - 1):
            few = rng.integers(0, distinct, case[-1], np.uint64).astype(f"<u{ELEMENTS[name].nbytes}")
            run_both(device, plan, {"input": few.view(np.uint8)})
    assert 1 in ran


@pytest.mark.parametrize("name", ["int8", "float16", "bool", "float32", "int64"])
@pytest.mark.parametrize(("near", "apart"), [(2, 0), (3, 5), (2, 16)])
def test_columns_side_by_side_in_the_input_only(device, small_limits, name, near, apart):
    """Their outputs are permuted; the columns of a group belong to several rows of the output."""
    limits = replace(small_limits, tuning=replace(small_limits.tuning, columns_apart=1))
    rng = np.random.default_rng(near + apart)
    outer = 21 * near + apart
    case = ((5, near, 7, 21), (0, 2), (7 * outer, 1, outer, near), 0, 5 * 7 * outer)
    plan = plan_case(case, name, limits)
    (step,) = plan.steps
    kernel = kernels.table()[step.kernel]
    assert kernel.family.name == "argreduce_columns"
    assert kernel.variant["loads"] != "elements"
    assert kernel.named(step.constants)["columns_apart"]
    for rules in ((False, False, False), (True, True, False)):
        run_both(device, plan_case(case, name, limits, rules), {"input": element_bits(rng, name, case[-1])})
    # Elsewhere only where fewer than a vector have their outputs side by side, or rows of 8 bytes are aligned
    # together and not each.
    without = replace(small_limits, tuning=replace(small_limits.tuning, columns_apart=0))
    (step,) = plan_case(case, name, without).steps
    constants = kernels.table()[step.kernel].named(step.constants)
    are_aligned_together = name == "int64" and near % 2 != 0 and outer % 2 == 0
    assert constants["columns_apart"] == (near < 16 // ELEMENTS[name].nbytes or are_aligned_together)


@pytest.mark.in_turn(any_of=("name", "row"))
@pytest.mark.parametrize(
    ("name", "row"), [("int8", 1027), ("float16", 517), ("float32", 259), ("int64", 129)]
)
@pytest.mark.parametrize("splits", [1, 2])
def test_long_unaligned_rows_whose_outputs_are_permuted(device, small_limits, name, row, splits):
    """Groups of columns start where their indices do with a vector, which differs from row to row."""
    limits = limits_for(small_limits, fast=False)
    tuning = replace(limits.tuning, columns_workgroups=512 if splits > 1 else 1, short=DISCRETE.short)
    limits, count = replace(limits, tuning=tuning), 34 * splits**2
    case = ((3, 2, count, row), (2,), (row, 3 * count * row, 3 * row, 1), 0, 2 * count * 3 * row)
    rng = np.random.default_rng(row)
    for rules in ((False, False, False), (True, True, False)):
        plan = plan_case(case, name, limits, rules)
        kernel = kernels.table()[plan.steps[0].kernel]
        assert (kernel.family.name, kernel.variant["loads"]) == ("argreduce_columns", "unaligned")
        assert row >= kernels.number("led_groups") * 16 // ELEMENTS[name].nbytes
        assert twins.is_split(plan.steps[0]) == (splits > 1)
        run_both(device, plan, {"input": element_bits(rng, name, case[-1])})


@pytest.mark.in_turn(any_of=("name", "row"))
@pytest.mark.parametrize(("name", "row"), [("int8", 48), ("bool", 27), ("float16", 24), ("float32", 12)])
def test_indices_of_several_dimensions_are_stored_in_vectors(device, small_limits, name, row):
    """Positions count the reduced dimensions in another order than that in which these lie in memory."""
    limits = limits_for(small_limits, fast=False)
    limits = replace(limits, tuning=replace(limits.tuning, columns_workgroups=1, short=DISCRETE.short))
    case = ((3, 17, 3, row), (1, 2), (row, 3 * row, 17 * 3 * row, 1), 0, 3 * 17 * 3 * row)
    rng = np.random.default_rng(row)
    for rules in ((False, False, False), (True, True, False)):
        plan = plan_case(case, name, limits, rules)
        kernel = kernels.table()[plan.steps[0].kernel]
        assert kernel.family.name == "argreduce_columns"
        assert not kernel.named(plan.steps[0].constants)["one_stride"]
        assert not twins.is_split(plan.steps[0])
        run_both(device, plan, {"input": element_bits(rng, name, case[-1])})


# Elements, and sizes in memory of arrays of which all axes but one are reduced, in another order.
FEW_OUTPUTS = (
    ("uint8", (40, 9, 2, 37)),
    ("bool", (40, 9, 2, 37)),
    ("float16", (33, 7, 2, 300)),
    ("float32", (33, 7, 2, 300)),
    ("int64", (28, 5, 3, 35)),
    ("uint8", (39, 3, 75)),
    ("float16", (21, 2, 20)),
    ("float32", (49, 6, 46)),
    ("int64", (15, 3, 69)),
)


@pytest.mark.in_turn(any_of=("case",))
@pytest.mark.parametrize("case", FEW_OUTPUTS)
def test_workgroups_divide_their_splits_of_few_outputs(device, small_limits, case):
    """Rather than leave invocations idle: so many runs out of order are under way at once."""
    name, memory = case
    limits = limits_for(small_limits, True, ELEMENTS[name].nbytes)
    periods = replace(limits.tuning.periods, from_bytes=1 << 40)
    limits = replace(limits, tuning=replace(limits.tuning, periods=periods))
    strides = row_major_strides(memory)
    order, axes = ((1, 2, 0, 3), (0, 2, 3)) if len(memory) == 4 else ((2, 1, 0), (0, 2))
    view = tuple(memory[axis] for axis in order), axes, tuple(strides[axis] for axis in order)
    rng = np.random.default_rng(math.prod(memory))
    for rules in ((False, False, False), (True, True, False), (False, True, True)):
        plan = plan_case((*view, 0, math.prod(memory)), name, limits, rules)
        kernel = kernels.table()[plan.steps[0].kernel]
        assert kernel.family.name == "argreduce_rows"
        assert kernel.named(plan.steps[0].constants)["parts_in_workgroup"] > 1
        run_both(device, plan, {"input": element_bits(rng, name, math.prod(memory))})


@pytest.mark.in_turn(any_of=("name", "rows", "nbytes"))
@pytest.mark.parametrize("name", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize(("rows", "nbytes"), [(1, 8192), (3, 4096), (16, 4096), (1, 8193 - 16), (2, 2064)])
def test_few_rows_have_a_wide_workgroup_each_that_keeps_them(device, small_limits, name, rows, nbytes):
    limits = replace(limits_for(small_limits, fast=True), max_subgroups=16)
    wide = replace(
        limits.tuning, workgroup_size=16, widest_workgroup=64, split_workgroups=64, target_workgroups=64
    )
    limits = replace(limits, tuning=wide)
    length = nbytes // ELEMENTS[name].nbytes
    case = ((rows, length), (1,), (length, 1), 0, rows * length)
    plan = plan_case(case, name, limits)
    (step,) = plan.steps
    kernel = kernels.table()[step.kernel]
    named = kernel.named(step.constants)
    assert kernel.family.name == "argreduce_rows"
    assert (step.workgroups, twins.is_split(step)) == (rows, False)
    assert named["workgroup"] == (64 if nbytes > 16 * 16 * 16 else 32)
    assert named["kept_vectors"] > 0
    assert all(size == 0 for role, size in plan.buffer_bytes if role == "workspace")
    rng = np.random.default_rng(rows * nbytes)
    for rules in ((False, False, False), (True, True, True)):
        run_both(device, plan_case(case, name, limits, rules), {"input": element_bits(rng, name, case[-1])})
    longer = ((rows, 9 * length), (1,), (9 * length, 1), 0, rows * 9 * length)
    assert plan_case(longer, name, limits).steps[0].workgroups > rows
    many = ((17, length), (1,), (length, 1), 0, 17 * length)
    assert (
        kernels.table()[plan_case(many, name, limits).steps[0].kernel].named(
            plan_case(many, name, limits).steps[0].constants
        )["workgroup"]
        == 16
    )


@pytest.mark.in_turn(any_of=("name", "nbytes", "kept"))
@pytest.mark.parametrize(
    ("name", "nbytes", "kept"),
    [
        # Rows of 1 to 8 vectors have an invocation, longer ones two and more. Some of those of 124 bytes lie
        # in a vector less than others, and so in one less of those that their invocations keep.
        ("uint8", 104, 8), ("float32", 124, 5), ("float16", 200, 7), ("int64", 280, 9), ("bool", 360, 12),
        ("float16", 984, 8), ("uint8", 984, 8), ("float32", 1032, 9), ("int8", 1496, 12),
        ("float16", 1624, 0),
    ],
)  # fmt: skip
def test_unaligned_rows_are_kept_by_as_few_invocations_as_can_keep_them(
    device, small_limits, name, nbytes, kept
):
    limits = limits_for(small_limits, fast=True)
    tuning = replace(limits.tuning, workgroup_size=64, row_lanes=8, target_workgroups=1, split_workgroups=1)
    limits = replace(limits, tuning=tuning, max_subgroups=16)
    # An element less than whole vectors of 8 bytes, so that rows start and end anywhere.
    length = nbytes // ELEMENTS[name].nbytes - (name != "int64")
    pitch = length + (name == "int64" and length % 2 == 0)
    case = ((70, length), (1,), (pitch, 1), 0, 70 * pitch)
    plan = plan_case(case, name, limits)
    (step,) = plan.steps
    assert kernels.table()[step.kernel].family.name == "argreduce_rows"
    assert kernels.table()[step.kernel].named(step.constants)["kept_vectors"] == kept
    rng = np.random.default_rng(nbytes)
    for rules in ((False, False, False), (True, True, True)):
        run_both(device, plan_case(case, name, limits, rules), {"input": element_bits(rng, name, case[-1])})
    equal = element_bits(rng, name, case[-1])
    equal[:] = equal[0]
    for rules in ((False, False, False), (True, True, True)):
        run_both(device, plan_case(case, name, limits, rules), {"input": equal})
        winners = one_winner_a_row(name, 70, length, pitch, take_min=rules[0])
        run_both(device, plan_case(case, name, limits, rules), {"input": winners})


def one_winner_a_row(name: str, rows: int, length: int, pitch: int, *, take_min: bool) -> np.ndarray:
    """Bytes of rows with a winner each, from the first element to the last, and of winners between them."""
    loser, winner = (1, 0) if take_min else (0, 1)
    elements = np.full((rows, pitch), winner, f"<u{ELEMENTS[name].nbytes}")
    elements[:, :length] = loser
    elements[np.arange(rows), np.arange(rows) * (length - 1) // max(rows - 1, 1)] = winner
    return elements.ravel().view(np.uint8)


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_kept_parts_of_a_row_end_where_it_does(device, small_limits, name):
    """Its last part has two vectors, and room for four of each invocation."""
    limits = replace(limits_for(small_limits, fast=True), max_subgroups=16)
    few = replace(
        limits.tuning, workgroup_size=16, widest_workgroup=16, split_workgroups=64, target_workgroups=64
    )
    limits = replace(limits, tuning=few)
    length = 2049 // ELEMENTS[name].nbytes + 1
    pitch = length + 2 + length % 2
    case = ((3, length), (1,), (pitch, 1), 0, 3 * pitch)
    for rules in ((False, False, False), (True, True, True)):
        plan = plan_case(case, name, limits, rules)
        (step,) = plan.steps
        kernel = kernels.table()[step.kernel]
        pushed = kernel.family.unpack(step.push)
        assert kernel.named(step.constants)["kept_vectors"] == 4
        assert (pushed["tiles_per_run"], pushed["tile_vectors"], pushed["lanes"]) == (3, 64, 16)
        run_both(device, plan, {"input": one_winner_a_row(name, 3, length, pitch, take_min=rules[0])})


def test_every_argreduce_kernel_of_the_table_is_tested_here():
    ways = itertools.product(ELEMENTS, (False, True), (2, 4))
    tested = {kernel for name, fast, words in ways for kernel, _ in kernels_for(name, fast, words)}
    assert tested == {kernel.name for kernel in ARGREDUCE_KERNELS}


def test_more_workgroups_than_the_device_allows_are_looped_over(device, small_limits):
    few = replace(small_limits, max_workgroup_count=3)
    rng = np.random.default_rng(0)
    for case in cases():
        plan = plan_case(case, "int16", few)
        assert all(step.workgroups <= 3 for step in plan.steps)
        run_both(device, plan, {"input": element_bits(rng, "int16", case[-1])})
