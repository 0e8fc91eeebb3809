"""Devices: one open for each piece of hardware, selectors, closing, the default, what cannot be changed."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from separate import forget_open_devices

import vkdml
from vkdml import _native, dml
from vkdml.cli.devices import table
from vkdml.common.read_only import fix
from vkdml.runtime import device as devices
from vkdml.runtime import open_devices
from vkdml.runtime.device_info import select

H200 = "NVIDIA H200"


@pytest.fixture(scope="module")
def made_up():
    info = vkdml.devices()[0]

    def make(index, name, kind, uuid, driver):
        return replace(
            info, index=index, name=name, type=kind, uuid=uuid * 32, driver_name=driver, driver_info="1.0"
        )

    return [
        make(0, "llvmpipe (LLVM 15)", "software", "a", "llvmpipe"),
        make(1, "Some Integrated 770", "integrated", "b", "Mesa"),
        make(2, H200, "discrete", "c", "NVIDIA"),
        make(3, H200, "discrete", "d", "NVIDIA"),
        make(4, "NVIDIA H200 NVL", "discrete", "e", "NVIDIA"),
        make(5, "Radeon", "discrete", "f", "radv"),
        make(6, "Radeon", "discrete", "f", "AMD proprietary"),
    ]


@pytest.fixture
def fresh(monkeypatch):
    """Devices are opened anew, and no default is set, until the test ends."""
    forget_open_devices(monkeypatch)
    monkeypatch.delenv("VKDML_DEVICE", raising=False)
    yield
    vkdml.set_default_device(None)
    _native.inject_failure(0)


# ---- what a selector means -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "index"),
    [
        (None, 2),
        (0, 0),
        (np.uint8(4), 4),
        (np.array(3), 3),
        ("1", 1),
        (" 0 ", 0),
        ("LLVM", 0),
        ("mesa", 1),
        (" some\t", 1),
        ("nvl", 4),
        ("nvidia h200 nvl", 4),
        ("proprietary", 6),
        ("d" * 32, 3),
        ("DDDDDDDD-dddd-dddd-dddd-dddddddddddd", 3),
        (np.str_("mesa"), 1),
    ],
)
def test_selectors(made_up, selector, index):
    assert select(selector, made_up).index == index


def test_an_info_means_its_device_whatever_number_that_has_now(made_up):
    for info in made_up:
        assert select(info, made_up) is info
    moved = [replace(info, index=index) for index, info in enumerate(made_up[1:])]
    assert select(made_up[1], moved) is moved[0]
    with pytest.raises(vkdml.NoDeviceError, match=r"^no device matches 0: llvmpipe .*; the devices"):
        select(made_up[0], moved)


def test_a_whole_name_goes_before_a_part_of_another(made_up):
    assert select(H200.lower(), [made_up[4], made_up[2]]).index == 2


def test_what_a_driver_says_of_itself_selects_where_no_name_does(made_up):
    """`vkdml devices` prints it beside the driver's name."""
    infos = [replace(info, driver_info=f"Mesa 25.{info.index}") for info in made_up]
    assert select("25.3", infos).index == 3
    assert select("mesa", infos).index == 1, "a driver's name goes before"
    assert select("nvidia mesa 25.3", infos).index == 3, "as it is printed"
    assert select(" Radv Mesa 25.5 ", infos).index == 5


def test_a_driver_as_it_is_printed_selects_its_device(device):
    (printed,) = table([device.info], None).columns[3].cells
    assert select(printed, [device.info]) is device.info
    with pytest.raises(vkdml.NoDeviceError) as caught:
        vkdml.Device("no such device")
    assert f"{device.info.index}: {device.name} ({device.info.type}, {printed})" in str(caught.value)


def test_discrete_before_integrated_before_software(made_up):
    assert select(None, made_up[:2]).index == 1
    assert select(None, made_up[:1]).index == 0
    assert select(None, made_up[::-1]).index == 2


@pytest.mark.parametrize("selector", [7, -1, "amd radeon", "", "  ", "0" * 32, "770", "-1", "0x0"])
def test_what_matches_nothing_is_answered_with_what_there_is(made_up, selector):
    with pytest.raises(
        vkdml.NoDeviceError,
        match=r"^no device matches .*; the devices are: 0: llvmpipe .* 3: NVIDIA H200 \(discrete, NVIDIA 1",
    ):
        select(selector, made_up)


@pytest.mark.parametrize(
    ("selector", "indices"),
    [("e", [0, 1, 5, 6]), ("nvidia", [2, 3, 4]), (H200, [2, 3]), ("f" * 32, [5, 6])],
)
def test_what_matches_several_is_answered_with_these(made_up, selector, indices):
    with pytest.raises(vkdml.NoDeviceError) as caught:
        select(selector, made_up)
    said = str(caught.value)
    assert said.startswith(f"{selector!r} matches {len(indices)} devices: {indices[0]}: ")
    assert said.endswith("choose one by its index, UUID or whole name")
    assert [info.index for info in made_up if f"{info.index}: {info.name}" in said] == indices


@pytest.mark.parametrize("selector", [True, np.True_, 1.0, 3.5, b"nvidia", {"0": 1}, {0}, np.zeros(2), 1j])
def test_selectors_of_other_types_are_refused(made_up, selector):
    message = r"a device is a vkdml\.Device or vkdml\.DeviceInfo, an index .* part of a name .* or None, not "
    with pytest.raises(TypeError, match=message):
        select(selector, made_up)
    for use in (
        vkdml.Device,
        vkdml.set_default_device,
        lambda device: vkdml.argmax([1, 2], device=device),
        lambda device: vkdml.argmax([1, 2], device=[0, device]),
        lambda device: vkdml.argmax(vkdml.asarray([1, 2]), device=device),
    ):
        with pytest.raises(TypeError, match=message):
            use(selector)


# ---- one Device for each piece of hardware ---------------------------------------------------------------


def every_selector(device):
    info = device.info
    hyphened = "-".join(info.uuid[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
    return [
        info.index, np.int64(info.index), np.uint8(info.index), str(info.index), f" {info.index} ", info.name,
        info.name.upper(), info.name[: len(info.name) // 2], info.uuid, hyphened.upper(),
        vkdml.devices()[info.index], None, device,
    ]  # fmt: skip


def test_all_that_mean_one_device_are_one_object(device, monkeypatch):
    for selector in every_selector(device):
        assert vkdml.Device(selector) is device
        assert vkdml.asarray([1], device=selector).device is device
    assert vkdml.default_device() is device
    assert len({vkdml.Device(selector) for selector in every_selector(device)}) == 1
    for selector in every_selector(device)[3:-3]:
        monkeypatch.setenv("VKDML_DEVICE", selector)
        assert vkdml.default_device() is vkdml.Device() is device


def test_arrays_know_their_device_by_any_selector(device):
    a = vkdml.asarray(np.int32([[1, 5], [7, 2]]))
    for selector in every_selector(device):
        assert a.to_device(selector) is a
        assert vkdml.asarray(a, device=selector) is a
        assert vkdml.argmax(a, 1, device=selector).tolist() == [1, 0]
        assert vkdml.argmin(a, device=[selector]).tolist() == 0
        assert vkdml.slice1(a, (0, 0), (1, 2), (1, 1), device=selector).tolist() == [[1, 5]]
    with pytest.raises(ValueError, match="stream=3; accepted is None"):
        a.to_device(device, stream=3)


def test_a_list_with_a_device_twice_is_refused(device):
    for selector in every_selector(device):
        with pytest.raises(ValueError, match=r"has <vkdml\.Device .*> twice; accepted are distinct devices"):
            vkdml.argmax([1, 2], device=[device.info.index, selector])
    with pytest.raises(ValueError, match="empty list; accepted is at least one device"):
        vkdml.argmax([1, 2], device=[])


def test_threads_that_select_at_once_open_one(fresh, monkeypatch):
    opened = []

    def slowly(info, real=devices.open_device):
        time.sleep(0.05)  # the others come meanwhile
        opened.append(info)
        return real(info)

    monkeypatch.setattr(devices._open_devices, "_open_device", slowly)
    info = vkdml.devices()[0]
    selectors = [info.index, str(info.index), info.name, info.uuid] * 2
    together = threading.Barrier(len(selectors))

    def select_at_once(selector):
        together.wait()
        return vkdml.Device(selector)

    with ThreadPoolExecutor(len(selectors)) as threads:
        found = set(threads.map(select_at_once, selectors))
    assert (len(found), len(opened)) == (1, 1)


def test_a_program_that_makes_up_selectors_does_not_fill_memory_with_them(fresh, monkeypatch):
    monkeypatch.setattr(open_devices, "MOST_SELECTORS", 3)
    info = vkdml.devices()[0]
    first = vkdml.Device(info.index)
    for spaces in range(20):
        assert vkdml.Device(" " * spaces + str(info.index)) is first
        assert len(devices._open_devices._chosen) <= 3


def test_a_warning_may_use_the_device_that_it_comes_from(fresh, monkeypatch):
    """What shows a warning may be code of anybody, logging an argmax."""
    monkeypatch.setattr(devices, "_said_of_profiles", set())
    monkeypatch.setenv("VKDML_PROFILE", "neither on nor off")
    index = vkdml.devices()[0].index
    found = []
    monkeypatch.setattr("warnings.showwarning", lambda *_, **__: found.append(vkdml.Device(index)))
    with pytest.MonkeyPatch.context() as filters:
        filters.setattr("warnings.filters", [("always", None, Warning, None, 0)])
        device = vkdml.Device(index)
    assert found == [device]


def test_equal_cards_with_one_uuid_are_two_devices(fresh, monkeypatch):
    info = vkdml.devices()[0]
    pair = [replace(info, index=index) for index in range(2)]
    monkeypatch.setattr(open_devices, "devices", lambda: pair)
    opened = lambda chosen: separate_device_of(info, chosen.index)  # noqa: E731
    monkeypatch.setattr(devices._open_devices, "_open_device", opened)
    first, second = vkdml.Device(0), vkdml.Device(1)
    assert first is not second
    assert first != second
    assert (first.info.index, second.info.index) == (0, 1)
    assert vkdml.Device(0) is first
    assert vkdml.Device("1") is second
    with pytest.raises(vkdml.NoDeviceError, match=r"matches 2 devices: 0: .*; 1: .*; choose one"):
        vkdml.Device(info.uuid)
    # One that comes first from now on takes its number, not its place.
    pair[:0] = [replace(info, uuid="9" * 32)]
    for index, other in enumerate(pair):
        object.__setattr__(other, "index", index)
    monkeypatch.setattr(devices._open_devices, "_chosen", {})
    assert vkdml.Device(1) is first
    assert vkdml.Device(2) is second
    assert vkdml.Device(0) not in (first, second)


def separate_device_of(info, index, real=devices.open_device):
    device = real(info)
    fix(device, "info", replace(info, index=index))
    return device


def test_one_that_cannot_be_opened_is_tried_again(fresh):
    vkdml.devices()
    _native.inject_failure(1, -2, "vkCreateDevice")
    with pytest.raises(MemoryError):
        vkdml.Device(0)
    _native.inject_failure(0)
    assert vkdml.Device(0) is vkdml.Device(0)


# ---- lost devices ----------------------------------------------------------------------------------------


def lose(device):
    _native.inject_failure(1, -4, "vkQueueSubmit")
    with pytest.raises(vkdml.DeviceLostError):
        vkdml.argmax([1, 3, 2], device=device)
    _native.inject_failure(0)


def test_a_lost_device_is_replaced_by_the_next_selection_and_stays_lost(fresh):
    lost = vkdml.default_device()
    for selector in every_selector(lost)[:-1]:
        before = vkdml.Device(selector)
        array = vkdml.asarray([1, 2, 3], device=before)
        lose(before)
        assert repr(before).endswith(", lost>")
        after = vkdml.Device(selector)
        assert after is not before
        assert after is vkdml.Device(after.info.uuid) is vkdml.default_device()
        assert vkdml.argmax([1, 5, 2], device=selector) == 1
        for use in (
            lambda before=before: vkdml.argmax([1, 2], device=before),
            lambda before=before: vkdml.set_default_device(before),
            lambda array=array: array.numpy(),
            lambda array=array, after=after: vkdml.argmax(array, device=after),
            lambda array=array, after=after: vkdml.asarray([0, 0, 0], device=after).__setitem__(..., array),
        ):
            with pytest.raises(vkdml.DeviceLostError):
                use()
        assert vkdml.Device(before) is before


# ---- closing ---------------------------------------------------------------------------------------------


def test_every_use_of_a_closed_device_says_that_it_was_closed(fresh):
    device = vkdml.default_device()
    whole = dml.BufferTensorDesc(dml.DataType.INT32, sizes=(4,))
    one = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(1,))
    desc = dml.ArgMaxOperatorDesc(whole, one, axes=(0,))
    op = device.compile(desc)
    a, out, host = vkdml.asarray(np.int32([1, 4, 2, 3])), vkdml.empty(1, np.uint32), np.zeros(4, np.int32)
    for _ in range(2):  # so that the call is known
        assert int(vkdml.argmax(a)) == 1
        assert vkdml.argmax(host, device=device) == 0
    sequence = device.sequence()
    sequence.record(op, input=a, output=out)
    down = sequence.download(out)
    sequence.eval()
    never_evaluated = device.sequence().download(out)
    uses = [
        device.memory, device.trim, device.sequence, device.require_usable, device.__enter__,
        a.numpy, a.copy, a[0].item, a.tolist, a.argmax, a.argmin,
        never_evaluated.numpy, sequence.eval, sequence.eval_async,
        lambda: device.compile(desc),
        lambda: op.dispatch(input=a),
        lambda: op.dispatch(input=a, output=out),
        lambda: sequence.record(op, input=a, output=out),
        lambda: sequence.upload(a, host),
        lambda: sequence.download(out),
        lambda: np.asarray(a),
        lambda: vkdml.asarray(host, device=device),
        lambda: vkdml.empty(3, np.int32, device=device),
        lambda: vkdml.argmax(host, device=device),
        lambda: vkdml.argmax(host, device=[device]),
        lambda: vkdml.slice1(host, (0,), (2,), (1,), device=device),
        lambda: vkdml.slice1(a, (0,), (2,), (1,)),
        lambda: vkdml.argmax(a, return_values=True),
        lambda: vkdml.argmax(a, device=0),
        lambda: vkdml.argmax(a, out=vkdml.empty((), np.int64, device=0)),
        lambda: vkdml.ShardedArray([a, a]).argmax(),
        lambda: vkdml.empty(4, np.int32, device=0).__setitem__(..., a),
        lambda: a.__setitem__(0, 1),
        lambda: a.__setitem__(..., a[::-1]),
        lambda: a.to_device(0),
        lambda: a.to_device(device),
        lambda: vkdml.set_default_device(device),
    ]  # fmt: skip
    device.close()
    device.close()
    said = f"device {device.info.index}, .* was closed, .*: select it again, as vkdml.Device"
    for number, use in enumerate(uses):
        try:
            use()
        except vkdml.DeviceError as error:
            assert re.search(said, str(error)), (number, error)  # noqa: PT017
            assert type(error) is vkdml.DeviceError  # noqa: PT017
        else:
            pytest.fail(f"use {number} raises nothing")
    assert repr(device).endswith(", closed>")
    assert device.name == device.info.name
    assert (a.shape, op.desc) == ((4,), desc)
    assert down.numpy().tolist() == [1]  # what had arrived before


def test_a_closed_device_is_opened_anew_by_the_next_selection(fresh):
    before = vkdml.default_device()
    for selector in every_selector(before)[:-1]:
        closed = vkdml.Device(selector)
        closed.close()
        assert vkdml.argmax([1, 3, 2], device=selector) == 1
        assert vkdml.Device(selector) is not closed
        assert vkdml.Device(closed) is closed
    vkdml.default_device().close()
    assert vkdml.argmax([1, 3, 2]) == 1
    assert vkdml.default_device() is vkdml.Device(before.info.index)


def test_closing_a_replaced_device_leaves_its_replacement(fresh):
    lost = vkdml.default_device()
    lose(lost)
    replacement = vkdml.Device(lost.info.index)
    lost.close()
    assert vkdml.Device(lost.info.index) is replacement
    assert vkdml.argmax([1, 3, 2], device=replacement) == 1


def test_a_with_block_closes_at_its_end_for_all(fresh):
    shared = vkdml.default_device()
    with vkdml.Device(shared.info.index) as device:
        assert device is shared
        assert vkdml.argmax([1, 3, 2], device=device) == 1
    with pytest.raises(vkdml.DeviceError, match="was closed"):
        vkdml.argmax([1, 3, 2], device=shared)
    with pytest.raises(KeyError), vkdml.Device() as device:  # noqa: PT012
        assert device is not shared
        raise KeyError
    with pytest.raises(vkdml.DeviceError, match="was closed"):
        device.memory()
    with vkdml.Device() as device:
        device.close()


def test_closing_frees_what_is_kept_and_arrays_free_the_rest(fresh):
    device = vkdml.default_device()
    native, executions = device.native, device.executions
    array = vkdml.asarray(np.zeros(1 << 18, np.int32))
    view = array[::2]
    assert int(vkdml.argmax(array)) == vkdml.argmax(np.zeros(1 << 16)) == 0
    del array
    held = native.memory()["used"]
    device.close()
    assert native.memory()["pooled"] == 0
    assert 1 << 20 <= native.memory()["used"] < held + 1
    assert not executions.clear()  # nothing is left there
    del view
    gc.collect()
    assert native.memory()["used"] == 0


def test_a_sequence_that_runs_when_its_device_is_closed_ends(fresh):
    device = vkdml.default_device()
    array, host = vkdml.empty(1 << 20, np.int32), np.arange(1 << 20, dtype=np.int32)
    sequence = device.sequence()
    sequence.upload(array, host)
    down = sequence.download(array[::-1])
    sequence.eval_async()
    device.close()
    assert np.array_equal(down.numpy(), host[::-1])
    assert sequence.wait()
    with pytest.raises(vkdml.DeviceError, match="was closed"):
        sequence.eval()
    sequence.clear()


def test_threads_that_use_a_device_while_it_is_closed_finish_or_are_told(fresh):
    x = np.random.default_rng(2).integers(0, 9, (40, 60))
    expected = x.argmax(1)
    stop = threading.Event()
    strange = []

    def work():
        while not stop.is_set():
            try:
                found = vkdml.argmax(x, 1, device=0)
                on_device = vkdml.argmax(vkdml.asarray(x, device=0), 1).numpy()
            except vkdml.DeviceError as error:
                if "was closed" not in str(error):
                    strange.append(error)
            except Exception as error:
                strange.append(error)
            else:
                if not (np.array_equal(found, expected) and np.array_equal(on_device, expected)):
                    strange.append(found)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        vkdml.Device(0).close()
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert strange == []


# ---- the default -----------------------------------------------------------------------------------------


def test_the_environment_variable_chooses_the_default_and_is_named_in_errors(monkeypatch):
    info = vkdml.devices()[0]
    monkeypatch.setenv("VKDML_DEVICE", info.uuid)
    assert vkdml.default_device().info.uuid == info.uuid
    assert vkdml.default_device() is vkdml.default_device()
    monkeypatch.setenv("VKDML_DEVICE", "no such card")
    for use in (vkdml.Device, vkdml.default_device, lambda: vkdml.argmax([1, 2])):
        with pytest.raises(vkdml.NoDeviceError, match="VKDML_DEVICE: no device matches 'no such card'"):
            use()
    for unset in ("", "  "):
        monkeypatch.setenv("VKDML_DEVICE", unset)
        assert vkdml.argmax([1, 2]) == 1
    monkeypatch.delenv("VKDML_DEVICE")
    assert vkdml.argmax([1, 2]) == 1


def test_the_default_that_is_set_goes_before_the_environment(fresh, monkeypatch):
    info = vkdml.devices()[0]
    monkeypatch.setenv("VKDML_DEVICE", "no such card")
    for selector in (info.index, info.uuid, info.name, vkdml.Device(info.index)):
        assert vkdml.set_default_device(selector) is None
        assert vkdml.default_device() is vkdml.Device() is vkdml.Device(info.index)
        assert vkdml.argmax([1, 2]) == 1
    with pytest.raises(vkdml.NoDeviceError, match=r"^no device matches 'another'"):
        vkdml.set_default_device("another")
    assert vkdml.default_device() is vkdml.Device(info.index)  # as it was
    vkdml.set_default_device(None)
    with pytest.raises(vkdml.NoDeviceError, match="VKDML_DEVICE"):
        vkdml.default_device()


@pytest.mark.parametrize("end", [lose, vkdml.Device.close], ids=["lost", "closed"])
def test_a_set_default_that_has_ended_is_opened_anew(fresh, end):
    first = vkdml.Device(0)
    vkdml.set_default_device(first)
    end(first)
    assert vkdml.argmax([1, 3, 2]) == 1
    assert vkdml.default_device() is vkdml.Device(0) is not first


def test_a_set_default_that_was_lost_is_never_replaced_by_other_hardware(fresh, monkeypatch):
    first = vkdml.Device(0)
    vkdml.set_default_device(first)
    lose(first)
    another = replace(first.info, uuid="f" * 32, name="another card")
    monkeypatch.setattr(open_devices, "devices", lambda: [another])
    with pytest.raises(vkdml.NoDeviceError, match="another card"):
        vkdml.argmax([1, 3, 2])
    monkeypatch.undo()
    assert vkdml.argmax([1, 3, 2]) == 1


SOFTWARE_SCRIPT = """
import warnings, vkdml
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    vkdml.argmax([1, 2])  # this line
    vkdml.argmin([1, 2])
    vkdml.slice1([1, 2], (0,), (2,), (1,))
found = [w for w in caught if issubclass(w.category, vkdml.SoftwareDeviceWarning)]
print(len(found), [w.lineno for w in found], [w.filename for w in found])
"""


def software_warnings(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr


def test_a_software_default_is_said_once_where_it_was_used():
    expected = "0 [] []" if vkdml.Device().info.type != "software" else "1 [5] ['<string>']"
    assert software_warnings(SOFTWARE_SCRIPT) == expected
    asked_for = SOFTWARE_SCRIPT.replace("with", "vkdml.set_default_device(0)\nwith")
    assert software_warnings(asked_for) == "0 [] []"


# ---- what cannot be changed ------------------------------------------------------------------------------


def test_no_attribute_of_a_device_can_be_assigned_or_deleted(device):
    names = [name for name in dir(device) if not name.startswith("_")]
    assert {"info", "name", "limits", "native", "executions", "close", "memory"} <= set(names)
    for name in [*names, "another"]:
        with pytest.raises(AttributeError):
            setattr(device, name, None)
        with pytest.raises(AttributeError):
            delattr(device, name)
    assert not hasattr(device, "__dict__")
    assert vkdml.argmax([1, 3, 2], device=device) == 1


def test_nothing_of_the_info_can_be_changed(device):
    for info in (device.info, vkdml.devices()[0]):
        for field in dataclasses.fields(info):
            with pytest.raises(AttributeError):
                setattr(info, field.name, None)
            with pytest.raises(AttributeError):
                delattr(info, field.name)
        with pytest.raises(AttributeError, match="'another'"):
            info.another = 1
        with pytest.raises(AttributeError, match="'another'"):
            del info.another
        assert not hasattr(info, "__dict__")
        for known in (info.limits, info.features, info.subgroup, info.heaps[0]):
            before, key = dict(known), next(iter(known))
            for change in (
                lambda known=known, key=key: known.__setitem__(key, 1),
                lambda known=known, key=key: known.__delitem__(key),
                lambda known=known, key=key: known.pop(key),
                lambda known=known: known.update(another=1),
                lambda known=known: known.setdefault("another", 1),
                lambda known=known: known.__ior__({"another": 1}),
                lambda known=known: known.clear(),
                lambda known=known: known.popitem(),
            ):
                with pytest.raises(TypeError, match="read-only"):
                    change()
            assert known == before
        assert isinstance(info.heaps, tuple)
        assert isinstance(info.limits["max_compute_workgroup_count"], tuple)
        assert isinstance(info.subgroup["operations"], tuple)


def test_the_info_is_a_value(device):
    info = next(info for info in vkdml.devices() if info.index == device.info.index)
    assert info == device.info
    assert len({info, device.info, *vkdml.devices()}) == len(vkdml.devices())
    for same in (pickle.loads(pickle.dumps(info)), copy.deepcopy(info), copy.copy(info), replace(info)):
        assert (same, hash(same), same.heaps) == (info, hash(info), info.heaps)
        with pytest.raises(TypeError, match="read-only"):
            same.limits["another"] = 1
    listed = json.loads(json.dumps(dataclasses.asdict(info)))
    assert listed["limits"]["max_push_constants_size"] == info.limits["max_push_constants_size"]
    assert vkdml.DeviceInfo(**listed) == info
    assert repr(info).startswith(
        f"<vkdml.DeviceInfo {info.index}: {info.name} ({info.type}), {info.driver_name}"
    )
    assert re.fullmatch(r".*, [0-9.]+ GiB>", repr(info))
    assert vkdml.DeviceInfo(**listed).heaps == info.heaps
    assert replace(info, heaps=[]) == info
    assert replace(info, name="another") != info


def test_a_device_is_itself_when_copied_and_is_not_pickled_or_subclassed(device):
    assert copy.copy(device) is copy.deepcopy(device) is copy.deepcopy([device])[0] is device
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match=r"cannot be pickled: send its info\.uuid, and select it there"):
            pickle.dumps(device, protocol)
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Mine", (vkdml.Device,), {})


def test_info_tells_limits_and_types():
    info = vkdml.Device().info
    assert info in vkdml.devices()
    assert info.type in ("discrete", "integrated", "virtual", "software", "other")
    assert len(info.uuid) == 32
    assert info.limits["max_storage_buffer_range"] >= 1 << 27
    assert info.limits["max_push_constants_size"] >= 128
    assert info.limits["timestamp_period_ns"] >= 0
    assert info.subgroup["size"] >= 1
    assert info.heaps
    assert repr(vkdml.Device(info.index)) == f"<vkdml.Device {info.index}: {info.name} ({info.type})>"
