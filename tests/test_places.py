"""Where in its memory an array lies changes no answer: starts within a binding, outputs, arrays that meet."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import vkdml
from vkdml.runtime.memory import BINDING_ALIGNMENT

pytestmark = pytest.mark.usefixtures("device")

WIDTHS = ("int8", "int16", "int32", "int64")


def numbers(*shape: int, dtype: str = "int32", seed: int = 5) -> np.ndarray:
    """Few values, so that there are ties."""
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


# ---- starts within a binding -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", WIDTHS)
def test_a_call_that_was_right_once_is_another_at_another_start(dtype):
    """Views alike but for their start are one kind of call only where that is the same within a binding."""
    within = BINDING_ALIGNMENT // np.dtype(dtype).itemsize
    host = numbers(2 * within + 70, 2, dtype=dtype)
    array = vkdml.asarray(host)
    starts = [0, 1, 2, 3, within - 1, within, within + 1]
    for start in (*starts, *reversed(starts)):
        part, expected = array[start : start + 60], host[start : start + 60]
        assert int(vkdml.argmax(part)) == expected.argmax()
        assert vkdml.argmin(part, axis=0).tolist() == expected.argmin(axis=0).tolist()
        assert vkdml.argmax(part[:, ::-1], axis=1).tolist() == expected[:, ::-1].argmax(axis=1).tolist()


ALTERNATIVES = {
    "the operator": lambda x: vkdml.argmin(x, 0),
    "the axis": lambda x: vkdml.argmax(x, 1),
    "all axes": lambda x: vkdml.argmax(x),
    "keepdims": lambda x: vkdml.argmax(x, 0, keepdims=True),
    "the index type": lambda x: vkdml.argmax(x, 0, dtype="int32"),
    "the index type again": lambda x: (vkdml.argmax(x, 0, dtype="int32"), vkdml.argmax(x, 0, dtype="uint64"))[
        1
    ],
    "the direction": lambda x: vkdml.argmax(x, 0, direction="decreasing"),
    "the rule for NaN": lambda x: vkdml.argmax(x, 0, nan_policy="omit"),
}


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("other", ALTERNATIVES)
def test_a_call_that_was_right_once_is_another_with_other_arguments(where, other):
    host = numbers(12, 12, dtype="float32")
    host[3, 0] = np.nan
    x = vkdml.asarray(host) if where == "device" else host
    first = np.asarray(vkdml.argmax(x, 0))
    expected = np.asarray(ALTERNATIVES[other](np.asfortranarray(host)))  # a call that is never remembered
    for _ in range(2):
        got = np.asarray(ALTERNATIVES[other](x))
        assert (got.dtype, got.tolist()) == (expected.dtype, expected.tolist())
        assert np.asarray(vkdml.argmax(x, 0)).tolist() == first.tolist()
    assert (expected.shape, expected.dtype, expected.tolist()) != (first.shape, first.dtype, first.tolist())


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_call_that_was_right_once_is_another_on_another_kind_of_array(where):
    bits = np.random.default_rng(2).integers(0, 1 << 32, 144, np.uint32)
    kinds = [
        bits.reshape(12, 12),
        bits.view(np.int32).reshape(12, 12),
        bits.view(np.float32).reshape(12, 12),
        bits.astype(">u4").reshape(12, 12),
        bits.reshape(12, 12).T,
        bits.reshape(12, 12)[:, ::-1],
        bits.reshape(6, 24),
        bits.view(np.uint16)[::2].reshape(12, 12),
        bits.view(np.uint16)[:144].view(ml_dtypes.bfloat16).reshape(12, 12),
    ]
    for host in (*kinds, *kinds):
        x = vkdml.asarray(host) if where == "device" else host
        expected = vkdml.argmax(np.array(host, order="F")[...], (1,))  # a tuple: never remembered
        assert np.asarray(vkdml.argmax(x, 1)).tolist() == expected.tolist()


def test_a_call_that_was_right_once_is_another_with_other_strides():
    host = numbers(16, 16, 16)
    array = vkdml.asarray(host)
    for _ in range(2):
        for view in (
            np.s_[:8, 0, :8],
            np.s_[:8, :8, 0],
            np.s_[0, :8, :8],
            np.s_[:8, 0, ::2],
            np.s_[::2, 0, :8],
        ):
            assert vkdml.argmax(array[view], 1).tolist() == host[view].argmax(1).tolist()
            assert vkdml.argmax(array[view].T, 1).tolist() == host[view].argmax(0).tolist()


@pytest.mark.parametrize("dtype", WIDTHS)
def test_rows_that_start_between_vectors(dtype):
    """Strides of whole 16-byte vectors, and a start between two: long rows, and columns side by side."""
    host = numbers(9, 256, dtype=dtype)
    array = vkdml.asarray(host)
    for start in (0, 1, 3, 16 // host.itemsize - 1):
        for length in (128, 131):
            part, expected = array[1:, start : start + length], host[1:, start : start + length]
            for axis in (0, 1, None):
                for operator in ("argmax", "argmin"):
                    got = getattr(vkdml, operator)(part, axis)
                    assert np.array_equal(got, getattr(expected, operator)(axis))
                    backwards = getattr(vkdml, operator)(
                        part, axis, direction="decreasing", return_values=True
                    )
                    flipped = np.flip(expected, axis)
                    count = expected.size if axis is None else expected.shape[axis]
                    wanted = count - 1 - getattr(flipped, operator)(axis)
                    assert np.array_equal(backwards.indices, wanted)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_rows_of_one_output_start_between_vectors(dtype):
    """Each row has whole vectors, but the way from one to the next has not."""
    per_vector = 16 // np.dtype(dtype).itemsize
    for columns in (4 * per_vector, 16 * per_vector, 64 * per_vector):
        for room in (1, per_vector - 1, per_vector):
            for kept in (False, True):
                pitch = columns + room
                host = np.zeros((7, 2, pitch), dtype)
                host[:, :, columns:] = 9  # between the rows
                lies = vkdml.asarray(host).reshape(-1)[: 7 * 2 * pitch].reshape((7, 2, pitch))
                for row, column in ((1, columns - 1), (2, 0), (5, columns - 1)):
                    for block in range(2):
                        lies[row, block, column] = host[row, block, column] = 5
                    axes = (0, 2) if kept else (0, 1, 2)
                    part, expected = lies[:, :, :columns], host[:, :, :columns]
                    indices, values = vkdml.argmax(part, axes, return_values=True)
                    wanted = vkdml.argmax(np.ascontiguousarray(expected), axes)
                    assert indices.tolist() == wanted.tolist()
                    assert (values.numpy() == 5).all()
                    lies[row], host[row, :, :columns] = host[0], 0


@pytest.mark.parametrize("dtype", WIDTHS)
def test_a_block_that_is_read_in_memory_order_starts_where_its_first_element_lies(dtype):
    """Not where the element of position 0 lies, which may be at a whole vector when the first one is not."""
    per_vector = 16 // np.dtype(dtype).itemsize
    rows, columns = 6 * per_vector, 2 * per_vector + 1
    for start in range(1, per_vector + 2):
        for winner in (0, rows * columns - 1):
            host = np.zeros(start + rows * columns + 64, dtype)
            host[[start - 1, start + rows * columns]] = 9  # its neighbours
            host[start + winner] = 5
            array = vkdml.asarray(host)
            for turned in (np.s_[:, ::-1], np.s_[::-1], np.s_[::-1, ::-1]):
                block = array[start : start + rows * columns].reshape(rows, columns)[turned]
                expected = host[start : start + rows * columns].reshape(rows, columns)[turned]
                indices, values = vkdml.argmax(block, return_values=True)
                assert (int(indices), int(values)) == (expected.argmax(), 5)
                assert vkdml.argmax(block, (0, 1), direction="decreasing").tolist() == expected.argmax()


# ---- outputs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("index_start", "value_start"), [(0, 0), (3, 7), (40, 40), (31, 32), (64, 1)])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_indices_and_values_may_start_anywhere(dtype, index_start, value_start):
    """Alike in shape and strides, they need not start alike within what is bound."""
    host = numbers(20, 33, dtype=dtype)
    all_indices, all_values = np.full(200, -7, np.int64), np.full(200, 77, dtype)
    indices, values = vkdml.asarray(all_indices), vkdml.asarray(all_values)
    for step in (1, 2, -3):
        index_place = slice(index_start, index_start + 20 * abs(step), abs(step))
        value_place = slice(value_start, value_start + 20 * abs(step), abs(step))
        turned = slice(None, None, -1 if step < 0 else 1)
        vkdml.argmax(
            vkdml.asarray(host),
            axis=1,
            return_values=True,
            out=(indices[index_place][turned], values[value_place][turned]),
        )
        all_indices[index_place][turned] = host.argmax(1)
        all_values[value_place][turned] = host.max(1)
        assert np.array_equal(indices, all_indices)
        assert np.array_equal(values, all_values)


@pytest.mark.parametrize("turned", ["indices", "values"])
def test_indices_and_values_may_lie_in_different_orders(turned):
    host = numbers(6, 5, 6)
    indices, values = vkdml.empty((6, 6), np.int64), vkdml.empty((6, 6), np.int32)
    out = (indices.T, values) if turned == "indices" else (indices, values.T)
    got = vkdml.argmax(vkdml.asarray(host), 1, return_values=True, out=out)
    assert got.indices is out[0]
    assert got.values is out[1]
    assert out[0].tolist() == host.argmax(1).tolist()
    assert out[1].tolist() == host.max(1).tolist()


@pytest.mark.parametrize("which", ["indices", "both", "values"])
def test_outputs_over_the_last_of_many_rows_are_written_when_all_are_read(which):
    """The first rows are long done, and written, when the last is read."""
    rows = 1024
    host = numbers(rows, 64, dtype="int64")
    host[-1:] -= 1000
    array = vkdml.asarray(host)
    place = array.reshape(-1)[-rows:]
    out = {
        "indices": (place, None),
        "values": (None, place),
        "both": (place, array.reshape(-1)[:rows]),
    }[which]
    got = vkdml.argmax(array, 1, return_values=True, out=out)
    assert got.indices.tolist() == host.argmax(1).tolist()
    assert got.values.tolist() == host.max(1).tolist()


@pytest.mark.parametrize("with_out_values", [False, True])
def test_values_are_taken_before_indices_are_written_over_the_input(with_out_values):
    """Where nothing competes no kernel chooses, and the values are a copy of the input."""
    for shape, axis in (((3, 1, 4), 1), ((12,), ()), ((1, 1, 12), (0, 1))):
        host = numbers(12, dtype="int64") + 100
        array = vkdml.asarray(host)
        result = host.reshape(shape).squeeze(axis).shape
        values = vkdml.empty(result, np.int64) if with_out_values else None
        got = vkdml.argmax(
            array.reshape(shape), axis, return_values=True, out=(array.reshape(result), values)
        )
        assert got.values.tolist() == host.reshape(result).tolist()
        assert array.tolist() == [0] * 12
        if with_out_values:
            assert got.values is values


def test_values_that_are_written_over_the_input_are_taken_from_it_first():
    host = numbers(3, 1, 4, dtype="int64") + 100
    array = vkdml.asarray(host)
    vkdml.argmin(array, 1, return_values=True, out=(None, array[::-1].reshape(3, 4)))
    assert array.tolist() == host[::-1].tolist()
    competing = vkdml.asarray(host.reshape(3, 4))
    got = vkdml.argmin(competing, 0, return_values=True, out=(competing[2], competing[0]))
    assert got.indices.tolist() == host.reshape(3, 4).argmin(0).tolist()
    assert got.values.tolist() == host.reshape(3, 4).min(0).tolist()
    assert competing[1].tolist() == host.reshape(3, 4)[1].tolist()


@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
@pytest.mark.parametrize("operator", ["argmax", "argmin"])
def test_of_repeats_of_one_element_the_first_or_the_last_is_taken(operator, direction):
    """Where only repeats compete, and where other elements do, too."""
    host = numbers(1, 5, 3)
    array = vkdml.asarray(host)
    for axis in (0, (0,), (0, 1), (0, 2), None):
        call = getattr(vkdml, operator)
        repeated, expected = (
            array.broadcast_to((4, 5, 3)),
            np.ascontiguousarray(np.broadcast_to(host, (4, 5, 3))),
        )
        got = call(repeated, axis, direction=direction, return_values=True)
        wanted = call(expected, axis, direction=direction, return_values=True)
        assert got.indices.tolist() == wanted.indices.tolist()
        assert got.values.tolist() == wanted.values.tolist()
    got = getattr(vkdml, operator)(array.broadcast_to((4, 5, 3)), 0, direction=direction)
    assert got.tolist() == np.full((5, 3), 0 if direction == "increasing" else 3).tolist()


# ---- arrays that meet --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_outputs_that_share_one_element_overlap_and_neighbours_do_not(step):
    x = vkdml.asarray(numbers(4, 5, dtype="int64"))
    memory = vkdml.asarray(np.full(40, 9, np.int64))
    upright = slice(None, None, abs(step))
    turned = slice(None, None, -1 if step < 0 else 1)
    first = memory[10:][upright][:4]
    end = 10 + 3 * abs(step)  # of the last element of the first
    for start in (end, 10 - 3 * abs(step)):  # one element is in both
        with pytest.raises(ValueError, match="overlap"):
            vkdml.argmax(x, 1, return_values=True, out=(first[turned], memory[start:][upright][:4][turned]))
    assert memory.tolist() == [9] * 40
    for start in (end + 1, 10 - 3 * abs(step) - 1):
        got = vkdml.argmax(x, 1, return_values=True, out=(first[turned], memory[start:][upright][:4][turned]))
        assert got.indices.tolist() == x.numpy().argmax(1).tolist()
        assert got.values.tolist() == x.numpy().max(1).tolist()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("columns", [(0, 1), (1, 0), (3, 67), (67, 3), (0, 64), (5, 37)])
def test_indices_and_values_may_interleave(dtype, columns):
    """As on the host: the stretches that they lie in overlap, no element does."""
    host = numbers(40, 9, dtype=dtype)
    for rows in (slice(None), slice(None, None, -1)):
        memory = vkdml.asarray(np.full((40, 70), 77, dtype))
        out = tuple(memory[rows, column] for column in columns)
        got = vkdml.argmax(vkdml.asarray(host), 1, return_values=True, out=out)
        assert (got.indices is out[0], got.values is out[1]) == (True, True)
        expected = np.full((40, 70), 77, dtype)
        expected[rows, columns[0]], expected[rows, columns[1]] = host.argmax(1), host.max(1)
        assert np.array_equal(memory.numpy(), expected)
    with pytest.raises(ValueError, match="the indices and the values of out overlap"):
        vkdml.argmax(vkdml.asarray(host), 1, return_values=True, out=(memory[:, 3], memory[::-1, 3]))
    deep = memory[:, :2].reshape((40, 2, *[1] * 70))[:, 0], memory[:, 1].reshape((40, *[1] * 70))
    got = vkdml.argmax(vkdml.asarray(host).reshape((40, 9, *[1] * 70)), 1, return_values=True, out=deep)
    assert got.values.reshape(40).tolist() == host.max(1).tolist()


@pytest.mark.parametrize("forwards", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_a_copy_to_where_one_element_of_it_lies_reads_that_first(dtype, forwards):
    count = 1 << 18
    host = np.arange(2 * count - 1).astype(dtype)
    host[count - 1] = 77
    array = vkdml.asarray(host)
    ends = slice(None, count), slice(count - 1, None)
    source, target = ends if forwards else ends[::-1]
    array[target] = array[source]
    host[target] = host[source].copy()
    assert np.array_equal(array, host)
