"""Copies of planes to pixels, which are short rows of the output; ``slice1.py`` says which."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan import kernels, loop_steps
from vkdml.plan.divisions import run_words
from vkdml.plan.layout import CopyLayout, Dim
from vkdml.plan.plans import (
    GPU_LINE_BYTES,
    SECTOR_BYTES,
    VECTOR_BYTES,
    DeviceLimits,
    Step,
    check_work,
    power_of_two_up_to,
)
from vkdml.plan.slice.channels import MOST_CELLS, MOST_CHANNEL_DIMS
from vkdml.plan.slice.counted_runs import is_one_run

# Words that an invocation loads together if there are fewer channels.
_LOADED_TOGETHER = 7
# The most pixels from one that is copied to the next.
_MOST_APART = 3


@dataclass(frozen=True)
class Pixels:
    """A copy of planes to pixels."""

    layout: CopyLayout
    element_bytes: int
    channel_dims: int
    """Innermost dimensions, along which elements of a pixel come from other planes."""

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions along which pixels follow each other, outermost first."""
        return self.layout.dims[: -self.channel_dims]

    @property
    def channels(self) -> int:
        return math.prod(dim.size for dim in self.layout.dims[-self.channel_dims :])

    @property
    def count(self) -> int:
        return math.prod(dim.size for dim in self.dims)

    @property
    def per_word(self) -> int:
        return 4 // self.element_bytes

    @property
    def side_by_side(self) -> bool:
        return abs(self.dims[-1].input_stride) == 1

    @property
    def share_sectors(self) -> bool:
        """Whether pixels far apart in the output lie between or beside neighbouring ones in the input.

        Beside short rows of words they do where a dimension goes on from row to row that is not the next one
        of the output: other kernels take 0.60 of the time then (7 copies on an H200, 0.24 to 0.77).
        """
        apart, row_span = abs(self.dims[-1].input_stride), self._row_span
        if any(0 < abs(dim.input_stride) < apart for dim in self.dims):
            return True
        if self.element_bytes < 4 or row_span * self.element_bytes >= GPU_LINE_BYTES:
            return False
        near = row_span + SECTOR_BYTES // self.element_bytes
        return any(row_span <= abs(dim.input_stride) < near for dim in self.dims[:-2])

    @property
    def _row_span(self) -> int:
        """Elements of the input from the first pixel of a row to where the next one would be."""
        return abs(self.dims[-1].input_stride) * self.dims[-1].size

    @property
    def input_unaligned(self) -> bool:
        """Whether words of pixels may start anywhere in a word of the input."""
        starts = [self.layout.input_base - (self.per_word - 1 if self.dims[-1].input_stride < 0 else 0)]
        starts += [dim.input_stride for dim in self.layout.dims if dim is not self.dims[-1]]
        if len(self.dims) > 1:
            starts.append(self.dims[-1].size)
        return any(start % self.per_word for start in starts)


def pixels_of(layout: CopyLayout, element_bytes: int, limits: DeviceLimits) -> Pixels | None:
    """Return the pixels of a copy of elements of up to 4 bytes; None where it has none, or others are faster.

    >>> from vkdml.plan.device_classes import DISCRETE
    >>> limits = DeviceLimits(DISCRETE, 1 << 30, 65535, 1024, 32768)
    >>> planes = CopyLayout((Dim(640_000, 1, 5), Dim(5, 640_000, 1)), 0, 0)
    >>> pixels = pixels_of(planes, 1, limits)
    >>> pixels and (pixels.count, pixels.channels)
    (640000, 5)
    """
    tuning = limits.tuning.slice1
    by_width = {width: channels for width, *channels in tuning.pixel_channels}
    if element_bytes not in by_width or layout.count * element_bytes < tuning.pixels_from_bytes:
        return None
    if not is_one_run(layout.dims) or layout.output_base * element_bytes % VECTOR_BYTES:
        return None
    fewest, most = by_width[element_bytes]
    in_row = tuning.narrow_pixels_in_row if element_bytes < 4 else 1
    for channel_dims in range(1, min(len(layout.dims), MOST_CHANNEL_DIMS + 1)):
        pixels = Pixels(layout, element_bytes, channel_dims)
        near = pixels.dims[-1]
        apart = min(abs(dim.input_stride) for dim in layout.dims[-channel_dims:])
        if pixels.channels > most or apart * element_bytes < SECTOR_BYTES:
            return None
        if pixels.channels >= fewest and 1 <= abs(near.input_stride) <= _MOST_APART:
            return pixels if near.size >= in_row and not pixels.share_sectors else None
    return None


def pixel_copy(pixels: Pixels, last_vector: int, limits: DeviceLimits) -> tuple[Step, tuple[int, ...]]:
    """Return the step, and the layout words for the workspace if they do not fit the push constants.

    Raises:
        TooMuchWork: more pixels than the kernel counts.
    """
    layout, channels = pixels.layout, pixels.channels
    check_work("pixels", pixels.count)
    *groups, channel = layout.dims[-pixels.channel_dims :]
    at_once = max(_LOADED_TOGETHER // channels, 1)
    workgroup_size = min(
        limits.workgroup_size, power_of_two_up_to(MOST_CELLS[pixels.element_bytes] // (at_once * channels))
    )
    shares = ceil_div(pixels.count, workgroup_size * at_once * pixels.per_word)
    family = kernels.family("slice1_pixels")
    placed = family.placed(run_words(pixels.dims))
    kernel, constants = family.specialize(
        element_bytes=pixels.element_bytes,
        workgroup=workgroup_size,
        layout_in_push=placed.in_push,
        dims=len(pixels.dims),
        channels=channels,
        group_channels=channel.size,
        at_once=at_once,
        side_by_side=pixels.side_by_side,
        backward=pixels.dims[-1].input_stride < 0,
        input_unaligned=pixels.input_unaligned,
    )
    push = family.push(
        shares=shares,
        pixels=pixels.count,
        input_base=layout.input_base,
        channel_stride=channel.input_stride,
        group_stride=groups[0].input_stride if groups else 0,
        output_vector=layout.output_base * pixels.element_bytes // VECTOR_BYTES,
        last_word=last_vector * (VECTOR_BYTES // 4) + 3,
        layout_words=placed.pushed,
    )
    rounds = loop_steps.rounds_of(shares, limits.max_workgroup_count)
    loops = loop_steps.pixels(rounds, len(pixels.dims), channels, at_once, pixels.per_word)
    return Step(kernel, constants, push, limits.started(shares), loop_steps=loops), placed.stored
