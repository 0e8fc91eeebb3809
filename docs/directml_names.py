"""Writes the tables of docs/directml-names.md from vkdml.dml: python docs/directml_names.py

What is between the page's markers is replaced: structures, enumerations, constants, element types by
feature level, and each constraint with the error that descriptors raise that break it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import IntEnum, IntFlag
from pathlib import Path
from types import TracebackType
from typing import Any

from vkdml import dml
from vkdml.dml import validation
from vkdml.dml.c_names import C_NAMES, c_field_name

PAGE = Path(__file__).resolve().parent / "directml-names.md"
BEGIN = "<!-- names: written by python docs/directml_names.py -->"
END = "<!-- end of names -->"
LEVELS = tuple(dml.FeatureLevel)
SHOWN_LEVEL = dml.FeatureLevel.FL_4_1
REDUCTIONS = ("ARGMIN", "ARGMAX", "REDUCE")
OPERATORS = (*REDUCTIONS, "SLICE1")


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text()))


def with_tables(page: str) -> str:
    """Return a page with new tables between its markers."""
    before, begin, rest = page.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"{PAGE.name} lacks the line {BEGIN} or {END}; accepted is a page with both, in this order"
        )
    return before + begin + "\n".join(tables()) + "\n" + end + after


def tables() -> Iterator[str]:
    """Yield the lines of all tables."""
    yield from structures()
    yield from enumerations()
    yield from constants()
    yield from support()
    yield from constraints()


def table(*columns: str) -> Iterator[str]:
    yield row(*columns)
    yield "|" + "---|" * len(columns)


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def code(text: object) -> str:
    return f"`{text}`"


# ---- names -------------------------------------------------------------------------------------------------


def named(kind: type) -> dict[str, Any]:
    """Return what has a C name and is of this kind."""
    return {
        name: found for name, found in C_NAMES.items() if isinstance(found, type) and issubclass(found, kind)
    }


def structures() -> Iterator[str]:
    yield "## Structures"
    for name, struct in C_NAMES.items():
        if not (isinstance(struct, type) and hasattr(struct, "__dataclass_fields__")):
            continue
        described = _described_fields(struct)
        yield from ("", f"### {name}", "", f"In Python `dml.{struct.__name__}`.", "")
        yield from table("C", "Python", "holds", "if left out")
        for member in fields(struct):
            yield row(
                code(c_field_name(member.name)), code(member.name), described[member.name], _default(member)
            )
    yield ""


def _default(member: Field[Any]) -> str:
    if member.default is MISSING:
        return "is needed"
    if member.metadata.get("count"):
        return "counted"
    if isinstance(member.default, IntEnum | IntFlag):
        return code(member.default.name)
    return "derived" if member.default == -1 else code(member.default)


def _described_fields(struct: type) -> dict[str, str]:
    """Return what the section "Args" of a structure's docstring says of each field."""
    args = inspect.cleandoc(struct.__doc__ or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", args, re.MULTILINE):
        said = " ".join(text.split()).replace("``", "`").rstrip(".")
        other = re.fullmatch(r"as in :class:`(\w+)`", said)
        for name in names.split(", "):
            found[name] = _described_fields(getattr(dml, other[1]))[name] if other else said
    return found


def enumerations() -> Iterator[str]:
    yield from ("## Enumerations", "")
    yield "Numbers are DirectML's. A descriptor takes the member or its number."
    c_names_of: dict[str, dict[str, str]] = {name: {} for name in named(IntEnum) | named(IntFlag)}
    for name, found in C_NAMES.items():
        if isinstance(found, IntEnum | IntFlag):
            enumeration = next(c for c, kind in C_NAMES.items() if kind is type(found))
            c_names_of[enumeration][found.name or ""] = name
    for name, members in c_names_of.items():
        enumeration_type: Any = C_NAMES[name]
        yield from ("", f"### {name}", "", f"In Python `dml.{enumeration_type.__name__}`.", "")
        yield from table("C", "Python", "number")
        for member in enumeration_type.__members__.values():  # iteration leaves out a flag of 0
            number = hex(member) if enumeration_type is dml.FeatureLevel else int(member)
            yield row(code(members[member.name]), code(f"{enumeration_type.__name__}.{member.name}"), number)
    yield ""


def constants() -> Iterator[str]:
    yield from ("## Constants", "")
    yield from table("C", "Python", "number")
    for name, found in C_NAMES.items():
        if type(found) is int:
            yield row(code(name), code(f"dml.{name.removeprefix('DML_')}"), found)
    yield ""


def support() -> Iterator[str]:
    yield from ("## Element types and dimensions by feature level", "")
    yield "A level that is not listed has the rules of the newest one below it that is."
    yield ""
    yield from table("operator", "from level", "dimensions", "input", "output")
    for operator, levels in validation._SUPPORT.items():
        for rules in reversed(levels):
            low, high = rules.dimension_counts[0], rules.dimension_counts[-1]
            types = [
                ", ".join(kind.name for kind in kinds) for kinds in (rules.input_types, rules.output_types)
            ]
            if operator == "SLICE1":
                types[1] = "as the input"
            yield row(operator, rules.since, low if low == high else f"{low} to {high}", *types)
    yield ""


# ---- constraints -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raised:
    """An error, and the file and line that raised it."""

    error: Exception
    file: str
    line: int


def raised_by(call: Callable[[], object]) -> Raised | None:
    """Return the error that a call raises, if it does."""
    try:
        call()
    except (ValueError, TypeError) as error:
        last: TracebackType | None = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        assert last is not None
        return Raised(error, Path(last.tb_frame.f_code.co_filename).name, last.tb_lineno)
    return None


def tensor(**changes: Any) -> dml.BufferTensorDesc:
    return dml.BufferTensorDesc(**{"data_type": dml.DataType.FLOAT32, "sizes": (2, 3, 4, 5), **changes})


def described(
    operator: str,
    input: Mapping[str, Any] | None = None,
    output: Mapping[str, Any] | None = None,
    **changes: Any,
) -> dml.OperatorDesc:
    """Return a descriptor that every level accepts that has the operator, but for the changes."""
    x = tensor(**input or {})
    if operator == "SLICE1":
        y = tensor(**{"sizes": (2, 1, 2, 3), **(output or {})})
        window = {
            "input_window_offsets": (0, 1, 0, 1),
            "input_window_sizes": (2, 2, 4, 3),
            "input_window_strides": (1, -2, 2, 1),
        }
        return dml.Slice1OperatorDesc(x, y, **{**window, **changes})
    y = tensor(**{"data_type": dml.DataType.UINT32, "sizes": (2, 1, 4, 5), **(output or {})})
    if operator == "REDUCE":
        return dml.ReduceOperatorDesc(
            **{"function": 0, "input_tensor": x, "output_tensor": y, "axes": (1,), **changes}
        )
    kind = dml.ArgMinOperatorDesc if operator == "ARGMIN" else dml.ArgMaxOperatorDesc
    return kind(x, y, **{"axes": (1,), **changes})


@dataclass(frozen=True)
class Constraint:
    """What a valid descriptor has, and the changes that break it."""

    rule: str
    operators: tuple[str, ...]
    changes: Mapping[str, Any]
    shown: str = ""
    """The operator of the example; by default the second one, ARGMAX, or the only one."""

    @property
    def example(self) -> str:
        return self.shown or self.operators[-1 if len(self.operators) == 1 else 1]

    def raised(self, operator: str, level: dml.FeatureLevel) -> Raised | None:
        return raised_by(lambda: dml.validate(described(operator, **self.changes), level))

    def levels(self, operator: str) -> list[dml.FeatureLevel]:
        """Return the levels at which the operator has this constraint."""
        shown = self.raised(self.example, self.level)
        assert shown is not None, self.rule
        found = [(level, self.raised(operator, level)) for level in LEVELS]
        return [level for level, raised in found if raised and raised.line == shown.line]

    @property
    def level(self) -> dml.FeatureLevel:
        """The level of the example: the shown one, or the newest that refuses it."""
        return next(
            level
            for level in (SHOWN_LEVEL, *reversed(LEVELS))
            if self.raised(self.example, level) is not None
        )


def _tensor_rule(rule: str, **changes: Any) -> Constraint:
    return Constraint(rule, OPERATORS, {"input": changes})


CONSTRAINTS = (
    Constraint("the level has the operator", ("ARGMIN", "ARGMAX", "SLICE1"), {}),
    Constraint("`Function` is ARGMAX or ARGMIN", ("REDUCE",), {"function": dml.ReduceFunction.SUM}),
    _tensor_rule("`DataType` is one of the table above", data_type=dml.DataType.UINT4),
    _tensor_rule("`DimensionCount` of a tensor is the number of `Sizes`", dimension_count=5),
    _tensor_rule("`DimensionCount` of a tensor is one of the table above", sizes=(1,) * 9),
    _tensor_rule("`Sizes` are 1 to 2^32 - 1", sizes=(2, 0, 4, 5)),
    _tensor_rule("`Strides` have one entry for each dimension", strides=(60, 20, 5)),
    _tensor_rule(
        "`Strides` are 0 to 2^32 - 1", strides=(60, 20, 5, -1), total_tensor_size_in_bytes=480
    ),
    _tensor_rule("a tensor has at most 2^32 - 1 elements", sizes=(65536, 1, 65536, 1)),
    _tensor_rule(
        "the buffer of a tensor has at most 2^32 - 1 elements",
        sizes=(2, 2, 1, 1), strides=(1 << 31, (1 << 31) - 1, 1, 1),
    ),
    _tensor_rule(
        "`TotalTensorSizeInBytes` is a multiple of 4 and holds the tensor", total_tensor_size_in_bytes=476
    ),
    _tensor_rule(
        "`GuaranteedBaseOffsetAlignment` is 0, or a power of two that is at least an element",
        guaranteed_base_offset_alignment=24,
    ),
    Constraint(
        "the input and the output have as many dimensions", OPERATORS, {"output": {"sizes": (2, 1, 2, 3, 1)}}
    ),
    Constraint(
        "`Flags` of the output are NONE", OPERATORS, {"output": {"flags": dml.TensorFlags.OWNED_BY_DML}}
    ),
    Constraint(
        "`Strides` of the output put each element in a place of its own",
        OPERATORS, {"output": {"strides": (0, 0, 0, 0)}},
    ),
    Constraint("`AxisCount` is the number of `Axes`", REDUCTIONS, {"axis_count": 2}),
    Constraint("`Axes` are dimensions of the input", REDUCTIONS, {"axes": (4,)}),
    Constraint("`Axes` are distinct", REDUCTIONS, {"axes": (1, 1)}),
    Constraint("the output has size 1 along reduced axes", REDUCTIONS, {"output": {"sizes": (2, 3, 4, 5)}}),
    Constraint(
        "the output has the input's size along other axes", REDUCTIONS, {"output": {"sizes": (2, 1, 4, 4)}}
    ),
    Constraint(
        "the output's `DataType` holds the greatest index that can occur",
        REDUCTIONS,
        {
            "input": {"sizes": ((1 << 31) + 1, 1, 1, 1)},
            "output": {"sizes": (1, 1, 1, 1), "data_type": dml.DataType.INT32},
            "axes": (0,),
        },
    ),
    Constraint(
        "the output's `DataType` is the input's", ("SLICE1",), {"output": {"data_type": dml.DataType.UINT32}}
    ),
    Constraint("`DimensionCount` of SLICE1 is the tensors'", ("SLICE1",), {"dimension_count": 3}),
    Constraint(
        "window offsets, sizes and strides have one entry for each dimension",
        ("SLICE1",), {"input_window_sizes": (2, 2, 4)},
    ),
    Constraint(
        "`InputWindowOffsets` are 0 to 2^32 - 1", ("SLICE1",), {"input_window_offsets": (0, -1, 0, 1)}
    ),
    Constraint("`InputWindowSizes` are 1 to 2^32 - 1", ("SLICE1",), {"input_window_sizes": (2, 0, 4, 3)}),
    Constraint(
        "`InputWindowStrides` are 32-bit integers", ("SLICE1",), {"input_window_strides": (1, -2, 1 << 31, 1)}
    ),
    Constraint("`InputWindowStrides` are not 0", ("SLICE1",), {"input_window_strides": (1, 0, 2, 1)}),
    Constraint("the window is inside the input", ("SLICE1",), {"input_window_offsets": (0, 2, 0, 1)}),
    Constraint(
        "the output has at most the elements that the window holds",
        ("SLICE1",), {"output": {"sizes": (2, 2, 2, 3)}},
    ),
)  # fmt: skip

_X = tensor(sizes=(3,))
# What a descriptor is refused for when it is built, before a level is known.
BUILDING: dict[str, Callable[[], object]] = {
    "there are no more values by position than fields": lambda: dml.TypedTensorDesc(1, _X, 0),  # type: ignore[call-arg]
    "every name is that of a field": lambda: dml.TypedTensorDesc(Type=1, Description=_X),  # type: ignore[call-arg]
    "every field is given once": lambda: dml.TypedTensorDesc(1, _X, Desc=_X),  # type: ignore[call-arg]
    "no field without a default is left out": lambda: dml.TypedTensorDesc(1),  # type: ignore[call-arg]
    "a number is that of a member": lambda: tensor(data_type=14),
    "a field of an enumeration is a member of it or a number": lambda: tensor(data_type="FLOAT32"),
    "counts, sizes and offsets are integers": lambda: tensor(sizes=(2.5,)),
    "an array is a sequence": lambda: tensor(sizes=3),
    "a tensor is a BufferTensorDesc": lambda: dml.ArgMaxOperatorDesc((2, 3), _X, axes=(0,)),  # type: ignore[arg-type]
    "`Type` of DML_TENSOR_DESC is BUFFER": lambda: dml.TypedTensorDesc(0, _X),  # type: ignore[arg-type]
    "`Desc` of DML_OPERATOR_DESC is the descriptor of an operator": lambda: dml.TypedOperatorDesc(111, _X),  # type: ignore[arg-type]
    "`Type` of DML_OPERATOR_DESC is that of its `Desc`": lambda: dml.TypedOperatorDesc(
        dml.OperatorType.ARGMIN, described("SLICE1")
    ),
    "what is validated is the descriptor of an operator": lambda: dml.validate(_X),  # type: ignore[arg-type]
    "a level is one that DirectML publishes": lambda: dml.validate(described("SLICE1"), "7_0"),
    "a level is a member, a name or a number": lambda: dml.validate(described("SLICE1"), 4.1),  # type: ignore[arg-type]
    "DMLCalcBufferTensorSize knows the element type": lambda: dml.calc_buffer_tensor_size(
        dml.DataType.UNKNOWN, (3,)
    ),
    "`size_in_bytes` has whole bytes": lambda: dml.DataType.UINT4.size_in_bytes,
    "`dtype` is one of NumPy's": lambda: dml.DataType.INT4.dtype,
}


def constraints() -> Iterator[str]:
    yield from ("## Constraints on a descriptor's values", "")
    yield "`dml.validate` checks these, and so do `dml.run` and `device.compile`. A descriptor that breaks"
    yield "one raises `ValueError`. The message begins with the operator and the level, such as"
    yield f"`{_prefix('ARGMAX', SHOWN_LEVEL).strip()}`, and goes on as shown. A constraint holds at every"
    yield "level that has the operator, unless levels are named."
    yield ""
    yield from table("constraint", "operators", "message")
    for constraint in CONSTRAINTS:
        raised = constraint.raised(constraint.example, constraint.level)
        assert raised is not None
        assert isinstance(raised.error, ValueError)
        message = str(raised.error).removeprefix(_prefix(constraint.example, constraint.level))
        yield row(constraint.rule, _where(constraint), code(message))
    yield from ("", "## Constraints on how a descriptor is built", "")
    yield "These hold at every level: they are checked when a descriptor is made."
    yield ""
    yield from table("constraint", "otherwise")
    for rule, call in BUILDING.items():
        built = raised_by(call)
        assert built is not None, rule
        yield row(rule, _shown(built.error))


def _shown(error: Exception) -> str:
    return f"`{type(error).__name__}: {error}`"


def _prefix(operator: str, level: dml.FeatureLevel) -> str:
    return f"{operator} at feature level {level}: "


def _where(constraint: Constraint) -> str:
    """Name the operators, with the levels where these are not all that have the operator."""
    names = [operator + _range(operator, constraint.levels(operator)) for operator in constraint.operators]
    return "all" if tuple(names) == OPERATORS else ", ".join(names)


def _range(operator: str, levels: list[dml.FeatureLevel]) -> str:
    first, last = levels[0], levels[-1]
    assert levels == list(LEVELS[LEVELS.index(first) : LEVELS.index(last) + 1])
    if last is not LEVELS[-1]:
        return f" up to {last}"
    return "" if first is validation._SUPPORT[operator][-1].since else f" from {first}"


if __name__ == "__main__":
    main()
