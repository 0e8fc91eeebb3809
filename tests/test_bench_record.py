"""Records of the benchmark: files, comparison with other libraries and a baseline, tables, plots."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import write_docs
from bench_records import CASE, full_record, printed, record_of, row_of
from rich.console import Console

from vkdml.bench import (
    baseline,
    datasheets,
    files,
    measure,
    plots,
    record,
    record_file,
    report,
    session,
    suites,
    sweep_report,
)  # fmt: skip
from vkdml.bench.cases import Case
from vkdml.bench.files import RecordFault
from vkdml.bench.record import Peer, PeerTime

ROOT = Path(__file__).resolve().parent.parent
FULL = full_record()


# ---- files --------------------------------------------------------------------------------------


def test_a_record_comes_back_from_its_file(tmp_path):
    path = tmp_path / "run.json"
    record_file.save(FULL, path)
    back = record_file.load(path)
    assert [row.case for row in back.rows] == [row.case for row in FULL.rows]
    assert back.rows[3].peers == {
        name: replace(time, us=pytest.approx(time.us, rel=1e-5), low_us=pytest.approx(time.us, rel=1e-5),
                      high_us=pytest.approx(time.us, rel=1e-5))
        for name, time in FULL.rows[3].peers.items()
    }  # fmt: skip
    assert [row.as_case() for row in back.rows] == suites.suite("full")
    assert back.latency[1].peers["cub"].why == "is no Python library"
    assert back.peers == FULL.peers
    assert json.loads(path.read_text())["format"] == record_file.FORMAT
    again = tmp_path / "again.json"
    record_file.save(back, again)
    assert again.read_text() == path.read_text()


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"format": 0}', '{"format": 1}', '{"format": 1, "rows": [1]}']
)
def test_other_files_are_refused_in_one_line(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(RecordFault, match=r"vkdml bench --json") as refused:
        record_file.load(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("rows", 0, "us"), None, "us of .* is null"),
        (("rows", 0, "shape"), ["4"], r"shape of .* is \[\"4\"\]"),
        (("rows", 0, "kernels"), {"a": True}, "kernels of"),
        (("latency", 0, "ours", "p50_us"), "1", 'p50_us of Latency is "1"'),
        (("suite",), 3, "suite of the record is 3"),
        (("device",), {}, "'name'"),
        (("machine", "cores"), ..., "'cores'"),
    ],
)
def test_a_record_with_another_value_is_refused_in_one_line(tmp_path, place, value, said):
    path = tmp_path / "run.json"
    record_file.save(FULL, path)
    content = json.loads(path.read_text())
    part = content
    for name in place[:-1]:
        part = part[name]
    if value is ...:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(RecordFault, match=said) as refused:
        record_file.load(path)
    assert "\n" not in str(refused.value)


def test_a_record_of_the_former_format_says_recorded_sequence(tmp_path):
    path = tmp_path / "old.json"
    record_file.save(FULL, path)
    old = json.loads(path.read_text())
    old["format"] = 1
    del old["copy_gb_per_s"], old["copy_bytes"]
    former = {"recorded": "resident", "recorded in turn": "resident in turn"}
    for row in old["latency"]:
        row["kind"] = former.get(row["kind"], row["kind"])
        row["case"] = row["case"].replace("recorded sequence", "resident array")
    assert "100 resident arrays in turn, 1024 f32" in [row["case"] for row in old["latency"]]
    path.write_text(json.dumps(old))
    back = record_file.load(path)
    assert [(row.case, row.kind) for row in back.latency] == [(row.case, row.kind) for row in FULL.latency]
    assert back.copy_gb_per_s is None
    assert [case.name for case in session.latency_cases_of(back.latency)] == [
        row.case for row in FULL.latency
    ]


def test_a_record_that_holds_goals_for_one_device_is_read_without_them(tmp_path):
    path = tmp_path / "old.json"
    record_file.save(FULL, path)
    old = json.loads(path.read_text())
    old["rows"][0] |= {"target": {"unit": "GB/s", "value": 4450, "case": ""}, "met": False}
    old["latency"][1] |= {"target_us": 16.0, "met": None}
    path.write_text(json.dumps(old))
    record_file.save(record_file.load(path), tmp_path / "new.json")
    record_file.save(FULL, path)
    assert (tmp_path / "new.json").read_text() == path.read_text()


def test_latency_cases_come_in_the_order_of_the_records_rows():
    rows = list(reversed(FULL.latency))
    rows.append(replace(rows[0], case="of another version", kind="host", nbytes=128))
    found = session.latency_cases_of(rows)
    assert [case.name for case in found[:-1]] == [row.case for row in rows[:-1]]
    assert (found[-1].kind, found[-1].nbytes, found[-1].calls) == ("host", 128, rows[-1].ours.calls)


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(RecordFault, match="No such file"):
        record_file.load(tmp_path / "none.json")
    with pytest.raises(RecordFault, match="cannot be written"):
        files.check_writable(tmp_path / "none" / "run.json")
    with pytest.raises(RecordFault, match="is a folder"):
        files.check_writable(tmp_path)
    files.check_writable(tmp_path / "run.json")
    assert list(tmp_path.iterdir()) == []


def test_only_files_are_written_and_links_stay(tmp_path):
    path, link, pipe = tmp_path / "run.json", tmp_path / "link.json", tmp_path / "pipe"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to("run.json")
    files.check_writable(link)
    files.write_whole(link, b"new")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
    (tmp_path / "new.json").symlink_to("made.json")
    files.write_whole(tmp_path / "new.json", b"first")
    assert (tmp_path / "made.json").read_text() == "first"

    os.mkfifo(pipe)
    (tmp_path / "output").symlink_to("/proc/self/fd/1")
    for other in (pipe, tmp_path / "output"):
        for write in (files.check_writable, lambda name: files.write_whole(name, b"lost")):
            with pytest.raises(RecordFault, match="is a device or a pipe; accepted is a file's name"):
                write(other)
    assert pipe.is_fifo()
    assert (tmp_path / "output").is_symlink()

    (tmp_path / "circle").symlink_to("circle")
    for name in (tmp_path / "circle", tmp_path / ("c" * 300)):
        with pytest.raises(RecordFault, match=r"cannot be written: (Too many levels|File name too long)"):
            files.check_writable(name)
    long = tmp_path / ("c" * 250)  # which leaves no room for a longer temporary name
    files.check_writable(long)
    files.write_whole(long, b"new")
    assert long.read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    path.write_text("old")

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# ---- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_us", "us", "possible"),
    [(None, 1e9, True), (100, 100, True), (100, 101, True), (100, 101.2, False), (5e4, 5.004e4, True),
     (5e4, 5.01e4, False), (4734.56, 4860.4, False)],
)  # fmt: skip
def test_a_call_takes_as_long_as_its_kernels_at_least(call_us, us, possible):
    row = row_of(CASE, us)
    row.call_us = call_us
    if possible:
        record.require_possible([row])
        return
    with pytest.raises(record.ImpossibleTime, match=r"f32 1M all: the whole call took .* its kernels"):
        record.require_possible([row])


COMMITTED = sorted((ROOT / "bench" / "results").glob("*.json"))


@pytest.mark.parametrize("path", COMMITTED, ids=[path.stem for path in COMMITTED])
def test_the_committed_times_are_possible(path):
    made = record_file.load(path)
    record.require_possible(made.rows)
    for row in made.rows:
        assert sum(row.kernels.values()) <= row.us * 1.25 + 5, "kernels are parts of the row's time"


# ---- comparison ---------------------------------------------------------------------------------


def test_the_best_peer_is_one_that_ran_on_the_same_device():
    row = row_of(CASE, 10, torch=30, jax=20, numpy=1)
    assert record.best_peer(record_of([row]), row) == ("jax", 20)
    assert record.best_peer(record_of([row], "software"), row) == ("numpy", 1)
    row.peers["jax"] = PeerTime(why="out of time")
    assert record.best_peer(record_of([row]), row) == ("torch", 30)
    assert record.best_peer(record_of([row]), row_of(CASE, 10)) is None


def test_the_geometric_mean_is_over_rows_with_a_peer():
    rows = [row_of(CASE, 10, torch=20), row_of(CASE, 10, torch=80, jax=90), row_of(CASE, 10)]
    assert record.mean_speedup(record_of(rows)) == (pytest.approx(4.0), 2)
    assert record.mean_speedup(record_of([rows[2]])) is None


def test_whole_calls_are_compared_where_they_were_timed():
    row = row_of(CASE, 10, numpy=40)
    row.call_us = 20.0
    assert record.mean_speedup(record_of([row], "software")) == (pytest.approx(2.0), 1)
    assert report.ratio(row, "numpy") == "2.00"


def test_the_ceiling_is_the_fastest_large_read():
    large = replace(CASE, shape=(1 << 26,))
    rows = [row_of(CASE, 1), row_of(large, 100), row_of(replace(large, op="argmin"), 80)]
    rows.append(row_of(Case("", "slice1", "float32", (8192, 8192), window="copy"), 1))
    rate, name = measure.read_ceiling(rows)
    assert (rate, name) == (pytest.approx((1 << 28) / 80e3), rows[2].case)
    assert measure.read_ceiling([]) == (None, "")


# ---- baseline -----------------------------------------------------------------------------------


def test_only_changes_beyond_the_spread_are_said():
    names = ["same", "slower", "faster", "within noise", "new"]
    before = [row_of(replace(CASE, shape=(1000 + place,)), 100) for place in range(4)]
    after = [
        row_of(replace(CASE, shape=(1000 + place,)), us) for place, us in enumerate((101, 105, 95, 130, 7))
    ]
    after[3].low_us = 95
    new, old = record_of(after), record_of(before)
    changes = baseline.compare(new, old)
    verdicts = {change.case: change.verdict for change in changes}
    expected = ["same", "slower", "faster", "same"]
    assert verdicts == {row.case: verdict for row, verdict in zip(before, expected, strict=True)}, names
    lines = list(baseline.describe(changes))
    assert lines[-1].startswith("against the baseline: 1 slower, 1 faster, 2 the same")
    assert lines[0].startswith("slower: f32 1001 all: 100.0 us (99.0 to 101.0) before, 105.0 us")
    why = "not compared, since the other has no such case"
    assert baseline.not_compared(new, old) == f"{why}: 1 of the run"
    assert baseline.not_compared(record_of(after[:2]), old) == f"{why}: 2 of the baseline"
    assert baseline.not_compared(record_of(after[1:]), old) == f"{why}: 1 of the run and 1 of the baseline"
    assert baseline.not_compared(old, old) == ""


def test_latencies_are_compared_too():
    slow = record_of([], with_latency=True)
    for row in slow.latency:
        row.ours = record.latency_of([us * 2e-6 for us in row.ours.quantiles_us])
    changes = baseline.compare(slow, record_of([], with_latency=True))
    assert {change.verdict for change in changes} == {"slower"}


def test_calls_that_run_no_kernel_are_compared_by_their_own_time():
    def run(us: float) -> record.Record:
        row = replace(row_of(CASE, 1), us=0.0, low_us=0.0, high_us=0.0)
        return record_of([replace(row, array_call=record.Times(us, us, us, 9))])

    assert [change.verdict for change in baseline.compare(run(90.0), run(9.0))] == ["slower"]
    assert baseline.not_compared(run(9.0), run(9.0)) == ""
    unknown = record_of([replace(row_of(CASE, 1), us=0.0)])
    with pytest.raises(RecordFault, match="no case in common"):
        baseline.compare(unknown, unknown)


def test_records_that_cannot_be_compared_are_refused():
    one = record_of([row_of(CASE, 1)])
    with pytest.raises(RecordFault, match="no case in common"):
        baseline.compare(one, record_of([row_of(replace(CASE, op="argmin"), 1)]))
    other = record_of([row_of(CASE, 1)])
    other.device["name"] = "another"
    with pytest.raises(RecordFault, match="accepted is a record of the same device"):
        baseline.compare(one, other)


# ---- tables and plots ---------------------------------------------------------------------------


def page_of(made: record.Record) -> str:
    """Return the record's tables as a documentation page has them, in one line."""
    return " ".join(write_docs.tables([("run.json", made)], Path(".")).split())


@pytest.mark.parametrize("kind", ["discrete", "software"])
def test_tables_fit_80_columns_whole(kind):
    made = full_record()
    made.device["type"] = kind
    if kind == "software":
        for name in ("cub", "cupy"):  # they need a GPU
            del made.peers[name]
        for row in made.rows:
            row.us, row.call_us, row.gb_per_s = 123456.7, 234567.8, 0.34
    text = printed(made)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for name in made.peers:
        assert f" {report.SHORT_NAMES[name]}" in text


def test_a_narrow_terminal_cuts_no_number():
    made = full_record()
    told = []
    for width in (20, 40, 300):
        console = Console(width=width, file=io.StringIO(), highlight=False)
        report.show(made, console)
        table, _, _ = console.file.getvalue().partition("GB/s: bytes")
        assert "…" not in table
        told.append(re.findall(r"(?<= )[0-9.]+$|(?<= )[0-9.]+(?= )", table.partition("─")[2]))
    assert len(told[0]) > 5
    assert [number for number in told[2] if number not in told[0] or number not in told[1]] == []


def test_the_report_says_what_was_left_out_and_scaled():
    rows = [row_of(CASE, 10, torch=9)]
    rows[0].scaled_from = [1 << 28]
    made = record_of(rows)
    made.peers["numpy"].note = "3 cases not reached in its time"
    text = printed(made)
    assert "Another library is faster in 1 of them." in text
    assert "from 268435456" in text
    assert "1 of 1 cases was made smaller" in text
    assert "numpy: 3 cases not reached in its time" in text


def test_the_report_says_what_was_measured_again():
    made = full_record()
    assert "measured again" not in printed(made)
    for row in made.rows[:7]:
        row.discarded_us = [1660.8, 300.0]
    said = " ".join(printed(made).split())
    assert f"had fallen: 7 of {len(made.rows)} cases; {made.rows[0].case}: 1660.8, 300.0, then" in said
    assert "; and 2 more" in said
    (said,) = sweep_report.measured_again(made.rows[:3])
    assert "more" not in said


def test_numpy_is_named_once_if_it_is_also_what_vkdml_is_compared_with():
    made = record_of([row_of(CASE, 10, numpy=40)], "software")
    made.versions["numpy"] = "2.4.6"
    made.peers = {"numpy": Peer("2.4.6", "processor", "wall clock")}
    for text in (printed(made), page_of(made)):
        assert text.lower().count("numpy 2.4.6") == 1
        assert "compared with NumPy 2.4.6" in text
    made.peers["jax"] = Peer("0.11.2", "processor", "wall clock")
    assert report.libraries(made) == "compared with NumPy 2.4.6, JAX 0.11.2"
    made.peers["numpy"] = Peer("1.26.4", "processor", "wall clock")
    assert report.libraries(made) == "NumPy 2.4.6; compared with NumPy 1.26.4, JAX 0.11.2"
    made.peers = {}
    assert report.libraries(made) == "NumPy 2.4.6"


def test_report_page_and_plots_say_of_what_the_fastest_read_is():
    made = full_record()
    made.copy_gb_per_s, made.copy_bytes = 4110.0, 1 << 30
    section = page_of(made)
    for text in (" ".join(printed(made).split()), section):
        assert "Fastest read in this run: 4550 GB/s" in text
        assert "the driver's vkCmdCopyBuffer of 1024 MiB: 4110 GB/s read and written" in text
        assert "data sheet: 4800 GB/s" in text
    drawn = plots.figures(made)
    said = {part: " ".join(text.get_text() for text in figure.texts) for part, figure in drawn.items()}
    for part in ("dtypes", "sizes"):
        assert "Dashed line: the fastest read that vkdml itself made in this run, 4550 GB/s" in said[part]
        assert "dotted line: the data sheet of the device's memory, 4800 GB/s" in said[part]
    assert "vkCmdCopyBuffer, read and written, 4110 GB/s" in said["dtypes"]


@pytest.mark.parametrize(
    ("name", "rate"),
    [("NVIDIA H200", 4800), ("NVIDIA H100 80GB HBM3", 3350), ("NVIDIA H100 PCIe", None), ("llvmpipe", None)],
)
def test_published_rates_are_those_of_the_very_device(name, rate):
    published = datasheets.published_rate(name)
    assert (published.gb_per_s if published else None) == rate


def test_report_and_page_compare_in_the_same_words_and_direction():
    made = record_of([row_of(CASE, 10, torch=25)])
    made.rows[0].read_bytes = 1 << 28
    section = page_of(made)
    said = " ".join(printed(made).split())
    assert "| times as fast |" in section
    assert section.count("| 2.50 |") == 1
    assert "columns of libraries: the library's time divided by that of vkdml (its kernels)" in said
    assert report.ratio(made.rows[0], "torch") == "2.50"
    for text in (said, section):
        assert "over 1 case: vkdml is 2.50 times as fast as the fastest other library of each." in text
    made.rows[0].peers["torch"] = PeerTime(0.04)
    assert "| 0.004 |" in page_of(made)
    assert report.ratio(made.rows[0], "torch") == "0.004"


def test_recorded_sequences_are_told_apart_from_public_calls():
    for text in (page_of(FULL), " ".join(printed(FULL).split())):
        assert "recorded sequence, 1024 f32" in text
        assert "100 recorded sequences in turn, 1024 f32" in text
        assert "the other libraries make their public call on an array on the device" in text
        assert "resident" not in text


def test_plots_are_written_for_what_there_is(tmp_path):
    written = plots.write(FULL, tmp_path / "run.svg")
    assert [path.name for path in written] == ["run-dtypes.svg", "run-sizes.svg", "run-latency.svg"]
    text = written[0].read_text()
    assert "</svg>" in text
    first = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in plots.write(FULL, tmp_path / "run.svg")] == first
    few = record_of([row_of(CASE, 10, torch=20)])
    assert [path.name for path in plots.write(few, tmp_path / "few.png")] == ["few-dtypes.png"]
    assert (tmp_path / "few-dtypes.png").read_bytes().startswith(b"\x89PNG")
