"""Shows signatures as users read them: without what only type checkers need."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy.typing

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Made by functions and methods, never by their names.
NOT_CALLED = {"vkdml.Array", "vkdml.Download", "vkdml.onnx.PreparedModel"}

REPLACED = (
    # Elements of any type.
    (r"\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[~typing\.Any\]\]", ""),
    (r"~numpy\.dtype\[~typing\.Any\]", "~numpy.dtype"),
    # No annotation says as much.
    (r"(\w): ~typing\.Any = ", r"\1="),
    (r"(\w): ~typing\.Any(?=[,)])", r"\1"),
    (r"~typing\.SupportsIndex", "int"),
    # Lists and tuples of the same.
    (r"( \| None)?( \| list\[([^]]*)\]) \| tuple\[\3, \.\.\.\]", r"\2\1"),
    (r"<class 'numpy\.(\w+)'>", r"np.\1"),
    # Members of enumerations.
    (r"<(\w+\.\w+): [^>]*>", r"\1"),
)


def shown(
    app: Sphinx, what: str, name: str, obj: object, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Return a signature and a result as they are shown."""
    if name in NOT_CALLED or (isinstance(obj, type) and issubclass(obj, Enum)):
        return "", None
    return _replaced(signature), None if returned == "~typing.Any" else _replaced(returned)


def _replaced(text: str | None) -> str | None:
    for pattern, replacement in REPLACED:
        text = text and re.sub(pattern, replacement, text)
    return text


def import_names_of_types(module: ModuleType) -> None:
    """Carry out what a module imports for type checkers only, so that its annotations can be evaluated.

    Sphinx itself would reload the module with TYPE_CHECKING set, which defines all overloads.
    """
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            imports = [one for one in node.body if isinstance(one, ast.Import | ast.ImportFrom)]
            exec(compile(ast.Module(imports, []), "imports for types", "exec"), vars(module))


def leave_overloads_out(module: ModuleType) -> None:
    """Show one signature, that of the implementation."""
    from sphinx.pycode import ModuleAnalyzer

    analyzer = ModuleAnalyzer.for_module(module.__name__)
    analyzer.analyze()
    analyzer.overloads.clear()


def prepare(app: Sphinx) -> None:
    import vkdml.dask
    import vkdml.onnx  # noqa: F401

    # Shown by its name: as a union of types it takes three lines, with names that are private to NumPy.
    numpy.typing.DTypeLike = TypeVar("DTypeLike")
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == "vkdml" and (getattr(module, "__file__", None) or "").endswith(".py"):
            import_names_of_types(module)
            leave_overloads_out(module)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", prepare)
    app.connect("autodoc-process-signature", shown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
