"""All tuning numbers, one plain struct per device class. They change speed, never results."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
    box_workgroups: int
    """Workgroups that share the boxes of a copy."""
    byte_box_workgroups: tuple[int, int]
    """The same of few boxes of single bytes, and of many. A workgroup finds out where four bytes of each word
    lie before its first box, so that few workgroups take less time for few boxes."""
    tile_most_band: int = 0
    """A matrix has all of its tiles below each other in a band if there are so few."""
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
    exchanged_from_bytes: int = 0
    """The same distance of single bytes from which on invocations exchange what they load for such words."""
    exchanging_workgroup_size: int = 0
    """Invocations per workgroup that do so."""
    row_workgroup_size: int = 0
    """Invocations per workgroup where rows no shorter than a vector are copied into one run; 0: each vector
    finds its place by itself."""
    gathered_tile_least_bytes: tuple[tuple[int, int], ...] = ()
    """By element width, of wide elements, the least bytes of a side of a matrix whose sectors a cache holds:
    gathering is fast, too."""
    small_matrices: tuple[tuple[int, int, int, int], ...] = ()
    """By element width, the most bytes of each of many transposed matrices that are gathered, as a workgroup
    for each would have too little to do; the same where their columns are aligned; and the most rows, but of
    rows shorter than a sector."""
    cached_parts_bytes: tuple[tuple[int, int], ...] = ()
    """By element width, of narrow elements, the least bytes of parts of the output that share sectors which a
    cache holds, such as the planes of small images: shorter ones are gathered."""
    block_bytes: int = 0
    """Of a row in a block that a processor transposes in registers; 0: there are no such blocks."""
    first_cache: tuple[int, int] = (1 << 12, 8)
    """Of a processor: lines that are so many bytes apart share a set, which holds so many of them."""
    second_cache: tuple[int, int] = (1 << 16, 16)
    held_sectors: tuple[int, int] = (1024, 4096)
    """Rows of fewer sectors stay in a cache from row to row: at any pitch, and at a pitch that suits it."""
    rows_last_first_from_bytes: int = 1 << 62
    """Copies from this size on take the last row first where rows lie in another direction than their
    elements: a processor foresees reading in one direction."""
    rows_last_first_bytes: tuple[int, int] = (128, 1280)
    """The least and the most of such rows: shorter ones share lines, longer ones it foresees as they are."""


@dataclass(frozen=True)
class ShortTuning:
    """The numbers of short rows and stacks."""

    workgroup_size: int
    """Invocations per workgroup, a power of two; ``Tuning.workgroup_size`` may lower it."""
    tile_bytes: int
    """The most bytes of the input that a workgroup copies to shared memory; 0: other kernels are used."""
    fixed_positions: bool
    """The number of positions is compiled in, so that loops are unrolled."""
    direct: bool
    """Elements are read where they are, and not copied to shared memory first."""
    most_fixed_positions: int = 1 << 16
    """Greater numbers of positions are never compiled in."""
    narrow_most_fixed_positions: int = 1 << 16
    """The same of elements of 1 and 2 bytes, but for stacks of short rows."""
    most_in_fours: int = 7
    """Narrow rows of up to so many positions are folded four at a time, by loops that are unrolled."""
    row_bytes: int = 0
    """Rows below this size are taken so, even if they are not shorter than ``Tuning.shortest_row_bytes``."""
    narrow_row_bytes: int = 0
    """The same of elements of 1 and 2 bytes."""
    rows_in_registers: tuple[tuple[bool, int, int, int], ...] = ()
    """By whether elements are floats and their width, the least and the most bytes of rows that are not taken
    so all the same: a few invocations keep one in registers."""
    walked_runs: int = 0
    """Outputs are read each by one invocation where their elements are in at most so many places; 0: none."""
    narrow_walked_runs: int = 0
    """The same of elements of 1 and 2 bytes."""
    walked_columns: int = 0
    """The same of columns of words, and, where no cache holds the input, of narrow elements in aligned rows:
    vectors read more as fast."""
    walked_runs_of_periods: int = 0
    """The same of runs below a line, where the input could be read as periods instead."""
    walked_rows: tuple[tuple[int, int, int], ...] = ()
    """By element width, the least bytes of rows that are walked, and of those that are not any more: each
    invocation reads some rows that follow each other, which a processor foresees."""
    from_bytes: int = 0
    """Smaller inputs take other kernels, which have fewer pipelines to build."""
    permuted_tile_bytes: int = 0
    """Of shared memory where the outputs lie in another order than the input; 0: as elsewhere."""
    transposing_tile_bytes: int = 0
    """The same where there are few positions, far apart."""


@dataclass(frozen=True)
class PeriodTuning:
    """The numbers of reductions that are read in periods."""

    from_bytes: int
    """Inputs from this size on may be read so, where other kernels would read memory in short pieces."""
    narrow_from_bytes: int
    """Narrow elements from this size on are wherever that is possible."""
    wide_from_bytes: int
    """Other elements from this size on are where matrices of many unaligned rows are each reduced to a row;
    floats of 8 bytes only on processors."""
    wide_column_bytes: tuple[int, int]
    """The fewest bytes that these have for each column: elements of up to 4 bytes, and of 8."""
    column_bytes: int
    """The fewest bytes that any input has for each column, which leaves a candidate; 0: any."""
    split_bytes: int
    """The most that a processor's workgroups read in turn of an input of at least twice as much: what lines
    they share, or the processor loads ahead, is then in its second cache. 0: not a processor."""
    segment_bytes: int
    """The most of a long period that a workgroup reads side by side, of several periods at once if it can."""
    short_bytes: int
    """Of longer periods up to this size, the next number instead."""
    short_segment_bytes: int
    unaligned_rows: int
    """So many unaligned rows of narrow elements that are reduced to one are read so in small inputs, too; 0:
    none."""
    unsplit_row_bytes: int
    """Aligned rows of narrow elements from this size on are columns instead, if these are not split."""
    longest_row_bytes: int
    """Longer rows, of which an output has several, are read as rows."""
    long_row_bytes: int
    """Those from this size on are too where a column would have fewer positions than the next number, but for
    elements of 8 bytes."""
    row_positions: int
    """0: the number of positions does not matter."""
    out_of_order_from_bytes: int
    """Inputs from this size on have the next number."""
    out_of_order_row_bytes: int
    """Positions that lie in another order than memory: columns, and narrow elements in rows up to so many
    bytes, twice as many of three or more dimensions, are read so; 0: never."""
    out_of_order_column_bytes: tuple[int, ...]
    """If given, it decides instead of the row: the fewest bytes that narrow elements, and others, have for
    each column."""
    narrow_matrices: tuple[tuple[int, int], ...] = ()
    """The most bytes of a row, and the fewest rows, of matrices of wide elements in whole vectors."""
    unaligned_matrices: tuple[int, int] = (8192, 400)
    """The most elements of a row, and the fewest rows, of matrices of unaligned rows."""
    joined_matrices: tuple[int, int] = (36, 15 * 1024)
    """Of these, rows of so few elements are joined otherwise, if a column has less bytes."""
    walked_groups: tuple[tuple[int, tuple[int, int]], ...] = ()
    """By element width, groups of elements that compete for an output and are side by side, from which on a
    processor walks longer than it reads periods: of two or four elements, and of others."""
    most_walked_side_by_side: int = 12
    """Elements of such a group."""


@dataclass(frozen=True)
class Tuning:
    """The tuning numbers of a device class for the planner and the runtime; they are kept nowhere else."""

    is_processor: bool
    """A processor executes the kernels, as software drivers have it do; otherwise a GPU does."""
    workgroup_size: int
    """Invocations per workgroup, a power of two; the device's limit may lower it."""
    row_lanes: int
    """The most invocations per row while there are enough rows to fill the device; a power of two."""
    row_steps: int
    """The fewest steps, of four vectors each, of a row that is too long to be read in one step."""
    widest_workgroup: int
    """Few rows are not split if a workgroup of so many invocations keeps one in registers."""
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
    split_workgroups: int
    """Workgroups that fewer rows are split over; more would take longer to combine."""
    split_bytes: int
    """The fewest bytes that each workgroup has where a reduction is divided only to have more; 0: any."""
    shortest_row_bytes: int
    """Contiguous runs shorter than this are read element by element."""
    positions_per_split: int
    """The fewest positions per invocation of a split along a stride."""
    subgroups: int
    """1: invocations exchange registers if the device can; 0: they use shared memory only."""
    batched_loads: int
    """1: an invocation has several loads along a stride in flight; 0: one."""
    memory_order: int
    """1: reduced elements are read as they lie in memory; 0: in the order of their positions."""
    most_candidates: int
    """The most candidates that one workgroup combines after a reduction along a stride."""
    columns_workgroups: int
    """Workgroups that fill the device in a reduction along a stride."""
    far_columns_from_bytes: int
    """Positions along a stride at least so far apart have the two next numbers in place of those above."""
    far_columns_segment_bytes: int
    """Narrow: a processor waits for a line for each invocation, and a cache has the rest of it next."""
    far_columns_workgroups: int
    columns_apart: int
    """1: columns side by side in the input are loaded together wherever their outputs are; 0: only if fewer
    than a vector of them have their outputs side by side."""
    across_vectors: int
    """Of the innermost dimension that a workgroup reads at most where outputs lie in another order; 0: other
    kernels are used."""
    across_tiles: int
    """Fewer workgroups of that kind would leave the device idle."""
    cached_columns_bytes: int
    """Of a processor: a cache holds inputs up to this size. Long columns of words are then read in vectors
    and not walked. 0: not a processor."""
    joined_from_bytes: int
    """Inputs from this size on have columns joined where other kernels would read single elements."""
    fixed_flags_from_bytes: int
    """Inputs from this size on have their flags compiled in, so that there are more pipelines."""
    shared_bytes: int
    """Inputs and results up to this size stay in host memory instead of being copied."""
    mapped_bytes: int
    """The host writes arrays up to this size into the device's memory itself, where all of it is mapped."""
    stream_tile_bytes: int
    """The largest tile of a streamed array; two tiles are in flight."""
    stream_from_bytes: int
    """Host arrays from this size on are streamed even if one buffer could hold them."""
    slice1: SliceTuning
    short: ShortTuning
    periods: PeriodTuning
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
    "row_steps": (1, 2, 4, 8, 16, 32, 64),
    "widest_workgroup": (0, 256, 512, 1024),
    "fewest_vectors_per_lane": (1, 2, 4, 8, 16, 64, 256),
    "columns_segment_bytes": (64, 128, 256, 512, 1024),
    "subgroups": (0, 1),
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


_MIB = 1 << 20
_NEVER = 1 << 62

DISCRETE = Tuning(
    is_processor=False,
    workgroup_size=256,
    row_lanes=32,
    row_steps=4,
    widest_workgroup=1024,
    fewest_vectors_per_lane=4,
    tile_bytes=32 * 1024,
    positions_per_lane=4,
    columns_segment_bytes=256,
    target_workgroups=1056,
    # Four to each of 132 multiprocessors: as many as run at once if an invocation takes up to 64 registers.
    split_workgroups=528,
    split_bytes=0,
    shortest_row_bytes=64,
    positions_per_split=16,
    subgroups=1,
    batched_loads=1,
    memory_order=1,
    columns_workgroups=2112,
    far_columns_from_bytes=_NEVER,
    far_columns_segment_bytes=0,
    far_columns_workgroups=0,
    columns_apart=0,
    across_vectors=16,
    across_tiles=512,
    cached_columns_bytes=0,
    joined_from_bytes=_MIB,
    most_candidates=8192,
    fixed_flags_from_bytes=_NEVER,
    shared_bytes=64 * 1024,
    # Kernels read 256 MiB of mapped memory 1% slower than other memory, 1 GiB at half the rate (H100).
    mapped_bytes=16 * _MIB,
    stream_tile_bytes=32 * _MIB,
    # Copying to staging memory, uploading and computing then take place at the same time.
    stream_from_bytes=64 * _MIB,
    slice1=SliceTuning(
        runs_workgroup_size=1024,
        workgroup_vectors=1,
        full_workgroups=2048,
        boundaries_from_bytes=_NEVER,
        tile_shapes=((1, (4, 64)), (2, (8, 60)), (4, (8, 64)), (8, (8, 64)), (16, (8, 16))),
        tile_band=4,
        tile_most_band=16,
        tile_least_bytes=16,
        gathered_tile_least_bytes=((4, 128), (8, 64), (16, 256)),
        small_matrices=((1, 1200, 800, 20), (2, 4000, 1000, 20), (4, 8000, 2000, 10), (8, 1300, 1300, 20)),
        cached_parts_bytes=((1, 4000), (2, 8000)),
        narrow_tile_least_bytes=8,
        tile_least_fill=0.4,
        box_near_bytes=256,
        box_cache_bytes=16 * _MIB,
        box_bytes=10 * 1024,
        narrow_box_bytes=14 * 1024,
        box_rows=512,
        box_workgroup_size=128,
        box_workgroups=2112,
        byte_box_workgroups=(528, 4224),
        word_workgroup_size=128,
        beside_bytes=40,
        beside_parts_bytes=128,
        exchanged_from_bytes=8,
        exchanging_workgroup_size=256,
        row_workgroup_size=256,
    ),
    short=ShortTuning(
        workgroup_size=128,
        tile_bytes=8192,
        fixed_positions=True,
        direct=False,
        row_bytes=128,
        narrow_row_bytes=128,
        rows_in_registers=((False, 1, 64, 97), (True, 2, 64, 127), (True, 4, 100, 127)),
        from_bytes=64 * 1024,
        permuted_tile_bytes=16 * 1024,
        transposing_tile_bytes=10 * 1024,
    ),
    periods=PeriodTuning(
        from_bytes=_MIB,
        narrow_from_bytes=64 * _MIB,
        wide_from_bytes=192 * _MIB,
        wide_column_bytes=(0, 0),
        column_bytes=0,
        split_bytes=0,
        segment_bytes=_NEVER,
        short_bytes=0,
        short_segment_bytes=0,
        unaligned_rows=0,
        unsplit_row_bytes=64,
        longest_row_bytes=4096,
        long_row_bytes=_NEVER,
        row_positions=0,
        out_of_order_from_bytes=64 * _MIB,
        out_of_order_row_bytes=30,
        out_of_order_column_bytes=(),
        narrow_matrices=((16, 400), (48, 1500)),
    ),
    spin_microseconds=1000.0,
    cached_execution_bytes=64 * _MIB,
    execution_cache_bytes=256 * _MIB,
    execution_cache_count=256,
)
# A barrier costs a processor more than a load, and one invocation after the other reads memory in order.
SOFTWARE = replace(
    DISCRETE,
    is_processor=True,
    workgroup_size=8,
    row_lanes=1,
    widest_workgroup=0,
    fewest_vectors_per_lane=256,
    # To start and finish a workgroup takes about 4 us on lavapipe and 15 us on SwiftShader.
    split_bytes=64 * 1024,
    positions_per_lane=1024,
    target_workgroups=32,
    split_workgroups=32,
    columns_workgroups=32,
    positions_per_split=64,
    far_columns_from_bytes=512,
    far_columns_segment_bytes=32,
    far_columns_workgroups=256,
    columns_apart=1,
    across_vectors=0,
    across_tiles=0,
    cached_columns_bytes=8 * _MIB,
    joined_from_bytes=_NEVER,
    # Its drivers execute what a flag excludes, with all invocations masked.
    fixed_flags_from_bytes=64 * 1024,
    subgroups=0,
    # The processor does all of it, so there is nothing to overlap: this only bounds the memory taken.
    stream_from_bytes=128 * _MIB,
    # Few workgroups, each of which runs through memory in order; a processor's caches do for tiles.
    slice1=replace(
        DISCRETE.slice1,
        runs_workgroup_size=8,
        workgroup_vectors=4096,
        full_workgroups=16,
        # What is there for these vectors is executed for all others too, with all invocations masked.
        boundaries_from_bytes=256 * 1024,
        rows_last_first_from_bytes=4 * _MIB,
        tile_least_bytes=1 << 32,
        narrow_tile_least_bytes=1 << 32,
        box_bytes=0,
        narrow_box_bytes=0,
        word_workgroup_size=0,
        row_workgroup_size=0,
        block_bytes=128,
    ),
    periods=replace(
        DISCRETE.periods,
        from_bytes=256 * 1024,
        wide_from_bytes=_MIB,
        wide_column_bytes=(2 * 1024, 12 * 1024),
        column_bytes=128,
        split_bytes=_MIB,
        # A line of memory. It waits for one of each period at the same time.
        segment_bytes=64,
        short_bytes=320,
        short_segment_bytes=128,
        unaligned_rows=256,
        unsplit_row_bytes=_NEVER,
        long_row_bytes=256,
        row_positions=260,
        out_of_order_from_bytes=256 * 1024,
        out_of_order_row_bytes=32,
        out_of_order_column_bytes=(128, 800),
        narrow_matrices=(),
        walked_groups=((1, (1024, 5000)), (2, (256, 1000))),
    ),
    # A processor takes a row more slowly than the elements of a short one.
    short=replace(
        DISCRETE.short,
        workgroup_size=8,
        most_fixed_positions=16,
        narrow_most_fixed_positions=32,
        most_in_fours=10,
        direct=True,
        row_bytes=256,
        narrow_row_bytes=1024,
        rows_in_registers=(),
        walked_runs=8192,
        narrow_walked_runs=2048,
        walked_columns=1024,
        walked_runs_of_periods=256,
        walked_rows=((1, 128, 2048), (2, 80, 3072), (4, 80, 3072), (8, 160, 64 * 1024)),
    ),
)
TUNING = {
    "discrete": DISCRETE,
    "integrated": replace(DISCRETE, target_workgroups=256, split_workgroups=128, columns_workgroups=256),
    "software": SOFTWARE,
}
# Its compiler takes seconds for long code, or all memory.
_SWIFTSHADER = replace(
    SOFTWARE,
    batched_loads=0,
    memory_order=0,
    cached_columns_bytes=0,
    fixed_flags_from_bytes=_NEVER,
    periods=replace(
        SOFTWARE.periods,
        from_bytes=_MIB,
        wide_from_bytes=_NEVER,
        column_bytes=0,
        split_bytes=0,
        segment_bytes=_NEVER,
        short_bytes=0,
        row_positions=0,
        out_of_order_row_bytes=0,
    ),
    far_columns_from_bytes=_NEVER,
    slice1=replace(SOFTWARE.slice1, boundaries_from_bytes=_NEVER),
    short=replace(SOFTWARE.short, fixed_positions=False, walked_runs=0, narrow_walked_runs=0, walked_rows=()),
)


def tuning_for(device_type: str, driver_name: str = "") -> Tuning:
    """Return the struct of a device class; classes without one of their own are taken for discrete.

    >>> tuning_for("software").workgroup_size
    8
    """
    if device_type == "software" and "swiftshader" in driver_name.lower():
        return _SWIFTSHADER
    return TUNING.get(device_type, DISCRETE)
