"""What there is to tune: plain structs of numbers, which change speed and never results.

``device_classes.py`` has one for each class of devices.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER = 1 << 62
"""More bytes than anything has: where something depends on a size, but not on this class of devices."""


@dataclass(frozen=True)
class BoxWorkgroups:
    """How many workgroups share the boxes of a copy.

    Each finds out where the elements of a box lie before it copies its first one, so few boxes take less time
    with few workgroups.
    """

    of_few: int
    of_many: int
    fewest_of_many: int
    """The fewest boxes that are many."""

    def share(self, boxes: int) -> int:
        return self.of_many if boxes >= self.fewest_of_many else self.of_few


@dataclass(frozen=True)
class TurnTuning:
    """Which parts of a copy's output that read the same memory workgroups copy in turn."""

    from_bytes: int
    """The least memory that a part lies in. A cache holds less."""
    longest_row_bytes: int
    """Longer rows have few ends, at which parts share what is read."""
    longest_row_of_bytes: int
    """The same of single bytes."""
    parts: tuple[int, int] = (2, NEVER)
    """The fewest and the most: others are copied in order."""
    most_vectors: int = NEVER
    """Of a share, for each invocation, where elements are vectors: turns of less stay in a nearer cache."""


@dataclass(frozen=True)
class SliceTuning:
    """The numbers of slice1."""

    runs_workgroup_size: int
    """Invocations per workgroup where runs are written, a power of two; ``workgroup_size`` may lower it."""
    workgroup_vectors: int
    """16-byte vectors of the output for each invocation, while there are enough for ``full_workgroups``."""
    full_workgroups: int
    """Workgroups that fill the device."""
    boundaries_from_bytes: int
    """Runs from this size on have vectors at their ends, and at those of rows, written by another step."""
    tile_shapes: tuple[tuple[int, tuple[int, int]], ...]
    """By element width, vectors of a tile down, a power of two, and words or wider elements across, a
    multiple of four; fewer across where a device has not enough shared memory."""
    tile_band: int
    """Tiles below each other that are taken before the next ones beside them."""
    tile_least_bytes: int
    """Transposed matrices with a shorter side are copied otherwise: tiles would be mostly empty."""
    narrow_tile_least_bytes: int
    """The same of narrow elements."""
    tile_least_fill: float
    """Matrices that would fill less of their tiles are copied in boxes."""
    box_near_bytes: int
    """No boxes where neighbours in the input are at most so far apart in the output."""
    box_cache_bytes: int
    """No boxes, either, where a cache of this size holds what is read a few times."""
    box_bytes: int
    """Shared memory for a box; 0: there are no boxes. The device's limit may lower it."""
    narrow_box_bytes: int
    """The same for elements of 1 and 2 bytes, which lie there twice: as they come and as they go."""
    box_rows: int
    """The most contiguous spans of a box, in the input and in the output."""
    box_workgroup_size: int
    """Invocations per workgroup where boxes are copied, a power of two; the device's limit may lower it."""
    box_workgroups: tuple[tuple[int, BoxWorkgroups], ...]
    """By element width up to 4 bytes, the workgroups that share the boxes of a copy."""
    pixel_tile_bytes: int = 0
    """Shared memory for a tile of pixels; 0: there are none. The device's limit may lower it."""
    tile_most_band: int = 0
    """A matrix has all of its tiles below each other in a band if there are so few."""
    unaligned_tile_most_band: tuple[tuple[int, int], ...] = ()
    """The same by element width where columns start anywhere: tiles share vectors with those below them."""
    word_workgroup_size: int = 0
    """Invocations per workgroup where short rows are gathered by words; 0: other kernels gather them."""
    invocation_words: int = 4
    """Words of the output for each of these invocations, which loads them together."""
    sparse_invocation_words: int = 2
    """The same where most of what is read is not copied, and there are ``full_workgroups`` twice."""
    beside_bytes: int = 0
    """Bytes from element to element up to which words of long rows are gathered beside those of the rows that
    share their sectors."""
    beside_parts_bytes: int = 0
    """Bytes from the first to the last of these rows in the input, at most: more do not share sectors, and a
    workgroup that has a share of each takes as much longer."""
    row_workgroup_size: int = 0
    """Invocations per workgroup where rows no shorter than a vector are copied into one run; 0: each vector
    finds its place by itself."""
    workgroup_row_vectors: int = 1
    """Vectors of such a run for each of these invocations, while there are enough for ``full_workgroups``."""
    most_near_dims: int = 1 << 10
    """Rows are not copied so where vectors would find their place in more dimensions by division."""
    narrow_most_near_dims: int = 1 << 10
    """The same of narrow elements."""
    gathered_tile_least_bytes: tuple[tuple[int, int], ...] = ()
    """By element width, of wide elements, the least bytes of a side of a matrix whose sectors a cache holds:
    gathering is fast, too."""
    far_tile_least_bytes: tuple[tuple[int, int], ...] = ()
    """The same of matrices in which elements of a sector are far apart in the output."""
    small_matrices: tuple[tuple[int, int, int, int], ...] = ()
    """By element width, the most bytes of each of many transposed matrices that are gathered, as a workgroup
    for each would have too little to do; the same where their columns are aligned; and the most rows, but of
    rows shorter than a sector."""
    pixel_channels: tuple[tuple[int, int, int], ...] = ()
    """By element width, the fewest and the most elements of pixels that are gathered from as many planes."""
    plane_pixels: tuple[tuple[int, int, int], ...] = ()
    """By element width, the fewest and the most elements from pixel to pixel of which planes are made."""
    plane_cells: int = 0
    """The fewest words of the input of which a workgroup makes planes."""
    planes_from_bytes: int = 0
    """Smaller outputs are no such planes."""
    pixels_from_bytes: int = 0
    """Nor pixels."""
    narrow_pixels_in_row: int = 1
    """The fewest pixels of narrow elements that follow each other in a plane: words hold several."""
    cached_parts_bytes: tuple[tuple[int, int], ...] = ()
    """By element width, of narrow elements, the least bytes of parts of the output that share sectors which a
    cache holds, such as the planes of small images: shorter ones are gathered."""
    block_bytes: int = 0
    """Of a row in a block that a processor transposes in registers; 0: there are no such blocks."""
    first_cache: tuple[int, int] = (1 << 12, 8)
    """Of a processor: lines that are so many bytes apart share a set, which holds so many of them."""
    second_cache: tuple[int, int] = (1 << 16, 16)
    """The same of the next cache."""
    held_sectors: tuple[int, int] = (1024, 4096)
    """Rows of fewer sectors stay in a cache from row to row: at any pitch, and at a pitch that suits it."""
    whole_row_bytes: tuple[tuple[int, int, int], ...] = ()
    """By element width, bytes of rows between gaps of the output, of which shorter ones are copied by words
    or elements, as elements with gaps are: of rows that are rows of the input, and of others. Without a
    number, none are."""
    turns: TurnTuning | None = None
    """Which parts of the output that read the same memory are copied in turn; None: none are."""
    rows_last_first_from_bytes: int = NEVER
    """Copies from this size on take the last row first where rows lie in another direction than their
    elements: a processor foresees reading in one direction."""
    rows_last_first_bytes: tuple[int, int] = (128, 1280)
    """The least and the most of such rows: shorter ones share lines, longer ones it foresees as they are."""

    def bytes_of_box(self, element_bytes: int) -> int:
        """Shared memory for a box of elements of a width; 0: they have no boxes on such devices."""
        return self.narrow_box_bytes if element_bytes < 4 else self.box_bytes

    def has_boxes(self, element_bytes: int) -> bool:
        """Tell whether elements of this width are ever copied in boxes on such devices."""
        return self.bytes_of_box(element_bytes) > 0


@dataclass(frozen=True)
class ShortTuning:
    """The numbers of short rows and stacks."""

    workgroup_size: int
    """Invocations per workgroup, a power of two; ``Tuning.workgroup_size`` may lower it."""
    tile_bytes: int
    """The most bytes of the input that a workgroup copies to shared memory; 0: other kernels are used."""
    direct: bool
    """Elements are read where they are, and not copied to shared memory first."""
    most_fixed_positions: int = 1 << 16
    """Numbers of positions up to this one are compiled in, so that loops are unrolled."""
    narrow_most_fixed_positions: int = 1 << 16
    """The same of elements of 1 and 2 bytes, but for stacks of short rows."""
    most_in_fours: int = 7
    """Narrow rows of up to so many positions are folded four at a time, by loops that are unrolled."""
    row_bytes: int = 0
    """``argreduce_short`` takes rows below this size, even if they are not shorter than
    ``Tuning.shortest_row_bytes``."""
    narrow_row_bytes: int = 0
    """The same of elements of 1 and 2 bytes."""
    rows_in_registers: tuple[tuple[bool, int, int, int], ...] = ()
    """Is float, element width, least and most bytes: ``argreduce_rows`` takes these rows all the same, since
    a few invocations keep one in registers."""
    columns_in_place: tuple[tuple[int, tuple[int, int, int]], ...] = ()
    """By element width, the fewest bytes of the aligned rows of a stack whose columns are read where they
    are, and the fewest and the most positions."""
    most_halves_in_place: int = 0
    """Columns of aligned rows of halves are read in place up to this many positions, also in shorter rows."""
    wide_rows_in_place: tuple[int, int] = (80, 96)
    """Bytes. Columns of wide elements in wider rows, and in aligned ones, are read so where a tile keeps half
    of its invocations busy."""
    walked_runs: int = 0
    """Outputs are read each by one invocation where their elements are in at most so many places; 0: none."""
    narrow_walked_runs: int = 0
    """The same of elements of 1 and 2 bytes."""
    walked_columns: int = 0
    """The same of columns of words, and, where no cache holds the input, of narrow elements in aligned rows:
    vectors read more as fast."""
    far_runs_from_bytes: int = NEVER
    """Runs of a walk that are at least so far apart may be half as many: no processor foresees them."""
    walked_side_by_side: tuple[int, int] = (0, 0)
    """The most runs of an output, and what is more than their bytes, where neighbouring invocations walk
    through neighbouring outputs."""
    walked_runs_of_periods: int = 0
    """The same of runs below a line, where the input could be read as periods instead."""
    walked_rows: tuple[tuple[int, int, int], ...] = ()
    """By element width, the least bytes of rows that are walked, and of those that are not any more: each
    invocation reads some rows that follow each other, which a processor foresees."""
    longest_walked_apart_bytes: int = 1024
    """Rows that are not walked any more where an output has several, or they do not follow each other in the
    order of outputs."""
    shortest_narrow_apart_bytes: int = NEVER
    """Rows of elements of 1 and 2 bytes that are walked though they do not follow each other so."""
    walked_rows_side_by_side: int = NEVER
    """Outputs. Of so many, whose rows follow each other, the longer ones of several rows are walked, too."""
    from_bytes: int = 0
    """Smaller inputs take other kernels, which have fewer pipelines to build."""
    rows_from_bytes: int = 0
    """The same of rows that ``argreduce_rows`` can read."""
    permuted_tile_bytes: int = 0
    """Of shared memory where the outputs lie in another order than the input; 0: as elsewhere."""
    transposing_tile_bytes: int = 0
    """The same where there are few positions, far apart."""


@dataclass(frozen=True)
class PeriodTuning:
    """The numbers of reductions that are read in periods."""

    from_bytes: int
    """Inputs from this size on may be read so, where other kernels would read memory in short pieces."""
    elements_from_bytes: int
    """The same where columns of single elements would be read otherwise."""
    narrow_from_bytes: int
    """Narrow elements of inputs from this size on are read in periods wherever that is possible."""
    narrow_rows: tuple[int, int]
    """Bytes and rows. Narrow elements of inputs from this size on are read in periods too, if at least so
    many rows are reduced to one."""
    wide_from_bytes: int
    """Wide elements of inputs from this size on are read in periods if they are matrices of many short or
    unaligned rows, each reduced to one row; floats of 8 bytes only on processors."""
    wide_column_bytes: tuple[int, int]
    """The fewest bytes that such inputs have for each column: of elements of up to 4 bytes, and of 8."""
    column_bytes: int
    """The fewest bytes that any input has for each column, which leaves a candidate; 0: any."""
    split_bytes: int
    """Bytes of a split on a processor, if the input is more than four times as large. A split has more where
    its workgroups would each read less than half of ``Tuning.split_bytes``. The workgroups of a split run in
    turn, and the first one loads what they read into the second cache: all of up to twice these bytes, of
    more than that half of these bytes at a time. 0: not a processor."""
    ahead_from_bytes: int
    """Inputs from this size on are loaded in order so. Smaller ones stay in a cache."""
    segment_bytes: int
    """The most of a long period that a workgroup reads side by side, of several periods at once if it can."""
    unaligned_rows: int
    """Unaligned rows of narrow elements are read in periods in small inputs too, if at least so many rows are
    reduced to one; 0: never."""
    unsplit_row_bytes: int
    """Narrow elements in aligned rows from this size on are read as columns instead, if these are not split
    and their workgroups fill the device: see the next two numbers."""
    unsplit_workgroups: int
    """At least so many workgroups of unsplit columns fill the device."""
    unsplit_workgroup_bytes: int
    """Fewer workgroups do as well if each reads at most so many bytes."""
    longest_row_bytes: int
    """If an output has several rows that are longer than this, they are read as rows."""
    long_row_bytes: int
    """Rows from this size on are read as rows if a column would have fewer than ``row_positions`` positions,
    but not those of 8-byte elements."""
    row_positions: int
    """0: the number of positions does not matter."""
    gaps_from_bytes: int
    """Gaps are read, where that is faster, if the sectors or lines that are needed have so many bytes."""
    out_of_order_from_bytes: int
    """Smaller inputs are never read in periods because of their order."""
    out_of_order_row_bytes: int
    """The longest row of narrow elements that is read in periods if positions are out of memory order; with
    three or more dimensions it may be twice as long. 0: never. With ``column_bytes`` these decide, for
    elements and rows of any length."""
    narrow_matrices: tuple[tuple[int, int], ...] = ()
    """The most bytes of a row, and the fewest rows, of matrices of wide elements in whole vectors."""
    unaligned_matrices: tuple[int, int] = (8192, 400)
    """The most elements of a row, and the fewest rows, of matrices of wide elements in unaligned rows."""
    joined_matrices: tuple[int, int] = (36, 15 * 1024)
    """Such matrices are left to ``argreduce_joined`` if a row has at most so many elements, and a column
    fewer bytes than the second number."""
    walked_groups: tuple[tuple[int, tuple[int, int]], ...] = ()
    """By element width, the number of groups of adjacent elements that compete for an output, from which on a
    processor reads periods faster than it walks: groups of two or four elements, and other groups."""
    most_walked_side_by_side: int = 12
    """The most elements of such a group."""
    walked_planes: tuple[tuple[int, tuple[int, int]], ...] = ()
    """Of runs along three dimensions, by element width: positions of a column, at least so many and so many
    more for each element side by side, from which on a processor reads periods and does not walk."""


@dataclass(frozen=True)
class PhaseTuning:
    """From when on columns of unaligned rows are read by phases; see ``plan/reduce/phases.py``."""

    element_bytes: int
    from_bytes: int
    """The smallest input."""
    fewest_columns: int
    """Side by side."""
    columns_of_periods: int
    """With so many or more, they are read by phases even where they could be read in periods."""
    rows_of_phase: int
    """The fewest rows that begin at the same place of a vector."""


@dataclass(frozen=True)
class Tuning:
    """The tuning settings of a device class for the planner and the runtime; they are kept nowhere else."""

    is_processor: bool
    """A processor executes the kernels, as software drivers have it do; otherwise a GPU does."""
    workgroup_size: int
    """Invocations per workgroup, a power of two; the device's limit may lower it."""
    row_lanes: int
    """The most invocations per row while there are enough rows to fill the device; a power of two."""
    widest_workgroup: int
    """Few rows are not split if a workgroup of so many invocations keeps one in registers."""
    unaligned_vectors_kept: int
    """The most vectors of an unaligned row that an invocation keeps in registers: three batches, or fewer."""
    fewest_vectors_per_lane: int
    """The fewest 16-byte vectors per invocation if a row is split over workgroups."""
    tile_bytes: int
    """The most bytes of a split row that a workgroup takes at once."""
    positions_per_lane: int
    """The fewest positions per invocation in a reduction along a stride."""
    columns_segment_bytes: int
    """Contiguous bytes that a workgroup reads along a stride before it takes more positions."""
    target_workgroups: int
    """Workgroups that fill the device with rows."""
    target_workgroup_bytes: int
    """The fewest bytes that each of these has, if they are more than ``split_workgroups``; 0: any."""
    split_workgroups: int
    """Workgroups that fewer rows are split over; more would take longer to combine."""
    split_bytes: int
    """The fewest bytes that each workgroup has where a reduction is divided only to have more; 0: any."""
    shortest_row_bytes: int
    """Contiguous runs shorter than this are read element by element, if an output has several of them; GPUs
    read an output's only run at once."""
    positions_per_split: int
    """The fewest positions per invocation of a split along a stride."""
    subgroups: int
    """1: invocations exchange registers if the device can; 0: they use shared memory only."""
    reads_ahead: int
    """1: a processor loads the periods of large inputs in the order of memory before it folds them; 0: it
    does not, which takes less time if its caches load strided lines early."""
    most_candidates: int
    """The most candidates that one workgroup combines after a reduction along a stride."""
    columns_workgroups: int
    """Workgroups that fill the device in a reduction along a stride; twice as many as a GPU runs at once."""
    columns_workgroup_bytes: int
    """The fewest bytes that each of these has, if they are more than ``split_workgroups``; 0: any."""
    columns_apart: int
    """1: columns side by side in the input are loaded together wherever their outputs are; 0: only if fewer
    than a vector of them have their outputs side by side."""
    across_vectors: int
    """The most vectors of the innermost dimension that a workgroup of ``argreduce_across`` reads; 0: other
    kernels are used."""
    across_tiles: int
    """Fewer workgroups of that kind would leave the device idle."""
    cached_columns_bytes: int
    """Of a processor: a cache holds inputs up to this size. 0: not a processor."""
    vector_positions: tuple[tuple[int, int], ...]
    """Of a processor: by element width, the fewest positions of columns of aligned rows that are read in
    vectors, and not walked or read in tiles or periods."""
    joined_from_bytes: int
    """Inputs from this size on have columns joined where other kernels would read single elements."""
    joined_dims_from_bytes: int
    """The same if several dimensions are reduced that do not follow each other in memory."""
    fixed_starts_to_bytes: int
    """Kernels for inputs up to this size are compiled for as many workgroups as the work needs: a dispatch
    then starts sooner. Others are compiled for any number, so that there are more pipelines."""
    fixed_row_starts_to_bytes: int
    """The same of ``argreduce_rows``, which is also compiled for simple layouts up to this size."""
    fixed_parameters_after: int
    """After so many runs a plan gets pipelines of its own, with its push constants compiled in; 0: never."""
    fixed_parameters_to_bytes: int
    """It does so for inputs up to this size; copies, if their input or their output is no larger."""
    fixed_parameters_kernels: tuple[tuple[str, int, int], ...]
    """With what the names of kernels begin that have other limits, and the least and the greatest size; the
    first name that fits counts."""
    fixed_flags_from_bytes: int
    """Inputs from this size on have their flags compiled in, so that there are more pipelines."""
    fixed_vector_flags_from_bytes: int
    """As above, of kernels that write vectors of results: the code for all kinds of them takes registers."""
    host_memory_bytes: int
    """Inputs and results up to this size stay in host memory instead of being copied."""
    mapped_bytes: int
    """The host writes arrays up to this size into the device's memory itself, where all of it is mapped."""
    stream_tile_bytes: int
    """The largest tile of a streamed array; two tiles are in flight."""
    stream_from_bytes: int
    """Host arrays from this size on are streamed even if one buffer could hold them."""
    slice1: SliceTuning
    """The numbers of slice1."""
    short: ShortTuning
    """The numbers of short rows and stacks."""
    periods: PeriodTuning
    """The numbers of reductions that are read in periods."""
    phases: tuple[PhaseTuning, ...]
    """The numbers of columns of unaligned rows that are read by phases; elements of other widths are not."""
    spin_microseconds: float
    """How long a wait polls before it blocks."""
    cached_execution_bytes: int
    """Recorded plans whose buffers have at most this size are kept for the next call."""
    execution_cache_bytes: int
    """The most bytes that the recorded plans of a device keep."""
    execution_cache_count: int
    """The most recorded plans that are kept; drivers limit the number of allocations."""


SEARCH: dict[str, tuple[int, ...]] = {
    "workgroup_size": (8, 16, 32, 64, 128, 256, 512, 1024),
    "row_lanes": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "widest_workgroup": (0, 256, 512, 1024),
    "unaligned_vectors_kept": (4, 6, 8, 10, 12),
    "fewest_vectors_per_lane": (1, 2, 4, 8, 16, 64, 256),
    "columns_segment_bytes": (64, 128, 256, 512, 1024),
    "subgroups": (0, 1),
    "reads_ahead": (0, 1),
    "positions_per_lane": (2, 8, 32, 128, 1024, 4096),
    "tile_bytes": tuple(1 << exponent for exponent in range(13, 20)),
    "target_workgroups": (2, 4, 8, 16, 32, 64, 132, 264, 528, 1056, 2112, 4096, 8192),
    "split_workgroups": (2, 4, 8, 16, 32, 64, 132, 264, 528, 1056, 2112),
    "most_candidates": (256, 1024, 4096, 8192, 16384, 65536),
    "columns_workgroups": (2, 4, 8, 16, 32, 64, 132, 264, 528, 792, 1056, 2112, 4096, 8192),
    "shortest_row_bytes": (16, 32, 64, 128, 256, 1024),
    "positions_per_split": (8, 16, 32, 64, 128, 256, 512),
}
"""What `vkdml tune` tries for each field, ascending; the first and the last bound what a profile may hold."""


def accepted(field: str, value: object) -> bool:
    """Tell whether a profile may give a field this value.

    >>> accepted("workgroup_size", 128), accepted("workgroup_size", 129), accepted("no_such_field", 1)
    (True, False, False)
    """
    candidates = SEARCH.get(field)
    if candidates is None or type(value) is not int or not candidates[0] <= value <= candidates[-1]:
        return False
    return value.bit_count() == 1 or not _powers_of_two(candidates)


def accepted_range(field: str) -> str:
    """Say what :func:`accepted` takes for a field of ``SEARCH``.

    >>> accepted_range("workgroup_size")
    'a power of two from 8 to 1024'
    """
    candidates = SEARCH[field]
    kind = "a power of two" if _powers_of_two(candidates) else "an integer"
    return f"{kind} from {candidates[0]} to {candidates[-1]}"


def _powers_of_two(candidates: tuple[int, ...]) -> bool:
    return all(candidate.bit_count() == 1 for candidate in candidates)
