"""A sweep's copies that read memory several times: repeats, windows that overlap, patches of images."""

from __future__ import annotations

import math
from random import Random

from vkdml.bench.cases import ELEMENT_BYTES
from vkdml.bench.sweep import COPY, ELEMENTS, SweepCase, SweepView
from vkdml.plan.layout import row_major_strides

REPEATS = (2, 3, 4, 7, 16, 50, 100, 1000)
TWICE_REPEATED_SHARE = 0.4
"""Share of the arrays that have two axes and more."""
WINDOWS = (2, 3, 4, 5, 8, 16, 31, 64, 400)
SIDES = (28, 32, 56, 64, 96, 100, 128, 224, 256, 299, 384, 480, 512, 513, 640, 720, 1080)
PATCHES = (2, 3, 3, 5, 7)
CHANNELS = (1, 3, 16, 64)
_SIZES = (3, 7, 16, 64, 100, 513, 1000, 4096)


def repeated_case(seed: int, number: int, most_bytes: int) -> SweepCase:
    """Return a case of a sweep of such copies; it depends on these arguments alone, and on no other case.

    >>> repeated_case(7, 1, 1 << 20).name
    'slice1 i8 windows 1x2621x400 of 1x3020 strides 3020,1,1'

    Args:
        seed: of the sweep.
        number: of the case, from 0.
        most_bytes: of the copy, which is at least half as large.
    """
    random = Random(f"vkdml sweep of repeats {seed} {number}")
    element, draw = random.choice(ELEMENTS), random.choice((_repeats, _windows, _patches))
    most = max(most_bytes // ELEMENT_BYTES[element], 1)
    while True:
        shape, view = draw(random, most)
        if most / 2 <= math.prod(view.sizes) <= most:
            identity = tuple(range(len(shape)))
            return SweepCase(seed, number, COPY, element, shape, identity, view=view)


def _repeats(random: Random, most: int) -> tuple[tuple[int, ...], SweepView]:
    """Draw an array, and one or two axes along which it is repeated."""
    rank = random.choice((1, 2, 3))
    twice = rank > 1 and random.random() < TWICE_REPEATED_SHARE
    times = [random.choice(REPEATS) for _ in range(2 if twice else 1)]
    shape = [random.choice(_SIZES) for _ in range(rank - 1)]
    shape.insert(random.randrange(rank), max(most // math.prod((*shape, *times)), 1))
    axes = list(zip(shape, row_major_strides(tuple(shape)), strict=True))
    for each in times:
        axes.insert(random.randrange(len(axes) + 1), (each, 0))
    return tuple(shape), _view("repeats", axes)


def _windows(random: Random, most: int) -> tuple[tuple[int, ...], SweepView]:
    """Draw rows, and windows along them that overlap or follow each other."""
    rows, width = random.choice((1, 1, 16, 1000)), random.choice(WINDOWS)
    hop = random.choice((1, 1, 1, 2, 4, width))
    hop = min(hop, width)
    count = max(most // (rows * width), 1)
    length = (count - 1) * hop + width
    places, within = (count, hop), (width, 1)
    inner = (places, within) if random.random() < 1 / 2 else (within, places)
    return (rows, length), _view("windows", [(rows, length), *inner])


def _patches(random: Random, most: int) -> tuple[tuple[int, ...], SweepView]:
    """Draw images, and patches around their pixels."""
    side, channels, hop = random.choice(PATCHES), random.choice(CHANNELS), random.choice((1, 1, 2))
    down, across = ((random.choice(SIDES) - side) // hop + 1 for _ in range(2))
    height, width = ((count - 1) * hop + side for count in (down, across))
    images = max(most // (side * side * channels * down * across), 1)
    if random.random() < 1 / 2:  # channels last
        shape: tuple[int, ...] = images, height, width, channels
        image, row, pixel, channel = row_major_strides(shape)
    else:
        shape = images, channels, height, width
        image, channel, row, pixel = row_major_strides(shape)
    places = (down, hop * row), (across, hop * pixel)
    within = (side, row), (side, pixel)
    every, colours = (images, image), (channels, channel)
    order = random.choice(
        (
            (every, *places, colours, *within),
            (every, *places, *within, colours),
            (every, colours, *within, *places),
            (colours, *within, every, *places),
        )
    )
    return shape, _view("patches", [axis for axis in order if axis[0] > 1])


def _view(kind: str, axes: list[tuple[int, int]]) -> SweepView:
    sizes, strides = zip(*axes, strict=True)
    return SweepView(kind, tuple(sizes), tuple(strides))
