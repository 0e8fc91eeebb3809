"""Host arrays of any size through a ring of tiles: while devices work on some, the host copies the next."""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from vkdml.arrays import host
from vkdml.arrays.fold import Order
from vkdml.plan.cache import argreduce_plan, slice1_plan
from vkdml.plan.layout import row_major_strides
from vkdml.plan.plans import DeviceLimits, Element, Plan
from vkdml.plan.tiles import Tile, Tiling, memory_order, tile_copy, tile_reduction
from vkdml.runtime.device import Device
from vkdml.runtime.execution import Execution
from vkdml.runtime.host_memory import copy_bytes

AnyArray = npt.NDArray[Any]
Views = Mapping[str, npt.NDArray[np.uint8]]
Report = Callable[[int, int], object]
Progress = bool | Report | None

# Tiles are not made smaller than this before memory is said to be short.
SMALLEST_TILE_BYTES = 1 << 20
# A copy of less is not worth sharing out to threads.
SHARED_COPY_BYTES = 4 << 20
MOST_COPY_THREADS = 8
# Bits as NumPy copies them: no NaN is quieted, and no interpreter lock is held.
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def wanted(buffers: Iterable[int], limits: DeviceLimits) -> bool:
    """Tell whether a call on host arrays goes in tiles, by the bytes of each buffer that it would need.

    >>> wanted([1 << 40, 8], vkdml.default_device().limits)
    True
    """
    largest = max(buffers)
    return largest >= limits.tuning.stream_from_bytes or largest > limits.max_storage_buffer_range


def reduce(
    x: AnyArray,
    axes: tuple[int, ...],
    *,
    element: Element,
    take_min: bool,
    take_last: bool,
    omit_nan: bool,
    with_values: bool,
    devices: Sequence[Device],
    progress: Progress = None,
) -> tuple[AnyArray, AnyArray | None]:
    """Return indices, and values if wanted, of the greatest or least elements along ``axes``.

    >>> x = np.array([[1, 5, 5], [7, 2, 7]], np.int16)
    >>> order = {"take_min": False, "take_last": True, "omit_nan": False}
    >>> devices = [vkdml.default_device()]
    >>> reduce(x, (1,), element=Element("int16", 2), **order, with_values=True, devices=devices)
    (array([[2],
           [2]]), array([[5],
           [7]], dtype=int16))

    Args:
        x: of any shape without a 0, any strides and either byte order.
        axes: to reduce: distinct, ascending, not negative.
        element: the kernels' element type, of ``x.dtype``.
        take_min: argmin, not argmax.
        take_last: the last of equals, not the first.
        omit_nan: NaNs lose to everything instead of beating it.
        with_values: return the chosen elements too.
        devices: that share the work.
        progress: called as ``progress(done, total)`` in bytes, by the calling thread, after each tile; True
            draws a bar on standard error.

    Returns:
        Fresh arrays of the shape of ``x`` with the reduced axes kept as 1: int64 indices (uint64 where int64
        cannot count the elements), and values in the machine's byte order or None.

    Raises:
        MemoryError: tiles of a mebibyte, or the result, are too much.
        DeviceError: a device failed; with several, the message names it.
        ImportError: ``progress=True`` without rich.
    """
    order = Order(element.name, take_min, take_last, omit_nan)

    with _reporting(progress) as report:
        return _stream(
            lambda tile_bytes: _Reduction(x, axes, element, order, with_values, tile_bytes), devices, report
        ).result()


def copy(x: AnyArray, *, devices: Sequence[Device], progress: Progress = None) -> AnyArray:
    """Return a compact copy of a strided array whose elements have 1, 2, 4, 8 or 16 bytes, bit for bit.

    >>> copy(np.arange(6).reshape(2, 3)[::-1, ::2], devices=[vkdml.default_device()])
    array([[3, 5],
           [0, 2]])

    Args:
        x: of any shape without a 0 and any strides: slice1's window, its steps taken by indexing.
        devices: that share the work.
        progress: as for :func:`reduce`.

    Returns:
        A fresh array of the shape and dtype of ``x``.

    Raises:
        MemoryError, DeviceError, ImportError: as :func:`reduce`.
    """
    with _reporting(progress) as report:
        return _stream(lambda tile_bytes: _Copy(x, tile_bytes), devices, report).target


# ---- tiles of an array -------------------------------------------------------------------------------------


class _Source:
    """An array whose boxes are copied to staging memory: compact, in the order in which memory has them."""

    def __init__(self, x: AnyArray) -> None:
        self._file = _MappedFile.behind(x)
        x = np.asarray(x)
        # Repeated elements are taken once, and dimensions of size 1 may have any stride.
        self.single = tuple(size == 1 or s == 0 for size, s in zip(x.shape, x.strides, strict=True))
        once = (*(slice(1) if single else slice(None) for single in self.single), ...)
        x = x[once]
        strides = tuple(0 if single else s for single, s in zip(self.single, x.strides, strict=True))
        self.sizes = x.shape
        self.byte_strides = strides
        self.itemsize = x.itemsize
        self.order = memory_order(strides)
        ascending = (*(slice(None, None, -1) if s < 0 else slice(None) for s in strides), ...)
        self._bits = np.dtype(BITS[x.itemsize])
        # Bytes in the other order are turned round while they are copied, as those of integers.
        as_they_lie = self._bits if x.dtype.isnative else self._bits.newbyteorder("S")
        self._upright = x[ascending].view(as_they_lie).transpose(self.order)

    def staged(self, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Return how a box of these sizes lies in staging memory: strides in elements, and its base."""
        strides = [0] * len(sizes)
        base = 0
        stride = 1
        for dim in reversed(self.order):
            if self.single[dim]:
                continue
            strides[dim] = stride
            if self.byte_strides[dim] < 0:
                strides[dim] = -stride
                base += (sizes[dim] - 1) * stride
            stride *= sizes[dim]
        return tuple(strides), base

    def stage(self, tile: Tile, target: npt.NDArray[np.uint8], copier: _Copier) -> None:
        """Copy a box to staging memory."""
        inside = (*(self._slice(dim, tile) for dim in self.order), ...)
        box = self._upright[inside]
        staged = _first(target, box.size, self._bits).reshape(box.shape)
        copier.copy(staged, box)
        if self._file is not None:
            self._file.drop(box)

    def _slice(self, dim: int, tile: Tile) -> slice:
        if self.single[dim]:
            return slice(1)
        start, size = tile.start[dim], tile.sizes[dim]
        if self.byte_strides[dim] < 0:
            start = self.sizes[dim] - start - size
        return slice(start, start + size)


def _first(raw: npt.NDArray[np.uint8], count: int, dtype: np.dtype[Any]) -> AnyArray:
    return raw[: count * dtype.itemsize].view(dtype)


class _Copier:
    """Copies in host memory, large ones with several threads."""

    def __init__(self) -> None:
        self._threads = min(os.cpu_count() or 1, MOST_COPY_THREADS)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> _Copier:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def copy(self, target: AnyArray, source: AnyArray) -> None:
        """Copy elements of one type and shape, in either byte order."""
        if target.nbytes < SHARED_COPY_BYTES or self._threads == 1:
            np.copyto(target, source)
        elif source.dtype.isnative and source.flags.c_contiguous and target.flags.c_contiguous:
            copy_bytes(target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8))
        else:
            self._share_out(target, source)

    def _share_out(self, target: AnyArray, source: AnyArray) -> None:
        axis = next((axis for axis, size in enumerate(source.shape) if size >= self._threads), None)
        if axis is None:
            axis = int(np.argmax(source.shape))
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads - 1, "vkdml copy")
        bounds = [source.shape[axis] * part // self._threads for part in range(self._threads + 1)]
        parts = [(slice(None),) * axis + (slice(low, high),) for low, high in itertools.pairwise(bounds)]
        others = [self._pool.submit(np.copyto, target[part], source[part]) for part in parts[1:]]
        np.copyto(target[parts[0]], source[parts[0]])
        for other in others:
            other.result()


class _MappedFile:
    """The mapping behind a ``numpy.memmap``, whose pages go back to the system once they were read.

    They stay in the system's cache as long as it has room for them, but count for this process no more.
    Private mappings are left alone: written pages of theirs exist nowhere else.
    """

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._address = np.frombuffer(mapping, np.uint8).ctypes.data

    @classmethod
    def behind(cls, x: AnyArray) -> _MappedFile | None:
        owner: Any = x
        while owner is not None:
            mapping = getattr(owner, "_mmap", None)
            if isinstance(owner, np.memmap) and isinstance(mapping, mmap.mmap):
                shared = owner.mode in ("r", "r+", "w+") and hasattr(mmap, "MADV_DONTNEED")
                return cls(mapping) if shared else None
            owner = getattr(owner, "base", None)
        return None

    def drop(self, box: AnyArray) -> None:
        """Give back the whole pages that a box with positive strides spans."""
        low = box.__array_interface__["data"][0] - self._address
        reach = sum((size - 1) * stride for size, stride in zip(box.shape, box.strides, strict=True))
        first = -(-low // mmap.PAGESIZE) * mmap.PAGESIZE
        last = (low + reach + box.itemsize) // mmap.PAGESIZE * mmap.PAGESIZE
        if 0 <= first < last:
            with contextlib.suppress(OSError, ValueError):  # locked pages, or a mapping closed meanwhile
                self._mapping.madvise(mmap.MADV_DONTNEED, first, last - first)


# ---- what is done with tiles -------------------------------------------------------------------------------


class _Job(Protocol):
    """An operation in tiles. Several threads may stage and collect at a time."""

    tiling: Tiling

    @property
    def itemsize(self) -> int: ...

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan: ...

    def stage(self, tile: Tile, views: Views, copier: _Copier) -> None: ...

    def collect(self, tile: Tile, views: Views, copier: _Copier) -> None: ...


_AnyJob = TypeVar("_AnyJob", bound=_Job)


class _Reduction:
    """argmin or argmax in tiles: the best candidates so far, and what each tile adds to them."""

    def __init__(
        self,
        x: AnyArray,
        axes: tuple[int, ...],
        element: Element,
        order: Order,
        with_values: bool,
        tile_bytes: int,
    ) -> None:
        self._source = source = _Source(x)
        self._axes, self._element, self._order = axes, element, order
        self._with_values = with_values
        self._dtype = x.dtype.newbyteorder("=")
        self._kept_shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        reduced_shape = tuple(size if axis in axes else 1 for axis, size in enumerate(x.shape))
        self._weights = row_major_strides(reduced_shape)
        # Along a stride of 0 all elements are one and the same: the first or the last is taken.
        self._repeated = sum(
            (reduced_shape[axis] - 1) * self._weights[axis]
            for axis in axes
            if source.single[axis] and order.take_last
        )
        self._index_dtype = np.dtype(np.uint32 if math.prod(reduced_shape) <= 1 << 32 else np.uint64)
        self.tiling = tile_reduction(source.sizes, source.byte_strides, source.itemsize, axes, tile_bytes)
        self._folds = self.tiling.cuts(axes)
        self._met: set[tuple[int, ...]] = set()
        self._lock = threading.Lock()
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(source.sizes))
        self._indices = host.empty(shape, np.uint64)
        self._bits = host.empty(shape, BITS[source.itemsize]) if with_values or self._folds else None

    @property
    def itemsize(self) -> int:
        return self._source.itemsize

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan:
        strides, base = self._source.staged(sizes)
        kept = tuple(1 if axis in self._axes else size for axis, size in enumerate(sizes))
        return argreduce_plan(
            sizes,
            strides,
            base,
            math.prod(sizes),
            self._axes,
            row_major_strides(kept),
            self._element,
            self._order.take_min,
            self._order.take_last,
            self._order.omit_nan,
            self._index_dtype.itemsize,
            self._bits is not None,
            limits,
            index_weights=self._weights,
        )

    def stage(self, tile: Tile, views: Views, copier: _Copier) -> None:
        self._source.stage(tile, views["input"], copier)

    def collect(self, tile: Tile, views: Views, copier: _Copier) -> None:
        kept = Tile(
            tuple(0 if axis in self._axes else begin for axis, begin in enumerate(tile.start)),
            tuple(1 if axis in self._axes else size for axis, size in enumerate(tile.sizes)),
        )
        origin = sum(tile.start[axis] * self._weights[axis] for axis in self._axes)
        shape, outputs, cell = kept.sizes, kept.count, kept.slices
        found = (
            views["indices"][: outputs * self._index_dtype.itemsize].view(self._index_dtype).reshape(shape)
        )
        bits = None
        if self._bits is not None:
            bits = _first(views["values"], outputs, self._bits.dtype).reshape(shape)
        if not self._folds:
            self._put(cell, found, origin, bits)
            return
        with self._lock:
            if kept.start not in self._met:
                self._met.add(kept.start)
                self._put(cell, found, origin, bits)
            elif bits is not None and self._bits is not None:
                indices = found + np.uint64(origin)
                self._order.fold(self._bits[cell], self._indices[cell], bits, indices)

    def _put(self, cell: tuple[Any, ...], found: AnyArray, origin: int, bits: AnyArray | None) -> None:
        np.add(found, np.uint64(origin), out=self._indices[cell])
        if bits is not None and self._bits is not None:
            self._bits[cell] = bits

    def result(self) -> tuple[AnyArray, AnyArray | None]:
        indices: AnyArray = self._indices
        if self._repeated:
            indices += np.uint64(self._repeated)
        values = None
        if self._with_values and self._bits is not None:
            values = _repeated(self._bits, self._kept_shape).view(self._dtype)
        return _repeated(indices.view(np.int64), self._kept_shape), values


def _repeated(x: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    if x.shape == shape:
        return x
    repeated = host.empty(shape, x.dtype)
    repeated[...] = x
    return repeated


class _Copy:
    """slice1 in tiles."""

    def __init__(self, x: AnyArray, tile_bytes: int) -> None:
        bits = BITS[x.itemsize]
        self._source = _Source(x.view(bits))
        self.tiling = tile_copy(x.shape, self._source.byte_strides, x.itemsize, tile_bytes)
        self.target = host.empty(x.shape, x.dtype)
        self._target_bits: AnyArray = self.target.view(bits)

    @property
    def itemsize(self) -> int:
        return self.target.itemsize

    def plan(self, sizes: tuple[int, ...], limits: DeviceLimits) -> Plan:
        strides, base = self._source.staged(sizes)
        staged = math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride)
        return slice1_plan(sizes, strides, base, staged, row_major_strides(sizes), self.itemsize, limits)

    def stage(self, tile: Tile, views: Views, copier: _Copier) -> None:
        self._source.stage(tile, views["input"], copier)

    def collect(self, tile: Tile, views: Views, copier: _Copier) -> None:
        target = self._target_bits[tile.slices]
        copier.copy(target, _first(views["output"], target.size, target.dtype).reshape(target.shape))


# ---- the ring ----------------------------------------------------------------------------------------------


def _stream(make: Callable[[int], _AnyJob], devices: Sequence[Device], report: Report) -> _AnyJob:
    """Run a job in tiles as great as memory allows; each try starts afresh."""
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
        if done > furthest:  # not what is done again
            furthest = done
            report(done, total)

    with _Copier() as copier:
        while True:
            job = make(tile_bytes)
            try:
                if len(devices) == 1:
                    _run_on_one(job, devices[0], copier, report_progress)
                else:
                    _run_on_several(job, devices, copier, report_progress)
                return job
            except MemoryError:
                if tile_bytes // 2 < SMALLEST_TILE_BYTES:
                    raise
            del job
            for device in devices:
                device.trim()
            tile_bytes //= 2


def _run_on_one(job: _Job, device: Device, copier: _Copier, report: Report) -> None:
    total = math.prod(job.tiling.sizes) * job.itemsize
    done = 0

    def count(tile: Tile) -> None:
        nonlocal done
        done += tile.count * job.itemsize
        report(done, total)

    _work(job, device, iter(job.tiling), copier, count)


def _run_on_several(job: _Job, devices: Sequence[Device], copier: _Copier, report: Report) -> None:
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
        error.args = (f"{device!r}: {error}",)
        try:
            raise error
        finally:
            del error, faults  # or the error would hold itself, and with it what its frames hold


def _work(
    job: _Job,
    device: Device,
    tiles: Iterator[Tile],
    copier: _Copier,
    count: Callable[[Tile], object],
) -> None:
    """Take tiles until there are none: while the device works on one, the next is copied for it."""
    ring = _Ring(device)
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
class _Slot:
    """An execution of the ring, and the tile it holds."""

    plan: Plan
    execution: Execution
    tile: Tile


class _Ring:
    """The executions that one device takes turns at."""

    def __init__(self, device: Device) -> None:
        self._executions = device.executions
        self._running: _Slot | None = None
        self._idle: list[_Slot] = []

    def slot(self, plan: Plan, tile: Tile) -> _Slot:
        """Return a slot for a tile, with an execution that nothing uses."""
        if self._idle and self._idle[-1].plan != plan:
            self.give_back()
        if self._idle:
            slot = self._idle.pop()
            slot.tile = tile
            return slot
        return _Slot(plan, self._executions.take(plan), tile)

    def advance(self, slot: _Slot | None) -> _Slot | None:
        """Wait for the slot that runs, start the given one in its place, and return that which is done."""
        done = self._running
        if done is not None:
            done.execution.wait()
        self._running = None
        if slot is not None:
            slot.execution.submit()
            self._running = slot
        return done

    def free(self, slot: _Slot) -> None:
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
            with contextlib.suppress(Exception):  # the fault that led here is the one to report
                running.execution.wait()


# ---- progress ----------------------------------------------------------------------------------------------


def require_progress(progress: Any) -> None:
    """Raise TypeError for what is no ``progress=``."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(
            f"progress must be True, a function of (done, total) bytes, or None, not {progress!r}"
        )


def is_reported(progress: Progress) -> bool:
    """Tell whether ``progress=`` asks for reports."""
    return progress is not None and progress is not False


def report_all(progress: Progress, total: int) -> None:
    """Report so many bytes done at once, where no tile is needed for them."""
    if is_reported(progress):
        with _reporting(progress) as report:
            report(total, total)


@contextlib.contextmanager
def _reporting(progress: Progress) -> Iterator[Report]:
    """Yield what is to be called with (done, total) bytes."""
    require_progress(progress)
    if progress is True:
        with _bar() as report:
            yield report
    elif callable(progress):
        yield progress
    else:
        yield lambda done, total: None


@contextlib.contextmanager
def _bar() -> Iterator[Report]:
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
    except ImportError as error:
        raise ImportError(
            "progress=True draws its bar with rich, which is not installed: pip install vkdml[cli]",
            name=error.name,
        ) from None
    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
