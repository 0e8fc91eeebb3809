"""Arrays worth testing with: awkward values and memory layouts, and hypothesis strategies for whole calls."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
from hypothesis import strategies as st
from oracle import AnyArray

# Elements that slice1 moves, by size in bytes: 1, 2, 4, 8 and 16.
SLICE1_DTYPES = (
    *oracle.ARGREDUCE_DTYPES,
    *("complex64", "complex128", "datetime64[s]", "S1", "S4", "U4", "V16", ">f4", ">i8"),
)

# (exponent bits, mantissa bits) of the IEEE-like formats; float8_e4m3fn, without infinities, is listed below.
_FORMATS = {
    "float64": (11, 52),
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e5m2": (5, 2),
}


def special_bits(dtype: np.dtype[Any]) -> list[int]:
    """Bit patterns at the edges of a type: zeros, subnormal numbers, extremes, infinities, NaNs."""
    width = 8 * dtype.itemsize
    sign = 1 << (width - 1)
    ones = (1 << width) - 1
    name = dtype.newbyteorder("=").name
    if name == "bool":
        return [0, 1, 2, 0x7F, 0x80, 0xFF]
    if name == "float8_e4m3fn":
        magnitudes = [0x00, 0x01, 0x07, 0x08, 0x38, 0x39, 0x7E, 0x7F]
        return magnitudes + [m | 0x80 for m in magnitudes]
    if name in _FORMATS:
        exponent_bits, mantissa_bits = _FORMATS[name]
        inf = ((1 << exponent_bits) - 1) << mantissa_bits
        quiet = 1 << (mantissa_bits - 1)
        one = ((1 << (exponent_bits - 1)) - 1) << mantissa_bits
        smallest_normal = 1 << mantissa_bits
        magnitudes = [0, 1, smallest_normal - 1, smallest_normal, one, one + 1, inf - 1, inf]
        nans = [inf | 1, inf | (quiet - 1), inf | quiet, inf | quiet | 1, sign - 1]
        return sorted({m | s for m in magnitudes + nans for s in (0, sign)})
    if dtype.kind not in "iu":
        known = ", ".join(["bool", "integers", "float8_e4m3fn", *_FORMATS])
        raise ValueError(f"the special values of {name} are not known; accepted: {known}")
    edges = [0, 1, 2, sign - 1, sign, sign + 1, ones - 1, ones]
    if width == 64:
        edges += [
            (1 << 32) - 1,
            1 << 32,
            (1 << 32) + 1,
            1 << 31,
            (1 << 53) + 1,
            1 << 53,
            sign | (1 << 31),
            ones << 32 & ones,
        ]
    return edges


def from_bits(bits: npt.ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """An array of the dtype from its elements' bit patterns (given as native integers)."""
    unsigned = np.asarray(bits, dtype=f"u{dtype.itemsize}")
    return unsigned.astype(unsigned.dtype.newbyteorder(dtype.byteorder)).view(dtype)


def random_bits(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> AnyArray:
    """Elements of uniformly random bytes."""
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype=np.uint8).view(dtype)


FILLS = ("specials", "bits", "few", "constant", "planted", "finite", "ramp")


def elements(rng: np.random.Generator, dtype: np.dtype[Any], count: int, fill: str) -> AnyArray:
    """`count` elements; fills other than "bits" and "ramp" make ties common, "specials" NaNs too."""
    if dtype.itemsize > 8 or (dtype.kind in "cMmSUV" and dtype.name not in oracle.SMALL_FLOATS):
        return random_bits(rng, dtype, count)
    palette = from_bits(special_bits(dtype), dtype)
    if fill == "bits":
        return random_bits(rng, dtype, count)
    if fill == "ramp":
        with np.errstate(all="ignore"):
            steps = np.arange(count) % 251
            return (steps[::-1] if rng.integers(2) else steps).astype(dtype)
    if fill == "specials":
        chosen = palette
    elif fill == "finite":
        with np.errstate(invalid="ignore"):
            values = oracle.numbers(palette)
            chosen = palette[np.isfinite(values)] if values.dtype.kind == "f" else palette
    elif fill == "constant":
        chosen = rng.choice(palette, 1)
    elif fill == "few":
        chosen = rng.choice(palette, 3)
    else:  # one value almost everywhere, another at a handful of positions
        chosen = rng.choice(palette, 2)
        which = np.zeros(count, dtype=np.int64)
        if count:
            which[rng.integers(0, count, size=3)] = 1
        return oracle.raw(chosen)[which].view(dtype)
    return oracle.raw(chosen)[rng.integers(0, len(chosen), size=count)].view(dtype)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where elements lie: strides in bytes, of any sign, and bytes before and after the addressed span."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    before: int = 0
    after: int = 0

    def span(self, itemsize: int) -> tuple[int, int]:
        """(lowest, one past highest) byte addressed, relative to element (0, ..., 0)."""
        if 0 in self.shape:
            return 0, 0
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + itemsize

    def place(self, dtype: np.dtype[Any], rng: np.random.Generator) -> tuple[AnyArray, AnyArray]:
        """(view, buffer): an array so laid out inside a buffer of random bytes."""
        low, high = self.span(dtype.itemsize)
        buffer = np.frombuffer(rng.bytes(self.before + high - low + self.after), dtype=np.uint8).copy()
        view: AnyArray = np.ndarray(self.shape, dtype, buffer.data, self.before - low, self.strides)
        return view, buffer


def build(dtype: np.dtype[Any], layout: Layout, fill: str, seed: int) -> AnyArray:
    """The array of a case, the same for the same arguments on every machine."""
    rng = np.random.Generator(np.random.PCG64(seed))
    view, _ = layout.place(dtype, rng)
    count = math.prod(view.shape)
    if count:
        oracle.raw(view)[...] = oracle.raw(elements(rng, dtype, count, fill)).reshape(view.shape)
    return view


@dataclasses.dataclass(frozen=True)
class ArgReduceCase:
    """One call of argmax or argmin."""

    op: str
    dtype: str
    layout: Layout
    fill: str
    seed: int
    axis: int | tuple[int, ...] | None
    keepdims: bool
    direction: str
    nan_policy: str
    output_dtype: str
    return_values: bool
    out: Layout | None  # for out=, strides in elements (indices and values have different itemsizes)

    def input(self) -> AnyArray:
        return build(oracle.dtype_named(self.dtype), self.layout, self.fill, self.seed)


@dataclasses.dataclass(frozen=True)
class Slice1Case:
    """One call of slice1."""

    dtype: str
    layout: Layout
    seed: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    output_sizes: tuple[int, ...] | None
    out: Layout | None  # for out=, strides in elements

    def input(self) -> AnyArray:
        return build(oracle.dtype_named(self.dtype), self.layout, "specials", self.seed)


MAX_ELEMENTS = 300_000
MAX_SPAN_BYTES = 1 << 24


@st.composite
def shapes(draw: st.DrawFn, min_size: int = 0) -> tuple[int, ...]:
    """Mostly small; one dimension is sometimes long enough to cross the tiles of any kernel."""
    rank = draw(st.sampled_from((1, 2, 3, 2, 3, 1, 4, 0, 5, 6, 8, 10)))
    top = {1: 70, 2: 40, 3: 12, 4: 7, 5: 5}.get(rank, 3)
    shape = [draw(st.integers(min_size or (0 if rank < 6 else 1), top)) for _ in range(rank)]
    if rank and draw(st.integers(0, 7)) == 7:
        rest = math.prod(shape[1:])
        longest = max(1, MAX_ELEMENTS // max(rest, 1))
        anchor = min(longest, draw(st.sampled_from((64, 256, 1024, 4096, 16384, 65536, 131072))))
        shape[0] = max(1, anchor + draw(st.integers(-2, 2)) if anchor < longest else anchor)
        where = draw(st.integers(0, rank - 1))
        shape[0], shape[where] = shape[where], shape[0]
    return tuple(shape)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], itemsize: int, *, overlap: bool = True) -> Layout:
    """Any layout, strides in bytes: permuted, stepped, reversed, and with `overlap` broadcast or sliding."""
    rank = len(shape)
    before = draw(st.sampled_from((0, 0, 0, itemsize, 3 * itemsize, 1, 2, 4, 7)))
    after = draw(st.sampled_from((0, 0, itemsize, 3, 16)))
    plain = draw(st.integers(0, 3)) == 0
    order = list(range(rank)) if plain else list(draw(st.permutations(range(rank))))
    strides = [0] * rank
    step = itemsize
    if not plain and draw(st.integers(0, 15)) == 15:
        step = itemsize + draw(st.integers(1, 3))  # a field of a packed record
    for axis in reversed(order):
        kind = (
            "next"
            if plain
            else draw(st.sampled_from(("next",) * 6 + ("gap", "step", "flip", "flip", "zero", "slide")))
        )
        if kind in ("zero", "slide") and not overlap:
            kind = "next"
        if kind in ("gap", "step") and shape[axis] > 0 and step * shape[axis] * 3 > MAX_SPAN_BYTES:
            kind = "next"
        if kind == "zero":
            continue
        if kind == "slide":
            strides[axis] = draw(st.sampled_from((itemsize, -itemsize, 2 * itemsize)))
            step = max(step, itemsize * (2 * shape[axis] + 1))
            continue
        factor = draw(st.integers(2, 3)) if kind == "step" else 1
        strides[axis] = step * factor * (-1 if kind == "flip" else 1)
        step = step * factor * max(shape[axis], 1)
        if kind == "gap":
            step += itemsize * draw(st.integers(1, 5))
    return Layout(shape, tuple(strides), before, after)


@st.composite
def axes(draw: st.DrawFn, shape: tuple[int, ...]) -> int | tuple[int, ...] | None:
    """None, one axis, or a set of axes in any order and of either sign; never one of size zero."""
    rank = len(shape)
    usable = [a for a in range(rank) if shape[a]]
    kind = draw(st.sampled_from(("int", "set", "none") if rank else ("none", "set", "int")))
    if kind == "none" and len(usable) == rank:
        return None
    if kind == "int" and not rank:
        return draw(st.sampled_from((0, -1)))
    if kind == "int" and usable:
        return draw(st.sampled_from(usable)) - draw(st.sampled_from((0, rank)))
    chosen = draw(st.lists(st.sampled_from(usable), unique=True)) if usable else []
    negative = draw(st.integers(0, 2**rank - 1))
    return tuple(a - rank if negative >> a & 1 else a for a in chosen)


def reduced_count(shape: tuple[int, ...], reduced: tuple[int, ...]) -> int:
    """How many elements each output element is chosen from."""
    return math.prod(shape[a] for a in reduced)


def reduced_shape(
    shape: tuple[int, ...], axis: int | tuple[int, ...] | None, keepdims: bool
) -> tuple[int, ...]:
    """The shape of the result."""
    gone = oracle.axis_set(axis, len(shape))
    if keepdims:
        return tuple(1 if a in gone else n for a, n in enumerate(shape))
    return tuple(n for a, n in enumerate(shape) if a not in gone)


SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def argreduce_cases(draw: st.DrawFn, large: bool = False) -> ArgReduceCase:
    """Any valid call of argmax or argmin; with `large` one of an array of a mebibyte or more."""
    dtype = draw(st.sampled_from((*oracle.ARGREDUCE_DTYPES, ">f4", ">i8")))
    itemsize = oracle.dtype_named(dtype).itemsize
    shape = draw(large_shapes(itemsize, LARGE_REDUCED_ELEMENTS) if large else shapes())
    axis = draw(axes(shape))
    keepdims = draw(st.booleans())
    out = None
    if draw(st.integers(0, 3)) == 3:
        out = draw(layouts(reduced_shape(shape, axis, keepdims), 1, overlap=False))
    return ArgReduceCase(
        op=draw(st.sampled_from(oracle.OPERATORS)),
        dtype=dtype,
        layout=draw(layouts(shape, itemsize, overlap=not large)),
        fill=draw(st.sampled_from(FILLS)),
        seed=draw(SEEDS),
        axis=axis,
        keepdims=keepdims,
        direction=draw(st.sampled_from(oracle.DIRECTIONS)),
        nan_policy=draw(st.sampled_from(oracle.NAN_POLICIES)),
        output_dtype=draw(st.sampled_from(oracle.OUTPUT_DTYPES)),
        return_values=draw(st.booleans()),
        out=out,
    )


STEPS = (1, -1, 1, -1, 2, -2, 3, -3, 7, -8, 100, -1000)
# Longer steps would leave little of a large array.
LARGE_STEPS = (1, 1, 1, -1, -1, 2, -2, 3)


@st.composite
def slice1_cases(draw: st.DrawFn, large: bool = False) -> Slice1Case:
    """Any valid call of slice1; with `large` one of an array of a mebibyte or more."""
    dtype = draw(st.sampled_from(SLICE1_DTYPES))
    itemsize = oracle.dtype_named(dtype).itemsize
    shape = draw(large_shapes(itemsize, LARGE_BYTES // itemsize) if large else shapes(min_size=1))
    offsets, sizes, strides, output_sizes = [], [], [], []
    for n in shape:
        whole = draw(st.booleans())
        offset = 0 if whole else draw(st.integers(0, n // 8 if large else n - 1))
        size = n - offset if whole else draw(st.integers((n - offset) // 2 + 1 if large else 1, n - offset))
        stride = draw(st.sampled_from(LARGE_STEPS if large else STEPS))
        most = 1 + (size - 1) // abs(stride)
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
        output_sizes.append(
            draw(st.integers(1, most)) if draw(st.integers(0, 3)) == 3 and not large else most
        )
    partial = any(
        o != m for o, m in zip(output_sizes, oracle.max_copied_elements(sizes, strides), strict=True)
    )
    out = draw(layouts(tuple(output_sizes), 1, overlap=False)) if draw(st.integers(0, 2)) == 2 else None
    return Slice1Case(
        dtype=dtype,
        layout=draw(layouts(shape, itemsize, overlap=not large)),
        seed=draw(SEEDS),
        offsets=tuple(offsets),
        sizes=tuple(sizes),
        strides=tuple(strides),
        output_sizes=tuple(output_sizes) if partial or draw(st.booleans()) else None,
        out=out,
    )


LARGE_BYTES = 64 << 20
# The oracle takes some dozen bytes, and as many nanoseconds, for each element that it compares.
LARGE_REDUCED_ELEMENTS = 4 << 20
LARGE_KINDS = (
    "image",
    "channels first",
    "channels last",
    "flat",
    "short rows",
    "few rows",
    "small dimensions",
)


@st.composite
def large_shapes(draw: st.DrawFn, itemsize: int, most_elements: int) -> tuple[int, ...]:
    """Shapes as users have them, of at least a mebibyte and at most LARGE_BYTES or `most_elements`."""
    most = min(LARGE_BYTES // itemsize, most_elements)
    count = min((1 << 20) // itemsize << draw(st.integers(0, 6)), most)
    kind = draw(st.sampled_from(LARGE_KINDS))
    channels = draw(st.sampled_from((1, 2, 3, 4, 21, 64)))
    side = draw(st.sampled_from((28, 224, 256, 513, 719)))
    if kind == "flat":
        return (count - draw(st.integers(0, 17)),)
    if kind == "image":
        rows = max(math.isqrt(count // channels) * 3 // 4, 1)
        return rows, max(count // (rows * channels), 1), channels
    if kind in ("channels first", "channels last"):
        channels = max(min(channels, count // (side * side)), 1)
        images = max(count // (channels * side * side), 1)
        return (images, channels, side, side) if kind == "channels first" else (images, side, side, channels)
    if kind in ("short rows", "few rows"):
        few = draw(st.integers(1, 70))
        long = max(count // few, 1)
        return (long, few) if kind == "short rows" else (few, long)
    sizes: list[int] = []
    while count > 6 and len(sizes) < 11:
        sizes.append(draw(st.integers(2, 6)))
        count //= sizes[-1]
    return tuple(draw(st.permutations([*sizes, count])))
