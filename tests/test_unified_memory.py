"""Where device and host share memory, as on integrated GPUs and software drivers, nothing is copied twice.

What is counted: the bytes that the host copies, and those of the copies that are recorded for the device.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkdml
from vkdml.operators import on_host, one_piece, tile_source
from vkdml.runtime import device as runtime_device
from vkdml.runtime import memory
from vkdml.runtime.execution_cache import ExecutionCache

SHAPE = (64, 40_000)  # more than what a discrete device reads over the bus


class Counted:
    """A native sequence that counts what it is told to copy."""

    def __init__(self, native: Any, copied: Counter[str]) -> None:
        self._native, self._copied = native, copied

    def copy(self, source: Any, target: Any, nbytes: int, *offsets: int) -> None:
        self._copied["device"] += nbytes
        self._native.copy(source, target, nbytes, *offsets)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    count: Counter[str] = Counter()

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: Counted(method(*arguments), count)

    def copy_bytes(target: np.ndarray, source: np.ndarray) -> None:
        count["host"] += target.nbytes
        target[...] = source

    for name in ("sequence", "take_sequence"):
        monkeypatch.setattr(ExecutionCache, name, counting(getattr(ExecutionCache, name)))
    for module in (on_host, one_piece, memory, tile_source):
        monkeypatch.setattr(module, "copy_bytes", copy_bytes)
    return count


def device_of(unified: bool) -> vkdml.Device:
    """The default device, said to share its memory with the host or not."""
    info = vkdml.default_device().info
    return runtime_device.open_device(dataclasses.replace(info, unified_memory=unified))


def read(device: vkdml.Device, host: np.ndarray) -> dict[str, int]:
    """What is copied of an array that comes from a device."""
    if device.info.unified_memory:
        return {"host": host.nbytes}
    return {"host": host.nbytes, "device": host.nbytes}


def written(device: vkdml.Device, host: np.ndarray) -> dict[str, int]:
    """The same of one that goes there: the device's memory may be mapped, though it is its own."""
    return {"host": host.nbytes} if device.executions.maps(host.nbytes) else read(device, host)


def of_a_call(device: vkdml.Device, host: np.ndarray, result: np.ndarray) -> Counter[str]:
    """What a call on a host array copies: nothing where the device reads and writes it where it lies."""
    if device.executions.imports(host.nbytes):
        return Counter()
    return Counter(written(device, host)) + Counter(read(device, result))


@pytest.fixture
def host() -> np.ndarray:
    return np.random.default_rng(3).normal(size=SHAPE).astype(np.float32)


@pytest.mark.parametrize("unified", [True, False], ids=["unified", "discrete"])
def test_a_reduction_copies_its_input_and_its_result_once_at_most(copied, host, unified):
    device = device_of(unified)
    found = vkdml.argmax(host, axis=1, device=device)
    assert (found == host.argmax(axis=1)).all()
    assert copied == of_a_call(device, host, found)


@pytest.mark.parametrize("unified", [True, False], ids=["unified", "discrete"])
def test_a_window_copies_its_input_and_its_result_once_at_most(copied, host, unified):
    device = device_of(unified)
    window = vkdml.slice1(host, (0, 0), SHAPE, (1, -1), device=device)
    assert (window == host[:, ::-1]).all()
    assert copied == of_a_call(device, host, window)


@pytest.mark.parametrize("unified", [True, False], ids=["unified", "discrete"])
def test_an_array_is_copied_once_each_way_and_calls_on_it_copy_nothing(copied, host, unified):
    device = device_of(unified)
    array = vkdml.asarray(host, device=device)
    assert copied == written(device, host)
    copied.clear()
    found = vkdml.argmax(array, axis=1)
    window = array[::-1, 1:]
    vkdml.argmin(window, axis=0)
    assert not copied
    assert (found.numpy() == host.argmax(axis=1)).all()
    copied.clear()
    assert (array.numpy() == host).all()
    assert copied == read(device, host)


def test_a_view_on_the_host_sends_no_more_than_its_bytes(copied, host):
    """Transposed and mirrored arrays are read as they lie: no compact copy is made first."""
    device = device_of(True)
    found = vkdml.argmax(host.T[::-1], axis=0, device=device)
    assert (found == host.T[::-1].argmax(axis=0)).all()
    assert copied == of_a_call(device, host, found)
