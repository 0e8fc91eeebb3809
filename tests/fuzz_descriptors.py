"""Random descriptors and layouts against slow rules: python tests/fuzz_descriptors.py --seconds 60."""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import itertools
import math
import random
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Any

import layout_rules
from dml_rules import ALL_LEVELS, SUPPORT, rules_at
from dml_tensors import FUNCTIONS

from vkdml import dml
from vkdml.dml import DataType, ReduceFunction, TensorFlags
from vkdml.dml.c_names import c_field_name

# A case takes well below a millisecond: one that takes so long hangs.
HANGING_SECONDS = 30
BATCH = 500
SMALL = 2000  # elements that are enumerated
EDGES = (
    0,
    1,
    2,
    2**15,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 2,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    -1,
    -(2**31),
    -(2**63),
)


# ---- the rules of the documentation, one by one, in the slowest way ---------------------------------------


def places(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    return [
        sum(i * stride for i, stride in zip(coordinates, strides, strict=True))
        for coordinates in itertools.product(*map(range, sizes))
    ]


def tensor_is_accepted(tensor: dml.BufferTensorDesc, types: str, counts: tuple[int, ...]) -> bool:
    sizes, strides, data_type = tuple(tensor.sizes), tensor.strides, tensor.data_type
    if data_type.name not in types.split():
        return False
    if tensor.dimension_count != len(sizes) or len(sizes) not in counts:
        return False
    if not all(1 <= size < 2**32 for size in sizes) or math.prod(sizes) >= 2**32:
        return False
    if strides is None:
        spanned = math.prod(sizes)
    else:
        if len(strides) != len(sizes) or not all(0 <= stride < 2**32 for stride in strides):
            return False
        spanned = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    itemsize = data_type.dtype.itemsize
    total = tensor.total_tensor_size_in_bytes
    most = -(-(2**32 - 1) * itemsize // 4) * 4
    if spanned >= 2**32 or total % 4 or not spanned * itemsize <= total <= most:
        return False
    alignment = tensor.guaranteed_base_offset_alignment
    return alignment == 0 or alignment in [2**n for n in range(32) if 2**n >= itemsize]


def is_accepted(desc: dml.OperatorDesc, level: str) -> bool:
    """What `vkdml.dml.validate` must say."""
    rules = rules_at(desc.operator, level)
    if rules is None:
        return False
    counts, input_types, output_types = SUPPORT[desc.operator, rules]
    x, y = desc.input_tensor, desc.output_tensor
    if not tensor_is_accepted(x, input_types, counts) or not tensor_is_accepted(y, output_types, counts):
        return False
    if len(x.sizes) != len(y.sizes) or y.flags is not TensorFlags.NONE:
        return False
    if y.strides is not None and len(set(places(tuple(y.sizes), tuple(y.strides)))) < math.prod(y.sizes):
        return False
    if isinstance(desc, dml.Slice1OperatorDesc):
        window = (desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides)
        if any(len(entries) != len(x.sizes) for entries in window) or desc.dimension_count != len(x.sizes):
            return False
        for offset, size, stride, extent, taken in zip(*window, x.sizes, y.sizes, strict=True):
            if offset < 0 or size < 1 or offset + size > extent or stride == 0:
                return False
            if not -(2**31) <= stride < 2**31 or (taken - 1) * abs(stride) >= size:
                return False
        return x.data_type is y.data_type
    if desc.function not in (ReduceFunction.ARGMIN, ReduceFunction.ARGMAX):
        return False
    axes = list(desc.axes)
    if (
        desc.axis_count != len(axes)
        or len(set(axes)) < len(axes)
        or any(a not in range(len(x.sizes)) for a in axes)
    ):
        return False
    if tuple(y.sizes) != tuple(1 if a in axes else size for a, size in enumerate(x.sizes)):
        return False
    bits = y.data_type.size_in_bits - y.data_type.name.startswith("INT")
    return math.prod(x.sizes[a] for a in axes) <= 2**bits


# ---- random cases -----------------------------------------------------------------------------------------


class Draw(random.Random):
    """Mostly sound values, now and then one at an edge."""

    def rarely(self) -> bool:
        return self.random() < 0.04

    def entry(self, low: int, high: int) -> int:
        return self.choice(EDGES) if self.rarely() else self.randint(low, high)

    def entries(self, count: int, low: int, high: int) -> tuple[int, ...]:
        count += self.choice((-1, 1)) if self.random() < 0.02 else 0
        return tuple(self.entry(low, high) for _ in range(count))

    def tensor(self, data_type: DataType, sizes: tuple[int, ...], enumerated: bool) -> dml.BufferTensorDesc:
        fields: dict[str, Any] = {}
        if self.rarely():
            sizes = tuple(self.entry(1, 5) for _ in sizes)
        if self.random() < 0.4 and (not enumerated or 0 <= math.prod(map(abs, sizes)) <= SMALL):
            kind = self.choice(("any", "permuted", "padded"))
            strides = [0] * len(sizes)
            step = 1
            for axis in self.sample(range(len(sizes)), len(sizes)):
                strides[axis] = self.randint(0, 30) if kind == "any" else step
                step *= max(1, sizes[axis])
                step += self.randint(0, 3) if kind == "padded" else 0
            if self.rarely():
                strides = list(self.entries(len(sizes), 0, 9))
            fields["strides"] = tuple(strides)
        if self.rarely():
            fields["total_tensor_size_in_bytes"] = self.entry(0, 400)
        if self.rarely():
            fields["guaranteed_base_offset_alignment"] = self.entry(0, 33)
        if self.rarely():
            fields["dimension_count"] = self.entry(0, 9)
        if self.rarely():
            fields["flags"] = TensorFlags.OWNED_BY_DML
        if self.rarely():
            data_type = self.choice(list(DataType))
        return dml.BufferTensorDesc(data_type, sizes=sizes, **fields)

    def descriptor(self) -> tuple[dml.OperatorDesc, str]:
        operator, level = self.choice(sorted({operator for operator, _ in SUPPORT})), self.choice(ALL_LEVELS)
        rules = rules_at(operator, level)
        counts, input_types, output_types = (
            ((4,),) + 2 * ("FLOAT32",) if rules is None else SUPPORT[operator, rules]
        )
        rank = self.randint(0, 9) if self.rarely() else self.choice(counts)
        sizes = tuple(self.choice((1, 2, 3, 4, 5)) for _ in range(rank))
        if self.random() < 0.1:
            sizes = tuple(self.choice((1, 1, 2**8, 2**16, 2**16 - 1, 2**16 + 1, 2**31)) for _ in range(rank))
        x = self.tensor(DataType[self.choice(input_types.split())], sizes, enumerated=False)
        if operator == "SLICE1":
            offsets = tuple(self.randint(0, max(0, size - 1)) for size in sizes)
            window = tuple(
                self.randint(1, max(1, size - offset)) for size, offset in zip(sizes, offsets, strict=True)
            )
            strides = tuple(self.choice((1, -1, 2, -3, 7, -(2**31), 2**31 - 1)) for _ in sizes)
            taken = tuple(1 + (size - 1) // abs(stride) for size, stride in zip(window, strides, strict=True))
            if self.rarely():
                offsets = self.entries(rank, 0, 4)
            if self.rarely():
                window = self.entries(rank, 1, 4)
            if self.rarely():
                strides = self.entries(rank, -3, 3)
            y = self.tensor(x.data_type, taken, enumerated=True)
            count = self.entry(0, 9) if self.rarely() else -1
            return dml.Slice1OperatorDesc(x, y, offsets, window, strides, dimension_count=count), level
        axes = tuple(self.sample(range(rank), self.randint(0, rank)))
        kept = tuple(1 if a in axes else size for a, size in enumerate(sizes))
        y = self.tensor(DataType[self.choice(output_types.split())], kept, enumerated=True)
        if self.rarely():
            axes = self.entries(len(axes), -1, rank)
        count = self.entry(0, 9) if self.rarely() else -1
        if operator == "REDUCE":
            function = self.choice(list(ReduceFunction)) if self.rarely() else ReduceFunction.ARGMAX
            return dml.ReduceOperatorDesc(function, x, y, axes, axis_count=count), level
        return FUNCTIONS[operator](x, y, axes, axis_count=count), level

    def reduction(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Sizes, strides and axes as `layout_rules.reductions` has them, drawn faster."""
        rank = self.randint(0, 6)
        sizes = [self.choice((1, 1, 2, 2, 3, 4)) for _ in range(rank)]
        strides, step = [], 1
        for size in reversed(sizes):
            strides.append(step * self.choice((1, 1, 1, -1, 2, 0, -3)))
            step *= size
        strides.reverse()
        order = self.sample(range(rank), rank)
        axes = tuple(sorted(self.sample(range(rank), self.randint(0, rank))))
        return tuple(sizes[a] for a in order), tuple(strides[a] for a in order), axes


# ---- properties -------------------------------------------------------------------------------------------

counted: Counter[str] = Counter()


def check_c_names(draw: Draw) -> None:
    """Any mixture of positions, Python names, C names and numbers makes the same descriptor."""
    desc, _ = draw.descriptor()
    for struct in (desc, desc.input_tensor):
        members = [field.name for field in dataclasses.fields(struct)]
        values = {name: getattr(struct, name) for name in members}
        if draw.random() < 0.5:
            values = {n: int(v) if isinstance(v, Enum) else v for n, v in values.items()}
        positions = draw.randint(0, len(members))
        named = {
            draw.choice((name, c_field_name(name))): values[name]
            for name in draw.sample(members[positions:], len(members) - positions)
        }
        rebuilt = type(struct)(*(values[name] for name in members[:positions]), **named)
        assert rebuilt == struct, f"{positions} by position, {named} by name: {rebuilt} for {struct}"
        assert hash(rebuilt) == hash(struct)
        assert all(getattr(rebuilt, c_field_name(name)) == getattr(struct, name) for name in members)


def check_descriptor(draw: Draw) -> None:
    desc, level = draw.descriptor()
    try:
        named = draw.choice((level, f"DML_FEATURE_LEVEL_{level}", dml.FeatureLevel.of(level)))
        found = dml.validate(desc, named)
        rules = rules_at(desc.operator, level)
        assert rules is not None, f"accepted wrongly: {desc} at {level}, which does not have it"
        expected = dml.Validated(dml.FeatureLevel.of(level), dml.FeatureLevel.of(rules))
        assert found == expected, f"{found} for {desc} at {level}"
        said = None
    except ValueError as error:
        said = str(error)
    accepted = said is None
    assert said is None or "; accepted: " in said, f"{said!r} does not say what is accepted"
    counted["accepted" if accepted else "refused"] += 1
    assert accepted == is_accepted(desc, level), (
        f"{'accepted' if accepted else 'refused'} wrongly: {desc} at {level}"
    )


def check_reduction(draw: Draw) -> None:
    reduction, take_last = draw.reduction(), draw.random() < 0.5
    try:
        layout_rules.check_reduction(reduction, take_last)
    except AssertionError as error:
        raise AssertionError(
            f"canonical_reduce of (sizes, strides, axes) {reduction}, {take_last=}"
        ) from error


def check_copy(draw: Draw) -> None:
    reduction, steps = draw.reduction(), [draw.choice((1, -1, 2)) for _ in range(6)]
    try:
        layout_rules.check_copy(reduction, steps)
    except AssertionError as error:
        raise AssertionError(f"canonical_copy of (sizes, strides, ...) {reduction}, {steps=}") from error


PROPERTIES: dict[str, Callable[[Draw], None]] = {
    "validate": check_descriptor,
    "c_names": check_c_names,
    "canonical_reduce": check_reduction,
    "canonical_copy": check_copy,
}


def run_batch(name: str, seed: int) -> float:
    """Seconds that a batch takes. Raises what its first wrong case raises."""
    draw, check = Draw(f"{name} {seed}"), PROPERTIES[name]
    faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True, file=sys.__stderr__)
    try:
        started = time.perf_counter()
        for _ in range(BATCH):
            check(draw)
        return time.perf_counter() - started
    finally:
        faulthandler.cancel_dump_traceback_later()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default 60)")
    parser.add_argument("--seed", type=int, help="of the first batches, to repeat a run (default: random)")
    parser.add_argument("--only", choices=sorted(PROPERTIES), help="one property alone")
    options = parser.parse_args(arguments)
    if not options.seconds > 0:
        parser.error(f"--seconds {options.seconds:g}: more than 0 is accepted")
    names = [options.only] if options.only else list(PROPERTIES)
    first = seed = secrets.randbits(32) if options.seed is None else options.seed
    seconds: Counter[str] = Counter()
    print(f"seed {first}, {options.seconds:g} s", flush=True)
    started = time.monotonic()
    while time.monotonic() - started < options.seconds:
        for name in names:
            try:
                seconds[name] += run_batch(name, seed)
            except Exception:
                traceback.print_exc()
                print(
                    f"\nFAILED; again: python tests/fuzz_descriptors.py --only {name} --seed {seed}",
                    flush=True,
                )
                return 1
        seed += 1
    cases = (seed - first) * BATCH
    for name in names:
        print(f"{name}: {cases} cases, {cases / seconds[name]:.0f} cases/s")
    print(f"no failure; descriptors accepted {counted['accepted']}, refused {counted['refused']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
