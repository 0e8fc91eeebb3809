"""The benchmark's cases: what is computed over which data, the plan of each, and the suites they form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vkdml.common import windows
from vkdml.plan import elements, kernels
from vkdml.plan.layout import canonical_copy, canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits, Plan
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.slice.slice1 import plan_slice1

GIB = 1 << 30
MIB = 1 << 20
OPS = ("argmax", "argmin", "slice1")
SUITES = ("quick", "full", "latency", "slice", "real", "short")
EVERY_KERNEL = "every kernel"
"""The row of cases that are there so that each kernel of the table is timed; no other library is asked."""

CHAINED_ROWS = ("small", "logits", "sizes")
"""Rows whose kernels are so short that the way from one to the next counts: chains of them are timed, too."""

INDEXING_FAMILIES = ("gather_places", "gather_elements")
"""No operators: ``bench/gather.py`` times indexing by arrays, each kernel of these families."""

ELEMENT_BYTES = {name: element.nbytes for name, element in kernels.elements().items()}
REDUCE_ELEMENTS = (*elements.NUMPY_ELEMENTS, *elements.ML_DTYPES_ELEMENTS)
SLICE_ELEMENTS = {"float32": 4, "float16": 2, "int8": 1, "float64": 8, "complex128": 16}
SHORT_NAMES = {name: element.short for name, element in kernels.elements().items()} | {"complex128": "c128"}

# Memory is read and written in pieces of this size at least.
SECTOR_BYTES = 32
# Fewer outputs side by side in memory would be another kind of case.
_FEWEST_SIDE_BY_SIDE = 256
_LONGEST_PIXEL = 16


@dataclass(frozen=True)
class Window:
    """What a slice1 case copies from its array: half-open, then every ``step``-th, mirrored if negative."""

    offsets: tuple[int, int]
    sizes: tuple[int, int]
    steps: tuple[int, int]
    transposed: bool = False


WINDOWS: dict[str, Callable[[int, int], Window]] = {
    "copy": lambda rows, columns: Window((0, 0), (rows, columns), (1, 1)),
    "flip": lambda rows, columns: Window((0, 0), (rows, columns), (-1, -1)),
    "[::2, ::2]": lambda rows, columns: Window((0, 0), (rows, columns), (2, 2)),
    "narrow": lambda rows, columns: Window(
        (1 % rows, columns // 4 | 1 if columns > 3 else 0),
        (max(rows - 2, 1), max(columns // 2 - 1, 1)),
        (1, 1),
    ),
    "transposed": lambda rows, columns: Window((0, 0), (columns, rows), (1, 1), transposed=True),
    "transposed [::2]": lambda rows, columns: Window((0, 0), (columns, rows), (2, 1), transposed=True),
    "transposed [::3]": lambda rows, columns: Window((0, 0), (columns, rows), (3, 1), transposed=True),
    "transposed [:3]": lambda rows, columns: Window((0, 0), (min(columns, 3), rows), (1, 1), transposed=True),
    "[::-2, ::-2]": lambda rows, columns: Window((0, 0), (rows, columns), (-2, -2)),
    "[:, ::-1]": lambda rows, columns: Window((0, 0), (rows, columns), (1, -1)),
    "[:, ::3]": lambda rows, columns: Window((0, 0), (rows, columns), (1, 3)),
}


@dataclass(frozen=True)
class Case:
    """One thing to time. ``shape`` is that of the contiguous array in memory."""

    row: str
    """The row of a report's table that it belongs to, or what else it is there for."""
    op: str
    element: str
    shape: tuple[int, ...]
    axis: tuple[int, ...] | None = None
    """None reduces all axes, and is what slice1 has."""
    data: str = "bits"
    """``bits``, ``nan_rich``, ``ascending``, ``constant`` or ``equal``: see :mod:`vkdml.bench.contents`."""
    direction: str = "increasing"
    nan_policy: str = "propagate"
    return_values: bool = False
    alternate: bool = False
    """Only every second element of the last axis takes part: ``x[..., ::2]``."""
    window: str = ""
    """For slice1, one of :data:`WINDOWS`."""
    scaled_from: tuple[int, ...] | None = None
    """The shape that was meant, if this device gets a smaller one."""
    transposed: bool = False
    """The array, or what takes part of it, is read with its axes in reverse order: ``x.T``."""
    wide_indices: bool = False
    """Indices have 8 bytes, as those of public calls without ``dtype=``, whatever type the run has else."""

    @property
    def name(self) -> str:
        """Say what it is, in a few words; no two cases of a suite have one name."""
        short = SHORT_NAMES[self.element]
        shape = "x".join(map(_short_size, self.shape))
        if self.op == "slice1":
            return f"{self.window} {short} {shape}"
        words = [short, shape + ("[::2]" if self.alternate else "") + (".T" if self.transposed else "")]
        words.append("all" if self.axis is None else "ax " + ",".join(map(str, self.axis)))
        if self.op != "argmax":
            words.insert(0, self.op)
        if self.data != "bits":
            words.append(self.data.replace("_", "-"))
        if self.direction != "increasing":
            words.append("last")
        if self.nan_policy != "propagate":
            words.append("omit")
        if self.wide_indices:
            words.append("int64")
        if self.return_values:
            words.append("values")
        return " ".join(words)

    @property
    def element_bytes(self) -> int:
        return SLICE_ELEMENTS[self.element] if self.op == "slice1" else ELEMENT_BYTES[self.element]

    @property
    def axes(self) -> tuple[int, ...]:
        """The reduced axes, ascending; none for slice1."""
        if self.op == "slice1":
            return ()
        return tuple(range(len(self.shape))) if self.axis is None else self.axis

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of what takes part."""
        sizes = (*self.shape[:-1], (self.shape[-1] + 1) // 2) if self.alternate else self.shape
        return sizes[::-1] if self.transposed else sizes

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of what takes part, in elements."""
        strides = row_major_strides(self.shape)
        if self.alternate:
            strides = (*strides[:-1], 2)
        return strides[::-1] if self.transposed else strides

    @property
    def outputs(self) -> int:
        if self.op == "slice1":
            return math.prod(_steps_taken(self))
        return math.prod(size for axis, size in enumerate(self.sizes) if axis not in self.axes)

    @property
    def input_bytes(self) -> int:
        """Bytes of the array in memory."""
        return math.prod(self.shape) * self.element_bytes

    @property
    def read_bytes(self) -> int:
        """Bytes that have to be read: whole sectors where a step skips elements within one."""
        if self.op != "slice1":
            return self.input_bytes
        step = abs(WINDOWS[self.window](self.shape[0], self.shape[1]).steps[1])
        return self.outputs * max(self.element_bytes, min(step * self.element_bytes, SECTOR_BYTES))

    def index_bytes(self, of_run: int) -> int:
        """Bytes of an index in a run whose indices have so many."""
        return 8 if self.wide_indices else of_run

    def written_bytes(self, index_bytes: int) -> int:
        """Bytes of the results."""
        if self.op == "slice1":
            return self.outputs * self.element_bytes
        return self.outputs * (
            self.index_bytes(index_bytes) + (self.element_bytes if self.return_values else 0)
        )

    @property
    def content(self) -> str:
        """Which bytes it needs: cases with one content can share a buffer."""
        if self.element == "bool":
            return "flags"
        if self.data in ("bits", "constant"):
            return self.data
        return f"{self.data} {self.element}"

    @property
    def is_chained(self) -> bool:
        """Whether a chain of it is timed, too."""
        return self.row in CHAINED_ROWS

    @property
    def is_compared(self) -> bool:
        """Whether other libraries are timed on it: they have neither its options nor its special data."""
        return (
            self.row != EVERY_KERNEL
            and self.data == "bits"
            and self.direction == "increasing"
            and self.nan_policy == "propagate"
            and not self.return_values
        )


def _short_size(size: int) -> str:
    for unit, letter in ((GIB, "G"), (MIB, "M")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def _steps_taken(case: Case) -> tuple[int, ...]:
    window = WINDOWS[case.window](case.shape[0], case.shape[1])
    return tuple(map(windows.taken, window.sizes, window.steps))


def copied_view(case: Case) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return shape, strides and first offset, in elements, of what a slice1 case copies."""
    window = WINDOWS[case.window](case.shape[0], case.shape[1])
    strides = row_major_strides(case.shape)
    if window.transposed:
        strides = strides[::-1]
    base, stepped = windows.placed(window.offsets, window.sizes, window.steps, strides)
    return _steps_taken(case), stepped, base


def plan_of(case: Case, limits: DeviceLimits, index_bytes: int = 4) -> Plan:
    """Return the plan of a case. Pure: no device is needed.

    Raises:
        MemoryError: it does not fit the device's buffers; see :func:`fitted`.
    """
    elements = math.prod(case.shape)
    if case.op == "slice1":
        shape, strides, base = copied_view(case)
        layout = canonical_copy(shape, strides, row_major_strides(shape), input_base=base)
        return plan_slice1(layout, case.element_bytes, elements, limits)
    take_last = case.direction == "decreasing"
    kept = tuple(1 if axis in case.axes else size for axis, size in enumerate(case.sizes))
    reduction = canonical_reduce(
        case.sizes, case.strides, case.axes, row_major_strides(kept), take_last=take_last
    )
    return plan_argreduce(
        reduction,
        Order(case.element, case.op == "argmin", take_last, case.nan_policy == "omit"),
        elements,
        limits,
        index_bytes=case.index_bytes(index_bytes),
        with_values=case.return_values,
    )


def fitted(case: Case, most_bytes: int) -> Case:
    """Return the case with an input of at most so many bytes: itself, or one that says what it was.

    Kept axes are halved first, the outermost of them down to 1, so that what is reduced keeps its size as
    long as it can; odd sizes stay odd.
    """
    shape = list(case.shape)
    while math.prod(shape) * case.element_bytes > most_bytes and max(shape) > 1:
        if case.op == "slice1":
            long = max(shape) > _LONGEST_PIXEL
            shape = [size if long and size <= _LONGEST_PIXEL else max(1, size // 2) for size in shape]
            continue
        fewest = [_FEWEST_SIDE_BY_SIDE if axis == len(shape) - 1 else 1 for axis in range(len(shape))]
        axes = [len(shape) - 1 - axis for axis in case.axes] if case.transposed else case.axes
        kept = [axis for axis, size in enumerate(shape) if axis not in axes and size > fewest[axis]]
        axis = kept[0] if kept else max(range(len(shape)), key=lambda axis: shape[axis])
        shape[axis] = shape[axis] // 2 | shape[axis] % 2
    if tuple(shape) == case.shape:
        return case
    return replace(case, shape=tuple(shape), scaled_from=case.shape)


def fitted_suite(cases: Iterable[Case], most_bytes: int) -> list[Case]:
    """Fit all cases; of those that have become the same one, the first stays."""
    by_name: dict[str, Case] = {}
    for case in cases:
        smaller = fitted(case, most_bytes)
        by_name.setdefault(smaller.name, smaller)
    return list(by_name.values())


# ---- the suites ---------------------------------------------------------------------------------


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

    Every element type along rows, columns, odd columns, short blocks and strides, with many outputs and with
    few; odd columns of few rows, and in several matrices; rows of 3 and stacks of 7; stacks of 5 whose
    outputs are transposed; every second element of matrices, transposed; pixels turned from RGB to BGR, and
    to planes; every third of 9 channels, the first 3 of 80; narrow rows backwards, and every third element of
    them; the greatest of each pixel over all pictures; one element alone.
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
        if size < 4:
            for window in ("[:, ::-1]", "[:, ::3]"):
                yield Case(EVERY_KERNEL, "slice1", element, (side, side), window=window)
            for columns, window in ((9, "transposed [::3]"), (80, "transposed [:3]")):
                shape = (256 * MIB // (columns * size), columns)
                yield Case(EVERY_KERNEL, "slice1", element, shape, window=window)
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
