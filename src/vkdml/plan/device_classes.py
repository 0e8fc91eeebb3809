"""The tuning settings of each class of devices."""

from __future__ import annotations

from dataclasses import replace

from vkdml.plan.drivers import gathers_words, is_lavapipe, is_swiftshader
from vkdml.plan.tuning import (
    NEVER,
    BoxWorkgroups,
    PeriodTuning,
    PhaseTuning,
    ShortTuning,
    SliceTuning,
    Tuning,
    TurnTuning,
)

_MIB = 1 << 20

DISCRETE = Tuning(
    is_processor=False,
    workgroup_size=256,
    row_lanes=32,
    widest_workgroup=1024,
    unaligned_vectors_kept=12,
    fewest_vectors_per_lane=4,
    tile_bytes=32 * 1024,
    positions_per_lane=4,
    columns_segment_bytes=256,
    target_workgroups=1056,
    target_workgroup_bytes=128 * 1024,
    # Four to each of 132 multiprocessors: as many as run at once if an invocation takes up to 64 registers.
    split_workgroups=528,
    split_bytes=0,
    shortest_row_bytes=64,
    positions_per_split=16,
    subgroups=1,
    reads_ahead=0,
    # 16 to each of 132 multiprocessors, of which 8 run at once.
    columns_workgroups=2112,
    columns_workgroup_bytes=24 * 1024,
    columns_apart=0,
    across_vectors=16,
    across_tiles=512,
    cached_columns_bytes=0,
    vector_positions=(),
    joined_from_bytes=_MIB,
    # 0.85 of the time of inputs of 64 KiB to 1 MiB (0.52 to 1.32, H200).
    joined_dims_from_bytes=64 * 1024,
    most_candidates=8192,
    # 0.97 of the time; inputs of 32 to 64 MiB take 0.92 to 1.25 (H200, 450 random shapes).
    fixed_starts_to_bytes=16 * _MIB,
    # Up to 4 MiB 0.86 of the time, up to 16 MiB 0.92, up to 64 MiB 0.93 (H200, 74 random shapes).
    fixed_row_starts_to_bytes=64 * _MIB,
    fixed_parameters_after=32,
    # 0.83 of the time, and never longer (H100, 105 cases of the benchmark; 210 random shapes up to 40 MiB).
    fixed_parameters_to_bytes=64 * _MIB,
    # Boxes, rows, runs, tiles and two kinds of reductions take 0.88 to 1.02 of the time at any size (H100,
    # 158 shapes). Others of 64 to 280 MiB take 0.46 to 1.14 (H200, 112 shapes: 0.92; H100, 250 shapes: 0.98),
    # larger ones 1.00 (H100, 100 shapes), but those across the outputs 1.02 (H100, 30 shapes). Drivers unroll
    # the loops of words: large copies take up to 1.26 of the time then, smaller ones 0.89.
    fixed_parameters_kernels=(
        ("argreduce_across", 0, 64 * _MIB),
        ("argreduce_joined", 0, NEVER),
        ("argreduce_short", 0, NEVER),
        ("argreduce", 0, 512 * _MIB),
        ("slice1_boxes", 0, NEVER),
        ("slice1_rows", 0, NEVER),
        ("slice1_runs", 0, NEVER),
        ("slice1_tiles", 0, NEVER),
        ("slice1_words", 0, 24 * _MIB),
    ),
    fixed_flags_from_bytes=NEVER,
    # 0.83 to 1.05 of the time (H200). Kernels that combine splits take 0.92 to 1.3, most often more.
    fixed_vector_flags_from_bytes=_MIB,
    host_memory_bytes=64 * 1024,
    # Kernels read 256 MiB of mapped memory 1% slower than other memory, 1 GiB at half the rate (H100).
    mapped_bytes=16 * _MIB,
    stream_tile_bytes=32 * _MIB,
    # Copying to staging memory, uploading and computing then take place at the same time.
    stream_from_bytes=64 * _MIB,
    slice1=SliceTuning(
        runs_workgroup_size=1024,
        workgroup_vectors=1,
        full_workgroups=2048,
        boundaries_from_bytes=NEVER,
        tile_shapes=((1, (4, 64)), (2, (8, 64)), (4, (8, 64)), (8, (8, 64)), (16, (8, 16))),
        tile_band=4,
        tile_most_band=16,
        # 17 to 65 tiles of bytes, and 17 to 33 of halves: 0.91 to 0.99 of the time (H200).
        unaligned_tile_most_band=((1, 64), (2, 32)),
        tile_least_bytes=16,
        gathered_tile_least_bytes=((4, 128), (8, 64), (16, 256)),
        # 0.47 to 1.05 of the time for 8 bytes, 0.55 to 1.1 for 16 (H100).
        far_tile_least_bytes=((8, 16), (16, 48)),
        small_matrices=(
            (1, 1200, 800, 20),
            (2, 4000, 1000, 20),
            (4, 8000, 2000, 10),
            (8, 1300, 1300, 20),
            (16, 1300, 1300, 20),
        ),
        cached_parts_bytes=((1, 4000), (2, 8000)),
        narrow_tile_least_bytes=8,
        tile_least_fill=0.4,
        box_near_bytes=256,
        box_cache_bytes=16 * _MIB,
        box_bytes=10 * 1024,
        narrow_box_bytes=10 * 1024,
        box_rows=512,
        box_workgroup_size=128,
        # Bytes need registers for 14 to each of 132 multiprocessors at once, others for 16.
        box_workgroups=(
            (1, BoxWorkgroups(528, 1848, 9500)),
            (2, BoxWorkgroups(528, 2112, 5300)),
            (4, BoxWorkgroups(1056, 2112, 5300)),
        ),
        pixel_tile_bytes=15 * 1024,
        word_workgroup_size=128,
        beside_bytes=40,
        beside_parts_bytes=128,
        row_workgroup_size=256,
        pixel_channels=((1, 2, 27), (2, 5, 27), (4, 3, 64)),
        plane_pixels=((1, 2, 40), (2, 4, 36), (4, 2, 36)),
        plane_cells=512,
        planes_from_bytes=_MIB,
        pixels_from_bytes=2 * _MIB,
        narrow_pixels_in_row=64,
        # Longer rows of single bytes take up to 1.08 times as long in turn (H200).
        turns=TurnTuning(40 * _MIB, longest_row_bytes=192, longest_row_of_bytes=104),
        whole_row_bytes=((1, 640, 40), (2, 512, 48), (4, 300, 128), (8, 48, 96)),
    ),
    short=ShortTuning(
        workgroup_size=128,
        tile_bytes=8192,
        direct=False,
        row_bytes=128,
        narrow_row_bytes=128,
        rows_in_registers=((False, 1, 64, 97), (True, 2, 64, 127), (True, 4, 100, 127)),
        columns_in_place=((1, (64, 4, 32)), (2, (64, 2, 32)), (4, (128, 3, 16))),
        most_halves_in_place=4,
        from_bytes=16 * 1024,
        permuted_tile_bytes=16 * 1024,
        transposing_tile_bytes=10 * 1024,
    ),
    periods=PeriodTuning(
        from_bytes=_MIB,
        elements_from_bytes=_MIB,
        narrow_from_bytes=32 * _MIB,
        narrow_rows=(4 * _MIB, 2000),
        wide_from_bytes=192 * _MIB,
        wide_column_bytes=(0, 0),
        column_bytes=0,
        split_bytes=0,
        ahead_from_bytes=NEVER,
        segment_bytes=NEVER,
        unaligned_rows=0,
        unsplit_row_bytes=64,
        unsplit_workgroups=234,
        unsplit_workgroup_bytes=288 * 1024,
        longest_row_bytes=4096,
        long_row_bytes=NEVER,
        row_positions=0,
        gaps_from_bytes=4 * _MIB,
        out_of_order_from_bytes=64 * _MIB,
        out_of_order_row_bytes=30,
        narrow_matrices=((48, 20000),),
    ),
    # 690 shapes of 8 to 512 MiB, H200 and H100. Elements of 8 bytes take as long as before.
    phases=(
        PhaseTuning(1, 96 * _MIB, fewest_columns=300, columns_of_periods=4000, rows_of_phase=64),
        PhaseTuning(2, 4 * _MIB, fewest_columns=100, columns_of_periods=1000, rows_of_phase=16),
        PhaseTuning(4, 4 * _MIB, fewest_columns=100, columns_of_periods=NEVER, rows_of_phase=128),
    ),
    spin_microseconds=1000.0,
    cached_execution_bytes=64 * _MIB,
    execution_cache_bytes=256 * _MIB,
    execution_cache_count=256,
)
# 0.34 to 1.20 of the time; two parts take 0.36 to 1.6, longer rows up to 2.5.
_TURNS_OF_LAVAPIPE = TurnTuning(
    8 * _MIB, longest_row_bytes=200, longest_row_of_bytes=200, parts=(3, 32), most_vectors=64
)
# A barrier costs a processor more than a load, and one invocation after the other reads memory in order.
SOFTWARE = replace(
    DISCRETE,
    is_processor=True,
    workgroup_size=8,
    row_lanes=1,
    widest_workgroup=0,
    phases=(),
    fewest_vectors_per_lane=256,
    # To start and finish a workgroup takes about 4 us on lavapipe and 15 us on SwiftShader.
    split_bytes=64 * 1024,
    positions_per_lane=1024,
    target_workgroups=32,
    target_workgroup_bytes=0,
    split_workgroups=32,
    columns_workgroups=32,
    columns_workgroup_bytes=0,
    positions_per_split=64,
    columns_apart=1,
    across_vectors=0,
    across_tiles=0,
    cached_columns_bytes=8 * _MIB,
    vector_positions=((1, 100), (2, 72), (4, 28), (8, 100)),
    joined_from_bytes=NEVER,
    joined_dims_from_bytes=NEVER,
    # Its drivers take longer to compile a second pipeline than it saves.
    fixed_starts_to_bytes=0,
    fixed_row_starts_to_bytes=0,
    # They compile on the cores that they run on, copies for 14 ms (median): about as long as 13 to 40 runs of
    # inputs of 1 to 16 MiB gain.
    fixed_parameters_after=32,
    fixed_parameters_to_bytes=0,
    # 0.82 of the time (lavapipe, 0.58 to 1.07, 32 random shapes), rows of up to 4 KiB 0.8 to 0.9. Longer and
    # split rows, periods (0.98, 77 random reductions) and walks take as long.
    fixed_parameters_kernels=(
        ("argreduce_rows_float", 8 * _MIB, NEVER),
        ("argreduce_rows_integer", 8 * _MIB, NEVER),
        ("argreduce_short_single", _MIB, NEVER),
        ("slice1_blocks", _MIB, NEVER),
        ("slice1_rows", _MIB, NEVER),
        ("slice1_runs", _MIB, NEVER),
    ),
    # They execute what a flag excludes, with all invocations masked.
    fixed_flags_from_bytes=64 * 1024,
    fixed_vector_flags_from_bytes=64 * 1024,
    subgroups=0,
    reads_ahead=1,
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
        tile_least_bytes=NEVER,
        narrow_tile_least_bytes=NEVER,
        box_bytes=0,
        narrow_box_bytes=0,
        pixel_tile_bytes=0,
        word_workgroup_size=0,
        pixel_channels=(),
        plane_pixels=(),
        turns=_TURNS_OF_LAVAPIPE,
        whole_row_bytes=((1, 24, 8), (2, 8, 8)),
        row_workgroup_size=8,
        workgroup_row_vectors=256,
        most_near_dims=1,
        narrow_most_near_dims=1,
        block_bytes=128,
    ),
    periods=replace(
        DISCRETE.periods,
        from_bytes=256 * 1024,
        elements_from_bytes=64 * 1024,
        gaps_from_bytes=_MIB,
        narrow_from_bytes=64 * _MIB,
        narrow_rows=(NEVER, 0),
        wide_from_bytes=_MIB,
        wide_column_bytes=(2 * 1024, 12 * 1024),
        column_bytes=128,
        split_bytes=_MIB // 2,
        ahead_from_bytes=6 * _MIB,
        segment_bytes=128,
        unaligned_rows=256,
        unsplit_row_bytes=NEVER,
        long_row_bytes=256,
        row_positions=260,
        out_of_order_from_bytes=256 * 1024,
        out_of_order_row_bytes=32,
        narrow_matrices=(),
        walked_groups=((1, (1024, 5000)), (2, (256, 1000))),
        walked_planes=((1, (30, 20)), (2, (40, 7))),
    ),
    # A processor takes a row more slowly than the elements of a short one.
    short=replace(
        DISCRETE.short,
        # On lavapipe another length of rows is another pipeline, which takes 10 ms to build.
        from_bytes=4 * 1024,
        rows_from_bytes=64 * 1024,
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
        far_runs_from_bytes=512,
        walked_side_by_side=(16, 128),
        walked_runs_of_periods=256,
        walked_rows=((1, 96, 1024), (2, 64, 1280), (4, 256, 704), (8, 256, 1408)),
        walked_rows_side_by_side=NEVER,
        shortest_narrow_apart_bytes=160,
    ),
)
TUNING = {
    "discrete": DISCRETE,
    # Many of them have fewer registers.
    "integrated": replace(
        DISCRETE,
        unaligned_vectors_kept=8,
        target_workgroups=256,
        split_workgroups=128,
        columns_workgroups=256,
    ),
    "software": SOFTWARE,
}
# It builds a plan's own pipelines in 0.05 to 0.5 s, which is what 100 to 5000 runs gain. Rows that workgroups
# share take 1.2 to 8 times as long as those that invocations take each, up to some KiB. An element takes
# longer to load than to compare, so walks, which load elements one by one, end with fewer of them.
_SWIFTSHADER = replace(
    SOFTWARE,
    vector_positions=((1, 96), (2, 128), (4, 48), (8, 65)),
    fixed_parameters_after=0,
    # Parts in turn take 0.76 to 1.5 of the time (98 copies, 1.02 in the mean). Rows of 4 bytes and more whose
    # places take several divisions take 0.17 to 1.5 of the time of runs (130 copies: 0.62).
    slice1=replace(
        SOFTWARE.slice1,
        turns=None,
        most_near_dims=1 << 10,
        whole_row_bytes=((1, 24, 12), (2, 20, 20), (4, 64, 64), (8, 1024, 128)),
    ),
    short=replace(
        SOFTWARE.short,
        row_bytes=2560,
        narrow_walked_runs=256,
        walked_columns=64,
        far_runs_from_bytes=0,
        walked_rows=((1, 128, 2816), (2, 128, 2816), (8, 2560, 4096)),
        walked_rows_side_by_side=64,
        shortest_narrow_apart_bytes=NEVER,
    ),
)

# It loads words from storage buffers in half the time of older versions.
_RECENT_LAVAPIPE = replace(
    SOFTWARE,
    vector_positions=((1, 20), (2, 16), (4, 20), (8, 24)),
    # 16 MiB take 0.74 to 1.5 of the time in turn, 48 MiB 0.39 to 1.18.
    slice1=replace(SOFTWARE.slice1, turns=replace(_TURNS_OF_LAVAPIPE, from_bytes=24 * _MIB)),
    short=replace(
        SOFTWARE.short, narrow_row_bytes=512, walked_rows=((1, 96, 512), (2, 64, 512), (8, 256, 512))
    ),
)


def subgroups_are_threads(driver_name: str) -> bool:
    """Whether a driver executes each subgroup in one thread, each instruction for all of its invocations, and
    its atomics order all memory.

    >>> subgroups_are_threads("llvmpipe"), subgroups_are_threads("SwiftShader driver")
    (True, False)

    The source is Mesa's gallivm, which compiles a subgroup to vector instructions of the processor and
    atomics to sequentially consistent ones. SwiftShader does so, too, but gains nothing by it.
    """
    return is_lavapipe(driver_name)


def tuning_for(device_type: str, driver_name: str = "", driver_info: str = "") -> Tuning:
    """Return the struct of a device class; classes without one of their own are taken for discrete.

    Args:
        device_type: as Vulkan's drivers tell it.
        driver_name: the driver.
        driver_info: its version, which lavapipe tells as Mesa's.

    >>> tuning_for("software").workgroup_size
    8
    >>> old, recent = (tuning_for("software", "llvmpipe", f"Mesa {number}.0.1") for number in (24, 25))
    >>> dict(old.vector_positions)[1] > dict(recent.vector_positions)[1]
    True
    """
    if device_type == "software" and is_swiftshader(driver_name):
        return _SWIFTSHADER
    if device_type == "software" and is_lavapipe(driver_name) and gathers_words(driver_info):
        return _RECENT_LAVAPIPE
    return TUNING.get(device_type, DISCRETE)
