"""NumPy twins of the slice1 kernels: for one step of a plan, what the kernel of that name writes.

Each takes the step and the buffers (bytes, by role) and changes the buffers as the kernel does, vector by
vector or tile by tile, from the same push constants.
"""

from __future__ import annotations

import struct

import numpy as np

from vkdml import kernels

WORD = 1 << 32
VECTOR_BYTES = 16


class SliceStep:
    """One slice1 step: its numbers, its layout, and its buffers as elements."""

    def __init__(self, step, buffers, header: int, runs: bool) -> None:
        words = struct.unpack("<32I", step.push)
        self.element_bytes = int(kernels.table()[step.kernel].variant.split("_")[0])
        self.header = words[:header]
        layout = words[header:] if step.constants[1] else buffers["workspace"].view(np.uint32).tolist()
        dims = self.header[2] if runs else self.header[3]
        self.dims = [layout[3 * i : 3 * i + 3] for i in range(dims)]
        self.source = buffers["input"].view(f"V{self.element_bytes}")
        output = buffers["output"]
        self.target = output[: output.size // self.element_bytes * self.element_bytes].view(
            f"V{self.element_bytes}"
        )

    def copy(self, source: int, target: int) -> None:
        self.target[target % WORD] = self.source[source % WORD]


def offsets_of(number: int, dims, source: int, target: int) -> tuple[int, int]:
    for size, input_stride, output_stride in reversed(dims):
        number, coordinate = divmod(number, size)
        source += coordinate * input_stride
        target += coordinate * output_stride
    return source % WORD, target % WORD


def slice1_runs(step, buffers) -> None:
    s = SliceStep(step, buffers, 8, runs=True)
    items, outer_dims, _, input_base, output_base, run, vectors_per_run, share = s.header
    per_vector = VECTOR_BYTES // s.element_bytes
    for begin in range(0, step.workgroups * share, share):
        for item in range(begin, min(begin + share, items)):
            number, vector = divmod(item, vectors_per_run) if outer_dims else (0, item)
            source, target = offsets_of(number, s.dims[:outer_dims], input_base, output_base)
            first = vector * per_vector - target % per_vector
            for element in range(max(first, 0), min(first + per_vector, run)):
                offset, _ = offsets_of(element, s.dims[outer_dims:], source, 0)
                s.copy(offset, target + element)


# The same vectors; only how they are read differs.
slice1_elements = slice1_runs
slice1_runs_forward = slice1_runs_backward = slice1_runs
slice1_runs_second = slice1_runs_second_backward = slice1_runs


def slice1_tiles(step, buffers) -> None:
    s = SliceStep(step, buffers, 10, runs=False)
    tiles, tiles_down, tiles_across, _, input_base, output_base, rows, columns = s.header[:8]
    row_stride, column_stride = s.header[8:]
    _, _, down, across, input_unaligned, output_unaligned, across_first = step.constants
    block = max(4 // s.element_bytes, 1)
    height, width = down * block, (across - output_unaligned) * block
    for tile in range(tiles):
        matrix, number = divmod(tile, tiles_down * tiles_across)
        tile_row, tile_column = (
            divmod(number, tiles_across) if across_first else divmod(number, tiles_down)[::-1]
        )
        source, target = offsets_of(matrix, s.dims, input_base, output_base)
        row_range = range(tile_row * height, min((tile_row + 1) * height, rows))
        assert input_unaligned or (source % block == 0 and column_stride % block == 0)
        for row in row_range:
            start = target + row * row_stride
            # A tile has the words that start in it, and the row's first.
            place = start % block
            assert output_unaligned or place == 0
            first = tile_column * width + (-place) % block if tile_column else 0
            end = tile_column * width + width + (-place) % block
            for column in range(first, min(end, columns)):
                s.copy(source + row + column * column_stride, start + column)


def all_twins():
    """Every twin by the name of its kernel."""
    names = {entry.kernel for entry in kernels.table().values() if entry.kernel.startswith("slice1")}
    return {name: globals()[name] for name in sorted(names)}
