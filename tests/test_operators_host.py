"""Calls on host arrays: the cache of known calls, when they go in tiles, and outputs that overlap."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from checking import assert_same
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import vkdml
from vkdml.arguments import ReduceRequest
from vkdml.arrays.host_span import host_span, sent_bytes
from vkdml.common.overlap import may_share_bytes
from vkdml.common.read_only import fix
from vkdml.operators import one_piece, stream
from vkdml.plan import elements
from vkdml.runtime.execution import Execution

X = np.random.default_rng(3).integers(0, 100, (6, 50), np.int32)


@pytest.fixture
def set_limits(device):
    """Give the device other limits until the test ends."""
    own = device.limits
    yield lambda limits: fix(device, "limits", limits)
    fix(device, "limits", own)


def noting(calls, name, function):
    """The function, which leaves its name in a list."""
    return lambda *args, **options: calls.append(name) or function(*args, **options)


@pytest.fixture
def limited(device, set_limits, monkeypatch):
    """Lower the device's limits for one test; returns the list of the tiled operations that follow."""

    def lower(most_bytes: int, from_bytes: int = 1 << 40) -> list[str]:
        tuning = dataclasses.replace(device.limits.tuning, stream_from_bytes=from_bytes)
        limits = dataclasses.replace(device.limits, tuning=tuning, max_storage_buffer_range=most_bytes)
        set_limits(limits)
        tiled: list[str] = []
        for name in ("reduce", "copy"):
            run = getattr(stream, name)
            monkeypatch.setattr(
                stream,
                name,
                lambda *args, run=run, name=name, **given: tiled.append(name) or run(*args, **given),
            )
        take = device.executions.take

        def checked(plan):
            for role, nbytes in plan.buffer_bytes:
                # A workspace is small, but not so small as the limits of these tests.
                assert role == "workspace" or nbytes <= most_bytes, f"{nbytes} bytes of {role}"
            return take(plan)

        monkeypatch.setattr(device.executions, "take", checked)
        return tiled

    return lower


# ---- known calls -------------------------------------------------------------------------------------------


def test_a_known_call_cleared_between_look_up_and_use_is_right(device, monkeypatch):
    assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()
    typed = Execution.typed

    def clearing(*arguments):
        device.executions.known_calls.clear()
        device.trim()
        return typed(*arguments)

    monkeypatch.setattr(Execution, "typed", clearing)
    for _ in range(2):
        assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_known_call_is_looked_up_once(device, monkeypatch, where):
    """Another thread may clear the calls, and what they keep, right after."""
    calls = device.executions.known_calls
    x = vkdml.asarray(X, device=device) if where == "device" else X
    look_up, found = calls.get, []

    def cleared_behind(key):
        found.append(look_up(key))
        calls.clear()
        device.trim()
        return found[-1]

    monkeypatch.setattr(calls, "get", cleared_behind)
    vkdml.argmax(x, 1)
    assert vkdml.argmax(x, 1).tolist() == X.argmax(1).tolist()
    assert found[-1] is not None, "known: only what looked it up holds it now"
    if where == "device":
        vkdml.slice1(x, (0, 0), X.shape, (1, -1))
        assert vkdml.slice1(x, (0, 0), X.shape, (1, -1)).tolist() == X[:, ::-1].tolist()
        assert found[-1] is not None


def test_known_calls_have_arrays_of_their_own(device):
    arrays = [np.roll(X, n, 1) for n in range(5)]
    results = [vkdml.argmax(array, 1) for array in arrays]
    assert [r.tolist() for r in results] == [array.argmax(1).tolist() for array in arrays]
    for _ in range(2):
        indices, values = vkdml.argmin(X, return_values=True, dtype=np.int32)
        assert (indices, values) == (X.argmin(), X.min())
        assert (type(indices), type(values)) == (np.int32, np.int32)


def test_a_known_call_in_many_threads(device):
    arrays = [np.roll(X, n) for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: int(vkdml.argmax(arrays[n % 8])), range(200)))
    assert found == [arrays[n % 8].argmax() for n in range(200)]


def test_a_selector_that_fits_no_device_is_refused_where_the_call_is_known(device):
    vkdml.argmax(X, 1)
    with pytest.raises(vkdml.NoDeviceError):
        vkdml.argmax(X, 1, device="no such device")
    with pytest.raises(TypeError, match="a device is"):
        vkdml.argmax(X, 1, device=1.5)


def test_a_call_is_known_for_the_limits_it_was_planned_for_only(device, limited):
    assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()
    tiled = limited(X.nbytes // 2)
    assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()
    assert tiled == ["reduce"]


def test_known_calls_of_other_options_and_devices_are_told_apart(device):
    x = np.float32([[3, np.nan, 3], [1, 2, 2]])
    for _ in range(2):
        assert vkdml.argmax(x, 1).tolist() == [1, 1]
        assert vkdml.argmin(x, 1).tolist() == [1, 0]
        assert vkdml.argmax(x, 0).tolist() == [0, 0, 0]
        assert vkdml.argmax(x, 1, direction="decreasing").tolist() == [1, 2]
        assert vkdml.argmax(x, 1, nan_policy="omit").tolist() == [0, 1]
        assert vkdml.argmax(x, 1, keepdims=True).tolist() == [[1], [1]]
        assert vkdml.argmax(x, 1, dtype="int32").dtype == np.int32
        assert vkdml.argmax(x.view(np.int32), 1).tolist() == [1, 1]
        assert vkdml.argmax(x.reshape(6)) == 1
        for selector in (None, device, device.info.index, device.info.uuid, [device], (device,)):
            assert vkdml.argmax(x, 1, device=selector).tolist() == [1, 1]


def test_a_known_call_that_finds_no_memory_goes_in_tiles(device, limited, set_limits, monkeypatch):
    tiled = limited(1 << 40)
    tuning = dataclasses.replace(device.limits.tuning, stream_tile_bytes=64)
    set_limits(dataclasses.replace(device.limits, tuning=tuning))
    assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()
    assert not tiled
    take = device.executions.take

    def scarce(plan):
        if plan.bytes_of("input") > 64:
            raise MemoryError("none left")
        return take(plan)

    monkeypatch.setattr(device.executions, "take", scarce)
    device.trim()  # of what waits there is enough
    assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()
    assert tiled == ["reduce"]
    copied = vkdml.slice1(X, (0, 0), X.shape, (-1, 2))
    assert copied.tolist() == X[::-1, ::2].tolist()
    assert tiled == ["reduce", "copy"]


@pytest.mark.parametrize("fault", [vkdml.DeviceError, vkdml.DeviceLostError, ValueError, TypeError])
def test_a_fault_of_a_known_call_carries_the_operator_too(device, monkeypatch, fault):
    assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()

    def failing(execution):
        raise fault("it broke")

    monkeypatch.setattr(Execution, "run", failing)
    with pytest.raises(fault, match=r"^argmax of \(6, 50\) int32: it broke$"):
        vkdml.argmax(X, 1)
    device.executions.known_calls.clear()
    with pytest.raises(fault, match=r"^argmax of \(6, 50\) int32: it broke$"):
        vkdml.argmax(X, 1)


# ---- in tiles or not ---------------------------------------------------------------------------------------

PAIRS = np.random.default_rng(1).integers(-3, 3, (1000, 2), np.int8)
SIXTEEN_TIMES = np.broadcast_to(PAIRS[:, None], (1000, 16, 2))

REDUCTIONS = {
    # What decides, and the bytes that it has: (array, axis, options, bytes).
    "the input": (X, 1, {}, X.nbytes),
    "the span of every second column": (X[:, ::2], 1, {}, X.nbytes - 4),
    "indices of 8 bytes": (PAIRS, 1, {}, 8000),
    "indices of 4 bytes": (PAIRS, 1, {"dtype": "uint32"}, 4000),
    "indices wider than values": (PAIRS, 1, {"return_values": True}, 8000),
    "indices of repeated elements": (SIXTEEN_TIMES, 2, {}, 128_000),
    "values, where indices are narrower": (
        np.broadcast_to(PAIRS.astype(np.int64)[:, None], (1000, 16, 2)),
        2,
        {"dtype": "int32", "return_values": True},
        128_000,
    ),
    "elements that overlap": (sliding_window_view(X.reshape(-1), 100), 1, {}, 201 * 100 * 4),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("by", ["the range of a buffer", "the tuning"])
def test_a_reduction_goes_in_tiles_exactly_when_one_buffer_must(limited, name, by):
    x, axis, options, most = REDUCTIONS[name]
    indices, values = oracle.argreduce(x, axis, dtype=options.get("dtype", "int64"))
    least = -(-most // 16) * 16 if name == "the input" or "span" in name else most
    for room, in_tiles in ((least, False), (most - 1, True)):
        tiled = limited(room) if by == "the range of a buffer" else limited(1 << 30, room + 1)
        got = vkdml.argmax(x, axis, **options)
        assert bool(tiled) == in_tiles, f"{room} bytes"
        if options.get("return_values"):
            assert_same(got.values, values, name)
            got = got.indices
        assert_same(got, indices, name)


COPIES = {
    "the window": (X, (0, 0), (6, 50), (1, 7), X.nbytes),
    "a part of the array": (X, (1, 0), (2, 50), (1, 7), 400),
    "the span of the window": (X[:, ::2], (0, 0), (6, 25), (1, 7), X.nbytes - 4),
    "the output": (
        np.broadcast_to(X[:, :, None], (6, 50, 9)),
        (0, 0, 0),
        (6, 50, 9),
        (1, 1, -1),
        9 * X.nbytes,
    ),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("by", ["the range of a buffer", "the tuning"])
def test_a_copy_goes_in_tiles_exactly_when_one_buffer_must(limited, name, by):
    x, offsets, sizes, strides, most = COPIES[name]
    for room, in_tiles in ((-(-most // 16) * 16, False), (most - 1, True)):
        tiled = limited(room) if by == "the range of a buffer" else limited(1 << 30, room + 1)
        got = vkdml.slice1(x, offsets, sizes, strides)
        assert bool(tiled) == in_tiles, f"{room} bytes"
        assert_same(got, oracle.slice1(x, offsets, sizes, strides), name)


def test_what_only_the_plan_knows_counts_too(device, limited, monkeypatch):
    """A workspace beyond the range of a buffer, of a plan whose input and output are within it."""
    tiled = limited(X.nbytes + 16)
    plan = one_piece.plan_for

    def with_workspace(*given, **options):
        made = plan(*given, **options)
        sizes = dict(made.buffer_bytes) | {"workspace": X.nbytes + 17}
        return dataclasses.replace(made, buffer_bytes=tuple(sizes.items()))

    monkeypatch.setattr(one_piece, "plan_for", with_workspace)
    assert vkdml.argmax(X, 1).tolist() == X.argmax(1).tolist()
    assert tiled == ["reduce"]


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_no_tile_has_a_buffer_beyond_the_range(limited, dtype):
    """The fixture looks at each plan: outputs are what a tile of narrow pairs has most of."""
    x = np.random.default_rng(1).integers(0, 3, (3000, 2)).astype(dtype)
    tiled = limited(1 << 10)
    for axis in (0, 1, None, ()):
        got = vkdml.argmax(x, axis, return_values=True)
        want = oracle.argreduce(x, axis)
        assert_same(got.indices, want[0], f"axis {axis}")
        assert_same(got.values, want[1], f"axis {axis}")
    assert tiled == ["reduce"] * 3
    # More elements than 32 bits count, so that indices have 8 bytes within tiles too.
    many = np.broadcast_to(x[..., None], (*x.shape, 1 << 32))
    assert_same(vkdml.argmax(many, (1, 2)), x.argmax(1) << 32, "beyond 32 bits")
    for strides in ((1, 1), (-1, 1), (2, -2)):
        assert_same(
            vkdml.slice1(x, (0, 0), x.shape, strides),
            oracle.slice1(x, (0, 0), x.shape, strides),
            str(strides),
        )
    assert "copy" in tiled


def test_arrays_beyond_one_buffer_at_true_size(device):
    """Their data are within lavapipe's 128 MiB, the span that they lie in is not."""
    whole = np.zeros((10_000, 20_000), np.int8)
    whole[:, 2 * 777] = 5
    whole[5000, 0] = 9
    x = whole[:, ::2]
    want = np.full(10_000, 777)
    want[5000] = 0
    assert np.array_equal(vkdml.argmax(x, 1), want)
    assert np.array_equal(vkdml.slice1(x, (0, 0), x.shape, (-1, 7)), x[::-1, ::7])


@pytest.mark.parametrize(
    "x",
    [
        X,
        X[::-1, ::-1],
        X[:, ::2],
        X[::3, ::5],
        X.T,
        X[2:3, 3:4],
        X[..., None],
        sliding_window_view(X.reshape(-1), 50),
        np.broadcast_to(X[:1, :, None], (9, 50, 6)),
        np.zeros(5, "i1,i4")["f1"],
        X[1, 1, ...],
    ],
)
def test_the_bytes_that_would_be_sent_are_those_that_are_sent(x):
    assert sent_bytes(x) == host_span(x).flat.nbytes


def test_a_result_that_no_memory_can_hold_is_named_before_numpy_asks_for_it(device):
    """Whether it is copied, computed, or nothing competes for it."""
    x = np.broadcast_to(np.uint8(1), (1 << 50, 1))
    pairs = np.broadcast_to(np.uint8([1, 2]), (1 << 50, 2))
    for call in (
        lambda: vkdml.slice1(x, (0, 0), x.shape, (1, 1)),
        lambda: vkdml.slice1(x, (0, 0), x.shape, (-1, 1), output_sizes=((1 << 49), 1)),
        lambda: vkdml.argmax(x, 1),
        lambda: vkdml.argmin(pairs, 1, return_values=True),
        lambda: vkdml.argmin(pairs, ()),
    ):
        with pytest.raises(MemoryError, match=r"of \(1125899906842624, .*the result of \d+ bytes does not"):
            call()
    assert vkdml.argmax(pairs) == 1
    assert vkdml.argmax(x, 0).tolist() == [0]


# ---- indices that fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", oracle.OPERATORS)
@pytest.mark.parametrize("name", elements.INDEX_DTYPES)
def test_the_greatest_index_must_fit_and_no_more(device, op, name):
    """As many elements as the type has indices: repeated ones, which take no memory."""
    greatest = int(np.iinfo(name).max)
    assert elements.index_dtype(name, greatest + 1) == np.dtype(name)
    with pytest.raises(ValueError, match=rf"index {greatest + 1} does not fit dtype {name} \(at most"):
        elements.index_dtype(name, greatest + 2)
    if np.dtype(name).itemsize == 8:
        return  # NumPy has no such array
    function = getattr(vkdml, op)
    for count in (greatest, greatest + 1):
        for keyword in ({"dtype": name}, {"out": np.zeros(3, name)}):
            x = np.broadcast_to(np.int8([[1], [2], [3]]), (3, count))
            assert function(x, 1, direction="decreasing", **keyword).tolist() == [count - 1] * 3
    # Where elements compete, too; the winner is in the second half.
    winner = np.int8([[0], [1 if op == "argmax" else -1]])
    halves = np.broadcast_to(winner, (2, (greatest + 1) // 2))
    assert function(halves, dtype=name) == (greatest + 1) // 2
    assert function(halves, dtype=name, direction="decreasing") == greatest
    assert function(halves, dtype=name, direction="decreasing", progress=lambda *done: None) == greatest
    x = np.broadcast_to(np.int8(1), (3, greatest + 2))
    with pytest.raises(ValueError, match=rf"{op} of .*{greatest + 2} elements compete for one index"):
        function(x, 1, dtype=name)


@pytest.mark.parametrize(("rows", "repeats"), [(3, 1 << 31), ((1 << 16) + 1, 1 << 16), (2, (1 << 32) - 1)])
def test_indices_of_one_tile_beyond_32_bits(device, rows, repeats):
    """Just over 2**32 elements, few of them distinct: one tile, in which the last index has 33 bits."""
    column = np.zeros((rows, 1), np.int8)
    column[-1] = 1
    x = np.broadcast_to(column, (rows, repeats))
    reduction = ReduceRequest("argmax").checked(x.shape, x.dtype)
    found = stream.reduce(x, reduction, devices=[device])
    assert found[0] == (rows - 1) * repeats
    assert vkdml.argmax(x) == (rows - 1) * repeats


# ---- outputs and the input ---------------------------------------------------------------------------------

SHARED = np.zeros(64, np.int64)
OVERLAPPING = {
    "one array twice": (SHARED[:3], SHARED[:3]),
    "a part": (SHARED[:3], SHARED[2:5]),
    "reversed views": (SHARED[:3], SHARED[4:1:-1]),
    "interleaved with a common element": (SHARED[:9:4], SHARED[2:9:3]),
    "half an element": (SHARED[:3], as_strided(SHARED[1:].view(np.int8)[4:], (3,), (16,)).view(np.int8)),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_indices_and_values_that_overlap_are_refused_and_not_written(device, name):
    indices, values = OVERLAPPING[name]
    x = np.arange(6).reshape(3, 2).astype(values.dtype)
    SHARED[:] = -7
    for array in (x, x[:, :1], np.broadcast_to(x[:, :1], (3, 4))):
        with pytest.raises(ValueError, match=r"argmax of .*indices and the values of out overlap; accepted"):
            vkdml.argmax(array, 1, out=(indices, values), return_values=True)
    assert (SHARED == -7).all()


def test_where_the_search_for_a_common_byte_is_too_long_arrays_count_as_overlapping(device):
    room = np.zeros(192_163_377, np.int8)  # never touched
    first = as_strided(room, (1049, 1049, 1049), (36674, 61119, 85569))
    second = as_strided(room[64_023_025:], (1049, 1049, 1), (12223, 12224, 1))
    assert may_share_bytes(first, second)
    assert not may_share_bytes(room[:10], room[10:])


def test_indices_and_values_may_interleave(device):
    both = np.full((3, 2), -7)
    x = np.arange(6).reshape(3, 2)
    vkdml.argmax(x, 1, out=(both[:, 0], both[:, 1]), return_values=True)
    assert both.tolist() == [[1, 1], [1, 3], [1, 5]]


@pytest.mark.parametrize("in_tiles", [False, True])
def test_out_may_overlap_the_input(device, limited, in_tiles):
    """Results are complete before any is written."""
    tiled = limited(128 if in_tiles else 1 << 30)
    original = np.random.default_rng(7).integers(0, 1000, (40, 40))

    x = original.copy()
    vkdml.argmax(x, 1, out=x[0])
    assert x[0].tolist() == original.argmax(1).tolist()
    assert np.array_equal(x[1:], original[1:])

    x = original.copy()
    vkdml.argmin(x, 0, out=(x[:, 3], None), return_values=True)
    assert x[:, 3].tolist() == original.argmin(0).tolist()

    x = original.copy()
    vkdml.argmax(x, 0, out=(x[3], x[4, ::-1]), return_values=True)
    assert x[3].tolist() == original.argmax(0).tolist()
    assert x[4, ::-1].tolist() == original.max(0).tolist()

    x = original.copy()
    vkdml.argmax(x, (), out=(x, None), return_values=True)  # nothing competes
    assert not x.any()

    x = original.copy()
    vkdml.slice1(x, (0, 0), x.shape, (-1, -1), out=x)
    assert np.array_equal(x, original[::-1, ::-1])

    x = original.copy()
    vkdml.slice1(x, (0, 0), (39, 40), (1, 1), out=x[1:])
    assert np.array_equal(x[1:], original[:-1])
    assert bool(tiled) == in_tiles
