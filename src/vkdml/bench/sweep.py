"""The sweep's cases: random shapes, layouts, axes and windows, from a seed and a number alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from vkdml.bench.cases import ELEMENT_BYTES, SHORT_NAMES, axes_in_words
from vkdml.common import windows
from vkdml.common.rounding import round_up
from vkdml.plan.calls import CopyCall, Operand, ReduceCall, plan_for
from vkdml.plan.layout import row_major_strides
from vkdml.plan.order import Order
from vkdml.plan.plans import SECTOR_BYTES, DeviceLimits, Plan

SUITE = "sweep"
DATA = ("bits", "flags", "constant")
"""What a sweep's cases read, as :mod:`vkdml.bench.contents` names it: few, many or all elements are equal."""

COPY = "slice1"
OPS = ("argmax", "argmin", COPY, COPY)
REDUCTIONS = ("argmax", "argmin")
ELEMENTS = ("float32", "float16", "bfloat16", "int8", "uint8", "int64")
RANKS = (1, 2, 3, 4)
STEPS = (1, 1, 1, 1, -1, 2, 3, -2)
PERMUTED_SHARE = 0.4
"""Share of all cases. Arrays of one dimension have no other order, so more of the others are permuted."""
ALL_AXES_SHARE = 0.15
"""Share of the reductions of arrays that have more than one axis."""
WHOLE_AXIS_SHARE = 0.4
AWKWARD_SIZES = (513, 50257)
# A window of less would measure how long a dispatch takes, and not how fast it reads.
_LEAST_WINDOW_SHARE = 1 / 16
_MOST_DRAWS = 64


@dataclass(frozen=True)
class SweepWindow:
    """What takes part: half-open ranges of the view, then every ``step``-th, mirrored if negative."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def copied(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(map(windows.taken, self.sizes, self.steps))


@dataclass(frozen=True)
class SweepView:
    """A view in which elements of the array appear several times, and all of them at least once."""

    kind: str
    """In a word, such as ``repeats``."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements of the array."""


@dataclass(frozen=True)
class SweepCase:
    """One case: an array that lies in memory in row-major order, read through a permutation of its axes."""

    seed: int
    number: int
    """With the seed and the size, all that tells cases of a sweep apart."""
    op: str
    element: str
    memory_shape: tuple[int, ...]
    permutation: tuple[int, ...]
    """As of ``numpy.transpose``: the view's axis ``i`` is the array's axis ``permutation[i]``."""
    axis: tuple[int, ...] | None = None
    """The view's axes to reduce; None are all of them, and what slice1 has."""
    window: SweepWindow | None = None
    """What takes part of the view; None is all of it, which only reductions have."""
    data: str = DATA[0]
    """One of :data:`DATA`: the bytes that all cases of a sweep read, each as many as it needs."""
    view: SweepView | None = None
    """What is copied, if that is no window; the array is not permuted then."""

    @property
    def name(self) -> str:
        """Say what it is: the view's shape, the permutation if there is one, axes or window.

        >>> SweepCase(0, 0, "argmax", "float16", (64, 3, 1638), (2, 0, 1), (0, 2)).name
        'argmax f16 1638x64x3 perm 2,0,1 ax 0,2'
        >>> window = SweepWindow((0, 3), (64, 97), (2, 1))
        >>> SweepCase(0, 0, "argmin", "int8", (64, 100), (0, 1), (1,), window).name
        'argmin i8 64x100 [0:64:2,3:100] ax 1'
        """
        if self.view is not None:
            sizes, shape = ("x".join(map(str, each)) for each in (self.view.sizes, self.memory_shape))
            strides = ",".join(map(str, self.view.strides))
            of = f"{self.op} {SHORT_NAMES[self.element]} {self.view.kind}"
            return f"{of} {sizes} of {shape} strides {strides}"
        words = [self.op, SHORT_NAMES[self.element], "x".join(map(str, self.sizes))]
        if self.is_permuted:
            words.append("perm " + ",".join(map(str, self.permutation)))
        if self.window is not None:
            words.append("[" + ",".join(map(_said_of_cut, self.cuts)) + "]")
        if not self.is_copy:
            words.append(axes_in_words(self.axis))
        return " ".join(words)

    @property
    def is_copy(self) -> bool:
        """Whether it is slice1, and no reduction."""
        return self.op == COPY

    @property
    def is_permuted(self) -> bool:
        return self.permutation != tuple(range(len(self.permutation)))

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.element]

    @property
    def elements(self) -> int:
        """Of the array in memory."""
        return math.prod(self.memory_shape)

    @property
    def input_bytes(self) -> int:
        """Bytes of the array in memory."""
        return self.elements * self.element_bytes

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of the view."""
        return tuple(self.memory_shape[axis] for axis in self.permutation)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the view, in elements."""
        strides = row_major_strides(self.memory_shape)
        return tuple(strides[axis] for axis in self.permutation)

    @property
    def axes(self) -> tuple[int, ...]:
        """The view's reduced axes, ascending; none for slice1."""
        if self.is_copy:
            return ()
        return tuple(range(len(self.permutation))) if self.axis is None else self.axis

    @property
    def outputs(self) -> int:
        return math.prod(size for axis, size in enumerate(self.source.sizes) if axis not in self.axes)

    @property
    def cuts(self) -> tuple[slice, ...]:
        """The window, as Python's slices of the view."""
        window = self.window
        assert window is not None
        return tuple(map(windows.as_slice, window.offsets, window.sizes, window.steps))

    @property
    def source(self) -> Operand:
        """Where the elements lie that take part."""
        if self.view is not None:
            return Operand(self.view.sizes, self.view.strides, 0, self.elements)
        if self.window is None:
            return Operand(self.sizes, self.strides, 0, self.elements)
        window = self.window
        base, strides = windows.placed(window.offsets, window.sizes, window.steps, self.strides)
        return Operand(window.copied, strides, base, self.elements)

    def call(self, index_bytes: int = 4) -> ReduceCall | CopyCall:
        """Return it as the planner's call."""
        if self.is_copy:
            return CopyCall(self.source, Operand.compact(self.source.sizes), self.element_bytes)
        kept = tuple(1 if axis in self.axes else size for axis, size in enumerate(self.source.sizes))
        order = Order(self.element, take_min=self.op == "argmin")
        return ReduceCall(self.source, self.axes, order, Operand.compact(kept), index_bytes, False)

    def plan(self, limits: DeviceLimits, index_bytes: int = 4) -> Plan:
        """Plan it. Pure: no device is needed.

        Raises:
            MemoryError: a buffer would exceed the device's limit.
            ValueError: indices that do not fit, or more work than a dispatch does.
        """
        greatest = math.prod(self.source.sizes[axis] for axis in self.axes) - 1
        if greatest >= 1 << (8 * index_bytes - 1):
            raise ValueError(
                f"indices up to {greatest} do not fit int{8 * index_bytes}; accepted is --index-dtype int64"
            )
        return plan_for(self.call(index_bytes), limits)

    @property
    def read_bytes(self) -> int:
        """Bytes of the sectors that hold an element which takes part."""
        if self.view is not None:
            return round_up(self.input_bytes, SECTOR_BYTES)
        return sector_bytes(self.source, self.element_bytes)

    def written_bytes(self, index_bytes: int = 4) -> int:
        """Bytes of the sectors that hold the result."""
        each = self.element_bytes if self.is_copy else index_bytes
        return round_up(self.outputs * each, SECTOR_BYTES)


def command(
    seed: int, number: int, mib: int, *, windows: bool = False, repeated: bool = False, data: str = DATA[0]
) -> str:
    """Return the command that runs one case alone.

    >>> command(7, 42, 512)
    'vkdml bench --suite sweep --seed 7 --case 42 --mib 512'
    """
    of_windows = " --windows" if windows else " --repeated" if repeated else ""
    of_data = "" if data == DATA[0] else f" --data {data}"
    return f"vkdml bench --suite {SUITE}{of_windows}{of_data} --seed {seed} --case {number} --mib {mib}"


def _said_of_cut(cut: slice) -> str:
    stop = "" if cut.stop is None else cut.stop
    return f"{cut.start}:{stop}" if cut.step == 1 else f"{cut.start}:{stop}:{cut.step}"


def sweep_case(
    seed: int, number: int, most_bytes: int, *, windows: bool = False, data: str = DATA[0]
) -> SweepCase:
    """Return a case of a sweep; it depends on these arguments alone, and on no other case.

    Args:
        seed: of the sweep.
        number: of the case, from 0.
        most_bytes: of the array, which is nearly as large.
        windows: reduce what slice1 copies else.
        data: what the array holds, one of :data:`DATA`.
    """
    case = replace(_whole_or_copy(seed, number, most_bytes), data=data)
    if not (windows and case.is_copy):
        return case
    random = Random(f"vkdml sweep of windows {seed} {number}")
    return replace(case, op=random.choice(REDUCTIONS), axis=_axes(random, len(case.permutation)))


def _axes(random: Random, rank: int) -> tuple[int, ...] | None:
    if rank == 1 or random.random() < ALL_AXES_SHARE:
        return None
    return tuple(sorted(random.sample(range(rank), random.randrange(1, rank))))


def _whole_or_copy(seed: int, number: int, most_bytes: int) -> SweepCase:
    random = Random(f"vkdml sweep {seed} {number}")
    op = random.choice(OPS)
    element = random.choice(ELEMENTS)
    rank = random.choice(RANKS)
    shape = _shape(random, rank, most_bytes // ELEMENT_BYTES[element])
    permutation = tuple(range(rank))
    several_share = sum(each > 1 for each in RANKS) / len(RANKS)
    if rank > 1 and random.random() < PERMUTED_SHARE / several_share:
        while permutation == tuple(range(rank)):
            permutation = tuple(random.sample(range(rank), rank))
    if op != COPY:
        return SweepCase(seed, number, op, element, shape, permutation, _axes(random, rank))
    whole = SweepWindow((0,) * rank, tuple(shape[axis] for axis in permutation), (1,) * rank)
    for _ in range(_MOST_DRAWS):
        window = _window(random, whole.sizes)
        case = SweepCase(seed, number, op, element, shape, permutation, window=window)
        if case.read_bytes >= case.input_bytes * _LEAST_WINDOW_SHARE:
            return case
    return SweepCase(seed, number, op, element, shape, permutation, window=whole)


def sweep_cases(seed: int, count: int, most_bytes: int, *, windows: bool = False) -> list[SweepCase]:
    """Return the first cases of a sweep."""
    return [sweep_case(seed, number, most_bytes, windows=windows) for number in range(count)]


def _shape(random: Random, rank: int, most: int) -> tuple[int, ...]:
    """Draw all sizes but one; that one is as long as the array may be."""
    others: list[int] = []
    while len(others) < rank - 1:
        size = _size(random)
        if math.prod(others) * size * 2 <= most:
            others.append(size)
        elif math.prod(others) * 4 > most:
            others.pop(random.randrange(len(others)))
    others.insert(random.randrange(rank), max(most // math.prod(others), 1))
    return tuple(others)


def _size(random: Random) -> int:
    kind = random.randrange(6)
    if kind == 0:
        return 1 << random.randrange(1, 17)
    if kind == 1:
        return random.randrange(2, 18)
    if kind == 2:
        return random.randrange(100, 1000)
    if kind == 3:
        return random.randrange(1000, 10_000)
    if kind == 4:
        return random.randrange(100_000, 1_000_000)
    return random.choice(AWKWARD_SIZES)


def _window(random: Random, sizes: Iterable[int]) -> SweepWindow:
    offsets, lengths, steps = [], [], []
    for size in sizes:
        length = size if random.random() < WHOLE_AXIS_SHARE else random.randrange(1 + size // 4, size + 1)
        offsets.append(random.randrange(size - length + 1))
        lengths.append(length)
        steps.append(random.choice(STEPS))
    return SweepWindow(tuple(offsets), tuple(lengths), tuple(steps))


def sector_bytes(operand: Operand, element_bytes: int) -> int:
    """Return the bytes of all 32-byte sectors that hold an element of a strided array; each counts once.

    The array starts at a multiple of 32 bytes, and its dimensions are nested in memory as those of a window
    of a row-major array are, in any order.

    >>> sector_bytes(Operand((4, 8), (1024, 1), 0, 4096), 4), sector_bytes(Operand((64,), (2,), 0, 128), 4)
    (128, 512)
    """
    lowest = operand.base + sum(
        (size - 1) * stride for size, stride in zip(operand.sizes, operand.strides, strict=True) if stride < 0
    )
    dims = [
        (abs(stride) * element_bytes, size)
        for size, stride in zip(operand.sizes, operand.strides, strict=True)
        if size > 1
    ]
    dims.sort()
    # Whatever lies less than a sector apart is one run: no sector fits between.
    run, outer = element_bytes, 0
    while outer < len(dims) and dims[outer][0] - run < SECTOR_BYTES:
        pitch, size = dims[outer]
        run += (size - 1) * pitch
        outer += 1
    spread = dims[outer:]
    first = lowest * element_bytes
    sectors = sum(
        count * ((start + run - 1) // SECTOR_BYTES + 1) for start, count in _starts(first, spread).items()
    )
    extent = run
    for number, (pitch, size) in enumerate(spread):
        # The last run of a block and the first of the next may meet in one sector.
        blocks = _starts(first, [(pitch, size - 1), *spread[number + 1 :]])
        sectors -= sum(
            count
            for start, count in blocks.items()
            if (start + extent - 1) // SECTOR_BYTES == (start + pitch) // SECTOR_BYTES
        )
        extent += (size - 1) * pitch
    return sectors * SECTOR_BYTES


def _starts(first: int, dims: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return how often each place within a sector is where something starts that is repeated along dims."""
    starts = {first % SECTOR_BYTES: 1}
    for pitch, size in dims:
        stepped: dict[int, int] = {}
        for step in range(min(size, SECTOR_BYTES)):
            # Places repeat after at most a sector's bytes of steps.
            times = (size - 1 - step) // SECTOR_BYTES + 1
            for start, count in starts.items():
                place = (start + step * pitch) % SECTOR_BYTES
                stepped[place] = stepped.get(place, 0) + count * times
        starts = stepped
    return starts
