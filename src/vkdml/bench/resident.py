"""Bytes to and from buffers that lie on a device, through a staging buffer where the host cannot see them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vkdml import _native
from vkdml.runtime.device import Device

Bytes = npt.NDArray[np.uint8]

CHUNK_BYTES = 32 << 20
POISON = 0xA5
"""What fills outputs before a kernel runs: a kernel that writes nothing must not find an old right answer."""


def allocate(device: Device, nbytes: int) -> _native.Buffer:
    """Return a buffer where the device's shaders read and write fastest."""
    unified = device.info.unified_memory
    return device.native.buffer(nbytes, _native.MemoryKind.host if unified else _native.MemoryKind.device)


def upload(device: Device, buffer: _native.Buffer, content: Bytes) -> None:
    """Write bytes to the start of a buffer."""
    if buffer.kind == _native.MemoryKind.host:
        buffer.view()[: content.size] = content
        return
    for start in range(0, content.size, CHUNK_BYTES):
        part = content[start : start + CHUNK_BYTES]
        staging = device.native.buffer(part.size, _native.MemoryKind.host)
        staging.view()[: part.size] = part
        sequence = device.native.sequence()
        sequence.copy(staging, buffer, part.size, 0, start)
        sequence.eval()


def download(device: Device, buffer: _native.Buffer, nbytes: int) -> Bytes:
    """Return the first bytes of a buffer."""
    if buffer.kind == _native.MemoryKind.host:
        return np.array(buffer.view()[:nbytes])
    content = np.empty(nbytes, np.uint8)
    for start in range(0, nbytes, CHUNK_BYTES):
        part = content[start : start + CHUNK_BYTES]
        staging = device.native.buffer(part.size, _native.MemoryKind.host)
        sequence = device.native.sequence()
        sequence.copy(buffer, staging, part.size, start, 0)
        sequence.eval()
        part[:] = staging.view()[: part.size]
    return content


def poison(device: Device, buffer: _native.Buffer) -> None:
    """Fill a buffer with bytes that no result consists of."""
    if buffer.kind == _native.MemoryKind.host:
        buffer.view()[:] = POISON
        return
    nbytes = buffer.nbytes
    staging = device.native.buffer(min(nbytes, CHUNK_BYTES), _native.MemoryKind.host)
    staging.view()[:] = POISON
    sequence = device.native.sequence()
    for start in range(0, nbytes, CHUNK_BYTES):
        sequence.copy(staging, buffer, min(CHUNK_BYTES, nbytes - start), 0, start)
    sequence.eval()
