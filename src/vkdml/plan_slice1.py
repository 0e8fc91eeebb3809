"""Planning slice1: a canonical copy to kernels, constants and workgroups."""

from __future__ import annotations

from vkdml.layout import CopyLayout
from vkdml.plan import (
    VECTOR_BYTES,
    WORDS_LIMIT,
    DeviceLimits,
    Plan,
    Step,
    ceil_div,
    check_buffer,
    pack,
    round_up,
    words,
)

COPY_LAYOUT_WORDS = 24


def plan_slice1(
    layout: CopyLayout,
    element_bytes: int,
    input_elements: int,
    limits: DeviceLimits,
    *,
    output_elements: int | None = None,
) -> Plan:
    """Plan a strided copy of elements of 1, 2, 4, 8 or 16 bytes.

    Raises:
        MemoryError: a buffer would exceed the device's limit.
        ValueError: more work than the kernels' 32-bit counters hold.
    """
    output_elements = layout.count if output_elements is None else output_elements
    check_buffer("input", input_elements * element_bytes, limits)
    check_buffer("output", output_elements * element_bytes, limits)
    dims = layout.dims
    run = words_per_run = 1
    run_input_stride = 0
    items = layout.count
    kernel = f"slice1_wide_{element_bytes}_bytes"
    if element_bytes < 4:
        kernel = f"slice1_narrow_{element_bytes}_bytes"
        if dims and dims[-1].output_stride == 1:
            run, run_input_stride = dims[-1].size, dims[-1].input_stride
            dims = dims[:-1]
        # Wherever in a word the run starts.
        words_per_run = (run * element_bytes + (4 - element_bytes) + 3) // 4
        items = layout.count // run * words_per_run
    if items >= WORDS_LIMIT:
        raise ValueError(
            f"{items} elements in one call are more than the kernels count (fewer than {WORDS_LIMIT})"
        )
    layout_words = words(word for dim in dims for word in (dim.size, dim.input_stride, dim.output_stride))
    in_push = len(layout_words) <= COPY_LAYOUT_WORDS
    header = (
        int(in_push),
        items,
        len(dims),
        layout.input_base,
        layout.output_base,
        run,
        words_per_run,
        run_input_stride,
    )
    push = pack(header, layout_words if in_push else ())
    workgroup_size = limits.workgroup_size
    workgroups = min(ceil_div(items, workgroup_size), limits.max_workgroup_count)
    return Plan(
        (Step(kernel, (workgroup_size,), push, workgroups),),
        (
            ("input", round_up(input_elements * element_bytes, VECTOR_BYTES)),
            ("output", round_up(output_elements * element_bytes, 4)),
            ("workspace", 0 if in_push else 4 * len(layout_words)),
        ),
        () if in_push else layout_words,
    )
