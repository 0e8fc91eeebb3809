"""DLPack capsules of memory that the native module lends."""

from __future__ import annotations

from typing import Any, NamedTuple

from vkdml import _native


class Description(NamedTuple):
    """Where in memory the elements of a tensor lie, and of what type they are in DLPack's terms."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    first_byte: int
    code: int
    bits: int
    flags: int
    """``READ_ONLY`` and ``COPIED`` of :mod:`vkdml.common.dlpack`, or 0."""


def capsule(
    address: int, tensor: Description, device: tuple[int, int], owner: object, *, versioned: bool
) -> Any:
    """Return a capsule of elements of the memory at an address of a DLPack device.

    Args:
        address: of the memory's first byte, as that device sees it.
        tensor: the elements.
        device: DLPack's type and number.
        owner: lives as long as the tensor that a consumer makes of it.
        versioned: of DLPack 1; only such capsules have flags.
    """
    shape, strides, first_byte, code, bits, flags = tensor
    return _native.dlpack_capsule(
        address + first_byte, shape, strides, code, bits, device, flags, owner, versioned
    )
