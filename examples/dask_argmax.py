"""Finds the highest points of a terrain that lies in a zarr store, on a cluster of worker processes.

    python examples/dask_argmax.py                    # a terrain that Matplotlib ships, two workers
    python examples/dask_argmax.py --store DEM.zarr   # of two dimensions, north to south and west to east

Each worker reads the chunks that it is given and searches them on its own device; indices of the whole array
come back. xarray keeps the names and the coordinates.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import vkdml

try:
    import dask
    import dask.array
    import xarray
    import zarr
    from distributed import Client, LocalCluster

    import vkdml.dask
except ModuleNotFoundError as error:
    sys.exit(f"dask_argmax: {error.name} is not installed: pip install {error.name}")


def terrain_of_matplotlib(folder: str) -> str:
    """The elevations around the Jacksboro fault, in metres, as a zarr store."""
    from matplotlib import cbook

    with cbook.get_sample_data("jacksboro_fault_dem.npz") as file:
        elevation = file["elevation"]
    path = str(Path(folder) / "terrain.zarr")
    store = zarr.open_array(path, mode="w", shape=elevation.shape, chunks=(100, 100), dtype=elevation.dtype)
    store[...] = elevation
    return path


def main(words: Sequence[str] | None = None) -> int:
    """Run the example; 0 when all equals NumPy's answers, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", help="a zarr array of two dimensions")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    options = parser.parse_args(words)
    if options.workers < 1:
        parser.error(f"--workers {options.workers}: at least 1 is accepted")
    if options.store and not Path(options.store).exists():
        parser.error(f"--store {options.store}: there is no such file or folder")
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=options.workers, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        x = dask.array.from_zarr(options.store or terrain_of_matplotlib(folder))
        print(f"{x.shape} {x.dtype}, {x.npartitions} chunks of {x.chunksize}, {options.workers} workers")

        highest, lowest = dask.compute(
            vkdml.dask.argmax(x, return_values=True), vkdml.dask.argmin(x, return_values=True)
        )
        for name, (index, value) in (("highest", highest), ("lowest", lowest)):
            print(f"{name}: {value} at {tuple(map(int, np.unravel_index(index, x.shape)))}")

        terrain = xarray.DataArray(x, dims=("north", "east"), coords={"east": np.arange(x.shape[1]) * 90})
        ridge = xarray.apply_ufunc(
            vkdml.dask.argmax, terrain, input_core_dims=[["north"]], kwargs={"axis": -1}, dask="allowed"
        ).compute()
        print(f"row of the highest point, every 90 m to the east: {ridge.values[:6]} ...")

        whole = x.compute()
        equal = highest.indices == whole.argmax() and lowest.indices == whole.argmin()
        equal &= np.array_equal(ridge.values, whole.argmax(0)) and ridge.dims == ("east",)
    print(f"equal to NumPy's: {bool(equal)}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
