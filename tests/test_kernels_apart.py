"""``slice1_apart`` against its NumPy twin: outputs with gaps, all bytes that it writes, and no others."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from plans import GPU_LIMITS, LIMITS
from slice1_kernels import PLAN_SLICE1, base_of, check, constants_of, kernel_for, use

import vkdml
from vkdml.plan import kernels
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.slice import apart_copies

APART = kernels.family("slice1_apart")
WIDTHS = APART.numbers_of("element_bytes")
ANY_ROW = 1 << 40
LARGE = replace(GPU_LIMITS, max_storage_buffer_range=1 << 40)


@pytest.fixture(autouse=True)
def small_tuning(monkeypatch):
    use(monkeypatch, whole_row_bytes=tuple((width, ANY_ROW, ANY_ROW) for width in WIDTHS))


def rows(
    sizes: tuple[int, ...], row: int, step: int, gap: int, input_step: int = 1, output_base: int = 0
) -> CopyLayout:
    """Rows of elements ``step`` apart in the output, and a gap between rows, planes and so on."""
    dims, read, written = [Dim(row, input_step, step)], row * abs(input_step), row * step
    for size in reversed(sizes):
        written += gap
        dims.append(Dim(size, read, written))
        read, written = read * size, written * size
    dims.reverse()
    return CopyLayout(tuple(dims), base_of(dims), output_base)


@pytest.mark.in_turn(any_of=("width", "step"))
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("width", WIDTHS)
def test_elements_apart_and_rows_with_gaps(device, width, step):
    """Rows start and end at any place of a word, share words with others, and exceed a workgroup's share."""
    told = set()
    for row, sizes, gap in itertools.product((3, 5, 7, 67), ((), (3,), (2, 5)), (1, 2, 5)):
        if step == 1 and not sizes:
            continue  # one run
        for input_step, base in ((1, 0), (1, 3), (-1, 1), (2, 0)):
            layout = rows(sizes, row, step, gap, input_step, base)
            layout = replace(layout, input_base=layout.input_base + base)
            assert check(device, layout, width, spare=base) == kernel_for("slice1_apart", width), layout
            constants = constants_of(device, layout, width, LARGE)
            told.add((constants["output_step"], constants["side_by_side"]))
    by_words = width < 4 and step < 4 // width
    assert told == ({(1, 0), (1, 1)} if by_words and step == 1 else {(step if by_words else 0, 0)})
    assert check(device, rows((9,), 1100, step, 1), width) == kernel_for("slice1_apart", width)


@pytest.mark.parametrize("width", [1, 2])
def test_bits_of_partial_words_are_flipped_or_cleared_and_set(device, monkeypatch, width):
    """What else the words hold stays as it was, whichever it is."""
    for longest in (0, 1 << 20):
        monkeypatch.setattr(apart_copies, "_ROW_OF_WHOLE_WORDS", longest)
        for row, gap, base in itertools.product((3, 5, 7, 33), (1, 2, 3), (0, 1, 2)):
            layout = rows((41,), row, 1, gap, output_base=base)
            assert check(device, layout, width, spare=base) == kernel_for("slice1_apart", width)
            assert constants_of(device, layout, width, LARGE)["flips_bits"] == (longest > 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_many_dimensions_and_more_rounds(device, width):
    layout = rows((2,) * 9, 3, 1, 1)
    assert (len(layout.dims) - 1) * kernels.number("run_dim_words") > APART.layout_room
    assert check(device, layout, width) == kernel_for("slice1_apart", width)
    few = replace(device.limits, max_workgroup_count=2)
    for step in (1, 3):
        layout = rows((40,), 71, step, 1)
        assert check(device, layout, width, few) == kernel_for("slice1_apart", width)


def planned(limits, dims: tuple[Dim, ...], width: int) -> str:
    layout = CopyLayout(dims, base_of(dims), 0)
    reach = [
        1 + sum((dim.size - 1) * abs(getattr(dim, name)) for dim in dims)
        for name in ("input_stride", "output_stride")
    ]
    plan = PLAN_SLICE1(layout, width, reach[0], limits, output_elements=reach[1])
    return kernels.table()[plan.steps[0].kernel].family.name.removeprefix("slice1_")


@pytest.mark.parametrize(
    ("driver", "width", "row", "others"),
    [
        ("h200", 1, 639, 39),
        ("h200", 2, 255, 23),
        ("h200", 4, 73, 31),
        ("h200", 8, 5, 11),
        ("lavapipe", 1, 23, 7),
        ("lavapipe", 2, 3, 3),
        ("swiftshader", 1, 23, 11),
        ("swiftshader", 2, 9, 9),
        ("swiftshader", 4, 15, 15),
        ("swiftshader", 8, 127, 15),
    ],
)
def test_shorter_rows_than_these_are_copied_by_words_or_elements(driver, width, row, others):
    """Of odd lengths, so that no wider elements make them up; rows of the input, and others."""
    limits = LIMITS[driver]
    for length, stride in ((row, 1), (others, 2)):
        for size, is_apart in ((length, True), (length + 2, False)):
            pitch = size + 1 + size % 2  # odd
            dims = Dim(1000, size * stride | 1, pitch), Dim(size, stride, 1)
            assert (planned(limits, dims, width) == "apart") == is_apart, (size, stride)


def test_gathered_rows_that_start_with_vectors_are_left_to_vectors_and_tiles():
    """On GPUs; those of words are not."""
    for width, is_apart in ((1, False), (2, False), (4, True), (8, False)):
        size = 15 // width | 1
        of_input, gathered = (size, 1), (1, 10**5)
        for stride, of_row in (of_input, gathered):
            for pitch, at_vectors in ((32 // width, True), (32 // width - 1, False)):
                dims = Dim(1001, stride, pitch), Dim(size, of_row, 1)
                told = is_apart or not at_vectors or of_row == 1
                assert (planned(GPU_LIMITS, dims, width) == "apart") == told


def test_elements_with_steps_are_copied_by_words_or_elements():
    for driver, width, step, is_apart in (
        ("h200", 1, 2, True),
        ("h200", 1, 64, True),
        ("h200", 2, 8, True),
        ("h200", 4, 3, True),
        ("h200", 4, 4, False),  # at the same place of each vector
        ("h200", 8, 3, True),
        ("h200", 8, 2, False),
        ("h200", 16, 3, False),
        ("lavapipe", 2, 3, True),
        ("lavapipe", 4, 3, False),
        ("swiftshader", 4, 4, True),
        ("swiftshader", 16, 2, False),
    ):
        assert (planned(LIMITS[driver], (Dim(1001, 1, step),), width) == "apart") == is_apart
        assert planned(LIMITS[driver], (Dim(1001, step, 1),), width) != "apart"


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64, np.complex128])
def test_channels_and_columns_are_assigned(device, dtype):
    """As users have them: one channel of a picture, a table's columns, every second element."""
    random = np.random.default_rng(7)
    expected = random.integers(0, 200, (31, 45, 3)).astype(dtype)
    array = vkdml.asarray(expected, device=device)
    for key in (np.s_[..., 1], np.s_[:, ::2, 2], np.s_[3:9, 1:4], np.s_[::-3, ::-2, ::2], np.s_[:, 5]):
        values = random.integers(0, 200, expected[key].shape).astype(dtype)
        expected[key] = values
        array[key] = vkdml.asarray(values, device=device)
        np.testing.assert_array_equal(array.numpy(), expected)
