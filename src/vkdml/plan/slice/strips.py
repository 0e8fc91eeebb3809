"""The order in which a processor copies rows that share lines of memory; ``run_copies.py`` makes steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div
from vkdml.plan.layout import Dim
from vkdml.plan.plans import PAGE_BYTES, SECTOR_BYTES, VECTOR_BYTES, power_of_two_at_least
from vkdml.plan.tuning import SliceTuning


@dataclass(frozen=True)
class Strips:
    """An order in which vectors are written; see ``slice1_runs_parts.glsl``."""

    rows: int
    """Along the dimension that has neighbours in the input."""
    row: int
    """Elements of one."""
    groups: int
    """Of these rows; a workgroup takes one at a time."""
    width: int
    """Vectors of a row in a strip."""
    strips: int
    """Of a row."""
    vectors: int
    """Of all strips, with those that rows do not have."""
    at_pages: bool
    """Whether the lines of a row are whole pages apart, and so in few places of a cache."""


def strips_of(
    dims: Sequence[Dim], element_bytes: int, workgroup_size: int, tuning: SliceTuning
) -> Strips | None:
    """Return the strips of a run; None where rows share no sectors, or a cache holds those of a row."""
    pitches = [abs(dim.input_stride) * element_bytes for dim in dims]
    apart = [place for place, pitch in enumerate(pitches) if pitch >= SECTOR_BYTES]
    near = [
        place for place, pitch in enumerate(pitches) if pitch < SECTOR_BYTES and place < max(apart, default=0)
    ]
    if not near:
        return None
    place = min(near, key=lambda place: (not pitches[place], pitches[place]))
    pitch = pitches[max(apart)]
    sectors = math.prod(dims[other].size for other in apart if other > place)
    fewest, most = tuning.held_sectors
    if sectors < min(most, max(_lines(tuning.second_cache, pitch), fewest)):
        return None
    per_vector = VECTOR_BYTES // element_bytes
    row = math.prod(dim.size for dim in dims[place + 1 :])
    sectors_of_vector = max(per_vector // math.prod(dim.size for dim in dims[max(apart) + 1 :]), 1)
    held = max(_lines(tuning.first_cache, pitch) // sectors_of_vector, 1)
    width = min(power_of_two_at_least(held + 1) // 2, workgroup_size)
    strips = ceil_div(ceil_div(row, per_vector), width)
    rows = dims[place].size
    groups = ceil_div(rows, workgroup_size // width)
    outer = math.prod(dim.size for dim in dims[:place])
    vectors = outer * groups * strips * workgroup_size
    return Strips(rows, row, groups, width, strips, vectors, pitch % PAGE_BYTES == 0)


def _lines(cache: tuple[int, int], pitch: int) -> int:
    """Return how many lines at a pitch in bytes a cache holds; those at a power of two meet in few sets."""
    apart, ways = cache
    return ways * (apart // math.gcd(pitch, apart))
