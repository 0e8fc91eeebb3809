"""Plans: the kernels of one operation and their constants. Pure values: no device, no data.

Here is what all plans share; the modules of ``reduce``, ``slice`` and ``gather`` make them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from vkdml.common.rounding import round_up
from vkdml.plan import kernels
from vkdml.plan.layout import Dim
from vkdml.plan.loop_steps import UNLIMITED_LOOP_STEPS
from vkdml.plan.tuning import Tuning

PUSH_BYTES = kernels.schema().push_bytes
WORDS_LIMIT = 1 << 32
# Kernels count work in 32 bits and step over it, so they need some room at the end.
_WORK_LIMIT = 1 << 31
VECTOR_BYTES = kernels.number("vector_bytes")
# Memory is read and written in sectors: what lies closer together is read together with what lies between.
SECTOR_BYTES = kernels.number("vectors_per_sector") * VECTOR_BYTES
# Bytes of a line of a processor's caches, and of a GPU's.
LINE_BYTES = kernels.number("vectors_per_line") * VECTOR_BYTES
GPU_LINE_BYTES = 128
# Bytes. Lines at multiples of it from each other use the same places of a processor's caches.
PAGE_BYTES = 4096
# Shared memory that a kernel has for each invocation at most.
SHARED_BYTES_OF_INVOCATION = 48
UNLIMITED_SUBGROUPS = 1 << 32


@dataclass(frozen=True)
class DeviceLimits:
    """What a plan may assume of a device, and must respect."""

    tuning: Tuning
    max_storage_buffer_range: int
    max_workgroup_count: int
    max_workgroup_invocations: int
    max_shared_memory: int = 16 << 10
    subgroup_size: int = 0
    """Invocations of a subgroup if kernels may require that size, use shuffles and arithmetic; else 0."""
    max_loop_steps: int = UNLIMITED_LOOP_STEPS
    """Total steps that the loops of one invocation may make."""
    max_subgroups: int = UNLIMITED_SUBGROUPS
    """The most subgroups of a required size in a workgroup."""
    subgroups_are_threads: bool = False
    """The driver executes each subgroup in one thread of a processor, each instruction for all of its
    invocations, and its atomics order all memory."""

    def __post_init__(self) -> None:
        # Plans are looked up by it at each call.
        fields = (getattr(self, field.name) for field in dataclasses.fields(self))
        object.__setattr__(self, "_hash", hash(tuple(fields)))

    def __hash__(self) -> int:
        return self.__dict__["_hash"]  # type: ignore[no-any-return]

    @cached_property
    def workgroup_size(self) -> int:
        """Invocations per workgroup: a power of two within the limits."""
        most = min(self.max_workgroup_invocations, self.max_shared_memory // SHARED_BYTES_OF_INVOCATION)
        if self.subgroups_are_threads and self.tuning.is_processor and self.subgroup_size:
            most = min(most, self.subgroup_size)
        return min(self.tuning.workgroup_size, power_of_two_up_to(most))

    @property
    def one_subgroup(self) -> int:
        """The subgroup size that kernels require to do without barriers: a workgroup is one subgroup; else 0.

        lavapipe takes twice as long for kernels that have barriers.
        """
        size = self.subgroup_size
        return size if self.subgroups_are_threads and size == self.workgroup_size else 0

    def started(self, workgroups: int) -> int:
        """Return how many of so many workgroups the device starts, at most all of them."""
        return min(workgroups, self.max_workgroup_count)

    def in_rounds(self, workgroups: int, nbytes: int, *, rows: bool = False) -> bool:
        """Whether a kernel is compiled for fewer workgroups than its work needs.

        Without the loop, and the number of workgroups that it needs, a dispatch takes 0.2 to 0.5 us less
        (H200).

        Args:
            workgroups: that the work needs.
            nbytes: of the input.
            rows: the kernel is ``argreduce_rows``.
        """
        return not self.has_fixed_start(nbytes, rows=rows) or self.started(workgroups) < workgroups

    def has_fixed_start(self, nbytes: int, *, rows: bool = False) -> bool:
        """Whether kernels for so large an input have pipelines of their own, which start sooner."""
        tuning = self.tuning
        return nbytes <= (tuning.fixed_row_starts_to_bytes if rows else tuning.fixed_starts_to_bytes)

    def with_workgroup_size(self, workgroup_size: int) -> DeviceLimits:
        """Return limits with so many invocations per workgroup, or as many as the device allows."""
        tuning = dataclasses.replace(self.tuning, workgroup_size=workgroup_size)
        return dataclasses.replace(self, tuning=tuning)


Pipeline = tuple[str, tuple[int, ...], int, bytes]
"""A kernel, its specialization constants, its subgroup size, and the push constants compiled into it."""


@dataclass(frozen=True)
class Step:
    """One dispatch: a kernel of the table, its specialization constants, push constants and workgroups."""

    kernel: str
    constants: tuple[int, ...]
    push: bytes
    workgroups: int
    subgroup_size: int = 0
    """The required size of all subgroups; 0 requires none."""
    loop_steps: int = 0
    """The most steps that the loops of one invocation make."""
    fixed_parameters: bool = False
    """The push constants are compiled in, so that the step has a pipeline of its own and pushes nothing."""

    @property
    def compiled_in(self) -> bytes:
        """The push constants that its pipeline has compiled in; none of a pipeline that steps share."""
        return self.push if self.fixed_parameters else b""

    @property
    def pipeline(self) -> Pipeline:
        """What tells its pipeline from those of other steps."""
        return self.kernel, self.constants, self.subgroup_size, self.compiled_in


@dataclass(frozen=True)
class Plan:
    """The dispatches of one operation, in order, and the sizes of their buffers in bytes.

    The workspace starts with ``layout``, words that the host writes once, followed by ``counters`` words that
    are 0 before and after each run; the rest is scratch. A buffer of size 0 is not used.
    """

    steps: tuple[Step, ...]
    buffer_bytes: tuple[tuple[str, int], ...]
    layout: tuple[int, ...]
    counters: int = 0

    def bytes_of(self, role: str) -> int:
        return dict(self.buffer_bytes).get(role, 0)

    def __post_init__(self) -> None:
        # Plans are looked up at each call.
        object.__setattr__(self, "_hash", hash((self.steps, self.buffer_bytes, self.layout, self.counters)))

    def __hash__(self) -> int:
        return self.__dict__["_hash"]  # type: ignore[no-any-return]


class TooMuchWork(ValueError):
    """More work than one dispatch can do. Tiles of a host array may still be within the limits."""


def power_of_two_at_least(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def power_of_two_up_to(n: int) -> int:
    """Return the greatest power of two up to ``n``, or 1.

    >>> power_of_two_up_to(12), power_of_two_up_to(0)
    (8, 1)
    """
    return 1 << (max(n, 1).bit_length() - 1)


def words(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(value % WORDS_LIMIT for value in values)


def dim_words(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Return what kernels read about copied or kept dimensions."""
    return words(word for dim in dims for word in (dim.size, dim.input_stride, dim.output_stride))


def check_buffer(what: str, nbytes: int, limits: DeviceLimits) -> None:
    """Raise MemoryError if a buffer of so many bytes is larger than the device's may be."""
    if nbytes > limits.max_storage_buffer_range:
        raise MemoryError(
            f"the {what} spans {nbytes} bytes, more than one buffer of this device can hold "
            f"({limits.max_storage_buffer_range} bytes): reduce or slice it in parts"
        )


def check_work(what: str, count: int) -> None:
    """Raise TooMuchWork if kernels cannot count so many."""
    if count >= _WORK_LIMIT:
        raise TooMuchWork(
            f"{count} {what} in one call are more than the kernels count (fewer than {_WORK_LIMIT})"
        )


def checked_step(step: Step, limits: DeviceLimits) -> Step:
    """Return the step if the device completes it; every step of a plan passes through here.

    Raises:
        TooMuchWork: the driver would end its loops early.
    """
    if step.loop_steps > limits.max_loop_steps:
        raise TooMuchWork(
            f"{step.kernel} would make {step.loop_steps} loop steps in each of {step.workgroups} workgroups, "
            f"and this driver ends a kernel's loops after {limits.max_loop_steps}: process it in parts"
        )
    return step


def whole_vectors(nbytes: int) -> int:
    """Return the bytes of a buffer for so many: kernels read it by vectors.

    >>> whole_vectors(0), whole_vectors(17)
    (16, 32)
    """
    return max(round_up(nbytes, VECTOR_BYTES), VECTOR_BYTES)
