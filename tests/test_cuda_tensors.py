"""The operators on CUDA tensors, on software drivers and a double of CUDA's driver (tests/cuda_double.c)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import cuda_double
import numpy as np
import pytest
from cuda_double import Tensor, seen_by_cuda

import vkdml
from vkdml.integrations import cuda_driver, cuda_memory, cuda_tensors

ORDINAL = 1


@pytest.fixture(autouse=True)
def cuda(device: vkdml.Device) -> Iterator[Any]:
    """CUDA with two devices, of which the second is the one that Vulkan has."""
    cuda_double.show_devices(["00" * 16, device.info.uuid])
    yield cuda_double.library()
    gc.collect()
    device.trim()
    cuda_double.hide()


def elements(*shape: int, dtype: Any = "int32", seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 1000, shape).astype(dtype)


BASE = elements(6, 9, 14)
LAYOUTS = {
    "compact": BASE,
    "transposed": BASE.transpose(2, 0, 1),
    "stepped": BASE[::2, 1:, ::3],
    "backwards": BASE[::-1, ::-2],
    "repeated": np.broadcast_to(BASE[:, :1], (6, 9, 14)),
    "repeated and backwards": np.broadcast_to(BASE[::-1, :1, ::-1], (6, 9, 14)),
    "one row": BASE[3:4],
    "a column": BASE[:, :, 4],
    "no dimensions": BASE[1, 2, 3, ...],
    "windows that overlap": np.lib.stride_tricks.sliding_window_view(BASE[0, 0], 5),
    "one of each": BASE[:1, :1, :1],
}


@pytest.mark.parametrize("span_bytes", [cuda_tensors.SPAN_BYTES, 0], ids=["as it lies", "brought together"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_of_any_layout(monkeypatch, layout, span_bytes):
    monkeypatch.setattr(cuda_tensors, "SPAN_BYTES", span_bytes)
    x = LAYOUTS[layout]
    tensor = Tensor(x, ORDINAL)
    assert np.array_equal(vkdml.from_dlpack(tensor).numpy(), x)
    assert int(vkdml.argmax(tensor)) == x.argmax()
    for axis in range(x.ndim):
        assert np.array_equal(vkdml.argmin(tensor, axis).numpy(), x.argmin(axis))
    window = tuple(slice(None, None, -2) for _ in x.shape)
    moved = vkdml.slice1(tensor, (0,) * x.ndim, x.shape, (-2,) * x.ndim)
    assert np.array_equal(moved.numpy(), x[window])


def test_widely_spread_elements_are_brought_together_by_the_copy(monkeypatch):
    monkeypatch.setattr(cuda_tensors, "SPAN_BYTES", 0)
    x = elements(50, 40, 30)
    windows = np.lib.stride_tricks.as_strided(x, (4, 30, 5), (8000 * 4, 2 * 4, 4))  # rows that overlap
    for spread in (x[:, 0, 0], x[::5, :, ::7], x[:, ::20, 5:7], x[::9, ::9, ::9], windows):
        a = vkdml.from_dlpack(Tensor(spread, ORDINAL))
        assert np.array_equal(a.numpy(), spread)
        assert a.memory.capacity < 4 * max(spread.nbytes, 256)


def test_an_empty_tensor():
    tensor = Tensor(np.zeros((3, 0, 4), "f4"), ORDINAL)
    assert vkdml.argmax(tensor, 0).shape == (0, 4)
    with pytest.raises(ValueError, match=r"argmax of \(3, 0, 4\) float32: attempt to get argmax of an empty"):
        vkdml.argmax(tensor, 1)


def test_options_are_those_of_arrays():
    x = np.float32([[1, np.nan, 7], [7, 7, 0]])
    tensor = Tensor(x, ORDINAL)
    assert vkdml.argmax(tensor, 1, direction="decreasing", nan_policy="omit").tolist() == [2, 1]
    assert vkdml.argmax(tensor, (0, 1), keepdims=True, dtype="int32").dtype == np.int32
    indices, values = vkdml.argmax(tensor, 1, return_values=True)
    assert indices.tolist() == [1, 0]
    assert np.isnan(values.numpy()[0])
    for result in (indices, values):
        assert result.__dlpack_device__() == (2, ORDINAL)


def test_the_same_call_again_on_other_elements():
    for seed in range(4):
        x = elements(20, 30, seed=seed)
        assert np.array_equal(vkdml.argmax(Tensor(x, ORDINAL), 1).numpy(), x.argmax(1))


def test_the_copy_goes_on_a_stream_that_the_producer_is_told():
    tensor = Tensor(elements(5), ORDINAL)
    vkdml.argmax(tensor)
    assert tensor.streams == [cuda_driver.numbered(ORDINAL).stream]


def test_producers_from_before_versions():
    x = elements(5, 6)
    assert np.array_equal(vkdml.argmax(Tensor(x, ORDINAL, versions=False), 0).numpy(), x.argmax(0))


def test_memory_that_cuda_manages_is_taken():
    x = elements(5, 6)
    assert np.array_equal(vkdml.argmax(Tensor(x, ORDINAL, device_type=13), 0).numpy(), x.argmax(0))


def test_read_only_tensors_give_read_only_arrays():
    x = elements(5)
    x.flags.writeable = False
    assert not vkdml.from_dlpack(Tensor(x, ORDINAL)).writeable


def test_tensors_that_repeat_elements_give_read_only_arrays():
    base = elements(50)
    overlapping = np.lib.stride_tricks.as_strided(base, (10, 6), (16, 4))
    repeated = np.lib.stride_tricks.as_strided(base, (10, 6), (0, 4))
    assert not any(vkdml.from_dlpack(Tensor(x, ORDINAL)).writeable for x in (overlapping, repeated))
    assert all(
        vkdml.from_dlpack(Tensor(x, ORDINAL)).writeable for x in (base, base[::-3], base[:1], base[:0])
    )


# ---- memory of vkdml's -------------------------------------------------------------------------------------


class Consumed:
    """What another library makes of an Array: a tensor of the same memory, or of a part of it."""

    def __init__(self, a: vkdml.Array, key: Any = ...) -> None:
        self.tensor = Tensor(seen_by_cuda(a)[key], ORDINAL)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, ORDINAL

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)


@pytest.mark.parametrize("key", [np.s_[...], np.s_[2:, ::-1], np.s_[::3, 5], np.s_[:0]])
def test_memory_of_vkdmls_comes_back_without_a_copy(key):
    x = elements(10, 20)
    a = vkdml.asarray(x, share="cuda")
    back = vkdml.from_dlpack(Consumed(a, key))
    assert np.array_equal(back.numpy(), x[key])
    assert back.memory is a.memory or not back.size
    if back.size:
        assert np.array_equal(vkdml.argmax(Consumed(a, key), 0).numpy(), x[key].argmax(0))
        back[...] = 0
        assert not a.numpy()[key].any()
    copied = vkdml.from_dlpack(Consumed(a, key), copy=True)
    assert copied.memory is not a.memory


def test_memory_that_is_not_of_one_array_is_copied():
    a, b = vkdml.zeros(64, "int8", share="cuda"), vkdml.zeros(64, "int8", share="cuda")
    for array in (a, b):
        seen_by_cuda(array)
    x = np.arange(1000, dtype=np.int8)
    assert vkdml.from_dlpack(Tensor(x, ORDINAL)).memory not in (a.memory, b.memory)


def test_an_empty_tensor_of_vkdmls_memory_needs_no_copy():
    a = vkdml.zeros(64, "int8", share="cuda")
    for key in (np.s_[:0], np.s_[64:], np.s_[5:5:-1]):
        empty = vkdml.from_dlpack(Consumed(a, key), copy=False)
        assert empty.shape == (0,)
        assert empty.memory is a.memory


def test_memory_that_was_given_back_is_not_found():
    a = vkdml.zeros(64, "int8", share="cuda")
    address = a.memory.address
    seen_by_cuda(a)
    assert cuda_tensors.memory_at(address, 64) is a.memory
    assert cuda_tensors.memory_at(address, a.memory.capacity + 1) is None
    assert cuda_tensors.memory_at(address - 1, 1) is None
    del a
    assert cuda_tensors.memory_at(address, 64) is None
    assert address not in cuda_memory._addresses
    assert address not in cuda_memory._lent


# ---- out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [np.s_[:, 0], np.s_[::-1, 1], np.s_[:, -1]])
def test_results_go_to_tensors_of_any_layout(key):
    x = elements(20, 30)
    room = np.full((20, 3), -5, np.int64)
    out = Tensor(room[key], ORDINAL)
    assert vkdml.argmax(Tensor(x, ORDINAL), 1, out=out) is out
    expected = np.full((20, 3), -5, np.int64)
    expected[key] = x.argmax(1)
    assert np.array_equal(room, expected)


def test_the_type_of_out_decides_that_of_the_indices():
    x = elements(20, 30)
    out = Tensor(np.zeros(20, np.uint32), ORDINAL)
    vkdml.argmin(Tensor(x, ORDINAL), 1, out=out)
    assert np.array_equal(out.array, x.argmin(1))


def test_indices_and_values_go_to_tensors():
    x = elements(20, 30)
    tensor = Tensor(x, ORDINAL)
    indices, values = Tensor(np.zeros(20, np.int64), ORDINAL), Tensor(np.zeros(20, np.int32), ORDINAL)
    result = vkdml.argmax(tensor, 1, return_values=True, out=(indices, values))
    assert result.indices is indices
    assert result.values is values
    assert np.array_equal(indices.array, x.argmax(1))
    assert np.array_equal(values.array, x.max(1))
    values.array[:] = 0
    result = vkdml.argmax(tensor, 1, return_values=True, out=(None, values))
    assert np.array_equal(result.indices.numpy(), x.argmax(1))
    assert np.array_equal(values.array, x.max(1))


def test_slice1_writes_to_tensors():
    x = elements(6, 8)
    out = Tensor(np.zeros((3, 8), np.int32).T.copy().T, ORDINAL)
    assert vkdml.slice1(Tensor(x, ORDINAL), (0, 0), (6, 8), (-2, 1), out=out) is out
    assert np.array_equal(out.array, x[::-2])


def test_an_array_in_and_a_tensor_out():
    x = elements(6, 8)
    for a in (vkdml.asarray(x), vkdml.asarray(x, share="cuda")):
        out = Tensor(np.zeros(8, np.int64), ORDINAL)
        assert vkdml.argmax(a, 0, out=out) is out
        assert np.array_equal(out.array, x.argmax(0))


def test_a_tensor_in_and_an_array_out(device):
    x = elements(6, 8)
    for out in (vkdml.empty(8, "int64"), vkdml.empty(8, "int64", share="cuda")):
        assert vkdml.argmax(Tensor(x, ORDINAL), 0, out=out) is out
        assert np.array_equal(out.numpy(), x.argmax(0))


def test_out_in_memory_of_vkdmls_is_written_as_it_is():
    own = vkdml.zeros((8, 2), "int64", share="cuda")
    out = Consumed(own, np.s_[:, 1])
    x = elements(6, 8)
    assert vkdml.argmax(Tensor(x, ORDINAL), 0, out=out) is out
    assert np.array_equal(own.numpy(), np.stack([np.zeros(8), x.argmax(0)], 1))


def test_out_may_be_the_input():
    x = elements(6, 8)
    tensor = Tensor(x.copy(), ORDINAL)
    vkdml.slice1(tensor, (0, 0), (6, 8), (-1, 1), out=tensor)
    assert np.array_equal(tensor.array, x[::-1])


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (
            Tensor(np.zeros(7, "i8"), ORDINAL),
            ValueError,
            r"out has shape \(7,\), the result has shape \(8,\)",
        ),
        (Tensor(np.zeros(8, "f4"), ORDINAL), TypeError, "float32"),
        (
            np.zeros(8, "i8"),
            TypeError,
            "out must be a CUDA tensor or a vkdml.Array on the GPU .* not ndarray",
        ),
        (Tensor(np.broadcast_to(np.zeros(1, "i8"), 8), ORDINAL), ValueError, "out is read-only or repeats"),
        ("text", TypeError, "not str"),
    ],
)
def test_what_cannot_be_written_is_refused(out, error, message):
    with pytest.raises(error, match=rf"argmax of \(6, 8\) int32: {message}|{message}"):
        vkdml.argmax(Tensor(elements(6, 8), ORDINAL), 0, out=out)


# ---- creation and assignment -------------------------------------------------------------------------------


def test_creation_takes_tensors():
    x = elements(4, 5)
    tensor = Tensor(x, ORDINAL)
    for a in (vkdml.asarray(tensor), vkdml.from_dlpack(tensor), vkdml.from_dlpack(tensor, copy=True)):
        assert np.array_equal(a.numpy(), x)
        assert a.memory.is_cuda
    assert vkdml.asarray(tensor, "float64").dtype == np.float64
    assert np.array_equal(vkdml.from_dlpack(tensor, device=0).numpy(), x)
    for make in (vkdml.asarray, vkdml.from_dlpack):
        with pytest.raises(ValueError, match="copy=False, but CUDA's own memory is not seen by Vulkan"):
            make(tensor, copy=False)


def test_assignment_takes_tensors():
    x = elements(4, 5)
    a = vkdml.zeros((4, 10), "int32")
    a[:, ::2] = Tensor(x, ORDINAL)
    assert np.array_equal(a.numpy()[:, ::2], x)
    assert not a.numpy()[:, 1::2].any()
    a[...] = vkdml.asarray(np.ones((4, 10), "int32"), share="cuda")
    assert (a.numpy() == 1).all()


# ---- refusals ----------------------------------------------------------------------------------------------


class Refusing(Tensor):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it needs a gradient")


def test_what_its_library_does_not_lend_is_refused_with_its_reason():
    with pytest.raises(
        TypeError, match=r"argmax of \(4,\) int32: this Refusing cannot be .*: it needs a grad"
    ):
        vkdml.argmax(Refusing(elements(4), ORDINAL))


def test_views_with_another_sign_than_is_stored_are_refused():
    tensor = Tensor(elements(4), ORDINAL)
    tensor.is_neg = lambda: True  # type: ignore[attr-defined]  # as torch's
    indices = Tensor(np.zeros(2, "int64"), ORDINAL)
    indices.is_neg = lambda: True  # type: ignore[attr-defined]
    for call in (
        lambda: vkdml.argmax(tensor),
        lambda: vkdml.from_dlpack(tensor),
        lambda: vkdml.argmax(vkdml.asarray(elements(2, 3)), axis=1, out=indices),
    ):
        with pytest.raises(TypeError, match=r"changes the sign of what .*: x\.resolve_neg\(\) makes"):
            call()


@pytest.mark.parametrize("kind", [4, 7, 10, 99])
def test_tensors_elsewhere_are_refused_as_before(kind):
    tensor = Tensor(elements(4), device_type=kind)
    with pytest.raises(
        BufferError, match=r"accepted are tensors in host memory, device \(1, 0\), and CUDA's"
    ):
        vkdml.from_dlpack(tensor)
    with pytest.raises(TypeError, match="accepted are tensors in host memory"):
        vkdml.argmax(tensor)


def test_another_device_and_progress_are_refused():
    tensor = Tensor(elements(4), ORDINAL)
    with pytest.raises(TypeError, match="progress="):
        vkdml.argmax(tensor, progress=print)
    with pytest.raises(vkdml.NoDeviceError):
        vkdml.argmax(tensor, device="no such device")


def test_rows_further_apart_than_cuda_copies_are_copied_one_by_one():
    near, far = (4, 1000, 1 << 30), (9, 1000, 1 << 31)
    assert cuda_tensors._rows([near, far], 1000, 1) == near
    assert cuda_tensors._rows([far], 1000, 1) is None
    assert cuda_tensors._rows([near], 1000, 2) is None
    assert cuda_tensors._rows([(5, 999, 999)], 1000, 1) is None


def test_unknown_elements_are_refused():
    with pytest.raises(TypeError, match=r"code 4, 8 bits, 1 lanes"):
        cuda_tensors._element_type(4, 8, 1)
    for code, bits, lanes in ((2, 8, 1), (0, 32, 4), (9, 8, 1), (1, 4, 1)):
        with pytest.raises(TypeError, match="accepted are integers"):
            cuda_tensors._element_type(code, bits, lanes)


@pytest.mark.parametrize("function", ["cuMemcpyDtoDAsync_v2", "cuStreamQuery"])
def test_a_copy_that_fails_is_an_error_and_the_next_call_works(function):
    x = elements(4, 5)
    cuda_double.fail(function, 700)
    with pytest.raises(vkdml.DeviceError, match=f"argmax of .*{function} failed"):
        vkdml.argmax(Tensor(x, ORDINAL), 0)
    assert np.array_equal(vkdml.argmax(Tensor(x, ORDINAL), 0).numpy(), x.argmax(0))
