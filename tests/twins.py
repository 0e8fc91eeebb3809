"""NumPy twins of the kernels: for one step of a plan, what the kernel of that name writes, and nothing else.

Each takes the step and the buffers (bytes, by role) and changes the buffers as the kernel does, tile by tile
and split by split, from the same push constants.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from vkdml import kernels
from vkdml.plan_argreduce import FLAG_LAYOUT_IN_PUSH, FLAG_WIDE_INDICES, FLAG_WITH_VALUES

WORD = 1 << 32


@dataclass
class Reduce:
    """The push constants of ``shaders/argreduce.glsl``, in their order."""

    flags: int
    lanes: int
    outputs: int
    reduce_count: int
    splits: int
    kept_dims: int
    reduced_dims: int
    input_base: int
    output_base: int
    index_base_low: int
    index_base_high: int
    scratch_base: int
    run: int
    tiles_per_run: int
    tile_vectors: int
    share: int

    HEADER = 16


@dataclass
class Element:
    bytes: int
    kind: str
    nan_count: int


def element(variant: str) -> Element:
    if variant.endswith("_bytes"):
        return Element(int(variant.split("_")[0]), "key", 0)
    nan_counts = {"float8_e4m3fn": 1, "float8_e5m2": 3, "bfloat16": (1 << 7) - 1, "float16": (1 << 10) - 1}
    nan_counts |= {"float32": (1 << 23) - 1, "float64": (1 << 52) - 1}
    widths = {"bool": 1, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
    width = widths.get(variant) or np.dtype(variant).itemsize
    kind = "bool" if variant == "bool" else variant.rstrip("0123456789_emfn")
    kind = "float" if "float" in variant else kind
    return Element(width, kind, nan_counts.get(variant, 0))


def keys_of(bits: np.ndarray, el: Element, take_min: bool, omit_nan: bool) -> np.ndarray:
    """Return the settled key of each element, from its bits: greatest wins, ties are equal."""
    width = 8 * el.bytes
    top, mask = 1 << (width - 1), (1 << width) - 1
    bits = bits.astype(np.uint64)
    if el.kind == "float":
        magnitude = bits & np.uint64(top - 1)
        negative = (bits & np.uint64(top)) != 0
        if take_min:
            negative = ~negative
        ordered = np.where(negative, np.uint64(top) - magnitude, np.uint64(top) + magnitude)
    elif el.kind == "int":
        ordered = bits ^ np.uint64(top)
    elif el.kind == "bool":
        ordered = np.where(bits != 0, np.uint64(top), np.uint64(0))
    else:
        ordered = bits
    if el.kind != "float":
        return ~ordered & np.uint64(mask) if take_min else ordered
    count = el.nan_count
    rotation = count if omit_nan else -(count + 1)
    keys = (ordered + np.uint64(rotation % (1 << 64))) & np.uint64(mask)
    if omit_nan:
        return np.maximum(keys, np.uint64(2 * count))
    return np.minimum(keys, np.uint64(mask - 2 * count))


class ReduceStep:
    """One argreduce step: its numbers, its layout and its buffers."""

    def __init__(self, step, buffers) -> None:
        self.kernel = step.kernel
        entry = kernels.table()[step.kernel]
        words = struct.unpack("<32I", step.push)
        self.p = p = Reduce(*words[: Reduce.HEADER])
        self.workgroup, self.take_min, self.take_last, self.omit_nan = step.constants[:4]
        self.el = element(entry.variant)
        self.words = {role: data.view(np.uint32) for role, data in buffers.items()}
        self.elements = buffers["input"].view(f"<u{self.el.bytes}")
        layout = words[Reduce.HEADER :] if p.flags & FLAG_LAYOUT_IN_PUSH else self.words["workspace"].tolist()
        self.kept = [layout[3 * i : 3 * i + 3] for i in range(p.kept_dims)]
        rest = layout[3 * p.kept_dims :]
        self.reduced = [rest[4 * i : 4 * i + 4] for i in range(p.reduced_dims)]
        self.index_base = p.index_base_high << 32 | p.index_base_low
        self.candidate_words = (2 if self.el.bytes == 8 else 1) + 1

    def output_offsets(self, number: int) -> tuple[int, int]:
        offsets = [self.p.input_base, self.p.output_base]
        for size, input_stride, output_stride in reversed(self.kept):
            number, coordinate = divmod(number, size)
            offsets[0] += coordinate * input_stride
            offsets[1] += coordinate * output_stride
        return offsets[0] % WORD, offsets[1] % WORD

    def reduced_offsets(self, positions: np.ndarray, dims: int) -> np.ndarray:
        offsets = np.zeros_like(positions)
        for size, input_stride, _, _ in reversed(self.reduced[:dims]):
            positions, coordinates = np.divmod(positions, size)
            offsets += coordinates * input_stride
        return offsets

    def best(self, base: int, positions: np.ndarray) -> tuple[int, int]:
        """Return key and rank of the best of these positions."""
        if positions.size == 0:
            return 0, 0
        offsets = (base + self.reduced_offsets(positions, len(self.reduced))) % WORD
        keys = keys_of(self.elements[offsets], self.el, self.take_min, self.omit_nan)
        equal = positions[keys == keys.max()]
        rank = int(equal.max()) + 1 if self.take_last else WORD - 1 - int(equal.min())
        return int(keys.max()), rank

    def write_result(self, number: int, rank: int) -> None:
        position = rank - 1 if self.take_last else WORD - 1 - rank
        source, target = self.output_offsets(number)
        source += int(self.reduced_offsets(np.array([position]), len(self.reduced))[0])
        index = self.index_base
        for size, _, low, high in reversed(self.reduced):
            position, coordinate = divmod(position, size)
            index += coordinate * (high << 32 | low)
        if self.p.flags & FLAG_WIDE_INDICES:
            self.words["indices"].view(np.uint64)[target] = index % (1 << 64)
        else:
            self.words["indices"][target] = index % WORD
        if self.p.flags & FLAG_WITH_VALUES:
            self.words["values"].view(f"<u{self.el.bytes}")[target] = self.elements[source % WORD]

    def finish(self, blocks: int, found: dict[tuple[int, int], tuple[int, int]]) -> None:
        """Write the results, and what the splits leave behind. ``found``: (number, split) to key and rank."""
        split_kernel = "_split_" in self.kernel
        assert split_kernel == (self.p.splits > 1)
        base = self.p.scratch_base
        if split_kernel:
            counters = self.words["workspace"][base : base + blocks]
            assert not counters.any(), "counters are 0 before each run"
        best: dict[int, tuple[int, int]] = {}
        for (number, split), candidate in found.items():
            best[number] = max(best.get(number, (0, 0)), candidate)
            if split_kernel:
                key, rank = candidate
                at = base + blocks + (split * self.p.outputs + number) * self.candidate_words
                key_words = [key % WORD, key >> 32][: self.candidate_words - 1]
                self.words["workspace"][at : at + self.candidate_words] = [*key_words, rank]
        for number, (_, rank) in best.items():
            self.write_result(number, rank)


def argreduce_rows(step, buffers) -> None:
    s = ReduceStep(step, buffers)
    p = s.p
    per_vector = 16 // s.el.bytes
    units = p.reduce_count // p.run * p.tiles_per_run
    found = {}
    for number in range(p.outputs):
        base, _ = s.output_offsets(number)
        for split in range(p.splits):
            positions = []
            for unit in range(split, units, p.splits):
                segment, tile = divmod(unit, p.tiles_per_run)
                begin = base + int(s.reduced_offsets(np.array([segment]), p.reduced_dims - 1)[0])
                begin %= WORD
                first = begin // per_vector + tile * p.tile_vectors
                low = max(first * per_vector, begin)
                high = min((first + p.tile_vectors) * per_vector, begin + p.run)
                positions.append(segment * p.run + np.arange(low, max(low, high)) - begin)
            found[number, split] = s.best(base, np.concatenate(positions))
    s.finish(-(-p.outputs // (s.workgroup // p.lanes)), found)


# The same outputs and splits; only how invocations exchange candidates, and where results go, differs.
argreduce_rows_split = argreduce_rows_subgroups = argreduce_rows_subgroups_split = argreduce_rows


def _columns(step, buffers, columns: int) -> None:
    """``columns``: neighbouring outputs of one invocation."""
    s = ReduceStep(step, buffers)
    p = s.p
    found = {}
    for number in range(p.outputs):
        base, _ = s.output_offsets(number)
        for split in range(p.splits):
            end = min((split + 1) * p.share, p.reduce_count)
            found[number, split] = s.best(base, np.arange(split * p.share, end))
    groups = p.outputs // p.run * -(-p.run // columns)
    s.finish(-(-groups // (s.workgroup // p.lanes)), found)


def argreduce_columns(step, buffers) -> None:
    _columns(step, buffers, 16 // element(kernels.table()[step.kernel].variant).bytes)


def argreduce_strided(step, buffers) -> None:
    _columns(step, buffers, 1)


argreduce_columns_split = argreduce_columns_batched = argreduce_columns_batched_split = argreduce_columns
argreduce_unaligned = argreduce_unaligned_split = argreduce_unaligned_batched = argreduce_columns
argreduce_unaligned_batched_split = argreduce_columns
argreduce_strided_split = argreduce_strided_batched = argreduce_strided_batched_split = argreduce_strided
