"""Which device a task runs on: the workers of one host take its devices in turn."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import sys
import threading
import weakref
from typing import Any

from vkdml.runtime.device import Device, default_is_chosen
from vkdml.runtime.device_info import devices, select

RESOURCE = "VKDML_DEVICE"
"""The resource of a Dask worker that holds the number of its device."""
PLACES = "VKDML_DASK_PLACES"
"""Environment variable: workers with one value take devices in turn; by default those of one user."""

Selector = int | str | list[int | str] | tuple[int | str, ...] | None


def require_portable(device: Any) -> Any:
    """Return ``device=`` if every worker can look it up: a number, a name, a UUID, or a list of them.

    Raises:
        TypeError: it is, or contains, an open device of this process.
    """
    for one in device if isinstance(device, list | tuple) else (device,):
        if isinstance(one, Device):
            raise TypeError(
                f"device={one!r} is open in this process, and tasks run in others; accepted are a number, a "
                "name or a UUID, which each worker looks up, and None: workers take the devices in turn"
            )
    return device


def device_of_task(asked: Selector) -> Any:
    """Return what ``device=`` is to be in the task that calls this.

    It is ``device=`` of the user; else the default that this process has from ``set_default_device`` or
    ``VKDML_DEVICE``; else the number that the worker has as its resource; else workers take devices in turn.
    A process that is no worker has the default device.
    """
    if asked is not None or default_is_chosen():
        return asked
    worker = _worker()
    if worker is None:
        return None
    number = _resource(worker)
    return _turns.device_of(worker) if number is None else number


def _worker() -> Any:
    """Return the Dask worker whose task this is, or None."""
    module = sys.modules.get("distributed.worker")
    if module is None:
        return None
    try:
        return module.get_worker()
    except ValueError:
        return None


def _resource(worker: Any) -> int | None:
    number = worker.state.total_resources.get(RESOURCE)
    if number is None:
        return None
    if number != int(number):
        raise ValueError(
            f"the worker's resource {RESOURCE} is {number}; accepted is the number of a device, as "
            "vkdml.devices() counts them"
        )
    return int(number)


class _Turns:
    """Places of the workers on this host; a place is held by a name that ends with its process."""

    def __init__(self) -> None:
        self._chosen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()  # the tasks of one worker run in several threads

    def device_of(self, worker: Any) -> int:
        """Return the number of the device that this worker has, always the same."""
        with self._lock:
            number = self._chosen.get(worker)
            if number is None:
                number = self._chosen[worker] = device_of_place(_taken_place(worker))
            return number


_turns = _Turns()


def device_of_place(place: int) -> int:
    """Return the number of the device for a worker's place: in turn those of the best device's type."""
    infos = devices()
    best = select(None, infos)
    alike = [info.index for info in infos if info.type == best.type and bool(info.heaps) == bool(best.heaps)]
    return alike[place % len(alike)]


def _taken_place(worker: Any) -> int:
    """Take the first place that no living worker of this user on this host has.

    The place of a worker that ended, however it did, is free for the one that replaces it: the kernel frees
    the name of a socket with its process. Names that begin with a null byte are in no file system.
    """
    for place in itertools.count():
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(f"\0vkdml-dask-{os.environ.get(PLACES, os.getuid())}-{place}")
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            weakref.finalize(worker, held.close)
            return place
    raise AssertionError("unreachable")


__all__ = ["RESOURCE", "Selector", "device_of_place", "device_of_task", "require_portable"]
