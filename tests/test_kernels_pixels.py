"""``slice1_pixels`` against its NumPy twin: planes to pixels, all bytes that it writes, and no others."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from plans import GPU_LIMITS
from slice1_kernels import PLAN_SLICE1, base_of, check, constants_of, kernel_for, use

from vkdml.plan import kernels
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.slice import pixel_copies
from vkdml.plan.slice import slice1 as plan_slice1

PIXELS = kernels.family("slice1_pixels")
WIDTHS = PIXELS.numbers_of("element_bytes")
MOST = 24


@pytest.fixture(autouse=True)
def small_tuning(monkeypatch):
    monkeypatch.setattr(pixel_copies.Pixels, "share_sectors", False)
    use(monkeypatch, pixel_channels=tuple((width, 2, MOST) for width in WIDTHS))


def planes(sizes: tuple[int, ...], channels: tuple[int, ...], step: int, gap: int, base: int) -> CopyLayout:
    """Pixels of ``sizes``, whose elements come from planes ``gap`` elements longer than they need."""
    dims, apart = [], 1
    for number, size in enumerate(reversed(sizes)):
        dims.append((size, step if number == 0 else apart))
        apart = size * (abs(step) if number == 0 else apart) + gap
    apart = max(apart, 32)
    inner = []
    for size in reversed(channels):
        inner.append((size, apart))
        apart = apart * size + gap
    run, copied = 1, []
    for size, stride in (*inner, *dims):
        copied.append(Dim(size, stride, run))
        run *= size
    copied = tuple(reversed(copied))
    return CopyLayout(copied, base_of(copied) + base, 0)


@pytest.mark.in_turn(any_of=("width", "channels"))
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 8, 13, 16, MOST])
@pytest.mark.parametrize("width", WIDTHS)
def test_pixels_of_any_size_from_planes_anywhere(device, width, channels):
    """Rows of pixels end within words, workgroups begin within rows; planes start at any place of a word."""
    told = set()
    for sizes, step in itertools.product(
        ((1,), (3,), (301,), (7, 41), (5, 1, 3), (2, 3, 50)), (1, -1, 2, 3, -2)
    ):
        for gap, base in ((0, 0), (1, 0), (4, 3), (8, 4)):
            layout = planes(sizes, (channels,), step, gap, base)
            assert check(device, layout, width, spare=base) == kernel_for("slice1_pixels", width), layout
            constants = constants_of(device, layout, width)
            told.add((constants["side_by_side"], constants["backward"], constants["input_unaligned"]))
            assert constants["at_once"] == max(7 // channels, 1)
    assert told >= set(itertools.product((0, 1), (0, 1), (0, 1) if width < 4 else (0,)))


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_that_start_with_words_and_end_within_them(device, width):
    """The words of the second row's pixels start within words of its planes."""
    for row, pitch in ((41, 44), (42, 44), (43, 44)):
        dims = Dim(3, pitch, 5 * row), Dim(row, 1, 5), Dim(5, 3 * pitch, 1)
        layout = CopyLayout(dims, 0, 0)
        assert check(device, layout, width) == kernel_for("slice1_pixels", width)
        assert constants_of(device, layout, width)["input_unaligned"] == (row % (4 // width) != 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_groups_of_channels(device, width):
    """Planes of two dimensions of channels, in either order, some of them backward."""
    for channels, sizes, swapped in itertools.product(((3, 2), (2, 5), (4, 6)), ((90,), (3, 31)), (0, 1)):
        layout = planes(sizes, channels, 1, 3, 1)
        *outer, group, channel = layout.dims
        if swapped:
            group, channel = (
                replace(channel, output_stride=group.size),
                replace(group, output_stride=1),
            )
        channel = replace(channel, input_stride=-channel.input_stride)
        dims = (*outer, group, channel)
        assert check(device, CopyLayout(dims, base_of(dims), 0), width) == kernel_for("slice1_pixels", width)
        assert (
            constants_of(device, CopyLayout(dims, base_of(dims), 0), width)["group_channels"] == channel.size
        )


@pytest.mark.parametrize("width", WIDTHS)
def test_pixels_of_many_dimensions_and_more_rounds(device, width):
    layout = planes((2,) * 8, (3,), 1, 1, 1)
    assert len(layout.dims) * kernels.number("run_dim_words") > PIXELS.layout_room
    assert check(device, layout, width) == kernel_for("slice1_pixels", width)
    few = replace(device.limits, max_workgroup_count=3)
    for sizes in ((2000,), (3, 901)):
        layout = planes(sizes, (5,), 1, 1, 0)
        assert check(device, layout, width, few) == kernel_for("slice1_pixels", width)


def test_outputs_that_do_not_start_with_a_vector_or_are_not_one_run_have_no_pixels(device):
    layout = planes((300,), (5,), 1, 0, 0)
    for output_base in (1, 4, 15):
        assert check(device, replace(layout, output_base=output_base), 1) != kernel_for("slice1_pixels", 1)
    assert check(device, replace(layout, output_base=16), 1) == kernel_for("slice1_pixels", 1)
    apart = tuple(replace(dim, output_stride=6 if dim.output_stride == 5 else 1) for dim in layout.dims)
    assert check(device, replace(layout, dims=apart), 1) != kernel_for("slice1_pixels", 1)


def test_where_pixels_begin_and_end(device, monkeypatch):
    """The fewest and the most channels, the smallest output, the shortest rows of narrow elements."""
    use(
        monkeypatch,
        pixel_channels=((1, 3, 6), (4, 2, 9)),
        pixels_from_bytes=900,
        narrow_pixels_in_row=30,
    )

    def has_pixels(width: int, channels: int, sizes: tuple[int, ...]) -> bool:
        plan = plan_slice1.plan_slice1(planes(sizes, (channels,), 1, 0, 0), width, 1 << 20, device.limits)
        return kernels.table()[plan.steps[0].kernel].family is PIXELS

    assert [has_pixels(1, channels, (999,)) for channels in (2, 3, 6, 7)] == [False, True, True, False]
    assert [has_pixels(4, channels, (999,)) for channels in (2, 9, 10)] == [True, True, False]
    assert not has_pixels(2, 5, (999,))
    assert [has_pixels(1, 3, (size,)) for size in (299, 300)] == [False, True]
    assert [has_pixels(1, 3, (99, size)) for size in (29, 30)] == [False, True]
    assert has_pixels(4, 3, (99, 5))


def test_pixels_of_more_elements_than_a_counter_of_31_bits_has():
    pixels = (1 << 31) // 3 + 2
    layout = CopyLayout((Dim(pixels, 1, 3), Dim(3, pixels, 1)), 0, 0)
    (step,) = PLAN_SLICE1(layout, 1, 3 * pixels, GPU_LIMITS).steps
    assert step.kernel == kernel_for("slice1_pixels", 1)
