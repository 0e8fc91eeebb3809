"""``slice1_pixel_tiles`` against its NumPy twin: pixels of lines to columns, all bytes that it writes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from plans import GPU_LIMITS
from slice1_kernels import PLAN_SLICE1, base_of, check, constants_of, kernel_for, use

from vkdml.plan import kernels
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.slice import pixel_tile_copies

PIXEL_TILES = kernels.family("slice1_pixel_tiles")
WIDTHS = PIXEL_TILES.numbers_of("element_bytes")


@pytest.fixture(autouse=True)
def small_tuning(monkeypatch):
    """Tiles are small, so that small inputs have many of them."""
    monkeypatch.setattr(pixel_tile_copies, "_LEAST_FILL", 0.0)
    use(monkeypatch, pixel_tile_bytes=5120)


def turned(
    lines: int,
    line: int,
    channels: Dim,
    apart: int,
    *,
    signs: tuple[int, int] = (1, 1),
    gap: int = 0,
    output_gap: int = 0,
    outer: tuple[int, ...] = (),
) -> CopyLayout:
    """Images whose lines become columns.

    Args:
        lines: of an image, each of which has a pixel of each row of the output.
        line: pixels of a line.
        channels: of a pixel; the output stride is that of neighbours.
        apart: elements from one pixel to the next.
        signs: of the strides from pixel to pixel, and from line to line.
        gap: elements between two lines.
        output_gap: elements between two rows of the output.
        outer: sizes of the dimensions of images.
    """
    pitch, row = line * apart + gap, lines * channels.size + output_gap
    dims = [channels, Dim(lines, signs[1] * pitch, channels.size), Dim(line, signs[0] * apart, row)]
    source, target = lines * pitch + gap, line * row
    for size in reversed(outer):
        dims.append(Dim(size, source, target))
        source, target = source * size + gap, target * size
    dims.reverse()
    return CopyLayout(tuple(dims), base_of(dims), 0)


def told_of(device, layout: CopyLayout, width: int) -> tuple[int, ...]:
    constants = constants_of(device, layout, width)
    names = ("rows_at_once", "input_unaligned", "output_unaligned", "whole_sectors")
    return tuple(constants[name] for name in names)


@pytest.mark.in_turn(any_of=("width", "channels"))
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 7, 8, 13, 15])
@pytest.mark.parametrize("width", WIDTHS)
def test_images_of_any_pixels_anywhere(device, monkeypatch, width, channels):
    """Lines and rows start at any place of a vector; tiles end within images, and images within tiles."""
    if channels < 8:
        use(monkeypatch, pixel_tile_bytes=2560)
    told = set()
    ways = list(itertools.product((64 // width, 77), (24, 67), ((0, 0), (1, 0), (4, 3)), (0, 3)))
    first = 5 * channels % len(ways)  # a processor's driver builds the first one alone
    for lines, line, (gap, base), output_gap in ways[first:] + ways[:first]:
        pixels = Dim(channels, -1 if gap == 1 else 1, 1)
        # Pixels an odd number of elements apart are no wider elements.
        layout = turned(lines, line, pixels, channels | 1, gap=gap, output_gap=output_gap)
        layout = replace(layout, input_base=layout.input_base + base, output_base=base)
        assert check(device, layout, width, spare=base) == kernel_for("slice1_pixel_tiles", width), layout
        told.add(told_of(device, layout, width))
    assert {(within, sectors) for *_, within, sectors in told} >= {(0, 0), (1, 1)}


@pytest.mark.parametrize("width", WIDTHS)
def test_both_ways_to_take_rows_and_both_alignments_are_tested(device, width):
    """Of narrow elements large pixels are taken one by one, small ones as many as a word has elements."""
    per_word = 4 // width
    told = set()
    for channels, gap in itertools.product((17 if width < 4 else 15, 3), (1, 0)):
        layout = turned(40, 32 // width, Dim(channels, 1, 1), channels + (-channels) % per_word, gap=gap)
        assert check(device, layout, width) == kernel_for("slice1_pixel_tiles", width)
        told.add(told_of(device, layout, width)[:2])
    unaligned = (0, 1) if width < 4 else (0,)
    assert told == set(itertools.product({1, per_word}, unaligned))


@pytest.mark.in_turn(any_of=("width",))
@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize(
    ("apart", "channels"),
    [(4, Dim(3, 1, 1)), (4, Dim(3, -1, 1)), (7, Dim(4, 2, 1)), (7, Dim(3, -3, 1)), (9, Dim(2, 5, 1))],
    ids=str,
)
@pytest.mark.parametrize("width", WIDTHS)
def test_some_of_the_channels_either_way_of_images_turned_either_way(device, width, apart, channels, signs):
    layout = turned(35, 43, channels, apart, signs=signs, gap=2, outer=(2,))
    assert check(device, layout, width, spare=1) == kernel_for("slice1_pixel_tiles", width), layout


def test_wide_elements_are_copied_as_words(device):
    for channels in (Dim(3, 1, 1), Dim(2, -1, 1)):
        kernel = check(device, turned(19, 23, channels, 3, gap=1), 8)
        # Words of an element that go forward in a pixel that goes backward are no steps of one dimension.
        assert (kernel == kernel_for("slice1_pixel_tiles", 4)) == (channels.input_stride > 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_images_of_many_dimensions(device, width):
    layout = turned(9, 10, Dim(3, 1, 1), 3, gap=1, outer=(2,) * 6)
    assert (len(layout.dims) - 3) * kernels.number("copied_dim_words") > PIXEL_TILES.layout_room
    assert check(device, layout, width) == kernel_for("slice1_pixel_tiles", width)


@pytest.mark.parametrize("width", WIDTHS)
def test_workgroups_take_several_tiles(device, width):
    few = replace(device.limits, max_workgroup_count=3)
    for outer in ((3,), ()):
        layout = turned(51, 53, Dim(5, 1, 1), 5, gap=1, outer=outer)
        assert constants_of(device, layout, width, few)["in_rounds"]
        assert check(device, layout, width, few) == kernel_for("slice1_pixel_tiles", width)


@pytest.mark.parametrize("width", WIDTHS)
def test_images_of_which_all_lines_are_the_same(device, width):
    layout = turned(40, 43, Dim(3, 1, 1), 5)
    dims = tuple(replace(dim, input_stride=0) if dim.size == 40 else dim for dim in layout.dims)
    assert check(device, replace(layout, dims=dims), width) == kernel_for("slice1_pixel_tiles", width)


@pytest.mark.parametrize(
    ("width", "layout", "family"),
    [
        (1, turned(1080, 1920, Dim(3, 1, 1), 3), "pixel_tiles"),
        (1, turned(1080, 1920, Dim(3, -1, 1), 3, signs=(-1, 1)), "pixel_tiles"),
        (1, turned(1080, 1920, Dim(3, 1, 1), 4), "pixel_tiles"),
        (2, turned(1080, 1920, Dim(3, 1, 1), 3), "pixel_tiles"),
        (2, turned(1080, 1920, Dim(17, 1, 1), 17), "pixel_tiles"),
        (4, turned(1080, 1920, Dim(3, 1, 1), 3), "pixel_tiles"),
        (8, turned(3000, 4000, Dim(3, 1, 1), 3), "pixel_tiles"),
        # Whole words of other elements.
        (1, turned(1080, 1920, Dim(4, 1, 1), 4), "tiles"),
        (2, turned(1080, 1920, Dim(2, 1, 1), 2), "tiles"),
        # Many images, of which a cache holds what is read again: words, if rows are short, or there are few.
        (4, turned(224, 224, Dim(3, 1, 1), 3, outer=(64,)), "pixel_tiles"),
        (4, turned(15, 224, Dim(3, 1, 1), 3, outer=(900,)), "words"),
        (4, turned(224, 224, Dim(3, 1, 1), 3, outer=(8,)), "words"),
        # Pixels of which no two are in the same part of memory.
        (4, turned(1080, 1920, Dim(3, 1, 1), 17), "words"),
        # Words in rows, and in lines, that leave a third of a tile empty.
        (4, turned(5, 10**7, Dim(3, 1, 1), 3), "words"),
        (4, turned(10**6, 5, Dim(3, 1, 1), 3), "boxes"),
        # Lines that are shorter than a tile would leave most of it empty.
        (1, turned(10**6, 2, Dim(3, 1, 1), 3), "boxes"),
        (1, turned(10**7, 2, Dim(3, 1, 1), 3), "words"),
    ],
)
def test_what_is_copied_in_tiles_of_pixels(monkeypatch, width, layout, family):
    monkeypatch.undo()
    (step,) = PLAN_SLICE1(layout, width, 1 << 28, GPU_LIMITS, output_elements=1 << 28).steps
    assert kernels.table()[step.kernel].family.name == f"slice1_{family}"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("lines", [1024, 1081])
def test_tiles_fit_the_least_devices(width, lines):
    """128 invocations and 16 KiB of shared memory."""
    limits = replace(GPU_LIMITS, max_workgroup_invocations=128, max_shared_memory=16 << 10)
    layout = turned(lines, 3000, Dim(3, 1, 1), 3)
    (step,) = PLAN_SLICE1(layout, width, layout.count, limits).steps
    c = kernels.table()[step.kernel].named(step.constants)
    assert step.kernel == kernel_for("slice1_pixel_tiles", width)
    assert c["workgroup"] <= 128
    assert pixel_tile_copies.shared_bytes(c["down"], c["across"], c["rows_at_once"]) <= 16 << 10
