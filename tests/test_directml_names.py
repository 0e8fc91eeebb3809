"""docs/directml-names.md: its tables are what docs/directml_names.py writes, and leave nothing out."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from vkdml import dml
from vkdml.dml import c_struct, descriptors, enums, validation
from vkdml.dml.c_names import C_NAMES, c_field_name

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "directml_names.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("directml_names", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["directml_names"] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


names = script()
PAGE = names.PAGE.read_text()


def section(heading: str) -> str:
    found = re.search(rf"^(#+) {re.escape(heading)}$", PAGE, re.MULTILINE)
    assert found is not None, f"no section {heading}"
    return re.split(rf"^#{{2,{len(found[1])}}} ", PAGE[found.end() :], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_page_is_up_to_date() -> None:
    assert names.with_tables(PAGE) == PAGE, "renew it with: python docs/directml_names.py"


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the line"):
        names.with_tables("# A page\n")


@pytest.mark.parametrize("name", [name for name, found in C_NAMES.items() if dataclasses.is_dataclass(found)])
def test_every_field_of_a_structure_has_a_row_with_both_names_and_what_it_holds(name: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", section(name), re.MULTILINE)
    fields = dataclasses.fields(C_NAMES[name])  # type: ignore[arg-type]
    assert [row[:2] for row in rows] == [(c_field_name(field.name), field.name) for field in fields]
    assert all(len(row[2]) > 5 for row in rows)
    needed = {row[1] for row in rows if row[3] == "is needed"}
    assert needed == {field.name for field in fields if field.default is dataclasses.MISSING}


def test_every_member_and_constant_has_a_row_with_both_names_and_its_number() -> None:
    rows = re.findall(r"^\| `(DML_\w+)` \| `([\w.]+)` \| (\w+) \|$", PAGE, re.MULTILINE)
    assert {row[0] for row in rows} == {name for name, found in C_NAMES.items() if isinstance(found, int)}
    for c_name, python_name, number in rows:
        found: object = dml
        for part in python_name.removeprefix("dml.").split("."):
            found = getattr(found, part)
        assert found is C_NAMES[c_name]
        assert found == int(number, 0)


@pytest.mark.parametrize("operator", names.OPERATORS)
def test_examples_break_nothing_but_their_constraint(operator: str) -> None:
    first = validation._SUPPORT[operator][-1].since
    for level in dml.FeatureLevel:
        refused = names.raised_by(lambda level=level: dml.validate(names.described(operator), level))
        assert (refused is None) == (level >= first)


def raise_statements(module: ModuleType) -> list[tuple[str, range, str]]:
    """The file, the lines and the text of each statement that raises an error for a user to see."""
    source = inspect.getsource(module)
    file = Path(module.__file__ or "").name
    return [
        (file, range(node.lineno, (node.end_lineno or node.lineno) + 1), ast.unparse(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]


@pytest.mark.parametrize(
    "module", [c_struct, descriptors, enums, validation], ids=lambda module: module.__name__
)
def test_every_error_about_a_descriptor_has_a_row(module: ModuleType) -> None:
    errors = [names.raised_by(call) for call in names.BUILDING.values()]
    errors += [constraint.raised(constraint.example, constraint.level) for constraint in names.CONSTRAINTS]
    shown = {(error.file, error.line) for error in errors}
    without = [
        text
        for file, lines, text in raise_statements(module)
        if not any((file, line) in shown for line in lines)
    ]
    assert not without
