"""Arrays of few different elements of any type, compared bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from vkdml.plan.elements import ML_DTYPES_ELEMENTS


def element_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if name in ML_DTYPES_ELEMENTS else np.dtype(name)


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Elements of few values, so that there are ties; of floats some are NaN or -0."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    kinds = rng.integers(-3, 4, shape).astype(np.float32)
    if dtype.kind in "fV" or dtype.name in ML_DTYPES_ELEMENTS:
        kinds[rng.random(shape) < 0.1] = np.nan
        kinds = np.where(kinds == 1, np.float32(-0.0), kinds)
        return kinds.astype(dtype)
    return (np.abs(kinds) if dtype.kind == "u" else kinds).astype(dtype)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
