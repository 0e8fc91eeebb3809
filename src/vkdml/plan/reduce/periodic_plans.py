"""Plans of reductions in periods, each instead of another way; ``periodic.py`` says what speaks for it."""

from __future__ import annotations

from vkdml.plan.layout import ReduceLayout
from vkdml.plan.plans import GPU_LINE_BYTES, Plan, TooMuchWork
from vkdml.plan.reduce.in_parts import LEAST_TIME, InParts, fastest_in_parts, plan_in_parts
from vkdml.plan.reduce.periodic import Periodicity
from vkdml.plan.reduce.reductions import Results
from vkdml.plan.reduce.repetition import Repetition, best_repetition
from vkdml.plan.reduce.runs import Runs, are_many_and_short
from vkdml.plan.schema import ElementType

# Bytes. Longer rows of outputs out of the order of positions are read in columns.
_LONG_ROW_OUT_OF_ORDER = 16 * 1024
# Bytes that a GPU reads in the time that it takes to find a run out of order, and for each byte of the run.
_RUN_BYTES, _TIMES_OF_RUN = 96, 1.3
# Of the time of short runs, the most that periods may be expected to take.
_WORTHWHILE_SHARE = 0.9
# Of runs out of memory order that a processor reads in periods: the most outputs, bytes of the longest run,
# and the fewest positions that each column has then.
_MOST_OUTPUTS_OF_RUNS, _LONGEST_RUN_IN_PERIODS, _FEWEST_POSITIONS_OF_RUNS = 16, 900, 40
# Of the time of the fastest read, the most that periods may be expected to take instead of columns whose
# loads start anywhere in a vector: along several dimensions, and in rows shorter than a line.
_TIMES_OF_SEVERAL, _TIMES_OF_SHORT_ROWS = 1.4, 1.25


def plan_periods(periodicity: Periodicity, results: Results) -> Plan | None:
    """Plan a reduction so if it is faster than others and possible."""
    return _plan_if_possible(periodicity.best, periodicity, results)


def plan_periods_instead_of_elements(periodicity: Periodicity, results: Results) -> Plan | None:
    """Plan a reduction so where a GPU would read elements by themselves else, and take longer."""
    return _plan_if_possible(periodicity.instead_of_elements, periodicity, results)


def plan_periods_as_last_way(periodicity: Periodicity, results: Results) -> Plan | None:
    """Plan a reduction so where nothing else reads its memory in order; arguments as above.

    Bytes and halves out of order take 0.06 to 1.13 of the time, 0.69 on average (H200), on lavapipe 0.63 and
    0.78. Many positions in unaligned rows take 0.94 of the time (30 shapes on an H200, 0.75 to 1.08).
    """
    if periodicity.element.nbytes >= 4 or periodicity.runs is not None:
        return None
    if periodicity.input_bytes < periodicity.limits.tuning.periods.from_bytes:
        return None
    # Long rows are read as fast where they are.
    is_slow_out_of_order = (
        periodicity.is_out_of_order and periodicity.row_of_outputs_bytes <= _LONG_ROW_OUT_OF_ORDER
    )
    if not (is_slow_out_of_order or periodicity.are_many_unaligned_rows):
        return None
    layout, element = periodicity.layout, periodicity.element
    repetition = best_repetition(layout, element, periodicity.input_bytes, is_only_way=True)
    return _plan_if_possible(repetition, periodicity, results)


def plan_periods_instead_of_joined(periodicity: Periodicity, results: Results) -> Plan | None:
    """Plan a reduction the fastest way that reads all its outputs at once; None if no way does."""
    element, input_bytes = periodicity.element, periodicity.input_bytes
    return _plan_parts_if_possible(
        fastest_in_parts(periodicity.layout, element, input_bytes, most=1), periodicity, results
    )


def plan_periods_instead_of_unaligned_columns(periodicity: Periodicity, results: Results) -> Plan | None:
    """Plan a reduction so where a GPU would load columns that start anywhere in a vector, and take longer.

    Along several dimensions, or in short rows, it takes 0.89 of the time (25 shapes on an H200, 0.73 to
    1.03).
    """
    layout, element, input_bytes = periodicity.layout, periodicity.element, periodicity.input_bytes
    nbytes = layout.outputs * layout.reduce_count * element.nbytes
    # Of small inputs, and on processors, no ways are compared.
    if periodicity.limits.tuning.is_processor or _TIMES_OF_SEVERAL * nbytes < LEAST_TIME:
        return None
    whole = fastest_in_parts(layout, element, input_bytes, most=1)
    if whole is None:
        return None
    time = whole.time(element.nbytes) / nbytes
    # To compare floats of 8 bytes takes longer than to read them.
    is_double = element.is_float and element.nbytes == 8
    if len(layout.reduced) > 1 and not is_double:
        is_aligned = element.nbytes <= 4 or whole.repetition.is_aligned
        is_faster = is_aligned and time <= _TIMES_OF_SEVERAL
    else:
        is_faster = whole.repetition.is_aligned and time <= _TIMES_OF_SHORT_ROWS
        is_faster = is_faster and periodicity.row_of_outputs_bytes < GPU_LINE_BYTES
    return _plan_parts_if_possible(whole, periodicity, results) if is_faster else None


def plan_periods_instead_of_short_runs(periodicity: Periodicity, runs: Runs, results: Results) -> Plan | None:
    """Plan a reduction so where many short runs would be read out of memory order, and take longer.

    It takes 0.32 of the time (31 of 73 shapes on an H200, 0.08 to 0.82). Each run would be found by
    divisions. On a processor it does for few outputs (0.26 to 0.82 of the time, lavapipe).
    """
    layout, element, input_bytes = periodicity.layout, periodicity.element, periodicity.input_bytes
    tuning, nbytes = periodicity.limits.tuning, element.nbytes
    if input_bytes < tuning.periods.out_of_order_from_bytes:
        return None
    if tuning.is_processor:
        whole = _few_columns_of_separate_runs(layout, element, input_bytes, runs)
        return _plan_parts_if_possible(whole, periodicity, results)
    if runs.reading is None or not are_many_and_short(runs, layout, element, tuning):
        return None
    in_parts = fastest_in_parts(layout, element, input_bytes)
    number = layout.outputs * layout.reduce_count // runs.length
    time_of_runs = number * (_RUN_BYTES + _TIMES_OF_RUN * runs.extent * nbytes)
    if in_parts is None or in_parts.time(nbytes) > _WORTHWHILE_SHARE * time_of_runs:
        return None
    return _plan_parts_if_possible(in_parts, periodicity, results)


def _few_columns_of_separate_runs(
    layout: ReduceLayout, element: ElementType, input_bytes: int, runs: Runs
) -> InParts | None:
    """Return how a processor reads short runs of few outputs in periods; None if these are others."""
    if runs.reading is None or layout.outputs > _MOST_OUTPUTS_OF_RUNS or element.nbytes > 4:
        return None
    if runs.extent * element.nbytes > _LONGEST_RUN_IN_PERIODS:
        return None
    whole = fastest_in_parts(layout, element, input_bytes, most=1)
    return whole if whole is not None and whole.repetition.size >= _FEWEST_POSITIONS_OF_RUNS else None


def _plan_if_possible(
    repetition: Repetition | None, periodicity: Periodicity, results: Results
) -> Plan | None:
    whole = InParts((periodicity.layout,), repetition) if repetition is not None else None
    return _plan_parts_if_possible(whole, periodicity, results)


def _plan_parts_if_possible(
    in_parts: InParts | None, periodicity: Periodicity, results: Results
) -> Plan | None:
    if in_parts is None:
        return None
    try:
        return plan_in_parts(in_parts, periodicity, results)
    except TooMuchWork:
        return None
