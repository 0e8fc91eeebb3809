"""Where the elements of a ``numpy.memmap`` lie in its file: two mappings of one file have other addresses."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from vkdml.common.overlap import Layout, may_share_bytes


def share_bytes_of_a_file(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> bool:
    """Return whether two arrays are mappings of one file and share a byte of it.

    Only what ``numpy.memmap`` made, and views of it, say which file they are of.
    """
    one, other = _place_in_file(first), _place_in_file(second)
    return one is not None and other is not None and one[0] == other[0] and may_share_bytes(one[1], other[1])


def mapping_behind(array: Any) -> tuple[np.memmap[Any, Any], mmap.mmap] | None:
    """Return the ``numpy.memmap`` that an array is or views, and its mapping; None if there is none."""
    owner = array
    while owner is not None:
        mapping = getattr(owner, "_mmap", None)
        if isinstance(owner, np.memmap) and isinstance(mapping, mmap.mmap):
            return owner, mapping
        owner = getattr(owner, "base", None)
    return None


def _place_in_file(array: npt.NDArray[Any]) -> tuple[tuple[int, int], Layout] | None:
    """Return a mapped array's file, as device and inode, and the positions of its elements there."""
    owner, mapping = mapping_behind(array) or (None, None)
    # What is written to a private mapping does not reach the file.
    if owner is None or mapping is None or owner.mode == "c" or owner.filename is None:
        return None
    try:
        file = os.stat(owner.filename)
    except OSError:  # deleted meanwhile
        return None
    # Mappings begin at whole pages; views have the offset of what they are views of.
    begin = owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY
    address = array.__array_interface__["data"][0] - np.frombuffer(mapping, np.uint8).ctypes.data
    layout = Layout(begin + address, array.shape, array.strides, array.itemsize)
    return (file.st_dev, file.st_ino), layout
