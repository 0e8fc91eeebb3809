"""Planning argmin and argmax: a canonical layout to kernels, constants and workgroups."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vkdml.plan.layout import NO_DIM, ReduceLayout
from vkdml.plan.order import Order
from vkdml.plan.plans import DeviceLimits, Plan, Step, TooMuchWork, check_buffer, check_work, checked_step
from vkdml.plan.reduce.across import plan_across
from vkdml.plan.reduce.columns import are_fast_vectors
from vkdml.plan.reduce.joined import Joining, plan_joined
from vkdml.plan.reduce.one_position import read_once
from vkdml.plan.reduce.periodic import Periodicity
from vkdml.plan.reduce.periodic_plans import (
    plan_periods,
    plan_periods_as_last_way,
    plan_periods_instead_of_elements,
    plan_periods_instead_of_joined,
    plan_periods_instead_of_short_runs,
    plan_periods_instead_of_unaligned_columns,
)
from vkdml.plan.reduce.phases import Phases
from vkdml.plan.reduce.reading import reading_layout_words
from vkdml.plan.reduce.reduction import Reduction
from vkdml.plan.reduce.reductions import (
    Results,
    bases,
    buffer_bytes,
    dimension_words,
    fixed_flags,
    order_rules,
    split_words,
)
from vkdml.plan.reduce.rows import ROWS, row_division, with_rows_beside
from vkdml.plan.reduce.runs import (
    Runs,
    are_many_and_short,
    out_of_order_runs_of,
    short_runs_of,
    stepped_runs_of,
)
from vkdml.plan.reduce.short import plan_short, plan_walk_instead_of_elements, plan_walked_tiles
from vkdml.plan.reduce.work_division import WorkDivision

_REDUCE_LIMIT = (1 << 32) - (1 << 24)


def plan_argreduce(
    layout: ReduceLayout,
    order: Order,
    input_elements: int,
    limits: DeviceLimits,
    *,
    index_bytes: int,
    with_values: bool,
    output_elements: int | None = None,
) -> Plan:
    """Plan an argmin or argmax.

    Args:
        layout: canonical.
        order: of the elements.
        input_elements: elements in the input buffer; the layout's offsets lie within.
        limits: of the device.
        index_bytes: 4 or 8.
        with_values: also copy the chosen elements.
        output_elements: elements in each output buffer; by default one for each output.

    Raises:
        MemoryError: a buffer would exceed the device's limit.
        TooMuchWork: more than the kernels' 32-bit counters hold, or than the driver's loops make.
    """
    input_bytes = input_elements * order.element_type.nbytes
    check_buffer("input", input_bytes, limits)
    if not layout.reduced:
        if not (with_values or limits.tuning.is_processor):
            layout, order = read_once(layout, order, input_bytes)
        layout = replace(layout, reduced=(NO_DIM,))
    outputs, reduce_count = layout.outputs, layout.reduce_count
    output_elements = outputs if output_elements is None else output_elements
    results = Results(index_bytes, with_values, output_elements, layout.greatest_index)
    check_buffer("output", results.elements * index_bytes, limits)
    check_work("outputs", outputs)
    if reduce_count >= _REDUCE_LIMIT:
        raise TooMuchWork(
            f"{reduce_count} overlapping elements compete for one output, more than the kernels count "
            f"(fewer than {_REDUCE_LIMIT})"
        )
    return _plan_fastest(Reduction(layout, order, input_bytes, limits), results)


def _plan_fastest(reduction: Reduction, results: Results) -> Plan:
    """Plan a reduction the fastest way."""
    layout, element, limits = reduction.layout, reduction.element, reduction.limits
    periodicity = replace(Periodicity.of(reduction), with_values=results.with_values)
    runs = periodicity.runs
    in_rows = (
        runs is not None
        and not are_many_and_short(runs, layout, element, limits.tuning)
        and not (periodicity.is_out_of_order or periodicity.with_gaps)
    )
    in_vectors = are_fast_vectors(layout, element, limits.tuning)
    plan = None if in_vectors else plan_across(reduction, results) or plan_short(reduction, results)
    phases = Phases.of(reduction)
    by_phases = plan is None and runs is None and phases.are_worth_it()
    by_columns = in_vectors or (by_phases and phases.are_faster_than_periods())
    if plan is None and not in_rows and not by_columns:
        plan = _plan_vectors(periodicity, Joining.of(reduction), results)
    if plan is not None:
        return plan
    if by_phases:
        division, limits = phases.division()
        return _plan_division(division, replace(reduction, limits=limits), results)
    if runs is None:
        plan, runs = _plan_or_short_runs(periodicity, results)
    if runs is not None:
        plan = plan_periods_instead_of_short_runs(periodicity, runs, results)
    if plan is not None:
        return plan
    if runs is None:
        return _plan_division(periodicity.columns, reduction, results)
    reduction = replace(reduction, layout=with_rows_beside(layout, runs, element, limits))
    division, limits = row_division(reduction, runs)
    return _plan_division(division, replace(reduction, limits=limits), results)


def _plan_or_short_runs(periodicity: Periodicity, results: Results) -> tuple[Plan | None, Runs | None]:
    """Return what is faster than columns: a plan, or runs that are read as rows; nothing if columns are."""
    layout, limits, element = periodicity.layout, periodicity.limits, periodicity.element
    loads = str(periodicity.columns.variant["loads"])
    are_elements = loads == "elements"
    runs = stepped_runs_of(layout, element, limits) if are_elements else None
    plan = None if runs else plan_walked_tiles(periodicity, results, loads)
    if plan is None and loads == "unaligned":
        plan = plan_periods_instead_of_unaligned_columns(periodicity, results)
    if plan is not None or runs is not None or not are_elements:
        return plan, runs
    runs = short_runs_of(layout, element, limits) or out_of_order_runs_of(layout, element, limits)
    if runs is None:
        plan = plan_walk_instead_of_elements(periodicity, results)
        plan = plan or plan_periods_instead_of_elements(periodicity, results)
    return plan, runs


def _plan_vectors(periodicity: Periodicity, joining: Joining, results: Results) -> Plan | None:
    """Plan to read columns in vectors, joined or in periods, where others would read single elements."""
    periods, joined = partial(plan_periods, periodicity, results), partial(plan_joined, joining, results)

    def instead_of_joined() -> Plan | None:
        return (
            plan_periods_instead_of_joined(periodicity, results) if joining.is_slower_than_periods else None
        )

    # Blocks with gaps are read whole where no kernel reads them in vectors otherwise.
    if periodicity.must_read_gaps or joining.is_faster_than_periods:
        return instead_of_joined() or joined() or periods()
    return periods() or instead_of_joined() or joined() or plan_periods_as_last_way(periodicity, results)


def _plan_division(division: WorkDivision, reduction: Reduction, results: Results) -> Plan:
    """Return the plan of one step that divides the work so."""
    layout, element = reduction.layout, reduction.element
    input_bytes, limits, outputs = reduction.input_bytes, reduction.limits, layout.outputs
    if division.variant.get("simple_layout") and not layout.kept:
        layout = replace(layout, kept=(NO_DIM,))
    layout_words = dimension_words(layout)
    if division.reading is not None:
        layout_words = reading_layout_words(layout, division.reading, with_values=results.with_values)
    placed = division.family.placed(layout_words)
    scratch_base = len(placed.stored)
    workgroups = division.blocks * division.splits

    flags = {
        "layout_in_push": placed.in_push,
        **results.flags,
        "positions_adjacent": division.positions_adjacent,
    }
    push = division.family.push(
        **flags,
        lanes=division.lanes,
        outputs=outputs,
        reduce_count=layout.reduce_count,
        splits=division.splits,
        kept_dims=len(layout.kept),
        reduced_dims=len(layout.reduced),
        **bases(layout),
        scratch_base=scratch_base,
        run=division.run,
        tiles_per_run=division.tiles_per_run,
        tile_vectors=division.tile_vectors,
        positions_per_split=division.positions_per_split,
        layout_words=layout_words[: division.family.layout_room] if division.reading else placed.pushed,
    )
    kernel, constants = division.family.specialize(
        **element.specialization,
        **division.variant,
        workgroup=limits.workgroup_size,
        **order_rules(layout, reduction.order),
        split=division.splits > 1,
        fixed_flags=fixed_flags(
            division.family, flags, input_bytes, limits, writes_vectors=division.writes_vectors
        ),
        in_rounds=limits.in_rounds(workgroups, input_bytes, rows=division.family is ROWS),
        one_subgroup=limits.one_subgroup > 0,
    )
    step = checked_step(
        Step(
            kernel,
            constants,
            push,
            limits.started(workgroups),
            division.subgroup_size or limits.one_subgroup,
            division.loop_steps,
        ),
        limits,
    )
    counters, scratch_words = split_words(division.blocks, outputs, division.splits, element)
    return Plan(
        (step,),
        buffer_bytes(element, input_bytes, results, scratch_base + counters + scratch_words),
        placed.stored,
        counters,
    )
