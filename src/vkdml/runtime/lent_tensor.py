"""DLPack producers for memory that the native module lends."""

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
    read_only: bool


def producer(address: int, tensor: Description, device: tuple[int, int], owner: object) -> Any:
    """Return an object with ``__dlpack__`` for elements of the memory at an address of a DLPack device.

    Args:
        address: of the memory's first byte, as that device sees it.
        tensor: the elements.
        device: DLPack's type and number.
        owner: lives as long as any tensor made of it.
    """
    shape, strides, first_byte, code, bits, read_only = tensor
    return _native.lent_tensor(address + first_byte, shape, strides, code, bits, device, owner, read_only)
