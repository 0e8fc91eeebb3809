"""Runs the properties with fresh random cases until time is up: python tests/fuzz.py --seconds 60."""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import json
import os
import pathlib
import platform
import secrets
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import checking
import hypothesis
import numpy as np
import strategies
from hypothesis import HealthCheck, Phase

import vkdml

Case = strategies.ArgReduceCase | strategies.Slice1Case

BATCH = 200  # cases of one property drawn from one seed
LARGE_BATCH = 4
OUT = pathlib.Path(__file__).resolve().parent.parent / "out" / "fuzz"
PROPERTIES: dict[str, tuple[Any, Callable[[Any], None]]] = {
    "argreduce": (strategies.argreduce_cases(), checking.check_argreduce_case),
    "slice1": (strategies.slice1_cases(), checking.check_slice1_case),
    "large_argreduce": (strategies.argreduce_cases(large=True), checking.check_argreduce_case),
    "large_slice1": (strategies.slice1_cases(large=True), checking.check_large_slice1_case),
}
CASE_TYPES: dict[str, type[Any]] = {
    name: strategies.Slice1Case if "slice1" in name else strategies.ArgReduceCase for name in PROPERTIES
}


class Progress:
    """Counts cases, and says so every ten seconds."""

    def __init__(self, seconds: float) -> None:
        self.started = self.said = time.monotonic()
        self.seconds = seconds
        self.cases = 0

    def over(self) -> bool:
        return time.monotonic() - self.started >= self.seconds

    def say(self, seed: int) -> None:
        elapsed = time.monotonic() - self.started
        rate = self.cases / max(elapsed, 1e-9)
        print(f"{elapsed:6.0f} s  {self.cases} cases  {rate:.0f} cases/s  seed {seed}", flush=True)
        self.said = time.monotonic()

    def count(self, seed: int) -> None:
        self.cases += 1
        if time.monotonic() - self.said >= 10:
            self.say(seed)


class Running:
    """Keeps the case under way in a file: what a crash of the driver leaves behind."""

    def __init__(self) -> None:
        OUT.mkdir(parents=True, exist_ok=True)
        self.path = OUT / f"running-{os.getpid()}.json"  # runs on other drivers may be going on beside it
        self._file = self.path.open("w")

    def note(self, name: str, seed: int, case: Case) -> None:
        self._file.seek(0)
        self._file.write(as_json(name, seed, case))
        self._file.truncate()
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self.path.unlink()


class OutOfTime(Exception):
    """Ends a batch between two cases; not a failure."""


def failing_case(
    name: str, seed: int, progress: Progress, running: Running
) -> tuple[Case, BaseException] | None:
    """One batch of a property: None, or its simplest failing case and what went wrong."""
    strategy, check = PROPERTIES[name]
    failed: list[tuple[Case, BaseException]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=LARGE_BATCH if name.startswith("large") else BATCH,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @hypothesis.given(strategy)
    def batch(case: Case) -> None:
        if not failed:
            if progress.over():
                raise OutOfTime
            progress.count(seed)
        running.note(name, seed, case)
        try:
            check(case)
        except Exception as error:
            failed.append((case, error))
            raise

    try:
        batch()
    except OutOfTime:
        return None
    except Exception:
        if not failed:
            raise
        return failed[-1]
    return None


def as_json(name: str, seed: int, case: Case) -> str:
    return json.dumps({"property": name, "seed": seed, "case": dataclasses.asdict(case)}, indent=1) + "\n"


def save(name: str, seed: int, case: Case) -> pathlib.Path:
    """The case as JSON to replay, and its input array beside it as .npz."""
    path = OUT / f"{name}-{seed}.json"
    path.write_text(as_json(name, seed, case))
    x = case.input()
    np.savez(
        path.with_suffix(".npz"),
        elements=np.frombuffer(x.tobytes(), np.uint8),
        dtype=np.array(case.dtype),
        shape=np.array(x.shape, np.int64),
        strides=np.array(x.strides, np.int64),
    )
    return path


def tuples(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(tuples(v) for v in value) if isinstance(value, list) else value


def load(path: pathlib.Path) -> tuple[str, Case]:
    """The property's name and the case that save() wrote."""
    saved = json.loads(path.read_text())
    fields = {key: tuples(value) for key, value in saved["case"].items()}
    for key in ("layout", "out"):
        if fields[key] is not None:
            fields[key] = strategies.Layout(**{k: tuples(v) for k, v in fields[key].items()})
    return saved["property"], CASE_TYPES[saved["property"]](**fields)


def replay(path: pathlib.Path) -> int:
    name, case = load(path)
    print(case, flush=True)
    PROPERTIES[name][1](case)
    print("passes")
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long to look for failures (default 60)"
    )
    parser.add_argument("--seed", type=int, help="the first batch's seed, to repeat a run (default: random)")
    parser.add_argument(
        "--only",
        choices=sorted(PROPERTIES),
        nargs="+",
        metavar="PROPERTY",
        help=f"some of {sorted(PROPERTIES)}",
    )
    parser.add_argument("--replay", type=pathlib.Path, metavar="CASE.json", help="run one saved case again")
    options = parser.parse_args(arguments)
    if not options.seconds > 0:
        parser.error(f"--seconds {options.seconds:g}: more than 0 is accepted")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    faulthandler.enable()
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
    info = vkdml.default_device().info
    driver = f"{info.driver_name} {info.driver_info}"
    print(f"{info.name} ({info.type}), {driver}; NumPy {np.__version__}, Python {platform.python_version()}")
    if options.replay:
        return replay(options.replay)
    names = options.only or list(PROPERTIES)
    first = secrets.randbits(32) if options.seed is None else options.seed
    progress = Progress(options.seconds)
    running = Running()
    print(f"seed {first}, {options.seconds:g} s; after a crash, replay {running.path}", flush=True)
    seed = first
    while not progress.over():
        for name in names:
            found = failing_case(name, seed, progress, running)
            if found is None:
                continue
            case, error = found
            path = save(name, seed, case)
            running.close()
            traceback.print_exception(error)
            print(f"\nFAILED after {progress.cases} cases: {case}")
            print(f"saved:  {path} (and .npz)")
            print(f"replay: python tests/fuzz.py --replay {path}")
            print(f"again:  python tests/fuzz.py --only {name} --seed {seed}", flush=True)
            return 1
        seed += 1
    running.close()
    progress.say(seed)
    print(f"no failure in {progress.cases} cases, seeds {first} to {seed - 1}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
