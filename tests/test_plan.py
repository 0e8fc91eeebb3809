"""Plans keep to the device's limits and to their scratch allowance, and refuse with numbers. No device."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import LIMITS
from twins import is_split

from vkdml.plan import kernels
from vkdml.plan.device_classes import TUNING, tuning_for
from vkdml.plan.layout import canonical_copy, canonical_reduce, extent, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import PUSH_BYTES, SHARED_BYTES_OF_INVOCATION, DeviceLimits
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.reduce.columns import column_division
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import NARROW_SHARE
from vkdml.plan.slice.slice1 import plan_slice1

ELEMENTS = [kernels.elements()[name] for name in ("uint8", "float16", "float32", "int64")]


def plan(sizes, axes, el=ELEMENTS[2], limits=LIMITS["h200"], strides=None, count=None, **changes):
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    strides = row_major_strides(sizes) if strides is None else strides
    layout = canonical_reduce(sizes, strides, axes, row_major_strides(kept), take_last=False)
    order = Order(el.name, omit_nan=bool(changes.pop("omit_nan", False)))
    options = {"index_bytes": 8, "with_values": False, **changes}
    return plan_argreduce(layout, order, count or math.prod(sizes), limits, **options)


def first_family(planned) -> str:
    """The family of its first step's kernel: ``rows``, ``columns``, ``short`` and so on."""
    return planned.steps[0].kernel.removeprefix("argreduce_").split("_")[0]


def header(step) -> SimpleNamespace:
    assert len(step.push) == PUSH_BYTES
    return SimpleNamespace(**kernels.table()[step.kernel].family.unpack(step.push))


def constants(step) -> dict[str, int]:
    return kernels.table()[step.kernel].named(step.constants)


SIZES = st.lists(st.sampled_from([1, 2, 3, 7, 64, 513, 4096, 1 << 20]), min_size=1, max_size=5)


@given(SIZES, st.data(), st.sampled_from(sorted(LIMITS)), st.sampled_from(ELEMENTS))
def test_plans_respect_limits_and_their_scratch_allowance(sizes, data, name, el):
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))))
    limits = LIMITS[name]
    input_bytes = math.prod(sizes) * el.nbytes
    outputs = math.prod(size for axis, size in enumerate(sizes) if axis not in axes)
    if max(input_bytes, outputs * 8) > limits.max_storage_buffer_range:
        with pytest.raises(
            MemoryError, match=rf"spans \d+ bytes.*\({limits.max_storage_buffer_range} bytes\)"
        ):
            plan(tuple(sizes), axes, el, limits)
        return
    made = plan(tuple(sizes), axes, el, limits)
    assert made.bytes_of("workspace") <= input_bytes // 100 + (1 << 20)
    assert made.bytes_of("input") < input_bytes + 16
    assert made.bytes_of("indices") == outputs * 8
    for step in made.steps:
        check_step(step, limits)
    step = made.steps[-1]
    pushed = header(step)
    if kernels.table()[step.kernel].family is kernels.family("argreduce_short"):
        shared = constants(step)["tile_words"] + constants(step).get("result_words", 0)
        assert 4 * shared <= limits.max_shared_memory
        assert made.bytes_of("workspace") == 4 * len(made.layout)
        assert pushed.size_0 * pushed.size_1 * pushed.size_2 <= outputs
        return
    assert pushed.outputs == outputs
    assert is_split(step) == (pushed.splits > 1)
    assert (made.counters > 0) == (pushed.splits > 1)
    candidates = outputs * pushed.splits * (12 if el.nbytes == 8 else 8) if pushed.splits > 1 else 0
    if made.counters:
        assert step.workgroups == min(made.counters * pushed.splits, limits.max_workgroup_count)
    if len(made.steps) == 2:
        check_periods(made, el, input_bytes, candidates)
        return
    # Workgroups count their arrivals, and each has room for its candidates.
    assert made.bytes_of("workspace") == 4 * (len(made.layout) + made.counters) + candidates
    # The splits cover all there is, and none is empty.
    kernel = kernels.table()[step.kernel]
    if kernel.family is kernels.family("argreduce_rows"):
        assert pushed.tiles_per_run * pushed.tile_vectors * 16 >= pushed.run * el.nbytes
        in_run = -(-pushed.run // kernel.named(step.constants).get("row_step", 1))
        assert pushed.splits <= pushed.reduce_count // in_run * pushed.tiles_per_run
    else:
        positions = getattr(pushed, "positions", pushed.reduce_count)
        assert (
            (pushed.splits - 1) * pushed.positions_per_split
            < positions
            <= pushed.splits * pushed.positions_per_split
        )
        assert el.nbytes >= 4 or pushed.positions_per_split <= NARROW_SHARE


def check_step(step, limits) -> None:
    assert 1 <= step.workgroups <= limits.max_workgroup_count
    workgroup_size = constants(step)["workgroup"]
    assert workgroup_size <= limits.max_workgroup_invocations
    assert workgroup_size * SHARED_BYTES_OF_INVOCATION <= limits.max_shared_memory
    assert workgroup_size & (workgroup_size - 1) == 0
    assert step.subgroup_size in {0, limits.subgroup_size}
    if constants(step).get("one_subgroup"):  # all subgroups are full, so there is one
        assert limits.tuning.is_processor
        assert step.subgroup_size == workgroup_size
    else:
        assert constants(step).get("subgroup", 0) == step.subgroup_size
    pushed = header(step)
    assert 0 < step.loop_steps <= limits.max_loop_steps
    if kernels.table()[step.kernel].family is kernels.family("argreduce_short"):
        return
    assert 1 <= pushed.lanes <= workgroup_size
    if kernels.table()[step.kernel].family is kernels.family("argreduce_periods"):
        assert pushed.lanes * pushed.groups_per_block <= workgroup_size
    else:
        assert pushed.lanes & (pushed.lanes - 1) == 0


def check_periods(made, el, input_bytes, candidates) -> None:
    first, second = map(header, made.steps)
    words = {1: 1, 2: 1, 4: 2, 8: 3}[el.nbytes]
    assert second.candidates_base == len(made.layout) + made.counters + candidates // 4
    assert first.scratch_base == second.candidates_base
    assert made.bytes_of("workspace") == 4 * (first.scratch_base + first.outputs * first.splits * words)
    assert first.outputs * first.splits == second.outputs * second.candidates
    assert first.run * el.nbytes % 16 == 0
    assert 2 * first.run <= first.stretch
    assert (
        (first.splits - 1) * first.positions_per_split
        < first.reduce_count
        <= first.splits * first.positions_per_split
    )
    assert el.nbytes >= 4 or first.positions_per_split <= NARROW_SHARE
    assert (second.splits - 1) * second.positions_per_split < second.candidates
    assert second.splits * second.positions_per_split >= second.candidates


@pytest.mark.parametrize(
    ("sizes", "strides", "axes"),
    [
        ((1 << 20, 16), (32, 1), (0, 1)),  # many short runs
        ((1 << 19, 2, 16), (64, 17, 1), (0, 1, 2)),
        ((1 << 12, 3, 1 << 10), (1 << 13, 1 << 11, 2), (0, 2)),
        ((1 << 14, 3, 1 << 8, 2), (1 << 11, 1 << 10, 4, 2), (0, 2, 3)),
        ((2,) * 20, tuple(1 << i for i in range(20)), tuple(range(20))),
        ((1 << 25,), (1,), (0,)),
        ((1 << 24,), (2,), (0,)),
    ],
)
@pytest.mark.parametrize("el", ELEMENTS[:3])
def test_long_reductions_are_split_until_lavapipe_finishes_their_loops(sizes, strides, axes, el):
    count = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
    limits = replace(LIMITS["lavapipe"], max_storage_buffer_range=1 << 32)
    steps = plan(sizes, axes, el, limits, strides=strides, count=count).steps
    assert all(0 < step.loop_steps <= limits.max_loop_steps for step in steps)


@pytest.mark.parametrize("el", ELEMENTS)
def test_repeated_long_rows_are_split_until_lavapipe_finishes_their_loops(el):
    """Many outputs of one row in memory: each workgroup has several, so its tiles must be short."""
    for outputs in (16, 64, 1000):
        (step,) = plan((outputs, 1 << 24), (1,), el, LIMITS["lavapipe"], strides=(0, 1), count=1 << 24).steps
        assert 0 < step.loop_steps <= LIMITS["lavapipe"].max_loop_steps


def test_only_a_limit_on_loop_steps_makes_more_splits():
    limited = replace(LIMITS["lavapipe"], max_storage_buffer_range=1 << 40)
    free = replace(limited, max_loop_steps=1 << 40)
    for sizes, shared in (((1 << 30,), False), ((1 << 20,), True)):
        (step,) = plan(sizes, (0,), limits=free).steps
        (kept,) = plan(sizes, (0,), limits=limited).steps
        assert (step == kept) == (step.loop_steps <= 65535) == shared
        assert kept.loop_steps <= 65535


@settings(max_examples=300)
@given(st.data(), st.sampled_from([1, 2, 4, 8, 16]))
def test_every_copy_that_fits_a_buffer_is_within_lavapipes_loop_steps(data, width):
    """Any order of dimensions, with room between runs of any length: up to the greatest buffer."""
    limits = LIMITS["lavapipe"]
    most = limits.max_storage_buffer_range // width
    sizes = [data.draw(st.sampled_from([1, 2, 3, 5, 16, 17, 1000]))]
    while math.prod(sizes) < most // 6 and len(sizes) < 25:
        sizes.append(data.draw(st.sampled_from([2, 2, 3, 5, 64, 4096])))
    sizes[-1] = max(most // math.prod(sizes[:-1]), 1)
    order = data.draw(st.permutations(range(len(sizes))))
    output_order = data.draw(st.permutations(range(len(sizes))))
    strides, output_strides = [0] * len(sizes), [0] * len(sizes)
    reach = output_reach = 1
    for axis, output_axis in zip(order, output_order, strict=True):
        strides[axis], reach = reach, reach * sizes[axis]
        output_strides[output_axis], output_reach = output_reach, output_reach * sizes[output_axis]
    if math.prod(sizes) > most:
        return
    steps = plan_slice1(
        canonical_copy(tuple(sizes), tuple(strides), tuple(output_strides)), width, reach, limits
    ).steps
    assert all(0 < step.loop_steps <= limits.max_loop_steps for step in steps)


def test_kernels_are_chosen_by_what_is_contiguous():
    def chosen(*arguments, **options):
        """The kernel's family and variant, and whether its reduction is split, as words."""
        (step,) = plan(*arguments, **options).steps
        kernel = kernels.table()[step.kernel]
        own = (value for axis, value in kernel.variant.items() if axis not in {"keys", "element_bytes"})
        return " ".join([kernel.family.name.split("_")[1], *filter(None, own), *["split"] * is_split(step)])

    u1, f2, f4, i8 = ELEMENTS
    assert chosen((1 << 20,), (0,)) == "rows subgroups split"
    assert chosen((1 << 16, 256), (1,)) == "rows subgroups"
    for el in (u1, f2, f4, i8):
        assert chosen((256, 1 << 20), (0,), el) == "columns vectors"
    assert chosen((256, (1 << 20) + 1), (0,), u1) == "columns unaligned"
    assert chosen((1 << 20, 3), (1,)) == "short single"
    assert chosen((1 << 15, 3, 10), (1,), u1) == "short packed"
    # Of rows shorter than a vector stacks have more positions, and copies of few halves fewer elements.
    assert chosen((1 << 17, 90, 4), (1,), f2) == "short packed"
    assert chosen((1 << 17, 100, 2), (1,), f2) == "joined vectors"
    assert chosen((1 << 17, 45, 5), (1,), f2) == "columns elements"
    assert chosen((1 << 15, 3, 10), (1,)) == "short single"
    assert chosen((1 << 15, 33, 10), (1,), u1) == "short walked"
    assert chosen((1 << 15, 45, 7), (1,), f2) == "columns elements"
    assert chosen((1 << 15, 99, 10), (1,), u1) == "joined unaligned"
    assert chosen((1 << 17, 49, 8), (1,), u1) == "short walked"
    assert chosen((1 << 20, 3), (1,), u1) == chosen((1 << 20, 7), (1,), f2) == "short fours"
    assert chosen((1 << 20, 8), (1,), u1) == chosen((1 << 20, 7, 2), (1,), f2).replace("packed", "single")
    assert chosen((2, 1 << 20), (0,), u1) == "short packed"
    assert chosen((9, 1 << 20), (0,), u1) == "columns vectors pairs"
    assert chosen((10, 1 << 20), (0,), u1) == chosen((9, 1 << 20), (0,), f2) == "columns vectors"
    # Rows of whole pairs of words, and of none.
    assert chosen((9, 1 << 12, 1 << 10), (0,), u1) == "columns vectors pairs"
    assert chosen((9, (1 << 20) + 8), (0,), u1) == "columns vectors pairs"
    assert chosen((9, (1 << 20) + 4), (0,), u1) == "columns unaligned pairs"
    # Long rows of large stacks take less time so than in tiles, short ones longer.
    assert chosen((1 << 13, 6, 1201), (1,), u1) == "columns unaligned pairs"
    assert chosen((1 << 13, 6, 1199), (1,), u1) == chosen((99, 6, 1201), (1,), u1) == "short packed"
    assert chosen((99, 6, 1001), (1,), u1) == "short packed"
    assert chosen((17, (1 << 20) + 1), (0,), u1) == "columns unaligned"
    assert chosen((3, 1 << 20), (0,), f4) == "columns vectors"
    assert chosen((1 << 14, 64), (0,), u1) == "columns vectors"
    assert chosen((1 << 17, 64), (0,), f4) == "columns vectors split"
    assert chosen((4, 1 << 14, 64), (0, 2)).startswith("rows subgroups")
    # Several dimensions are joined from a smaller size on, and one kernel takes the place of two.
    for shape in ((3969, 8, 32), (1 << 10, 24, 64)):
        assert chosen(shape, (0, 2), u1) == "joined vectors split"
    assert chosen((1 << 15, 2), (0,), u1).startswith("columns elements")
    assert chosen((1 << 20, 3), (1,), u1, limits=LIMITS["lavapipe"]) == "short fours"
    assert chosen((99, 17, 1 << 11), (1,), u1, limits=LIMITS["lavapipe"]) == "short packed"
    assert chosen((999, 17, 257), (1,), u1, limits=LIMITS["lavapipe"]) == "short walked_packed"
    assert chosen((1 << 12, 1 << 12), (1,), limits=LIMITS["lavapipe"]) == "rows"
    assert chosen((1024, 4096), (0,), u1, limits=LIMITS["lavapipe"]) == "columns vectors"
    assert chosen((1024, 16384), (0,), u1, limits=LIMITS["swiftshader"]) == "columns vectors"
    assert chosen((99, 16384), (0,), u1, limits=LIMITS["lavapipe"]) == "short walked_packed"
    assert chosen((256, 2048), (0,), f4, limits=LIMITS["lavapipe"]) == "columns vectors"


def test_tiles_of_single_bytes_are_larger_where_few_compete_and_where_rows_are_long():
    """Of long rows each invocation has one; stacks far apart and wider elements keep their tiles."""
    u1, f4 = ELEMENTS[0], ELEMENTS[2]

    def tile(sizes, axis, el) -> tuple[int, int]:
        """Bytes of the input in a tile, and outputs."""
        (step,) = plan(sizes, (axis,), el).steps
        assert "short" in step.kernel
        pushed = header(step)
        outputs = pushed.tile_0 * pushed.tile_1 * pushed.tile_2
        return outputs * sizes[axis] * el.nbytes, outputs

    usual = LIMITS["h200"].tuning.short.tile_bytes
    assert usual // 2 < tile((1 << 24, 3), 1, u1)[0] <= usual * 3 // 4
    assert usual // 2 < tile((1 << 24, 3, 3), 1, u1)[0] <= usual
    assert tile((1 << 24, 3), 1, f4)[0] <= usual // 2
    assert tile((2, 1 << 21), 0, u1)[0] <= usual
    assert (tile((1 << 22, 100), 1, u1)[1], tile((1 << 22, 24), 1, f4)[1]) == (64, 40)


def test_a_tile_has_a_whole_unaligned_stack_of_narrow_rows_or_none_of_it():
    """Columns read halves of which a tile has no room for; of bytes, tiles twice as large have some more."""
    u1, f2, *_ = ELEMENTS

    def columns_in_tile(count, row, el) -> int:
        """Columns of a tile, of all its stacks; 0: they are read where they are."""
        (step,) = plan(((256 << 20) // (count * row * el.nbytes), count, row), (1,), el).steps
        if "columns" in step.kernel:
            return 0
        assert "short_packed" in step.kernel
        pushed = header(step)
        return pushed.tile_0 * pushed.tile_1 * pushed.tile_2

    for count, row, el in ((8, 257, f2), (7, 513, f2), (4, 1001, f2), (8, 1001, u1), (13, 513, u1)):
        assert columns_in_tile(count, row, el) == row
    for count, row in ((8, 513), (5, 1001), (3, 2117)):
        assert columns_in_tile(count, row, f2) == 0
    assert columns_in_tile(20, 513, u1) == columns_in_tile(12, 1001, u1) + 513 - 1001 == 513
    assert columns_in_tile(32, 513, u1) == columns_in_tile(6, 2117, u1) == 0
    # Tiles of bytes are half as large again where a few compete.
    assert columns_in_tile(2, 513, u1) == 2 * 513
    assert columns_in_tile(2, 801, u1) == 801
    # Those of longer rows are loaded in pairs of words.
    assert columns_in_tile(2, 1199, u1) == 1199
    assert columns_in_tile(2, 1201, u1) == 0


@pytest.mark.parametrize(
    ("el", "count", "row", "in_tile"),
    [
        (ELEMENTS[0], 20, 150, True),
        (ELEMENTS[0], 13, 1001, True),
        (ELEMENTS[0], 13, 1027, False),
        (ELEMENTS[0], 21, 150, False),
        (ELEMENTS[1], 2, 50, True),
        (ELEMENTS[1], 5, 450, True),
        (ELEMENTS[1], 11, 450, False),
        (ELEMENTS[1], 3, 513, False),
        (ELEMENTS[1], 20, 13, True),
        (ELEMENTS[1], 21, 13, False),
    ],
)
def test_short_unaligned_rows_with_others_between_are_tiles(el, count, row, in_tile):
    """Columns would store their indices one by one; they are faster where more or longer rows compete."""
    between = 63
    outer = (256 << 20) // (count * between * row * el.nbytes)
    # Outputs have what lies between before what is outermost.
    sizes, strides = (between, outer, count, row), (row, count * between * row, between * row, 1)
    (step,) = plan(sizes, (2,), el, strides=strides).steps
    assert ("short_packed" in step.kernel) == in_tile
    assert in_tile or "columns_unaligned" in step.kernel


def test_rows_of_some_vectors_stay_in_registers():
    """Of single bytes, halves and words, from where an invocation or two keep one; halves are floats."""
    u1, f2, f4, i8 = ELEMENTS
    i2 = kernels.elements()["int16"]

    def is_tile(row_bytes, el) -> bool:
        (step,) = plan((1 << 20, row_bytes // el.nbytes), (1,), el).steps
        assert "short" in step.kernel or "rows" in step.kernel
        return "short" in step.kernel

    expected = {u1: (64, 98), f2: (64, 128), f4: (100, 128), i2: (128, 128), i8: (128, 128)}
    for el, (first, end) in expected.items():
        for row_bytes in range(48, 144, el.nbytes):
            expects_tile = row_bytes < first or end <= row_bytes < 128
            assert is_tile(row_bytes, el) == expects_tile, (el.name, row_bytes)


def test_aligned_stacks_are_read_as_columns():
    """Where rows are long, or have few halves. Small inputs and unaligned rows take tiles."""
    u1, f2, f4, i8 = ELEMENTS

    def is_tile(count, row_bytes, el, total=256 << 20, **options) -> bool:
        sizes = (total // count // row_bytes, count, row_bytes // el.nbytes)
        (step,) = plan(sizes, (1,), el, **options).steps
        assert "short" in step.kernel or "columns" in step.kernel
        return "short" in step.kernel

    for el, count, least in ((u1, 8, 64), (f2, 8, 64), (f4, 8, 128)):
        assert not is_tile(count, least, el)
        assert is_tile(count, least // 2, el)
        assert is_tile(count, least + el.nbytes, el)
        assert is_tile(count, least, el, 4 << 20)
        assert is_tile(count, least, el, 64 << 20, limits=LIMITS["lavapipe"])
    assert is_tile(3, 64, u1)
    assert not is_tile(4, 64, u1)
    assert is_tile(5, 32, f2)
    assert not is_tile(4, 32, f2)
    assert is_tile(2, 128, f4)
    assert not is_tile(3, 128, f4)
    assert is_tile(8, 128, i8)


def test_packed_stacks_that_would_meet_in_few_banks_leave_words_out():
    def is_padded(count, row, el) -> bool:
        (step,) = plan((1 << 20, count, row), (1,), el).steps
        kernel = kernels.table()[step.kernel]
        assert kernel.variant["columns"] == "packed"
        return bool(kernel.named(step.constants)["padded"])

    u1, f2, *_ = ELEMENTS
    assert is_padded(16, 4, u1)
    assert is_padded(12, 20, u1)
    assert is_padded(16, 2, f2)
    assert not is_padded(2, 4, u1)  # two positions
    assert not is_padded(12, 5, u1)  # rows start anywhere
    assert is_padded(32, 5, u1)  # every 160 bytes
    assert not is_padded(7, 3, f2)
    assert is_padded(16, 3, f2)


def test_few_narrow_elements_along_several_dimensions_are_walked_in_tiles():
    """On GPUs; wide ones take less time as single loads."""
    inner = (1 << 17, 5, 4), (1, 2), (20, 1, 5)
    apart = (3, 1 << 17, 5), (0, 2), (5 << 17, 5, 1)
    for sizes, axes, strides in (inner, apart):
        for el in ELEMENTS:
            (step,) = plan(sizes, axes, el, strides=strides).steps
            assert ("walked" in step.kernel) == (el.nbytes < 4)
            if el.nbytes < 4:
                assert not constants(step)["direct"]
                assert constants(step)["positions_apart"] == (axes == (0, 2))
            (step,) = plan(sizes, axes, el, LIMITS["lavapipe"], strides).steps
            assert "walked" in step.kernel
            assert constants(step)["direct"]


@pytest.mark.parametrize(("name", "vectors", "lanes", "kept"), [
    ("float32", 32, 8, 4), ("float16", 64, 16, 4), ("float32", 96, 16, 6), ("float32", 128, 32, 4),
    ("float16", 96, 16, 6), ("uint8", 128, 16, 8), ("int64", 96, 32, 3), ("uint8", 65, 16, 5),
    ("bfloat16", 65, 4, 0), ("float16", 81, 16, 6), ("float16", 136, 8, 0), ("uint8", 136, 32, 5),
    ("float16", 192, 16, 0),
])  # fmt: skip
def test_rows_of_whole_vectors_are_kept_by_few_invocations_or_processed_in_many_steps(
    name, vectors, lanes, kept
):
    """In many steps are narrow floats where as many as keep them load much past their end, or are many."""
    el = kernels.elements()[name]
    (step,) = plan((1 << 17, vectors * 16 // el.nbytes), (1,), el).steps
    assert step.kernel.startswith("argreduce_rows_subgroups")
    assert (header(step).lanes, constants(step)["kept_vectors"]) == (lanes, kept)


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize(("outputs", "lanes"), [(3, 8), (4, 2), (5, 4), (6, 2), (31, 2), (33, 1), (201, 1)])
def test_runs_of_a_processor_have_the_fewest_invocations_in_the_order_of_positions(driver, outputs, lanes):
    """Splits fill the device. As many outputs as a workgroup has invocations would take a round each."""
    (step,) = plan((300, outputs, 1027), (0, 2), kernels.elements()["uint8"], LIMITS[driver]).steps
    assert step.kernel == "argreduce_rows_integer_1_bytes"
    assert header(step).lanes == lanes


@pytest.mark.parametrize(("run", "outputs", "lanes"), [
    (301, 5, 2), (301, 21, 1), (1501, 5, 2), (2801, 21, 1), (3101, 21, 8),
])  # fmt: skip
def test_short_runs_of_a_processor_have_the_fewest_invocations_out_of_memory_order_too(run, outputs, lanes):
    sizes, strides = (33, run, 40, outputs), (40 * outputs * run, 1, outputs * run, run)
    step, *_ = plan(sizes, (0, 1, 2), kernels.elements()["uint8"], LIMITS["lavapipe"], strides).steps
    assert step.kernel == "argreduce_rows_memory_order_integer_1_bytes"
    assert header(step).lanes == lanes


@pytest.mark.parametrize(("name", "size", "splits"), [
    ("float32", 1 << 18, 64), ("float32", 1 << 20, 128), ("float32", 1 << 21, 512), ("uint8", 3 << 20, 96),
    ("int64", 1 << 19, 128), ("float16", 1 << 21, 128),
])  # fmt: skip
def test_a_subgroup_combines_as_many_splits_as_it_loads_candidates_at_once(name, size, splits):
    """Four each of 32 invocations: tiles are made larger for it, while an invocation keeps their vectors."""
    (step,) = plan((size,), (0,), kernels.elements()[name]).steps
    assert header(step).splits == splits
    assert header(step).tile_vectors <= 8 * header(step).lanes


@pytest.mark.parametrize("el", ELEMENTS)
@pytest.mark.parametrize("device", LIMITS)
def test_rows_of_a_window_are_read_in_vectors_by_gpus(device, el):
    """Where gaps between short rows are too wide for a tile to load them, too."""
    row, pitch = 32 // el.nbytes, 1024 // el.nbytes
    layout = canonical_reduce((1 << 16, row), (pitch, 1), (1,), (1, 1), take_last=False, input_base=1)
    limits = LIMITS[device]
    (step,) = plan_argreduce(
        layout, Order(el.name), pitch << 16, limits, index_bytes=4, with_values=False
    ).steps
    in_rows = kernels.table()[step.kernel].family.name == "argreduce_rows"
    assert in_rows == (not limits.tuning.is_processor)


@pytest.mark.parametrize(("name", "sizes", "strides", "axes", "kernel"), [
    # Few positions with a step, between the outputs and rows apart; more of them are read one by one.
    ("uint8", (1 << 24, 4), (8, 2), (1,), "short_walked"),
    ("float16", (3, 1 << 23), (1 << 25, 2), (0,), "short_walked"),
    ("float32", (1 << 22, 5), (32, 3), (1,), "short_walked"),
    ("uint8", (20, 1 << 23), (1 << 24, 2), (0,), "columns_elements"),
    ("float32", (1 << 22, 6), (40, 3), (1,), "columns_elements"),
    # Crops, the nearest outputs of which lie far apart; larger ones are rows.
    ("uint8", (1 << 19, 7, 9), (1024, 20, 1), (1, 2), "short_walked"),
    ("uint8", (1 << 14, 83, 44), (31872, 128, 1), (1, 2), "rows"),
    # Many rows of few outputs with a step; wide elements are loaded as fast one by one.
    ("uint8", (600_000, 153), (513, 2), (0,), "periods"),
    ("uint8", (600, 153), (513_000, 2), (0,), "columns_elements"),
    ("float32", (600_000, 153), (513, 2), (0,), "columns_elements"),
    ("int64", (700_000, 8, 5), (96, 11, 2), (0, 1, 2), "periods"),
    ("float32", (32_000, 195, 2), (2052, 4, 1), (0, 1), "periods"),
])  # fmt: skip
def test_windows_are_read_by_the_kernels_that_were_fastest(name, sizes, strides, axes, kernel):
    count = extent(sizes, strides)[1]
    (step, *_) = plan(sizes, axes, kernels.elements()[name], strides=strides, count=count).steps
    assert step.kernel.startswith(f"argreduce_{kernel}_")


@pytest.mark.parametrize("tie", ["first", "last"])
@pytest.mark.parametrize("flipped", [False, True])
def test_memory_is_read_from_the_end_whose_elements_win_among_equals(tie, flipped):
    sizes, strides = (4096, 8192), (1, -4096 if flipped else 4096)
    layout = canonical_reduce(sizes, strides, (0, 1), (0, 0), take_last=tie == "last")
    order = Order("float32", take_last=tie == "last")
    (step,) = plan_argreduce(layout, order, 1 << 25, LIMITS["h200"], index_bytes=8, with_values=False).steps
    assert "memory_order" in step.kernel
    assert constants(step)["runs_are_planes"]
    assert constants(step)["reads_backwards"] == (flipped != (tie == "last"))


def test_narrow_elements_of_very_short_rows_of_outputs_are_walked_in_tiles():
    """Single bytes of up to 160 positions; two bytes only where a cache has few lines for them."""
    u1, f2, f4, _ = ELEMENTS

    def plan_of(el, positions: int, row: int):
        return plan(((1 << 28) // (positions * row), positions, row), (1,), el).steps[0].kernel

    for positions, row in ((40, 2), (64, 7), (40, 37), (64, 20)):
        assert "walked" in plan_of(u1, positions, row)
    for positions, row in ((40, 53), (170, 3), (140, 24)):
        assert "walked" not in plan_of(u1, positions, row)
    assert "walked" in plan_of(f2, 64, 3)
    for el, positions, row in ((f2, 50, 2), (f2, 64, 5), (f4, 64, 2)):
        assert "walked" not in plan_of(el, positions, row)


def test_wide_elements_of_many_unaligned_rows_are_read_as_periods():
    """Of large arrays; not long rows, not few, and no floats of 8 bytes, whose comparisons take the time."""
    f4, i8, f8 = ELEMENTS[2], ELEMENTS[3], kernels.elements()["float64"]

    def family(el, *sizes: int) -> str:
        return first_family(plan(sizes, (len(sizes) - 2,), el))

    for el, sizes in (
        (f4, (1 << 19, 235)), (i8, (1 << 17, 563)), (i8, (4, 2877, 5145)), (f4, (2, 1 << 18, 999)),
        (i8, (3644, 2046, 9)),
    ):  # fmt: skip
        assert family(el, *sizes) == "periods"
    for el, sizes in (
        (f8, (1 << 17, 563)), (f4, (1 << 17, 236)), (f4, (256, 16383)), (i8, (300, 99999)),
        (f4, (7288, 2046, 9)),
    ):  # fmt: skip
        assert family(el, *sizes) in ("columns", "joined")
    for sizes in ((4096, 16383), (1 << 15, 235)):
        assert family(f4, *sizes) == "phases"


@pytest.mark.parametrize(
    ("element", "rows", "columns", "family"),
    [
        (2, 31, 20, "columns"),  # 20 outputs of a tile for 64 invocations
        (2, 21, 20, "short"),  # 40 outputs
        (2, 31, 16, "short"),  # 32, of rows of 64 bytes
        (2, 31, 32, "columns"),  # 32, of aligned rows of 128 bytes
        (2, 31, 30, "short"),  # 30, and rows are not aligned
        (3, 31, 9, "columns"),
        (3, 5, 9, "short"),
        (3, 31, 5, "columns"),
        (3, 25, 5, "short"),
    ],
)
def test_stacks_whose_tiles_leave_most_invocations_idle_are_read_as_columns(element, rows, columns, family):
    def family_of(mib: int, limits=LIMITS["h200"]) -> str:
        el = ELEMENTS[element]
        sizes = ((mib << 20) // (rows * columns * el.nbytes), rows, columns)
        return first_family(plan(sizes, (1,), el, limits))

    assert family_of(512) == family
    if rows * columns < 900:
        assert family_of(4) == "short"  # in small inputs tiles are small for another reason
    # lavapipe reads near aligned rows in vectors, given enough positions.
    in_vectors = element == 2 and rows > 28 and columns % 4 == 0
    assert family_of(64, LIMITS["lavapipe"]) == ("columns" if in_vectors else "short")


@pytest.mark.parametrize(
    ("element", "sizes", "family"),
    [
        (2, (256, 2048), "columns"),
        (2, (28, 8192), "columns"),
        (2, (27, 8192), "short"),  # few positions
        (2, (512, 9000), "columns"),  # 17 MiB
        (2, (1024, 8192), "columns"),  # the same places of a cache
        (2, (233017, 16), "columns"),  # rows of one line
        (3, (100, 4096), "columns"),
        (3, (99, 4096), "short"),
        (0, (100, 16384), "columns"),
        (0, (99, 16384), "short"),
        (2, (256, 2047), "short"),  # not aligned
        (2, (256, 8191), "short"),
        (2, (299, 9001), "short"),
        (2, (300, 9001), "periods"),  # more lines than a cache holds
        (0, (1100, 16383), "short"),  # bytes share lines
    ],
)
def test_a_processor_reads_aligned_columns_in_vectors_and_others_in_periods_or_walks(element, sizes, family):
    assert first_family(plan(sizes, (0,), ELEMENTS[element], LIMITS["lavapipe"])) == family


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("float32", (8388608, 16)),
        ("int8", (1109237, 484)),
        ("uint8", (268396, 2000)),
        ("uint8", (16, 16384, 2048)),
        ("int8", (32768, 2048)),
    ],
)
def test_where_a_wave_takes_more_splits_than_are_allowed_there_are_as_many_as_are(name, sizes):
    """And not four, which would leave most of a device idle (0.02 of the read rate)."""
    first, *_ = plan(sizes, (len(sizes) - 2,), kernels.elements()[name]).steps
    assert first.workgroups >= 256


@pytest.mark.parametrize("el", ELEMENTS)
def test_no_large_matrix_leaves_most_of_a_gpu_idle(el):
    """Nor a stack of them: one of forty ran in 16 workgroups or fewer."""
    sides = (3, 8, 16, 21, 64, 128, 196, 512, 1000, 1024, 2048, 8192, 32768, 50257, 65536, 262144, 1 << 20)
    for rows, columns in itertools.product(sides, repeat=2):
        if 24 << 20 <= rows * columns * el.nbytes <= 1 << 30:
            for sizes, axes in (
                ((rows, columns), (0,)),
                ((rows, columns), (1,)),
                ((rows, 4, columns // 4), (0, 2)),
                ((rows // 2, 2, columns), (0, 1)),
            ):
                if all(sizes):
                    first, *_ = plan(sizes, axes, el).steps
                    assert first.workgroups >= 100, (sizes, axes, first.kernel)


@pytest.mark.parametrize(("innermost", "whole"), [(16, True), (3, True), (150, False)])
def test_lanes_take_short_innermost_dimensions_whole(innermost, whole):
    """So that each has several loads under way, and divides once for them."""
    sizes, strides = (73, 7, innermost, 4096), (7 * innermost * 4096, 4096, 7 * 4096, 1)
    (step,) = plan(sizes, (0, 1, 2), strides=strides).steps
    assert step.kernel.startswith("argreduce_columns")
    assert constants(step)["whole_segments"] == whole


@pytest.mark.parametrize(
    ("driver", "driver_info", "mib", "fewest"),
    [
        ("llvmpipe", "Mesa 22.3.6 (LLVM 15.0.6)", 32, (100, 72, 28, 100)),
        ("llvmpipe", "Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)", 32, (20, 16, 20, 24)),
        ("SwiftShader driver", "", 4, (96, 128, 48, 65)),
        ("SwiftShader driver", "", 32, (65, 65, 48, 65)),
    ],
)
def test_software_drivers_read_far_rows_in_vectors(driver, driver_info, mib, fewest):
    """Of 32 MiB, which no cache holds, and of 4; with few positions, or unaligned rows, otherwise."""
    limits = replace(LIMITS["lavapipe"], tuning=tuning_for("software", driver, driver_info))
    for el, positions in zip(ELEMENTS, fewest, strict=True):
        row = 8192 // el.nbytes

        def are_vectors(positions: int, row: int, el=el) -> bool:
            sizes = ((mib << 20) // (positions * row * el.nbytes), positions, row)
            return plan(sizes, (1,), el, limits).steps[0].kernel.startswith("argreduce_columns_vectors")

        assert are_vectors(positions, row)
        assert are_vectors(300, row)
        assert not are_vectors(positions - 1, row)
        assert not are_vectors(300, row - 1)


@pytest.mark.parametrize("device", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize(("innermost", "whole"), [(9, True), (64, True), (65, False)])
def test_lanes_of_a_processor_take_short_innermost_dimensions_whole(device, innermost, whole):
    """All of a window of bytes with a step: a place along the other dimension is found by divisions."""
    sizes, strides = (4000, innermost), (3 * innermost, 2)
    (step,) = plan(sizes, (0, 1), ELEMENTS[0], LIMITS[device], strides=strides, count=12000 * innermost).steps
    assert step.kernel.startswith("argreduce_columns_elements")
    assert header(step).lanes > 1
    assert constants(step)["whole_segments"] == whole


def test_columns_whose_outputs_lie_in_another_order_need_more_positions():
    """Of narrow elements: a vector has many, and each is written by itself."""
    limits = replace(LIMITS["lavapipe"], tuning=tuning_for("software", "llvmpipe", "Mesa 25.0.7"))

    def family(el, positions: int) -> str:
        sizes, rows, columns = (64, 1024, positions), 1024, 64
        strides = (1, columns, rows * columns)
        return first_family(plan(sizes, (2,), el, limits, strides=strides, count=math.prod(sizes)))

    for el, fewest in zip(ELEMENTS, (80, 64, 20, 24), strict=True):
        assert (family(el, fewest), family(el, fewest - 1)) == ("columns", "short")


@pytest.mark.parametrize(
    ("element", "positions", "row", "rows", "apart"),
    [
        (1, 32, 9, 1001, True),  # rows of two vectors in part
        (1, 31, 9, 1001, False),  # few positions
        (1, 32, 17, 1001, False),
        (1, 32, 17, 1000, True),  # rows that are aligned together
        (0, 64, 31, 1001, True),
        (0, 64, 33, 1008, False),  # bytes
        (2, 64, 5, 1001, False),  # words
        (3, 64, 3, 1001, False),
        (3, 64, 3, 1000, True),
        (3, 64, 4, 1000, False),  # aligned rows
    ],
)
def test_unaligned_rows_are_loaded_as_the_longer_ones_that_they_make_up(element, positions, row, rows, apart):
    """Where their outputs lie apart."""
    el, sizes = ELEMENTS[element], (row, positions, rows)
    layout = canonical_reduce(sizes, (1, row * rows, row), (1,), (rows, 0, 1), take_last=False)
    order, input_bytes = Order(el.name), math.prod(sizes) * el.nbytes
    division = column_division(Reduction(layout, order, input_bytes, LIMITS["h200"]), with_values=False)
    assert division.variant["columns_apart"] == apart
    assert division.run == (row * rows if apart else row)


def test_a_processor_divides_no_columns_that_nearly_fill_it():
    """30 workgroups where 32 do: to divide each of them takes longer."""
    limits = LIMITS["lavapipe"]
    (step,) = plan((10, 1000, 384), (1,), ELEMENTS[0], limits).steps
    assert step.kernel.startswith("argreduce_columns_vectors")
    assert (step.workgroups, header(step).splits) == (30, 1)
    (step,) = plan((2, 4000, 384), (1,), ELEMENTS[0], limits).steps
    assert header(step).splits > 1


@pytest.mark.parametrize("device", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize(("pitch", "axis"), [(1, 0), (32, 0)], ids=["rows", "columns"])
def test_a_processor_divides_a_reduction_among_workgroups_that_have_enough_to_do(device, pitch, axis):
    limits = LIMITS[device]
    least = limits.tuning.split_bytes
    for size, most in ((least // 8, 1), (least, 1), (3 * least, 3), (64 * least, 64)):
        (first, *_) = plan((size // 4 // pitch, pitch), (axis,), ELEMENTS[2], limits).steps
        assert first.workgroups <= most
        unbounded = replace(limits, tuning=replace(limits.tuning, split_bytes=0))
        (first, *_) = plan((size // 4 // pitch, pitch), (axis,), ELEMENTS[2], unbounded).steps
        assert first.workgroups > 1 or size < least


def test_small_inputs_of_a_gpu_are_divided_among_fewer_workgroups():
    """Each has enough to read for what it costs to start it, and for the exchange of what its lanes found."""
    u1, f2, f4, i8 = ELEMENTS
    tuning = LIMITS["h200"].tuning
    unbounded = replace(tuning, target_workgroup_bytes=0, columns_workgroup_bytes=0)
    many = replace(LIMITS["h200"], tuning=unbounded)

    def workgroups(sizes, axes, el) -> tuple[int, int]:
        """As planned, and where workgroups may have any number of bytes."""
        found = [plan(sizes, axes, el, limits).steps[0] for limits in (LIMITS["h200"], many)]
        assert found[0].kernel == found[1].kernel
        return found[0].workgroups, found[1].workgroups

    small = [
        ((6000, 1027), (1,), f2),  # rows: fewer invocations share one
        ((200_000, 5), (1,), f2),  # tiles of short rows, and of short stacks
        ((30_000, 9, 7), (1,), u1),
        ((20_000, 50, 5), (1,), u1),  # walks in tiles
    ]
    for sizes, axes, el in small:
        few, all_of_them = workgroups(sizes, axes, el)
        assert few < all_of_them * 3 // 4, sizes
    for sizes, axes, el in (
        ((1693, 80000), (1,), f4),
        ((1 << 16, 2000), (1,), i8),
    ):
        few, all_of_them = workgroups(sizes, axes, el)
        assert few == all_of_them, sizes


@pytest.mark.parametrize(
    ("sizes", "axes", "el", "kernel"),
    [
        ((4096, 8), (1,), "uint8", "short"),
        ((10000, 3), (1,), "float16", "short"),
        ((1000, 3), (1,), "uint8", "columns"),  # 3 KiB
        ((694, 80), (1,), "uint8", "rows"),  # long rows
        ((8192, 2, 2, 2), (0, 2, 3), "float16", "periods"),
        ((2, 1577, 12), (0, 1), "float32", "columns"),  # in vectors
    ],
)
@pytest.mark.parametrize("device", ["lavapipe", "swiftshader"])
def test_small_inputs_of_a_processor_are_not_read_element_by_element(sizes, axes, el, kernel, device):
    """Of 4 KiB and more short rows take a third of the time so; of 64 KiB and more periods do."""
    (step, *_) = plan(sizes, axes, kernels.elements()[el], LIMITS[device]).steps
    assert step.kernel.startswith(f"argreduce_{kernel}"), step.kernel


def test_many_rows_of_narrow_elements_are_read_in_periods_if_an_input_is_small_too():
    def is_periods(sizes, el, limits=LIMITS["h200"], **options) -> bool:
        return "periods" in plan(sizes, (0,), el, limits, **options).steps[0].kernel

    u1, f2, f4, _ = ELEMENTS
    assert is_periods((4086, 6159), u1)
    assert is_periods((32768, 512), u1)
    assert is_periods((7928, 529), f2)
    assert not is_periods((549, 7639), u1)  # few rows
    assert not is_periods((3000, 1000), u1)  # a small array
    assert is_periods((1000, 1001 * 40), u1)  # a large one
    assert not is_periods((32768, 512), f4)
    lavapipe = LIMITS["lavapipe"]
    assert not is_periods((32768, 64), u1, lavapipe)
    assert is_periods((32768, 65), u1, lavapipe)  # several lines, which are loaded in order


def test_kernels_are_told_what_is_special_in_their_elements():
    for name, element in kernels.elements().items():
        (step,) = plan((9, 100), (1,), element, omit_nan=True).steps
        kernel, told = kernels.table()[step.kernel], constants(step)
        assert kernel.variant["keys"] == (
            "float" if "float" in name else "bool" if name == "bool" else "integer"
        )
        assert kernel.family.axes["element_bytes"][kernel.variant["element_bytes"]] == element.nbytes
        nans = told.get("nan_patterns_high", 0) << 32 | told.get("nan_patterns_low", 0)
        assert nans == element.nan_patterns
        assert told.get("omit_nan", 0) == ("float" in name)
        assert told.get("signed_elements", 0) == name.startswith("int")


def test_pipelines_are_shared_by_calls_that_differ_in_shape_only():
    constants = {plan((rows, 1000), (1,)).steps[0].constants for rows in (1, 7, 2000)}
    assert len(constants) == 1
    ints = {
        plan((9, 100), (1,), kernels.elements()["int32"], omit_nan=omit).steps[0].constants for omit in (0, 1)
    }
    assert len(ints) == 1
    floats = {plan((9, 100), (1,), omit_nan=omit).steps[0].constants for omit in (False, True)}
    assert len(floats) == 2


def test_layouts_that_do_not_fit_into_push_constants_go_into_the_workspace():
    sizes = (2, 3) * 5
    made = plan(sizes, tuple(range(0, 10, 2)))
    assert len(made.layout) == 5 * 3 + 5 * 4
    assert made.bytes_of("workspace") >= 4 * len(made.layout)
    assert not plan((9, 9, 9), (1,)).layout


def test_counts_beyond_the_kernels_are_refused_with_numbers():
    with pytest.raises(ValueError, match=rf"{1 << 34} overlapping elements compete for one output"):
        plan((1 << 17, 1 << 17), (0, 1), strides=(1, 1), count=1 << 18)
    with pytest.raises(ValueError, match=rf"{1 << 32} outputs in one call .*fewer than {1 << 31}"):
        plan((1 << 16, 1 << 16, 2), (2,), strides=(1, 1, 1), count=1 << 18, index_bytes=0)
    copy = canonical_copy((1 << 31, 4), (0, 0), (4, 1))
    with pytest.raises(MemoryError, match=rf"the output spans {1 << 33} bytes"):
        plan_slice1(copy, 1, 10, LIMITS["h200"])


def test_the_smallest_devices_get_smaller_workgroups():
    assert plan((1000, 1000), (1,), limits=LIMITS["least"]).steps[0].constants[0] == 128
    odd = DeviceLimits(TUNING["discrete"], 1 << 27, 65535, 200)
    assert odd.workgroup_size == 128
    assert replace(odd, max_shared_memory=4 << 10).workgroup_size == 64


def test_every_device_class_has_a_tuning():
    for kind in ("discrete", "integrated", "virtual", "software", "other"):
        tuning = tuning_for(kind)
        assert tuning.workgroup_size & (tuning.workgroup_size - 1) == 0
        assert tuning.tile_bytes % 16 == 0
