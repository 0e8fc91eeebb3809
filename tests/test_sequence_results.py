"""What downloads of a sequence give: copies where copies are asked for; and what a cleared one forgets."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest

import vkdml


@pytest.mark.parametrize("with_out", [False, True])
def test_a_copy_of_a_download_is_not_changed_by_the_next_evaluation(device, with_out):
    host, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32) if with_out else None
    array = vkdml.empty(5, np.int32, device=device)
    sequence = device.sequence()
    sequence.upload(array, host)
    found = sequence.download(array, out=out)
    sequence.eval()
    copies = [np.array(found), found.__array__(copy=True), np.array(found, np.int64)]
    if with_out:
        assert found.numpy() is out
        assert np.shares_memory(found.__array__(copy=False), out)
        assert np.shares_memory(found.__array__(np.int32, copy=False), out)
        with pytest.raises(ValueError, match="a download of type int32 as int64; accepted: copy=None and"):
            found.__array__(np.int64, copy=False)
    host += 100
    sequence.eval()
    assert found.numpy().tolist() == host.tolist()
    for copy in copies:
        assert copy.tolist() == [0, 1, 2, 3, 4]


def test_a_cleared_sequence_keeps_no_host_arrays_and_writes_none(device):
    array, other = (vkdml.asarray(np.zeros(5, np.int32), device=device) for _ in range(2))
    host, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    sequence = device.sequence()
    sequence.upload(array, host)
    sequence.download(array, out=out)
    sequence.eval()
    assert out.tolist() == host.tolist()
    sequence.clear()
    out[...] = 7
    elements = sequence.download(other)
    sequence.eval()
    assert out.tolist() == [7] * 5
    assert elements.numpy().tolist() == [0] * 5
    kept = [ref(host), ref(out)]
    del host, out
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_a_download_says_what_it_is_and_whether_it_has_arrived(device):
    sequence = device.sequence()
    array = vkdml.asarray(np.int16([[1, 2, 3]]))
    download = sequence.download(array)
    assert repr(download) == "<vkdml.Download shape=(1, 3) dtype=int16 (not arrived)>"
    sequence.eval()
    assert repr(download) == "<vkdml.Download shape=(1, 3) dtype=int16>"
