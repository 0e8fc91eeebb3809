"""Arrays in several parts, on one device and on several: the same answers as of one NumPy array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_array import element_type, random_bits, same_bits

import vkdml


@pytest.fixture(scope="module")
def pair():
    return [vkdml.Device(), vkdml.Device()]


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from(["float16", "int64", "uint8", "bfloat16"]),
    st.integers(0, 2**32 - 1),
)
def test_a_sharded_array_answers_as_the_whole(pair, along, others, name, seed):
    rng = np.random.default_rng(seed)
    axis = int(rng.integers(len(others)))
    parts = [
        random_bits(rng, tuple(size if a == axis else o for a, o in enumerate(others)), element_type(name))
        for size in along
    ]
    bits = f"V{parts[0].dtype.itemsize}"
    whole = np.concatenate([part.view(bits) for part in parts], axis).view(parts[0].dtype)
    shards = vkdml.ShardedArray(
        [vkdml.asarray(part, pair[n % 2]) for n, part in enumerate(parts)], axis - len(others)
    )
    assert shards.shape == whole.shape
    assert same_bits(shards.numpy(), whole)
    options = {
        "keepdims": bool(rng.integers(2)),
        "direction": ("increasing", "decreasing")[rng.integers(2)],
        "nan_policy": ("propagate", "omit")[rng.integers(2)],
        "dtype": ("int64", "uint32")[rng.integers(2)],
    }
    for axes in (None, axis, tuple(a for a in range(whole.ndim) if rng.random() < 0.5)):
        for operator in (vkdml.argmax, vkdml.argmin):
            try:
                expected = operator(whole, axes, return_values=True, **options)
            except ValueError:
                with pytest.raises(ValueError, match="empty sequence"):
                    operator(shards, axes, **options)
                continue
            got = operator(shards, axes, return_values=True, **options)
            assert same_bits(np.asarray(got.indices), np.asarray(expected.indices))
            assert same_bits(np.asarray(got.values), np.asarray(expected.values))
            assert same_bits(np.asarray(operator(shards, axes, **options)), np.asarray(expected.indices))


def test_asarray_cuts_an_array_for_several_devices(pair):
    host = np.arange(7 * 3, dtype=np.int16).reshape(7, 3)
    shards = vkdml.asarray(host, pair)
    assert [shard.shape for shard in shards.shards] == [(3, 3), (4, 3)]
    assert shards.devices == tuple(pair)
    assert np.array_equal(shards.numpy(), host)
    assert shards.argmax() == 20
    assert "shape=(7, 3) dtype=int16 shards=2 axis=0" in repr(shards)
    assert (shards.size, shards.nbytes, shards.ndim) == (21, 42, 2)


def test_a_host_array_is_shared_out_to_several_devices(pair):
    rng = np.random.default_rng(0)
    host = rng.integers(0, 50, (64, 33, 40)).astype(np.float32)
    for axis in (None, 0, 1, (0, 2)):
        expected = vkdml.argmin(host, axis)
        assert np.array_equal(vkdml.argmin(host, axis, device=pair), expected)
    done = []
    window = vkdml.slice1(
        host, (1, 0, 2), (60, 33, 38), (-2, 1, 3), device=pair, progress=lambda *counts: done.append(counts)
    )
    assert np.array_equal(window, host[1:61, :, 2:40][::-2, :, ::3])
    assert done[-1][0] == done[-1][1] > 0
    for devices in ([], [pair[0], pair[0]]):
        with pytest.raises(ValueError, match="is empty or names a device twice"):
            vkdml.argmax(host, device=devices)


def test_shards_that_do_not_fit_are_refused(pair):
    a = vkdml.asarray(np.zeros((2, 3), np.float32), pair[0])
    with pytest.raises(ValueError, match="at least one shard"):
        vkdml.ShardedArray([])
    with pytest.raises(TypeError, match=r"not ndarray: vkdml\.asarray makes one"):
        vkdml.ShardedArray([np.zeros(3)])
    with pytest.raises(TypeError, match="types float32 and float16"):
        vkdml.ShardedArray([a, vkdml.empty((2, 3), np.float16)])
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(2, 4\) do not fit"):
        vkdml.ShardedArray([a, vkdml.empty((2, 4), np.float32)])
    with pytest.raises(np.exceptions.AxisError):
        vkdml.ShardedArray([a], 2)
    with pytest.raises(TypeError, match="= is not accepted with a sharded array"):
        vkdml.argmax(vkdml.ShardedArray([a]), device=pair[0])
    with pytest.raises(ValueError, match="no dimensions cannot be shared out"):
        vkdml.asarray(1.0, pair)


def test_a_lost_default_device_is_opened_anew_by_the_next_call(monkeypatch):
    monkeypatch.setattr(vkdml.device, "_shared", {})  # the other tests keep theirs
    lost = vkdml.default_device()
    array = vkdml.asarray([1, 2, 3])
    kept = [vkdml.argmax(array), vkdml.argmax(array)]
    del kept[0]
    vkdml._native.inject_failure(1, -4, "vkQueueSubmit")
    with pytest.raises(vkdml.DeviceLostError):
        vkdml.argmax(array)
    vkdml._native.inject_failure(0)
    with pytest.raises(vkdml.DeviceLostError):
        np.asarray(array)
    assert vkdml.argmax([1, 5, 2]) == 1
    assert vkdml.default_device() is not lost
