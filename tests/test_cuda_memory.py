"""Arrays in memory that CUDA maps, on software drivers and the double of CUDA's driver (tests/cuda_double.c).

What the double cannot show is tested on NVIDIA GPUs by tests/cuda_on_gpu.py: `./run test-cuda`.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from typing import Any

import cuda_double
import ml_dtypes
import numpy as np
import pytest
from cuda_double import Tensor, seen_by_cuda
from separate import separate_device

import vkdml
from vkdml import _native
from vkdml.common import dlpack
from vkdml.integrations import cuda_driver

ORDINAL = 1
OUT_OF_MEMORY, ANOTHER_ERROR = 2, 700
# A stream on which the double leaves copies undone until somebody waits for all of them.
STREAM = 7


@pytest.fixture(autouse=True)
def cuda(device: vkdml.Device) -> Iterator[Any]:
    """CUDA with two devices, of which the second is the one that Vulkan has."""
    device.trim()
    cuda_double.show_devices(["00" * 16, device.info.uuid])
    yield cuda_double.library()
    gc.collect()
    device.trim()
    cuda_double.hide()


def shared(elements: Any, dtype: Any = "float32") -> vkdml.Array:
    return vkdml.asarray(np.asarray(elements, dtype), share="cuda")


def written_later(a: vkdml.Array, elements: Any) -> Any:
    """Let CUDA start to write elements to an array, which it does when somebody waits for it."""
    source = np.ascontiguousarray(elements, a.dtype)
    start = source.__array_interface__["data"][0]
    cuda_driver.numbered(ORDINAL).copy(a.memory.address, start, source.nbytes, STREAM)
    return source


# ---- the same bytes ----------------------------------------------------------------------------------------


def test_both_sides_see_what_the_other_wrote():
    a = vkdml.empty((30, 40), share="cuda")
    assert a.__dlpack_device__() == (2, ORDINAL)
    tensor = seen_by_cuda(a)
    a[...] = elements = np.random.default_rng(1).normal(size=(30, 40)).astype("f4")
    assert np.array_equal(tensor, elements)
    tensor[3, 7] = elements[3, 7] = 100
    assert np.array_equal(a.numpy(), elements)
    assert int(vkdml.argmax(a)) == elements.argmax()
    assert np.array_equal(seen_by_cuda(vkdml.argmin(a, 0)), elements.argmin(0))


def test_views_are_lent_as_they_are():
    elements = np.arange(60, dtype=np.int16).reshape(6, 10)
    a = shared(elements, np.int16)
    for key in (np.s_[2:5, 1::3], np.s_[::-1, ::-2], np.s_[4], np.s_[3, 3], np.s_[:0], np.s_[..., None]):
        assert np.array_equal(seen_by_cuda(a[key]), elements[key])
    assert np.array_equal(seen_by_cuda(a.T), elements.T)
    repeated = seen_by_cuda(a[0].broadcast_to((3, 10)))
    assert np.array_equal(repeated, np.broadcast_to(elements[0], (3, 10)))
    assert not repeated.flags.writeable


def test_what_is_computed_of_a_shared_array_is_shared():
    a = shared(np.arange(12).reshape(3, 4))
    indices, values = vkdml.argmax(a, 1, return_values=True)
    for result in (
        indices,
        values,
        a.copy(),
        a[:, ::2].copy(),
        vkdml.slice1(a, (0, 0), (3, 4), (1, -1)),
        a.T,
    ):
        assert result.__dlpack_device__() == (2, ORDINAL)
    plain = vkdml.asarray([1.0, 2.0])
    assert plain.__dlpack_device__()[0] == plain.argmax().__dlpack_device__()[0] == 7


@pytest.mark.parametrize("first", ["plain", "shared"])
def test_the_same_call_on_plain_and_shared_arrays(first):
    """What is remembered of one must not decide where the other's results lie."""
    x = np.random.default_rng(3).normal(size=(11, 53)).astype("f4")
    arrays = [vkdml.asarray(x), vkdml.asarray(x, share="cuda")]
    if first == "shared":
        arrays.reverse()
    for _ in range(2):
        for a in arrays:
            for result in (a.argmin(1), *a.argmin(1, return_values=True)):
                assert result.memory.is_cuda == a.memory.is_cuda
            assert np.array_equal(a.argmin(1).numpy(), x.argmin(1))
            copied = vkdml.slice1(a, (1, 2), (9, 40), (1, -3))
            assert copied.memory.is_cuda == a.memory.is_cuda
            assert np.array_equal(copied.numpy(), x[1:10, 2:42][:, ::-3])


def test_small_results_lie_where_the_host_sees_them(device):
    a = shared(np.arange(1000).reshape(10, 100))
    assert (a.memory.visible() is None) is not device.info.unified_memory
    result = a.argmax(1)
    assert result.memory.visible() is not None
    assert np.array_equal(seen_by_cuda(result), np.full(10, 99))
    assert a[:, 50].copy().memory.visible() is not None


@pytest.mark.parametrize("make", [vkdml.empty, vkdml.zeros])
def test_creation_takes_share(make):
    a = make((2, 3), "int8", share="cuda")
    assert a.shape == (2, 3)
    assert a.memory.is_cuda
    with pytest.raises(ValueError, match=r"share='rocm': accepted are None and \"cuda\""):
        make(3, share="rocm")


def test_asarray_shares_by_a_copy_where_one_is_needed():
    plain = vkdml.asarray(np.arange(24.0).reshape(4, 6))
    a = vkdml.asarray(plain[::2, ::-1], share="cuda")
    assert np.array_equal(seen_by_cuda(a), np.arange(24.0).reshape(4, 6)[::2, ::-1])
    assert vkdml.asarray(a, share="cuda") is a
    assert vkdml.asarray(a) is a
    assert vkdml.asarray(a, copy=True).memory is not a.memory
    assert seen_by_cuda(vkdml.asarray(a, "int32", share="cuda")).dtype == np.int32
    with pytest.raises(ValueError, match="copy=False"):
        vkdml.asarray(plain, share="cuda", copy=False)
    with pytest.raises(ValueError, match="one device"):
        vkdml.asarray([1.0, 2.0], device=[0], share="cuda")


TYPES = "bool int8 uint16 int64 float16 float64 complex64 bfloat16 float8_e4m3fn float8_e5m2"


@pytest.mark.parametrize("dtype", TYPES.split())
def test_types_come_back_as_they_went(dtype):
    element = np.dtype(getattr(ml_dtypes, dtype, dtype))
    elements = (np.arange(20) % 2).astype(element).reshape(4, 5)
    tensor = Tensor(elements, ORDINAL)
    a = vkdml.from_dlpack(tensor)
    assert a.dtype == element
    assert a.numpy().tobytes() == elements.tobytes()
    again = vkdml.from_dlpack(Lent(a))
    assert again.dtype == element
    assert again.memory is a.memory


def test_types_that_dlpack_has_not_are_refused():
    a = vkdml.empty(3, "datetime64[s]", share="cuda")
    with pytest.raises(BufferError, match=r"no elements of type datetime64\[s\]"):
        a.__dlpack__()


class Lent:
    """What a consumer makes of an Array's capsule, lent again."""

    def __init__(self, a: vkdml.Array) -> None:
        self.a = a

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.a.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.a.__dlpack__(**options)


# ---- DLPack's arguments ------------------------------------------------------------------------------------


def name_of(capsule: Any) -> str:
    return repr(capsule).split('"')[1]


def test_versions_are_honoured():
    a = shared([1, 2, 3])
    assert name_of(a.__dlpack__()) == "dltensor"
    assert name_of(a.__dlpack__(max_version=(0, 8))) == "dltensor"
    assert name_of(a.__dlpack__(max_version=(1, 0))) == "dltensor_versioned"
    assert name_of(a.__dlpack__(max_version=(2, 5), stream=1)) == "dltensor_versioned"
    read_only = a.broadcast_to((2, 3))
    _, flags = dlpack.tensor_in(read_only.__dlpack__(max_version=(1, 0)))
    assert flags == dlpack.READ_ONLY
    with pytest.raises(BufferError, match=r"max_version=\(1, 0\)"):
        read_only.__dlpack__()


def test_copies_are_made_where_asked_and_said_to_be_copies():
    a = shared([1, 2, 3])
    lent = a.__dlpack__(max_version=(1, 0), copy=False)  # frees its tensor at its end
    tensor, flags = dlpack.tensor_in(lent)
    address = ctypes.c_uint64.from_address(tensor).value
    assert (address, flags) == (a.memory.address, 0)
    capsule = a.__dlpack__(max_version=(1, 0), copy=True)
    tensor, flags = dlpack.tensor_in(capsule)
    assert ctypes.c_uint64.from_address(tensor).value != a.memory.address
    assert flags == dlpack.COPIED
    with pytest.raises(TypeError, match="copy must be"):
        a.__dlpack__(copy="yes")


@pytest.mark.parametrize("copy", [None, True])
def test_the_host_is_given_a_copy(copy):
    a = shared([1, 2, 3])
    capsule = a.__dlpack__(dl_device=(1, 0), copy=copy)
    assert ctypes.c_int32.from_address(dlpack.tensor_in(capsule)[0] + 8).value == 1
    with pytest.raises(BufferError, match="copy=False"):
        a.__dlpack__(dl_device=(1, 0), copy=False)


def test_a_plain_array_is_lent_to_cuda_by_a_copy_on_request():
    plain = vkdml.asarray([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(BufferError, match=r"__dlpack__\(dl_device=\(1, 0\)\)"):
        plain.__dlpack__()
    with pytest.raises(BufferError, match="copy=False"):
        plain.__dlpack__(dl_device=(2, ORDINAL), copy=False)
    capsule = plain.__dlpack__(dl_device=(2, ORDINAL), max_version=(1, 0), stream=1)
    tensor, flags = dlpack.tensor_in(capsule)
    elements = (ctypes.c_double * 4).from_address(ctypes.c_uint64.from_address(tensor).value)
    assert list(elements) == [1, 2, 3, 4]
    assert flags == dlpack.COPIED


def test_other_devices_and_other_streams_are_refused():
    a = shared([1, 2, 3])
    for dl_device in ((2, 0), (10, 0), (7, 0)):
        with pytest.raises(BufferError, match=rf"\(2, {ORDINAL}\), and dl_device= means"):
            a.__dlpack__(dl_device=dl_device)
    for stream in (None, -1, 1, 2, 0x5000, np.int64(1)):
        assert name_of(a.__dlpack__(stream=stream)) == "dltensor"
    for stream in (0, -2):
        with pytest.raises(ValueError, match="accepted are None, -1, 1"):
            a.__dlpack__(stream=stream)
    for stream in ("1", 1.0, True):
        with pytest.raises(TypeError, match="stream must be"):
            a.__dlpack__(stream=stream)
    for pair in (1, (1,), ("a", 1), (1.0, 0)):
        with pytest.raises(TypeError, match="pair of integers"):
            a.__dlpack__(dl_device=pair)
        with pytest.raises(TypeError, match="pair of integers"):
            a.__dlpack__(max_version=pair)


# ---- lifetime ----------------------------------------------------------------------------------------------


def test_a_tensor_keeps_the_memory_and_an_array_does(cuda, device):
    a = shared(np.arange(5000))
    tensor = seen_by_cuda(a)
    del a
    gc.collect()
    others = [vkdml.zeros(5000, share="cuda") for _ in range(3)]
    assert np.array_equal(tensor, np.arange(5000))
    a = shared(np.arange(7000))
    tensor = seen_by_cuda(a)
    tensor[0] = 5
    del tensor, others
    gc.collect()
    assert a.tolist()[:3] == [5, 1, 2]
    del a
    gc.collect()
    device.trim()
    assert cuda.double_live_mappings() == 0
    assert device.memory()["used"] == 0 or not device.executions.clear()


def test_a_capsule_that_nobody_takes_lets_go(cuda, device):
    a = shared([1, 2, 3])
    capsules = [a.__dlpack__(), a.__dlpack__(max_version=(1, 0))]
    del a, capsules
    gc.collect()
    device.trim()
    assert cuda.double_live_mappings() == 0


def test_a_view_keeps_the_memory():
    tensor = seen_by_cuda(shared(np.arange(100))[90:])
    gc.collect()
    vkdml.zeros(100, share="cuda")
    assert tensor.tolist() == list(range(90, 100))


def test_memory_is_used_again_and_counted(cuda, device):
    before = device.memory()["used"]
    a = vkdml.empty(100_000, "uint8", share="cuda")
    address = a.memory.address
    assert device.memory()["used"] == before + 131072
    del a
    assert vkdml.empty(90_000, "uint8", share="cuda").memory.address == address
    assert cuda.double_live_mappings() == 1
    device.trim()
    assert cuda.double_live_mappings() == 0
    assert device.memory()["used"] == before


def test_late_writes_of_a_tensor_that_was_dropped_do_not_reach_the_next_array(cuda):
    a = vkdml.empty(50, share="cuda")
    seen_by_cuda(a)
    address = a.memory.address
    source = written_later(a, np.full(50, 9))
    del a
    b = vkdml.zeros(50, share="cuda")
    assert b.memory.address == address
    cuda_driver.numbered(ORDINAL).wait_for_all()
    assert not b.numpy().any()
    del source


def test_memory_that_a_sequence_recorded_is_not_used_again():
    a = vkdml.zeros(64, share="cuda")
    number = a.memory.buffer.id
    sequence = a.device.sequence()
    sequence.upload(a, np.ones(64, np.float32))
    sequence.eval()
    del a
    assert vkdml.zeros(64, share="cuda").memory.buffer.id != number
    with pytest.raises(vkdml.DeviceError, match="was freed"):
        sequence.eval()


# ---- order -------------------------------------------------------------------------------------------------


def test_kernels_and_the_host_wait_for_what_cuda_was_given():
    a = vkdml.zeros((10, 50), share="cuda")
    seen_by_cuda(a)
    rng = np.random.default_rng(5)
    uses = (
        lambda x: np.array_equal(vkdml.argmax(a, 1).numpy(), x.argmax(1)),
        lambda x: np.array_equal(a.argmin(0).numpy(), x.argmin(0)),
        lambda x: np.array_equal(vkdml.argmax(a[:, ::-1], 1, return_values=True).values.numpy(), x.max(1)),
        lambda x: np.array_equal(a.numpy(), x),
        lambda x: float(a[3, 4]) == x[3, 4],
        lambda x: np.array_equal(a.copy().numpy(), x),
        lambda x: np.array_equal(vkdml.slice1(a, (0, 0), (10, 50), (-1, 2)).numpy(), x[::-1, ::2]),
    )
    for use in uses:
        for _ in range(2):  # the second time everything is cached
            elements = written_later(a, rng.normal(size=(10, 50)))
            assert use(elements)


def test_the_host_writes_after_what_cuda_was_given():
    a = vkdml.zeros(50, share="cuda")
    tensor = seen_by_cuda(a)
    written_later(a, np.ones(50))
    a[...] = np.full(50, 2.0)
    cuda_driver.numbered(ORDINAL).wait_for_all()
    assert (tensor == 2).all()


def test_kernels_write_after_what_cuda_was_given():
    out = vkdml.zeros(4, "int64", share="cuda")
    seen_by_cuda(out)
    written_later(out, np.full(4, 77))
    vkdml.argmax(vkdml.asarray(np.eye(4)), 1, out=out)
    cuda_driver.numbered(ORDINAL).wait_for_all()
    assert out.tolist() == [0, 1, 2, 3]


def test_each_evaluation_of_a_sequence_waits(device):
    dml = vkdml.dml
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(8, 100))
    y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(8, 1))
    argmax = device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
    a, result = vkdml.empty((8, 100), share="cuda"), vkdml.empty((8, 1), "uint32", share="cuda")
    seen, _ = seen_by_cuda(result), seen_by_cuda(a)
    with device.sequence() as sequence:
        sequence.record(argmax, input=a, output=result)
        for seed in range(3):
            elements = written_later(a, np.random.default_rng(seed).normal(size=(8, 100)))
            sequence.eval()
            assert np.array_equal(seen[:, 0], elements.argmax(1))
    elements = written_later(a, -elements)
    assert np.array_equal(argmax.dispatch(input=a).numpy()[:, 0], elements.argmax(1))


def test_lending_waits_for_a_sequence_that_still_writes(device):
    a = vkdml.zeros(1 << 20, share="cuda")
    sequence = device.sequence()
    sequence.upload(a, np.ones(1 << 20, np.float32))
    sequence.eval_async()
    assert (seen_by_cuda(a) == 1).all()
    sequence.wait()


class Running:
    settled = False

    def settle(self) -> None:
        self.settled = True


def test_lending_waits_for_whatever_uses_the_memory():
    a, running = shared([1, 2, 3]), Running()
    a.memory.used_by(running)
    assert not running.settled
    a.__dlpack__()
    assert running.settled


def test_memory_that_nobody_was_lent_is_not_waited_for(cuda):
    before = cuda.double_context_waits()
    a = vkdml.zeros((4, 5), share="cuda")
    vkdml.argmax(a, 1)
    a.numpy()
    assert cuda.double_context_waits() == before


# ---- faults ------------------------------------------------------------------------------------------------


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("function", "result", "error"),
    [
        ("cuImportExternalMemory", OUT_OF_MEMORY, MemoryError),
        ("cuImportExternalMemory", ANOTHER_ERROR, vkdml.DeviceError),
        ("cuExternalMemoryGetMappedBuffer", ANOTHER_ERROR, vkdml.DeviceError),
    ],
)
def test_what_cuda_refuses_leaves_nothing_behind(cuda, device, function, result, error):
    vkdml.zeros(100, share="cuda")
    device.trim()
    used, files = device.memory()["used"], descriptors()
    cuda_double.fail(function, result)
    with pytest.raises(error, match=rf"{function} failed: CUDA_ERROR"):
        vkdml.empty(1000, share="cuda")
    gc.collect()
    assert (device.memory()["used"], descriptors(), cuda.double_live_mappings()) == (used, files, 0)
    assert vkdml.zeros(1000, share="cuda").size == 1000


def test_what_waits_for_another_call_is_given_up_when_cuda_has_no_memory(cuda):
    waiting = vkdml.zeros(1 << 20, share="cuda")
    del waiting
    assert cuda.double_live_mappings() == 1
    cuda_double.fail("cuImportExternalMemory", OUT_OF_MEMORY)
    assert vkdml.zeros(10, share="cuda").size == 10
    assert cuda.double_live_mappings() == 1


@pytest.mark.parametrize("function", ["vkGetMemoryFdKHR", "vkAllocateMemory", "vkCreateBuffer"])
def test_what_vulkan_refuses_leaves_nothing_behind(cuda, device, function):
    used, files = device.memory()["used"], descriptors()
    _native.inject_failure(1, -13, function)  # VK_ERROR_UNKNOWN
    try:
        with pytest.raises(vkdml.DeviceError):
            vkdml.empty(1000, share="cuda")
    finally:
        _native.inject_failure(0)
    gc.collect()
    assert (device.memory()["used"], descriptors(), cuda.double_live_mappings()) == (used, files, 0)
    assert vkdml.zeros(1000, share="cuda").size == 1000


def test_a_fault_of_cuda_while_it_is_waited_for_is_raised_with_its_name():
    a = vkdml.zeros(10, share="cuda")
    seen_by_cuda(a)
    cuda_double.fail("cuCtxSynchronize", ANOTHER_ERROR)
    with pytest.raises(vkdml.DeviceError, match="cuCtxSynchronize failed: CUDA_ERROR_OTHER"):
        vkdml.argmax(a)
    assert int(vkdml.argmax(a)) == 0


def test_without_cuda_the_error_says_what_is_missing():
    cuda_double.hide()
    for call in (
        lambda: vkdml.empty(3, share="cuda"),
        lambda: vkdml.argmax(Tensor(np.zeros(3))),
        lambda: vkdml.from_dlpack(Tensor(np.zeros(3))),
    ):
        with pytest.raises(vkdml.DeviceError, match=r"NVIDIA's driver, whose library .* is not here"):
            call()
    assert vkdml.argmax([1, 3, 2]) == int(vkdml.asarray([1, 3, 2]).argmax()) == 1


def test_a_device_that_is_not_cudas_is_refused_with_those_that_are():
    cuda_double.show_devices(["ab" * 16])
    with pytest.raises(vkdml.DeviceError, match=r"no device of CUDA's, which sees 0: double \(abab"):
        vkdml.empty(3, share="cuda")
    with pytest.raises(vkdml.NoDeviceError, match="no device matches 'abab"):
        vkdml.argmax(Tensor(np.zeros(3)))
    with pytest.raises(vkdml.DeviceError, match="CUDA has no device 5: it numbers 1"):
        vkdml.argmax(Tensor(np.zeros(3), 5))


def test_an_old_driver_is_refused(monkeypatch):
    cuda_driver._found.clear()
    monkeypatch.setitem(cuda_driver._QUICK, "cuNotYet", ())
    with pytest.raises(vkdml.DeviceError, match=r"lacks cuNotYet: accepted .* of CUDA 11\.4"):
        vkdml.empty(3, share="cuda")


def test_more_than_a_buffer_is_refused_with_the_limit(device):
    limit = device.limits.max_storage_buffer_range
    with pytest.raises(MemoryError, match=f"limit for one buffer is {limit} bytes"):
        vkdml.empty(limit + 4, "uint8", share="cuda")


def test_a_closed_device_lends_nothing():
    device = separate_device()
    a = vkdml.zeros(5, share="cuda", device=device)
    tensor = seen_by_cuda(a)
    device.close()
    with pytest.raises(vkdml.DeviceError, match="was closed"):
        a.__dlpack__()
    assert not tensor.any()
    del a, tensor
    gc.collect()
