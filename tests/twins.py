"""NumPy twins of the kernels: for one step of a plan, what the kernel of that name writes, and nothing else.

Each takes the step and the buffers (bytes, by role) and changes the buffers as the kernel does, tile by tile
and split by split, from the same push constants.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from plans import by_family

from vkdml.plan import kernels

WORD = 1 << 32


def is_split(step) -> bool:
    """Whether several workgroups share one reduction."""
    return bool(kernels.table()[step.kernel].named(step.constants).get("split"))


class Key:
    """Which elements a kernel compares: what its variant and its constants say of them."""

    def __init__(self, kernel, constants: dict[str, int]) -> None:
        self.bytes = kernel.family.axes["element_bytes"][kernel.variant["element_bytes"]]
        self.is_float = kernel.variant["keys"] == "float"
        self.is_signed = bool(constants.get("signed_elements"))
        self.is_bool = kernel.variant["keys"] == "bool"
        high, low = constants.get("nan_patterns_high", 0), constants.get("nan_patterns_low", 0)
        self.nan_patterns = high << 32 | low


def keys_of(bits: np.ndarray, el: Key, take_min: bool, omit_nan: bool) -> np.ndarray:
    """Return the settled key of each element, from its bits: greatest wins, ties are equal."""
    width = 8 * el.bytes
    top, mask = 1 << (width - 1), (1 << width) - 1
    bits = bits.astype(np.uint64)
    if el.is_float:
        magnitude = bits & np.uint64(top - 1)
        negative = (bits & np.uint64(top)) != 0
        if take_min:
            negative = ~negative
        ordered = np.where(negative, np.uint64(top) - magnitude, np.uint64(top) + magnitude)
    elif el.is_signed:
        ordered = bits ^ np.uint64(top)
    elif el.is_bool:
        ordered = np.where(bits != 0, np.uint64(top), np.uint64(0))
    else:
        ordered = bits
    if not el.is_float:
        return ~ordered & np.uint64(mask) if take_min else ordered
    count = el.nan_patterns
    rotation = count if omit_nan else -(count + 1)
    keys = (ordered + np.uint64(rotation % (1 << 64))) & np.uint64(mask)
    if omit_nan:
        return np.maximum(keys, np.uint64(2 * count))
    return np.minimum(keys, np.uint64(mask - 2 * count))


def dims_of(layout, count: int, words: int) -> list[list[int]]:
    """Return the words of each of the dimensions that a layout begins with."""
    return [list(layout[words * i : words * (i + 1)]) for i in range(count)]


class ReduceStep:
    """One argreduce step: its numbers, its layout and its buffers."""

    def __init__(self, step, buffers) -> None:
        kernel = kernels.table()[step.kernel]
        constants = kernel.named(step.constants)
        self.p = p = SimpleNamespace(**kernel.family.unpack(step.push))
        self.workgroup, self.take_min, self.take_last = (
            constants[name] for name in ("workgroup", "take_min", "take_last")
        )
        self.omit_nan = constants.get("omit_nan", 0)
        self.is_split = is_split(step)
        self.el = Key(kernel, constants)
        self.words = {role: data.view(np.uint32) for role, data in buffers.items()}
        self.elements = buffers["input"].view(f"<u{self.el.bytes}")
        layout = p.layout_words if p.layout_in_push else self.words["workspace"].tolist()
        if kernel.variant.get("memory_order"):
            room = kernel.family.layout_room
            assert list(p.layout_words) == list(layout[:room]), (
                "its first words are push constants in any case"
            )
        copied = kernels.number("copied_dim_words")
        self.reading_offset, self.reading_position, self.reading = 0, 0, None
        if kernel.variant.get("memory_order"):
            number = kernels.number
            self.reading_offset, self.reading_position = (
                layout[number(name)] for name in ("reading_offset", "reading_position")
            )
            near = number("reading_near_dims")
            dims = dims_of(layout[number("reading_words") :], p.kept_dims + p.reduced_dims, copied)
            self.kept = dims[near : near + p.kept_dims]
            self.reading = [*dims[:near], *dims[near + p.kept_dims :]][::-1]
            start = layout[number("reading_reduced_dims")]
        else:
            self.kept = dims_of(layout, p.kept_dims, copied)
            start = copied * p.kept_dims
        if self.reading is not None and start == 0:  # positions are indices, and no values are copied
            self.reduced = self.reduced_of_reading()
        else:
            self.reduced = dims_of(layout[start:], p.reduced_dims, kernels.number("reduced_dim_words"))
        self.candidate_words = (2 if self.el.bytes == 8 else 1) + 1

    def reduced_of_reading(self) -> list[list[int]]:
        """The reduced dimensions in the order of positions, from the steps of those read."""
        reduced = []
        for size, stride, step in self.reading:
            backwards = step >= WORD // 2
            step = WORD - step if backwards else step
            reduced.append([size, -stride if backwards else stride, step, 0])
        return sorted(reduced, key=lambda dim: -dim[2])

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

    def run_begins(self, segment: int) -> int:
        """Return the offset of a run from that of its output."""
        if self.reading is None:
            return int(self.reduced_offsets(np.array([segment]), self.p.reduced_dims - 1)[0])
        run, offset = 1, self.reading_offset
        for size, input_stride, _ in reversed(self.reading):
            if run < self.p.run:
                run *= size
            else:
                segment, coordinate = divmod(segment, size)
                offset += coordinate * input_stride
        return offset

    def positions_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the positions of elements from their numbers in the order of reading."""
        if self.reading is None:
            return numbers
        positions = np.full_like(numbers, self.reading_position)
        for size, _, step in reversed(self.reading):
            numbers, coordinates = np.divmod(numbers, size)
            positions += coordinates * step
        return positions % WORD

    def best(self, base: int, positions: np.ndarray) -> tuple[int, int]:
        """Return key and rank of the best of these positions."""
        if positions.size == 0:
            return 0, 0
        offsets = (base + self.reduced_offsets(positions, len(self.reduced))) % WORD
        keys = keys_of(self.elements[offsets], self.el, self.take_min, self.omit_nan)
        equal = positions[keys == keys.max()]
        rank = int(equal.max()) + 1 if self.take_last else WORD - 1 - int(equal.min())
        return int(keys.max()), rank

    def best_of_splits(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return (number, split) to key and rank, where each split has positions that follow each other."""
        p, found = self.p, {}
        for number in range(p.outputs):
            base, _ = self.output_offsets(number)
            for split in range(p.splits):
                end = min((split + 1) * p.positions_per_split, p.reduce_count)
                found[number, split] = self.best(base, np.arange(split * p.positions_per_split, end))
        return found

    def write_result(self, number: int, rank: int) -> None:
        position = rank - 1 if self.take_last else WORD - 1 - rank
        source, target = self.output_offsets(number)
        source += int(self.reduced_offsets(np.array([position]), len(self.reduced))[0])
        index = self.p.index_base
        for size, _, low, high in reversed(self.reduced):
            position, coordinate = divmod(position, size)
            index += coordinate * (high << 32 | low)
        if self.p.wide_indices:
            self.words["indices"].view(np.uint64)[target] = index % (1 << 64)
        else:
            self.words["indices"][target] = index % WORD
        if self.p.with_values:
            self.words["values"].view(f"<u{self.el.bytes}")[target] = self.elements[source % WORD]

    def finish(self, blocks: int, found: dict[tuple[int, int], tuple[int, int]]) -> None:
        """Write the results, and what the splits leave behind. ``found``: (number, split) to key and rank."""
        assert self.is_split == (self.p.splits > 1)
        base = self.p.scratch_base
        if self.is_split:
            counters = self.words["workspace"][base : base + blocks]
            assert not counters.any(), "counters are 0 before each run"
        best: dict[int, tuple[int, int]] = {}
        for (number, split), candidate in found.items():
            best[number] = max(best.get(number, (0, 0)), candidate)
            if self.is_split:
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
    constants = kernels.table()[step.kernel].named(step.constants)
    row_step, row_first = constants.get("row_step", 1), constants.get("row_first", 0)
    in_run = -(-p.run // row_step)
    units = p.reduce_count // in_run * p.tiles_per_run
    found = {}
    for number in range(p.outputs):
        base, _ = s.output_offsets(number)
        for split in range(p.splits):
            positions = []
            for unit in range(split, units, p.splits):
                segment, tile = divmod(unit, p.tiles_per_run)
                begin = (base + s.run_begins(segment) - row_first) % WORD
                first = begin // per_vector + tile * p.tile_vectors
                low = max(first * per_vector, begin)
                high = min((first + p.tile_vectors) * per_vector, begin + p.run)
                elements = np.arange(low, max(low, high)) - begin
                positions.append(segment * in_run + elements[elements % row_step == row_first] // row_step)
            found[number, split] = s.best(base, s.positions_of(np.concatenate(positions)))
    parts = constants.get("parts_in_workgroup", 1)
    s.finish(-(-p.outputs // (s.workgroup // parts // p.lanes)), found)


def argreduce_columns(step, buffers) -> None:
    s = ReduceStep(step, buffers)
    p = s.p
    kernel = kernels.table()[step.kernel]
    # Neighbouring outputs of one invocation.
    loads = kernel.variant["loads"]
    words = kernel.family.axes["vector_words"][kernel.variant["vector_words"]]
    columns = 1 if loads == "elements" else 4 * words // s.el.bytes
    # What lies before the first whole vector of indices is a group of its own.
    led = (
        loads == "unaligned"
        and not kernel.named(step.constants)["columns_apart"]
        and s.kept[-1][2] == 1
        and p.run >= kernels.number("led_groups") * columns
    )
    groups = p.outputs // p.run * (1 + -(-(p.run - 1) // columns) if led else -(-p.run // columns))
    s.finish(-(-groups // (s.workgroup // p.lanes)), s.best_of_splits())


TWINS = {"argreduce_rows": argreduce_rows, "argreduce_columns": argreduce_columns}
"""Every twin by the family of its kernels: how these load and exchange differs, what they write does not."""
run = by_family(TWINS)
