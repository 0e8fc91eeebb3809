"""The scripts of examples/gallery: what each page has to have, and that a wrong result ends a script.

`./run docs` runs every script and fails if one does; scikit-learn and nibabel come with the extra `docs`.
Here those run whose packages the tests have anyway.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vkdml

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "gallery"
SCRIPTS = sorted(FOLDER.glob("*.py"))
DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}  # where the name differs
WITH_OTHERS = {"numpy": "vkdml"}
# What sphinx-gallery or its readers could not have: the network, the screen's windows, files that stay.
FORBIDDEN = re.compile(r"fetch_|urlopen|urlretrieve|requests|savefig|https?:")

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the figures that plt.show was called on, which draws them."""
    import matplotlib

    before = matplotlib.get_backend()
    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown: list[int] = []

    def show() -> None:
        shown.extend(pyplot.get_fignums())
        for number in shown:
            pyplot.figure(number).canvas.draw()

    monkeypatch.setattr(pyplot, "show", show)
    yield shown
    pyplot.close("all")
    matplotlib.use(before)


def sections(script: Path) -> list[tuple[str, str]]:
    """The headings of a page and the lines that underline them."""
    return re.findall(r"^(?:# )?(.+)\n(?:# )?(-{4,}|={4,})$", script.read_text(), re.MULTILINE)


def test_there_are_pages_and_a_header_for_them() -> None:
    assert len(SCRIPTS) >= 6
    assert all(re.fullmatch(r"plot_[a-z_]+\.py", script.name) for script in SCRIPTS)
    assert re.match(r"Gallery\n=======\n\n\w", (FOLDER / "GALLERY_HEADER.rst").read_text())


@each_script
def test_a_page_has_a_title_an_introduction_and_sections(script: Path) -> None:
    title, *others = sections(script)
    introduction = ast.get_docstring(ast.parse(script.read_text())).split("\n\n", 1)[1]
    assert title[1][0] == "="
    assert {line[0] for _, line in others} == {"-"}
    assert all(len(line) == len(heading) for heading, line in [title, *others])
    assert "This page" in introduction
    assert len(others) >= 4
    assert others[-1][0] == "The same in NumPy"


@each_script
def test_a_page_compares_with_numpy_at_its_end_and_shows_its_figures(script: Path) -> None:
    text = script.read_text()
    assert text.endswith("\nplt.show()\n")
    assert len(re.findall(r"^figure.* = plt\.(figure|subplots)\(", text, re.MULTILINE)) >= 2
    steps, check = text.split("# The same in NumPy\n")
    assert "assert " not in steps
    assert check.count("assert ") >= 3
    assert "np.array_equal" in check


@each_script
def test_a_page_uses_public_names_only(script: Path) -> None:
    tree = ast.parse(script.read_text())
    imported = [node.names for node in ast.walk(tree) if isinstance(node, ast.Import)]
    froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [name.asname for names in imported for name in names if name.name == "vkdml"] == [None]
    assert not [module for module in froms if module.split(".")[0] == "vkdml"]
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not [name for name in used if name.startswith("_")]
    of_vkdml = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "vkdml"
    }
    assert of_vkdml & {"argmax", "argmin", "slice1"}
    assert of_vkdml <= set(vkdml.__all__)


@each_script
def test_a_page_needs_only_what_the_extra_docs_installs_and_fetches_nothing(script: Path) -> None:
    tree = ast.parse(script.read_text())
    modules = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    needed = {
        WITH_OTHERS.get(name) or DISTRIBUTIONS.get(name, name) for name in modules - sys.stdlib_module_names
    }
    assert needed <= {"vkdml", *extra("docs")}
    assert not FORBIDDEN.findall(script.read_text())


def extra(name: str) -> set[str]:
    """The packages that one of vkdml's extras names, with those of the extras that it names."""
    found = set()
    for requirement in importlib.metadata.requires("vkdml") or []:
        package, _, condition = requirement.partition(";")
        if not re.search(rf"extra == ['\"]{name}['\"]", condition):
            continue
        match = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", package)
        assert match is not None
        if match[1] == "vkdml":
            found |= set().union(*(extra(other) for other in (match[2] or "").split(",") if other))
        else:
            found.add(match[1])
    return found


RUN_HERE = ("plot_crops", "plot_token_choice")


def run(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")


@pytest.mark.parametrize("name", RUN_HERE)
def test_a_script_runs_and_draws(name: str, figures: list[int], device: vkdml.Device) -> None:
    run(name)
    assert len(figures) == len(re.findall(r"^figure.* = ", (FOLDER / f"{name}.py").read_text(), re.MULTILINE))


@pytest.mark.parametrize(("name", "operator"), [("plot_crops", "slice1"), ("plot_token_choice", "argmax")])
def test_a_wrong_result_ends_a_script(
    name: str, operator: str, monkeypatch: pytest.MonkeyPatch, figures: list[int], device: vkdml.Device
) -> None:
    right = getattr(vkdml, operator)

    def wrong(x: np.ndarray | vkdml.Array, *arguments: object, **options: object) -> object:
        """The right answer about another array, whose last axis is mirrored."""
        return right(x[..., ::-1], *arguments, **options)

    monkeypatch.setattr(vkdml, operator, wrong)
    with pytest.raises(AssertionError):
        run(name)
    assert figures == []
