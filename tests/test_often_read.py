"""Copies of memory that is read several times, and of pixels: their kernels, and what these write."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plans import GPU_LIMITS, run_plan

from vkdml.plan.device_classes import DISCRETE
from vkdml.plan.layout import canonical_copy, row_major_strides, span_of
from vkdml.plan.slice import often_read
from vkdml.plan.slice.slice1 import plan_slice1

# Sizes and strides of the input, in elements.
CASES = {
    "bytes, each repeated": (1, (268435, 1000), (1, 0), "slice1_words_1"),
    "bytes, each repeated to fill a long row": (1, (1000, 65536), (1, 0), "slice1_rows_1"),
    "a row of bytes that is repeated": (1, (523263, 513), (0, 1), "slice1_rows_forward_1"),
    "windows of halves in long rows": (2, (31, 1082401), (1, 1), "slice1_runs_forward_2"),
    "windows of halves in rows of whole vectors": (2, (4194304, 8), (1, 1), "slice1_runs_forward_2"),
    "windows of halves in short rows": (2, (4329604, 31), (1, 1), "slice1_words_2"),
    "images of words repeated": (4, (145, 3, 100, 3, 513), (51300, 0, 513, 0, 1), "slice1_runs_4"),
    "patches of words along six dimensions": (
        4,
        (16, 2, 2, 5, 383, 479),
        (184320, 480, 1, 2949120, 480, 1),
        "slice1_words_4",
    ),
    "windows of 8 bytes": (8, (64, 524288), (1, 1), "slice1_rows_8"),
    "patches of 8 bytes": (8, (16, 3, 3, 718, 222), (161280, 224, 1, 224, 1), "slice1_runs_8"),
    "windows of 16 bytes": (16, (64, 65536), (1, 1), "slice1_runs_16"),
    "patches of halves, 7 wide": (
        2,
        (3, 634, 22, 64, 7, 7),
        (1146880, 28, 1, 17920, 28, 1),
        "slice1_words_2",
    ),
    "patches of bytes of many channels, 2 wide": (
        1,
        (8, 511, 255, 16, 2, 2),
        (2097152, 256, 1, 131072, 256, 1),
        "slice1_boxes_1",
    ),
    "a colour of words everywhere": (4, (22369621, 3), (0, 1), "slice1_words_4"),
    "pixels of 21 bytes, turned": (1, (96, 128, 260, 21), (2688, 21, 258048, 1), "slice1_pixel_tiles_1"),
    "pixels of 33 bytes, turned": (1, (138240, 14, 33), (33, 4561920, 1), "slice1_words_1"),
    "pixels of 22 bytes, turned": (2, (299, 256, 39, 11), (2816, 11, 841984, 1), "slice1_pixel_tiles_2"),
    "patches of pixels of 28 bytes": (
        4,
        (6987, 14, 7, 14, 7),
        (9604, 686, 7, 98, 1),
        "slice1_rows_4",
    ),
    "pixels of 44 bytes of words, turned": (4, (480, 299, 10, 11), (11, 5280, 1578720, 1), "slice1_words_4"),
    "two columns of 16 bytes": (16, (2, 3355443), (1, 5), "slice1_runs_16"),
    "channels that lie a line apart": (4, (4, 2097152), (1, 32), "slice1_tiles_4"),
}


def layout_of(sizes, strides):
    return canonical_copy(sizes, strides, row_major_strides(sizes))


def plan(element_bytes, sizes, strides, limits):
    layout = layout_of(sizes, strides)
    return plan_slice1(layout, element_bytes, span_of(layout.dims), limits)


@pytest.mark.parametrize("name", CASES)
def test_kernels_that_gpus_have(name):
    element_bytes, sizes, strides, kernel = CASES[name]
    (step,) = plan(element_bytes, sizes, strides, GPU_LIMITS).steps
    assert step.kernel == f"{kernel}_bytes"


@pytest.mark.parametrize("name", CASES)
def test_what_they_write(device, name):
    """The same cases with fewer repetitions, and elements before the first and after the last."""
    element_bytes, sizes, strides, _ = CASES[name]
    sizes = smaller(sizes, strides, element_bytes)
    limits = replace(device.limits, tuning=DISCRETE, max_shared_memory=48 << 10)
    layout = replace(layout_of(sizes, strides), input_base=3)
    elements = span_of(layout.dims) + 5
    planned = plan_slice1(layout, element_bytes, elements, limits)
    content = np.random.default_rng(len(name)).integers(0, 256, elements * element_bytes, np.uint8)
    nbytes = dict(planned.buffer_bytes)
    start = {
        "input": np.resize(content, nbytes["input"]),
        "output": np.full(nbytes["output"], 0xA5, np.uint8),
    }
    if nbytes["workspace"]:
        start["workspace"] = np.array(planned.layout, np.uint32).view(np.uint8)
    written = run_plan(device, planned, start, ("output",))["output"]
    source = content.view(f"V{element_bytes}")[3:]
    expected = np.lib.stride_tricks.as_strided(
        source, sizes, tuple(stride * element_bytes for stride in strides)
    )
    count = math.prod(sizes) * element_bytes
    assert written[:count].tobytes() == expected.tobytes()
    assert (written[count:] == 0xA5).all()


def smaller(sizes, strides, element_bytes):
    """Halve the longest dimensions until a software driver copies it in a moment."""
    sizes = list(sizes)
    while math.prod(sizes) * element_bytes > 1 << 19 or extent(sizes, strides) * element_bytes > 1 << 24:
        at = max(range(len(sizes)), key=lambda place: sizes[place])
        sizes[at] = (sizes[at] + 1) // 2
    return tuple(sizes)


def extent(sizes, strides):
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def test_reads_are_counted_in_the_memory_between_the_first_and_the_last():
    assert often_read.reads_of_each(layout_of((100, 7), (7, 1))) == 1
    assert often_read.reads_of_each(layout_of((100, 7), (9, 1))) < 1
    assert not often_read.is_read_often(layout_of((100, 2), (1, 1)))
    assert often_read.is_read_often(layout_of((100, 4), (1, 1)))
