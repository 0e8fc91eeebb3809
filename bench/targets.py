"""The developers' targets, and whether a run on a GPU met them: python bench/targets.py FILE.json ...

Prints each case of the full suite and each latency case that has a target, with what was reached. Targets of
kernels are for one device, those of public calls and chains for any GPU. The kernels of a case that was made
smaller have none. The exit status is 1 if a target was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vkdml.bench.cases import ELEMENT_BYTES, MIB, Case
from vkdml.bench.files import RecordFault
from vkdml.bench.record import Record
from vkdml.bench.record_file import load

DEVICE = "H200"
"""Part of the name of the device that the targets of kernels are for."""


@dataclass(frozen=True)
class Target:
    """What a case is to reach."""

    unit: str
    """``GB/s``: at least ``value``; ``us`` and ``us over the kernels``: at most; ``of``: at most ``value``
    times as long as ``case``."""
    value: float
    case: str = ""

    def __str__(self) -> str:
        if self.unit == "of":
            return f"at most {self.value:g} times as long as {self.case}"
        return f"at {'least' if self.unit == 'GB/s' else 'most'} {self.value:g} {self.unit}"


@dataclass(frozen=True)
class Verdict:
    """A case, its target, and what was reached in the target's unit (for ``of``: how many times as long)."""

    case: str
    target: Target
    reached: float

    @property
    def met(self) -> bool:
        if self.target.unit == "GB/s":
            return self.reached >= self.target.value
        return self.reached <= self.target.value


# GB/s, by the row of the table; elements that are not named have the rate of "*".
_RATES = {
    "last axis": {"*": 4300},
    "axis 0": {"*": 4300, "int8": 4000},
    "short rows": {"*": 4200, "int8": 3800},
    "short columns": {"*": 4300, "int8": 3800},
    "middle axis": {"*": 4200},
    "axes 0 and 2": {"*": 4200},
    "150 classes": {"*": 4200, "float32": 4300, "int8": 3800},
    "cube": {"*": 4200, "float32": 4450, "int8": 3800},
    "stack of 8": {"*": 4200, "float32": 4000, "int8": 3800},
    "segmentation": {"*": 4000, "float32": 4100, "int8": 3600},
}
_WINDOW_RATES = {
    "copy": {"*": 4050},
    "flip": {"*": 4050, "float16": 4000, "int8": 3900},
    "[::2, ::2]": {"*": 4050, "float32": 4000, "float16": 3800, "int8": 3400},
    "narrow": {"*": 4050, "float32": 4000, "float16": 3800, "int8": 3600},
    "transposed": {"*": 3800, "float32": 3600, "float16": 3400, "int8": 3000},
}
_SMALL_US = 4.5
_SIZES_US = {1 * MIB: 7, 4 * MIB: 8, 16 * MIB: 10, 64 * MIB: 22, 256 * MIB: 66}
_LOGITS_US = {
    (1, 32000): {"*": 6},
    (1, 128256): {"*": 7},
    (1, 262144): {"*": 8},
    (8, 151936): {"*": 7, "float32": 8},
    (64, 128256): {"*": 10, "float32": 14},
    (256, 151936): {"*": 24, "float32": 42},
}
# Times as long as the same layout of random data and default options.
_HARD_DATA, _OPTIONS = 1.10, 1.05
_LATENCY_US = {
    "array on the device, 1024 f32": 16.0,
    "row of an array on the device, 1024 f32": 20.0,
    "recorded sequence, 1024 f32": 16.0,
    "host array, 1024 f32": 24.0,
    "100 recorded sequences in turn, 1024 f32": 25.0,
}
_NOT_BEHIND_TORCH = ("array", "to device", "to host")
"""Kinds of latency cases that take at most as long as torch's."""
_CALL_OVER_KERNELS_US = 30.0
SUITES = ("full", "slice", "real", "short", "latency")


def target_of(case: Case) -> Target | None:
    """Return the target of a case of the full suite."""
    if case.scaled_from:
        return None
    if case.row == "all axes":
        return Target("GB/s", 4400 if ELEMENT_BYTES[case.element] == 1 else 4450)
    if case.row in _RATES:
        return Target("GB/s", _of_element(_RATES[case.row], case.element))
    if case.row == "slice1":
        return Target("GB/s", _of_element(_WINDOW_RATES[case.window], case.element))
    if case.row == "small":
        return Target("us", _SMALL_US)
    if case.row == "sizes":
        return Target("us", _SIZES_US[case.input_bytes])
    if case.row == "logits":
        return Target("us", _of_element(_LOGITS_US[case.shape[0], case.shape[1]], case.element))
    if case.row == "hard data":
        return Target("of", _HARD_DATA, replace(case, data="bits").name)
    if case.row == "options":
        plain = replace(
            case, op="argmax", direction="increasing", nan_policy="propagate", return_values=False
        )
        return Target("of", _OPTIONS, plain.name)
    return None


def _of_element(values: dict[str, int], element: str) -> int:
    return values.get(element, values["*"])


def verdicts(record: Record) -> Iterator[Verdict]:
    """Yield a verdict for each case that has a target; one whose other case was not timed has none."""
    if DEVICE in record.device["name"]:
        yield from _of_kernels(record)
    for row in record.rows:
        if row.over_kernel_us is not None:
            target = Target("us over the kernels", _CALL_OVER_KERNELS_US)
            yield Verdict(f"{row.case}, public call on an Array", target, row.over_kernel_us)
        jax = row.peers.get("jax")
        if row.chain is not None and jax is not None and jax.chain is not None:
            target = Target("of", 1.0, "JAX's chain")
            yield Verdict(f"{row.case}, chain", target, row.chain.us / jax.chain.us)
    for latency in record.latency:
        if latency.case in _LATENCY_US:
            yield Verdict(latency.case, Target("us", _LATENCY_US[latency.case]), latency.ours.p50_us)
        torch = latency.peers.get("torch")
        if latency.kind in _NOT_BEHIND_TORCH and torch is not None and not torch.why:
            yield Verdict(latency.case, Target("of", 1.0, "torch's"), latency.ours.p50_us / torch.p50_us)


def _of_kernels(record: Record) -> Iterator[Verdict]:
    times = {row.case: row.us for row in record.rows}
    for row in record.rows:
        target = target_of(row.as_case())
        if target is None:
            continue
        if target.unit == "GB/s":
            yield Verdict(row.case, target, row.gb_per_s)
        elif target.unit == "us":
            yield Verdict(row.case, target, row.us)
        elif target.case in times:
            yield Verdict(row.case, target, row.us / times[target.case])


def main(arguments: Sequence[str]) -> int:
    """Print the verdicts on each file; returns the exit status."""
    if not arguments:
        print("usage: python bench/targets.py FILE.json ...", file=sys.stderr)
        return 2
    missed = 0
    for file in arguments:
        try:
            record = load(file)
        except RecordFault as error:
            print(f"targets: {error}", file=sys.stderr)
            return 2
        if record.device["type"] == "software" or record.suite not in SUITES:
            print(
                f"targets: {file}: the {record.suite} suite on {record.device['name']}; accepted is the "
                f"{', '.join(SUITES[:-1])} or {SUITES[-1]} suite on a GPU",
                file=sys.stderr,
            )
            return 2
        found = list(verdicts(record))
        for verdict in found:
            reached = f"{verdict.reached:.4g}"
            print(f"{'met   ' if verdict.met else 'missed'}  {verdict.case}: {reached}, {verdict.target}")
        missed += sum(not verdict.met for verdict in found)
        print(f"{file}: {sum(verdict.met for verdict in found)} of {len(found)} targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
