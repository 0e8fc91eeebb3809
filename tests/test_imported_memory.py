"""Arrays of the host that a software device reads and writes where they lie: results, bytes about them, life.

SwiftShader does not do it, and everything is copied there: the results must be the same.
"""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest
from native_work import HOST, rows_plan
from separate import separate_device

import vkdml
from vkdml import _native
from vkdml.operators import one_piece
from vkdml.runtime.execution_cache import IMPORTED_BYTES
from vkdml.runtime.imported_memory import region_around, result_region
from vkdml.runtime.rebindable import Rebindable

ROWS = 1024
TYPES = ("float32", "float16", "int8", "uint64", "bool")


@pytest.fixture
def device() -> vkdml.Device:
    return separate_device()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of the arrays that calls took where they lie."""
    nbytes: list[int] = []

    def region(executions: Any, content: np.ndarray) -> Any:
        found = region_around(executions, content)
        if found is not None:
            nbytes.append(content.nbytes)
        return found

    monkeypatch.setattr(one_piece, "region_around", region)
    return nbytes


def array_of(dtype: str, length: int, *, offset: int = 0) -> np.ndarray:
    """A matrix of just more than is worth it, which begins ``offset`` bytes after a multiple of 4096."""
    element = np.dtype(dtype)
    nbytes = ROWS * length * element.itemsize
    around = np.random.default_rng(length).integers(0, 2, nbytes + 3 * 4096, np.uint8)
    begin = -around.ctypes.data % 4096 + offset
    content = around[begin : begin + nbytes]
    if element.kind != "b":
        numbers = np.random.default_rng(length + 1).integers(-100, 100, ROWS * length)
        content[:] = numbers.astype(dtype).view(np.uint8)
    return content.view(element).reshape(ROWS, length)


def taken_bytes(x: np.ndarray, device: vkdml.Device) -> list[int]:
    """What a call on it takes where it lies, and does not copy."""
    return [x.nbytes] if device.executions.imports(x.nbytes) else []


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("axis", "offset"), [(None, 0), (0, 48), (1, 4096 - 16), (None, 8), (0, 4088), (1, 24)]
)
def test_reductions(device, taken, dtype, axis, offset):
    x = array_of(dtype, 1 + IMPORTED_BYTES // ROWS // np.dtype(dtype).itemsize, offset=offset)
    before = x.copy()
    x.flags.writeable = False
    found, values = vkdml.argmax(x, axis=axis, return_values=True, device=device)
    assert np.array_equal(found, x.argmax(axis=axis))
    assert np.array_equal(values, x.max(axis=axis))
    assert np.array_equal(x, before)
    assert taken == taken_bytes(x, device)


@pytest.mark.parametrize("dtype", TYPES)
def test_windows(device, taken, dtype):
    length = 3 + IMPORTED_BYTES // ROWS // np.dtype(dtype).itemsize
    x = array_of(dtype, length)
    found = vkdml.slice1(x, (1, 2), (ROWS - 2, length - 2), (1, -1), device=device)
    assert np.array_equal(found, x[1:-1, 2:][:, ::-1])
    assert bool(taken) is device.executions.imports(IMPORTED_BYTES)


def test_views_in_any_order(device, taken):
    x = array_of("int16", 700)
    for view in (x.T, x[::-1], x[:, ::-1], x[::2], x.reshape(32, 32, 700).transpose(1, 2, 0)):
        taken.clear()
        assert np.array_equal(vkdml.argmin(view, axis=0, device=device), view.argmin(axis=0))
        assert bool(taken) is device.executions.imports(IMPORTED_BYTES)


def test_what_can_only_be_copied(device, taken):
    for x in (array_of("int32", 300, offset=6), array_of("int32", 300).byteswap().view(">i4")):
        assert np.array_equal(vkdml.argmax(x, axis=1, device=device), x.argmax(axis=1))
    small = array_of("int8", IMPORTED_BYTES // ROWS - 1)
    assert np.array_equal(vkdml.argmax(small, axis=1, device=device), small.argmax(axis=1))
    assert not taken


def test_calls_again_on_other_contents(device):
    x = array_of("float32", 300)
    for seed in range(4):
        x[:] = np.random.default_rng(seed).normal(size=x.shape)
        assert np.array_equal(vkdml.argmax(x, axis=1, device=device), x.argmax(axis=1))


@pytest.mark.parametrize("nbytes", [1, 15, 16, 17, 4096, 100_001])
def test_results_are_written_and_nothing_beside_them(device, nbytes):
    made = result_region(device.executions, (nbytes,), np.dtype(np.uint8))
    if not device.native.imports_host_memory:
        assert made is None
        return
    result, (buffer, offset) = made
    assert buffer.view()[offset : offset + nbytes].ctypes.data == result.ctypes.data
    around = result if result.base is None else result.base
    around[...] = 165
    content = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    source = device.native.buffer(nbytes, HOST)
    source.view()[:] = content
    copy = device.native.sequence()
    copy.copy(source, buffer, nbytes, 0, offset)
    copy.eval()
    assert np.array_equal(result, content)
    assert np.count_nonzero(around == 165) == around.size - nbytes + np.count_nonzero(content == 165)


class Kept(np.ndarray):
    """An array that weak references tell the end of."""


def test_memory_is_kept_as_long_as_a_device_uses_it(device):
    if not device.native.imports_host_memory:
        assert region_around(device.executions, array_of("int32", 300)) is None
        return
    used = device.memory()["used"]
    plan = rows_plan(device, ROWS, 800)  # rows that are not walked: no workspace is rounded to whole blocks
    replay = Rebindable(device.executions, plan)
    x = array_of("int32", 800)
    found = device.native.buffer(plan.bytes_of("indices"), HOST)
    expected = x.argmax(axis=1)
    flat = x.reshape(-1).view(np.uint8).view(Kept)
    alive = ref(flat)
    region = device.native.imported(flat)
    del flat
    gc.collect()
    assert alive() is not None
    replay.submit({"input": region, "indices": (found, 0)})
    del region
    gc.collect()
    assert alive() is not None, "a running device reads it"
    replay.wait()
    gc.collect()
    assert alive() is None, "what has been recorded keeps nothing"
    assert np.array_equal(found.view()[: 4 * ROWS].view(np.int32), expected)
    del found
    assert device.memory()["used"] == used + plan.bytes_of("workspace")


def test_memory_outlives_a_replay_that_is_dropped_while_it_runs(device):
    if not device.native.imports_host_memory:
        assert device.native.imported(np.zeros(64, np.uint8)) is None
        return
    replay = Rebindable(device.executions, rows_plan(device, ROWS, 300))
    flat = array_of("int32", 300).reshape(-1).view(np.uint8).view(Kept)
    alive = ref(flat)
    replay.submit(
        {"input": device.native.imported(flat), "indices": (device.native.buffer(4 * ROWS, HOST), 0)}
    )
    del flat, replay
    gc.collect()
    assert vkdml.argmax(np.arange(1000.0), device=device) == 999  # after it, on the same queue
    device.memory()
    assert alive() is None


@pytest.mark.parametrize("call", ["vkGetMemoryHostPointerPropertiesEXT", "vkAllocateMemory"])
def test_memory_that_a_driver_refuses_is_copied(device, call):
    x = array_of("float32", IMPORTED_BYTES // 4 // ROWS)
    invalid_external_handle, unknown = -1000072003, -13
    if not device.native.imports_host_memory:
        return
    _native.inject_failure(1, invalid_external_handle, call)
    try:
        found = vkdml.argmax(x, axis=1, device=device)
        refused = _native.injected_call()
    finally:
        _native.inject_failure(0)
    assert np.array_equal(found, x.argmax(axis=1))
    assert refused == call
    _native.inject_failure(1, unknown, call)
    try:
        with pytest.raises(vkdml.DeviceError, match=call.removeprefix("vkGet")):
            device.native.imported(x.reshape(-1).view(np.uint8))
    finally:
        _native.inject_failure(0)
    assert device.native.imported(x.reshape(-1).view(np.uint8)) is not None


def test_bytes_that_cannot_be_imported(device):
    whole = np.zeros(1 << 16, np.uint8)
    if device.native.imports_host_memory:
        for wrong in (whole[:0], whole[::2]):
            with pytest.raises(ValueError, match="imported are compact bytes, one at least"):
                device.native.imported(wrong)
        beyond = np.zeros(device.limits.max_storage_buffer_range + 1, np.uint8)
        assert device.native.imported(beyond) is None
    assert _native.injected_call() == ""
