"""The benchmark's cases: what is computed over which data, and the plan of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from vkdml.common import windows
from vkdml.plan import elements, kernels
from vkdml.plan.layout import canonical_copy, canonical_reduce, row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import SECTOR_BYTES, DeviceLimits, Plan
from vkdml.plan.reduce.argreduce import plan_argreduce
from vkdml.plan.slice.slice1 import plan_slice1

GIB = 1 << 30
MIB = 1 << 20
OPS = ("argmax", "argmin", "slice1")
EVERY_KERNEL = "every kernel"
"""The row of cases that are there so that each kernel of the table is timed; no other library is asked."""

CHAINED_ROWS = ("small", "logits", "sizes")
"""Rows whose kernels are so short that the way from one to the next counts: chains of them are timed, too."""


ELEMENT_BYTES = {name: element.nbytes for name, element in kernels.elements().items()}
REDUCE_ELEMENTS = (*elements.NUMPY_ELEMENTS, *elements.ML_DTYPES_ELEMENTS)
SLICE_ELEMENTS = {"float32": 4, "float16": 2, "int8": 1, "float64": 8, "complex128": 16}
"""Those of the suites' cases of slice1, one of each width, with their bytes."""
MOVED_ELEMENTS = ELEMENT_BYTES | SLICE_ELEMENTS
"""All that cases of slice1 can have, with their bytes."""
SHORT_NAMES = {name: element.short for name, element in kernels.elements().items()} | {"complex128": "c128"}

# Fewer outputs side by side in memory would be another kind of case.
_FEWEST_SIDE_BY_SIDE = 256
_LONGEST_PIXEL = 16


@dataclass(frozen=True)
class Window:
    """What a slice1 case copies from its array: half-open, then every ``step``-th, mirrored if negative."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    turned: bool = False
    """The array is read with its first two axes exchanged."""

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the axes of an array in the order in which it is read."""
        return (1, 0, *range(2, rank)) if self.turned else tuple(range(rank))


WINDOWS: dict[str, Callable[..., Window]] = {
    "copy": lambda rows, columns: Window((0, 0), (rows, columns), (1, 1)),
    "flip": lambda rows, columns: Window((0, 0), (rows, columns), (-1, -1)),
    "[::2, ::2]": lambda rows, columns: Window((0, 0), (rows, columns), (2, 2)),
    "narrow": lambda rows, columns: Window(
        (1 % rows, columns // 4 | 1 if columns > 3 else 0),
        (max(rows - 2, 1), max(columns // 2 - 1, 1)),
        (1, 1),
    ),
    "transposed": lambda rows, columns: Window((0, 0), (columns, rows), (1, 1), turned=True),
    "transposed [::2]": lambda rows, columns: Window((0, 0), (columns, rows), (2, 1), turned=True),
    "transposed [::3]": lambda rows, columns: Window((0, 0), (columns, rows), (3, 1), turned=True),
    "transposed [:3]": lambda rows, columns: Window((0, 0), (min(columns, 3), rows), (1, 1), turned=True),
    "[::-2, ::-2]": lambda rows, columns: Window((0, 0), (rows, columns), (-2, -2)),
    "[:, ::-1]": lambda rows, columns: Window((0, 0), (rows, columns), (1, -1)),
    "[:, ::3]": lambda rows, columns: Window((0, 0), (rows, columns), (1, 3)),
    "turned": lambda lines, line, channels: Window(
        (0, 0, 0), (line, lines, channels), (1, 1, 1), turned=True
    ),
}
"""By name, what is copied of a matrix, or of an image with channels."""
_WINDOWS_OF_IMAGES = ("turned",)


def windows_of_rank(rank: int) -> list[str]:
    """Return the names of the windows that arrays of so many dimensions have.

    >>> windows_of_rank(3)
    ['turned']
    """
    return [name for name in WINDOWS if rank == (3 if name in _WINDOWS_OF_IMAGES else 2)]


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
    channels: int = 1
    """slice1 writes one channel of an array of so many: what it copies lies so many elements apart."""

    @property
    def name(self) -> str:
        """Say what it is, in a few words; no two cases of a suite have one name."""
        short = SHORT_NAMES[self.element]
        shape = "x".join(map(_short_size, self.shape))
        if self.op == "slice1":
            of_channels = f", 1 of {self.channels} channels" if self.channels > 1 else ""
            return f"{self.window} {short} {shape}{of_channels}"
        words = [short, shape + ("[::2]" if self.alternate else "") + (".T" if self.transposed else "")]
        words.append(axes_in_words(self.axis))
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
        return MOVED_ELEMENTS[self.element]

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
        step = abs(window_of(self).steps[-1])
        return self.outputs * max(self.element_bytes, min(step * self.element_bytes, SECTOR_BYTES))

    def index_bytes(self, of_run: int) -> int:
        """Bytes of an index in a run whose indices have so many."""
        return 8 if self.wide_indices else of_run

    def written_bytes(self, index_bytes: int) -> int:
        """Bytes of the results, with the channels beside them."""
        if self.op == "slice1":
            return self.outputs * self.element_bytes * self.channels
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


def axes_in_words(axis: tuple[int, ...] | None) -> str:
    """Say which axes are reduced, as names of cases do.

    >>> axes_in_words(None), axes_in_words((0, 2))
    ('all', 'ax 0,2')
    """
    return "all" if axis is None else "ax " + ",".join(map(str, axis))


def _short_size(size: int) -> str:
    for unit, letter in ((GIB, "G"), (MIB, "M")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def window_of(case: Case) -> Window:
    """Return what a slice1 case copies."""
    return WINDOWS[case.window](*case.shape)


def _steps_taken(case: Case) -> tuple[int, ...]:
    window = window_of(case)
    return tuple(map(windows.taken, window.sizes, window.steps))


def copied_view(case: Case) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return shape, strides and first offset, in elements, of what a slice1 case copies."""
    window = window_of(case)
    in_memory = row_major_strides(case.shape)
    strides = [in_memory[axis] for axis in window.axes(len(in_memory))]
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
        written = tuple(stride * case.channels for stride in row_major_strides(shape))
        layout = canonical_copy(shape, strides, written, input_base=base)
        written_elements = math.prod(shape) * case.channels
        return plan_slice1(layout, case.element_bytes, elements, limits, output_elements=written_elements)
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
