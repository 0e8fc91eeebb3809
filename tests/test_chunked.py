"""Arrays in chunks, in files and stores: read and written by pieces, with the answers that NumPy gives."""

from __future__ import annotations

import contextvars
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import oracle
import pytest
import zarr
from checking import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from separate import separate_device, with_tiles

import vkdml
from vkdml.arrays.chunked import as_chunked
from vkdml.operators import tile_ring

KIB = 1 << 10
# Python 3.10 has a zarr that knows only format 2.
FORMATS = (2, 3) if hasattr(zarr, "create_array") else (2,)
LIBRARIES = (*(f"zarr {version}" for version in FORMATS), "h5py", "h5py in one piece")


def new_zarr(path: Path, version: int, **options: Any) -> Any:
    if hasattr(zarr, "create_array"):
        return zarr.create_array(str(path), zarr_format=version, **options)
    return zarr.open_array(str(path), mode="w", **options)


class Pieces:
    """An array in chunks, made for the tests: it knows what was read and written, and by which threads."""

    def __init__(self, array: np.ndarray, chunks: tuple[int, ...], **options: Any) -> None:
        self._array = array
        self.chunks, self.shape, self.dtype = chunks, array.shape, array.dtype
        self.read: list[tuple[slice, ...]] = []
        self.written: list[tuple[slice, ...]] = []
        self.threads: set[str] = set()
        self.busy: list[tuple[float, float]] = []
        self.seconds = options.get("seconds", 0.0)
        self.fails_at = options.get("fails_at")

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
        assert type(index) is tuple
        assert all(s.start >= 0 and s.step >= 1 for s in index), "ascending positions only"
        self.threads.add(threading.current_thread().name)
        self.read.append(index)
        if len(self.read) == self.fails_at:
            raise OSError("the disk is on fire")
        self._sleep()
        return self._array[index].copy()

    def _sleep(self) -> None:
        begin = time.monotonic()
        time.sleep(self.seconds)
        self.busy.append((begin, time.monotonic()))

    def __setitem__(self, index: tuple[slice, ...], value: np.ndarray) -> None:
        self.written.append(index)
        self._sleep()
        self._array[index] = value

    def touched(self, indices: list[tuple[slice, ...]]) -> np.ndarray:
        """How often each chunk was touched."""
        counts = np.zeros([-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True)], int)
        for index in indices:
            places = [
                np.unique(np.arange(s.start, s.stop, s.step or 1) // c)
                for s, c in zip(index, self.chunks, strict=True)
            ]
            counts[np.ix_(*places)] += 1
        return counts


@pytest.fixture(scope="module")
def two_devices(device):
    """Of one driver; with tiles of a KiB."""
    return [with_tiles(separate_device(), KIB), with_tiles(separate_device(), KIB)]


@pytest.fixture
def tiny(two_devices):
    return two_devices[0]


def stored(library: str, folder: Path, x: np.ndarray, chunks: tuple[int, ...] | None, name: str = "x") -> Any:
    """An array of a library, on disk."""
    if library.startswith("zarr"):
        version = int(library[-1])
        chunks = tuple(max(c, 1) for c in chunks)
        z = new_zarr(folder / f"{name}{version}", version, shape=x.shape, dtype=x.dtype, chunks=chunks)
        z[...] = x
        return z
    file = h5py.File(folder / f"{name}.h5", "w")
    chunked = x.ndim and x.size and library == "h5py"
    return file.create_dataset(
        "x", data=x, chunks=tuple(map(min, chunks, x.shape)) if chunked else None,
        compression="gzip" if chunked else None,
    )  # fmt: skip


# ---- the answers ----------------------------------------------------------------------------------


@st.composite
def chunked_arrays(draw):
    rank = draw(st.integers(0, 4))
    # Drawn evenly, so that most arrays have many tiles.
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    shape = tuple(map(int, rng.integers(1, (1, 4000, 100, 24, 12)[rank], rank, endpoint=True)))
    chunks = tuple(int(rng.integers(1, max(size * 5 // 4, 1), endpoint=True)) for size in shape)
    name = draw(st.sampled_from(["float32", "float16", "uint8", ">i4", ">f8", "bool", "int64"]))
    # Few distinct values: ties lie in many tiles.
    x = rng.integers(0, 4, shape).astype(name)
    if x.dtype.kind == "f" and draw(st.booleans()):
        x[rng.random(shape) < 0.01] = np.nan
    return x, chunks


@pytest.mark.parametrize("direction", oracle.DIRECTIONS)
@pytest.mark.parametrize("chunks", [(55, 22), (20, 64), (55, 64)])
def test_tiles_of_the_last_piece_start_elsewhere(tiny, chunks, direction):
    """Fewer rows in a piece make wider tiles: one holds columns that have a candidate, and others."""
    x = np.random.default_rng(0).integers(0, 4, (86, 64)).astype("float32")
    got = vkdml.argmax(Pieces(x, chunks), 0, return_values=True, device=tiny, direction=direction)
    for found, wanted in zip(got, oracle.argreduce(x, 0, direction=direction), strict=True):
        assert_same(found, wanted, f"chunks of {chunks}, {direction}")


@settings(max_examples=40, deadline=None)
@given(chunked_arrays(), st.data())
def test_any_reduction(two_devices, drawn, data):
    x, chunks = drawn
    z = Pieces(x, chunks)
    axis = data.draw(st.none() | st.sets(st.integers(0, x.ndim - 1)).map(tuple) if x.ndim else st.none())
    call: dict[str, Any] = {
        "direction": data.draw(st.sampled_from(oracle.DIRECTIONS)),
        "nan_policy": data.draw(st.sampled_from(oracle.NAN_POLICIES)),
        "keepdims": data.draw(st.booleans()),
    }
    op = data.draw(st.sampled_from(oracle.OPERATORS))
    devices = two_devices[: data.draw(st.integers(1, 2))]
    got = getattr(vkdml, op)(z, axis, return_values=True, device=devices, **call)
    want = oracle.argreduce(x, axis, op=op, **call)
    for found, wanted in zip(got, want, strict=True):
        assert_same(found, wanted, f"{op} of {x.dtype} {x.shape} in {chunks} over {axis}, {call}")
    if z.read and np.prod(chunks, dtype=int) * x.itemsize <= 4 * KIB:
        assert (z.touched(z.read) == 1).all(), "each chunk is read once"


@settings(max_examples=40, deadline=None)
@given(chunked_arrays(), st.data())
def test_any_window(two_devices, drawn, data):
    x, chunks = drawn
    window = []
    for size in x.shape:
        offset = data.draw(st.integers(0, size - 1))
        step = data.draw(st.integers(1, 5) | st.integers(1, size)) * data.draw(st.sampled_from((1, -1)))
        window.append((offset, data.draw(st.integers(1, size - offset)), step))
    call = tuple(zip(*window, strict=True)) if window else ((), (), ())
    want = oracle.slice1(x, *call, None)
    z = Pieces(x, chunks)
    devices = two_devices[: data.draw(st.integers(1, 2))]
    what = f"{x.dtype} {x.shape} in {chunks}, window {call}"
    assert_same(vkdml.slice1(z, *call, device=devices), want, what)
    if np.prod(chunks, dtype=int) * x.itemsize <= 4 * KIB:
        assert (z.touched(z.read) <= 1).all(), f"no chunk is read twice: {what}"
    out_chunks = tuple(data.draw(st.integers(1, size)) for size in want.shape)
    source = data.draw(st.sampled_from((x, z)))
    out = Pieces(np.zeros(want.shape, want.dtype), out_chunks)
    assert vkdml.slice1(source, *call, out=out, device=devices) is out
    assert_same(out._array, want, f"{what}, written in {out_chunks}")
    if np.prod(out_chunks, dtype=int) * x.itemsize <= 4 * KIB // 5**x.ndim:
        assert (out.touched(out.written) == 1).all(), f"no chunk is written twice: {what}"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["float16", ">i2"])
def test_files_of_each_library(tiny, tmp_path, library, name):
    x = np.random.default_rng(3).integers(0, 30, (37, 50, 3)).astype(name)
    z = stored(library, tmp_path, x, (10, 16, 2))
    assert as_chunked(z) is not None
    for axis in (None, 0, 1, (0, 2)):
        want = oracle.argreduce(x, axis, direction="decreasing")
        got = vkdml.argmax(z, axis, direction="decreasing", return_values=True, device=tiny)
        for found, wanted in zip(got, want, strict=True):
            assert_same(found, wanted, f"{library} {axis}")
    window = ((1, 4, 0), (36, 45, 3), (-3, 2, -1))
    want = oracle.slice1(x, *window, None)
    assert_same(vkdml.slice1(z, *window, device=tiny), want, library)
    out = stored(library, tmp_path, np.zeros_like(want), (5, 5, 3), "out")
    assert vkdml.slice1(z, *window, out=out, device=tiny) is out
    assert np.array_equal(out[...], want)
    indices = stored(library, tmp_path, np.zeros((37, 3), np.int64), (10, 3), "indices")
    assert vkdml.argmax(z, 1, out=indices, device=tiny) is indices
    assert np.array_equal(indices[...], x.argmax(1))


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_dimension_and_no_element(tmp_path, library):
    scalar = stored(library, tmp_path, np.array(2.5, ">f4"), (), "scalar")
    assert vkdml.argmax(scalar, return_values=True) == (0, 2.5)
    assert vkdml.slice1(scalar, (), (), ()) == np.float32(2.5)
    empty = stored(library, tmp_path, np.zeros((0, 4), np.float32), (2, 2), "empty")
    assert vkdml.argmax(empty, 1).shape == (0,)
    with pytest.raises(ValueError, match="argmax of an empty sequence"):
        vkdml.argmax(empty, 0)
    assert vkdml.slice1(empty, (0, 1), (0, 2), (1, 1)).shape == (0, 2)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_stride_of_any_length_takes_one_element(tmp_path, library):
    x = np.arange(24, dtype=np.int16).reshape(4, 6)
    z = stored(library, tmp_path, x, (2, 3), "x")
    assert vkdml.slice1(z, (1, 0), (3, 6), (2**70, -(2**63))).tolist() == [[11]]
    assert vkdml.slice1(z, (0, 1), (4, 5), (2, 2**64)).tolist() == [[1], [13]]


@pytest.mark.parametrize("name", [">c8", ">c16", "c16", "M8[s]", "V4", "S8", ">u8", "<f2"])
@pytest.mark.parametrize("step", [1, -3])
def test_elements_of_any_kind_move_bit_for_bit(tiny, name, step):
    dtype = np.dtype(name)
    x = np.random.default_rng(6).integers(0, 256, 1000 * dtype.itemsize, np.uint8).view(dtype)
    want = oracle.slice1(x, (5,), (990,), (step,), None)
    z = Pieces(x, (60,))
    assert_same(vkdml.slice1(z, 5, 990, step, device=tiny), want, name)
    for source in (x, z):
        out = Pieces(np.zeros(want.shape, dtype), (70,))
        vkdml.slice1(source, 5, 990, step, out=out, device=tiny)
        assert_same(out._array, want, name)


def test_out_may_have_the_other_byte_order(tiny):
    x = np.arange(1000, dtype=">i4")
    for source in (x, Pieces(x, (60,))):
        out = Pieces(np.zeros(1000, "<i4"), (70,))
        vkdml.slice1(source, 0, 1000, 1, out=out, device=tiny)
        assert np.array_equal(out._array, x)
    native = Pieces(x, (60,))
    native._array = x.astype("<i4")  # what is read is in another order than it said
    assert np.array_equal(vkdml.slice1(native, 0, 1000, 1, device=tiny), x)
    assert vkdml.argmax(native, return_values=True, device=tiny) == (999, 999)


def test_missing_chunks_hold_the_fill_value(tiny, tmp_path):
    for version in FORMATS:
        path = tmp_path / str(version)
        z = new_zarr(path, version, shape=(60, 60), chunks=(7, 9), dtype="f4", fill_value=3)
        z[14:21, 18:27] = -5
        assert vkdml.argmin(z, device=tiny) == 14 * 60 + 18
        assert vkdml.argmax(z, direction="decreasing", device=tiny, return_values=True) == (3599, 3)


def test_a_dataset_of_a_closed_file_is_named(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", data=np.arange(3.0))
    without = "this Dataset has no shape: its file was closed, .*; accepted are arrays in open files$"
    for name, call in (("argmax", vkdml.argmax), ("slice1", lambda x: vkdml.slice1(x, 0, 3, 1))):
        with pytest.raises(TypeError, match=rf"^{name} of Dataset: {without}"):
            call(dataset)
    with pytest.raises(TypeError, match=rf"^slice1 of \(3,\) float64: {without}"):
        vkdml.slice1(np.arange(3.0), 0, 3, 1, out=dataset)
    with pytest.raises(TypeError, match=rf"^asarray of Dataset: {without}"):
        vkdml.asarray(dataset)


def test_a_dataset_without_a_shape_is_named(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        nothing = file.create_dataset("x", data=h5py.Empty("f4"))
        with pytest.raises(TypeError, match=r"^argmax of Dataset: .*, or it was made without one; accepted"):
            vkdml.argmax(nothing)


@pytest.mark.skipif(3 not in FORMATS, reason="shards are of format 3")
def test_shards_are_written_once_and_their_chunks_read(tiny, tmp_path):
    x = np.random.default_rng(1).integers(0, 99, (64, 64)).astype("i4")
    z = zarr.create_array(str(tmp_path / "z"), shape=x.shape, chunks=(4, 4), shards=(16, 16), dtype="i4")
    assert as_chunked(z).chunks == (4, 4)
    assert as_chunked(z).written_chunks == (16, 16)
    vkdml.slice1(x, (0, 0), x.shape, (1, 1), out=z, device=tiny)
    assert np.array_equal(z[...], x)
    assert vkdml.argmax(z, device=tiny) == x.argmax()


def test_indices_have_the_type_of_an_out_in_chunks_in_either_byte_order(tiny, tmp_path):
    ts = pytest.importorskip("tensorstore")
    x = np.random.default_rng(1).integers(0, 99, (40, 70)).astype("i4")
    spec = {"driver": "zarr", "kvstore": {"driver": "memory"}}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for number, out in enumerate(
            (
                file.create_dataset("big", shape=(70,), dtype=">i8"),
                new_zarr(tmp_path / "z", FORMATS[0], shape=(70,), chunks=(9,), dtype=">u4"),
                ts.open(spec, create=True, dtype=ts.uint32, shape=(70,)).result(),
            )
        ):
            for dtype in (None, ("int64", "uint32", "uint32")[number]):
                vkdml.argmax(x, 0, dtype=dtype, out=out, device=tiny)
                assert np.array_equal(np.asarray(out[...]), x.argmax(0))
                vkdml.argmin(x, 0, dtype=dtype, out=(out, None), return_values=True, device=tiny)
                assert np.array_equal(np.asarray(out[...]), x.argmin(0))
        unfit = file.create_dataset("unfit", shape=(70,), dtype=">f8")
        with pytest.raises(TypeError, match="out has type >f8: indices cannot be float64; accepted"):
            vkdml.argmax(x, 0, out=unfit)
    with pytest.raises(TypeError, match="out has type >i8: indices cannot be >i8; accepted"):
        vkdml.argmax(x, 0, out=np.empty(70, ">i8"))


def test_tensorstore(tiny):
    ts = pytest.importorskip("tensorstore")
    x = np.random.default_rng(1).integers(0, 99, (40, 70)).astype("i4")
    spec = {"driver": "zarr", "kvstore": {"driver": "memory"}}
    t = ts.open(
        spec, create=True, dtype=ts.int32, shape=x.shape, chunk_layout=ts.ChunkLayout(chunk_shape=[6, 9])
    ).result()
    vkdml.slice1(x, (0, 0), x.shape, (1, 1), out=t, device=tiny)
    assert as_chunked(t).chunks == (6, 9)
    assert np.array_equal(vkdml.argmax(t, 0, device=tiny), x.argmax(0))
    # A view's indices begin elsewhere.
    assert np.array_equal(vkdml.argmin(t[5:, 3:60], 1, device=tiny), x[5:, 3:60].argmin(1))


# ---- which objects --------------------------------------------------------------------------------


def test_what_is_read_by_pieces_and_what_as_before():
    x = np.arange(12.0).reshape(3, 4)
    assert as_chunked(Pieces(x, (2, 2))) is not None

    class Lacking(Pieces):
        pass

    for chunks in (None, ((2, 1), (4,)), (2,), [2, 2], (2, True), "22", (2.0, 2)):
        lacking = Lacking(x, (2, 2))
        lacking.chunks = chunks
        assert as_chunked(lacking) is None, chunks
    for name in ("__array_interface__", "__dlpack__", "__dask_graph__", "__cuda_array_interface__"):
        in_memory = type("InMemory", (Pieces,), {name: None})(x, (2, 2))
        assert as_chunked(in_memory) is None, name
    for plain in (x, x.tolist(), 3, x[0, 0], np.ma.array(x), memoryview(x), range(3), "12"):
        assert as_chunked(plain) is None, type(plain)


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("chunks", (2,), "its chunks (2,) are not a tuple with an integer for each of 2 dimensions"),
        ("chunks", None, "its chunks None are not"),
        ("shape", [3, 4], "its shape [3, 4] is not a tuple of integers"),
        ("dtype", float, "its dtype <class 'float'> is not a numpy.dtype"),
    ],
)
def test_what_is_nearly_an_array_in_chunks_is_told_what_is_missing(attribute, value, said):
    class Nearly:
        shape, dtype, chunks = (3, 4), np.dtype("f4"), (2, 2)

        def __getitem__(self, index):
            raise AssertionError("nothing is read")

    setattr(Nearly, attribute, value)
    with pytest.raises(TypeError, match=re.escape(f"this Nearly is no array in chunks: {said}")):
        vkdml.argmax(Nearly())


def test_neither_library_is_imported():
    script = (
        "import sys, vkdml; vkdml.argmax([1, 2]); print({'zarr', 'h5py', 'tensorstore'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "set()\n", done.stderr


# ---- reading, computing and writing at the same time ----------------------------------------------


def test_a_thread_reads_ahead_while_the_caller_works(tiny):
    x = np.arange(4096, dtype=np.int32)
    z = Pieces(x, (256,))
    ahead = []
    vkdml.argmax(z, device=tiny, progress=lambda done, total: ahead.append(len(z.read) - done // KIB))
    assert len(ahead) == 16
    assert all(name.startswith("vkdml read") for name in z.threads)
    # A piece is finished, one is on the device or to be staged, and two are read before they are asked for.
    assert max(ahead) <= 5


def overlapping(some: list[tuple[float, float]], others: list[tuple[float, float]]) -> int:
    """How many of some spans of time overlap another."""
    return sum(any(b < end and begin < e for b, e in others) for begin, end in some)


def test_reading_and_writing_overlap(tiny):
    x = np.arange(20 * 256, dtype=np.int32)
    z, out = Pieces(x, (256,), seconds=0.02), Pieces(np.zeros_like(x), (256,), seconds=0.02)
    vkdml.slice1(z, 0, x.size, 1, out=out, device=tiny)
    assert (len(z.busy), len(out.busy)) == (20, 20)
    assert overlapping(z.busy, out.busy) >= 10
    assert np.array_equal(out._array, x)


def test_reading_overlaps_what_the_caller_does(tiny, monkeypatch):
    """The caller waits for the device: here each wait is made longer, as if kernels took their time."""
    wait = tile_ring.Execution.wait
    device_busy: list[tuple[float, float]] = []

    def slow_wait(self):
        begin = time.monotonic()
        time.sleep(0.02)
        wait(self)
        device_busy.append((begin, time.monotonic()))

    monkeypatch.setattr(tile_ring.Execution, "wait", slow_wait)
    z = Pieces(np.arange(20 * 256, dtype=np.int32), (256,), seconds=0.02)
    assert vkdml.argmax(z, device=tiny) == 20 * 256 - 1
    assert len(device_busy) == 20
    assert overlapping(z.busy, device_busy) >= 10


def test_progress_counts_every_byte_once(two_devices):
    x = np.arange(100 * 70, dtype=np.int16).reshape(100, 70)
    for devices in (two_devices[:1], two_devices):
        told = []
        vkdml.argmax(
            Pieces(x, (9, 30)), 0, device=devices, progress=lambda *said, told=told: told.append(said)
        )
        assert told[-1] == (x.nbytes, x.nbytes)
        assert [done for done, _ in told] == sorted({done for done, _ in told})
        assert len(told) > 5


def test_chunks_of_some_tiles_are_read_and_written_once(tiny):
    x = np.random.default_rng(4).integers(0, 1 << 30, 3000, np.int32)
    z, out = Pieces(x, (1000,)), Pieces(np.zeros_like(x[:2900]), (900,))
    told = []
    progress = lambda done, total: told.append(done)  # noqa: E731
    assert np.array_equal(vkdml.slice1(z, 50, 2900, -1, device=tiny, progress=progress), x[50:2950][::-1])
    assert (z.touched(z.read) == 1).all()
    assert len(told) > 8
    vkdml.slice1(x, 50, 2900, -1, out=out, device=tiny)
    assert np.array_equal(out._array, x[50:2950][::-1])
    assert (out.touched(out.written) == 1).all()


def test_chunks_between_those_that_are_taken_are_not_read(tiny):
    x = np.arange(9000, dtype=np.int32)
    z = Pieces(x, (10,))
    assert np.array_equal(vkdml.slice1(z, 5, 8900, -100, device=tiny), x[5:8905][::-1][::100])
    assert z.touched(z.read).sum() == 89


@pytest.mark.parametrize("several", [False, True])
def test_what_is_read_at_once_is_read_by_the_caller(two_devices, several):
    z = Pieces(np.arange(1000, dtype=np.int32), (1000,))
    devices = two_devices[: 1 + several]
    assert vkdml.argmax(z, device=devices) == 999
    assert np.array_equal(vkdml.slice1(z, 0, 1000, -1, device=devices), np.arange(1000)[::-1])
    assert z.threads == {threading.current_thread().name}


@pytest.mark.parametrize("several", [False, True])
def test_a_visitor_of_an_hdf5_file_may_reduce_what_it_visits(two_devices, several, tmp_path):
    """h5py holds its lock meanwhile, for which another thread that reads would wait."""
    found, devices = {}, two_devices[: 1 + several]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["small"] = np.arange(100)
        file["large"] = np.arange(4096, dtype=np.int32)
        file.visititems(lambda name, x: found.update({name: int(vkdml.argmax(x, device=devices))}))
    assert found == {"small": 99, "large": 4095}


class InContext(Pieces):
    """What a library gives depends on the context that it is asked in."""

    value: contextvars.ContextVar[int] = contextvars.ContextVar("value")

    def __getitem__(self, index):
        return super().__getitem__(index) * self.value.get()


def test_pieces_are_read_in_the_context_of_the_caller(tiny):
    z = InContext(np.arange(4096, dtype=np.int32), (256,))
    context = contextvars.copy_context()
    context.run(z.value.set, -1)
    assert context.run(vkdml.argmax, z, device=tiny) == 0
    assert all(name.startswith("vkdml read") for name in z.threads)


class OneBuffer(Pieces):
    """Each part that is read lies where the one before did."""

    def __getitem__(self, index):
        part = super().__getitem__(index)
        if not hasattr(self, "buffer"):
            self.buffer = np.empty_like(self._array)
        self.buffer[: part.size] = part
        return self.buffer[: part.size]


def test_a_reader_may_use_its_buffer_again(tiny):
    x = np.arange(4096, dtype=np.int32)
    for _ in range(5):
        assert vkdml.argmax(OneBuffer(x, (256,)), device=tiny) == 4095
        mirrored = vkdml.slice1(OneBuffer(x, (256,)), (0,), (4096,), (-1,), device=tiny)
        assert np.array_equal(mirrored, x[::-1])


@pytest.mark.parametrize("when", ["atexit", "thread"])
def test_arrays_in_chunks_are_reduced_while_the_interpreter_ends(tmp_path, when):
    """It starts no threads then."""
    script = f"""
import atexit, threading, time
import h5py, numpy as np, vkdml
from vkdml.operators import tile_ring
with h5py.File({str(tmp_path / "x.h5")!r}, "w") as file:
    file.create_dataset("x", data=np.arange(1 << 25, dtype="u1").reshape(-1, 1 << 20), chunks=(1, 1 << 20))
file = h5py.File({str(tmp_path / "x.h5")!r})
strided = np.zeros((3000, 3000), "f4")[:, ::2].T
def work():
    if {when == "thread"}:
        threading.main_thread().join()
    print(vkdml.argmax(file["x"]), vkdml.argmax(strided, progress=lambda done, total: None), flush=True)
if {when == "thread"}:
    threading.Thread(target=work).start()
else:
    atexit.register(work)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "255 0\n", done.stderr


def test_a_chunk_beyond_four_tiles_is_read_in_parts(tiny):
    z = Pieces(np.arange(10_000, dtype=np.int32), (10_000,))
    assert vkdml.argmax(z, device=tiny) == 9999
    sizes = [s[0].stop - s[0].start for s in z.read]
    assert max(sizes) * 4 == 4 * KIB


# ---- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
def test_an_error_of_reading_comes_out_and_leaves_nothing_behind(two_devices, several):
    devices = two_devices[: 1 + several]
    x = np.arange(8192, dtype=np.int32)
    out = np.full(8192, -1, np.int32)
    z = Pieces(x, (256,), fails_at=6)
    with pytest.raises(OSError, match=r"reading \[1280:1536\] of this Pieces: the disk is on"):
        vkdml.slice1(z, 0, x.size, 1, out=out, device=devices)
    assert (out == -1).all()
    after = len(z.read)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("vkdml read")]
    with pytest.raises(OSError, match="the disk"):
        vkdml.argmax(Pieces(x, (256,), fails_at=3), device=devices)
    assert vkdml.argmax(Pieces(x, (256,)), device=devices) == 8191
    assert len(z.read) == after


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, MemoryError, KeyError, OSError])
def test_errors_of_callbacks_are_passed_on_at_once_as_they_were_raised(two_devices, kind, monkeypatch):
    monkeypatch.setattr(tile_ring, "SMALLEST_TILE_BYTES", 1)  # so that too little memory is no end
    reports = []

    def fail(done, total):
        reports.append(done)
        raise kind("mine")

    x = np.arange(4 << 20, dtype=np.uint8)
    for devices in (two_devices[:1], two_devices):
        for call in (
            lambda devices=devices: vkdml.argmax(x, device=devices, progress=fail),
            lambda devices=devices: vkdml.slice1(x, 0, x.size, -1, device=devices, progress=fail),
            lambda devices=devices: vkdml.argmax(x[:1], device=devices, progress=fail),
        ):
            reports.clear()
            with pytest.raises(kind) as caught:
                call()
            assert caught.value.args == ("mine",)
            assert len(reports) == 1
    assert vkdml.argmax(x, device=two_devices) == 255


@pytest.mark.parametrize("args", [(), (1, 2), (404, "stop")])
def test_errors_of_sources_and_of_callbacks_keep_their_arguments(two_devices, args):
    class OwnError(RuntimeError):
        pass

    def fail(*_):
        raise OwnError(*args)

    x = np.arange(8192, dtype=np.int32)
    failing = Pieces(x, (256,))
    failing._sleep = fail
    for devices in (two_devices[:1], two_devices):
        for call in (
            lambda devices=devices: vkdml.argmax(failing, device=devices),
            lambda devices=devices: vkdml.argmax(x, device=devices, progress=fail),
            lambda devices=devices: vkdml.slice1(x, 0, 8, 1, device=devices, progress=fail),
        ):
            with pytest.raises(OwnError) as caught:
                call()
            assert caught.value.args == args
            assert hasattr(caught.value, "__notes__") == hasattr(caught.value, "add_note")


def test_what_is_read_must_be_what_was_said(tiny):
    class Other(Pieces):
        def __getitem__(self, index):
            return super().__getitem__(index)[:-1]

    x = np.arange(4096, dtype=np.int32)
    said = r"argmax of \(4096,\) int32: reading \[0:256\].* shape \(255,\); accepted is \(256,\)"
    with pytest.raises(ValueError, match=said):
        vkdml.argmax(Other(x, (256,)), device=tiny)
    z = Pieces(x, (256,))
    z.dtype = np.dtype(np.float32)
    with pytest.raises(TypeError, match="said to be float32, and these are int32"):
        vkdml.argmax(z, device=tiny)


def test_elements_that_are_no_numbers_are_refused_before_reading():
    z = Pieces(np.array(["a", "b"], dtype=object), (1,))
    for call in (lambda: vkdml.argmax(z), lambda: vkdml.slice1(z, 0, 2, 1)):
        with pytest.raises(TypeError, match="object"):
            call()
    assert not z.read


def test_an_out_that_does_not_fit_is_refused_before_reading(tmp_path):
    z = Pieces(np.zeros((4, 4), np.float32), (2, 2))
    window = ((0, 0), (4, 4), (1, 1))
    for out, error, said in (
        (Pieces(np.zeros((4, 5), np.float32), (2, 2)), ValueError, r"out has shape \(4, 5\)"),
        (Pieces(np.zeros((4, 4), np.int32), (2, 2)), TypeError, "out has type int32"),
        (z, ValueError, "out is the array that is read"),
    ):
        with pytest.raises(error, match=said):
            vkdml.slice1(z, *window, out=out)
    assert not z.read
    for library in ("zarr 2", "h5py"):
        stored_once = stored(library, tmp_path, np.zeros((4, 4), np.float32), (2, 2))
        again = stored_once.file["x"] if library == "h5py" else zarr.open_array(str(tmp_path / "x2"))
        with pytest.raises(ValueError, match="out is the array that is read"):
            vkdml.slice1(stored_once, *window, out=again)


def test_stores_in_memory_that_hold_the_same_are_not_the_same():
    options = {"shape": (4, 4), "chunks": (2, 2), "dtype": "i2"}
    z, other = zarr.zeros(**options), zarr.zeros(**options)
    window = ((0, 0), (4, 4), (-1, 1))
    if hasattr(z, "store_path"):  # zarr 3
        assert vkdml.slice1(z, *window, out=other) is other
    with pytest.raises(ValueError, match="out is the array that is read"):
        vkdml.slice1(z, *window, out=zarr.open_array(z.store, path=z.path))


@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("kept", ["folder", "subfolder", "archive"])
def test_a_store_is_the_same_by_other_names(kept, version, tmp_path, monkeypatch):
    if kept == "archive" and not hasattr(zarr, "create_array"):
        pytest.skip("zarr 2's archives have another interface")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    name = {"folder": "x", "subfolder": "group/x", "archive": "x.zip"}[kept]
    x = np.arange(12, dtype=np.int32).reshape(4, 3)

    def stored_at(path):
        return zarr.storage.ZipStore(path, mode="r") if kept == "archive" else path

    if kept == "archive":
        with zarr.storage.ZipStore(f"real/{name}", mode="w") as store:
            zarr.create_array(store, data=x, chunks=(2, 3), zarr_format=version)
    else:
        new_zarr(tmp_path / "real" / name, version, shape=x.shape, dtype=x.dtype, chunks=(2, 3))[...] = x
        new_zarr(tmp_path / "real" / "y", version, shape=x.shape, dtype=x.dtype, chunks=(2, 3))
    one = zarr.open_array(stored_at(str(tmp_path / "real" / name)), mode="r")
    paths = [f"real/{name}", f"link/{name}", f"{tmp_path}/link/../real/{name}", f"./link/{name}"]
    others = [zarr.open_array(stored_at(path), mode="r") for path in paths]
    for other in others:
        with pytest.raises(ValueError, match="out is the array that is read"):
            vkdml.slice1(one, (0, 0), (4, 3), (-1, 1), out=other)
    if kept != "archive":
        y = zarr.open_array("link/y", mode="r+")
        assert vkdml.slice1(one, (0, 0), (4, 3), (-1, 1), out=y) is y
        assert np.array_equal(y[...], x[::-1])


def test_a_store_of_tensorstore_is_the_same_by_other_names(tmp_path, monkeypatch):
    ts = pytest.importorskip("tensorstore")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("real")
    x = np.arange(36, dtype=np.int32).reshape(6, 6)
    window = ((0, 0), (6, 6), (-1, 1))

    def opened(kvstore, **options):
        return ts.open({"driver": "zarr3", "kvstore": kvstore}, **options).result()

    new = {"dtype": ts.int32, "shape": [6, 6], "create": True}
    for kvstore in ("memory://", f"file://{tmp_path}/real/"):
        t = opened(kvstore, **new)
        t[...] = x
        views = [
            t,
            t[0:6],
            t[ts.d[0, 1].label["x", "y"]],
            t[ts.d[:].translate_by[3]],
            t[::-1],
            t[ts.d[0, 1].transpose[1, 0]],
        ]
        if kvstore != "memory://":
            views += [
                opened({"driver": "file", "path": path}) for path in ("real", "link/", f"{tmp_path}/link")
            ]
            if 3 in FORMATS:
                views.append(zarr.open_array("link", mode="r+"))
        for view in views:
            for source, out in ((view, t), (t, view)):
                with pytest.raises(ValueError, match="out is the array that is read"):
                    vkdml.slice1(source, *window, out=out)
        assert np.array_equal(t, x)
        # Views that share no element, and another array.
        vkdml.slice1(t[0:3], (0, 0), (3, 6), (-1, 1), out=t[3:6])
        assert np.array_equal(t, np.concatenate([x[:3], x[2::-1]]))
        other = opened("memory://", **new)
        vkdml.slice1(t, *window, out=other)
        assert np.array_equal(other, np.array(t)[::-1])


def test_pieces_that_memory_cannot_hold_are_halved():
    class Short(Pieces):
        def __getitem__(self, index):
            if index[0].stop - index[0].start > 2 << 20:
                raise MemoryError("no room for so much")
            return super().__getitem__(index)

    x = np.arange(8 << 20, dtype=np.uint32).astype(np.uint8)
    z = Short(x, (64 << 10,))
    assert vkdml.argmax(z, direction="decreasing") == x.size - 1
    assert (z.touched(z.read) == 1).all()


def test_an_interrupted_call_reads_no_more(tiny):
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    z = Pieces(np.arange(8192, dtype=np.int32), (256,))
    with pytest.raises(KeyboardInterrupt):
        vkdml.argmax(z, device=tiny, progress=interrupt)
    assert len(z.read) < 8
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("vkdml read")]


def test_the_example_runs():
    example = Path(__file__).parent.parent / "examples" / "zarr_argmax.py"

    def run(*words):
        command = [sys.executable, "-W", "ignore", str(example), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    rows, values = run().stdout.splitlines()[-2:]
    assert (rows, values) == ("rows:   [2500 2500 2500 2500 2500]", "values: [2. 2. 2. 2. 2.]")
    assert run("--help").stdout.startswith("usage: zarr_argmax.py [-h] [store]")
    nowhere = run("/nonexistent")
    assert nowhere.returncode == 2
    assert nowhere.stderr.splitlines()[-1].startswith("zarr_argmax.py: error: /nonexistent")


# ---- memory ---------------------------------------------------------------------------------------

READER = """
import resource, sys
import numpy as np, zarr, vkdml
z = zarr.open_array(sys.argv[1])
vkdml.argmax(np.arange(1 << 20, dtype=np.uint8), progress=lambda done, total: None)
vkdml.argmax(zarr.zeros(shape=(100,), chunks=(10,), dtype="f4"))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
print(vkdml.argmax(z, return_values=True))
print(peak() - before, file=sys.stderr)
"""


def test_memory_stays_within_the_ring(tmp_path):
    """An array of 1 GiB, compressed, grows a process by less than half of it."""
    shape = (1 << 10, 1 << 20)
    z = new_zarr(tmp_path / "z", 2, shape=shape, chunks=(4, 1 << 20), dtype="u1")
    z[512:516] = 1
    z[700, 12345] = 9
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READER, str(tmp_path / "z")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(700 * (1 << 20) + 12345) in done.stdout
    assert int(done.stderr.split()[-1]) < 512 << 20


def test_a_result_that_no_memory_can_hold_is_refused_before_the_array_is_cut_at_its_chunks():
    """There are 2^40 of them: to list where they begin would take all memory."""

    class Endless:
        shape, chunks, dtype = (1 << 40, 1 << 40), (1, 1 << 20), np.dtype(np.float64)

        def __getitem__(self, key):
            raise AssertionError("it is not read")

    with pytest.raises(MemoryError, match=rf"the result of {8 << 40} bytes does not fit in the \d+ bytes"):
        vkdml.argmax(Endless(), 1)


def test_a_store_of_another_file_system_is_the_same_by_other_names():
    """Its arrays are opened directly, and by their groups."""
    url = "memory://test_a_store_of_another_file_system"
    store = zarr.storage.FsspecStore
    x = np.arange(24, dtype=np.int32).reshape(6, 4)
    for name in ("a", "b"):
        zarr.create_array(store=store.from_url(f"{url}/{name}"), data=x, chunks=(2, 4))
    a = zarr.open_array(store=store.from_url(f"{url}/a"))
    group = zarr.open_group(store=store.from_url(url), mode="a", use_consolidated=False)
    for other in (group["a"], zarr.open_array(store=store.from_url(url), path="a")):
        with pytest.raises(ValueError, match="out is the array that is read"):
            vkdml.slice1(a, (0, 0), (6, 4), (-1, 1), out=other)
    vkdml.slice1(a, (0, 0), (6, 4), (-1, 1), out=group["b"])
    assert np.array_equal(group["b"][...], x[::-1])


def test_a_virtual_dataset_is_made_of_others(tmp_path):
    x = np.arange(24, dtype=np.int32).reshape(6, 4)
    (tmp_path / "inside").mkdir()
    with h5py.File(tmp_path / "inside" / "parts.h5", "w") as parts:
        parts["group/d"] = x
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file["d"], file["other"] = x, x
        for name, source in (
            ("here", h5py.VirtualSource(file["d"])),
            ("there", h5py.VirtualSource("inside/parts.h5", "group/d", shape=x.shape, dtype=x.dtype)),
        ):
            layout = h5py.VirtualLayout(x.shape, x.dtype)
            layout[...] = source
            file.create_virtual_dataset(name, layout)
    with (
        h5py.File(tmp_path / "inside" / "parts.h5", "r+") as parts,
        h5py.File(tmp_path / "virtual.h5", "r+") as file,
    ):
        assert np.array_equal(file["there"][...], x)
        for one, other in (
            (file["here"], file["d"]),
            (file["d"], file["here"]),
            (file["there"], parts["group/d"]),
            (file["here"], file["here"]),
        ):
            with pytest.raises(ValueError, match="out is the array that is read"):
                vkdml.slice1(one, (0, 0), (6, 4), (-1, 1), out=other)
        vkdml.slice1(file["here"], (0, 0), (6, 4), (-1, 1), out=file["other"])
        assert np.array_equal(file["other"][...], x[::-1])


def test_a_stack_of_tensorstore_is_made_of_others(tmp_path):
    ts = pytest.importorskip("tensorstore")

    def opened(name):
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/{name}"}}
        return ts.open(spec, create=True, dtype=ts.int32, shape=[6]).result()

    t, other = opened("t"), opened("other")
    t[...] = np.arange(6, dtype=np.int32)
    joined = ts.concat([t[:3], t[3:].translate_to[0]], axis=0)
    for out in (t, joined):
        with pytest.raises(ValueError, match="out is the array that is read"):
            vkdml.slice1(joined, 0, 6, -1, out=out)
    vkdml.slice1(joined, 0, 6, -1, out=other)
    assert np.array_equal(other, [5, 4, 3, 2, 1, 0])
