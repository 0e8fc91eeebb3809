"""`vkdml bench --resume`: several calls give what one call gives, and no other run's file is taken."""

from __future__ import annotations

import pytest
from bench_runs import be_hasty

import vkdml
from vkdml.bench import measure, record_file, session
from vkdml.bench.cases import Case
from vkdml.bench.libraries import library, peers
from vkdml.bench.record import PeerTime
from vkdml.cli import main

SMALL = ["bench", "--shape", "40x300", "--dtype", "f32,f16,int8", "--readings", "3"]
CASES = ["f32 40x300 all", "f16 40x300 all", "i8 40x300 all"]


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    be_hasty(monkeypatch)
    monkeypatch.setattr(session, "KEEP_SECONDS", 0.0)


@pytest.fixture
def timed(monkeypatch):
    """The sizes in bytes of the inputs of the plans that were timed; the run is interrupted at some."""
    real, seen = measure.time_plan, []
    stop_at: list[int] = []

    def time_plan(device, plan, *arguments, **options):
        nbytes = plan.bytes_of("input")
        if nbytes in stop_at:
            raise KeyboardInterrupt
        seen.append(nbytes)
        return real(device, plan, *arguments, **options)

    monkeypatch.setattr(measure, "time_plan", time_plan)
    monkeypatch.setattr(
        measure, "ceiling_cases", lambda most: [Case("ceiling", "argmax", "int8", (1 << 16,))]
    )
    return seen, stop_at


def test_an_interrupted_run_goes_on_where_it_ended(tmp_path, timed):
    seen, stop_at = timed
    file = str(tmp_path / "run.json")
    words = [*SMALL, "--peers", "numpy", "--resume", file]
    stop_at.append(24000)
    assert main(words) == 130
    first = record_file.load(file)
    assert [row.case for row in first.rows] == CASES[:1]
    stop_at.clear()
    seen.clear()
    assert main(words) == 0
    assert seen == [1 << 16, 24000, 12000], "what the file has is not timed again"
    whole = record_file.load(file)
    assert [row.case for row in whole.rows] == CASES
    assert whole.rows[0].us == first.rows[0].us
    assert all("numpy" in row.peers for row in whole.rows)
    assert whole.ceiling_gb_per_s >= first.ceiling_gb_per_s

    seen.clear()
    alone = str(tmp_path / "alone.json")
    assert main([*SMALL, "--peers", "numpy", "--json", alone]) == 0
    uninterrupted = record_file.load(alone)
    assert record_file.difference(whole, uninterrupted) == ""
    assert [row.as_case() for row in whole.rows] == [row.as_case() for row in uninterrupted.rows]
    assert list(whole.peers) == list(uninterrupted.peers)
    assert whole.seconds.keys() == uninterrupted.seconds.keys()

    seen.clear()
    assert main(words) == 0
    assert seen == []
    assert [row.us for row in record_file.load(file).rows] == [row.us for row in whole.rows]


def test_rows_get_the_libraries_that_they_lack_and_keep_those_they_have(tmp_path, device, monkeypatch):
    file = tmp_path / "run.json"
    assert main([*SMALL, "--peers", "numpy", "--json", str(file)]) == 0
    made = record_file.load(file)
    made.rows[0].peers["numpy"] = PeerTime(12.5, 12.5, 12.5)
    made.rows[1].peers["numpy"] = PeerTime(why=library.OUT_OF_TIME)
    del made.rows[2].peers["numpy"]
    record_file.save(made, file)
    assert main([*SMALL, "--peers", "numpy", "--resume", str(file)]) == 0
    rows = record_file.load(file).rows
    assert rows[0].peers["numpy"].us == 12.5
    assert all(row.peers["numpy"].us > 0 for row in rows)

    monkeypatch.setattr(session, "time_peer", lambda *arguments, **options: pytest.fail("nothing is missing"))
    assert main([*SMALL, "--peers", "numpy", "--resume", str(file)]) == 0


def test_a_library_that_is_interrupted_keeps_what_it_was_timed_on(tmp_path, monkeypatch):
    def one_answer(request, *arguments):
        yield {"version": "1", "runs_on": "processor", "method": "none"}
        yield {"case": 0, "us": 3.0, "low_us": 2.0, "high_us": 4.0}
        raise KeyboardInterrupt

    file = tmp_path / "run.json"
    monkeypatch.setattr(peers, "_ask", one_answer)
    assert main([*SMALL, "--peers", "numpy", "--resume", str(file)]) == 130
    assert [list(row.peers) for row in record_file.load(file).rows] == [["numpy"], [], []]

    asked = []

    def the_rest(request, *arguments):
        asked.extend(case["element"] for case in request["cases"])
        yield {"version": "1", "runs_on": "processor", "method": "none"}
        for number, _ in enumerate(request["cases"]):
            yield {"case": number, "us": 5.0, "low_us": 5.0, "high_us": 5.0}

    monkeypatch.setattr(peers, "_ask", the_rest)
    assert main([*SMALL, "--peers", "numpy", "--resume", str(file)]) == 0
    assert asked == ["float16", "int8"]
    assert [row.peers["numpy"].us for row in record_file.load(file).rows] == [3.0, 5.0, 5.0]


def test_libraries_that_are_added_come_in_the_order_of_one_run(tmp_path, monkeypatch):
    def answers(request, *arguments):
        yield {"version": "1", "runs_on": "processor", "method": "none"}
        for number, _ in enumerate(request["cases"]):
            yield {"case": number, "us": 5.0, "low_us": 5.0, "high_us": 5.0}

    monkeypatch.setattr(peers, "_ask", answers)
    monkeypatch.setattr(peers, "_absence", lambda name, device: "")
    file = tmp_path / "run.json"
    for names in ("onnxruntime,numpy", "jax"):
        assert main([*SMALL, "--peers", names, "--resume", str(file)]) == 0
    assert list(record_file.load(file).peers) == ["numpy", "jax", "onnxruntime"]


def test_times_of_two_versions_of_a_library_do_not_come_together(tmp_path, monkeypatch, capsys):
    file = tmp_path / "run.json"
    assert main([*SMALL, "--peers", "numpy", "--json", str(file)]) == 0
    made = record_file.load(file)
    made.peers["numpy"].version = "0.9"
    del made.rows[2].peers["numpy"]
    record_file.save(made, file)
    assert main([*SMALL, "--peers", "numpy", "--resume", str(file)]) == 2
    said = capsys.readouterr().err
    assert "--peers numpy: the file has times of version 0.9, and" in said
    assert "numpy" not in record_file.load(file).rows[2].peers


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda made: made.device.update(name="another GPU"), 'device.name was "another GPU" and is "'),
        (lambda made: made.device.update(driver="older"), 'device.driver was "older" and is "'),
        (lambda made: made.machine.update(cores=999), "machine.cores was 999 and is "),
        (lambda made: made.versions.update(vkdml="0.0.1"), 'versions.vkdml was "0.0.1" and is "'),
        (lambda made: made.settings["tuning"].update(row_workgroup=7), "settings.tuning.row_workgroup was 7"),
        (lambda made: made.settings.update(other=7), "settings.other was 7 and is not known"),
        (lambda made: setattr(made, "suite", "quick"), 'suite was "quick" and is "own"'),
    ],
)  # fmt: skip
def test_the_file_of_another_run_is_refused(tmp_path, device, capsys, monkeypatch, change, said):
    file = tmp_path / "run.json"
    settings = {
        "mib": None, "most_input_bytes": None, "index_dtype": "int32", "readings": 30, "warm_seconds": 0.25
    }  # fmt: skip
    made = measure.new_record(device, "own", settings)
    change(made)
    record_file.save(made, file)
    before = file.read_bytes()
    monkeypatch.setattr(measure, "measure", lambda *arguments, **options: pytest.fail("nothing may run"))
    assert main(["bench", "--shape", "40x300", "--peers", "none", "--resume", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "accepted is a file of the same run" in line
    assert file.read_bytes() == before


def test_other_readings_or_cases_are_refused(tmp_path, capsys):
    file = str(tmp_path / "run.json")
    assert main([*SMALL, "--peers", "none", "--json", file]) == 0
    capsys.readouterr()
    assert main([*SMALL[:-1], "4", "--peers", "none", "--resume", file]) == 2
    assert "--readings was 3 and is 4; accepted is" in capsys.readouterr().err
    assert main([*SMALL, "--index-dtype", "int64", "--peers", "none", "--resume", file]) == 2
    assert "--index-dtype was int32 and is int64" in capsys.readouterr().err
    assert main(["bench", "--shape", "40x301", "--peers", "none", "--resume", file]) == 2
    assert "the file has the case f32 40x300 all, and this run has not" in capsys.readouterr().err
    assert main(["bench", "--peers", "none", "--resume", file]) == 2
    assert "is a run with --shape; give the same --shape" in capsys.readouterr().err
    assert main(["bench", "--peers", "none", "--resume", file, "--merge", file]) == 2
    assert "--merge is not accepted beside it" in capsys.readouterr().err


def test_a_suites_options_are_taken_from_its_file(tmp_path, device, monkeypatch):
    file = str(tmp_path / "run.json")
    suite = ["bench", "--suite", "quick", "--mib", "1", "--readings", "2", "--op", "slice1"]
    assert main([*suite, "--peers", "none", "--resume", file]) == 0
    before = record_file.load(file)
    monkeypatch.setattr(session.measure, "time_plan", lambda *arguments, **options: pytest.fail("again"))
    assert main(["bench", "--op", "slice1", "--peers", "none", "--resume", file]) == 0
    after = record_file.load(file)
    assert after.suite == "quick"
    assert after.settings == before.settings
    assert [row.us for row in after.rows] == [row.us for row in before.rows]
    assert vkdml.default_device() is device
