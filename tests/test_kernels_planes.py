"""``slice1_planes`` against its NumPy twin: pixels to planes, all bytes that it writes, and no others."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from slice1_kernels import base_of, check, constants_of, kernel_for, use

from vkdml.plan import kernels
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.slice import plane_copies

PLANES = kernels.family("slice1_planes")
WIDTHS = PLANES.numbers_of("element_bytes")
MOST = 24


@pytest.fixture(autouse=True)
def small_tuning(monkeypatch):
    monkeypatch.setattr(plane_copies.Planes, "fill_tiles", False)
    use(monkeypatch, plane_pixels=tuple((width, 2, MOST) for width in WIDTHS))


def pixels(
    rows: tuple[int, ...], row: int, pitch: int, channels: tuple[Dim, ...], sign: int, gap: int
) -> CopyLayout:
    """Rows of pixels, ``gap`` elements longer than they need, whose channels are planes of each image.

    Args:
        rows: sizes of the dimensions outside of a row.
        row: pixels of a row.
        pitch: elements from one pixel to the next.
        channels: sizes, and strides within a pixel; the strides in the output follow from the sizes.
        sign: of the pixels' stride.
        gap: elements between rows.
    """
    dims, run = [Dim(row, sign * pitch, 1)], row
    for channel in reversed(channels):
        dims.append(replace(channel, output_stride=run))
        run *= channel.size
    apart = row * pitch + gap
    for size in reversed(rows):
        dims.append(Dim(size, apart, run))
        run, apart = run * size, apart * size + gap
    dims.reverse()
    return CopyLayout(tuple(dims), base_of(dims), 0)


@pytest.mark.in_turn(any_of=("width", "pitch"))
@pytest.mark.parametrize("pitch", [2, 3, 4, 5, 8, 13, 16, MOST])
@pytest.mark.parametrize("width", WIDTHS)
def test_planes_of_any_size_of_pixels_anywhere(device, width, pitch):
    """Planes start at any place of a word, segments overlap, rows of pixels start anywhere, either way."""
    told = set()
    per_word = 4 // width
    for extra, rows, sign in itertools.product((0, 1, 2, 3, 67), ((), (3,), (2, 3)), (1, -1)):
        for gap, base in ((0, 0), (1, 0), (4, 3), (8, 4)):
            row = 24 * 8 * per_word + extra
            layout = pixels(rows, row, pitch, (Dim(pitch, 1, 0),), sign, gap)
            layout = replace(layout, input_base=layout.input_base + base)
            assert check(device, layout, width, spare=base) == kernel_for("slice1_planes", width), layout
            constants = constants_of(device, layout, width)
            told.add(tuple(constants[name] for name in ("backward", "input_unaligned", "output_unaligned")))
    unaligned = (0, 1) if width < 4 else (0,)
    # Words of an even number of elements start where words do, if their rows do.
    assert told >= {(sign, at, at) for sign in (0, 1) for at in unaligned}


@pytest.mark.parametrize("width", WIDTHS)
def test_some_of_the_channels_in_any_order_and_groups_of_them(device, width):
    for pitch, channels in (
        (7, (Dim(2, 3, 0),)),
        (7, (Dim(3, -2, 0),)),
        (9, (Dim(3, 3, 0), Dim(2, 1, 0))),
        (9, (Dim(2, 1, 0), Dim(3, 3, 0))),
        (12, (Dim(2, -7, 0), Dim(3, 2, 0))),
        (12, (Dim(2, 7, 0), Dim(3, -2, 0))),
    ):
        for rows, row, sign, output_base in itertools.product(((), (3,)), (800, 803), (1, -1), (0, 1)):
            layout = replace(pixels(rows, row, pitch, channels, sign, 5), output_base=output_base)
            assert check(device, layout, width, spare=1) == kernel_for("slice1_planes", width), layout


@pytest.mark.parametrize("width", WIDTHS)
def test_planes_of_many_dimensions_and_more_rounds(device, width):
    layout = pixels((2,) * 8, 400, 3, (Dim(3, 1, 0),), 1, 5)
    outer = [dim for dim in layout.dims[:-1] if dim.input_stride > 3]
    assert len(outer) * kernels.number("copied_dim_words") > PLANES.layout_room
    assert check(device, layout, width) == kernel_for("slice1_planes", width)
    few = replace(device.limits, max_workgroup_count=3)
    for rows in ((), (3,)):
        layout = pixels(rows, 4001, 5, (Dim(5, 1, 0),), 1, 1)
        assert check(device, layout, width, few) == kernel_for("slice1_planes", width)


@pytest.mark.parametrize("width", WIDTHS)
def test_windows_that_overlap(device, width):
    """Six windows of seven elements of twelve are more than a pixel has; two of three are not."""
    for dims, has_planes in (
        ((Dim(6, 1, 7 * 803), Dim(7, 1, 803), Dim(803, 12, 1)), False),
        ((Dim(2, 1, 3 * 803), Dim(3, 1, 803), Dim(803, 12, 1)), True),
    ):
        kernel = check(device, CopyLayout(dims, 0, 0), width)
        assert (kernel == kernel_for("slice1_planes", width)) == has_planes


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_that_end_within_words_of_planes_that_start_with_them(device, width):
    """The last segment of such a row starts within a word."""
    for row in (801, 802, 803):
        layout = CopyLayout((Dim(5, 1, 804), Dim(row, 5, 1)), 0, 0)
        assert check(device, layout, width, spare=3) == kernel_for("slice1_planes", width)
        assert constants_of(device, layout, width)["output_unaligned"] == (row % (4 // width) != 0)
