"""Which reductions are walked as repeated blocks because positions lie in another order than memory."""

from __future__ import annotations

import math
from random import Random

import pytest
from planned_reductions import PROCESSOR, WALKED, families_of, steps_of
from plans import GPU_LIMITS

from vkdml.plan import kernels
from vkdml.plan.layout import canonical_reduce
from vkdml.plan.order import Order
from vkdml.plan.reduce.argreduce import plan_argreduce


@pytest.mark.parametrize(
    ("memory", "order", "axes"),
    [
        ((24403223, 11), (1, 0), (0, 1)),
        ((4, 6398625, 9), (2, 0, 1), (0, 2)),
        ((89, 50257, 6, 10), (0, 3, 2, 1), (0, 1, 2, 3)),
    ],
)
def test_narrow_elements_in_short_rows_out_of_order(memory, order, axes):
    assert families_of(memory, order, axes, "float16") == WALKED
    # Of wide elements few are equal, so that few positions are looked for.
    assert families_of(memory, order, axes, "float32") == ["rows"]
    # And where positions lie as memory does, they are not looked for, either.
    assert families_of(memory, tuple(range(len(memory))), tuple(range(len(memory))), "float16") == ["rows"]


def test_long_rows_are_read_as_rows():
    assert families_of((200000, 700), (1, 0), (0, 1), "float16") == ["rows"]


def test_columns_that_would_jump_along_the_innermost_positions():
    memory = (36, 7217, 513)
    assert families_of(memory, (2, 1, 0), (1, 2), "float32") == WALKED
    assert families_of((36, 7217, 512), (2, 0, 1), (1, 2), "float32") == ["columns"]


def test_what_leaves_too_many_candidates_is_read_as_columns():
    assert families_of((36, 40, 90000), (2, 1, 0), (1, 2), "float32") == ["columns"]


def test_rows_whose_vectors_lie_within_are_read_as_rows():
    assert families_of((2048, 4096, 24), (2, 1, 0), (0, 1, 2), "bfloat16") == ["rows"]
    assert families_of((2048, 4096, 25), (2, 1, 0), (0, 1, 2), "bfloat16") == WALKED
    # The third dimension decides: twice as long rows are walked.
    assert families_of((2048 * 4096, 25), (1, 0), (0, 1), "bfloat16") == ["rows"]


def test_rows_along_the_innermost_positions_are_read_as_rows():
    assert families_of((1000, 64, 300, 7), (1, 2, 0, 3), (0, 1, 2, 3), "bfloat16") == ["rows"]


def test_small_inputs_have_one_kernel():
    assert families_of((300000, 11), (1, 0), (0, 1), "float16") == ["rows"]


@pytest.mark.parametrize(
    ("memory", "order", "narrow", "wide"),
    [
        ((300000, 11), (1, 0), "periods", "periods"),
        ((300000, 16), (1, 0), "periods", "periods"),  # whole vectors, too
        ((20000, 577), (1, 0), "periods", "periods"),  # rows of any length
        ((2, 50257, 11, 11), (2, 1, 0, 3), "periods", "periods"),  # rows lie as positions do, planes do not
        ((150, 30, 400), (2, 1, 0), "periods", "periods"),  # 300 and 600 bytes for each column
        ((60, 90, 97), (2, 1, 0), "rows", "rows"),
        ((50257, 11, 11), (0, 1, 2), "rows", "rows"),
        ((11000, 11), (1, 0), "rows", "periods"),  # too small
        ((5500, 11), (1, 0), "rows", "rows"),
    ],
)
def test_processors_walk_where_each_column_has_many_bytes(memory, order, narrow, wide):
    axes = tuple(range(len(memory)))
    assert families_of(memory, order, axes, "bfloat16", PROCESSOR)[0] == narrow
    assert families_of(memory, order, axes, "float32", PROCESSOR)[0] == wide


@pytest.mark.parametrize(
    ("memory", "name", "family"),
    [
        ((4096, 1024, 2), "float16", "periods"),
        ((65536, 64, 2), "float16", "short"),  # few groups
        ((1118, 2500, 3), "float16", "periods"),
        ((5461, 512, 3), "float16", "short"),
        ((390, 1024, 21), "float16", "short"),  # wide groups
        ((4096, 2048, 2), "int8", "periods"),
        ((838, 5000, 4), "int8", "short"),  # whole words
        ((1118, 5000, 3), "int8", "periods"),
        ((2236, 2500, 3), "int8", "short"),
    ],
)
def test_processors_read_periods_where_walks_out_of_order_are_long(memory, name, family):
    assert families_of(memory, (0, 2, 1), (1, 2), name, PROCESSOR)[0] == family


@pytest.mark.parametrize(
    ("memory", "order", "name", "family"),
    [
        ((6627, 313, 2, 2), (0, 3, 2, 1), "float16", "periods"),
        ((6627, 313, 2, 2), (0, 1, 3, 2), "float16", "periods"),
        ((60000, 35, 2, 2), (0, 1, 3, 2), "float16", "short"),  # few positions of each column
        ((1562, 238, 2, 11), (0, 1, 3, 2), "float16", "short"),  # wide groups
        ((3837, 119, 9, 2), (0, 1, 3, 2), "float16", "short"),  # periods would start anywhere
        ((7299, 513, 2, 2), (0, 3, 2, 1), "int8", "periods"),
        ((2000, 1000, 2, 4), (0, 3, 2, 1), "int8", "short"),  # whole words
    ],
)
def test_processors_read_periods_where_walks_in_planes_are_long(memory, order, name, family):
    assert families_of(memory, order, (1, 2, 3), name, PROCESSOR)[0] == family


@pytest.mark.parametrize(
    ("memory", "name", "family"),
    [
        ((739, 11351), "float16", "periods"),  # every second row starts within a word
        ((660, 12711), "float16", "short"),
        ((739, 11350), "float16", "short"),
        ((739, 11351), "int8", "short"),
    ],
)
def test_processors_read_periods_where_walks_load_words_twice(memory, name, family):
    assert families_of(memory, (0, 1), (0,), name, PROCESSOR)[0] == family


@pytest.mark.parametrize(
    ("memory", "name", "family"),
    [
        ((109, 150, 512), "float16", "rows"),
        ((109, 150, 256), "float32", "rows"),
        ((436, 150, 128), "float16", "periods"),  # many positions for each column
        ((218, 300, 120), "float16", "short"),  # short rows
        ((128, 64, 256), "int64", "periods"),
    ],
)
def test_processors_read_rows_where_columns_have_few_positions(memory, name, family):
    assert families_of(memory, range(3), (0, 2), name, PROCESSOR)[0] == family


def test_processors_plan_reductions_of_one_element():
    assert families_of((1 << 20, 1), (0, 1), (1,), "int8", PROCESSOR) == ["short"]


@pytest.mark.parametrize(
    ("memory", "axes", "name", "family"),
    [
        ((300, 900, 68), (0, 2), "int8", "short"),  # runs of more than a line
        ((50257, 41), (1,), "int64", "short"),
        ((20257, 128), (1,), "int64", "short"),
        ((300, 8192), (1,), "int64", "rows"),  # long ones
        ((100, 180, 6, 12), (1, 2), "float16", "short"),  # 1080 runs that share lines
        ((100, 900, 6, 12), (1, 2), "float16", "periods"),  # more lines than a cache holds
        ((2, 4000, 331, 12), (1,), "int8", "periods"),
        ((16, 1067, 331), (1,), "int8", "short"),
        ((16, 3167, 331), (1,), "int8", "periods"),
        ((3, 4097, 511), (1,), "int8", "columns"),  # 6 MiB less 10 KiB, which stay in a cache
        ((3, 4107, 511), (1,), "int8", "periods"),  # unaligned rows
        ((256, 714, 6), (0, 2), "int8", "short"),
        ((514, 712, 6), (0, 2), "int8", "periods"),
        ((257, 714, 6), (0, 2), "int8", "short"),  # few bytes for each column
        ((199, 1150, 8), (1,), "int64", "columns"),  # aligned rows of a line
        ((199, 1150, 7), (1,), "int64", "short"),  # many lines, but of one in each row: no periods instead
        ((6000, 6, 32), (0, 2), "int8", "periods"),
        ((300, 900, 63), (0, 2), "float16", "short"),
        ((2049, 714, 6, 2), (0, 2), "int8", "periods"),
    ],
)
def test_processors_walk_where_a_cache_has_lines_for_it(memory, axes, name, family):
    order = tuple(range(len(memory)))
    assert families_of(memory, order, axes, name, PROCESSOR)[0] == family


@pytest.mark.parametrize(
    ("shape", "axis", "family"),
    [
        ((512, 1024, 1024), 1, "columns"),
        ((128, 1024, 4096), 1, "columns"),
        ((512, 1024, 256), 1, "columns"),
        ((2000, 1048, 128), 1, "columns"),
        ((1398, 1500, 128), 1, "columns"),
        ((64, 4096, 1024), 1, "columns"),
        ((4096, 4096), 0, "columns"),  # 128 workgroups, for 32 MiB
        ((4096, 131072), 0, "columns"),
        ((512, 1024, 1020), 1, "phases"),  # rows start anywhere
        ((16, 16384, 1024), 1, "periods"),  # too few
        ((5682, 3200), 0, "periods"),  # 100 workgroups, for 35 MiB
        ((10667, 1000, 24), 1, "periods"),  # too short
        ((128 * 1024, 4096), 0, "periods"),
    ],
)
def test_narrow_elements_are_reduced_by_columns_that_fill_a_gpu_unsplit(shape, axis, family):
    steps = steps_of(shape, range(len(shape)), (axis,), "float16")
    assert kernels.table()[steps[0].kernel].family.name == f"argreduce_{family}"
    if family == "columns":
        pushed = kernels.family("argreduce_columns").unpack(steps[0].push)
        assert pushed["splits"] == 1


def test_single_bytes_whose_values_are_returned_are_read_as_periods():
    shape = 2097, 1000, 256
    for name, with_values, family in (
        ("uint8", False, "columns"),
        ("uint8", True, "periods"),
        ("float16", True, "columns"),
    ):
        steps = steps_of(shape, range(3), (1,), name, with_values=with_values)
        assert kernels.table()[steps[0].kernel].family.name == f"argreduce_{family}"


@pytest.mark.parametrize(
    ("memory", "order", "name", "family"),
    [
        ((4, 16777216, 2), (0, 1, 2), "float32", "short"),  # in their order, two at a time
        ((4, 2000000, 2), (0, 1, 2), "float32", "columns"),  # which a cache holds
        ((4, 8388608, 2), (0, 1, 2), "int64", "short"),
        ((4, 4793490, 7), (0, 1, 2), "float32", "columns"),
        ((2, 9586980, 7), (2, 0, 1), "float32", "short"),  # in another order, two at a time
        ((9, 2130440, 7), (2, 0, 1), "float32", "short"),  # more than a cache holds
        ((9, 300000, 7), (2, 0, 1), "float32", "columns"),  # less
        ((7, 1100000, 3), (2, 0, 1), "float32", "columns"),  # a cache holds all
        ((20, 462451, 14), (2, 0, 1), "float32", "rows"),
        ((4, 2796202, 12), (2, 0, 1), "float32", "rows"),  # whole vectors
    ],
)
def test_wide_elements_in_several_places_are_read_the_fastest_way(memory, order, name, family):
    """Element by element, run after run, or walked in tiles: ``plan/reduce/element_costs.py``."""
    axes = tuple(axis for axis, dim in enumerate(order) if dim != 1)
    assert families_of(memory, order, axes, name) == [family]


def test_every_second_element_out_of_order_is_walked_in_tiles():
    memory, sizes = (5, 2396745, 12), (6, 5, 2396745)
    layout = canonical_reduce(sizes, (2, 2396745 * 12, 12), (0, 1), (1, 1, 1), take_last=False)
    plan = plan_argreduce(
        layout, Order("float32"), math.prod(memory), GPU_LIMITS, index_bytes=4, with_values=False
    )
    assert plan.steps[0].kernel == "argreduce_short_walked_float_4_bytes"


@pytest.mark.parametrize(
    ("shape", "family"),
    [
        ((1677721, 80), "periods"),
        ((2581110, 52), "periods"),
        ((1398101, 96), "columns"),  # rows of whole lines
        ((1016800, 132), "periods"),  # of more vectors
        ((376344, 132), "columns"),  # fewer of them
        ((132000, 1020), "periods"),
        ((131072, 1024), "columns"),
        ((130000, 1028), "columns"),  # more than 4 KiB
        ((2, 66000, 1020), "columns"),  # two matrices
        ((50, 37282, 72), "periods"),
        ((200, 4660, 72), "columns"),  # small matrices
        ((16, 18640, 72), "columns"),  # of few bytes together
        ((93206, 36), "periods"),
        ((46603, 36), "columns"),
    ],
)
def test_large_matrices_whose_rows_are_no_whole_lines_are_read_as_periods(shape, family):
    assert families_of(shape, range(len(shape)), (len(shape) - 2,), "float32")[0] == family


def test_rows_of_eight_bytes_that_are_no_whole_lines_are_read_as_periods_up_to_two_kibibytes():
    for columns, family in ((254, "periods"), (258, "columns")):
        assert families_of((120000, columns), range(2), (0,), "int64")[0] == family


@pytest.mark.parametrize(
    ("shape", "family"),
    [
        ((2048, 25000, 4), "periods"),
        ((4096, 15000, 4), "columns"),  # few rows
        ((1024, 25000, 8), "periods"),
        ((1024, 15000, 8), "columns"),
        ((512, 25000, 16), "columns"),  # an invocation of a subgroup has its own part of a row
        ((128, 25000, 4), "columns"),  # too small
    ],
)
def test_matrices_of_a_few_vectors_in_a_row_are_read_as_periods(shape, family):
    for name in ("float32", "int32"):
        assert families_of(shape, range(3), (1,), name)[0] == family
    doubles = (shape[0], shape[1], shape[2] // 2)
    assert families_of(doubles, range(3), (1,), "int64")[0] == family
    assert families_of(doubles, range(3), (1,), "float64")[0] == "columns"


@pytest.mark.parametrize(
    ("sizes", "name", "kernel"),
    [
        ((5, 3), "float32", "short_walked"),
        ((2, 2), "float32", "short_walked"),
        ((4, 2), "float32", "rows_subgroups_memory_order"),  # whole vectors
        ((2, 2), "int64", "rows_subgroups_memory_order"),
        ((3, 1), "int64", "short_single"),  # as its positions lie
        ((5, 3), "float16", "short_walked"),
    ],
)
def test_short_rows_out_of_memory_order_are_not_read_one_by_one(sizes, name, kernel):
    a, b = sizes
    (step,) = steps_of((1 << 20, a, b), (0, 2, 1), (1, 2), name)
    assert step.kernel.removeprefix("argreduce_").startswith(kernel)
    assert families_of((1 << 20, a, b), (0, 2, 1), (1, 2), name, PROCESSOR)[0] in ("short", "periods", "rows")


def read_by_a_tile(step) -> float | None:
    """How many elements a tile of segments reads for each that takes part; None if there is no such tile."""
    kernel = kernels.table()[step.kernel]
    constants, push = kernel.named(step.constants), kernel.family.unpack(step.push)
    if kernel.family.name != "argreduce_short" or constants["segments_along"] == 3:
        return None
    sizes = [push[f"tile_{dim}"] for dim in range(3)]
    of_segment = math.prod(sizes) / sizes[constants["segments_along"]]
    return push["shared_pitch"] / (
        of_segment * (1 if constants["positions_apart"] else constants["positions"])
    )


def few_positions(random: Random, elements: int) -> tuple[int, ...]:
    """An array of a few positions, the second axis, with a long axis and two short ones."""
    kept = random.choice((random.randint(3, 60), random.randint(60, 600))), random.choice((1, 2, 3, 4, 5, 7))
    positions = random.randint(2, 10)
    return elements // (positions * math.prod(kept)), positions, *kept


def test_tiles_of_several_planes_read_little_between_positions():
    """Of a plane's rows, a tile has a part: what lies from one position to the next is another part's."""
    random, found = Random(5), []
    for name in ("int8", "float16", "float32", "int64"):
        for _ in range(400):
            memory = few_positions(random, (256 << 20) // kernels.elements()[name].nbytes)
            (step,) = steps_of(memory, (2, 1, 0, 3), (1,), name)
            found.append(read_by_a_tile(step))
    read = [times for times in found if times is not None]
    assert len(read) > 200
    assert max(read) <= 2
