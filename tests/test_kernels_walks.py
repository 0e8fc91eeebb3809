"""The kernels that walk through dimensions against their NumPy twin: all bytes written, and no others."""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from plans import NONE_FIXED, run_plan
from reduce_kernels import element_bits, of_width
from short_kernels import check_ties_and_extremes, plan_view, rules_of, run_both

from vkdml.plan import kernels
from vkdml.plan.device_classes import SOFTWARE, tuning_for
from vkdml.plan.layout import canonical_reduce, extent, row_major_strides
from vkdml.plan.loop_steps import LAVAPIPE_LOOP_STEPS as LIMIT
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits
from vkdml.plan.reduce import walked_tiles
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.element_costs import ElementCosts
from vkdml.plan.tuning import ShortTuning

ELEMENTS = kernels.elements()
FAMILY = kernels.family("argreduce_short")
WALKS = ShortTuning(
    workgroup_size=8,
    tile_bytes=1024,
    direct=True,
    most_fixed_positions=4,
    walked_runs=1000,
    narrow_walked_runs=1000,
    walked_columns=1000,
    far_runs_from_bytes=SOFTWARE.short.far_runs_from_bytes,
)

PROCESSOR = DeviceLimits(tuning_for("software"), 1 << 30, 65535, 1024, 32 << 10, 8, LIMIT)
# The same through shared memory, as on GPUs: of elements that columns would load one by one.
TILES = ShortTuning(workgroup_size=32, tile_bytes=2048, direct=False, permuted_tile_bytes=4096)

# Shape of the array in memory, the order in which its dimensions are read, the window of each, and the axes.
ALL, BACK = slice(None), slice(None, None, -1)
CASES = {
    "rows apart": ((6, 300, 7), (0, 1, 2), (ALL, ALL, ALL), (0, 2)),
    "words apart": ((5, 300, 8), (0, 1, 2), (ALL, ALL, ALL), (0, 2)),
    "long runs": ((5, 60, 37), (0, 1, 2), (ALL, ALL, ALL), (0, 2)),
    "long runs of words": ((3, 50, 44), (2, 1, 0), (BACK, ALL, ALL), (0, 2)),
    "long aligned runs": ((4, 50, 48), (0, 1, 2), (ALL, ALL, ALL), (0, 2)),
    "permuted rows": ((130, 6, 2, 3), (1, 3, 0, 2), (ALL,) * 4, (0, 1, 3)),
    "rows in rows": ((4, 130, 5, 5), (3, 0, 2, 1), (ALL,) * 4, (0, 1)),
    "windows": ((3, 90, 9, 11), (2, 1, 0, 3), (slice(1, 6), slice(3, 80), ALL, slice(2, 9)), (0, 2, 3)),
    "backwards": ((4, 90, 5, 6), (3, 1, 2, 0), (BACK, ALL, BACK, ALL), (0, 2, 3)),
    "one backwards": ((4, 90, 5, 6), (0, 1, 2, 3), (ALL, BACK, BACK, ALL), (0, 2, 3)),
    "every second": ((4, 90, 5, 6), (0, 1, 2, 3), (ALL, ALL, ALL, slice(None, None, 2)), (0, 2, 3)),
    "permuted outputs": ((6, 9, 5, 11), (3, 1, 2, 0), (ALL,) * 4, (2, 3)),
    "many outer": ((2, 3, 2, 3, 5, 4, 7), (3, 4, 1, 2, 0, 6, 5), (ALL,) * 7, (1, 2)),
    "columns": ((90, 270), (0, 1), (ALL, ALL), (0,)),
    "aligned columns": ((41, 512), (0, 1), (ALL, ALL), (0,)),
    "short columns": ((90, 70, 11), (0, 1, 2), (ALL, ALL, ALL), (1,)),
    "columns of two": ((11, 3, 5, 300), (0, 1, 2, 3), (ALL,) * 4, (0, 2)),
    "columns backwards": ((5, 70, 140), (0, 2, 1), (ALL, BACK, BACK), (2,)),
    "columns of three": ((3, 2, 4, 3, 5, 70), (4, 0, 1, 5, 3, 2), (ALL,) * 6, (0, 2, 1)),
    "aligned twos": ((5, 272, 2), (0, 1, 2), (ALL, ALL, ALL), (0, 2)),
    "twos": ((5, 7, 53, 2), (1, 3, 2, 0), (ALL, ALL, ALL, ALL), (1, 3)),
    "twos backwards": ((5, 270, 2), (0, 1, 2), (ALL, ALL, BACK), (0, 2)),
    "fours": ((6, 90, 4), (2, 1, 0), (ALL, ALL, ALL), (0, 2)),
    "two columns": ((4, 90, 9, 2), (0, 1, 2, 3), (ALL,) * 4, (0, 2)),
    "two aligned columns": ((4, 90, 12, 2), (0, 1, 2, 3), (ALL,) * 4, (0, 2)),
    "two columns backwards": ((6, 70, 3, 2), (0, 1, 2, 3), (ALL, ALL, BACK, ALL), (0, 2)),
    "four columns": ((5, 70, 7, 4), (3, 1, 2, 0), (ALL, ALL, ALL, ALL), (2, 3)),
    "repeated": ((1, 41, 70), (0, 1, 2), (ALL, ALL, ALL), (1,)),
}


def limits_of(device, **changes):
    """With lavapipe's numbers, but for these; all columns are walked."""
    short = replace(WALKS, **changes)
    tuning = replace(SOFTWARE, short=short, target_workgroups=1, shortest_row_bytes=1024, vector_positions=())
    return replace(device.limits, tuning=tuning)


def plan_case(case: str, name: str, limits, rules=(False, False, False)):
    """The plan of a case, and how many elements its input has."""
    memory, dims, windows, axes = CASES[case] if limits.tuning.short.direct else TILED[case]
    whole = np.empty(memory, np.int8).transpose(dims)
    view = whole[windows]
    base = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    base += 0 if "aligned" in case or "words" in case else 5
    sizes, strides = view.shape, view.strides
    if case == "repeated":
        sizes, strides = (3, *sizes[1:]), (0, *strides[1:])
    return plan_view(case, sizes, strides, tuple(sorted(axes)), base, Order(name, *rules), limits)


# Of these, each through tiles: runs in one segment and apart, out of order, and written in another order.
TILED = {
    "rows out of order": ((700, 5, 4), (0, 2, 1), (ALL, ALL, ALL), (1, 2)),
    "word rows out of order": ((700, 4, 8), (0, 2, 1), (ALL, ALL, ALL), (1, 2)),
    "planes": ((300, 3, 4, 2), (2, 0, 3, 1), (ALL,) * 4, (0, 2, 3)),
    "runs apart": ((3, 900, 5), (0, 1, 2), (ALL, ALL, ALL), (0, 2)),
    "words apart": ((4, 900, 8), (2, 1, 0), (ALL, ALL, ALL), (0, 2)),
    "rows in rows": ((200, 2, 16, 7), (0, 1, 2, 3), (ALL,) * 4, (1, 3)),
    "backwards": ((500, 5, 6), (0, 2, 1), (ALL, BACK, ALL), (1, 2)),
    "apart backwards": ((3, 500, 6), (2, 1, 0), (ALL, ALL, BACK), (0, 2)),
    "written across": ((33, 150, 3, 4), (1, 0, 3, 2), (ALL,) * 4, (2, 3)),
    "apart and written across": ((40, 2, 900, 7), (2, 0, 1, 3), (ALL,) * 4, (2, 3)),
    "windows": ((300, 6, 9), (0, 2, 1), (ALL, slice(2, 8), slice(1, 5)), (1, 2)),
    "large windows": ((300, 6, 7), (0, 2, 1), (ALL, slice(1, 7), slice(1, 6)), (1, 2)),
    "steps between outputs": ((900, 9), (0, 1), (ALL, slice(0, 9, 2)), (1,)),
    "steps of columns, apart": ((2, 1200), (0, 1), (ALL, slice(0, 1200, 2)), (0,)),
    "crops across gaps": ((500, 24, 9), (0, 1, 2), (ALL, slice(3, 8), slice(1, 7)), (1, 2)),
    "sectors with gaps": ((300, 4, 32), (0, 1, 2), (ALL, ALL, slice(7, 9)), (1, 2)),
    "pairs, lines from each other": ((150, 64, 2), (0, 1, 2), (ALL, ALL, ALL), (1,)),
}


def walks_for(name: str) -> set[str]:
    element = ELEMENTS[name].specialization
    return {
        kernel.name
        for kernel in FAMILY.kernels.values()
        if kernel.variant["columns"].startswith("walked")
        and kernel.variant["keys"] == element["keys"]
        and FAMILY.axes["element_bytes"][kernel.variant["element_bytes"]] == element["element_bytes"]
    }


@pytest.mark.parametrize("name", ELEMENTS)
def test_kernels_write_what_their_twin_writes(device, name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    alike = of_width(ELEMENTS[name].nbytes)
    turn, ran = alike.index(name), set()
    for number, case in enumerate(CASES):
        # Elements of one width share the cases: they lie in memory alike.
        if case not in ("rows apart", "columns") and "long" not in case and number % len(alike) != turn:
            continue
        limits = limits_of(device, **NONE_FIXED if number % 2 else {})
        plan, count = plan_case(case, name, limits, rules_of(turn ^ 7 * (number % 2)))
        assert "walked" in plan.steps[0].kernel, case
        run_both(device, plan, element_bits(rng, name, count))
        ran.add(plan.steps[0].kernel)
    assert ran == walks_for(name)


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_all_rules_hold_for_ties_and_extremes(device, name):
    """Few values, the least and greatest keys among them, in runs that end within a word and in columns."""
    limits = limits_of(device, **NONE_FIXED)

    def plan_of(case, rules):
        return plan_case(case, name, limits, rules)

    check_ties_and_extremes(device, name, plan_of, "permuted rows", "columns of two")


def tiled_limits_of(device, **changes):
    short = replace(TILES, **changes)
    periods = replace(device.limits.tuning.periods, from_bytes=1 << 40, elements_from_bytes=1 << 40)
    tuning = replace(device.limits.tuning, short=short, target_workgroups=1, across_vectors=0)
    tuning = replace(tuning, periods=periods, joined_from_bytes=1 << 40, shortest_row_bytes=1024)
    return replace(device.limits, tuning=tuning)


@pytest.mark.parametrize("name", ELEMENTS)
def test_tiles_write_what_their_twin_writes(device, monkeypatch, name):
    """Through shared memory, which the twin models word by word."""
    monkeypatch.setattr(ElementCosts, "is_walked", True)
    monkeypatch.setattr(walked_tiles, "FEWEST_OUTPUTS", 1)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    alike = of_width(ELEMENTS[name].nbytes)
    turn, seen = alike.index(name), set()
    for number, case in enumerate(TILED):
        if len(alike) > 3 and number % 2 != turn % 2:
            continue
        if "pairs" in case and ELEMENTS[name].nbytes == 8:  # vectors, which columns load at once
            continue
        if case in ("windows", "sectors with gaps") and ELEMENTS[name].nbytes >= 4:  # too far apart
            continue
        if case.startswith("steps") and ELEMENTS[name].nbytes > (4 if "apart" in case else 2):
            continue  # which are no walks
        limits = tiled_limits_of(device, **NONE_FIXED if number % 2 else {})
        plan, count = plan_case(case, name, limits, rules_of(turn ^ 7 * (number % 2)))
        (step,) = plan.steps
        constants = kernels.table()[step.kernel].named(step.constants)
        assert step.kernel.startswith("argreduce_short_walked_"), case
        assert not constants["direct"]
        assert constants["positions_apart"] == ("apart" in case), case
        assert (constants["segments_along"] < 3) == ("across" in case), case
        seen.add((constants["positions_apart"], constants["word_aligned"], constants["padded"]))
        run_both(device, plan, element_bits(rng, name, count))
    assert len(seen) >= (2 if ELEMENTS[name].nbytes == 8 else 3)


@pytest.mark.parametrize(
    ("name", "near", "padded"), [("uint8", 2, True), ("float16", 3, True), ("uint8", 9, False)]
)
def test_few_outputs_side_by_side_leave_words_out_for_what_is_apart(device, name, near, padded):
    """Neighbouring invocations would read 128 bytes from each other, from one bank of shared memory."""
    plan, _ = plan_view(
        "", (400, 128, near), (128 * near, near, 1), (1,), 0, Order(name), tiled_limits_of(device)
    )
    (step,) = plan.steps
    assert step.kernel.startswith("argreduce_short_walked_")
    assert kernels.table()[step.kernel].named(step.constants)["padded"] == padded


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "int64"])
def test_all_rules_hold_for_ties_and_extremes_in_tiles(device, monkeypatch, name):
    monkeypatch.setattr(ElementCosts, "is_walked", True)
    limits = tiled_limits_of(device, **NONE_FIXED)
    check_ties_and_extremes(
        device,
        name,
        lambda case, rules: plan_case(case, name, limits, rules),
        "rows out of order",
        "runs apart",
    )


def test_the_cases_have_walks_of_every_kind(device):
    seen: dict[str, set[int]] = {}
    for case, name in itertools.product(CASES, ("uint8", "float32")):
        (step,) = plan_case(case, name, limits_of(device))[0].steps
        kernel = kernels.table()[step.kernel]
        pushed = kernel.family.unpack(step.push)
        constants = kernel.named(step.constants)
        for constant in (
            "dims",
            "word_aligned",
            "pair_aligned",
            "in_pairs",
            "run_apart",
            "positions",
            "keeps_pair",
        ):
            seen.setdefault(constant, set()).add(constants.get(constant, 0))
        for number in ("kept_dims", "reduced_dims"):
            seen.setdefault(number, set()).add(min(pushed[number], 3))
        clipped = any(pushed[f"size_{i}"] % pushed[f"tile_{i}"] for i in range(3))
        seen.setdefault("clipped", set()).add(clipped)
    assert seen["dims"] == seen["reduced_dims"] == {1, 2, 3}
    assert seen["kept_dims"] >= {0, 2}
    assert seen["positions"] >= {0, 3}
    for either in ("word_aligned", "pair_aligned", "in_pairs", "run_apart", "clipped", "keeps_pair"):
        assert seen[either] == {False, True}, either


def planned(
    sizes, strides, axes, limits, name="uint8", take_last=False, weights=None, bases=(0, 0), **results
):
    kept = tuple(1 if i in axes else size for i, size in enumerate(sizes))
    layout = canonical_reduce(
        *(sizes, strides, axes, row_major_strides(kept)),
        take_last=take_last,
        index_weights=weights,
        input_base=bases[0],
        output_base=bases[1],
    )
    count, outputs = bases[0] + extent(sizes, strides)[1], bases[1] + math.prod(kept)
    results = {"index_bytes": 4, "with_values": False, "output_elements": outputs, **results}
    return plan_argreduce(layout, Order(name, take_last=take_last), count, limits, **results)


@pytest.mark.parametrize(
    ("name", "near"), [("int8", 2), ("uint8", 3), ("int8", 3), ("uint8", 4), ("float16", 2), ("bool", 3)]
)
def test_several_positions_of_few_columns_are_read_at_once(device, name, near):
    """With any number of them, at any place in a word; what lies behind them takes no part."""
    limits = limits_of(device)
    for positions, extra, take_last in itertools.product((2, 3, 4, 5, 7, 8, 30), (0, 1), (False, True)):
        sizes, strides = (300, positions, near), (positions * near + extra, near, 1)
        plan = planned(sizes, strides, (1,), limits, name, take_last)
        constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
        nbytes = ELEMENTS[name].nbytes
        assert constants["few_columns"] == near
        starts = (positions * near + extra) * nbytes, 8 // nbytes // near * near * nbytes
        assert [constants["word_aligned"], constants["pair_aligned"]] == [
            all(start % together == 0 for start in starts) for together in (4, 8)
        ]
        assert constants["keeps_pair"] == (not constants["pair_aligned"])
        x = element_bits(np.random.default_rng(positions), name, extent(sizes, strides)[1])
        run_both(device, plan, np.where(x % 3 == 0, x, x.max() if positions < 5 else 0))
    # Other columns are as many as words have room for, and gaps between positions are left out.
    for sizes, strides in (((300, 9, near), (20 * near, 2 * near, 1)), ((300, 9, 5), (45, 5, 1))):
        step = planned(sizes, strides, (1,), limits, name).steps[0]
        assert kernels.table()[step.kernel].named(step.constants).get("few_columns", 0) == 0


@pytest.mark.parametrize("name", ["uint8", "float16", "bfloat16", "int8"])
def test_what_follows_within_two_words_is_kept(device, name):
    """Columns of positions that follow each other, wherever they start and however few words there are."""
    limits = limits_of(device)
    per_pair = 8 // ELEMENTS[name].nbytes
    for near, positions, pitch in itertools.product(range(3, per_pair + 2), (4, 7, 16, 33), (0, 1, 2)):
        sizes, strides = (300, positions, near), (positions * near + pitch, near, 1)
        plan = planned(sizes, strides, (1,), limits, name)
        constants = kernels.table()[plan.steps[0].kernel].named(plan.steps[0].constants)
        if "walked_packed" in plan.steps[0].kernel:
            fits = near <= per_pair and not constants["pair_aligned"]
            assert constants["keeps_pair"] == fits
        else:
            assert near >= per_pair
        x = element_bits(np.random.default_rng(positions), name, extent(sizes, strides)[1])
        run_both(device, plan, np.where(x % 3 == 0, x, x.max() if positions < 5 else 0))


@pytest.mark.parametrize(
    ("sizes", "strides", "walked"),
    [
        # Rows of outputs in the order of the input: of a word and more, of less, and unaligned.
        ((400, 8, 24), (192, 24, 1), False),
        ((400, 8, 5), (40, 5, 1), True),
        ((400, 4, 8), (32, 8, 1), False),
        ((400, 6, 8), (48, 8, 1), True),
        ((400, 3, 33), (99, 33, 1), True),
        ((400, 8, 33), (264, 33, 1), False),
        ((400, 12, 33), (396, 33, 1), True),
        # In another order: aligned, unaligned, and short.
        ((5, 6, 204, 40), (48960, 8160, 1, 204), False),
        ((5, 7, 204, 40), (57120, 8160, 1, 204), True),
        ((5, 4, 203, 40), (32480, 8120, 1, 203), False),
        ((5, 5, 203, 40), (40600, 8120, 1, 203), True),
        ((5, 5, 99, 80), (39600, 7920, 1, 99), False),
    ],
)
def test_which_stacks_are_walked(device, sizes, strides, walked):
    limits = limits_of(device, most_fixed_positions=SOFTWARE.short.most_fixed_positions)
    (step,) = planned(sizes, strides, (1,), limits).steps
    assert ("walked" in step.kernel) == walked


def test_runs_of_two_and_four_narrow_elements_are_columns(device):
    """As many as make up a word, where the next output's follow; other runs are walked."""
    limits = limits_of(device)
    for name, run, pitch, outputs, joined in (
        ("uint8", 2, 2, 300, 2),
        ("int8", 4, 4, 300, 4),
        ("bfloat16", 2, 2, 300, 2),
        ("uint8", 2, 3, 300, 0),
        ("uint8", 3, 3, 300, 0),
        ("float16", 4, 4, 300, 0),
        ("uint8", 2, 2, 3, 0),  # of the innermost outputs
        ("int32", 2, 2, 300, 0),
    ):
        sizes, strides = (600, 9, outputs, run), (10 * pitch * outputs, pitch * outputs, pitch, 1)
        (step,) = planned(sizes, strides, (1, 3), limits, name).steps
        constants = kernels.table()[step.kernel].named(step.constants)
        assert "walked" in step.kernel
        assert constants.get("joined", 0) == joined or (not joined and constants.get("joined", 1) == 1)


@pytest.mark.parametrize("take_last", [False, True])
@pytest.mark.parametrize("name", ["uint8", "uint16"])
def test_as_many_positions_as_there_are_ranks(device, name, take_last):
    """65535 positions of one output; all others have other kernels."""
    limits = limits_of(device)
    sizes = (8, 255, 257)
    strides = (255 * 257, 1, 255)
    plan = planned(sizes, strides, (1, 2), limits, name, take_last)
    assert "walked" in plan.steps[0].kernel
    more = planned((8, 256, 257), (256 * 257, 1, 256), (1, 2), limits, name, take_last)
    assert "walked" not in more.steps[0].kernel
    dtype = np.dtype(name)
    for places in ((0,), (65534,), (0, 65534), ()):
        x = np.zeros((8, 255 * 257), dtype)
        x[:, list(places)] = 1
        memory = x.reshape(8, 255, 257).transpose(0, 2, 1).copy()
        found = run_plan(device, plan, {"input": memory.reshape(-1).view(np.uint8)})["indices"]
        places = places or (0, 65534)
        np.testing.assert_array_equal(found.view(np.uint32), places[-1 if take_last else 0])


def test_parts_whose_indices_are_no_multiples_of_positions_have_other_kernels(device):
    limits = limits_of(device)
    sizes, strides = (6, 300, 7), (2100, 7, 1)
    assert "walked" in planned(sizes, strides, (0, 2), limits).steps[0].kernel
    assert "walked" in planned(sizes, strides, (0, 2), limits, weights=(21, 0, 3)).steps[0].kernel
    assert "walked" not in planned(sizes, strides, (0, 2), limits, weights=(20, 0, 1)).steps[0].kernel


def test_few_outputs_rows_and_too_many_places_have_other_kernels(device):
    limits = limits_of(device)
    assert "walked" in planned((8, 9, 7), (63, 1, 9), (1, 2), limits).steps[0].kernel
    assert "walked" not in planned((7, 9, 7), (63, 1, 9), (1, 2), limits).steps[0].kernel
    few = limits_of(device, walked_runs=5, narrow_walked_runs=4)
    for more in (0, 1):
        plan = planned((5 + more, 30, 3, 5), (450, 15, 5, 1), (0, 2), few, "float32")
        assert ("walked" in plan.steps[0].kernel) == (not more)
        # But for those that read the elements one by one.
        plan = planned((4 + more, 300, 13), (3900, 13, 1), (0, 2), few)
        assert "walked" in plan.steps[0].kernel


def test_stacks_that_walks_are_faster_for(device):
    """Those of narrow elements whose positions are not compiled in, or few that start anywhere in a word."""
    limits = limits_of(device)

    def kind(positions: int, pitch: int, name: str = "uint8") -> str:
        sizes, strides = (40, positions, 61), (positions * pitch, pitch, 1)
        plan = planned(sizes, strides, (1,), limits, name)
        run_both(device, plan, element_bits(np.random.default_rng(pitch), name, extent(sizes, strides)[1]))
        kernel = kernels.table()[plan.steps[0].kernel]
        return kernel.variant["columns"] if kernel.family is FAMILY else kernel.family.name

    for name in ("uint8", "bfloat16"):
        assert kind(5, 64, name) == kind(5, 61, name) == "walked_packed"
        assert kind(4, 64, name) == kind(4, 61, name) == kind(3, 64, name) == "packed"
        assert kind(3, 61, name) == kind(2, 61, name) == "walked_packed"
    assert kind(5, 64, "float32") == kind(3, 61, "float32") == "single"
    # Where no walk is possible they are stacks as ever.
    limits = limits_of(device, narrow_walked_runs=0)
    assert kind(5, 61) == kind(3, 61) == "packed"


@pytest.mark.parametrize("name", ["uint8", "float16"])
@pytest.mark.parametrize("positions", [2, 3, 20])
def test_rows_of_outputs_that_start_anywhere_are_stored_in_vectors(device, name, positions):
    """An invocation then takes columns of two rows' ends, and none before the buffer."""
    kinds = set()
    turns = itertools.product((15, 16, 39, 270), (0, 1, 2, 3), (4, 8))
    for turn, (row, base, index_bytes) in enumerate(turns):
        sizes, strides = (5, positions, row), (positions * row, row, 1)
        limits = limits_of(device, narrow_walked_runs=1000 * (positions > 3 or turn % 3 > 0))
        plan = planned(
            *(sizes, strides, (1,), limits, name),
            take_last=turn % 2 > 0,
            bases=(base, turn % 4),
            index_bytes=index_bytes,
        )
        run_both(device, plan, element_bits(np.random.default_rng(turn), name, base + math.prod(sizes)))
        (step,) = plan.steps
        kernel = kernels.table()[step.kernel]
        kinds.add(kernel.variant["columns"])
        assert kernel.named(step.constants)["output_vectors"] == (row >= 16)
    assert kinds == ({"walked_packed"} if positions > 3 else {"packed", "walked_packed"})


def test_results_that_no_vector_of_indices_holds_are_stored_one_by_one(device):
    limits = limits_of(device)

    def stores_vectors(sizes, strides, axes, **results):
        (step,) = planned(sizes, strides, axes, limits, "uint8", **results).steps
        return kernels.table()[step.kernel].named(step.constants)["output_vectors"] == 1

    stack = (5, 40, 64), (2560, 64, 1), (1,)
    assert stores_vectors(*stack)
    assert not stores_vectors(*stack, with_values=True)
    assert not stores_vectors((64, 5, 40), (1, 2560, 64), (2,))  # outputs in another order
    assert not stores_vectors((300, 40, 4), (160, 4, 1), (1,))  # several positions make up a word
    assert not stores_vectors((9, 500, 2), (1000, 2, 1), (0, 2))  # two columns make an output


def test_few_columns_are_walked_one_at_a_time(device):
    limits = limits_of(device)
    for near, kind in ((3, "walked"), (4, "walked_packed")):
        sizes, strides = (300, 5, near, 2), (40 * near, 8 * near, 1, 4 * near)
        plan = planned(sizes, strides, (1, 3), limits)
        run_both(device, plan, element_bits(np.random.default_rng(near), "uint8", extent(sizes, strides)[1]))
        assert kernels.table()[plan.steps[0].kernel].variant["columns"] == kind


def test_places_far_apart_are_walked_only_while_they_are_few(device):
    """A cache has lines for fewer places then; the same places near each other are walked."""
    limits = limits_of(device, walked_columns=40)
    far = limits.tuning.short.far_runs_from_bytes // 4
    for count, pitch, walked in ((40, far, True), (41, far, False), (41, far - 1, True)):
        (step,) = planned((count, far - 1), (pitch, 1), (0,), limits, "float32").steps
        assert ("walked" in step.kernel) == walked


@pytest.mark.parametrize(
    ("name", "row", "columns"),
    [
        ("uint8", 95, "single"),
        ("uint8", 96, "walked"),
        ("uint8", 1023, "walked"),
        ("uint8", 1024, None),
        ("float16", 31, "single"),
        ("float16", 32, "walked"),
        ("float16", 639, "walked"),
        ("float16", 640, None),
        ("float32", 63, "single"),
        ("float32", 64, "walked"),
        ("float32", 175, "walked"),
        ("float32", 176, None),
        ("int64", 31, "single"),
        ("int64", 32, "walked"),
        ("int64", 175, "walked"),
        ("int64", 176, None),
    ],
)
def test_processors_walk_rows_that_are_neither_short_nor_long(name, row, columns):
    """Each invocation reads some that follow each other."""
    (step,) = planned((4096, row), (row, 1), (1,), PROCESSOR, name).steps
    assert kernels.table()[step.kernel].variant.get("columns") == columns


def test_invocations_take_longer_rows_each_on_swiftshader():
    """There workgroups take long to share a row."""
    swiftshader = replace(PROCESSOR, tuning=tuning_for("software", "SwiftShader driver"))
    for limits, size, name, columns in (
        (PROCESSOR, 200, "int32", None),
        (swiftshader, 200, "int32", "single"),
        (swiftshader, 639, "float32", "single"),
        (swiftshader, 640, "float32", None),
        (swiftshader, 319, "int64", "single"),
        (swiftshader, 320, "int64", "walked"),
        (swiftshader, 512, "int64", None),
        (swiftshader, 2815, "uint8", "walked"),
        (swiftshader, 2816, "uint8", None),
    ):
        (step,) = planned((10486, size), (size, 1), (1,), limits, name).steps
        assert kernels.table()[step.kernel].variant.get("columns") == columns


@pytest.mark.parametrize(("name", "most"), [("uint8", 256), ("float16", 256), ("float32", 64), ("int64", 64)])
def test_columns_are_walked_for_fewer_positions_on_swiftshader(name, most):
    """Of unaligned rows, wherever they lie: an element takes longer to load than to compare."""
    limits = replace(PROCESSOR, tuning=tuning_for("software", "SwiftShader driver"))
    for row in (333, 2469):
        for positions, family in ((most, "argreduce_short"), (most + 1, "argreduce_columns")):
            sizes = ((16 << 20) // (positions * row), positions, row)
            step = planned(sizes, row_major_strides(sizes), (1,), limits, name).steps[0]
            assert kernels.table()[step.kernel].family.name == family, (row, positions)


@pytest.mark.parametrize(
    ("sizes", "axes", "columns"),
    [
        ((100, 300, 159), (2,), "single"),  # outputs in another order
        ((100, 300, 160), (2,), "walked"),
        ((100, 300, 1000), (2,), "walked"),
        ((100, 300, 1500), (2,), None),
        ((3, 1000, 1023), (0, 2), "walked"),
        ((3, 1000, 1024), (0, 2), None),
        ((3, 1000, 1023), (1, 2), None),
        ((1000, 3, 64, 1024), (1, 3), None),  # rows apart
        ((1000, 3, 17, 1023), (1, 3), "walked"),
    ],
)
def test_processors_walk_rows_that_follow_each_other(sizes, axes, columns):
    strides = row_major_strides(sizes)
    if axes == (2,):
        strides = (strides[1], strides[1] * sizes[0], 1)
    (step, *_) = planned(sizes, strides, axes, PROCESSOR, "uint8").steps
    assert kernels.table()[step.kernel].variant.get("columns") == columns


@pytest.mark.parametrize(
    ("sizes", "axes", "columns"),
    [
        ((3, 1000, 1500), (0, 2), "walked"),
        ((1000, 3, 63, 1500), (1, 3), None),  # rows apart, of few outputs side by side
        ((1000, 3, 64, 1500), (1, 3), "walked"),
    ],
)
def test_swiftshader_walks_several_longer_rows_of_an_output(sizes, axes, columns):
    limits = replace(PROCESSOR, tuning=tuning_for("software", "SwiftShader driver"))
    (step, *_) = planned(sizes, row_major_strides(sizes), axes, limits, "uint8").steps
    assert kernels.table()[step.kernel].variant.get("columns") == columns


@pytest.mark.parametrize(
    ("sizes", "axes", "neighbours"),
    [
        ((7, 5000, 17), (0, 2), False),
        ((16, 5000, 127), (0, 2), False),
        ((17, 5000, 17), (0, 2), True),
        ((7, 5000, 128), (0, 2), True),
        ((5000, 200), (1,), True),  # one run
        ((50, 5000, 17), (0,), True),  # columns
    ],
)
def test_invocations_walk_side_by_side_through_few_short_runs(sizes, axes, neighbours):
    (step,) = planned(sizes, row_major_strides(sizes), axes, PROCESSOR).steps
    kernel = kernels.table()[step.kernel]
    assert kernel.variant["columns"].startswith("walked")
    assert kernel.named(step.constants)["neighbours"] == neighbours


def test_positions_evenly_apart_a_few_at_a_time_are_walked(device):
    """However far apart they are, and in however many places."""
    limits = limits_of(device, narrow_walked_runs=100, walked_columns=100)
    far = limits.tuning.short.far_runs_from_bytes * 2
    for name, few, walked in (
        ("uint8", 11, True),
        ("uint8", 12, False),
        ("float32", 11, True),
        ("float32", 12, False),
    ):
        sizes, strides = (40, few, 100), (far, 41 * far, 1)
        (step,) = planned(sizes, strides, (0, 1), limits, name).steps
        assert ("walked" in step.kernel) == walked


@pytest.mark.parametrize(("positions", "many"), [(3, True), (100, False)])
def test_tiles_of_short_walks_have_lines_of_outputs_in_another_order(device, positions, many):
    """Long walks have many outputs in the lines that they read, and few beside each other."""
    sizes, strides = (2, 75, 6682, positions), (1, 2 * positions, 150 * positions, 2)
    (step,) = planned(sizes, strides, (3,), replace(device.limits, tuning=SOFTWARE)).steps
    pushed = kernels.table()[step.kernel].family.unpack(step.push)
    (along,) = (pushed[f"tile_{i}"] for i in range(3) if pushed[f"output_stride_{i}"] == 1)
    assert "walked" in step.kernel
    assert (along >= 32) == many


def check_on(device, plan, x, axes):
    """All indices must be those that NumPy finds."""
    found = run_plan(device, plan, {"input": x.reshape(-1).view(np.uint8)})["indices"].view(np.uint32)
    positions = math.prod(x.shape[axis] for axis in axes)
    rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(-1, positions)
    np.testing.assert_array_equal(found[: len(rows)], rows.argmax(axis=1))


@pytest.mark.parametrize(("inner", "axes"), [((30, 3), (1, 3)), ((20, 7), (1, 2)), ((500, 2), (2,))])
def test_loops_finish_at_the_limit_of_steps(device, inner, axes):
    """One workgroup takes all tiles, about as many as lavapipe finishes."""
    limits = replace(limits_of(device), max_workgroup_count=1, max_loop_steps=LIMIT)

    def of(count: int):
        sizes = (count, 4, *inner)
        return sizes, planned(sizes, row_major_strides(sizes), axes, limits)

    def steps(count: int) -> int:
        try:
            (step,) = of(count)[1].steps
        except ValueError:
            return LIMIT + 1
        return step.loop_steps if "walked" in step.kernel else LIMIT + 1

    count = 10
    while steps(count + 1) <= LIMIT:
        count += 1
    sizes, plan = of(count)
    assert plan.steps[0].loop_steps > LIMIT * 8 // 10
    check_on(device, plan, np.random.default_rng(count).integers(0, 2, sizes, np.uint8), axes)


def software_limits(device, most_steps=LIMIT):
    """Those of a processor, whose loops end as lavapipe's do by default."""
    return replace(device.limits, tuning=SOFTWARE, max_loop_steps=most_steps)


def test_tiles_have_fewer_outputs_where_the_loops_of_more_would_have_too_many_steps(device):
    """Else some thousand positions would be read element by element, which takes 15 times as long."""
    axes = (1, 3)
    for positions in (600, 872, 1000):
        sizes = (2699, positions, 2, 3)
        (step,) = planned(sizes, row_major_strides(sizes), axes, software_limits(device)).steps
        assert "walked" in step.kernel, positions
        assert step.loop_steps <= LIMIT
    sizes = (400, 100, 2, 3)
    outputs = {}
    for most in (LIMIT, 3000, 1000):
        plan = planned(sizes, row_major_strides(sizes), axes, software_limits(device, most))
        (step,) = plan.steps
        assert "walked" in step.kernel
        assert step.loop_steps <= most
        outputs[most] = step.workgroups
        check_on(device, plan, np.random.default_rng(most).integers(0, 3, sizes, np.uint8), axes)
    assert outputs[LIMIT] <= outputs[3000] < outputs[1000]


@pytest.mark.parametrize(("name", "side_by_side"), [("uint8", 2), ("uint8", 3), ("uint8", 4), ("float16", 2)])
def test_steps_of_few_columns_are_those_of_all_their_positions_at_once(device, name, side_by_side):
    sizes = (400, 8000, side_by_side)
    (step,) = planned(sizes, row_major_strides(sizes), (1,), software_limits(device), name).steps
    assert "walked_packed" in step.kernel
    pushed = kernels.table()[step.kernel].family.unpack(step.push)
    groups_of_invocation = math.ceil(pushed["tile_0"] // side_by_side * pushed["tile_1"] / 8)
    at_once = 8 // ELEMENTS[name].nbytes // side_by_side
    assert 0 <= step.loop_steps - groups_of_invocation * 8000 // at_once < 10 * (groups_of_invocation + 1)


@pytest.mark.parametrize(
    ("name", "sizes", "axes"),
    [
        # Few outputs, and more runs apart than walks have that are faster than other kernels.
        ("uint8", (584, 163, 11), (0, 2)),
        ("uint8", (1022, 513, 2), (0, 2)),
        ("float16", (3, 256, 45, 15), (1, 3)),
    ],
)
def test_what_would_be_read_element_by_element_is_walked(device, name, sizes, axes):
    limits = software_limits(device)
    plan = planned(sizes, row_major_strides(sizes), axes, limits, name)
    (step,) = plan.steps
    assert "walked" in step.kernel
    x = np.random.default_rng(3).integers(0, 3, sizes, np.uint8).astype(name)
    check_on(device, plan, x, axes)
    # Still fewer outputs are not enough for all invocations.
    few = tuple(size if axis in axes else min(size, 5) for axis, size in enumerate(sizes))
    step, *_ = planned(few, row_major_strides(few), axes, limits, name).steps
    assert "walked" not in step.kernel
