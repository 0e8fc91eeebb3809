"""Copies in host memory, which several threads share: every byte, and none beside them."""

from __future__ import annotations

import numpy as np
import pytest

from vkdml import _native

MIB = 1 << 20


@pytest.mark.parametrize("nbytes", [1, 63, 4 * MIB, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 33 * MIB + 65])
def test_every_byte_is_copied_and_none_beside_them(nbytes):
    source = np.resize(np.random.default_rng(nbytes).integers(0, 256, 65_537, np.uint8), nbytes)
    target = np.full(nbytes + 128, 0xA5, np.uint8)
    _native.copy_in_host_memory(target[64 : 64 + nbytes], source)
    assert np.array_equal(target[64 : 64 + nbytes], source)
    assert (target[:64] == 0xA5).all()
    assert (target[64 + nbytes :] == 0xA5).all()


def test_lengths_that_differ_and_gaps_are_refused():
    bytes_of = np.zeros(16, np.uint8)
    for target, source in (
        (bytes_of[:8], bytes_of[:9]),
        (bytes_of[::2], bytes_of[:8]),
        (bytes_of[:8], bytes_of[::2]),
    ):
        with pytest.raises(ValueError, match=f"not {source.size} to {target.size}"):
            _native.copy_in_host_memory(target, source)
