"""argmin, argmax and slice1 in tiles give what they give in one piece, wherever the borders are."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import oracle
import pytest
import strategies
from checking import assert_same, difference
from hypothesis import given
from hypothesis import strategies as st
from separate import separate_device, with_tiles
from thinned import examples

import vkdml
from vkdml import _native
from vkdml.arguments import ReduceRequest
from vkdml.common.read_only import fix
from vkdml.operators import stream, tile_ring
from vkdml.plan.tiles import Tiling

MIB = 1 << 20


@pytest.fixture(scope="module")
def two_devices(device):
    """Of one driver, each with a queue and memory of its own."""
    return [separate_device(), separate_device()]


@pytest.fixture(scope="module")
def known_devices(device, two_devices):
    """The first has the kernels that other tests have built."""
    return [device, two_devices[1]]


@pytest.fixture(autouse=True)
def nothing_left(device):
    limits = device.limits
    yield
    _native.inject_failure(0)
    fix(device, "limits", limits)


def reduce(
    x,
    axis=None,
    op="argmax",
    direction="increasing",
    nan_policy="propagate",
    *,
    devices,
    with_values=True,
    progress=None,
):
    axes = oracle.axis_set(axis, x.ndim)
    request = ReduceRequest(op, axes, direction=direction, nan_policy=nan_policy, return_values=with_values)
    return stream.reduce(x, request.checked(x.shape, x.dtype), devices=devices, progress=progress)


def check_reduce(x, axis=None, **call):
    devices = call.pop("devices")
    with_values = call.pop("with_values", True)
    indices, values = reduce(x, axis, **call, devices=devices, with_values=with_values)
    want_indices, want_values = oracle.argreduce(x, axis, **call, keepdims=True)
    what = f"{x.dtype} {x.shape} {x.strides} {axis} {call}"
    assert_same(indices, want_indices, f"indices of {what}")
    if with_values:
        native = want_values.astype(x.dtype.newbyteorder("=")) if not x.dtype.isnative else want_values
        assert_same(values, native, f"values of {what}")
    else:
        assert values is None


TILE_BYTES = st.sampled_from((16, 64, 200, 1024, 4096, 1 << 16))


@st.composite
def reductions(draw):
    case = draw(strategies.argreduce_cases().filter(lambda case: 0 not in case.layout.shape))
    # Not so great that ten thousands of tiles would be needed.
    nbytes = np.prod(case.layout.shape, dtype=int) * oracle.dtype_named(case.dtype).itemsize
    tile_bytes = draw(
        TILE_BYTES.filter(lambda tile_bytes: nbytes <= 300 * tile_bytes or tile_bytes == 1 << 16)
    )
    return case, tile_bytes, draw(st.integers(0, 3)) == 3


@examples(120)
@given(reductions())
def test_any_reduction(known_devices, drawn):
    case, tile_bytes, several = drawn
    devices = [with_tiles(device, tile_bytes) for device in known_devices[: 1 + several]]
    x = case.input()
    before = x.tobytes()
    check_reduce(
        x,
        case.axis,
        op=case.op,
        direction=case.direction,
        nan_policy=case.nan_policy,
        devices=devices,
        with_values=case.return_values,
    )
    assert x.tobytes() == before


@examples(150)
@given(strategies.slice1_cases(), TILE_BYTES, st.booleans())
def test_any_slice(two_devices, case, tile_bytes, several):
    x = case.input()
    want = oracle.slice1(x, case.offsets, case.sizes, case.strides, case.output_sizes)
    window = x
    for dim, (offset, step) in enumerate(zip(case.offsets, case.strides, strict=True)):
        first = offset + (case.sizes[dim] - 1 if step < 0 else 0)
        count = want.shape[dim]
        places = (slice(None),) * dim
        last = first + step * count
        window = window[(*places, slice(first, None if last < 0 else last, step), ...)]
    tile_bytes = max(tile_bytes, want.nbytes // 300)
    devices = [with_tiles(device, tile_bytes) for device in two_devices[: 1 + several]]
    assert_same(stream.copy(window, devices=devices), want, str(case))


MODES = [
    (op, direction, nan_policy)
    for op in oracle.OPERATORS
    for direction in oracle.DIRECTIONS
    for nan_policy in oracle.NAN_POLICIES
]


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        *(("float32", None), ("float16", None), ("uint8", None), ("int64", None)),
        *(("float32", 0), ("uint8", 0), (">f4", 1), ("bool", 1)),
    ],
)
def test_ties_and_nans_on_both_sides_of_each_border(known_devices, name, axis):
    dtype = oracle.dtype_named(name)
    devices = [with_tiles(device, 64 * dtype.itemsize) for device in known_devices]
    x = np.zeros((36, 40), dtype)
    special = strategies.from_bits(strategies.special_bits(dtype), dtype)
    with np.errstate(invalid="ignore"):
        numbers = oracle.numbers(special)
    real, nan = np.flatnonzero(numbers == numbers), np.flatnonzero(numbers != numbers)
    rng = np.random.default_rng(5)
    for place in (real[numbers[real].argmax()], real[numbers[real].argmin()], *nan[:1]):
        value = oracle.raw(special)[place]
        # Pairs of neighbours all over it: some have a border between them.
        for row, column in rng.integers(0, 36, (6, 2)):
            oracle.raw(x)[row, column] = oracle.raw(x)[row - 1, column - 1] = value
        for op, direction, nan_policy in MODES:
            check_reduce(x, axis, op=op, direction=direction, nan_policy=nan_policy, devices=devices[:1])
        check_reduce(x, axis, devices=devices)


@pytest.mark.parametrize("place", range(0, 640, 37))
def test_the_winner_anywhere(two_devices, place):
    device = with_tiles(two_devices[0], 128)
    x = np.zeros((8, 80), np.int16)
    x.flat[place] = 7
    indices, values = reduce(x, devices=[device])
    assert indices == place
    assert values == 7
    assert np.array_equal(reduce(x, 0, devices=[device])[0], x.argmax(0, keepdims=True))
    assert np.array_equal(
        reduce(x[::-1, ::-1].T, 1, devices=[device])[0], x[::-1, ::-1].T.argmax(1, keepdims=True)
    )


@pytest.mark.parametrize("direction", oracle.DIRECTIONS)
def test_indices_beyond_32_bits(two_devices, direction):
    """Repeated elements take no memory, but count: the tiles' origins and weights pass 2**32."""
    device = with_tiles(two_devices[0], 64)
    n, count = 1 << 33, 200
    few = np.random.default_rng(2).integers(0, 50, (count, 1, 6), np.int32)
    x = np.broadcast_to(few, (count, n, 6))
    chosen = np.flatnonzero(few.ravel() == few.max())
    place = chosen[0 if direction == "increasing" else -1]
    repeat = 0 if direction == "increasing" else n - 1
    want = (int(place) // 6 * n + repeat) * 6 + int(place) % 6
    indices, values = reduce(x, direction=direction, devices=[device])
    assert indices.dtype == np.int64
    assert indices == want
    assert values == few.max()
    rows, _ = reduce(x, (0, 1), direction=direction, devices=[device])
    for column in range(6):
        chosen = np.flatnonzero(few[:, 0, column] == few[:, 0, column].max())
        assert rows[0, 0, column] == chosen[0 if direction == "increasing" else -1] * n + repeat
    halves = np.broadcast_to(few[:, :, None], (count, 1 << 20, 1 << 20, 6))
    index, _ = reduce(halves, (0, 2), direction=direction, devices=[device])
    assert index[0, 77, 0].tolist() == [
        int(chosen[0 if direction == "increasing" else -1]) * (1 << 20) + min(repeat, (1 << 20) - 1)
        for chosen in (np.flatnonzero(column == column.max()) for column in few[:, 0].T)
    ]


@pytest.mark.parametrize("with_values", [False, True])
@pytest.mark.parametrize("direction", oracle.DIRECTIONS)
def test_the_order_in_which_tiles_arrive_changes_nothing(two_devices, monkeypatch, direction, with_values):
    """The first to arrive may begin anywhere, also beyond 2**32."""
    device = with_tiles(two_devices[0], 64)
    forwards = Tiling.__iter__
    rng = np.random.default_rng(7)
    few = rng.integers(0, 5, (40, 1, 6), np.int32)
    x = np.broadcast_to(few, (40, 1 << 33, 6))
    orders = {
        "forwards": lambda tiling: forwards(tiling),
        "backwards": lambda tiling: reversed(list(forwards(tiling))),
        "shuffled": lambda tiling: iter(rng.permutation(np.array([*forwards(tiling), None], object)[:-1])),
    }
    for axis in (None, (0, 1), (0, 2), 0):
        found = {}
        for name, order in orders.items():
            monkeypatch.setattr(Tiling, "__iter__", order)
            indices, values = reduce(
                few if axis in (0, (0, 2)) else x,
                axis,
                direction=direction,
                devices=[device],
                with_values=with_values,
            )
            found[name] = (indices.tolist(), None if values is None else values.tolist())
        assert found["forwards"] == found["backwards"] == found["shuffled"]
        if axis is None:
            assert np.max(found["forwards"][0]) >= (1 << 33) * 6 or direction == "increasing"


def test_more_than_32_bits_can_count(device):
    """Every element of over 4 GiB, nearly all of it the one page of zeros that untouched memory is."""
    if "swiftshader" in device.info.driver_name.lower():
        pytest.skip("half a minute on SwiftShader; lavapipe runs it")
    size = (4 << 30) + (96 << 20)
    places = [(1 << 32) + 5, size - 40_000_000, size - 3]
    x = np.zeros(size, np.uint8)
    x[places] = 6, 7, 7
    indices, values = reduce(x, devices=[device])
    assert indices == places[1]
    assert values == 7


def test_what_is_repeated_is_read_once_and_results_are_repeated(two_devices):
    device = with_tiles(two_devices[0], 32)
    few = np.random.default_rng(4).integers(0, 9, (5, 1, 40), np.int8)
    done = []
    x = np.broadcast_to(few, (5, 300, 40))
    indices, values = reduce(x, 2, devices=[device], progress=lambda *at: done.append(at))
    assert done[-1] == (200, 200)
    assert_same(indices, x.argmax(2, keepdims=True), "indices")
    assert_same(values, x.max(2, keepdims=True), "values")
    copied = stream.copy(x, devices=[device])
    assert_same(copied, np.ascontiguousarray(x), "copy")


@pytest.mark.parametrize("rank", [0, 1, 32])
def test_any_rank(two_devices, rank):
    device = with_tiles(two_devices[0], 64)
    x = np.random.default_rng(1).permutation(3 * 2**9).astype(np.float32)[: 1 if rank == 0 else None]
    x = x.reshape(() if rank == 0 else (-1,) if rank == 1 else (2, 1, 1) * 9 + (1, 1, 3, 1, 1))
    x = x.transpose(np.random.default_rng(rank).permutation(rank))
    check_reduce(x, devices=[device])
    check_reduce(x, tuple(range(0, rank, 2)), devices=[device])
    assert_same(stream.copy(x, devices=[device]), np.ascontiguousarray(x).reshape(x.shape), "copy")


def test_large_tiles_by_several_threads(two_devices):
    """The ways of copying that small tiles never take: contiguous, strided, the other byte order."""
    devices = [with_tiles(device, 8 * MIB) for device in two_devices]
    x = np.random.default_rng(8).integers(0, 1 << 60, (3000, 1111), np.int64)
    for some in (x, x.T, x[::-1, ::2], x.astype(">i8")):
        for axis in (None, 0, 1):
            native = some.astype(np.int64)
            indices, values = reduce(some, axis, devices=devices[:1])
            assert np.array_equal(indices.ravel(), native.argmax(axis).ravel())
            assert np.array_equal(values.ravel(), native.max(axis).ravel())
        assert difference(stream.copy(some, devices=devices), np.ascontiguousarray(some)) is None


# ---- devices, progress, interruption -----------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
def test_progress_rises_to_the_whole(two_devices, several):
    devices = [with_tiles(device, 64) for device in two_devices[: 1 + several]]
    x = np.arange(1000, dtype=np.float32).reshape(20, 50)
    for run in (
        lambda report: reduce(x, 0, devices=devices, progress=report),
        lambda report: stream.copy(x, devices=devices, progress=report),
    ):
        said = []

        def report(done, total, said=said):
            assert threading.current_thread() is threading.main_thread()
            said.append((done, total))

        run(report)
        assert len(said) > 20
        assert {total for _, total in said} == {4000}
        assert all(a < b for (a, _), (b, _) in itertools.pairwise(said))
        assert said[-1][0] == 4000


def test_progress_draws_a_bar_on_standard_error(two_devices, capsys):
    device = with_tiles(two_devices[0], 64)
    reduce(np.arange(1000, dtype=np.float32), devices=[device], progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3.9/3.9 KiB" in captured.err


def test_a_bar_without_rich_is_refused_before_anything_runs(two_devices, monkeypatch):
    known = builtins.__import__

    def without_rich(name, *arguments, **options):
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError("No module named 'rich'", name="rich")
        return known(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    monkeypatch.setattr(stream, "run_in_tiles", lambda *arguments: pytest.fail("it ran"))
    with pytest.raises(ImportError, match=r"pip install rich, or pip install '\.\[cli\]' in ") as caught:
        reduce(np.zeros(4, np.float32), devices=two_devices, progress=True)
    assert caught.value.name == "rich"


def test_other_progress_and_no_devices_are_refused(two_devices):
    with pytest.raises(TypeError, match=r"progress must be True, a function of .* not 'yes'"):
        reduce(np.zeros(4, np.float32), devices=two_devices, progress="yes")
    with pytest.raises(ValueError, match="no device was given; accepted is at least one"):
        reduce(np.zeros(4, np.float32), devices=[])


class Stop(Exception):
    pass


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", [Stop, KeyboardInterrupt])
def test_what_the_calling_thread_raises_ends_all(two_devices, several, kind):
    devices = [with_tiles(device, 64) for device in two_devices[: 1 + several]]
    x = np.arange(100_000, dtype=np.float32)

    def report(done, total):
        if done > 1000:
            raise kind

    threads = threading.active_count()
    with pytest.raises(kind):
        reduce(x, devices=devices, progress=report)
    assert threading.active_count() <= threads
    check_reduce(x[:1000], devices=devices)


@pytest.mark.parametrize("several", [False, True])
def test_an_interrupt_ends_all(two_devices, several):
    devices = [with_tiles(device, 256) for device in two_devices[: 1 + several]]
    x = np.zeros(10_000_000, np.float32)
    threads = threading.active_count()
    done = []

    def report(*at):
        done.append(at)
        if len(done) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        reduce(x, devices=devices, progress=report)
    assert threading.active_count() <= threads
    assert done[-1][0] < x.nbytes
    check_reduce(np.arange(1000), devices=devices)


@pytest.mark.parametrize("fault", [vkdml.DeviceError("it broke"), ValueError("too odd")])
def test_a_fault_of_one_device_stops_all_and_names_it(two_devices, monkeypatch, fault):
    devices = [with_tiles(device, 64) for device in two_devices]
    x = np.arange(1_000_000, dtype=np.float32)
    taken = []

    def failing(plan):
        raise fault

    monkeypatch.setattr(devices[1].executions, "take", failing)
    threads = threading.active_count()
    with pytest.raises(type(fault), match=r"<vkdml\.Device \d+: .*>: (it broke|too odd)"):
        reduce(x, devices=devices, progress=lambda done, total: taken.append(done))
    assert threading.active_count() <= threads
    assert not taken or taken[-1] < x.nbytes
    fault.args = (str(fault.args[0]).rpartition(": ")[2],)


def test_devices_share_the_tiles(two_devices, monkeypatch):
    devices = [with_tiles(device, 1024) for device in two_devices]
    used = set()
    for device in devices:
        take = device.executions.take
        monkeypatch.setattr(
            device.executions,
            "take",
            lambda plan, take=take, device=device: used.add(id(device)) or take(plan),
        )
    x = np.random.default_rng(0).integers(0, 1000, 400_000, np.int32)
    check_reduce(x, devices=[*devices, devices[0]])
    assert used == set(map(id, devices))


# ---- memory ------------------------------------------------------------------------------------------------


# Of little more than a tile of 2 MiB, each: two tiles.
@functools.lru_cache
def bytes_and_answers(shape, axis):
    x = np.random.default_rng(0).integers(0, 250, shape, np.uint8)
    return x, x.argmax(axis, keepdims=True), x.max(axis, keepdims=True)


def rows(device):
    x, want_indices, want_values = bytes_and_answers((360, 6000), 1)
    indices, values = reduce(x, 1, devices=[device])
    assert np.array_equal(indices, want_indices)
    assert np.array_equal(values, want_values)


def columns(device):
    x, want, _ = bytes_and_answers((1560, 1400), 0)
    indices, _ = reduce(x, 0, devices=[device], with_values=False)
    assert np.array_equal(indices, want)


def window(device):
    x = bytes_and_answers((360, 6000), 1)[0][::-1, 1:]
    assert np.array_equal(stream.copy(x, devices=[device]), x)


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("action", [rows, columns, window])
def test_a_failed_allocation_at_each_call_is_survived(action):
    device = with_tiles(separate_device(), 2 * MIB)
    failed = []
    while not failed or failed[-1]:
        device.trim()  # so that all is allocated again
        _native.inject_failure(len(failed) + 1)
        # Tiles of half the size may well find room.
        with contextlib.suppress(MemoryError):
            action(device)
        failed.append(_native.injected_call())
        _native.inject_failure(0)
        gc.collect()
        device.trim()
        assert device.memory()["used"] == 0, failed[-1]
        action(device)
    assert len(failed) > 20
    assert {"vkAllocateMemory", "vkMapMemory", "vkQueueSubmit", "vkCreateFence"} <= set(failed)


def test_tiles_are_made_smaller_until_memory_suffices(monkeypatch):
    device = with_tiles(separate_device(), 8 * MIB)
    take = device.executions.take
    asked = []

    def scarce(plan):
        asked.append(plan.bytes_of("input"))
        if asked[-1] > 2 * MIB:
            raise MemoryError("none left")
        return take(plan)

    monkeypatch.setattr(device.executions, "take", scarce)
    x = np.random.default_rng(0).integers(0, 1 << 30, 5_000_000, np.int32)
    check_reduce(x, devices=[device])
    assert asked[:3] == sorted(asked[:3], reverse=True)
    assert asked[2] <= 2 * MIB < asked[1]

    def none(plan):
        asked.append(plan.bytes_of("input"))
        raise MemoryError("none left")

    asked.clear()
    monkeypatch.setattr(device.executions, "take", none)
    with pytest.raises(MemoryError, match="none left"):
        reduce(x, devices=[device])
    assert len(asked) == 4
    assert asked[-1] <= MIB
    asked.clear()
    with pytest.raises(MemoryError, match=r"<vkdml\.Device .*none left"):
        reduce(x, devices=[device, with_tiles(separate_device(), 8 * MIB)])


def test_what_is_done_again_in_smaller_tiles_is_not_reported_again(two_devices, monkeypatch):
    device = with_tiles(two_devices[0], 2 * MIB)
    slot = tile_ring.Ring.slot
    tiles = []

    def scarce(ring, plan, tile):
        tiles.append(tile)
        if len(tiles) == 5:
            raise MemoryError("none left")
        return slot(ring, plan, tile)

    monkeypatch.setattr(tile_ring.Ring, "slot", scarce)
    trim = vkdml.Device.trim
    trimmed = []
    monkeypatch.setattr(vkdml.Device, "trim", lambda device: trimmed.append(device) or trim(device))
    x = np.arange(16 * MIB, dtype=np.int64).astype(np.uint8)
    said = []
    indices, _ = reduce(x, devices=[device], progress=lambda done, total: said.append(done))
    assert indices == 255
    assert len(tiles) == 5 + 16
    assert trimmed == [device]  # memory kept for later calls is given back first
    assert all(a < b for a, b in itertools.pairwise(said))
    assert said[-1] == x.nbytes


def test_a_lost_device_is_named_so():
    device = with_tiles(separate_device(), 1 * MIB)
    rows(device)
    _native.inject_failure(2, -4)  # VK_ERROR_DEVICE_LOST
    with pytest.raises(vkdml.DeviceLostError):
        rows(device)
    _native.inject_failure(0)
    rows(with_tiles(separate_device(), 1 * MIB))


RESIDENT = """
import sys, warnings, dataclasses, threading, time
import numpy as np, vkdml
from vkdml.operators import stream, tile_ring
from vkdml.plan.tiles import Tiling
from vkdml.arguments import ReduceRequest
from vkdml.common.read_only import fix

warnings.simplefilter("ignore")

def resident():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return tuple(int(fields[name].split()[0]) >> 10 for name in ("RssAnon", "VmRSS"))

device = vkdml.Device()
tuning = dataclasses.replace(device.limits.tuning, stream_tile_bytes=8 << 20)
fix(device, "limits", dataclasses.replace(device.limits, tuning=tuning))
x = np.memmap(sys.argv[1], np.float32, "r").reshape(1 << 14, -1)
request = ReduceRequest("argmax", return_values=True)

def reduced(x, **options):
    return stream.reduce(x, request.checked(x.shape, x.dtype), devices=[device], **options)

reduced(x[:256])  # pipelines are built
before, most = resident(), (0, 0)

def watch(done, total):
    global most
    most = tuple(map(max, most, resident()))

index, value = reduced(x, progress=watch)
print(index.item(), value.item(), *(after - since for after, since in zip(most, before)))
"""


def test_a_file_is_not_read_into_memory(tmp_path):
    path = tmp_path / "sparse"
    size = 1 << 28
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size - 4000)
        file.write(np.float32(3).tobytes())
    said = subprocess.run(
        [sys.executable, "-c", RESIDENT, str(path)], check=True, timeout=120, capture_output=True, text=True
    ).stdout.split()
    assert [float(word) for word in said[:2]] == [(size - 4000) // 4, 3]
    anonymous, all_of_it = map(int, said[2:])
    # Two tiles of 8 MiB as the device has them, and what a copy is about to read.
    assert anonymous < 64
    assert all_of_it < 96


def test_written_pages_of_a_private_mapping_stay(two_devices, tmp_path):
    """Pages are given back only where the file, or the system's cache of it, has what they hold."""
    device = with_tiles(two_devices[0], 64 << 10)
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    for mode in ("c", "r+"):
        x = np.memmap(path, np.int8, mode)
        x[:] = np.arange(1 << 20) % 100
        check_reduce(x, devices=[device])
        assert np.array_equal(x, (np.arange(1 << 20) % 100).astype(np.int8))
        assert np.array_equal(stream.copy(x, devices=[device]), x)
        assert np.array_equal(x, (np.arange(1 << 20) % 100).astype(np.int8))
    assert os.path.getsize(path) == 1 << 20


def test_what_is_streamed(device):
    limits = device.limits
    greatest = min(limits.max_storage_buffer_range, limits.tuning.stream_from_bytes - 1)
    assert not stream.wanted([greatest, 0, greatest], limits)
    for place in range(3):
        assert stream.wanted([greatest + (i == place) for i in range(3)], limits)
    half = dataclasses.replace(limits, max_storage_buffer_range=greatest // 2)
    assert stream.wanted([1, greatest // 2 + 1], half)
    assert not stream.wanted([1, greatest // 2], half)
