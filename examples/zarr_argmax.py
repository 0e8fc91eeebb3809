"""Finds the greatest element of each column of a zarr array that is not loaded into memory.

python examples/zarr_argmax.py                # makes a small array and uses it
python examples/zarr_argmax.py scores.zarr    # of two dimensions or more
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import vkdml

try:
    import zarr
except ModuleNotFoundError as error:
    sys.exit(f"zarr_argmax: {error.name} is not installed: pip install {error.name}")


def made(folder: str) -> zarr.Array:
    """A compressed array whose greatest elements are known."""
    path = str(Path(folder) / "scores.zarr")
    scores = zarr.open_array(path, mode="w", shape=(4000, 1000), chunks=(500, 500), dtype="float32")
    scores[...] = np.random.default_rng(0).random(scores.shape, np.float32)
    scores[2500, :] = 2
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description="Find the greatest element of each column of a zarr array.")
    parser.add_argument("store", nargs="?", help="an array of two dimensions or more; without it one is made")
    store = parser.parse_args().store
    with tempfile.TemporaryDirectory() as folder:
        try:
            scores = made(folder) if store is None else zarr.open_array(store, mode="r")
        except (FileNotFoundError, ValueError) as error:  # ValueErrors are those of zarr 2
            parser.error(f"{store}: {error}")
        print(f"{scores.shape} {scores.dtype} in chunks of {scores.chunks}, {scores.nbytes >> 20} MiB")
        best = vkdml.argmax(scores, axis=0, return_values=True)
        print("rows:  ", best.indices.ravel()[:5])
        print("values:", best.values.ravel()[:5])


if __name__ == "__main__":
    main()
