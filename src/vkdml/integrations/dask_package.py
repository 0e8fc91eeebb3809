"""The package dask with its arrays, or the sentence that says how to get it."""

from vkdml.common.wording import how_to_install

try:
    import dask
    import dask.array
except ImportError as error:
    # dask.array asks for NumPy's and toolz's versions in sentences of its own.
    if not isinstance(error, ModuleNotFoundError) or error.name not in ("dask", "toolz"):
        raise
    raise ModuleNotFoundError(
        "vkdml.dask works on the arrays of the package dask, which is not installed: "
        + how_to_install("'dask[array,distributed]'", "dask"),
        name="dask",
    ) from None

__all__ = ["dask"]
