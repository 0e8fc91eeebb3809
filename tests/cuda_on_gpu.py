"""Memory shared with CUDA, and CUDA tensors, on an NVIDIA GPU with torch, CuPy and JAX: `./run test-cuda`.

No test here is part of `./run test`: software drivers have no CUDA. What they can show is in test_cuda_*.py.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU's memory is for all three libraries

import ml_dtypes  # noqa: F401
import numpy as np
import pytest
import torch
from page_examples import check_printed

import vkdml
from vkdml.integrations import cuda_driver, cuda_tensors

GPU = "cuda:0"
# Cycles that a stream waits: about 50 ms, in which whoever does not wait reads or writes too early.
WHILE = 100_000_000
ROOT = Path(__file__).resolve().parent.parent


def same(got: Any, expected: Any) -> bool:
    got, expected = (
        x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in (got, expected)
    )
    return got.shape == expected.shape and bool((got == expected).all())


def numbers(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape).astype("f4")


def test_vulkan_and_cuda_mean_the_same_gpu(device):
    assert device.info.features["exportable_memory"]
    assert cuda_driver.with_uuid(device.info.uuid, device.name).name in device.name


# ---- one memory --------------------------------------------------------------------------------------------


def test_torch_sees_what_vkdml_wrote_and_the_reverse():
    a = vkdml.empty((1000, 1001), share="cuda")
    t = torch.from_dlpack(a)
    assert t.data_ptr() == a.memory.address
    assert t.stride() == (1001, 1)
    x = torch.randn(1000, 1001, device=GPU)
    t.copy_(x)  # nobody waits but vkdml
    assert same(vkdml.argmax(a, 1), x.argmax(1))
    a[...] = new = numbers(1000, 1001)
    assert same(t, new)
    result = vkdml.argmin(a, 0)
    assert same(torch.from_dlpack(result), new.argmin(0))
    assert torch.from_dlpack(result).data_ptr() == result.memory.address


def test_a_tensor_made_from_an_array_comes_back_without_a_copy():
    a = vkdml.asarray(new := numbers(1000, 1001), share="cuda")
    t = torch.from_dlpack(a)
    for part, expected in ((t, new), (t[10:500:3, 5:], new[10:500:3, 5:]), (t.T, new.T)):
        assert cuda_tensors.taken(part).memory is a.memory
        assert same(vkdml.argmax(part, 0), expected.argmax(0))


def test_views_are_seen_as_views():
    a = vkdml.asarray(new := numbers(100, 101), share="cuda")
    seen = torch.from_dlpack(a[10:, ::2].T)
    assert same(seen, new[10:, ::2].T)
    seen.zero_()
    new[10:, ::2] = 0
    assert same(a.numpy(), new)


def test_arrays_of_vulkan_alone_are_copied_on_request():
    plain = vkdml.asarray(np.arange(60.0).reshape(6, 10))
    with pytest.raises(BufferError, match="share="):
        torch.from_dlpack(plain)
    assert same(
        torch.from_dlpack(vkdml.asarray(plain[:, ::2], share="cuda")), np.arange(60.0).reshape(6, 10)[:, ::2]
    )
    capsule = plain.__dlpack__(dl_device=(2, 0), stream=1, max_version=(1, 0))
    assert same(torch.from_dlpack(capsule), np.arange(60.0).reshape(6, 10))


TYPES = "float32 float16 float64 bfloat16 float8_e4m3fn float8_e5m2 bool int8 int16 int32 int64 uint8 uint16"


@pytest.mark.parametrize("name", TYPES.split())
def test_types(name):
    kind = getattr(torch, name)
    t = torch.randint(0, 2 if name == "bool" else 100, (37, 1003), device=GPU).to(torch.float32).to(kind)
    expected = t.to(torch.float64).cpu().numpy()
    assert same(vkdml.argmax(t, 1), expected.argmax(1))
    a = vkdml.from_dlpack(t)
    assert a.dtype.name == name
    assert a.numpy().tobytes() == t.view(torch.uint8).cpu().numpy().tobytes()
    moved = t[1::2, ::3].contiguous().view(torch.uint8).cpu().numpy()
    assert vkdml.slice1(t, (1, 0), (36, 1003), (2, 3)).numpy().tobytes() == moved.tobytes()


# ---- CUDA tensors ------------------------------------------------------------------------------------------


BASE = torch.randint(-(2**31), 2**31 - 1, (130, 40, 70), device=GPU, dtype=torch.int32)
WIDE = torch.randint(0, 30000, (300, 200, 1500), device=GPU, dtype=torch.int32).to(torch.int16)
LAYOUTS = {
    "transposed": BASE.permute(2, 0, 1), "stepped": BASE[::3, 1:, ::2], "a column": BASE[:, :, 5],
    "no dimensions": BASE[3, 4, 5], "repeated": BASE[:1].expand(130, 40, 70), "one": BASE[5:6, 7:8],
    "diagonal": torch.diagonal(BASE, dim1=0, dim2=1),
    "windows that overlap": BASE.reshape(-1).unfold(0, 50, 7),
    "a column far apart": WIDE[:, :, 3], "steps far apart": WIDE[::2, ::5, ::9],
    "blocks": WIDE[:, ::10, 10:90],
    "rows far apart": WIDE[::100],
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_of_any_layout(layout):
    t = LAYOUTS[layout]
    x = t.cpu().numpy()
    assert same(vkdml.from_dlpack(t), x)
    assert int(vkdml.argmax(t)) == x.argmax()
    if x.ndim:
        assert same(vkdml.argmin(t, -1), x.argmin(-1))


def test_results_go_to_tensors_of_torch():
    x = torch.randn(64, 1000, device=GPU)
    out = torch.zeros(64, dtype=torch.int64, device=GPU)
    assert vkdml.argmax(x, 1, out=out) is out
    assert same(out, x.argmax(1))
    strided = torch.zeros(64, 3, dtype=torch.int32, device=GPU)
    vkdml.argmax(x, 1, out=strided[:, 1])
    assert same(strided[:, 1], x.argmax(1))
    assert not strided[:, ::2].any()
    values = torch.zeros(64, device=GPU)
    got = vkdml.argmax(x, 1, return_values=True, out=(out.zero_(), values))
    assert got.indices is out
    assert same(out, x.argmax(1))
    assert same(values, x.amax(1))
    vkdml.argmax(vkdml.asarray(x.cpu()), 1, out=out.zero_())
    assert same(out, x.argmax(1))
    window = torch.zeros(32, 500, device=GPU)
    vkdml.slice1(x, (0, 0), (64, 1000), (2, -2), out=window)
    assert same(window, x.cpu().numpy()[::2, ::-1][:, ::2])


def test_small_results_are_seen_by_the_host_too():
    x = torch.randn(64, 1000, device=GPU)
    indices = vkdml.argmax(x, 1)
    assert indices.memory.visible() is not None
    assert same(x.gather(1, torch.from_dlpack(indices)[:, None])[:, 0], x.amax(1))
    torch.from_dlpack(indices).add_(5)
    assert same(indices, x.argmax(1) + 5)


def test_torch_s_own_refusals_are_shown():
    with pytest.raises(TypeError, match="require"):
        vkdml.argmax(torch.randn(5, device=GPU, requires_grad=True))


# ---- order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stream", [torch.cuda.default_stream(), torch.cuda.Stream()], ids=["default", "side"]
)
def test_a_tensor_is_read_and_written_in_the_order_of_the_current_stream(stream):
    x = torch.randn(500, 3000, device=GPU)
    expected = x.argmax(1)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        y, out = torch.zeros_like(x), torch.zeros(500, dtype=torch.int64, device=GPU)
        torch.cuda._sleep(WHILE)
        y.copy_(x)
        assert same(vkdml.argmax(y, 1), expected)
        torch.cuda._sleep(WHILE)
        out.fill_(-2)
        vkdml.argmax(y, 1, out=out)
        assert same(out, expected)


def test_shared_memory_is_used_after_what_any_stream_was_given():
    a = vkdml.empty((500, 3000), share="cuda")
    t, stream = torch.from_dlpack(a), torch.cuda.Stream()
    x = torch.randn(500, 3000, device=GPU)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(WHILE)
        t.copy_(x)
    assert same(vkdml.argmax(a, 1), x.argmax(1))
    with torch.cuda.stream(stream):
        torch.cuda._sleep(WHILE)
        t.neg_()
    assert same(a.numpy(), -x)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(WHILE)
        kept = t.clone()
    a[...] = np.zeros((500, 3000), "f4")
    torch.cuda.synchronize()
    assert same(kept, -x)


def test_each_replay_of_a_sequence_waits(device):
    dml = vkdml.dml
    x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(64, 1000))
    y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(64, 1))
    op = device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
    a, result = vkdml.empty((64, 1000), share="cuda"), vkdml.empty((64, 1), "uint32", share="cuda")
    t, seen = torch.from_dlpack(a), torch.from_dlpack(result)
    with device.sequence() as sequence:
        sequence.record(op, input=a, output=result)
        for _ in range(5):
            new = torch.randn(64, 1000, device=GPU)
            torch.cuda._sleep(WHILE)
            t.copy_(new)
            sequence.eval()
            assert same(seen.to(torch.int64)[:, 0], new.argmax(1))


# ---- lifetime ----------------------------------------------------------------------------------------------


def test_either_side_keeps_the_memory():
    a = vkdml.empty((256, 1024), share="cuda")
    t = torch.from_dlpack(a)
    t.fill_(7)
    del a
    gc.collect()
    others = [vkdml.zeros((256, 1024), share="cuda") for _ in range(20)]
    assert float(t.sum()) == 7 * 256 * 1024
    part = t[3:5]
    del t, others
    vkdml.zeros((256, 1024), share="cuda")
    assert float(part.sum()) == 7 * 2 * 1024
    a = vkdml.asarray(np.ones((256, 1024), "f4"), share="cuda")
    torch.from_dlpack(a).mul_(3)
    gc.collect()
    assert (a.numpy() == 3).all()


def test_late_writes_of_a_dropped_tensor_do_not_reach_the_next_array():
    stream = torch.cuda.Stream()
    for _ in range(5):
        t = torch.from_dlpack(vkdml.empty((777, 333), share="cuda"))
        with torch.cuda.stream(stream):
            torch.cuda._sleep(WHILE)
            t.fill_(9)
        del t
        b = vkdml.zeros((777, 333), share="cuda")
        torch.cuda.synchronize()
        assert not b.numpy().any()


def test_memory_goes_back(device):
    gc.collect()
    device.trim()
    torch.cuda.synchronize()
    free, used = torch.cuda.mem_get_info()[0], device.memory()["used"]
    for number in range(300):
        torch.from_dlpack(vkdml.empty(1000 + 97 * number, "int32", share="cuda"))
    for number in range(20):
        torch.from_dlpack(vkdml.empty((64 << 20) + number, "uint8", share="cuda")).fill_(number)
    gc.collect()
    device.trim()
    torch.cuda.synchronize()
    assert free - torch.cuda.mem_get_info()[0] < 64 << 20
    assert device.memory()["used"] - used < 1 << 20


def test_more_than_a_buffer_is_refused():
    with pytest.raises(MemoryError, match="limit for one buffer"):
        vkdml.empty(5 << 30, "uint8", share="cuda")
    with pytest.raises(MemoryError, match="limit for one buffer"):
        vkdml.argmax(torch.empty(5 << 30, dtype=torch.uint8, device=GPU))
    torch.cuda.empty_cache()


def test_threads_with_streams_of_their_own():
    faults: list[str] = []

    def work(seed: int) -> None:
        try:
            generator = torch.Generator(device=GPU)
            generator.manual_seed(seed)
            with torch.cuda.stream(torch.cuda.Stream()):
                for number in range(60):
                    x = torch.randn(50 + seed, 400 + number, device=GPU, generator=generator)
                    out = torch.zeros(x.shape[0], dtype=torch.int64, device=GPU)
                    assert same(vkdml.argmax(x, 1, out=out), x.argmax(1))
                    assert same(torch.from_dlpack(vkdml.argmax(x, 0)), x.argmax(0))
                    a = vkdml.empty(tuple(x.shape), share="cuda")
                    torch.from_dlpack(a).copy_(x)
                    assert same(vkdml.argmin(a, 1), x.argmin(1))
        except BaseException:
            faults.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]


ENDS = {
    "all in globals": "t = torch.from_dlpack(a); i = vkdml.argmax(t); u = torch.from_dlpack(i)",
    "the tensor only": "t = torch.from_dlpack(a); del a",
    "the array only": "torch.from_dlpack(a)",
    "a closed device": "t = torch.from_dlpack(a); a.device.close(); t.fill_(3); del a; assert t.sum() == 300",
    "a running sequence": "s = a.device.sequence(); s.upload(a, np.ones(100, 'f4')); s.eval_async()",
}


@pytest.mark.parametrize("first", ["import torch, vkdml", "import vkdml, torch"])
@pytest.mark.parametrize("end", ENDS)
def test_processes_end(end, first):
    code = f"import numpy as np\n{first}\na = vkdml.zeros(100, share='cuda')\n{ENDS[end]}\nprint('end')"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "end\n"), ran.stderr


# ---- other libraries ---------------------------------------------------------------------------------------


def test_cupy():
    cupy = pytest.importorskip("cupy")
    a = vkdml.asarray(new := numbers(40, 60), share="cuda")
    c = cupy.from_dlpack(a)
    assert c.data.ptr == a.memory.address
    c[1, 1] = new[1, 1] = 100
    assert same(vkdml.argmax(a, 1), new.argmax(1))
    assert same(cupy.from_dlpack(a[::-1, ::2]).get(), new[::-1, ::2])
    x = cupy.asarray(new)
    for t in (x, x[::-1], x[:, ::-2], x.T[5:, ::-1]):
        assert same(vkdml.argmax(t, 0), t.get().argmax(0))
    out = cupy.zeros(60, "i8")
    assert vkdml.argmax(x, 0, out=out[::-1]) is not None
    assert same(out.get()[::-1], new.argmax(0))
    with cupy.cuda.Stream(non_blocking=True):
        y = x * 3
        assert same(vkdml.argmin(y, 1), y.get().argmin(1))


def test_jax():
    jax = pytest.importorskip("jax")
    a = vkdml.asarray(new := numbers(50, 64), share="cuda")
    j = jax.dlpack.from_dlpack(a)
    assert same(j, new)
    assert same(j.argmax(1), vkdml.argmax(a, 1))
    for kind in ("float32", "bfloat16", "float16", "int8"):
        z = (j * 50).astype(kind)
        assert same(vkdml.argmax(z, 1), np.asarray(z).astype("f4").argmax(1))


# ---- the documentation -------------------------------------------------------------------------------------


def test_the_page_and_the_example(tmp_path):
    check_printed(ROOT / "docs" / "cuda.md", tmp_path)
    example = [sys.executable, str(ROOT / "examples" / "torch_argmax.py")]
    ran = subprocess.run(example, capture_output=True, text=True, timeout=120, check=True)
    assert "equal: True" in ran.stdout
