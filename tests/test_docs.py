"""The site: its settings, its list of the interface, and the check of what `./run docs` built."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType

import pytest

import vkdml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the check of a built site ------------------------------------------------------------------

SOUND = """<link rel="stylesheet" href="style.css"><link rel="canonical" href="https://host/a.html">
<script src="search.js?digest=1"></script><a href="https://host/x">out</a> <a href="mailto:x@host">mail</a>
<h2 id="part"></h2><a href="#part">in</a> <a href="b.html#there">other</a> <a href="data.json">data</a>"""
FAULTS = {
    '<a href="missing.html">': "a.html: no such page or place: missing.html",
    '<a href="#missing">': "a.html: no such page or place: #missing",
    '<a href="b.html#missing">': "a.html: no such page or place: b.html#missing",
    '<img src="missing.png">': "a.html: no such page or place: missing.png",
    '<img src="style.css" srcset="style.css, large.png 2x">': "a.html: no such page or place: large.png",
    '<script src="https://host/x.js"></script>': "a.html: fetches https://host/x.js",
    '<script src="//host/x.js"></script>': "a.html: fetches //host/x.js",
    '<link rel="stylesheet" href="https://host/x.css">': "a.html: fetches https://host/x.css",
    '<link rel="preconnect" href="https://host">': "a.html: fetches https://host",
    '<iframe src="https://host/x"></iframe>': "a.html: fetches https://host/x",
}


def checked(site: Path, page: str, style: str = "p { background: url(data.json) }") -> tuple[int, list[str]]:
    files = {
        "a.html": page, "b.html": "<p id='there'>", "style.css": style, "search.js": "", "data.json": "{}",
    }  # fmt: skip
    for name, text in files.items():
        (site / name).write_text(text)
    command = [sys.executable, str(DOCS / "check_site.py"), str(site)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("2 pages, ")
    return done.returncode, done.stderr.splitlines()


def test_a_sound_site_passes(tmp_path: Path) -> None:
    assert checked(tmp_path, SOUND) == (0, [])


@pytest.mark.parametrize("wrong", FAULTS)
def test_a_faulty_site_does_not(wrong: str, tmp_path: Path) -> None:
    assert checked(tmp_path, SOUND + wrong) == (1, [FAULTS[wrong]])


@pytest.mark.parametrize(
    ("rule", "address"),
    [
        ("@import 'https://host/x.css';", "https://host/x.css"),
        ("@font-face { src: url(//host/x.woff2) format('woff2') }", "//host/x.woff2"),
    ],
)
def test_styles_that_fetch_from_a_foreign_host_do_not(rule: str, address: str, tmp_path: Path) -> None:
    assert checked(tmp_path, SOUND, rule) == (1, [f"style.css: fetches {address}"])


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    command = [sys.executable, str(DOCS / "check_site.py"), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 1


# ---- the interface ------------------------------------------------------------------------------


def documented() -> set[str]:
    """Return the names that the pages of the reference hand to autodoc."""
    names: set[str] = set()
    for page in DOCS.glob("api*.md"):
        module = ""
        for directive, name in re.findall(r"^\.\. (\w+):: (\S+)$", page.read_text(), re.MULTILINE):
            if directive in ("module", "currentmodule", "automodule"):
                module = name
            else:
                names.add(name if name.startswith("vkdml.") else f"{module}.{name}")
    return names


def test_the_whole_interface_is_in_the_reference() -> None:
    modules = [vkdml, vkdml.dml, importlib.import_module("vkdml.dask"), importlib.import_module("vkdml.onnx")]
    public = {
        f"{module.__name__}.{name}"
        for module in modules
        for name in module.__all__
        if not isinstance(getattr(module, name), ModuleType) and not name.startswith("DML_")
    }
    assert documented() == public
    # All that __all__ lists is shown.
    assert ".. automodule:: vkdml.array_api\n   :members:\n" in (DOCS / "api-array-api.md").read_text()


signatures = module_at(DOCS / "_extensions" / "signatures.py")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("(x: ~typing.Any, out: ~typing.Any = None)", "(x, out=None)"),
        ("(**options: ~typing.Any)", "(**options)"),
        ("(i: ~typing.SupportsIndex | None = 1)", "(i: int | None = 1)"),
        ("(d: str | None | list[str] | tuple[str, ...] = 0)", "(d: str | list[str] | None = 0)"),
        ("(f: ~vkdml.Flags = <Flags.NONE: 0>)", "(f: ~vkdml.Flags = Flags.NONE)"),
        ("(t: ~typing.Any = <class 'numpy.float32'>)", "(t=np.float32)"),
        ("(h: ~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~typing.Any]])", "(h: ~numpy.ndarray)"),
        ("(c: dict[str, ~typing.Any])", "(c: dict[str, ~typing.Any])"),
    ],
)  # fmt: skip
def test_signatures_are_shown_without_what_only_type_checkers_need(given: str, shown: str) -> None:
    assert signatures.shown(None, "function", "vkdml.f", None, None, given, None) == (shown, None)


def test_what_is_not_called_has_no_signature() -> None:
    assert signatures.shown(None, "class", "vkdml.Array", vkdml.Array, None, "(*_, **__)", None) == ("", None)
    assert signatures.shown(None, "class", "x", IntEnum, None, "(value)", None) == ("", None)
    for name in signatures.NOT_CALLED:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)


# ---- settings -----------------------------------------------------------------------------------


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the settings append
    return module_at(DOCS / "conf.py")


def test_warnings_are_errors_and_nothing_is_fetched(conf: ModuleType) -> None:
    assert conf.nitpicky
    assert not hasattr(conf, "suppress_warnings")
    assert not {"sphinx.ext.intersphinx", "sphinx.ext.githubpages"} & set(conf.extensions)
    assert re.search(r"-m sphinx .*-W ", (ROOT / "run").read_text())
    continuous = ROOT / ".ci" / "run"  # which the source release has not
    assert not continuous.exists() or re.search(
        r"^[^#\n]*\bDRIVER=lavapipe \./run docs &&$", continuous.read_text(), re.M
    )


def test_a_failing_example_fails_the_build(conf: ModuleType) -> None:
    settings = conf.sphinx_gallery_conf
    assert not settings["only_warn_on_example_error"]
    examples = [path.name for folder in settings["examples_dirs"] for path in Path(folder).glob("*.py")]
    assert examples
    assert all(re.search(settings["filename_pattern"], name) for name in examples)


def test_the_pages_in_the_head_of_the_site_exist(conf: ModuleType) -> None:
    for page, _ in conf.html_context["most_asked"]:
        assert page == "gallery/index" or (DOCS / f"{page}.md").exists(), page


def test_the_address_of_files_is_that_of_the_package(conf: ModuleType) -> None:
    """Links to files outside docs/ and those of the package's README lead to one place."""
    (address,) = re.findall(r'^files = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert conf.repository_files == address


# ---- links and names, in a site of one page -----------------------------------------------------

PAGE_OF_LINKS = """# Title

[ops](../src/vkdml/ops.py), [ops.py](../src/vkdml/ops.py), [wheels](../wheels), [readme](../README.md),
`vkdml.argmax(x)`, `DML_TENSOR_FLAGS`, `np.argmax`

```{eval-rst}
.. py:function:: vkdml.argmax
.. py:class:: vkdml.dml.TensorFlags
```
"""


def built(folder: Path, settings: str, page: str) -> str:
    """Return the body of a page of a site that has our extensions."""
    pytest.importorskip("sphinx", reason="./run docs installs it")
    pytest.importorskip("myst_parser", reason="./run docs installs it")
    (folder / "source").mkdir()
    (folder / "source" / "index.md").write_text(page)
    (folder / "source" / "conf.py").write_text(
        f"import sys\nsys.path.append({str(DOCS / '_extensions')!r})\n"
        "extensions = ['myst_parser', 'repository_files', 'named_in_code']\nhtml_theme = 'basic'\n"
        f"{settings}\n"
    )
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        str(folder / "source"),
        str(folder / "html"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    text = (folder / "html" / "index.html").read_text()
    return text.partition("<h1>")[2].partition("<dl")[0]


def test_files_outside_are_named_and_names_are_links(tmp_path: Path) -> None:
    body = built(tmp_path, "", PAGE_OF_LINKS)
    assert 'ops (<code class="docutils literal notranslate"><span class="pre">src/vkdml/ops.py</span>' in body
    assert body.count("src/vkdml/ops.py") == 2
    assert "wheels (<code" not in body
    assert re.search(r'<a class="reference internal" href="#"><span[^>]*>readme', body)
    assert re.search(
        r'<a [^>]*href="#vkdml.argmax"[^>]*><code[^>]*><span class="pre">vkdml.argmax\(x\)', body
    )
    assert re.search(
        r'<a [^>]*href="#vkdml.dml.TensorFlags"[^>]*><code[^>]*><span class="pre">DML_TENSOR_FLAGS', body
    )
    assert not re.search(r"<a [^>]*><code[^>]*><span[^>]*>np.argmax", body)


def test_with_an_address_files_outside_are_links_to_it(tmp_path: Path) -> None:
    body = built(tmp_path, "repository_files = 'https://host/raw/main/'", PAGE_OF_LINKS)
    assert 'href="https://host/raw/main/src/vkdml/ops.py">ops</a>' in body
    assert 'href="https://host/raw/main/wheels">wheels</a>' in body


def test_a_link_to_a_file_that_is_not_there_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no such file in the repository: \.\./src/nosuch\.py"):
        built(tmp_path, "", "# Title\n\n[x](../src/nosuch.py)\n")
