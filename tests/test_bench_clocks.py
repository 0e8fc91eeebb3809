"""A GPU's clocks during a run: a device whose clocks fall while it waits, without a device."""

from __future__ import annotations

import threading

import pytest

from vkdml.bench import clocks
from vkdml.bench.clocks import Clocks
from vkdml.measuring import Reading

SLOW = 6.0


class Gpu:
    """Waits, and its clocks fall; works, and they rise after a while. Its time is its own."""

    rises_after = 0.4

    def __init__(self) -> None:
        self.time = 100.0
        self.worked = self.rises_after
        self.runs = 0

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += seconds
        self.worked = 0.0 if seconds > 1 else self.worked

    def work(self, seconds: float = 0.002) -> float:
        """Return the nanoseconds that work takes; so many seconds at full clocks."""
        took = seconds * (1.0 if self.worked >= self.rises_after else SLOW)
        self.worked += took
        self.time += took
        self.runs += 1
        return took * 1e9

    def reading(self, seconds: float = 0.01, high: float = 1.0) -> Reading:
        took = self.work(seconds)
        return Reading(took, took, took * high, 30, {}, {})


@pytest.fixture
def gpu():
    return Gpu()


@pytest.fixture
def up(gpu):
    made = Clocks(gpu.work, gpu.now)
    made.raise_again()
    return made


def test_clocks_that_have_fallen_are_raised_however_long_that_takes(gpu, up):
    gpu.wait(3.0)
    start = gpu.time
    up.raise_again()
    assert gpu.time - start >= gpu.rises_after > clocks.WARM_SECONDS
    assert gpu.work() == 2e6
    assert up.are_up()


def test_a_run_begins_with_enough_work_to_know_the_best_time(gpu):
    gpu.wait(3.0)
    Clocks(gpu.work, gpu.now).raise_again()
    assert gpu.work() == 2e6


def test_a_short_pause_needs_as_much_work_and_a_long_one_a_quarter_of_a_second(gpu, up):
    gpu.wait(0.05)
    start = gpu.time
    up.raise_again()
    assert gpu.time - start == pytest.approx(0.05, abs=0.003)
    gpu.wait(0.9)
    start = gpu.time
    up.raise_again()
    assert gpu.time - start == pytest.approx(clocks.WARM_SECONDS, abs=0.003)
    start = gpu.time
    up.raise_again()
    assert gpu.time - start < 0.003, "the device has just been busy"


def test_a_device_that_stays_slower_is_not_waited_for_again_and_again(gpu, up):
    gpu.rises_after = float("inf")
    gpu.worked = 0.0
    start = gpu.time
    up.raise_again()
    assert gpu.time - start == pytest.approx(clocks.PATIENCE_SECONDS, abs=0.02)
    start = gpu.time
    up.raise_again()
    assert gpu.time - start < 0.02
    assert up.are_up()


def test_readings_at_low_clocks_are_taken_again_and_said(gpu, up):
    def read():
        if gpu.runs < 10_000:
            gpu.runs = 10_000
            gpu.wait(3.0)
        else:
            up.raise_again()
        return gpu.reading()

    reading, discarded = up.steady(read)
    assert reading.median_ns == 1e7
    assert discarded == [SLOW * 1e7]


def test_readings_that_spread_are_taken_again_once(gpu, up):
    taken = []

    def read():
        taken.append(gpu.reading(high=1.2))
        return taken[-1]

    reading, discarded = up.steady(read)
    assert len(taken) == 2
    assert reading is taken[1]
    assert discarded == [taken[0].median_ns]
    calm = gpu.reading(high=1.05)
    assert up.steady(lambda: calm) == (calm, [])


@pytest.mark.parametrize(("slower", "again"), [(1.2, False), (1.3, True)])
def test_a_device_at_its_limit_of_power_is_as_fast_as_it_is(slower, again):
    times = iter([1e6] * 2000 + [slower * 1e6] * 1000)
    made = Clocks(lambda: next(times), iter(range(10_000)).__next__)
    for _ in range(2000):
        made.are_up()
    calm = Reading(5.0, 5.0, 5.0, 30, {}, {})
    assert made.steady(lambda: calm) == (calm, [5.0] * clocks.MOST_AGAIN if again else [])


def test_readings_are_not_taken_again_for_ever(gpu, up):
    taken = []

    def read():
        gpu.wait(3.0)
        taken.append(gpu.reading())
        return taken[-1]

    reading, discarded = up.steady(read)
    assert len(taken) == 1 + clocks.MOST_AGAIN
    assert reading is taken[-1]
    assert len(discarded) == clocks.MOST_AGAIN


def test_the_device_works_while_the_host_computes():
    runs = []
    enough = threading.Event()

    def reference():
        runs.append(1)
        if len(runs) == 5:
            enough.set()
        return 1.0

    made = Clocks(reference)
    assert made.busy_while(lambda: enough.wait(20)) is True
    assert len(runs) >= 5
    with pytest.raises(ZeroDivisionError):
        made.busy_while(lambda: 1 // 0)


def test_a_processor_has_no_clocks_to_raise(gpu):
    made = Clocks(None, gpu.now)
    made.raise_again()
    assert made.are_up()
    assert made.busy_while(threading.get_ident) == threading.get_ident()
    spread = gpu.reading(high=3.0)
    assert made.steady(lambda: spread) == (spread, [])
    assert gpu.runs == 1


def test_the_reference_is_timed_on_the_device(device, monkeypatch):
    monkeypatch.setattr(clocks, "_REFERENCE", clocks.Case("reference", "argmax", "int8", (64, 256), (1,)))
    monkeypatch.setattr(clocks, "_MOST_RUNS", 2)
    assert (clocks.clocks_of(device)._reference is None) == (device.info.type == "software")
    made = clocks.reference_clocks(device)
    assert made._reference() > 0
    assert made._reference() > 0
