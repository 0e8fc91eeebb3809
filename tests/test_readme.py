"""README.md and the pages of docs/: their code runs, and what they name and link to exists.

A page that is added later is covered. Python blocks run and print what the text block after them says; shell
blocks name commands, options and files that there are.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from page_examples import blocks, check_printed

import vkdml

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "index.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
MOST_README_LINES = 159
MOST_COLUMNS = 120

# `./run docs` fails if a name in these blocks does not exist.
CHECKED_BY_SPHINX = "{eval-rst}"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


# ---- Python -------------------------------------------------------------------------------------


# Their blocks need a GPU that these tests do without; tests/cuda_on_gpu.py runs them there.
ON_NVIDIA = {"cuda.md"}


@each_page
def test_python_blocks_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    if page.name in ON_NVIDIA:
        for block in blocks(page):
            if block.language == "python":
                compile(block.text, f"{page.name}:{block.line}", "exec")
    else:
        check_printed(page, tmp_path)


@each_page
def test_blocks_are_of_languages_that_are_tested(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= {"python", "text", "sh", "yaml", CHECKED_BY_SPHINX}


# ---- commands -----------------------------------------------------------------------------------


@cache
def usage_of(*command: str) -> str:
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout


def vkdml_usage(*words: str) -> str:
    return usage_of(sys.executable, "-m", "vkdml", *words, "--help")


def script_usage(script: str) -> str:
    return usage_of(sys.executable, script, "--help")


def run_fault(words: list[str]) -> str:
    if not words:
        return ""
    if words[0] not in re.findall(r"^  ([a-z-]+)", usage_of("./run"), re.MULTILINE):
        return f"./run has no command {words[0]}"
    if words[0] == "bench":
        return options_fault(words[1:], vkdml_usage("bench"))
    script = f"tests/{words[0].replace('-', '_')}.py"
    if (ROOT / script).exists():  # soak and the fuzzers
        return options_fault(words[1:], script_usage(script))
    return files_fault(words[1:])


def vkdml_fault(words: list[str]) -> str:
    if words[0] not in re.findall(r"^  ([a-z]+)  ", vkdml_usage(), re.MULTILINE):
        return f"vkdml has no command {words[0]}"
    return options_fault(words[1:], vkdml_usage(words[0]))


def python_fault(words: list[str]) -> str:
    fault = files_fault(words)
    options = [word for word in words[1:] if word.startswith("-")]
    return fault or (options_fault(options, script_usage(words[0])) if options else "")


def pip_fault(words: list[str]) -> str:
    if words[0] == "install" and re.fullmatch(r"out/wheels/vkdml-\S+\.whl", words[-1]):
        return ""  # ./run wheel builds it
    extras = set(importlib.metadata.metadata("vkdml").get_all("Provides-Extra") or ())
    asked = re.fullmatch(r"\.(?:\[([a-z,]+)\])?", words[-1])
    if words[0] != "install" or not asked or len(words) != 2:
        return f"pip {' '.join(words)}: expected is pip install . or '.[extra]'"
    missing = set((asked[1] or "").split(",")) - extras - {""}
    return f"vkdml has no extra {missing}" if missing else ""


def venv_fault(words: list[str]) -> str:
    return "" if words == ["-m", "venv", "env"] else f"python3 {' '.join(words)}: expected is -m venv env"


def activate_fault(words: list[str]) -> str:
    return "" if words == ["env/bin/activate"] else f"{words}: expected is env/bin/activate"


def apt_fault(words: list[str]) -> str:
    listed = {line.strip() for line in (ROOT / "system-packages.txt").read_text().splitlines()}
    missing = set(words[1:]) - listed
    return f"not in system-packages.txt: {missing}" if missing or words[0] != "install" else ""


def options_fault(words: Iterable[str], usage: str) -> str:
    unknown = {word for word in words if word.startswith("-")} - set(re.findall(r"-[-a-z]+", usage))
    return f"no such options: {unknown}" if unknown else ""


def files_fault(words: Iterable[str]) -> str:
    missing = [word for word in words if "/" in word and not list(ROOT.glob(word))]
    return f"no such files: {missing}" if missing else ""


FAULTS = {
    "./run": run_fault, "vkdml": vkdml_fault, "python": python_fault, "pip": pip_fault, "apt-get": apt_fault,
    "python3": venv_fault, ".": activate_fault, "env/bin/pip": pip_fault,
}  # fmt: skip


def fault_of(command: str) -> str:
    """Say what is wrong with a shell command; nothing if all that it names is there."""
    words = shlex.split(command, comments=True)
    if "&&" in words:
        end = words.index("&&")
        return fault_of(shlex.join(words[:end])) or fault_of(shlex.join(words[end + 1 :]))
    while words and (setting := re.fullmatch(r"([A-Z_]+)=.*", words[0])):
        if f"  {setting[1]}=" not in usage_of("./run"):
            return f"./run does not document {setting[1]}"
        words.pop(0)
    if not words:
        return ""
    if words[0] not in FAULTS:
        return f"{words[0]}: known are {', '.join(FAULTS)}"
    return FAULTS[words[0]](words[1:])


def commands(page: Path) -> Iterator[str]:
    """Yield the lines of shell blocks, and what inline code looks like a command."""
    for block in blocks(page):
        if block.language == "sh":
            yield from filter(None, (line.strip() for line in block.text.splitlines()))
    for span in re.findall(r"`([^`]+)`", prose(page)):
        if re.match(r"(\./run|vkdml|python|pip|apt-get|[A-Z_]+=\S+)\s", span):
            yield " ".join(span.split())


@each_page
def test_commands_options_and_files_exist(page: Path) -> None:
    faults = {command: fault for command in commands(page) if (fault := fault_of(command))}
    assert not faults


@pytest.mark.parametrize(
    "command",
    [
        "./run nosuch", "./run soak --nosuch", "./run test tests/test_nosuch.py", "vkdml nosuch",
        "vkdml bench --nosuch", "python bench/nosuch.py", "python bench/runtime.py --nosuch",
        "python bench/targets.py bench/nosuch.json", "pip install '.[nosuch]'", "apt-get install nosuch",
        "NOSUCH=1 ./run test", "nosuch", "python3 -m venv other", ". other/bin/activate",
        "python3 -m venv env && nosuch", "nosuch && python3 -m venv env",
    ],
)  # fmt: skip
def test_a_command_that_does_not_exist_is_a_fault(command: str) -> None:
    assert fault_of(command)


# ---- names, links, layout -----------------------------------------------------------------------


@each_page
def test_names_of_the_package_exist(page: Path) -> None:
    text = re.sub(rf"^```{CHECKED_BY_SPHINX}.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for module in ("vkdml.dask", "vkdml.onnx"):  # only there when asked for
        importlib.import_module(module)
    for name in set(re.findall(r"\bvkdml((?:\.[A-Za-z_]\w*)+)", text)):
        found: object = vkdml
        for part in name.split(".")[1:]:
            assert hasattr(found, part), f"vkdml{name}"
            found = getattr(found, part)


@each_page
def test_environment_variables_are_read_somewhere(page: Path) -> None:
    sources = [ROOT / "run", *(ROOT / "src").rglob("*.py"), ROOT / "tests" / "forced_memory.py"]
    text = "".join(path.read_text() for path in sources)
    unread = [name for name in set(re.findall(r"\bVKDML_[A-Z_]+", page.read_text())) if name not in text]
    assert not unread


def anchors(page: Path) -> set[str]:
    """Return what a page's headings are called in links, by GitHub's rule."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        file, _, anchor = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def links_of(text: str, page: Path) -> list[Path]:
    return [(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text)]


# Parts of the reference, to which its first page links.
PARTS_OF_THE_REFERENCE = set((ROOT / "docs").glob("api-*.md"))


def test_the_readme_links_to_the_index_and_the_index_to_every_page() -> None:
    assert INDEX in links_of(README.read_text(), README)
    assert set(PAGES) - PARTS_OF_THE_REFERENCE - {README, INDEX} <= {*links_of(INDEX.read_text(), INDEX)}
    reference = ROOT / "docs" / "api.md"
    assert {*links_of(reference.read_text(), reference)} >= PARTS_OF_THE_REFERENCE


def test_the_readme_says_where_data_elsewhere_is_read() -> None:
    section = re.search(r"^## Data elsewhere\n(.*?)^## ", README.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    lines = section[1].strip().splitlines()
    led_to = [re.search(r"\]\(docs/([\w-]+)\.md\)\)$", line) for line in lines]
    assert [match and match[1] for match in led_to] == ["files", "dask", "cuda", "onnx", "array-api"]


# Where the index leads those who read it without the site.
IN_THE_REPOSITORY = {"gallery/index": "../examples/gallery"}


def test_the_index_shows_the_pages_in_the_order_of_the_site() -> None:
    """The site's list of pages comes from the tables of contents at the end."""
    lists, _, contents = INDEX.read_text().partition(":::{toctree}")
    of_captions = re.findall(r"^:caption: (.*)\n\n((?:\S+\n)+?):::$", contents, re.MULTILINE)
    of_headings = re.findall(r"^### ([^\n]*)\n\n(.*?)\n\n", lists, re.MULTILINE | re.DOTALL)
    links = [
        (heading, re.findall(r"^- \[[^]]+\]\((.*)\)", listed, re.MULTILINE))
        for heading, listed in of_headings
    ]
    pages = [
        (caption, [IN_THE_REPOSITORY.get(page, f"{page}.md") for page in listed.split()])
        for caption, listed in of_captions
    ]
    assert links == pages
    assert len(of_captions) == 6


@each_page
def test_lines_fit_120_columns_except_in_tables(page: Path) -> None:
    wide = [line for line in page.read_text().splitlines() if len(line) > MOST_COLUMNS and line[0] != "|"]
    assert not wide


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= MOST_README_LINES


# ---- figures ------------------------------------------------------------------------------------


def test_the_figures_around_the_kernels_are_the_committed_ones() -> None:
    file = ROOT / "bench" / "results" / "runtime" / "nvidia-h200-x4.json"
    measured = json.loads(file.read_text())
    rebind, stream, several = measured["rebind"], measured["stream"]["gb_per_s"], measured["devices"]
    threads = measured["threads"]["host array, 1 MiB"].values()

    def rates(values: Iterable[float], digits: int = 0) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in values)

    results = [
        f"{rebind['dispatch_same_buffers_p50_us']:.1f} us",
        f"{rebind['dispatch_other_buffers_p50_us']:.1f} us",
        f"{rebind['sequence_replay_p50_us']:.1f} us",
        f"{rebind['array_argmax_to_int_p50_us']:.1f} us",
        f"{stream['argmax_all']:.1f} GB/s",
        f"{rates((stream['one_memcpy_into_pinned'], stream['threads_memcpy_into_pinned']), 1)} GB/s",
        f"{measured['resident']['gb_per_s_all']:.0f} GB/s",
        f"{rates(several['resident'].values())} GB/s",
        f"{rates(several['host'].values(), 1)} GB/s",
        f"{rates((rate / 1000 for rate in threads), 1)} thousand/s",
    ]
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    table = text.partition("| measured | result |")[2].partition("\n\n")[0]
    assert re.findall(r"\| ([^|]*) \|$", table, re.MULTILINE) == results
