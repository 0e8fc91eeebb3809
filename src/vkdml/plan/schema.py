"""Reads ``shaders/kernels.json``, the schema of everything that the host and the shaders agree on.

The build runs this file by its path, so it needs the standard library and nothing of the package.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_WORD_BITS = 32
_WORD_MASK = (1 << _WORD_BITS) - 1


@dataclass(frozen=True)
class ElementType:
    """What is known of one type of elements."""

    name: str
    nbytes: int
    kind: str
    """``float``, ``signed``, ``unsigned`` or ``bool``."""
    nan_patterns: int
    """Bit patterns of each sign that are NaN."""
    package: str
    """Which package defines the NumPy type of this name: ``numpy`` or ``ml_dtypes``."""
    short: str

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def greatest_magnitude(self) -> int:
        """Of a float, the bits of infinity, or of the greatest number where there is none: NaNs lie above."""
        return (1 << 8 * self.nbytes - 1) - 1 - self.nan_patterns

    @cached_property
    def specialization(self) -> dict[str, int | str]:
        """What kernels that compare elements must know; arguments of :meth:`Family.specialize`."""
        return {
            "keys": self.kind if self.kind in ("float", "bool") else "integer",
            "element_bytes": self.nbytes,
            "nan_patterns_low": self.nan_patterns & _WORD_MASK,
            "nan_patterns_high": self.nan_patterns >> _WORD_BITS,
            "signed_elements": self.kind == "signed",
        }


@dataclass(frozen=True)
class Constant:
    """A specialization constant. Its slot is its place in its family's list."""

    name: str
    type: str
    """``uint`` or ``bool``."""
    default: int
    only: tuple[tuple[str, str], ...]
    """The constant exists only in variants with these values of these axes."""
    about: str


@dataclass(frozen=True)
class Field:
    """A field of the push constants."""

    name: str
    type: str
    """``uint``, ``uint64``, ``flags`` or ``words``."""
    flags: tuple[str, ...]
    """The names of its bits, from the lowest on."""
    about: str

    @cached_property
    def bits(self) -> tuple[tuple[str, int], ...]:
        """Each flag and its bit."""
        return tuple((flag, 1 << place) for place, flag in enumerate(self.flags))


@dataclass(frozen=True, eq=False)
class Kernel:
    """One SPIR-V module: a variant of a family."""

    name: str
    family: Family
    variant: Mapping[str, str]
    """Axis to value."""

    @property
    def bindings(self) -> tuple[str, ...]:
        """What binding 0, 1, ... is, such as ``input``, ``indices`` and ``workspace``."""
        return self.family.bindings

    @cached_property
    def macros(self) -> dict[str, int]:
        """What the compiler is told."""
        return {axis.upper(): self.family.axes[axis][value] for axis, value in self.variant.items()}

    @cached_property
    def own_constants(self) -> tuple[Constant | None, ...]:
        """By slot the constants that this module has; None where another variant has one."""
        return tuple(constant if self._has(constant) else None for constant in self.family.constants)

    def _has(self, constant: Constant) -> bool:
        return all(self.variant.get(axis) == value for axis, value in constant.only)

    def named(self, constants: Iterable[int]) -> dict[str, int]:
        """Return by name those constants of a step that the module has.

        Args:
            constants: by slot, as :meth:`Family.specialize` gives them.
        """
        pairs = zip(self.own_constants, constants, strict=True)
        return {constant.name: value for constant, value in pairs if constant is not None}


@dataclass(frozen=True)
class PlacedLayout:
    """Where kernels read the words of a layout: all in the push constants, or all in the workspace."""

    pushed: tuple[int, ...]
    stored: tuple[int, ...]
    """What lies at the front of the workspace."""

    @property
    def in_push(self) -> bool:
        return not self.stored


@dataclass(frozen=True, eq=False)
class Family:
    """The kernels of one shader file: their inputs and their variants."""

    name: str
    bindings: tuple[str, ...]
    constants: tuple[Constant, ...]
    push_fields: tuple[Field, ...]
    push_bytes: int
    axes: Mapping[str, Mapping[str, int]]
    """Axis to its values' names and numbers."""
    files: Mapping[str, Mapping[str, Mapping[str, str]]]
    """What a shader includes under a name: by axis, value to file."""
    has_constants_of_shape: bool
    """Whether constants are numbers of a call's shape, of which there is no end."""
    kernels: dict[tuple[tuple[str, str], ...], Kernel]
    """By the names of its values along all axes."""

    @property
    def source(self) -> str:
        return f"{self.name}.comp"

    @cached_property
    def _axis_numbers(self) -> dict[str, dict[int | str, str]]:
        return {
            axis: {**{number: name for name, number in values.items()}, **{name: name for name in values}}
            for axis, values in self.axes.items()
        }

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.axes) | {constant.name for constant in self.constants}

    @cached_property
    def _specialized(self) -> dict[tuple[tuple[str, int | str], ...], tuple[str, tuple[int, ...]]]:
        return {}

    def specialize(self, **values: int | str) -> tuple[str, tuple[int, ...]]:
        """Return the module and the constants, by slot, of a kernel for which all this holds.

        >>> from vkdml.plan import kernels
        >>> kernels.family("slice1_runs").specialize(
        ...     whole_vectors=True, step=2, element_bytes=1, workgroup=64, layout_in_push=True,
        ...     parted=0, written=0, parts_in_turn=1, run_dims=0, rows_last_first=0, row_words=0
        ... )
        ('slice1_runs_second_1_bytes', (64, 1, 0, 1, 0, 0, 0))

        Args:
            values: of every axis, by name or number, and of every constant of the family. A constant that the
                variant does without stays 0, so that pipelines are shared.

        Raises:
            TypeError: a name is missing or none of the family's.
            ValueError: there is no such variant.
        """
        if self.has_constants_of_shape:
            return self._specialize(values)
        key = tuple(values.items())
        found = self._specialized.get(key)
        if found is None:
            # Bounded: constants are flags, facts of element types, powers of two and small counts;
            # ARCHITECTURE.md lists them.
            found = self._specialized[key] = self._specialize(values)
        return found

    def _specialize(self, values: Mapping[str, int | str]) -> tuple[str, tuple[int, ...]]:
        _check_names(f"the constants of {self.name}", self._names, values)
        chosen = []
        for axis, named in self._axis_numbers.items():
            if values[axis] not in named:
                accepted = ", ".join(str(number) for number in self.axes[axis].values())
                raise ValueError(f"{axis} of {self.name} cannot be {values[axis]!r}; accepted are {accepted}")
            chosen.append((axis, named[values[axis]]))
        kernel = self.kernels.get(tuple(chosen))
        if kernel is None:
            raise ValueError(f"{self.name} has no variant with " + ", ".join(f"{a}={v!r}" for a, v in chosen))
        return kernel.name, tuple(
            int(values[constant.name]) if constant is not None else 0 for constant in kernel.own_constants
        )

    def numbers_of(self, axis: str, **fixed: int | str) -> tuple[int, ...]:
        """Return the values of an axis, ascending, that variants with these values of other axes have.

        >>> from vkdml.plan import kernels
        >>> kernels.family("slice1_runs").numbers_of("step", element_bytes=2)
        (-2, -1, 0, 1, 2)
        """
        asked = (axis, tuple(fixed.items()))
        found = self._numbers_found.get(asked)
        if found is None:
            named = {other: self._axis_numbers[other][value] for other, value in fixed.items()}
            matching = [key for key in map(dict, self.kernels) if named.items() <= key.items()]
            found = tuple(sorted({self.axes[axis][key[axis]] for key in matching}))
            self._numbers_found[asked] = found
        return found

    @cached_property
    def _numbers_found(self) -> dict[tuple[str, tuple[tuple[str, int | str], ...]], tuple[int, ...]]:
        return {}

    @cached_property
    def _push_names(self) -> frozenset[str]:
        names: set[str] = set()
        for field in self.push_fields:
            names.update(field.flags if field.type == "flags" else (field.name,))
        return frozenset(names)

    @cached_property
    def _number_names(self) -> frozenset[str]:
        return self._push_names - {"layout_words"}

    @cached_property
    def layout_room(self) -> int:
        """Words that the last field holds at most."""
        return self.push_bytes // 4 - sum(_WORDS[field.type] for field in self.push_fields)

    def placed(self, layout_words: tuple[int, ...]) -> PlacedLayout:
        """Return the words where they lie: in the push constants if they fit.

        >>> from vkdml.plan import kernels
        >>> kernels.family("slice1_runs").placed((9, 0, 1, 1)).in_push
        True
        """
        if len(layout_words) <= self.layout_room:
            return PlacedLayout(layout_words, ())
        return PlacedLayout((), layout_words)

    def push(self, *, layout_words: Iterable[int] = (), **values: int) -> bytes:
        """Pack push constants; negative numbers are taken modulo 2^32 (or 2^64), as kernels add them.

        >>> from vkdml.plan import kernels
        >>> family = kernels.family("slice1_runs")
        >>> bases = dict(input_base=0, output_base=0)
        >>> counts = dict(vectors=3, outer_dims=0, dims=1, run=9, vectors_per_run=3)
        >>> counts |= dict(vectors_per_run_inverse=0, vectors_per_workgroup=64, last_vector=2)
        >>> counts |= dict(boundary_step=0, shares_in_turn=1)
        >>> len(family.push(**bases, **counts, layout_words=(9, -1, 1)))
        128

        Args:
            layout_words: what fills the rest, at most :attr:`layout_room` of them.
            values: of every other field by name, and of every flag.

        Raises:
            TypeError: a name is missing or none of the family's.
            ValueError: more words than there is room for, or a number of more bits than its field.
        """
        if values.keys() != self._number_names:
            _check_names(f"the push constants of {self.name}", self._number_names, values)
        packed: list[int] = []
        for field in self.push_fields:
            if field.type == "flags":
                bits = 0
                for flag, bit in field.bits:
                    if values[flag]:
                        bits |= bit
                packed.append(bits)
            elif field.type == "words":
                packed += [self._wrapped(field, word) for word in layout_words]
            else:
                number = self._wrapped(field, values[field.name])
                packed.append(number & _WORD_MASK)
                if field.type == "uint64":
                    packed.append(number >> _WORD_BITS)
        count = self.push_bytes // 4
        if len(packed) > count:
            raise ValueError(
                f"{len(packed) - count + self.layout_room} layout words do not fit the push constants of "
                f"{self.name}, which hold at most {self.layout_room}"
            )
        return struct.pack(f"<{count}I", *packed, *(0,) * (count - len(packed)))

    def _wrapped(self, field: Field, number: int) -> int:
        """Return a number as its field holds it."""
        bits = 2 * _WORD_BITS if field.type == "uint64" else _WORD_BITS
        if abs(number) >> bits:
            raise ValueError(
                f"{field.name} of {self.name} cannot be {number}; accepted are numbers from "
                f"-(2^{bits} - 1) to 2^{bits} - 1"
            )
        return number & ((1 << bits) - 1)

    def fixed_flags(self, **values: bool) -> int:
        """Return what the constant of this name is if these flags, and no others, are compiled in.

        >>> from vkdml.plan import kernels
        >>> hex(kernels.family("argreduce_rows").fixed_flags(layout_in_push=True, with_values=True))
        '0x80000009'

        Raises:
            TypeError: a flag is none of the family's.
        """
        bits = {flag: bit for field in self.push_fields if field.type == "flags" for flag, bit in field.bits}
        if values.keys() - bits.keys():
            _check_names(f"the flags of {self.name}", frozenset(bits), values)
        return sum(bits[flag] for flag, value in values.items() if value) | _FLAGS_ARE_FIXED

    def unpack(self, push: bytes) -> dict[str, int | tuple[int, ...]]:
        """Return by name what :meth:`push` packed: each field, each flag as 0 or 1, and all layout words."""
        words = list(struct.unpack(f"<{self.push_bytes // 4}I", push))
        unpacked: dict[str, int | tuple[int, ...]] = {}
        for field in self.push_fields:
            if field.type == "words":
                unpacked[field.name] = tuple(words)
                continue
            number = words.pop(0)
            if field.type == "flags":
                unpacked |= {flag: number >> bit & 1 for bit, flag in enumerate(field.flags)}
                continue
            if field.type == "uint64":
                number |= words.pop(0) << _WORD_BITS
            unpacked[field.name] = number
        return unpacked


_FLAGS_ARE_FIXED = 1 << 31
_WORDS = {"uint": 1, "flags": 1, "uint64": 2, "words": 0}


def _check_names(what: str, wanted: frozenset[str], given: Mapping[str, object]) -> None:
    if given.keys() == wanted:
        return
    unknown, missing = sorted(given.keys() - wanted), sorted(wanted - given.keys())
    pairs = ((unknown, "unknown"), (missing, "missing"))
    faults = [f"{', '.join(names)} {fault}" for names, fault in pairs if names]
    raise TypeError(f"{what}: {'; '.join(faults)}; they are {', '.join(sorted(wanted))}")


@dataclass(frozen=True, eq=False)
class Schema:
    """The whole schema."""

    push_bytes: int
    numbers: Mapping[str, int]
    elements: Mapping[str, ElementType]
    families: Mapping[str, Family]
    kernels: Mapping[str, Kernel]
    """Every module by name."""


def parse(content: Mapping[str, Any]) -> Schema:
    """Make a schema of the content of ``kernels.json``.

    Raises:
        ValueError: two variants are the same module.
        KeyError: it names an axis, a value or an interface that it does not define.
    """
    elements = {
        name: ElementType(
            name,
            facts["bytes"],
            facts["kind"],
            facts.get("nan_patterns", 0),
            facts["package"],
            facts["short"],
        )
        for name, facts in content["elements"].items()
    }
    families = {name: _family(name, facts, content) for name, facts in content["families"].items()}
    kernels: dict[str, Kernel] = {}
    for family in families.values():
        kernels |= {kernel.name: kernel for kernel in family.kernels.values()}
    return Schema(content["push_bytes"], content["numbers"], elements, families, kernels)


def _family(name: str, facts: Mapping[str, Any], content: Mapping[str, Any]) -> Family:
    interface = content["interfaces"][facts["interface"]]
    constants = tuple(
        Constant(
            entry["name"],
            entry["type"],
            entry.get("default", 0),
            tuple(entry.get("only", {}).items()),
            entry.get("about", ""),
        )
        for entry in (*interface.get("constants", ()), *facts.get("constants", ()))
    )
    push = tuple(
        Field(entry["name"], entry["type"], tuple(entry.get("flags", ())), entry.get("about", ""))
        for entry in (*interface.get("push", ()), *facts.get("push", ()))
    )
    push = tuple(sorted(push, key=lambda field: field.type == "words"))  # they take the rest
    files = {**interface.get("files", {}), **facts.get("files", {})}
    used = {axis for group in facts["variants"] for axis in group}
    axes = {axis: values for axis, values in content["axes"].items() if axis in used}
    if used - axes.keys():
        raise KeyError(f"{name} has variants along {sorted(used - axes.keys())}, which are no axes")
    family = Family(
        name,
        tuple(interface["bindings"]),
        constants,
        push,
        content["push_bytes"],
        axes,
        files,
        facts.get("constants_of_shape", False),
        {},
    )
    for group in facts["variants"]:
        _add_variants(family, group)
    return family


def _add_variants(family: Family, group: Mapping[str, Any]) -> None:
    numbered = family._axis_numbers
    for choice in itertools.product(*(group[axis] for axis in family.axes)):
        key = tuple((axis, numbered[axis][value]) for axis, value in zip(family.axes, choice, strict=True))
        if key in family.kernels:
            raise ValueError(f"{family.name} has a variant twice: {key}")
        variant = dict(key)
        name = "_".join(filter(None, (family.name, *variant.values())))
        family.kernels[key] = Kernel(name, family, variant)
