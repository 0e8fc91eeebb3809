"""Sequences: deliveries that fail, arguments and attributes of all kinds, and faults that concern nobody."""

from __future__ import annotations

import asyncio
import copy as copy_module
import gc
import pickle
import re
import threading
from fractions import Fraction

import numpy as np
import pytest
from native_work import long_sequence, status_call
from recorded_work import Long, reverse

import vkdml
from vkdml import _native


@pytest.fixture(autouse=True)
def no_injection_left():
    yield
    _native.inject_failure(0)


# ---- NumPy arrays that change after they were recorded -----------------------------------------------------


def transposed_download(device):
    """An array, where its transpose is to go, and a sequence that brings it there."""
    array = vkdml.asarray(np.arange(6.0).reshape(2, 3))
    out = np.zeros((3, 2))
    sequence = device.sequence()
    return array, out, sequence, sequence.download(array.T, out)


CHANGED = r"^the out array of operation 0 \(download\) was changed after it was recorded: it is now a "


def test_a_failed_delivery_of_a_dropped_sequence_disturbs_nobody(device):
    array, out, sequence, download = transposed_download(device)
    sequence.eval_async()
    out.flags.writeable = False
    del sequence
    gc.collect()
    other = device.sequence()
    assert array.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    array[0] = 7
    assert other.wait()
    for _ in range(2):
        with pytest.raises(ValueError, match=CHANGED + r"read-only NumPy array of shape \(3, 2\)"):
            download.numpy()
    assert not out.any()


def test_a_failed_delivery_of_a_dropped_download_disturbs_nobody(device):
    array, out, sequence, download = transposed_download(device)
    sequence.eval_async()
    out.flags.writeable = False
    del sequence, download
    gc.collect()
    for _ in range(2):
        device.sequence()
        assert array.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
        assert int(vkdml.argmax(array)) == 5


@pytest.mark.parametrize("first", ["wait", "another"])
def test_a_failed_delivery_is_told_once_and_the_sequence_goes_on(device, first):
    array, out, sequence, download = transposed_download(device)
    whole = sequence.download(array)
    sequence.eval_async()
    out.flags.writeable = False
    if first == "another":  # whoever reads the array waits for the sequence first
        assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert not sequence.running
    with pytest.raises(ValueError, match=CHANGED):
        sequence.wait()
    assert sequence.wait()
    assert whole.numpy().tolist() == array.tolist()
    with pytest.raises(ValueError, match=CHANGED):
        sequence.eval()  # before anything runs
    assert not sequence.running
    out.flags.writeable = True
    assert sequence.eval() is sequence
    assert download.numpy() is out
    assert np.array_equal(out, array.T)
    if device.info.queue_timestamp_bits:
        assert [label for label, _ in sequence.timings()] == ["download", "download"]


# NumPy 2.5 discourages what these do to an array, and allows it.
SETTING = pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
CHANGES = {
    "read-only": lambda host: host.setflags(write=False),
    "shape": lambda host: setattr(host, "shape", (6,)),
    "dtype": lambda host: setattr(host, "dtype", np.dtype(np.int64)),
}


@SETTING
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["before", "running"])
def test_an_out_that_changed_is_named_and_keeps_its_elements(device, change, moment):
    array, out, sequence, _ = transposed_download(device)
    if moment == "running":
        sequence.eval_async()
    CHANGES[change](out)
    before = out.tobytes()
    with pytest.raises(ValueError, match=CHANGED + r".*; accepted: a writeable .* shape \(3, 2\)"):
        sequence.wait() if moment == "running" else sequence.eval()
    assert out.tobytes() == before
    assert sequence.wait()
    sequence.clear()
    again = sequence.download(array)
    assert sequence.eval() is sequence
    assert np.array_equal(again.numpy(), array)


@SETTING
@pytest.mark.parametrize("change", ["shape", "dtype"])
def test_a_host_that_changed_is_named_and_nothing_is_uploaded(device, change):
    array, host = vkdml.asarray(np.arange(6.0).reshape(2, 3)), np.ones((2, 3))
    sequence = device.sequence()
    sequence.upload(array, host)
    CHANGES[change](host)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^the host array of operation 0 \(upload\) was changed"):
            sequence.eval()
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    host = host.view(np.float64).reshape(2, 3)
    sequence.clear()
    sequence.upload(array, host)
    host.flags.writeable = False  # it is only read
    sequence.eval()
    assert np.all(array.numpy() == 1)


def test_a_failed_delivery_reaches_the_one_who_awaits_and_then_the_sequence_is_evaluated_anew(device):
    array, out, sequence, _ = transposed_download(device)

    async def main():
        sequence.eval_async()
        out.flags.writeable = False
        with pytest.raises(ValueError, match=CHANGED):
            await sequence
        out.flags.writeable = True
        array[...] = 9
        await sequence

    asyncio.run(main())
    assert np.all(out == 9)


def test_subclasses_of_ndarray(device):
    """They are taken as the elements that they hold; a mask has no place in those."""
    array = vkdml.empty((2, 3), np.float64)
    sequence = device.sequence()
    masked = np.ma.MaskedArray(np.zeros((2, 3)), mask=True)
    for action in (lambda: sequence.upload(array, masked), lambda: sequence.download(array, masked)):
        with pytest.raises(
            TypeError, match=r"has a mask; accepted: a NumPy array of shape \(2, 3\) and type"
        ):
            action()
    with pytest.warns(PendingDeprecationWarning):
        matrix, out = np.matrix([[1.0, 2, 3], [4, 5, 6]]), np.matrix(np.zeros((2, 3)))
    sequence.upload(array, matrix)
    sequence.download(array, out)
    sequence.eval()
    assert np.array_equal(out, matrix)


# ---- faults of the device at moments that concern nobody ---------------------------------------------------


@pytest.mark.parametrize("call", ["vkGetFenceStatus", "vkWaitForFences", "vkResetFences"])
def test_a_wait_that_runs_out_of_memory_can_be_repeated(device, call):
    long = Long(device)
    long.sequence.eval_async()
    _native.inject_failure(1, -1, call)
    with pytest.raises(MemoryError):
        long.sequence.wait()
    assert _native.injected_call() == call
    _native.inject_failure(0)
    assert long.sequence.wait()
    assert np.array_equal(long.arrays[0], long.host)


def test_an_event_that_cannot_be_reset_is_reset_by_the_next_wait(device):
    if not device.native.ends_with_events:
        assert status_call(device) == "vkGetFenceStatus"  # there are no events then
        return
    sequence = long_sequence(device, 0.3)
    sequence.submit()
    device.native.memory()  # sees to it that no answered evaluation is left whose event would be reset
    _native.inject_failure(1, -2, "vkResetEvent")
    with pytest.raises(MemoryError):
        sequence.wait(timeout=60)
    assert _native.injected_call() == "vkResetEvent"
    _native.inject_failure(0)
    assert sequence.wait(timeout=60)
    assert sequence.eval(timeout=60)


def test_a_dropped_sequence_whose_state_the_driver_cannot_tell_is_collected_later(device):
    assert vkdml.argmax([1, 3, 2], device=device) == 1
    device.native.memory()  # sees to it that no answered evaluation, such as this one, is left to ask about
    dropped = long_sequence(device, 0.02)
    dropped.submit()
    _native.inject_failure(1, -1, status_call(device))
    del dropped  # may still run, for all that is known: the device keeps it
    assert _native.injected_call() == status_call(device)
    _native.inject_failure(1, -1, status_call(device))
    assert vkdml.argmax([1, 3, 2], device=device) == 1  # looks at it before it submits
    assert _native.injected_call() == status_call(device)
    _native.inject_failure(0)
    assert vkdml.argmax([1, 3, 2], device=device) == 1


# ---- arguments and attributes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "timeout", ["x", b"1", [], (1,), {}, 1j, True, np.zeros(1), np.array(1.0), object(), print]
)
def test_a_timeout_that_is_no_number_is_refused(device, timeout):
    with pytest.raises(
        TypeError, match=r"^timeout is an? \w+; accepted: seconds, 0 or more, or None for no limit$"
    ):
        device.sequence().wait(timeout)


@pytest.fixture(scope="module")
def long(device):
    """Recorded once: each test evaluates it again."""
    return Long(device)


@pytest.mark.parametrize(
    "timeout", [-1, -0.5, float("nan"), np.float32(-1), Fraction(-(10**400)), float("-inf")]
)
def test_a_timeout_that_is_no_time_is_refused(long, timeout):
    long.sequence.eval_async()
    with pytest.raises(
        ValueError, match=r"^timeout is .*; accepted: seconds, 0 or more, or None for no limit$"
    ):
        long.sequence.wait(timeout)
    assert long.sequence.wait()


@pytest.mark.parametrize(
    "timeout",
    [
        0,
        0.0,
        -0.0,
        60,
        np.float16(60),
        np.int8(60),
        Fraction(60),
        1e300,
        Fraction(10**400),
        float("inf"),
        None,
    ],
)
def test_all_other_timeouts_are_taken(long, timeout):
    long.sequence.eval_async()
    waiting = threading.Thread(target=long.sequence.wait)  # the other way to wait: for a thread that does
    waiting.start()
    while not long.sequence.wait(timeout):
        pass
    waiting.join()
    assert not long.sequence.running


WRONG = [None, 3, 1.5, "x", b"x", [1], (), {}, object(), np.zeros(3), np.int32(1), Exception, print]


def wrong_calls(device):
    """Each public method that takes arguments, with a wrong one at each place."""
    array, host = vkdml.asarray(np.int32([1, 2, 3, 4])), np.zeros(4, np.int32)
    sequence, op = device.sequence(), reverse(device, 4)
    return {
        "Sequence(device)": lambda wrong: vkdml.Sequence(wrong),
        "Sequence(timings)": lambda wrong: vkdml.Sequence(device, timings=wrong),
        "sequence(timings)": lambda wrong: device.sequence(timings=wrong),
        "record(op)": lambda wrong: sequence.record(wrong, array),
        "record(input)": lambda wrong: sequence.record(op, wrong),
        "record(output)": lambda wrong: sequence.record(op, array, 0 if wrong is None else wrong),
        "upload(array)": lambda wrong: sequence.upload(wrong, host),
        "upload(host)": lambda wrong: sequence.upload(array, wrong),
        "download(array)": lambda wrong: sequence.download(wrong),
        "download(out)": lambda wrong: sequence.download(array, 0 if wrong is None else wrong),
        "CompiledOperator(device)": lambda wrong: vkdml.CompiledOperator(wrong, op.desc),
        "CompiledOperator(desc)": lambda wrong: vkdml.CompiledOperator(device, wrong),
        "compile(desc)": lambda wrong: device.compile(wrong),
        "dispatch(input)": lambda wrong: op.dispatch(wrong),
        "dispatch(output)": lambda wrong: op.dispatch(array, 0 if wrong is None else wrong),
    }


def test_arguments_of_other_types_are_refused_by_name(device):
    for call, action in wrong_calls(device).items():
        for wrong in WRONG:
            with pytest.raises((TypeError, ValueError), match="accepted") as caught:
                action(wrong)
            message = str(caught.value)
            where = f"{call} of {wrong!r}: {message}"
            assert "incompatible function arguments" not in message, where
            assert "nanobind" not in message, where
            if "desc" not in call:
                assert not re.search(r"\ba [aeio]", message), where


def test_attributes_are_read_only(device):
    array = vkdml.asarray(np.int32([1, 2, 3, 4]))
    sequence, op = device.sequence(), reverse(device, 4)
    download = sequence.download(array)
    sequence.eval()
    native = (device.native, sequence._native, array.memory.buffer, device.native.kernel)
    for owner in (sequence, op, download, *native):
        names = [name for name in dir(owner) if not name.startswith("_")]
        for name in [*names, "other"]:
            with pytest.raises((AttributeError, TypeError)):
                setattr(owner, name, 1)
            with pytest.raises((AttributeError, TypeError)):
                delattr(owner, name)
    assert sequence.eval() is sequence
    assert download.numpy().tolist() == [1, 2, 3, 4]


def test_copies_and_pickles(device):
    sequence, op = device.sequence(), reverse(device, 4)
    array = vkdml.asarray(np.int32([1, 2, 3, 4]))
    download = sequence.download(array)
    assert copy_module.copy(op) is op
    assert copy_module.deepcopy(op) is op
    for one, actions in (
        (sequence, (copy_module.copy, copy_module.deepcopy, pickle.dumps)),
        (download, (copy_module.copy, copy_module.deepcopy, pickle.dumps)),
        (op, (pickle.dumps,)),
    ):
        for action in actions:
            with pytest.raises(TypeError, match=r"cannot be (copied or )?pickled; accepted: \w+"):
                action(one)


def test_timings_stay_after_the_sequence_was_cleared(device):
    if not device.info.queue_timestamp_bits:
        pytest.skip("this device has no timestamps")
    array = vkdml.asarray(np.int32([1, 2, 3, 4]))
    with device.sequence() as sequence:
        sequence.record(reverse(device, 4), array)
        sequence.download(array)
        inside = sequence.eval().timings()
    assert len(sequence) == 0
    assert [label for label, _ in inside] == ["SLICE1", "download"]
    assert sequence.timings() == sequence.timings() == inside
    sequence.clear()
    assert sequence.timings() == inside
    sequence.download(array)
    with pytest.raises(vkdml.DeviceError, match="has not been evaluated since"):
        sequence.timings()
    assert [label for label, _ in sequence.eval().timings()] == ["download"]
