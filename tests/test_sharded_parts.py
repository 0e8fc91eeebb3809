"""How a host array is cut for several devices: into parts as even as can be, in order."""

from __future__ import annotations

import numpy as np
import pytest

from vkdml.arrays.creation import shared_out


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 8, 10, 11])
def test_parts_differ_by_a_row_at_most(device, rows, count):
    host = np.random.default_rng(rows).integers(0, 4, (rows, 3), np.int32)
    whole = shared_out(host, [device] * count)
    sizes = [part.shape[0] for part in whole.shards]
    assert len(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert whole.numpy().tolist() == host.tolist()
    if rows:
        for direction in ("increasing", "decreasing"):
            last = direction == "decreasing"
            along = host[::-1].argmax(0) if last else host.argmax(0)
            wanted = rows - 1 - along if last else along
            assert whole.argmax(0, direction=direction).tolist() == wanted.tolist()
        assert int(whole.argmin()) == host.argmin()
        assert whole.argmax(1).tolist() == host.argmax(1).tolist()
