"""What all plans of argmin and argmax share: limits, scratch memory, the layout's words, the buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vkdml.common.rounding import ceil_div, round_up
from vkdml.plan import kernels
from vkdml.plan.layout import ReduceLayout
from vkdml.plan.order import Order
from vkdml.plan.plans import VECTOR_BYTES, WORDS_LIMIT, DeviceLimits, check_work, dim_words, words
from vkdml.plan.schema import ElementType, Family
from vkdml.plan.tuning import Tuning

# A narrow key shares a word with its position in the split.
NARROW_SHARE = (1 << kernels.number("narrow_rank_bits")) - 1
# Of a stride, loads that an invocation has in flight: of vectors, and of single elements.
VECTOR_LOADS = kernels.number("vector_loads_at_once")
ELEMENT_LOADS = kernels.number("element_loads_at_once")
# Positions that are evenly apart, of which an invocation takes too few at a time.
_FEW_IN_TURN = 12
_UNLIMITED = 1 << 62
# By element width the share of `columns_workgroups` that run at once with the registers that periods take,
# and columns of single elements; column_costs.py has those of vectors.
_AT_ONCE = {1: 1 / 4, 2: 1 / 4, 4: 3 / 8, 8: 3 / 8}
# What the exchange of a workgroup's lanes takes, in loads of a lane.
_EXCHANGE_LOADS = 8
# Elements of a row of outputs of which vectors would be loaded partly in vain, where rows are unaligned.
SHORT_ROW_OF_OUTPUTS = 48
# Indices of 4 bytes in a vector; so many rows of narrow elements an invocation takes at once.
FOUR = 4


@dataclass(frozen=True)
class Results:
    """What a plan writes for each output: an index, and its element if that is asked for."""

    index_bytes: int
    """4 or 8."""
    with_values: bool
    elements: int
    """In each output buffer."""
    greatest_index: int

    @property
    def flags(self) -> dict[str, bool]:
        """What kernels are told of it."""
        return {
            "wide_indices": self.index_bytes == 8,
            "high_words": self.index_bytes == 8 and self.greatest_index >= WORDS_LIMIT,
            "with_values": self.with_values,
        }


def order_rules(layout: ReduceLayout, order: Order) -> dict[str, int | str]:
    """Return the constants of an order; backwards positions turn the tie rule round."""
    return {
        "take_min": order.take_min,
        "take_last": order.take_last != layout.reversed_order,
        "omit_nan": order.omit_nan,
    }


def bases(layout: ReduceLayout) -> dict[str, int]:
    """Return where a layout starts, for the push constants."""
    return {
        "input_base": layout.input_base,
        "output_base": layout.output_base,
        "index_base": layout.index_base,
    }


def candidate_words(element: ElementType) -> int:
    """Return the words of one candidate: a key and a rank."""
    return (2 if element.nbytes == 8 else 1) + 1


def most_candidates(element: ElementType, input_bytes: int) -> int:
    """Return how many candidates fit the scratch memory, 1% of the input plus 1 MiB.

    Layout and counters take less than the 64 KiB that are left.
    """
    return scratch_words(input_bytes) // candidate_words(element)


def scratch_words(input_bytes: int) -> int:
    """Return how many words of candidates the scratch memory has room for."""
    return (input_bytes // 100 + (1 << 20) - (1 << 16)) // 4


def least_splits(positions: int, element: ElementType) -> int:
    """Return how many splits so many positions need: a narrow key shares a word with one of its split."""
    return ceil_div(positions, NARROW_SHARE) if element.nbytes < 4 else 1


def most_splits(outputs: int, element: ElementType, input_bytes: int) -> int:
    """Return how many splits fit the scratch memory."""
    return max(1, most_candidates(element, input_bytes) // outputs)


def split_words(blocks: int, outputs: int, splits: int, element: ElementType) -> tuple[int, int]:
    """Return the words of scratch memory for counters, and for candidates; none without splits."""
    return (blocks, outputs * splits * candidate_words(element)) if splits > 1 else (0, 0)


def worthwhile_workgroups(layout: ReduceLayout, element: ElementType, tuning: Tuning) -> int:
    """Return the most workgroups that a reduction is divided among only to fill a device."""
    nbytes = layout.outputs * layout.reduce_count * element.nbytes
    return max(nbytes // tuning.split_bytes, 1) if tuning.split_bytes else _UNLIMITED


def are_few_in_turn(layout: ReduceLayout) -> bool:
    """Tell whether positions are evenly apart only a few at a time."""
    return len(layout.reduced) > 1 and layout.reduced[-1].size < _FEW_IN_TURN


def bytes_of_workgroup(nbytes: int, tuning: Tuning) -> int:
    """Return how many bytes of an input of so many a workgroup reads, so that there are enough workgroups."""
    return max(nbytes // rows_workgroups(nbytes, tuning), 1024)


def rows_workgroups(nbytes: int, tuning: Tuning) -> int:
    """Return how many workgroups a reduction of rows, of so many bytes, is divided among to fill a device.

    Fewer divide a small input, so that each reads enough for what it costs to start it and to exchange what
    its invocations found: of 1 to 96 MiB that takes 0.6 to 1.2 of the time, 0.9 on average (H100).
    """
    return _filling(tuning.target_workgroups, tuning.target_workgroup_bytes, nbytes, tuning)


def columns_workgroups(nbytes: int, tuning: Tuning, times: int = 1) -> int:
    """Return the same for a reduction along a stride: of 4 to 48 MiB 0.5 to 1.1 of the time, 0.9 on average.

    Args:
        nbytes: of the input.
        tuning: of the device.
        times: as many bytes as others that each workgroup has.
    """
    return _filling(tuning.columns_workgroups, times * tuning.columns_workgroup_bytes, nbytes, tuning)


def _filling(most: int, fewest_bytes: int, nbytes: int, tuning: Tuning) -> int:
    return min(most, max(tuning.split_workgroups, nbytes // fewest_bytes)) if fewest_bytes else most


def workgroups_at_once(element: ElementType, tuning: Tuning) -> int:
    """Return how many workgroups that fold periods, or columns of single elements, run at the same time."""
    return int(tuning.columns_workgroups * _AT_ONCE[element.nbytes])


def whole_waves(blocks: int, most: int, loads: float, candidates: float, at_once: int) -> int:
    """Return the splits, at most so many, whose workgroups nearly fill whole waves of ``at_once``.

    A last wave with few workgroups takes as long as a full one. Each workgroup has ``loads`` of each lane
    divided by the splits, and an exchange; each split adds ``candidates``, a share of the input's bytes.
    """

    def cost(splits: int) -> float:
        waves = blocks * splits / max(at_once, 1)
        return math.ceil(waves) / waves * (1 + _EXCHANGE_LOADS * splits / loads) + 4 * candidates * splits

    # Where fewer splits are allowed than make a wave, as many as are allowed come nearest to one.
    choices = {min(waves * at_once // blocks, most) for waves in range(1, 5)} | {1, 2, 3, 4}
    return min(
        (splits for splits in choices if 1 <= splits <= most), key=lambda splits: (cost(splits), splits)
    )


def enough_splits(wanted: int, most: int, loop_steps: Callable[[int], int], limits: DeviceLimits) -> int:
    """Return the number of splits: ``wanted``, or more, up to ``most``, where the loops would be too long.

    More splits may need more scratch memory than allowed; a correct result comes first.
    """
    splits = wanted
    while loop_steps(splits) > limits.max_loop_steps and splits < most:
        splits = min(ceil_div(splits * 5, 4), most)
    return splits


def settled_splits(
    wanted: int,
    most: int,
    positions: int,
    blocks: int,
    loop_steps: Callable[[int], int],
    limits: DeviceLimits,
) -> tuple[int, int]:
    """Return the number of splits, and how many positions each of them has: no split has none.

    Args:
        wanted: splits, unless the loops would be too long.
        most: splits.
        positions: that are divided.
        blocks: workgroups of each split.
        loop_steps: of an invocation, by the number of splits.
        limits: of the device.

    Raises:
        TooMuchWork: more workgroups than the kernels count.
    """
    share = ceil_div(positions, enough_splits(wanted, most, loop_steps, limits))
    splits = ceil_div(positions, share)
    check_work("splits", blocks * splits)
    return splits, share


def dimension_words(layout: ReduceLayout) -> tuple[int, ...]:
    """Return what kernels read about the kept and then the reduced dimensions."""
    return (*dim_words(layout.kept), *reduced_words(layout))


def reduced_words(layout: ReduceLayout) -> tuple[int, ...]:
    """Return what kernels read about the reduced dimensions in the order of positions."""
    return words(
        word
        for dim in layout.reduced
        for word in (dim.size, dim.input_stride, dim.output_stride, dim.output_stride >> 32)
    )


def fixed_flags(
    family: Family,
    flags: Mapping[str, bool],
    input_bytes: int,
    limits: DeviceLimits,
    *,
    writes_vectors: bool = False,
) -> int:
    """Return the constant that compiles these flags in; 0 where kernels ask for them, and share pipelines."""
    tuning = limits.tuning
    from_bytes = tuning.fixed_vector_flags_from_bytes if writes_vectors else tuning.fixed_flags_from_bytes
    return family.fixed_flags(**flags) if input_bytes >= from_bytes else 0


def buffer_bytes(
    element: ElementType, input_bytes: int, results: Results, workspace_words: int
) -> tuple[tuple[str, int], ...]:
    """Return the sizes of a plan's buffers by role."""
    return (
        ("input", round_up(input_bytes, VECTOR_BYTES)),
        ("indices", results.elements * results.index_bytes),
        ("values", round_up(results.elements * element.nbytes, 4) if results.with_values else 0),
        ("workspace", 4 * workspace_words),
    )
