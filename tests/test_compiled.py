"""Compiled operators: agreement with vkdml.dml.run, bindings, rebinding, explain(), threads and faults."""

from __future__ import annotations

import contextlib
import gc
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from dml_tensors import FUNCTIONS, layouts, tensor
from hypothesis import given
from hypothesis import strategies as st
from separate import MAKING_KERNELS, devices_that_fail, separate_device
from thinned import examples

import vkdml
from vkdml import _native, dml
from vkdml.dml import AxisDirection
from vkdml.dml.lowering import call_of
from vkdml.runtime import memory

POISON = 0xA5
ARGMAX_ROWS = dml.ArgMaxOperatorDesc(tensor("FLOAT32", 40, 60), tensor("UINT32", 40, 1), (1,))


@pytest.fixture(autouse=True)
def no_injection_left():
    yield
    _native.inject_failure(0)


@pytest.fixture
def rows():
    return np.random.default_rng(3).standard_normal((40, 60)).astype(np.float32)


def expected_rows(rows):
    return rows.argmax(axis=1, keepdims=True).astype(np.uint32)


@st.composite
def descriptors(draw: st.DrawFn) -> dml.OperatorDesc:
    """Any operator on up to 3000 elements of any strides, some of them 0."""
    sizes = tuple(
        draw(st.lists(st.integers(1, 5), min_size=1, max_size=8).filter(lambda s: np.prod(s) < 3000))
    )
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16", "INT8", "UINT16", "INT64"]))
    dims = range(len(sizes))
    strides = draw(layouts(sizes))
    if strides is not None:
        strides = tuple(draw(st.sampled_from([0, stride, stride])) for stride in strides)
    x = tensor(data_type, *sizes, strides=strides)
    if draw(st.booleans()):
        axes = tuple(draw(st.permutations(sorted(draw(st.sets(st.sampled_from(dims)))))))
        output_sizes = tuple(1 if dim in axes else sizes[dim] for dim in dims)
        index_type = draw(st.sampled_from(["UINT32", "INT64"]))
        y = tensor(index_type, *output_sizes, strides=draw(layouts(output_sizes)))
        operator = draw(st.sampled_from([*FUNCTIONS, "REDUCE"]))
        if operator == "REDUCE":
            function = draw(st.sampled_from([dml.ReduceFunction.ARGMIN, dml.ReduceFunction.ARGMAX]))
            return dml.ReduceOperatorDesc(function, x, y, axes)
        return FUNCTIONS[operator](x, y, axes, draw(st.sampled_from(AxisDirection)))
    offsets = tuple(draw(st.integers(0, size - 1)) for size in sizes)
    window = tuple(draw(st.integers(1, sizes[dim] - offsets[dim])) for dim in dims)
    steps = tuple(draw(st.integers(1, 3)) * draw(st.sampled_from([1, -1])) for _ in dims)
    most = oracle.max_copied_elements(window, steps)
    output_sizes = tuple(draw(st.integers(1, most[dim])) for dim in dims)
    y = tensor(data_type, *output_sizes, strides=draw(layouts(output_sizes)))
    return dml.Slice1OperatorDesc(x, y, offsets, window, steps)


def random_buffer(tensor_desc, seed):
    """Bytes of a tensor with many ties, and NaNs where there are such."""
    elements = np.random.default_rng(seed).integers(0, 9, tensor_desc.total_tensor_size_in_bytes)
    elements = elements.astype(tensor_desc.data_type.dtype)
    if elements.dtype.kind == "f":
        elements[elements == 8] = np.nan
    return elements.view(np.uint8)[: tensor_desc.total_tensor_size_in_bytes]


def placed(buffer, start, spare=0):
    """A uint8 Array that starts at a byte of its memory."""
    whole = vkdml.asarray(np.concatenate([np.full(start, POISON, np.uint8), buffer, buffer[:spare]]))
    return whole[start:]


@examples(100)
@given(data=st.data())
def test_random_descriptors_agree_with_dml_run(device, data):
    desc = data.draw(descriptors())
    x, y = desc.input_tensor, desc.output_tensor
    buffer = random_buffer(x, data.draw(st.integers(0, 2**32 - 1)))
    expected_buffer = np.full(y.total_tensor_size_in_bytes, POISON, np.uint8)
    expected = dml.run(desc, buffer.data, output=expected_buffer.data)
    op = device.compile(desc)

    # A buffer in, a new array out.
    source = placed(buffer, 16 * data.draw(st.integers(0, 40)))
    result = op.dispatch(input=source)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result.numpy(), expected)
    if y.strides is not None:
        strides = [s for s, n in zip(result.strides, y.sizes, strict=True) if n > 1]
        wanted = [s for s, n in zip(y.strides, y.sizes, strict=True) if n > 1]
        assert strides == [s * result.itemsize for s in wanted]

    # Into a buffer, whose other bytes are kept.
    before = 16 * data.draw(st.integers(0, 40))
    whole = vkdml.asarray(np.full(before + expected_buffer.size + 16, POISON, np.uint8))
    view = op.dispatch(input=source, output=whole[before:])
    np.testing.assert_array_equal(view.numpy(), expected)
    padded = np.pad(expected_buffer, (before, 16), constant_values=POISON)
    np.testing.assert_array_equal(whole.numpy(), padded)

    # The very tensors.
    assert op.dispatch(input=source, output=view) is view
    np.testing.assert_array_equal(whole.numpy(), padded)


@pytest.mark.parametrize("level", ["2_1", "3_0", "4_1"])
def test_descriptors_are_validated_at_the_feature_level(device, level):
    desc = dml.Slice1OperatorDesc(tensor("FLOAT64", 4), tensor("FLOAT64", 4), (0,), (4,), (1,))
    if level == "4_1":
        assert device.compile(desc, feature_level=level).desc is desc
    else:
        with pytest.raises(ValueError, match=f"^SLICE1 at feature level {level}: input_tensor"):
            device.compile(desc, feature_level=level)
    with pytest.raises(TypeError, match=r"^desc is a str; accepted: ArgMin"):
        device.compile("ARGMAX")


def test_properties(device):
    op = device.compile(ARGMAX_ROWS)
    assert op.device is device
    assert op.desc == ARGMAX_ROWS
    assert op.temporary_size == call_of(ARGMAX_ROWS).plan(device.limits).bytes_of("workspace")
    assert "ARGMAX FLOAT32 (40, 60) -> UINT32 (40, 1)" in repr(op)
    for name in ("desc", "device", "temporary_size", "anything"):
        with pytest.raises(AttributeError):
            setattr(op, name, None)
    split = dml.ArgMaxOperatorDesc(tensor("FLOAT32", 1 << 20), tensor("UINT32", 1), (0,))
    assert device.compile(split).temporary_size > 0


def test_strided_views_of_one_array_are_bound_as_they_are(device):
    x = tensor("FLOAT32", 8, 16, strides=(64, 1))
    op = device.compile(dml.ArgMinOperatorDesc(x, tensor("UINT32", 8, 1), (1,)))
    host = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    whole = vkdml.asarray(host)
    for column in range(0, 49, 4):
        part = host[:, column : column + 16]
        assert np.array_equal(op.dispatch(input=whole[:, column : column + 16]), part.argmin(1)[:, None])


def test_dimensions_of_size_1_may_have_any_stride(device):
    op = device.compile(ARGMAX_ROWS)
    target = vkdml.empty((40, 3), np.uint32)[:, ::3]  # its last stride is 3 elements
    assert target.strides[1] == 12
    with pytest.raises(ValueError, match="strides"):  # but the first is not the packed one
        op.dispatch(input=vkdml.empty((40, 60), np.float32), output=target)
    desc = dml.ArgMaxOperatorDesc(tensor("FLOAT32", 1, 60), tensor("UINT32", 1, 1), (1,))
    row = vkdml.asarray(np.arange(120, dtype=np.float32).reshape(2, 60))[::5]
    assert row.shape == (1, 60)
    assert row.strides != (240, 4)
    assert (
        device.compile(desc).dispatch(input=row, output=vkdml.empty((7, 9), np.uint32)[::7, ::9]).item() == 59
    )


X, Y = (40, 60), (40, 1)
ACCEPTED_INPUT = (
    r"accepted: a float32 Array of shape \(40, 60\) with strides \(240, 4\) bytes, or a compact 1-D uint8 "
    r"Array of at least 9600 bytes$"
)
BAD_INPUTS = {
    "NumPy array": (
        lambda: np.zeros(X, np.float32),
        TypeError,
        rf"is a ndarray \(vkdml\.asarray .*\); {ACCEPTED_INPUT}",
    ),
    "list": (lambda: [1.0], TypeError, f"is a list; {ACCEPTED_INPUT}"),
    "dtype": (lambda: vkdml.empty(X, np.float64), TypeError, rf"is a float64 Array of .*; {ACCEPTED_INPUT}"),
    "shape": (
        lambda: vkdml.empty((60, 40), np.float32),
        ValueError,
        rf"is a float32 Array of shape \(60, 40\); {ACCEPTED_INPUT}",
    ),
    "strides": (
        lambda: vkdml.empty((60, 40), np.float32).T,
        ValueError,
        rf"has strides \(4, 160\) bytes; {ACCEPTED_INPUT}",
    ),
    "bytes": (
        lambda: vkdml.empty(9599, np.uint8),
        ValueError,
        rf"is a buffer of 9599 bytes; {ACCEPTED_INPUT}",
    ),
    "spread bytes": (
        lambda: vkdml.empty(2 * 9600, np.uint8)[::2],
        ValueError,
        rf"is a buffer of 9600 bytes with a stride of 2 bytes; {ACCEPTED_INPUT}",
    ),
    "alignment": (
        lambda: vkdml.empty(9608, np.uint8)[8:],
        ValueError,
        "starts at byte 8 of its memory; accepted: multiples of 16$",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_an_input_that_does_not_fit(device, case):
    make, error, message = BAD_INPUTS[case]
    output = vkdml.asarray(np.full(Y, 77, np.uint32))
    with pytest.raises(error, match=f"^ARGMAX: input {message}"):
        device.compile(ARGMAX_ROWS).dispatch(input=make(), output=output)
    assert np.all(output.numpy() == 77)


def test_an_output_that_does_not_fit(device):
    op = device.compile(ARGMAX_ROWS)
    x = vkdml.empty(X, np.float32)
    for output, error, message in (
        (np.zeros(Y, np.uint32), TypeError, "is a ndarray"),
        (vkdml.empty(Y, np.int64), TypeError, "is an int64 Array"),
        (
            vkdml.empty(40, np.uint32),
            ValueError,
            r"is a uint32 Array of shape \(40,\); accepted: .* 160 bytes",
        ),
        (vkdml.empty(156, np.uint8), ValueError, "is a buffer of 156 bytes"),
        (vkdml.empty(164, np.uint8)[4:], ValueError, "starts at byte 4"),
        (vkdml.empty(1, np.uint32).broadcast_to(Y), ValueError, "has strides .0, 0. bytes"),
        (
            vkdml.empty(1, np.uint8).broadcast_to(160),
            ValueError,
            "is a buffer of 160 bytes with a stride",
        ),
        (vkdml.empty(Y, np.uint32).broadcast_to(Y), ValueError, "is a read-only view; accepted: a writeable"),
    ):
        with pytest.raises(error, match=f"^ARGMAX: output {message}"):
            op.dispatch(input=x, output=output)


@pytest.mark.parametrize("nbytes", [4, 7, 8, 9])
def test_a_buffer_of_as_many_bytes_as_the_tensor_has_elements(device, nbytes):
    desc = dml.ArgMaxOperatorDesc(tensor("UINT8", 8, strides=(0,)), tensor("UINT32", 1), (0,))
    op = device.compile(desc)
    assert op.dispatch(vkdml.asarray(np.arange(nbytes, dtype=np.uint8))).item() == 0
    assert op.dispatch(vkdml.zeros(1, np.uint8).broadcast_to(8)).item() == 0
    with pytest.raises(ValueError, match="is a buffer of 8 bytes with a stride of 2 bytes; accepted: "):
        op.dispatch(vkdml.zeros(16, np.uint8)[::2])


def test_guaranteed_alignment_is_asked_for(device):
    x = tensor("FLOAT32", 4, guaranteed_base_offset_alignment=64)
    op = device.compile(dml.ArgMaxOperatorDesc(x, tensor("UINT32", 1), (0,)))
    whole = vkdml.asarray(np.zeros(64, np.float32))
    assert op.dispatch(input=whole[16:20]).item() == 0
    with pytest.raises(ValueError, match="starts at byte 32 of its memory; accepted: multiples of 64"):
        op.dispatch(input=whole[8:12])


def test_an_array_of_another_device_is_refused(device):
    other = separate_device()
    with pytest.raises(ValueError, match="arrays on two devices"):
        device.compile(ARGMAX_ROWS).dispatch(input=vkdml.empty(X, np.float32, device=other))
    with pytest.raises(ValueError, match="arrays on two devices"):
        device.compile(ARGMAX_ROWS).dispatch(
            input=vkdml.empty(X, np.float32, device=device), output=vkdml.empty(Y, np.uint32, device=other)
        )


def test_an_output_that_overlaps_the_input_is_refused_and_nothing_is_written(device, rows):
    op = device.compile(ARGMAX_ROWS)
    memory = np.zeros(9600 + 160, np.uint8)
    memory[:9600] = rows.view(np.uint8).reshape(-1)
    whole = vkdml.asarray(memory)
    for start in (0, 4800, 9584):
        with pytest.raises(
            ValueError,
            match=rf"output in bytes {start} to {start + 160} overlaps the input in bytes 0 to 9600",
        ):
            op.dispatch(input=whole, output=whole[start:])
    assert np.array_equal(whole.numpy(), memory)
    result = op.dispatch(input=whole, output=whole[9600:])  # beside it is fine
    assert np.array_equal(result, expected_rows(rows))
    assert np.array_equal(whole.numpy()[:9600], memory[:9600])


def test_input_and_output_may_interleave(device):
    """Columns of one matrix: they lie in one stretch of memory and share no byte."""
    host = np.random.default_rng(1).integers(0, 99, (24, 64), np.uint32)
    x = tensor("UINT32", 24, 40, strides=(64, 1))
    y = tensor("UINT32", 24, 1, strides=(64, 1))
    op = device.compile(dml.ArgMaxOperatorDesc(x, y, (1,)))
    whole = vkdml.asarray(host)
    op.dispatch(whole[:, :40], whole[:, 40:41])
    host[:, 40] = host[:, :40].argmax(axis=1)
    assert np.array_equal(whole, host)
    with pytest.raises(ValueError, match="overlaps the input"):
        op.dispatch(whole[:, :40], whole[:, 36:37])
    assert np.array_equal(whole, host)


def test_rebinding_builds_no_pipeline(device, rows):
    fresh = separate_device()
    _native.inject_failure(0, call="vkCreateComputePipelines")
    op = fresh.compile(ARGMAX_ROWS)
    assert _native.fallible_calls() >= 1  # at compile time ...
    _native.inject_failure(1, call="vkCreateComputePipelines")  # ... and from now on that fails
    kernels = dict(fresh.executions.pipelines._of_any_shape)
    buffer = rows.view(np.uint8).reshape(-1)
    for start in range(0, 272, 16):
        whole = vkdml.asarray(np.concatenate([np.zeros(start, np.uint8), buffer]), device=fresh)
        output = vkdml.asarray(np.zeros(160 + start, np.uint8), device=fresh)
        assert np.array_equal(op.dispatch(whole[start:], output[start:]), expected_rows(rows))
    assert fresh.executions.pipelines._of_any_shape == kernels
    assert _native.injected_call() == ""


@examples(100)
@given(desc=descriptors(), start=st.integers(0, 15), output_start=st.integers(0, 15))
def test_plans_for_all_starts_differ_in_push_constants_only(device, desc, start, output_start):
    sizes = desc.input_tensor.data_type.size_in_bytes, desc.output_tensor.data_type.size_in_bytes
    plan = call_of(desc).plan(device.limits)
    other = call_of(desc, 16 * start // sizes[0], 16 * output_start // sizes[1]).plan(device.limits)
    for step, other_step in zip(plan.steps, other.steps, strict=True):
        assert (step.kernel, step.constants, step.subgroup_size) == (
            *(other_step.kernel, other_step.constants),
            other_step.subgroup_size,
        )
    assert plan.buffer_bytes == other.buffer_bytes


def test_explain_is_narrow_and_complete(device):
    sizes = (2, 3, 4, 5, 2, 3, 2, 2)
    strides = (1, 3, 11, 47, 241, 487, 1489, 2999)
    x, y = tensor("INT16", *sizes, strides=strides), tensor("INT16", *sizes)
    wide = dml.Slice1OperatorDesc(x, y, (0,) * 8, sizes, (1,) * 8)
    split = dml.ReduceOperatorDesc(
        dml.ReduceFunction.ARGMIN, tensor("FLOAT16", 1000, 1000), tensor("INT64", 1, 1), (0, 1)
    )
    for desc in (ARGMAX_ROWS, wide, split):
        text = device.compile(desc).explain()
        assert max(map(len, text.splitlines())) <= 80
        plan = call_of(desc).plan(device.limits)
        joined = re.sub(r"\s+", " ", text)
        for step in plan.steps:
            assert step.kernel in joined
            assert f"{step.workgroups} of {step.constants[0]} invocations" in joined
            assert f"WORKGROUP={step.constants[0]}" in joined
        for role, nbytes in plan.buffer_bytes:
            assert not nbytes or f"{role} {nbytes}" in joined
    assert "TAKE_MIN=True" in joined
    assert "OMIT_NAN=True" in joined
    assert "reduced 1000000 steps of input +1, index +1" in joined
    assert "reduce_count=1000000" in joined


def test_eight_threads_dispatch_one_operator(device):
    op = device.compile(ARGMAX_ROWS)
    start = threading.Barrier(8)

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(20):
            rows = rng.standard_normal(X).astype(np.float32)
            skipped = 4 * int(rng.integers(0, 64))
            whole = vkdml.asarray(
                np.concatenate([np.zeros(skipped, np.float32), rows.reshape(-1)]), device=device
            )
            assert np.array_equal(op.dispatch(whole[skipped:].reshape(X)), expected_rows(rows))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def used_at_rest(device, most: int) -> int:
    """Bytes that the device uses when what a failed call left running has ended."""
    end = time.monotonic() + 10
    while (used := device.memory()["used"]) > most and time.monotonic() < end:
        time.sleep(0.01)
    return used


@pytest.mark.usefixtures("few_objects")
def test_a_failed_allocation_at_each_call_is_survived(monkeypatch):
    monkeypatch.setattr(memory, "STAGING_BYTES", 1 << 19)  # each piece of a copy to the device is a few calls
    desc = dml.ArgMaxOperatorDesc(tensor("FLOAT32", 300_000), tensor("UINT32", 1), (0,))
    host = np.arange(300_000, dtype=np.float32)

    def compiled_and_dispatched(device):
        op = device.compile(desc)
        x = vkdml.asarray(host, device=device)
        return op.dispatch(input=x).item()

    device = separate_device()
    compiled_and_dispatched(
        device
    )  # a driver that compiles then takes so long that the host asks for a fence
    device.trim()
    _native.inject_failure(0)
    compiled_and_dispatched(device)
    calls = len(MAKING_KERNELS) + _native.fallible_calls()
    failed = set()
    for device in devices_that_fail(calls, (-2,)):
        try:
            compiled_and_dispatched(device)
        except MemoryError:
            pass
        else:
            # Only where what was kept for other calls made room.
            assert _native.injected_call()
        failed.add(_native.injected_call())
        gc.collect()
        assert used_at_rest(device, 1024) <= 1024  # a kept workspace at most
        _native.inject_failure(0)
        assert compiled_and_dispatched(device) == 299_999
    assert {"vkCreateComputePipelines", "vkAllocateMemory", "vkCreateFence", "vkQueueSubmit"} <= failed


def test_a_failed_dispatch_leaves_the_operator_usable(rows):
    device = separate_device()
    op = device.compile(ARGMAX_ROWS)
    x = vkdml.asarray(rows, device=device)
    calls = 0
    for number in range(1, 100):
        device.executions.clear()
        _native.inject_failure(number, -2)
        with contextlib.suppress(MemoryError):
            op.dispatch(x)
        if not _native.injected_call():
            break
        calls += 1
        _native.inject_failure(0)
        assert np.array_equal(op.dispatch(x), expected_rows(rows))
    assert 5 < calls < 99


def test_a_lost_device_says_so(rows):
    device = separate_device()
    op = device.compile(ARGMAX_ROWS)
    x = vkdml.asarray(rows, device=device)
    op.dispatch(x)
    _native.inject_failure(1, -4, "vkQueueSubmit")
    with pytest.raises(vkdml.DeviceLostError):
        op.dispatch(x)
    _native.inject_failure(0)
    for again in (lambda: op.dispatch(x), lambda: device.compile(ARGMAX_ROWS)):
        with pytest.raises(vkdml.DeviceLostError):
            again()


def test_more_than_a_buffer_holds_is_refused_at_compile_time(device):
    count = device.limits.max_storage_buffer_range + 4
    x = tensor("UINT8", count)
    with pytest.raises(MemoryError, match=rf"^ARGMAX: the input spans {count} bytes, more than one buffer"):
        device.compile(dml.ArgMaxOperatorDesc(x, tensor("UINT32", 1), (0,)))
