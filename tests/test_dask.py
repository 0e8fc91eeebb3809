"""vkdml.dask: lazy results equal those of the whole array, however it is cut."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import deque
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from foreign_tests import imported
from separate import separate_device, with_tiles

import vkdml
import vkdml.dask
from vkdml import ops
from vkdml.integrations import dask_devices, dask_package

SHAPE = (5, 6, 7)
CHUNKS = [((2, 0, 3), (6,), (1, 6)), (2, 3, 4)]
AXES = [axis for count in range(4) for axis in itertools.combinations(range(3), count)]


@pytest.fixture(autouse=True)
def scheduler(device: vkdml.Device) -> Any:
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    """Few values, so that equals lie in many chunks, and NaNs."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, SHAPE).astype(np.float32)
    x[rng.random(SHAPE) < 0.1] = np.nan
    return x


def assert_same(lazy: Any, wanted: Any) -> None:
    computed = dask.compute(*lazy) if isinstance(lazy, tuple) else dask.compute(lazy)
    for a, got, whole in zip(
        lazy if isinstance(lazy, tuple) else (lazy,),
        computed,
        wanted if isinstance(wanted, tuple) else (wanted,),
        strict=True,
    ):
        assert type(got) is type(whole)
        assert a.dtype == (a.dtype if got.shape == () else got.dtype)  # scalars are in the machine's order
        assert (a.shape, got.dtype) == (whole.shape, whole.dtype)
        assert got.tobytes() == whole.tobytes()


MASKED = da.ma.masked_greater(da.from_array(np.array([1, 9, 3]), chunks=2), 5)
TAKES = {
    "argmax": vkdml.argmax,
    "argmax of a list": lambda x: vkdml.argmax([x]),
    "argmax of a sequence of lists": lambda x: vkdml.argmax(deque([[x]])),
    "slice1": lambda x: vkdml.slice1([x], (0, 0), (1, 3), (1, 1)),
    "asarray": vkdml.asarray,
    "asarray of a type": lambda x: vkdml.asarray(x, "f4"),
    "asarray on devices": lambda x: vkdml.asarray(x, device=[0]),
    "assignment": lambda x: vkdml.zeros(3, "i8").__setitem__(..., x),
    "indices": lambda x: vkdml.asarray(np.arange(10))[x],
    "lazily": lambda x: vkdml.dask.argmin(x).compute(),
    "lazily over no axis": lambda x: vkdml.dask.argmax(x, axis=()).compute(),
    "lazy windows": lambda x: vkdml.dask.slice1(x, 0, 3, 1).compute(),
}


@pytest.mark.parametrize("name", TAKES)
def test_masks_of_lazy_arrays_are_refused_and_others_are_taken(name: str) -> None:
    with pytest.raises(TypeError, match="the mask of this MaskedArray hides elements") as refused:
        TAKES[name](MASKED)
    assert str(refused.value).endswith(": dask.array.ma.filled(x, value) makes one")
    TAKES[name](da.from_array(np.array([1, 9, 3]), chunks=2))
    TAKES[name](da.ma.filled(MASKED, 0))


def test_a_dask_that_is_too_old_is_refused_with_its_version() -> None:
    dask_package.require_recent("2025.12.0")
    for version in ("2025.11.0", "2024.2.1"):
        with pytest.raises(ImportError, match=rf"needs dask 2025\.12 or newer, and {version} is installed"):
            dask_package.require_recent(version)


def test_a_delayed_array_is_computed() -> None:
    """It answers to every name, also to those of tables and of queries."""
    assert vkdml.argmax(dask.delayed(np.arange)(5)) == 4


def test_dasks_own_argmax_of_arrays_on_a_device_names_the_one_that_takes_them() -> None:
    host = np.array([3, 1, 9, 4])
    x = da.from_array(vkdml.asarray(host), chunks=2)
    for name in ("argmax", "argmin"):
        with pytest.raises(TypeError, match=rf"as like=; .* accepted are .*vkdml\.dask\.{name}"):
            getattr(x, name)().compute()
        assert getattr(vkdml.dask, name)(x).compute() == getattr(host, name)()


@pytest.mark.parametrize("element", ["int64", ">f4"])
def test_an_array_of_no_dimensions_gives_scalars(element: str) -> None:
    host = np.array(3, element)
    x = da.from_array(host)
    for axis in (None, ()):
        assert_same(vkdml.dask.argmax(x, axis, dtype="uint32"), vkdml.argmax(host, axis, dtype="uint32"))
        found = vkdml.dask.argmin(x, axis, return_values=True)
        assert_same(found, vkdml.argmin(host, axis, return_values=True))


def test_a_lazy_array_in_a_list_is_computed_once() -> None:
    computed = []

    def counted(block: np.ndarray) -> np.ndarray:
        computed.append(block.shape)
        return block

    x = da.from_array(np.array([1, 9, 3]), chunks=3).map_blocks(counted, meta=np.array((), np.int64))
    assert vkdml.argmax([x, [10, 0, 0]], 0).tolist() == [1, 0, 0]
    assert vkdml.asarray(x).tolist() == [1, 9, 3]
    assert computed == [(3,)] * 2


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_every_rule_holds_across_chunks(axis: tuple[int, ...], chunks: Any, numbers: np.ndarray) -> None:
    x = da.from_array(numbers, chunks=chunks)
    for number, (direction, nan_policy) in enumerate(
        itertools.product(("increasing", "decreasing"), ("propagate", "omit"))
    ):
        name = ("argmax", "argmin")[(number + len(axis)) % 2]
        options: Any = {
            "direction": direction,
            "nan_policy": nan_policy,
            "keepdims": number % 3 == 0,
            "return_values": True,
        }
        lazy = getattr(vkdml.dask, name)(x, axis, split_every=2, **options)
        assert isinstance(lazy, vkdml.ArgReduceResult)
        assert_same(lazy, getattr(vkdml, name)(numbers, axis, **options))


def test_the_first_of_equals_wins_across_chunks_that_dask_takes_in_another_order() -> None:
    host = np.zeros((6, 6))
    host[0, 5] = host[1, 0] = 1
    x = da.from_array(host, chunks=3)
    assert da.argmax(x).compute() == 6, "Dask's own has the rule by now"
    assert vkdml.dask.argmax(x).compute() == 5
    assert vkdml.dask.argmax(x, direction="decreasing").compute() == 6


def test_dask_does_not_fold_with_widths_below_2() -> None:
    host = np.zeros((4, 4))
    host[3, 3] = 1
    x = da.from_array(host, chunks=2)
    for wrong in ({0: 1}, {0: 0}, {-2: -1}, 1, 0, -1):
        width = next(iter(wrong.values())) if isinstance(wrong, dict) else wrong
        said = rf"split_every must be an integer of at least 2, or a dict .* by axis, not {width}$"
        with pytest.raises(ValueError, match=said):
            vkdml.dask.argmax(x, axis=0, split_every=wrong)
    with pytest.raises(np.exceptions.AxisError):
        vkdml.dask.argmax(x, axis=0, split_every={2: 2})
    with dask.config.set(split_every=-1), pytest.raises(ValueError, match="split_every must be"):
        vkdml.dask.argmax(x)
    for right in (None, False, 2, {0: 2}, {-2: 3}, {1: 0}, {}):
        assert vkdml.dask.argmax(x, axis=0, split_every=right).compute().tolist() == [0, 0, 0, 3]


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64", ">f8", "float16", "bfloat16"])
def test_values_come_bit_for_bit_in_the_arrays_type(dtype: str) -> None:
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    bits = np.random.default_rng(1).integers(0, 256, 24 * np.dtype(dtype).itemsize, np.uint8)
    host = (bits & (1 if dtype == "bool" else 255)).view(dtype).reshape(4, 6)
    x = da.from_array(host, chunks=(3, 4))
    for axis in (None, 0, 1):
        assert_same(
            vkdml.dask.argmin(x, axis, return_values=True, dtype="uint32"),
            vkdml.argmin(host, axis, return_values=True, dtype="uint32"),
        )


def test_indices_count_in_64_bits() -> None:
    """Dask's zeros are one element, repeated."""
    many = 1 << 40
    zeros = da.zeros((many, 2), chunks=(many, 1), dtype="int8")
    few = da.from_array(np.int8([[0, 0], [0, 7], [7, 0]]), chunks=(3, 1))
    x = da.concatenate([zeros, few, zeros])
    assert_same(vkdml.dask.argmax(x), np.int64(2 * (many + 1) + 1))
    assert_same(vkdml.dask.argmax(x, direction="decreasing"), np.int64(2 * (many + 2)))
    assert_same(vkdml.dask.argmax(x, 0), np.int64([many + 2, many + 1]))
    with pytest.raises(ValueError, match=f"{4 * many + 6} elements compete .* does not fit dtype int32"):
        vkdml.dask.argmax(x, dtype="int32")


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_windows(chunks: Any, numbers: np.ndarray) -> None:
    x = da.from_array(numbers, chunks=chunks)
    rng = np.random.default_rng(2)
    for _ in range(12):
        offsets = [int(rng.integers(0, size)) for size in SHAPE]
        sizes = [int(rng.integers(1, size - o + 1)) for size, o in zip(SHAPE, offsets, strict=True)]
        steps = [int(rng.choice([-5, -2, -1, 1, 2, 4])) for _ in SHAPE]
        lazy = vkdml.dask.slice1(x, offsets, sizes, steps)
        assert lazy.shape == vkdml.slice1(numbers, offsets, sizes, steps).shape
        assert_same(lazy, vkdml.slice1(numbers, offsets, sizes, steps))
    assert_same(
        vkdml.dask.slice1(x, (0, 0, 0), SHAPE, (-1, 1, 2), output_sizes=(2, 6, 1)),
        vkdml.slice1(numbers, (0, 0, 0), SHAPE, (-1, 1, 2), output_sizes=(2, 6, 1)),
    )
    assert_same(vkdml.dask.slice1(x, (0, 0, 0), (0, 6, 7), (1, 1, 1)), np.empty((0, 6, 7), np.float32))


def test_chunks_without_an_element_of_the_window_are_not_computed() -> None:
    computed: list[int] = []

    def noted(chunk: np.ndarray) -> np.ndarray:
        computed.extend(chunk.tolist())
        return chunk

    x = da.arange(100, chunks=10).map_blocks(noted, dtype="int64", meta=np.empty(0, "int64"))
    assert vkdml.dask.slice1(x, 15, 80, -30).compute().tolist() == [94, 64, 34]
    assert sorted(computed) == [*range(30, 40), *range(60, 70), *range(90, 100)]


def test_nothing_is_computed_before_it_is_asked_for_and_values_share_the_work() -> None:
    lock, computed = threading.Lock(), []

    def noted(chunk: np.ndarray) -> np.ndarray:
        with lock:
            computed.append(len(chunk))
        return chunk

    x = da.arange(40, chunks=10).map_blocks(noted, dtype="int64", meta=np.empty(0, "int64"))
    lazy = vkdml.dask.argmin(x, return_values=True)
    assert computed == []
    assert dask.compute(*lazy) == (0, 0)
    assert computed == [10] * 4
    assert vkdml.dask.argmin(x).name == vkdml.dask.argmin(x).name
    assert vkdml.dask.argmin(x).name != vkdml.dask.argmax(x).name
    assert vkdml.dask.argmin(x).name != vkdml.dask.argmin(x, direction="decreasing").name


def test_what_is_refused_is_refused_before_anything_is_computed() -> None:
    x = da.zeros((4, 6), chunks=(2, 3))
    for wrong in (np.zeros(3), [1, 2], None):
        with pytest.raises(TypeError, match=r"accepted is a dask.array.Array; vkdml.argmax takes others"):
            vkdml.dask.argmax(wrong)
        with pytest.raises(TypeError, match=r"accepted is a dask.array.Array"):
            vkdml.dask.slice1(wrong, 0, 1, 1)
    with pytest.raises(np.exceptions.AxisError):
        vkdml.dask.argmax(x, 2)
    with pytest.raises(ValueError, match="duplicate value in axis"):
        vkdml.dask.argmax(x, (0, 0))
    with pytest.raises(ValueError, match="direction 'up' is unknown"):
        vkdml.dask.argmax(x, direction="up")
    with pytest.raises(TypeError, match="cannot be compared"):
        vkdml.dask.argmax(x.astype("complex64"))
    with pytest.raises(ValueError, match="attempt to get argmin of an empty sequence"):
        vkdml.dask.argmin(x[:0], 0)
    assert vkdml.dask.argmin(x[:0], 1).compute().shape == (0,)
    with pytest.raises(ValueError, match="not inside its 6 elements"):
        vkdml.dask.slice1(x, (0, 3), (4, 4), (1, 1))
    with pytest.raises(TypeError, match="cannot be moved"):
        vkdml.dask.slice1(x.astype("V3"), (0, 0), (1, 1), (1, 1))


def test_chunks_of_unknown_size() -> None:
    host = np.arange(40).reshape(10, 4) * 7 % 11
    x = da.from_array(host, chunks=(5, 2))
    unknown = x[x[:, 0] > 2]
    kept = host[host[:, 0] > 2]
    for axis in (0, None, (0, 1)):
        with pytest.raises(ValueError, match=r"unknown chunksize.*x\.compute_chunk_sizes\(\) finds them"):
            vkdml.dask.argmax(unknown, axis)
    with pytest.raises(ValueError, match=r"not known before .*compute_chunk_sizes"):
        vkdml.dask.slice1(unknown, (0, 0), (1, 1), (1, 1))
    assert vkdml.dask.argmax(unknown, 1).compute().tolist() == kept.argmax(1).tolist()
    assert vkdml.dask.argmax(unknown.compute_chunk_sizes()).compute() == kept.argmax()
    single = da.from_array(host, chunks=-1)
    single = single[single[:, 0] > 2]
    assert vkdml.dask.argmax(single).compute() == kept.argmax()
    assert vkdml.dask.argmax(single, 0).compute().tolist() == kept.argmax(0).tolist()
    none = da.from_array(host, chunks=-1)
    with pytest.raises(ValueError, match="attempt to get argmax of an empty sequence"):
        vkdml.dask.argmax(none[none[:, 0] > 99], 0).compute()


@pytest.mark.parametrize("unknown", [(0,), (1,), (2,), (1, 2), (0, 1, 2)], ids=str)
def test_several_axes_of_which_some_have_a_single_chunk_of_unknown_size(unknown: tuple[int, ...]) -> None:
    host = np.random.default_rng(4).integers(0, 4, (4, 5, 3))
    x = da.from_array(host, chunks=-1)
    for axis in unknown:
        kept = np.arange(host.shape[axis]) % 3 != 1
        host = host.compress(kept, axis)
        x = da.compress(da.from_array(kept, chunks=-1), x, axis)
    assert [axis for axis in range(3) if np.isnan(x.shape[axis])] == list(unknown)
    for axis in AXES:
        for direction in ("increasing", "decreasing"):
            options: Any = {"direction": direction, "return_values": True}
            lazy = vkdml.dask.argmax(x, axis, **options)
            computed, wanted = dask.compute(*lazy), vkdml.argmax(host, axis, **options)
            assert np.array_equal(computed[0], wanted.indices), axis
            assert np.array_equal(computed[1], wanted.values), axis


def test_a_chunk_of_another_type_than_dask_was_told_is_refused() -> None:
    host = np.int32([[-5, 3, 9], [7, -2, 8]])
    for given, told in (("f4", "i4"), ("i8", "i4"), ("u4", "i4"), ("i4", "i8")):
        x = da.from_array(host, chunks=(1, 3)).map_blocks(lambda b, given=given: b.astype(given), dtype=told)
        said = f"elements are said to be {np.dtype(told)}, and these are {np.dtype(given)}"
        with pytest.raises(TypeError, match=said):
            vkdml.argmax(x)
        where = r"argmin of \(1, 3\) .*: chunk \(., 0\) of this dask Array"
        with pytest.raises(TypeError, match=f"{where}: its {said}"):
            vkdml.dask.argmin(x).compute()
        with pytest.raises(TypeError, match=said):
            vkdml.dask.slice1(x, (0, 0), (2, 3), (1, -1)).compute()
    swapped = da.from_array(host, chunks=(1, 3)).map_blocks(lambda b: b.astype(">i4"), dtype="i4")
    assert dask.compute(*vkdml.dask.argmax(swapped, return_values=True)) == (2, 9)
    meta = np.empty((0, 0), "i8")
    lists = da.from_array(host, chunks=(1, 3)).map_blocks(lambda b: b.tolist(), dtype="i8", meta=meta)
    assert vkdml.dask.argmax(lists).compute() == 2
    number = da.from_array(host, chunks=-1).map_blocks(lambda b: int(b.max()), dtype="i8", drop_axis=(0, 1))
    assert vkdml.dask.argmax(number).compute() == 0


@pytest.mark.parametrize("chunks", [(2, 3), ((2, 1, 2, 1), (3, 3)), ((1, 5), (0, 6))], ids=str)
def test_a_chunk_of_another_shape_than_dask_was_told_is_refused(chunks: Any) -> None:
    x = da.from_array(np.arange(36).reshape(6, 6), chunks=chunks)
    told = x.map_blocks(lambda b, block_id: b[: len(b) - (block_id == (1, 1))], dtype=x.dtype)
    said = r"chunk \(1, 1\) of this dask Array: its part has shape .*; accepted is .*, as was asked for"
    for axis in (None, 0, 1):
        with pytest.raises(ValueError, match=said):
            vkdml.dask.argmax(told, axis).compute()
    with pytest.raises(ValueError, match=said):
        vkdml.dask.slice1(told, (0, 0), (6, 6), (-1, 1)).compute()
    assert vkdml.dask.argmax(told.blocks[:1]).compute() == x.chunks[0][0] * 6 - 1


@pytest.mark.parametrize(
    "chunks",
    [
        ((0, 0, 2, 4), (2, 2, 2)),
        ((6,), (0, 0, 6, 0, 0)),
        ((0, 0, 0, 6), (0, 0, 0, 6)),
        ((0, 6), (3, 3, 0, 0)),
    ],
    ids=str,
)
def test_groups_of_empty_chunks_beside_others(chunks: Any) -> None:
    host = np.random.default_rng(5).integers(0, 3, (6, 6))
    x = da.from_array(host, chunks=chunks)
    for axis in (0, 1, (0, 1)):
        for split_every in (2, 3, None, {0: 2, 1: 3}):
            lazy = vkdml.dask.argmax(x, axis, split_every=split_every, return_values=True)
            assert_same(lazy, vkdml.argmax(host, axis, return_values=True))


def test_a_computation_carries_nothing_of_a_device(device: vkdml.Device) -> None:
    x = da.zeros((4, 6), chunks=(2, 3))
    for wrong in (device, [device], (0, device)):
        with pytest.raises(TypeError, match=r"is open in this process.*accepted are a number"):
            vkdml.dask.argmax(x, device=wrong)
        with pytest.raises(TypeError, match=r"is open in this process"):
            vkdml.dask.slice1(x, (0, 0), (1, 1), (1, 1), device=wrong)
    vkdml.argmax(np.zeros(3), device=device)  # so that there is something that could be carried
    for lazy in (
        vkdml.dask.argmax(x, device=device.info.index),
        vkdml.dask.slice1(x, (0, 0), (4, 6), (1, -1)),
    ):
        sent = pickle.dumps(lazy)
        assert b"runtime.device" not in sent
        assert b"_native" not in sent
        assert np.array_equal(pickle.loads(sent).compute(), lazy.compute())


def test_device_is_looked_up_where_a_task_runs(device: vkdml.Device) -> None:
    x = da.arange(9, chunks=3)
    assert vkdml.dask.argmax(x, device=device.info.uuid).compute() == 8
    assert vkdml.dask.argmax(x, device=[device.info.index]).compute() == 8
    lazy = vkdml.dask.argmax(x, device="no such device")
    with pytest.raises(vkdml.NoDeviceError, match="no device matches 'no such device'"):
        lazy.compute()


def test_workers_take_the_devices_of_the_best_type_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Info:
        def __init__(self, index: int, kind: str) -> None:
            self.index, self.type, self.heaps = index, kind, (1,)

    infos = [Info(0, "software"), Info(1, "discrete"), Info(2, "integrated"), Info(3, "discrete")]
    monkeypatch.setattr(dask_devices, "devices", lambda: infos)
    assert [dask_devices.device_of_place(place) for place in range(5)] == [1, 3, 1, 3, 1]
    monkeypatch.setattr(dask_devices, "devices", lambda: infos[:1])
    assert [dask_devices.device_of_place(place) for place in range(2)] == [0, 0]


def test_places_are_taken_once_and_freed_with_their_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Worker:
        pass

    monkeypatch.setattr(dask_devices, "device_of_place", lambda place: 100 + place)
    turns = dask_devices._Turns()
    first, second = Worker(), Worker()
    numbers = [turns.device_of(worker) for worker in (first, second, first, second)]
    assert numbers[:2] == numbers[2:]
    assert numbers[0] < numbers[1]
    del first
    assert turns.device_of(Worker()) == numbers[0]


# ---- a Dask array given to the plain functions --------------------------------------------------------


@pytest.mark.parametrize("chunks", [(16, 20, 30), ((10, 30, 24), (40,), (10, 20))], ids=["even", "uneven"])
def test_the_plain_functions_read_by_pieces(chunks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = np.random.default_rng(3).integers(0, 99, (64, 40, 30)).astype(np.uint8)
    small_tiles = with_tiles(separate_device(), 16 << 10)
    lock, of_chunks, of_pieces = threading.Lock(), [], []

    def noted(chunk: np.ndarray) -> np.ndarray:
        with lock:
            of_chunks.append(chunk.shape)
        return chunk

    compute = da.Array.compute

    def watched(self: da.Array, **options: Any) -> Any:
        of_pieces.append(self.nbytes)
        return compute(self, **options)

    monkeypatch.setattr(da.Array, "compute", watched)
    x = da.from_array(host, chunks=chunks).map_blocks(noted, dtype="u1", meta=np.empty((0,) * 3, "u1"))
    for axis in (None, 0, (1, 2)):
        of_chunks.clear()
        assert np.array_equal(vkdml.argmax(x, axis, device=small_tiles), vkdml.argmax(host, axis))
        if chunks == (16, 20, 30):
            assert len(of_chunks) == x.npartitions, "each chunk is computed once"
    window = ((3, 0, 7), (61, 40, 20), (-2, 3, 1))
    assert np.array_equal(vkdml.slice1(x, *window, device=small_tiles), vkdml.slice1(host, *window))
    assert max(of_pieces) <= host.nbytes / 2


def test_a_dask_array_is_no_place_to_write_to() -> None:
    x = da.zeros((4, 6), chunks=(2, 3))
    with pytest.raises(TypeError, match="out is a Dask array, which holds no elements"):
        vkdml.argmax(x, 0, out=da.zeros(6, dtype="int64"))
    with pytest.raises(TypeError, match="out is a Dask array, which holds no elements"):
        vkdml.slice1(x, (0, 0), (4, 6), (1, 1), out=x)


def test_a_store_that_a_dask_array_reads_is_no_place_to_write_to(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    z, other = (
        zarr.open_array(name, mode="w", shape=(4, 6), chunks=(2, 3), dtype="i4") for name in ("x", "y")
    )
    z[...] = host = np.arange(24, dtype="i4").reshape(4, 6)
    again = zarr.open_array(str(tmp_path / "x"), mode="r+")
    for x in (da.from_zarr(z), da.from_array(z, chunks=(1, 6)), da.from_zarr("x") + 0):
        with pytest.raises(ValueError, match="out is the array that is read"):
            vkdml.slice1(x, (0, 0), (4, 6), (-1, 1), out=again)
        assert vkdml.slice1(x, (0, 0), (4, 6), (-1, 1), out=other) is other
        assert np.array_equal(other[...], host[::-1])


def test_a_dask_array_whose_shape_is_not_known_is_computed_first() -> None:
    x = da.arange(10, chunks=5)
    assert vkdml.argmax(x[x > 1]) == 7


# ---- Dask's own tests ---------------------------------------------------------------------------------


REDUCTIONS = "dask.array.tests.test_reductions"


def of_dask(name: str) -> Any:
    """One of Dask's own functions, as vkdml has it: the same arguments."""

    def ours(x: da.Array, axis: Any = None, split_every: Any = None, keepdims: bool = False) -> da.Array:
        if isinstance(axis, tuple):
            raise TypeError("Dask's own takes one axis, and its tests say so")
        return getattr(vkdml.dask, name.replace("nan", ""))(
            x,
            axis,
            split_every=split_every,
            keepdims=keepdims,
            nan_policy="omit" if "nan" in name else "propagate",
        )

    return ours


@pytest.mark.parametrize("name", ["argmax", "nanargmin"])
def test_dask_s_own_cases(name: str) -> None:
    imported(REDUCTIONS).test_arg_reductions(of_dask(name), getattr(np, name))


@pytest.mark.parametrize("name", ["argmax", "nanargmax"])
def test_dask_s_own_cases_of_unknown_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = imported(REDUCTIONS)
    monkeypatch.setattr(da, name, of_dask(name))
    theirs.test_arg_reductions_unknown_chunksize(name)
    theirs.test_arg_reductions_unknown_chunksize_2d(name)
    theirs.test_arg_reductions_unknown_single_chunksize(name)


def test_the_operators_are_the_public_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a wrong result of theirs shows in these tests."""
    right = ops.argmax

    def wrong(*arguments: Any, **options: Any) -> Any:
        found = right(*arguments, **options)
        return found._replace(indices=found.indices * 0)

    monkeypatch.setattr(ops, "argmax", wrong)
    assert vkdml.dask.argmax(da.arange(4, chunks=4)).compute() == 0
