"""NumPy twin of the kernels of short rows and short stacks: what one step of a plan writes, tile by tile.

It copies each tile's segments to a model of shared memory as the kernel does, and reads every element there.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
from plans import by_family
from twins import WORD, Key, keys_of

from vkdml.plan import kernels

ONE_SEGMENT = 3


class TileStep:
    """One step: its numbers, its layout and its buffers."""

    def __init__(self, step, buffers) -> None:
        kernel = kernels.table()[step.kernel]
        self.c = SimpleNamespace(**kernel.named(step.constants))
        self.p = p = SimpleNamespace(**kernel.family.unpack(step.push))
        self.el = Key(kernel, vars(self.c))
        self.packed = kernel.variant["columns"] == "packed"
        self.walked = kernel.variant["columns"].startswith("walked")
        self.words = {role: data.view(np.uint32) for role, data in buffers.items()}
        self.elements = buffers["input"].view(f"<u{self.el.bytes}")
        layout = p.layout_words if p.layout_in_push else self.words["workspace"].tolist()
        words = kernels.number("copied_dim_words")
        self.outer = [layout[words * i : words * (i + 1)] for i in range(p.kept_dims)]
        reduced = [layout[words * p.kept_dims + 4 * i :][:4] for i in range(p.reduced_dims)]
        self.count, self.step, low, high = reduced[-1]
        self.weight = high << 32 | low
        self.distances = np.arange(self.count) * self.step
        if self.walked:
            self.walk(reduced, layout[words * p.kept_dims + 4 * p.reduced_dims :])
        else:
            assert p.reduced_dims == 1
            assert self.c.positions in (0, self.count)
            self.first = 0
            step = p.position_pitch if self.c.positions_apart else self.step
            self.in_shared = np.arange(self.count) * step
        self.dims = [
            SimpleNamespace(
                **{
                    name: getattr(p, f"{name}_{i}")
                    for name in ("size", "tile", "tiles", "input_stride", "output_stride")
                }
            )
            for i in range(3)
        ]

    def walk(self, reduced, words) -> None:
        """Follow the walk, which meets every position once, and check where it finds it."""
        offset, position, *dims = words
        joined, joined_step = getattr(self.c, "joined", 1), dims[9:10]
        run, *_ = dims = [dims[i : i + 3] for i in (0, 3, 6)]
        assert self.c.positions in (0, run[0])
        assert getattr(self.c, "run_apart", True) == (run[1] != 1)
        if joined > 1:
            assert joined * self.el.bytes <= 4
            dims.append([joined, 1, *joined_step])
        places, positions = np.array([offset]), np.array([position])
        for size, stride, step in dims:
            places = np.add.outer(np.arange(size) * stride, places).ravel() % WORD
            positions = np.add.outer(np.arange(size) * step, positions).ravel() % WORD
        self.distances = places[np.argsort(positions)]
        # In shared memory, from the element that is read first; the last dimension may have segments there.
        self.first, self.far, apart = offset, dims[2], self.c.positions_apart
        assert not apart or self.far[0] > 1
        self.reach = sum((size - 1) * stride for size, stride, *_ in dims[: 2 if apart else 3])
        shared = np.array([0])
        strides = run[1], dims[1][1], self.p.position_pitch if apart else self.far[1]
        for (size, _, _), stride in zip(dims[:3], strides, strict=True):
            shared = np.add.outer(np.arange(size) * stride, shared).ravel()
        self.in_shared = shared[np.argsort(positions)] if joined == 1 else None
        assert (np.sort(positions) == np.arange(places.size)).all()
        logical, self.count = np.zeros(1, int), 1
        for size, stride, low, high in reversed(reduced):
            assert (high << 32 | low) == self.weight * self.count % (1 << 64)
            logical = np.add.outer(np.arange(size) * stride, logical).ravel() % WORD
            self.count *= size
        assert (logical == self.distances).all()

    def tile(self, number: int):
        """Return the offsets of a tile's first element and output, and its outputs along each dimension."""
        offsets, inside = [self.p.input_base, self.p.output_base], []
        for dim in reversed(self.dims):
            number, place = divmod(number, dim.tiles)
            first = place * dim.tile
            inside.insert(0, min(dim.tile, dim.size - first))
            offsets[0] += first * dim.input_stride
            offsets[1] += first * dim.output_stride
        for size, input_stride, output_stride in reversed(self.outer):
            number, place = divmod(number, size)
            offsets[0] += place * input_stride
            offsets[1] += place * output_stride
        assert number == 0
        return offsets[0] % WORD, offsets[1] % WORD, inside

    def shared(self, source: int, inside: list[int]):
        """Return what shared memory holds of a tile (-1: nothing), and the strides there."""
        if self.c.direct:
            memory = np.arange(self.elements.size)
            return memory, source, [dim.input_stride for dim in self.dims]
        along, per_vector = self.c.segments_along, 16 // self.el.bytes
        source = (source + self.first) % WORD
        strides = [dim.input_stride for dim in self.dims]
        last = sum((n - 1) * s for i, (n, s) in enumerate(zip(inside, strides, strict=True)) if i != along)
        positions, step = (self.far[0], self.far[1]) if self.walked else (self.count, self.step)
        positions = positions if self.c.positions_apart else 1
        last += self.reach if self.walked else (self.count - positions) * self.step
        segments, pitch = 1, 0
        if along != ONE_SEGMENT:
            segments, pitch = inside[along], strides[along]
            strides[along] = self.p.shared_pitch
        memory = np.full(self.c.tile_words * 4 // self.el.bytes, -1, np.int64)
        start = source % per_vector
        for position, segment in itertools.product(range(positions), range(segments)):
            begin = source + segment * pitch + position * step
            first, end = begin // per_vector, (begin + last) // per_vector + 1
            to = (start + segment * self.p.shared_pitch + position * self.p.position_pitch) // per_vector
            place = slice(to * per_vector, (to + end - first) * per_vector)
            assert place.stop <= memory.size * 32 // 33 - 4, "the tile fits"
            assert (memory[place] == -1).all(), "segments do not overlap"
            memory[place] = np.arange(first * per_vector, end * per_vector)
        return memory, start, strides

    def write(self, positions: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> None:
        base, weight = (np.uint64(number % (1 << 64)) for number in (self.p.index_base, self.weight))
        indices = base + positions.astype(np.uint64) * weight
        if self.p.wide_indices:
            self.words["indices"].view(np.uint64)[targets] = indices
        else:
            self.words["indices"][targets] = indices.astype(np.uint32)
        if self.p.with_values:
            self.words["values"].view(f"<u{self.el.bytes}")[targets] = self.elements[sources]


def argreduce_short(step, buffers) -> None:
    s = TileStep(step, buffers)
    per_word = max(4 // s.el.bytes, 1)
    for number in range(s.p.tiles):
        source, target, inside = s.tile(number)
        memory, start, strides = s.shared(source, inside)
        if s.packed:
            assert strides[s.c.near] == 1
            assert s.c.direct or np.prod([dim.tile for dim in s.dims]) <= s.c.result_words
        # Of all outputs of the tile, one a row.
        place = np.indices(inside).reshape(len(inside), -1)
        distances = s.distances if s.c.direct else s.in_shared
        places = np.add.outer(start + np.array(strides) @ place, distances) % WORD
        if s.c.word_aligned and not s.walked:
            first = place[s.c.near] % per_word if s.packed else np.zeros(len(places), int)
            assert not ((places[:, :: 1 if s.packed else per_word] - first[:, None]) % per_word).any()
        offsets = memory[places]
        assert (offsets >= 0).all()
        keys = keys_of(s.elements[offsets], s.el, s.c.take_min, getattr(s.c, "omit_nan", 0))
        positions = s.count - 1 - keys[:, ::-1].argmax(1) if s.c.take_last else keys.argmax(1)
        to = np.array([dim.output_stride for dim in s.dims]) @ place
        if s.c.evenly_apart:
            numbers = np.array((1, inside[0], inside[0] * inside[1]))
            assert ((to - numbers @ place * s.dims[0].output_stride) % WORD == 0).all()
        s.write(positions, offsets[np.arange(len(offsets)), positions], (target + to) % WORD)


TWINS = {"argreduce_short": argreduce_short}
run = by_family(TWINS)
