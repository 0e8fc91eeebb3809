"""Says what to compile and generates what shaders include: `shader_build.py KERNELS_JSON SCHEMA_PY FOLDER`.

Writes FOLDER/FAMILY/interface.glsl and what chooses files by variant, and FOLDER/modules.txt with a line for
each module: its name, family and macros, separated by spaces. Files that would not change are left alone.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    table, code, folder = map(Path, sys.argv[1:])
    content = json.loads(table.read_text())
    schema = load(code).parse(content)
    for family in schema.families.values():
        (folder / family.name).mkdir(parents=True, exist_ok=True)
        write(folder / family.name / "interface.glsl", interface(family, schema.numbers))
        for name, choices in family.files.items():
            write(folder / family.name / f"{name}.glsl", chooser(family, choices))
    write(folder / "modules.txt", modules(schema))


def modules(schema: Any) -> Iterator[str]:
    for kernel in schema.kernels.values():
        macros = (f"-D{macro}={number}" for macro, number in kernel.macros.items())
        yield " ".join([kernel.name, kernel.family.name, *macros])


def load(code: Path) -> ModuleType:
    """Import one file of the package, which is not installed yet."""
    spec = importlib.util.spec_from_file_location("schema", code)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["schema"] = module
    spec.loader.exec_module(module)
    return module


def write(path: Path, lines: Iterator[str]) -> None:
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def interface(family: Any, numbers: dict[str, int]) -> Iterator[str]:
    yield f"// Generated from kernels.json: what the host and the {family.name} kernels agree on."
    for name, number in numbers.items():
        yield f"#define {name.upper()} {number}"
    for number, role in enumerate(family.bindings):
        yield f"#define BINDING_{role.upper()} {number}"
    for axis, values in family.axes.items():
        if all(name[:1].isalpha() for name in values):
            for name, number in values.items():
                yield f"#define {axis.upper()}_{name.upper()} {number}"
    yield from constants(family)
    yield from push(family)


def constants(family: Any) -> Iterator[str]:
    for slot, constant in enumerate(family.constants):
        name = constant.name.upper()
        value = ("false", "true")[constant.default] if constant.type == "bool" else f"{constant.default}u"
        plain = f"const {constant.type} {name} = "
        special = f"layout(constant_id = {slot}) {plain}{value};{comment(constant.about)}"
        if constant.name == "workgroup":
            yield f"layout(local_size_x_id = {slot}) in;"
        if constant.only:
            condition = " && ".join(
                f"{axis.upper()} == {family.axes[axis][name]}" for axis, name in constant.only
            )
            yield from (f"#if {condition}", special, "#else", f"{plain}{value};", "#endif")
        else:
            yield special


def push(family: Any) -> Iterator[str]:
    for field in family.push_fields:
        for bit, flag in enumerate(field.flags):
            yield f"#define FLAG_{flag.upper()} {1 << bit}u"
    yield "layout(push_constant) uniform Push {"
    for field in family.push_fields:
        names = [field.name]
        if field.type == "uint64":
            names = [f"{field.name}_low", f"{field.name}_high"]
        elif field.type == "words":
            names = [f"{field.name}[{family.layout_room}]"]
        yield from (f"    uint {name};{comment(field.about)}" for name in names)
    yield "};"


def chooser(family: Any, choices: dict[str, dict[str, str]]) -> Iterator[str]:
    yield "// Generated from kernels.json: what this variant is made of."
    for axis, files in choices.items():
        for value, file in files.items():
            yield f"#if {axis.upper()} == {family.axes[axis][value]}"
            yield from (f'#include "{file}"', "#endif")


def comment(about: str) -> str:
    return f" // {about}" if about else ""


if __name__ == "__main__":
    main()
