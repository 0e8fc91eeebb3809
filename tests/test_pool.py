"""The pool of things that wait: bounds, order, threads, and Ctrl-C between any two lines."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any
from weakref import ref

import pytest

from vkdml.runtime import pool as pools
from vkdml.runtime.pool import Lender, Pool


class Thing:
    """What can be told apart, and seen to be gone."""


def contents(pool: Pool[Any, Any]) -> dict[Any, int]:
    """Return how many things wait under each key."""
    return {key: len(waiting) for key, waiting in pool._waiting.items() if waiting}


def held(pool: Pool[Any, Any]) -> tuple[int, int]:
    """Return how many things wait, and their bytes."""
    waiting = [nbytes for things in pool._waiting.values() for _, nbytes in things]
    return len(waiting), sum(waiting)


def test_a_thing_is_lent_to_one_at_a_time() -> None:
    pool: Pool[str, Thing] = Pool(10, 100)
    assert pool.take("a") is None
    first, second = Thing(), Thing()
    pool.put("a", first, 1)
    pool.put("a", second, 1)
    assert {pool.take("a"), pool.take("a")} == {first, second}
    assert pool.take("a") is None
    assert contents(pool) == {}


@pytest.mark.parametrize(("most", "most_bytes"), [(4, 1000), (1000, 40)])
def test_the_least_recently_used_go_first(most: int, most_bytes: int) -> None:
    pool: Pool[int, Thing] = Pool(most, most_bytes)
    for key in range(4):
        pool.put(key, Thing(), 10)
    used = pool.take(0)
    assert used is not None
    pool.put(0, used, 10)
    for key in (4, 5):
        pool.put(key, Thing(), 10)
    assert list(contents(pool)) == [3, 0, 4, 5]
    assert pool.take(0) is used


def test_all_that_is_needed_makes_room_for_a_large_thing_and_no_more() -> None:
    pool: Pool[int, Thing] = Pool(100, 100, 60)
    for key in range(10):
        pool.put(key, Thing(), 10)
    pool.put(10, Thing(), 55)
    assert contents(pool) == {6: 1, 7: 1, 8: 1, 9: 1, 10: 1}
    pool.put(11, Thing(), 61)  # larger than any may be: it displaces nothing
    assert contents(pool) == {6: 1, 7: 1, 8: 1, 9: 1, 10: 1}


@pytest.mark.parametrize("bounds", [(0, 100), (10, 0)])
def test_a_pool_without_room_keeps_nothing(bounds: tuple[int, int]) -> None:
    pool: Pool[int, Thing] = Pool(*bounds)
    pool.put(0, Thing(), 1)
    assert pool.take(0) is None


def test_things_without_bytes_are_counted() -> None:
    pool: Pool[None, Thing] = Pool(3, 0)
    for _ in range(5):
        pool.put(None, Thing(), 0)
    assert held(pool) == (3, 0)


def test_clearing_drops_everything_and_says_whether_there_was_anything() -> None:
    pool: Pool[int, Thing] = Pool(10, 100)
    assert not pool.clear()
    kept = Thing()
    gone = ref(kept)
    pool.put(0, kept, 1)
    del kept
    assert pool.clear()
    gc.collect()
    assert gone() is None
    assert not pool.clear()


def test_what_is_dropped_may_use_the_pool() -> None:
    """Destroying an execution can run anybody's code."""
    pool: Pool[int, Any] = Pool(1, 100)
    is_locked = []

    class Returning:
        def __del__(self) -> None:
            is_locked.append(pool._lock._is_owned())  # type: ignore[attr-defined]
            pool.take(7)

    for key in range(3):
        pool.put(key, Returning(), 1)
    pool.clear()
    assert is_locked == [False] * 3


def test_threads_share_it() -> None:
    pool: Pool[int, Thing] = Pool(16, 1000)
    lent: set[Thing] = set()
    faults: list[str] = []
    guard, start = threading.Lock(), threading.Barrier(8)

    def work(seed: int) -> None:
        start.wait()
        for number in range(2000):
            key = (seed + number) % 5
            thing = pool.take(key) or Thing()
            with guard:
                if thing in lent:
                    faults.append("lent twice")
                lent.add(thing)
            with guard:
                lent.discard(thing)
            pool.put(key, thing, 30)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert (pool._count, pool._bytes) == held(pool)
    assert 0 < held(pool)[0] <= 16


# ---- Ctrl-C ------------------------------------------------------------------------------------------------

LINES, FIRST = inspect.getsourcelines(pools)


def interrupting(number: int, happen: Callable[[], object]) -> tuple[Callable[..., Any], list[int]]:
    """Return a trace function under which something happens before the given line that the pool runs."""
    met: list[int] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != pools.__file__:
            return None
        # No signal comes in where a `with` is met again when it ends, before the lock is free, nor at `try`.
        words = LINES[frame.f_lineno - 1].split()
        if event == "line" and words[0] not in ("with", "try:"):
            met.append(frame.f_lineno)
            if len(met) == number:
                happen()
        return trace

    return trace, met


def busy(pool: Pool[int, Thing]) -> None:
    """Use every line of a pool of three things that is full."""
    pool.put(9, pool.take(0) or Thing(), 10)
    pool.put(1, Thing(), 10)
    pool.put(1, Thing(), 10)
    pool.take(1)
    pool.take(77)
    pool.clear()
    pool.put(5, Thing(), 10)


def filled() -> Pool[int, Thing]:
    pool: Pool[int, Thing] = Pool(3, 1000)
    for key in range(3):
        pool.put(key, Thing(), 10)
    return pool


def stop() -> None:
    raise KeyboardInterrupt


def lines_of(number: int, happen: Callable[[], object], pool: Pool[int, Thing]) -> list[int]:
    trace, met = interrupting(number, happen)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        busy(pool)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return met


def test_ctrl_c_between_any_two_lines_leaves_the_pool_within_its_bounds_and_usable() -> None:
    count = len(lines_of(0, stop, filled()))
    assert count > 60
    for number in range(1, count + 1):
        pool = filled()
        assert len(lines_of(number, stop, pool)) == number
        assert pool._count >= held(pool)[0], "totals that are too low would let it grow"
        assert pool._bytes >= held(pool)[1]
        # Another thread is neither locked out nor given what somebody has.
        taken: list[Thing | None] = []
        thread = threading.Thread(
            target=lambda pool=pool, taken=taken: taken.append(pool.take(2)), daemon=True
        )
        thread.start()
        thread.join(10)
        assert len(taken) == 1
        for key in range(20, 30):
            pool.put(key, Thing(), 10)
        assert list(contents(pool)) == [27, 28, 29], number
        assert (pool._count, pool._bytes) == held(pool)
        assert pool.clear()


def test_a_signal_handler_may_use_the_pool_between_any_two_lines() -> None:
    count = len(lines_of(0, stop, filled()))
    for number in range(1, count + 1):
        pool = filled()

        def handle(pool: Pool[int, Thing] = pool) -> None:
            sys.settrace(None)
            for key in (0, 1, 2, 5, 9):
                pool.take(key)
            pool.put(1, Thing(), 10)

        lines_of(number, handle, pool)
        for key in range(20, 30):
            pool.put(key, Thing(), 10)
        assert held(pool)[0] <= 4
        assert pool.take(29) is not None


# ---- lenders -----------------------------------------------------------------------------------------------


def test_what_is_borrowed_is_nobody_elses() -> None:
    pool: Pool[str, Thing] = Pool(10, 100)
    lenders = [Lender(pool, "a") for _ in range(2)]
    assert lenders[0].borrow() is None
    thing = Thing()
    pool.put("a", thing, 1)
    lent = lenders[0].borrow()
    assert lent == (thing, 1)
    assert lenders[1].borrow() is None
    assert pool.take("a") is None
    lenders[0].give_back((thing, 1))
    assert lenders[1].borrow() == (thing, 1)


@pytest.mark.parametrize("when", ["before", "while it is borrowed"])
def test_what_a_pool_gives_up_no_lender_keeps(when: str) -> None:
    pool: Pool[str, Thing] = Pool(10, 100)
    lender = Lender(pool, "a")
    thing = Thing()
    gone = ref(thing)
    pool.put("a", thing, 1)
    lent = lender.borrow()
    assert lent is not None
    del thing
    if when == "before":
        lender.give_back(lent)
        del lent
        assert pool.clear()
    else:
        pool.clear()
        lender.give_back(lent)
        del lent
        assert held(pool) == (1, 1)
        assert pool.clear()
    gc.collect()
    assert gone() is None
    assert lender.borrow() is None


def test_what_comes_back_late_is_counted() -> None:
    pool: Pool[str, Thing] = Pool(100, 50)
    lender = Lender(pool, "a")
    pool.put("a", Thing(), 40)
    lent = lender.borrow()
    assert lent is not None
    pool.put("b", Thing(), 40)  # over the bounds, as far as the pool knows: it counts anew
    assert held(pool) == (1, 40)
    lender.give_back(lent)
    assert held(pool) == (1, 40)
    assert contents(pool) == {"a": 1}


def test_what_lenders_use_goes_last() -> None:
    pool: Pool[str, Thing] = Pool(3, 100)
    for key in "abc":
        pool.put(key, Thing(), 1)
    lender = Lender(pool, "a")
    lent = lender.borrow()
    assert lent is not None
    lender.give_back(lent)
    pool.put("d", Thing(), 1)
    assert contents(pool) == {"a": 1, "c": 1, "d": 1}


def test_lenders_in_many_threads() -> None:
    pool: Pool[int, Thing] = Pool(4, 100)
    lender = Lender(pool, 0)
    users: dict[int, int] = {}
    faults = []

    def use(number: int) -> None:
        for _ in range(2000):
            lent = lender.borrow() or (Thing(), 1)
            if id(lent[0]) in users:
                faults.append(number)
            users[id(lent[0])] = number
            if number == 3:
                pool.put(1, Thing(), 60)
                pool.clear()
            del users[id(lent[0])]
            lender.give_back(lent)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert held(pool)[0] <= 4 + len(threads)
