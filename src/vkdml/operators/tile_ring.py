"""The ring of tiles: while devices work on some, the host copies the next."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vkdml.common.wording import is_left_as_raised, put_before
from vkdml.operators.progress import Report
from vkdml.operators.tile_jobs import TileJob
from vkdml.operators.tile_source import Copier
from vkdml.plan.plans import Plan
from vkdml.plan.tiles import Tile
from vkdml.runtime.device import Device
from vkdml.runtime.execution import Execution

# The smallest tile; if memory does not suffice for it, MemoryError is raised.
SMALLEST_TILE_BYTES = 1 << 20

AnyJob = TypeVar("AnyJob", bound=TileJob)


def run_in_tiles(make: Callable[[int], AnyJob], devices: Sequence[Device], report: Report) -> AnyJob:
    """Run a job in the largest tiles that memory allows; each attempt starts over."""
    devices = list(dict.fromkeys(devices))
    if not devices:
        raise ValueError("no device was given; accepted is at least one")
    tile_bytes = min(
        min(device.limits.tuning.stream_tile_bytes, device.limits.max_storage_buffer_range // 2)
        for device in devices
    )
    furthest = 0

    def report_progress(done: int, total: int) -> None:
        nonlocal furthest
        if done > furthest:  # not bytes that are processed again
            furthest = done
            report(done, total)

    with Copier() as copier:
        while True:
            job = make(tile_bytes)
            try:
                if len(devices) == 1 or job.reads_here:
                    _run_on_one(job, devices[0], copier, report_progress)
                else:
                    _run_on_several(job, devices, copier, report_progress)
                return job
            except MemoryError as error:
                if tile_bytes // 2 < SMALLEST_TILE_BYTES or is_left_as_raised(error):
                    raise
            finally:
                job.close()
            del job
            for device in devices:
                device.trim()
            tile_bytes //= 2


def _run_on_one(job: TileJob, device: Device, copier: Copier, report: Report) -> None:
    total = math.prod(job.tiling.sizes) * job.itemsize
    done = 0

    def count(tile: Tile) -> None:
        nonlocal done
        done += tile.count * job.itemsize
        report(done, total)

    _work(job, device, iter(job.tiling), copier, count)


def _run_on_several(job: TileJob, devices: Sequence[Device], copier: Copier, report: Report) -> None:
    """A thread for each device; all of them draw from one queue of tiles, so that faster ones take more."""
    stop = threading.Event()
    lock = threading.Lock()
    queued = iter(job.tiling)
    finished: queue.SimpleQueue[Tile | None] = queue.SimpleQueue()  # None: a thread has ended
    faults: list[tuple[Device, BaseException]] = []

    def tiles() -> Iterator[Tile]:
        while not stop.is_set():
            with lock:
                tile = next(queued, None)
            if tile is None:
                return
            yield tile

    def work(device: Device) -> None:
        try:
            _work(job, device, tiles(), copier, finished.put)
        except BaseException as error:
            faults.append((device, error))
            stop.set()
        finally:
            finished.put(None)

    threads = [
        threading.Thread(target=work, args=(device,), name=f"vkdml {device.name}", daemon=True)
        for device in devices
    ]
    total = math.prod(job.tiling.sizes) * job.itemsize
    done = 0
    started: list[threading.Thread] = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        at_work = len(started)
        while at_work:
            tile = finished.get()
            if tile is None:
                at_work -= 1
                continue
            done += tile.count * job.itemsize
            report(done, total)
    finally:
        stop.set()
        for thread in started:
            thread.join()
    if faults:
        device, error = faults[0]
        put_before(error, repr(device))
        try:
            raise error
        finally:
            del error, faults  # else the error would refer to itself, and keep what its frames hold


def _work(
    job: TileJob,
    device: Device,
    tiles: Iterator[Tile],
    copier: Copier,
    count: Callable[[Tile], object],
) -> None:
    """Take tiles until there are none: while the device works on one, the next is copied for it."""
    ring = Ring(device)
    try:
        while True:
            tile = next(tiles, None)
            slot = None
            if tile is not None:
                slot = ring.slot(job.plan(tile.sizes, device.limits), tile)
                job.stage(tile, slot.execution.views, copier)
            done = ring.advance(slot)
            if done is not None:
                job.collect(done.tile, done.execution.views, copier)
                ring.free(done)
                count(done.tile)
            if tile is None:
                break
        ring.give_back()
    finally:
        ring.drop()


@dataclass
class Slot:
    """An execution of the ring, and the tile it holds."""

    plan: Plan
    execution: Execution
    tile: Tile


class Ring:
    """The executions of one device, used in turn."""

    def __init__(self, device: Device) -> None:
        self._executions = device.executions
        self._running: Slot | None = None
        self._idle: list[Slot] = []

    def slot(self, plan: Plan, tile: Tile) -> Slot:
        """Return a slot for a tile, with an execution that nothing uses."""
        if self._idle and self._idle[-1].plan != plan:
            self.give_back()
        if self._idle:
            slot = self._idle.pop()
            slot.tile = tile
            return slot
        return Slot(plan, self._executions.take(plan), tile)

    def advance(self, slot: Slot | None) -> Slot | None:
        """Wait for the running slot, start the given one, and return the finished one."""
        done = self._running
        if done is not None:
            done.execution.wait()
        self._running = None
        if slot is not None:
            slot.execution.submit()
            self._running = slot
        return done

    def free(self, slot: Slot) -> None:
        self._idle.append(slot)

    def give_back(self) -> None:
        """Keep idle executions for another call."""
        while self._idle:
            slot = self._idle.pop()
            self._executions.give_back(slot.plan, slot.execution)

    def drop(self) -> None:
        """Forget all, what runs only when it is done."""
        running, self._running = self._running, None
        self._idle.clear()
        if running is not None:
            with contextlib.suppress(Exception):  # the error that led here is the one to report
                running.execution.wait()
