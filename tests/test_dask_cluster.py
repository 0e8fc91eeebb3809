"""vkdml.dask on a cluster: worker processes take devices in turn, read one zarr store, and may be killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import dask
import dask.array as da
import needs
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

import vkdml
import vkdml.dask
from vkdml.integrations import dask_devices

SHAPE, CHUNKS = (60, 50), (20, 25)


@pytest.fixture(scope="module")
def both() -> dict[str, str]:
    """An environment in which the loader offers lavapipe and SwiftShader."""
    return needs.two_drivers()


@pytest.fixture(scope="module")
def client(both: dict[str, str]) -> Iterator[Client]:
    """Two worker processes on a machine with two devices: lavapipe and SwiftShader."""
    # Another process of these tests may have a cluster at the same time.
    environment = both | {dask_devices.PLACES: f"test-{os.getpid()}"}
    with (
        mock.patch.dict(os.environ, environment),
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0", memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def host() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, SHAPE).astype(np.float32)
    x[rng.random(SHAPE) < 0.05] = np.nan
    return x


@pytest.fixture(scope="module")
def stored(host: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> da.Array:
    path = str(tmp_path_factory.mktemp("stores") / "scores.zarr")
    store = zarr.open_array(path, mode="w", shape=SHAPE, chunks=CHUNKS, dtype="float32")
    store[...] = host
    return da.from_zarr(path)


def killed_once(chunk: np.ndarray, marker: str, block_id: tuple[int, ...] = ()) -> np.ndarray:
    """The worker that first comes to this chunk is killed."""
    if block_id == (1, 1):
        try:
            Path(marker).touch(exist_ok=False)
        except FileExistsError:
            return chunk
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk


def device_here(call: int) -> tuple[int, Any, str]:
    """The process, the device that a task of it uses, and that device's driver."""
    number = dask_devices.device_of_task(None)
    return os.getpid(), number, vkdml.asarray([1], device=number).device.info.driver_name


def devices_of(client: Client) -> dict[str, tuple[int, Any, str]]:
    """What a task finds on each worker."""
    return {
        address: client.submit(device_here, 0, workers=[address], pure=False).result()
        for address in client.scheduler_info()["workers"]
    }


def test_a_store_on_disk(client: Client, stored: da.Array, host: np.ndarray) -> None:
    wanted = vkdml.argmin(host, (0, 1), nan_policy="omit", direction="decreasing", return_values=True)
    lazy = vkdml.dask.argmin(stored, (0, 1), nan_policy="omit", direction="decreasing", return_values=True)
    columns = vkdml.dask.argmax(stored, 0, dtype="uint32", keepdims=True)
    window = vkdml.dask.slice1(stored, (3, 0), (50, 50), (-7, 3))
    (index, value), by_column, copied = dask.compute(lazy, columns, window)
    assert (index, value) == wanted
    assert np.array_equal(by_column, vkdml.argmax(host, 0, dtype="uint32", keepdims=True))
    assert by_column.dtype == np.uint32
    assert np.array_equal(copied, vkdml.slice1(host, (3, 0), (50, 50), (-7, 3)), equal_nan=True)


def test_the_workers_of_a_host_take_its_devices_in_turn(client: Client) -> None:
    found = devices_of(client)
    assert devices_of(client) == found
    assert len({pid for pid, _, _ in found.values()}) == 2
    assert sorted(number for _, number, _ in found.values()) == [0, 1]
    assert sorted(driver for _, _, driver in found.values()) == ["SwiftShader driver", "llvmpipe"]


def test_a_worker_that_is_killed_leaves_the_answer_right(
    client: Client, stored: da.Array, host: np.ndarray, tmp_path: Path
) -> None:
    marker = tmp_path / "killed"
    before = devices_of(client)
    deadly = stored.map_blocks(killed_once, marker=str(marker), dtype=stored.dtype, meta=stored._meta)
    index = vkdml.dask.argmax(deadly, axis=1).compute()
    assert marker.exists()
    assert np.array_equal(index, host.argmax(1))
    client.wait_for_workers(2)
    after = devices_of(client)
    assert len({pid for pid, _, _ in after.values()} & {pid for pid, _, _ in before.values()}) == 1
    assert sorted(number for _, number, _ in after.values()) == [0, 1], "the place that became free is taken"
    assert np.array_equal(vkdml.dask.argmin(stored, axis=0).compute(), host.argmin(0))


def test_errors_of_a_task_arrive(client: Client, stored: da.Array) -> None:
    with pytest.raises(vkdml.NoDeviceError, match="no device matches 'no such device'"):
        vkdml.dask.argmax(stored, device="no such device").compute()


def test_a_resource_numbers_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    resources = {"VKDML_DEVICE": 3.0, "other": 1}
    worker = SimpleNamespace(state=SimpleNamespace(total_resources=resources))
    monkeypatch.delenv("VKDML_DEVICE", raising=False)
    monkeypatch.setattr(dask_devices, "_worker", lambda: worker)
    assert dask_devices.device_of_task(None) == 3
    assert dask_devices.device_of_task("nvidia") == "nvidia"
    monkeypatch.setenv("VKDML_DEVICE", "1")
    assert dask_devices.device_of_task(None) is None
    monkeypatch.delenv("VKDML_DEVICE")
    resources["VKDML_DEVICE"] = 0.5
    with pytest.raises(ValueError, match=r"VKDML_DEVICE is 0.5; accepted is the number of a device"):
        dask_devices.device_of_task(None)


def reduced_in_a_task(n: int) -> int:
    return int(vkdml.argmax(da.arange(n, chunks=n // 8)))


@pytest.mark.parametrize("n", [80, 40_000_000])
def test_a_task_may_reduce_an_array_whose_chunks_are_tasks_too(client: Client, n: int) -> None:
    """All places of the workers are taken by such tasks: their chunks would wait for them for ever."""
    tasks = [client.submit(reduced_in_a_task, n + extra) for extra in range(0, 40, 8)]
    assert client.gather(tasks) == [n + extra - 1 for extra in range(0, 40, 8)]


def test_the_client_of_the_caller_computes(client: Client) -> None:
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as other,
        Client(other, set_as_default=False) as current,
        current.as_current(),
    ):
        assert vkdml.argmax(da.arange(40_000_000, chunks=4_000_000)) == 39_999_999
