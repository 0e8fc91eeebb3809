"""Arrays in several parts, on one device and on several: the same answers as of one NumPy array."""

from __future__ import annotations

import math

import numpy as np
import oracle
import pytest
import views
from array_bits import element_type, random_bits, same_bits
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from separate import forget_open_devices, separate_device
from thinned import examples

import vkdml


@pytest.fixture(scope="module")
def pair(device):
    return [device, separate_device()]


@examples(40)
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
        [vkdml.asarray(part, device=pair[n % 2]) for n, part in enumerate(parts)], axis - len(others)
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
                indices, values = oracle.argreduce(whole, axes, operator.__name__, **options)
            except ValueError:
                with pytest.raises(ValueError, match="empty sequence"):
                    operator(shards, axes, **options)
                continue
            got = operator(shards, axes, return_values=True, **options)
            assert same_bits(np.asarray(got.indices), indices)
            assert same_bits(np.asarray(got.values), values)
            assert same_bits(np.asarray(operator(shards, axes, **options)), indices)


def test_asarray_cuts_an_array_for_several_devices(pair):
    host = np.arange(7 * 3, dtype=np.int16).reshape(7, 3)
    shards = vkdml.asarray(host, device=pair)
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
        with pytest.raises(ValueError, match=r"empty list|twice; accepted are distinct"):
            vkdml.argmax(host, device=devices)


def test_shards_that_do_not_fit_are_refused(pair):
    a = vkdml.asarray(np.zeros((2, 3), np.float32), device=pair[0])
    with pytest.raises(ValueError, match="at least one shard"):
        vkdml.ShardedArray([])
    with pytest.raises(TypeError, match=r"not ndarray: vkdml\.asarray makes one"):
        vkdml.ShardedArray([np.zeros(3)])
    with pytest.raises(TypeError, match=r"not int: vkdml\.asarray makes one"):
        vkdml.ShardedArray(iter(int, 1))  # without an end
    with pytest.raises(TypeError, match="types float32 and float16"):
        vkdml.ShardedArray([a, vkdml.empty((2, 3), np.float16)])
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(2, 4\) do not fit"):
        vkdml.ShardedArray([a, vkdml.empty((2, 4), np.float32)])
    with pytest.raises(np.exceptions.AxisError):
        vkdml.ShardedArray([a], 2)
    with pytest.raises(TypeError, match="device= is not accepted with a sharded array"):
        vkdml.argmax(vkdml.ShardedArray([a]), device=pair[0])
    with pytest.raises(ValueError, match="no dimensions cannot be shared out"):
        vkdml.asarray(1.0, device=pair)


def test_a_lost_default_device_is_opened_anew_by_the_next_call(monkeypatch):
    forget_open_devices(monkeypatch)
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


@examples(150)
@given(st.data())
def test_indexing_and_assignment_are_numpys(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6))
    axis = data.draw(st.integers(0, len(shape) - 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), max_size=3)))
    host = np.arange(math.prod(shape), dtype=np.int16).reshape(shape)
    whole = vkdml.ShardedArray([vkdml.asarray(part) for part in np.split(host, cuts, axis)], axis)
    key = data.draw(views.keys(shape))
    got, wanted = whole[key], views.view_of(host, key)
    assert got.shape == wanted.shape
    assert same_bits(got.numpy(), wanted)
    value = np.resize(np.arange(100, 200, dtype=np.int16), wanted.shape)
    if wanted.ndim and data.draw(st.booleans()):
        value = value[:1]
    whole[key] = vkdml.asarray(value) if data.draw(st.booleans()) else value
    wanted[...] = value
    assert same_bits(whole.numpy(), host)


def sharded(host: np.ndarray, *cuts: int, axis: int = 0) -> vkdml.ShardedArray:
    return vkdml.ShardedArray([vkdml.asarray(part) for part in np.split(host, cuts, axis)], axis)


def test_what_lies_on_one_shard_is_an_array():
    host = np.arange(24).reshape(6, 4)
    whole = sharded(host, 2, 5)
    assert isinstance(whole[3], vkdml.Array)
    assert isinstance(whole[2:5], vkdml.Array)
    assert isinstance(whole[4:4], vkdml.Array)
    assert isinstance(whole[1:3], vkdml.ShardedArray)
    turned = whole[::-1, None, 1:]
    assert [part.shape for part in turned.shards] == [(1, 1, 3), (3, 1, 3), (2, 1, 3)]
    assert whole[:, 1].axis == 0
    assert sharded(host, 2, axis=1)[None, 0].axis == 1
    assert [part.tolist() for part in whole] == host.tolist()
    for key, message in [
        (6, "index 6 is out of bounds for dimension 0 with size 6"),
        ((0, 0, 0), "3 indices for an array of 2 dimensions"),
        ([1, 2], "arrays of indices and masks would need a copy"),
        (np.ones(6, bool), "arrays of indices and masks would need a copy"),
        (np.s_[:, [0]], "dimension 1 .* in reading a vkdml.Array, arrays .* would need a copy"),
    ]:
        with pytest.raises(IndexError, match=message) as caught:
            whole[key]
        with pytest.raises(IndexError, match=message):
            whole[key] = 0
        assert type(caught.value) is IndexError
    assert whole.numpy().tolist() == host.tolist()


def test_overlapping_parts_are_read_before_they_are_written():
    host = np.arange(20).reshape(10, 2)
    whole = sharded(host, 3, 4, 8)
    for target, source in [(np.s_[1:], np.s_[:-1]), (np.s_[...], np.s_[::-1]), (np.s_[:5], np.s_[5:])]:
        host[target] = host[source].copy()
        whole[target] = whole[source]
        assert np.array_equal(whole.numpy(), host)
    with pytest.raises(TypeError, match="type float32 cannot be assigned to an array of int64 on the device"):
        whole[...] = vkdml.zeros(2)
    with pytest.raises(ValueError, match=r"shape \(3, 2\) cannot be broadcast to \(10, 2\); accepted are"):
        whole[...] = np.zeros((3, 2))
    assert np.array_equal(whole.numpy(), host)


@examples(60)
@given(st.data())
def test_slice1_copies_each_shards_part_of_the_window(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6))
    axis = data.draw(st.integers(0, len(shape) - 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), max_size=3)))
    host = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    offsets = tuple(data.draw(st.integers(0, size)) for size in shape)
    sizes = tuple(data.draw(st.integers(0, size - o)) for size, o in zip(shape, offsets, strict=True))
    steps = tuple(data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in shape)
    whole = sharded(host, *cuts, axis=axis)
    got = vkdml.slice1(whole, offsets, sizes, steps)
    assert isinstance(got, vkdml.ShardedArray)
    wanted = vkdml.slice1(host, offsets, sizes, steps)
    assert same_bits(got.numpy(), wanted)
    got[...] = 0  # a copy
    assert same_bits(whole.numpy(), host)


def test_slice1_takes_output_sizes_and_names_what_is_wrong():
    host = np.arange(24).reshape(6, 4)
    whole = sharded(host, 2, 5)
    got = vkdml.slice1(whole, (0, 0), (6, 4), (2, -1), output_sizes=(2, 3))
    assert np.array_equal(got.numpy(), host[::2, ::-1][:2, :3])
    with pytest.raises(ValueError, match=r"slice1 of \(6, 4\) int64: the window of dimension 0"):
        vkdml.slice1(whole, (3, 0), (4, 4), (1, 1))
    for option, value in (("out", vkdml.empty((6, 4), "int64")), ("device", 0), ("progress", print)):
        with pytest.raises(
            TypeError, match=rf"slice1 of \(6, 4\) int64: {option}= is not accepted with a sharded"
        ):
            vkdml.slice1(whole, (0, 0), (6, 4), (1, 1), **{option: value})


def test_a_sharded_array_is_shared_out_anew_by_a_list_of_devices(device):
    host = np.arange(12, dtype=np.int8).reshape(6, 2)
    whole = sharded(host, 1)
    again = vkdml.asarray(whole, device=[device])
    assert isinstance(again, vkdml.ShardedArray)
    assert same_bits(again.numpy(), host)
    assert same_bits(vkdml.asarray(whole, "float32").numpy(), host.astype(np.float32))
    with pytest.raises(ValueError, match="copy=False, but a copy is needed"):
        vkdml.asarray(whole, device=[device], copy=False)


@pytest.mark.parametrize("value", [300, [300, 300], np.int64(300), None, 1.5, math.nan, "x"], ids=repr)
@pytest.mark.parametrize("dtype", ["i1", "f4"])
def test_values_are_converted_as_those_of_an_array(value, dtype):
    outcomes = []
    for target in (sharded(np.zeros((4, 2), dtype), 2), vkdml.zeros((4, 2), dtype)):
        try:
            target[...] = value
            outcomes.append(target.numpy().tobytes())
        except (OverflowError, TypeError, ValueError) as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], bytes) or outcomes[0].startswith("assignment of (4, 2) ")


def test_what_an_array_on_one_device_has_is_named_for_several(pair):
    sharded = vkdml.asarray(np.arange(4), device=pair)
    with pytest.raises(AttributeError, match=r"no attribute 'device'; its shards lie on a\.devices$"):
        sharded.device  # noqa: B018
    with pytest.raises(AttributeError, match=r"'to_device'; vkdml\.asarray\(a, device=0\) copies it to one"):
        sharded.to_device(0)
    with pytest.raises(AttributeError, match=r"no attribute 'mean'; NumPy has it: np\.asarray\(a\)\.mean"):
        sharded.mean()


def test_what_is_no_sequence_of_shards_is_named():
    with pytest.raises(TypeError, match=r"shards are a list or tuple of .*, not one int"):
        vkdml.ShardedArray(5)
    with pytest.raises(AttributeError, match=r"accepted is a new array, as of vkdml.asarray\(a, dtype\)$"):
        sharded(np.zeros((4, 2)), 2).shape = (8,)


def test_an_assignment_writes_to_all_shards_or_to_none(device):
    first = vkdml.asarray(np.zeros(3, np.int32), device=device)
    repeated = vkdml.zeros(1, np.int32).broadcast_to(2)
    closed = separate_device()
    gone = vkdml.zeros(2, np.int32, device=closed)
    closed.close()
    for last, error, message in (
        (repeated, ValueError, "repeats elements and is read-only"),
        (gone, vkdml.DeviceError, "was closed"),
    ):
        whole = vkdml.ShardedArray([first, last])
        for value in (5, np.arange(5), vkdml.asarray(np.arange(5, dtype=np.int32), device=device)):
            with pytest.raises(error, match=f"assignment of .*{message}"):
                whole[...] = value
            assert first.tolist() == [0, 0, 0]
        whole[:3] = 1  # the shard that takes it
        assert first.tolist() == [1, 1, 1]
        first[...] = 0


def test_a_sharded_value_of_another_type_is_refused_as_an_array_is():
    numbers = np.arange(4, dtype=np.int32)
    value = sharded(np.arange(4) + 0.5, 2)
    for target in (sharded(numbers, 2), sharded(numbers, 4), vkdml.asarray(numbers)):
        for part in (value, value[1:3], vkdml.asarray(value.numpy())):
            with pytest.raises(TypeError, match="type float64 cannot be assigned to an array of int32"):
                target[-part.size :] = part
            assert target.numpy().tolist() == numbers.tolist()
        target[...] = sharded(numbers[::-1], 1)
        assert target.numpy().tolist() == numbers[::-1].tolist()


def test_an_array_of_any_device_is_assigned_wherever_shards_end(pair):
    host = np.arange(8, dtype=np.int32)
    values = [vkdml.asarray(np.int32([77]), device=device) for device in pair]
    for value in values:
        for place in (np.s_[:], np.s_[3:5], np.s_[0:1], np.s_[7:8], np.s_[7]):
            whole, wanted = vkdml.asarray(host, device=pair), host.copy()
            whole[place] = value if isinstance(place, slice) else value[0]
            wanted[place] = 77
            assert whole.numpy().tolist() == wanted.tolist()
            with pytest.raises(TypeError, match="type float32 cannot be assigned"):
                whole[place] = vkdml.zeros(1, device=value.device)
    whole[:2] = whole[-2:]  # from one device to the other
    assert whole[:2].tolist() == whole[-2:].tolist()
    with pytest.raises(ValueError, match="arrays on two devices"):
        whole[:2][...] = whole[-2:]


def test_axes_may_be_an_iterator(device):
    x = np.arange(24).reshape(4, 6)
    whole = vkdml.asarray(x, device=device)
    shards = vkdml.ShardedArray([whole[:2], whole[2:]])
    assert shards.argmax(axis=iter((0,))).tolist() == x.argmax(0).tolist()
    assert vkdml.array_api.reshape(whole.T, iter((4, 6))).tolist() == x.T.reshape(4, 6).tolist()
    assert np.reshape(whole.T, iter((4, 6))).tolist() == x.T.reshape(4, 6).tolist()
    assert vkdml.array_api.expand_dims(whole, iter((0, 2))).shape == (1, 4, 1, 6)
