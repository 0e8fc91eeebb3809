"""A mapping that keeps its newest entries."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from vkdml.common.newest import Newest


def test_the_oldest_values_are_dropped():
    newest: Newest[str] = Newest(3)
    for number in range(5):
        newest[number] = str(number)
    newest[4] = "4"
    assert len(newest) == 3
    assert [newest.get(number) for number in range(5)] == [None, None, "2", "3", "4"]
    newest.clear()
    assert len(newest) == 0
    assert newest.get(4) is None


def test_threads_share_the_values():
    newest: Newest[str] = Newest(8)
    faults = []
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            newest.clear()

    def use(first):
        for number in range(first, first + 5000):
            newest[number % 20] = str(number % 20)
            found = newest.get(number % 20)
            if found is not None and found != str(number % 20):
                faults.append(found)

    other = threading.Thread(target=disturb)
    other.start()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(use, range(3)))
    stop.set()
    other.join()
    assert not faults
    assert len(newest) <= 8
