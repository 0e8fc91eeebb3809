"""Copies of pixels to planes, each of which has an element of every pixel; ``slice1.py`` says which."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels, loop_steps
from vkdml.plan.layout import NO_DIM, CopyLayout, Dim, ascending
from vkdml.plan.plans import GPU_LINE_BYTES, SECTOR_BYTES, DeviceLimits, Step, check_work, dim_words
from vkdml.plan.slice.channels import MOST_CELLS, MOST_CHANNEL_DIMS
from vkdml.plan.slice.matrices import unaligned
from vkdml.plan.slice.rounds import LEAST_WORKGROUP

# Words that an invocation reads together from pixels with fewer elements.
_READ_TOGETHER = 12
# Planes of narrow elements in unaligned words that are copied in tiles: more than the first, if they fill so
# much of a multiple of _ROWS_OF_TILES, of pixels of at most so many elements.
_FEW_PLANES, _FULL, _ROWS_OF_TILES, _MOST_ELEMENTS = 12, 3 / 4, 16, 32
# By element width: the fewest planes that are copied in tiles if their rows do not start with sectors, and of
# what they are multiples.
_PLANES_IN_TILES = {1: (16, 4), 2: (8, 8), 4: (16, 4)}
# Segments of a row overlap. At most so many times the row's pixels are copied.
_COPIED_TWICE = 1.2


@dataclass(frozen=True)
class Planes:
    """A copy of pixels to planes."""

    layout: CopyLayout
    element_bytes: int
    limits: DeviceLimits

    @property
    def row(self) -> Dim:
        """Neighbouring pixels."""
        return self.layout.dims[-1]

    @property
    def pixel_elements(self) -> int:
        """Elements of the input from one pixel to the next."""
        return abs(self.row.input_stride)

    @property
    def channel_dims(self) -> tuple[Dim, ...]:
        """The dimensions within a pixel, from its first copied element on: with positive input strides."""
        dims, *_ = self._within_pixel
        return dims

    @cached_property
    def _within_pixel(self) -> tuple[tuple[Dim, ...], int, int]:
        dims = (dim for dim in self.layout.dims[:-1] if self._is_within_pixel(dim))
        return ascending(dims, self.layout.input_base, self.layout.output_base)

    @cached_property
    def outer(self) -> tuple[Dim, ...]:
        """The dimensions from row to row."""
        return tuple(dim for dim in self.layout.dims[:-1] if not self._is_within_pixel(dim))

    def _is_within_pixel(self, dim: Dim) -> bool:
        return 0 < abs(dim.input_stride) < self.pixel_elements

    @property
    def channels(self) -> int:
        return math.prod(dim.size for dim in self.channel_dims)

    @property
    def bases(self) -> tuple[int, int]:
        """Where the first copied element of the first pixel lies, and where it is written."""
        _, source, target = self._within_pixel
        return source, target

    @property
    def per_word(self) -> int:
        return 4 // self.element_bytes

    @property
    def fill_tiles(self) -> bool:
        """Whether planes whose rows start anywhere take less time in tiles.

        Of narrow elements in unaligned words, more than 12 planes that fill three quarters of sixteen or of
        thirty-two do: they take 0.70 to 0.99 of the time up to 48 MiB, 0.79 to 0.98 beyond (H200). So do rows
        that do not start with sectors, of planes that fill whole words or more: 0.87 (26 copies, 0.66 to
        1.03).
        """
        elements, planes = self.pixel_elements, self.channels
        if self.element_bytes < 4 and self.output_unaligned:
            is_full = planes > _FEW_PLANES and planes >= _FULL * round_up(planes, _ROWS_OF_TILES)
            if is_full and elements <= _MOST_ELEMENTS:
                return True
        fewest, multiple = _PLANES_IN_TILES[self.element_bytes]
        return (
            elements >= fewest
            and elements % multiple == 0
            and planes == elements
            and self._starts_within(SECTOR_BYTES)
        )

    @property
    def input_unaligned(self) -> bool:
        """Whether the words that hold pixels may start anywhere in a word of the input."""
        source, _ = self.bases
        if self.row.input_stride < 0:
            source -= (self.per_word - 1) * self.pixel_elements
        to_last_segment = self.row.size * self.pixel_elements
        starts = (source, *(dim.input_stride for dim in self.outer), to_last_segment)
        return any(start % self.per_word for start in starts)

    @property
    def output_unaligned(self) -> bool:
        """Whether planes may start, or rows end, anywhere in a word of the output."""
        return self._starts_within(4)

    def _starts_within(self, nbytes: int) -> bool:
        """Whether planes may start, or rows end, elsewhere than with so many bytes of the output."""
        _, target = self.bases
        dims = (*self.outer, *self.channel_dims)
        starts = target, self.row.size, *(dim.output_stride for dim in dims)
        return unaligned(starts, self.element_bytes, nbytes)

    @cached_property
    def share(self) -> _Share | None:
        """The largest segments that a workgroup has room for; None if rows are too short for any."""
        tuning, most, row = self.limits.tuning.slice1, self.limits.workgroup_size, self.row.size
        shares = [
            share
            for at_once in _halved(max(_READ_TOGETHER // self.pixel_elements, 1), 1)
            for size in _halved(most, min(LEAST_WORKGROUP, most))
            if tuning.plane_cells <= size * at_once * self.pixel_elements <= MOST_CELLS[self.element_bytes]
            and size * at_once * self.per_word <= row
            and (share := _shared(self, size, at_once)).copied <= _COPIED_TWICE * row
        ]
        return max(shares, key=lambda share: share.pixels, default=None)


def planes_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> Planes | None:
    """Return the planes of a copy of elements of up to 4 bytes; None where it has none, or others are faster.

    >>> from vkdml.plan.device_classes import DISCRETE
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> pixels = CopyLayout((Dim(5, 1, 640_000), Dim(640_000, 5, 1)), 0, 0)
    >>> planes = planes_of(pixels, 4, limits)
    >>> planes and (planes.channels, planes.pixel_elements)
    (5, 5)
    """
    tuning = limits.tuning.slice1
    by_width = {width: elements for width, *elements in tuning.plane_pixels}
    if element_bytes not in by_width or layout.count * element_bytes < tuning.planes_from_bytes:
        return None
    if len(layout.dims) < 2 or layout.dims[-1].output_stride != 1:
        return None
    fewest, most = by_width[element_bytes]
    planes = Planes(layout, element_bytes, limits)
    dims = planes.channel_dims
    if not fewest <= planes.pixel_elements <= most or not 1 <= len(dims) <= MOST_CHANNEL_DIMS:
        return None
    # Channels of pixels that lie a line apart are all in one bank of shared memory: boxes and tiles take 0.64
    # to 0.99 of the time (H200).
    if planes.pixel_elements * element_bytes % GPU_LINE_BYTES == 0:
        return None
    # Elements of one pixel lie between those of no other. Those of windows that overlap may be more of them.
    span = sum((dim.size - 1) * dim.input_stride for dim in dims)
    if max(span + 1, planes.channels) > planes.pixel_elements:
        return None
    return None if planes.fill_tiles or planes.share is None else planes


@dataclass(frozen=True)
class _Share:
    """What a workgroup copies at a time: a segment of a row."""

    workgroup_size: int
    at_once: int
    """Words of an invocation in each plane."""
    pixels: int
    segments: int
    """Of a row; the last one starts where it ends with the row."""
    step: int
    """Pixels from one to the next."""

    @property
    def copied(self) -> int:
        """Pixels of a row, those that are copied twice counted twice."""
        return self.segments * self.pixels


def _halved(most: int, least: int) -> Iterator[int]:
    while most >= least:
        yield most
        most //= 2


def _shared(planes: Planes, workgroup_size: int, at_once: int) -> _Share:
    pixels = workgroup_size * at_once * planes.per_word
    # Words that are shifted to those of the output need what follows them.
    step = pixels - (planes.per_word if planes.output_unaligned else 0)
    segments = ceil_div(planes.row.size - pixels, step) + 1
    return _Share(workgroup_size, at_once, pixels, segments, step)


def plane_copy(planes: Planes, last_vector: int) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Raises:
        TooMuchWork: more segments than the kernel counts.
    """
    limits, share = planes.limits, planes.share
    assert share is not None
    shares = math.prod(dim.size for dim in planes.outer) * share.segments
    check_work("segments", shares)
    group, channel = (NO_DIM, *planes.channel_dims)[-MOST_CHANNEL_DIMS:]
    source, target = planes.bases
    family = kernels.family("slice1_planes")
    placed = family.placed(dim_words(planes.outer))
    kernel, constants = family.specialize(
        element_bytes=planes.element_bytes,
        workgroup=share.workgroup_size,
        layout_in_push=placed.in_push,
        dims=len(planes.outer),
        pixel_elements=planes.pixel_elements,
        channels=planes.channels,
        group_channels=channel.size,
        channel_step=channel.input_stride,
        group_step=group.input_stride,
        at_once=share.at_once,
        backward=planes.row.input_stride < 0,
        input_unaligned=planes.input_unaligned,
        output_unaligned=planes.output_unaligned,
    )
    push = family.push(
        shares=shares,
        segments=share.segments,
        segment_step=share.step,
        pixels=planes.row.size,
        input_base=source,
        output_base=target,
        channel_output_stride=channel.output_stride,
        group_output_stride=group.output_stride,
        last_vector=last_vector,
        layout_words=placed.pushed,
    )
    rounds = loop_steps.rounds_of(shares, limits.max_workgroup_count)
    loops = loop_steps.planes(
        rounds, len(planes.outer), planes.pixel_elements, planes.channels, share.at_once
    )
    return Step(kernel, constants, push, limits.started(shares), loop_steps=loops), placed.stored
