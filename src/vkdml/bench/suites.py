"""The suites of the benchmark's cases, and which kernels they use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from vkdml.bench.cases import (
    ELEMENT_BYTES,
    EVERY_KERNEL,
    GIB,
    MIB,
    REDUCE_ELEMENTS,
    SLICE_ELEMENTS,
    Case,
    plan_of,
)
from vkdml.plan import kernels
from vkdml.plan.plans import DeviceLimits

SUITES = ("quick", "full", "latency", "slice", "real", "short")

INDEXING_FAMILIES = ("gather_places", "gather_elements")
"""No operators: ``bench/gather.py`` times indexing by arrays, each kernel of these families."""


def suite(name: str) -> list[Case]:
    """Return the cases of a suite; ``latency`` has none of this kind."""
    made = {
        "quick": _quick,
        "full": _full,
        "latency": _none,
        "slice": _slices,
        "real": _real,
        "short": _short,
    }[name]()
    by_name: dict[str, Case] = {}
    for case in made:
        by_name.setdefault(case.name, case)
    return list(by_name.values())


def _none() -> Iterator[Case]:
    return iter(())


def _reduce(
    row: str,
    element: str,
    shape: Sequence[int],
    axis: int | tuple[int, ...] | None,
    op: str = "argmax",
) -> Case:
    axes = (axis % len(shape),) if isinstance(axis, int) else axis
    return Case(row, op, element, tuple(shape), axes)


def _one_gib(element: str, shape: Sequence[int], grown: int) -> tuple[int, ...]:
    """Return the shape with the given axis as long as it makes 1 GiB."""
    others = math.prod(size for axis, size in enumerate(shape) if axis != grown) * ELEMENT_BYTES[element]
    return tuple(GIB // others if axis == grown else size for axis, size in enumerate(shape))


def _all_axes(element: str, nbytes: int = GIB) -> tuple[int, ...]:
    return (nbytes // ELEMENT_BYTES[element],)


_MAIN = ("float32", "float16", "int8", "int64")


def _full() -> Iterator[Case]:
    yield from _whole_arrays()
    yield from _two_axes()
    yield from _three_axes()
    yield from _segmentation()
    yield from _short()
    yield from _slices()
    yield from _hard_data()
    yield from _options()
    yield from _many_results()
    yield from _real()
    yield from _every_kernel()


def _whole_arrays() -> Iterator[Case]:
    for element in REDUCE_ELEMENTS:
        yield _reduce("all axes", element, _all_axes(element), None)


def _two_axes() -> Iterator[Case]:
    for shape in ((4096, 65536), (65536, 4096)):
        for element in _MAIN:
            yield _reduce("last axis", element, _one_gib(element, shape, 0), 1)
    for shape in ((4096, 65536), (65536, 4096)):
        for element in _MAIN:
            yield _reduce("axis 0", element, _one_gib(element, shape, 1), 0)
    for element in _MAIN:
        yield _reduce("short rows", element, _one_gib(element, (MIB, 256), 0), 1)
    for element in _MAIN:
        yield _reduce("short columns", element, _one_gib(element, (256, MIB), 1), 0)


def _three_axes() -> Iterator[Case]:
    for element in _MAIN[:3]:
        yield _reduce("middle axis", element, _one_gib(element, (64, 1024, 4096), 0), 1)
    for element in _MAIN[:3]:
        yield _reduce("axes 0 and 2", element, _one_gib(element, (64, 1024, 4096), 1), (0, 2))
    for element in ("float32", "float16", "bfloat16", "int8"):
        yield _reduce("150 classes", element, (8, 150, 512, 512), 1)
        yield _reduce("cube", element, _one_gib(element, (1024, 1024, 1024), 0), 1)
        yield _reduce("stack of 8", element, _one_gib(element, (8, 4096, 4096), 1), 0)


def _segmentation() -> Iterator[Case]:
    for element in _MAIN[:3]:
        yield _reduce("segmentation", element, (64, 21, 513, 513), 1)


def _logits() -> Iterator[Case]:
    for count in (32000, 128256, 262144):
        for element in ("float32", "float16", "bfloat16"):
            yield _reduce("logits", element, (1, count), 1)
    for shape in ((8, 151936), (64, 128256), (256, 151936)):
        yield _reduce("logits", "float32", shape, 1)
        yield _reduce("logits", "float16", shape, 1)


def _short() -> Iterator[Case]:
    yield from _logits()
    for element in REDUCE_ELEMENTS:
        yield _reduce("small", element, (32, 1024), 1)
        yield _reduce("small", element, (4096, 8), 1)
    for mib in (1, 4, 16, 64, 256):
        yield _reduce("sizes", "float32", _all_axes("float32", mib * MIB), None)


_MAIN_WINDOWS = ("copy", "flip", "[::2, ::2]", "narrow", "transposed")


def _slices() -> Iterator[Case]:
    for element, size in SLICE_ELEMENTS.items():
        side = math.isqrt(GIB // size) // 64 * 64
        for window in _MAIN_WINDOWS:
            yield Case("slice1", "slice1", element, (side, side), window=window)


def _plain_layouts(element: str) -> Iterator[Case]:
    yield _reduce("", element, _all_axes(element), None)
    yield _reduce("", element, _one_gib(element, (4096, 65536), 0), 1)
    yield _reduce("", element, _one_gib(element, (4096, 65536), 1), 0)


def _hard_data() -> Iterator[Case]:
    # Kind by kind, so that no more than one content has to lie in memory.
    for data in ("nan_rich", "ascending", "constant", "equal"):
        for element in ("float32", "float16"):
            for plain in _plain_layouts(element):
                yield replace(plain, row="hard data", data=data)


def _options() -> Iterator[Case]:
    for element in _MAIN[:3]:
        for plain in _plain_layouts(element):
            optional = replace(plain, row="options")
            yield replace(optional, op="argmin")
            yield replace(optional, direction="decreasing")
            if kernels.elements()[element].is_float:
                yield replace(optional, nan_policy="omit")
            yield replace(optional, return_values=True)


def _many_results() -> Iterator[Case]:
    """Yield what writes as much as it reads, or more: indices of the default type, and values."""
    for element in _MAIN:
        elements = 256 * MIB // ELEMENT_BYTES[element]
        for shape, axis in (
            ((3, elements // 3), 0),
            ((elements // 3, 3), 1),
            ((64, 21, elements // 1344), 1),
        ):
            plain = replace(_reduce("many results", element, shape, axis), wide_indices=True)
            yield plain
            yield replace(plain, return_values=True)


def _real() -> Iterator[Case]:
    yield from _segmentation()
    yield from _logits()
    yield _reduce("distance table", "float32", (65536, 4096), 1, op="argmin")
    yield _reduce("distance table", "float16", (131072, 4096), 1, op="argmin")
    yield _reduce("distance table", "float32", (MIB, 256), 1, op="argmin")
    yield _reduce("distance table", "float16", (MIB, 256), 1, op="argmin")
    yield _reduce("images", "uint8", (160, 1080, 1920, 3), 3)
    yield _reduce("images", "uint8", (500, 1080, 1920), (1, 2))
    yield _reduce("images", "uint8", (500, 1080, 1920), 0)
    yield _reduce("images", "uint8", (128, 2048, 2048), 2, op="argmin")


def _every_kernel() -> Iterator[Case]:
    """Yield what the other rows leave out.

    Every element type along rows, columns, odd columns, short blocks and strides, with many outputs and
    with few; odd columns of few rows, and in several matrices; long columns and short ones of bytes; rows
    of 3 and stacks of 7; stacks of 5 whose outputs are transposed; every second element of matrices,
    transposed; pixels from RGB to BGR, and to planes; images turned; 13 planes to pixels; every third of 9
    channels, the first 3 of 80; narrow rows backwards, and every third element of them; a part of one row,
    its every second and third element; the greatest of each pixel over all pictures; one element alone.
    """
    for element, size in ELEMENT_BYTES.items():
        elements = 256 * MIB // size
        # Large arrays of narrow elements are read by periods.
        few = elements if size >= 4 else elements // 8
        for shape, axis in (
            ((elements // 65536, 65536), 1),
            ((16, elements // 16), 1),
            ((elements // 256, 256), 1),
            ((4096, few // 4096), 0),
            ((few // 256, 256), 0),
            ((4096, few // 4096 - 1), 0),
            ((few // 256, 255), 0),
            ((elements // 3, 3), 1),
            ((elements // 70, 7, 10), 1),
            # Unaligned rows that software drivers do not read by periods: few ones, and several matrices.
            ((100, few // 100 - 1), 0),
            ((4, few // 1024, 255), 1),
            # Few rows.
            ((16, elements // 64, 4), 0),
            ((8, 17, elements // 136 - 1), 1),
        ):
            yield _reduce(EVERY_KERNEL, element, shape, axis)
        if size == 1:
            # Of bytes, only large arrays are read by phases.
            yield _reduce(EVERY_KERNEL, element, (8192, elements // 8192 - 1), 0)
            # Of bytes, few positions are loaded in pairs of words.
            for columns in (elements // 4, elements // 4 - 1):
                yield _reduce(EVERY_KERNEL, element, (4, columns), 0)
        for shape, axis in (
            ((elements // 65536, 65536), 1),
            ((elements // 65536, 65536), 0),
            ((8, elements // 8), 1),
            ((elements // 512, 512), 0),
        ):
            yield replace(_reduce(EVERY_KERNEL, element, shape, axis), alternate=True)
        yield Case(EVERY_KERNEL, "argmax", element, (elements // 4096, 4096), transposed=True)
        yield Case(EVERY_KERNEL, "argmax", element, (elements // 960, 24, 40), (0, 1), transposed=True)
        for columns in (1024, 1021):
            shape = (5, elements // (5 * columns), columns)
            yield Case(EVERY_KERNEL, "argmax", element, shape, (2,), transposed=True)
        # In periods of aligned vectors these would leave too many candidates.
        shape = {1: (600, 744, 601), 2: (600, 372, 601), 4: (800, 209, 401), 8: (2000, 128, 131)}[size]
        yield Case(EVERY_KERNEL, "argmax", element, shape, (0, 1), alternate=True, transposed=True)
        yield _reduce(EVERY_KERNEL, element, (elements // 15, 3, 5), (0, 2))
        yield _reduce(EVERY_KERNEL, element, (64, elements // 256, 4), (0, 2))
        yield _reduce(EVERY_KERNEL, element, (64, elements // 192 - 1, 3), (0, 2))
    for element, size in SLICE_ELEMENTS.items():
        side = math.isqrt(256 * MIB // size) // 64 * 64
        for window in ("[::-2, ::-2]", "transposed [::2]", "transposed [::3]"):
            yield Case(EVERY_KERNEL, "slice1", element, (side, side), window=window)
        yield Case(EVERY_KERNEL, "slice1", element, (256 * MIB // (3 * size), 3), window="[:, ::-1]")
        for columns in (3, 7):
            shape = (256 * MIB // (columns * size), columns)
            yield Case(EVERY_KERNEL, "slice1", element, shape, window="transposed")
        yield Case(EVERY_KERNEL, "slice1", element, (13, 256 * MIB // (13 * size)), window="transposed")
        if size <= 4:
            pixels = 256 * MIB // (3 * size)
            yield Case(EVERY_KERNEL, "slice1", element, (4096, pixels // 4096, 3), window="turned")
            # Lines too short for tiles.
            yield Case(EVERY_KERNEL, "slice1", element, (pixels // 5, 5, 3), window="turned")
        if size < 4:
            for window in ("[:, ::-1]", "[:, ::3]"):
                yield Case(EVERY_KERNEL, "slice1", element, (side, side), window=window)
            for columns, window in ((9, "transposed [::3]"), (80, "transposed [:3]")):
                shape = (256 * MIB // (columns * size), columns)
                yield Case(EVERY_KERNEL, "slice1", element, shape, window=window)
            for window in ("narrow", "[::2, ::2]", "[::-2, ::-2]", "[:, ::3]"):
                yield Case(EVERY_KERNEL, "slice1", element, (1, 256 * MIB // size), window=window)
        if size == 1:
            # Rows so long that processors write them without the vectors from row to row.
            for window in ("[::2, ::2]", "[::-2, ::-2]"):
                yield Case(EVERY_KERNEL, "slice1", element, (2048, 128 * 1024), window=window)
        if size <= 8:
            yield Case(EVERY_KERNEL, "slice1", element, (side, side), window="copy", channels=3)
        yield Case(EVERY_KERNEL, "slice1", element, (1, 1), window="copy")


def _quick() -> Iterator[Case]:
    for element in _MAIN:
        yield _reduce("all axes", element, _all_axes(element, 256 * MIB), None)
    for element in _MAIN[:3]:
        yield _reduce("last axis", element, (256 * MIB // ELEMENT_BYTES[element] // 4096, 4096), 1)
        yield _reduce("axis 0", element, (4096, 256 * MIB // ELEMENT_BYTES[element] // 4096), 0)
    yield _reduce("segmentation", "float16", (16, 21, 513, 513), 1)
    yield _reduce("logits", "float16", (64, 128256), 1)
    yield _reduce("small", "float32", (32, 1024), 1)
    for element, window in (("float32", "flip"), ("float16", "narrow"), ("int8", "transposed")):
        side = math.isqrt(256 * MIB // SLICE_ELEMENTS[element]) // 64 * 64
        yield Case("slice1", "slice1", element, (side, side), window=window)


def kernels_of(cases: Iterable[Case], limits: DeviceLimits) -> set[str]:
    """Return the kernels that the cases' plans use."""
    return {step.kernel for case in cases for step in plan_of(case, limits).steps}


def untimed_kernels(cases: Iterable[Case], limits: Iterable[DeviceLimits]) -> set[str]:
    """Return the operators' kernels that no plan of these cases uses under any of the limits."""
    listed = list(cases)
    operators = {
        name for name, kernel in kernels.table().items() if kernel.family.name not in INDEXING_FAMILIES
    }
    return operators - {kernel for each in limits for kernel in kernels_of(listed, each)}
