"""Finds the greatest element of each column of a zarr array that is not loaded into memory.

python examples/zarr_argmax.py                # makes a small array and uses it
python examples/zarr_argmax.py scores.zarr    # of two dimensions or more
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import zarr

import vkdml


def made(folder: str) -> zarr.Array:
    """A compressed array whose greatest elements are known."""
    path = str(Path(folder) / "scores.zarr")
    scores = zarr.open_array(path, mode="w", shape=(4000, 1000), chunks=(500, 500), dtype="float32")
    scores[...] = np.random.default_rng(0).random(scores.shape, np.float32)
    scores[2500, :] = 2
    return scores


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scores = zarr.open_array(sys.argv[1], mode="r") if len(sys.argv) > 1 else made(folder)
        print(f"{scores.shape} {scores.dtype} in chunks of {scores.chunks}, {scores.nbytes >> 20} MiB")
        best = vkdml.argmax(scores, axis=0, return_values=True)
        print("rows:  ", best.indices.ravel()[:5])
        print("values:", best.values.ravel()[:5])


if __name__ == "__main__":
    main()
