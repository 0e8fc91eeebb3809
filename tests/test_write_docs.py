"""bench/write_docs.py: what it writes into README.md and docs/benchmarks.md, and that both are up to date."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import write_docs
from bench_records import CASE, full_record, record_of, row_of

from vkdml.bench import record_file

FULL = full_record()
RESULTS = write_docs.ROOT / "bench" / "results"
COMMITTED = [*sorted(RESULTS.glob("*.json")), *sorted((RESULTS / "latency").glob("*.json"))]
PAGES = (write_docs.README, write_docs.PAGE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with both pages, one record and one plot."""
    for folder in ("docs", "results"):
        (tmp_path / folder).mkdir()
    for page in PAGES:
        (tmp_path / page).write_text(f"before\n{write_docs.BEGIN}\nold\n{write_docs.END}\nafter\n")
    record_file.save(FULL, tmp_path / "results" / "h200.json")
    (tmp_path / "results" / "h200-dtypes.svg").write_text("<svg/>")
    return tmp_path


def test_both_pages_are_rewritten_between_their_markers(root: Path) -> None:
    assert write_docs.main([str(root / "results" / "h200.json")], root) == 0
    texts = {page: (root / page).read_text() for page in PAGES}
    for text in texts.values():
        assert text.startswith(f"before\n{write_docs.BEGIN}\n")
        assert text.endswith(f"{write_docs.END}\nafter\n")
        assert "old" not in text
    page = texts[write_docs.PAGE]
    assert "[h200.json](../results/h200.json)" in page
    assert "![NVIDIA H200: dtypes](../results/h200-dtypes.svg)" in page
    assert "sizes.svg" not in page
    assert "| segmentation | f32 f16 i8 |" in page
    assert "![NVIDIA H200: rates by element type](results/h200-dtypes.svg)" in texts[write_docs.README]
    assert write_docs.main([str(root / "results" / "h200.json")], root) == 0
    assert {page: (root / page).read_text() for page in PAGES} == texts


@pytest.mark.parametrize("broken", PAGES)
def test_a_page_without_markers_leaves_both_alone(root: Path, capsys, broken: Path) -> None:
    (root / broken).write_text("nothing here\n")
    before = [(root / page).read_text() for page in PAGES]
    assert write_docs.main([str(root / "results" / "h200.json")], root) == 1
    assert f"{broken}: there is no place for the figures" in capsys.readouterr().err
    assert [(root / page).read_text() for page in PAGES] == before
    assert write_docs.main([], root) == 2


def test_the_summary_has_one_plot_and_the_main_figures_of_each_record(tmp_path: Path) -> None:
    (tmp_path / "b-dtypes.svg").write_text("<svg/>")
    (tmp_path / "c-dtypes.svg").write_text("<svg/>")
    slow = record_of([row_of(CASE, 10, numpy=5), row_of(CASE, 10, numpy=20)], "software")
    slow.device["name"] = "llvmpipe (LLVM 15)"
    slow.peers = {"numpy": slow.peers["numpy"]}
    slow.settings["mib"] = 16
    text = write_docs.summary([("a.json", FULL), ("b.json", slow), ("c.json", slow)], tmp_path)
    assert text.count("![") == 1
    assert "](b-dtypes.svg)" in text
    items = [" ".join(item.split()) for item in text.split("\n- ")[1:]]
    assert items[0].startswith("NVIDIA H200, kernels: ")
    assert " times as fast as torch (geometric mean; " in items[0]
    assert "argmax over all axes, 15 element types: " in items[1]
    assert items[1].endswith("data sheet of the memory: 4800 GB/s.")
    assert items[2] == (
        "NVIDIA H200, time of a call on a host array, 1024 f32, median in us: vkdml 16.0, torch 16.0."
    )
    assert items[3] == (
        "llvmpipe, calls on host arrays up to 16 MiB: 1.00 times as fast as NumPy (geometric mean; 2 cases, "
        "slower in 1)."
    )


def test_the_summary_names_all_libraries_that_were_the_fastest_of_a_case(tmp_path: Path) -> None:
    rows = [row_of(CASE, 10, torch=5, jax=6), row_of(CASE, 10, torch=8, jax=7), row_of(CASE, 10, cub=9)]
    text = " ".join(write_docs.summary([("a.json", record_of(rows))], tmp_path).split())
    assert "as fast as the fastest of torch, JAX and CUB (geometric mean; 3 cases, slower in 3)." in text


def test_the_summary_says_how_many_cases_a_library_reached_whose_time_ended(tmp_path: Path) -> None:
    record = record_of([row_of(CASE, 10, torch=70, jax=60), row_of(CASE, 10, torch=20)])
    record.peers["jax"] = replace(record.peers["jax"], note="1 cases not reached in its time")
    text = " ".join(write_docs.summary([("a.json", record)], tmp_path).split())
    assert "(geometric mean; 2 cases, slower in 0; JAX ran 1 of them within its time limit)." in text


def test_a_record_without_other_libraries_has_no_summary(tmp_path: Path) -> None:
    assert write_docs.summary([("a.json", record_of([row_of(CASE, 10)]))], tmp_path).strip() == ""


def test_pages_say_nothing_of_the_developers_targets(tmp_path: Path) -> None:
    for write in (write_docs.tables, write_docs.summary):
        assert "target" not in write([("run.json", FULL)], tmp_path).lower()


def test_lines_that_are_no_table_fit_120_columns(tmp_path: Path) -> None:
    for write in (write_docs.tables, write_docs.summary):
        lines = write([("run.json", FULL)], tmp_path).splitlines()
        assert max(len(line) for line in lines if not line.startswith("|")) <= 120


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_committed_pages_show_the_committed_results(page: Path) -> None:
    written = write_docs.rewritten(COMMITTED)[page]
    assert (write_docs.ROOT / page).read_text() == written, (
        "renew them with: python bench/write_docs.py bench/results/*.json"
    )


def test_the_package_holds_nothing_for_this_repositorys_documents() -> None:
    sources = list((write_docs.ROOT / "src" / "vkdml").rglob("*.py"))
    assert sources
    assert not [path.name for path in sources if "README" in path.read_text() or "docs/" in path.read_text()]
