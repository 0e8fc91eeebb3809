"""xarray over arrays on the device, and over Dask arrays: argmax and isel keep the data where they are."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import vkdml
import vkdml.dask
from vkdml.runtime.memory import Memory


@pytest.fixture
def host() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((40, 50, 6)).astype(np.float32)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes came to the host, each time."""
    bytes_read: list[int] = []
    right = Memory.read

    def noted(self: Memory, start: int, into: Any) -> None:
        bytes_read.append(into.size)
        right(self, start, into)

    monkeypatch.setattr(Memory, "read", noted)
    return bytes_read


def test_isel_and_argmax_stay_on_the_device(host: np.ndarray, device: vkdml.Device, read: list[int]) -> None:
    x = xr.DataArray(vkdml.asarray(host), dims=("north", "east", "band"), coords={"band": list("abcdef")})
    assert isinstance(x.data, vkdml.Array)
    part = x.isel(north=slice(None, None, -2), band=1)
    rows = x.isel(north=[3, 0, -1], east=[2, 5, 9])
    best = x.argmax("band", skipna=False)  # to skip NaNs, xarray computes with NumPy
    for result in (part, rows, best):
        assert isinstance(result.data, vkdml.Array), result
    assert sum(read) <= 64, "nothing but faults of indices is read"
    assert np.array_equal(part.values, host[::-2, :, 1])
    assert str(part.band.values) == "b"
    assert np.array_equal(rows.values, host[[3, 0, -1]][:, [2, 5, 9]])
    # xarray itself refuses to pair indices of several dimensions, of all libraries of the array API.
    assert np.array_equal(x.data[[3, 0, 9], [2, 5, 9]].numpy(), host[[3, 0, 9], [2, 5, 9]])
    assert best.dims == ("north", "east")
    assert np.array_equal(best.values, host.argmax(2))
    assert x.sel(band="c").data[4, 7].item() == host[4, 7, 2]


def test_equality_needs_copies_on_the_host(host: np.ndarray, device: vkdml.Device) -> None:
    """As docs/array-api.md says; the sentence goes when xarray, or vkdml, compares."""
    x, same = (xr.DataArray(vkdml.asarray(host), dims=("north", "east", "band")) for _ in range(2))
    assert not x.equals(same)
    assert x.as_numpy().equals(same.as_numpy())
    assert x.as_numpy().identical(same.as_numpy())
    assert not x.as_numpy().equals(same[::-1].as_numpy())


def test_apply_ufunc_over_dask(host: np.ndarray, device: vkdml.Device) -> None:
    x = xr.DataArray(da.from_array(host, chunks=(20, 20, 3)), dims=("north", "east", "band"))
    found = xr.apply_ufunc(
        vkdml.dask.argmax, x, input_core_dims=[["north", "band"]],
        kwargs={"axis": (-2, -1), "direction": "decreasing"}, dask="allowed",
    )  # fmt: skip
    assert isinstance(found.data, da.Array)
    assert found.dims == ("east",)
    assert np.array_equal(found.values, vkdml.argmax(host.transpose(1, 0, 2), (1, 2), direction="decreasing"))
    with pytest.raises(TypeError, match=r"accepted is a dask.array.Array; its .data is one"):
        vkdml.dask.argmax(x)
