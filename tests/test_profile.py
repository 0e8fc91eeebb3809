"""Stored profiles: written whole, used where they belong, and ignored with one warning where they do not."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import warnings
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from separate import forget_open_devices

import vkdml
from vkdml import tune
from vkdml.common.read_only import fix
from vkdml.plan import device_classes, tuning
from vkdml.runtime import device as devices
from vkdml.runtime import profile
from vkdml.runtime.profile import Profile, ProfileFault

FIELD = next(iter(tuning.SEARCH))


@pytest.fixture(scope="module")
def info():
    return vkdml.devices()[0]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache directory, profiles in use, nothing warned of yet, and no device open."""
    monkeypatch.setenv("VKDML_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("VKDML_PROFILE", raising=False)
    monkeypatch.setattr(devices, "_said_of_profiles", set())
    forget_open_devices(monkeypatch)
    return tmp_path


def profile_for(info, **values):
    return Profile(info.uuid, info.name, profile.driver_of(info), vkdml.__version__, "2026-01-31", values)


def other_value(info, field=FIELD):
    default = getattr(info.plan_limits.tuning, field)
    return next(value for value in tuning.SEARCH[field] if value != default)


def changed(info, **changes):
    """The bytes of a right profile with some of its top-level entries changed, or with None removed."""
    document = json.loads(Path(profile.store(info, profile_for(info))).read_text()) | changes
    return json.dumps({key: value for key, value in document.items() if value is not None}).encode()


# ---- what may be tuned ---------------------------------------------------------------------------


@pytest.mark.parametrize("field", tuning.SEARCH)
def test_what_is_searched_is_a_field_whose_defaults_are_accepted(field):
    assert field in {f.name for f in fields(tuning.Tuning)}
    assert list(tuning.SEARCH[field]) == sorted(set(tuning.SEARCH[field]))
    for value in tuning.SEARCH[field]:
        assert tuning.accepted(field, value)
    for device_class, numbers in device_classes.TUNING.items():
        assert tuning.accepted(field, getattr(numbers, field)), device_class


@pytest.mark.parametrize("field", tuning.SEARCH)
def test_other_values_are_not_accepted(field):
    lowest, highest = tuning.SEARCH[field][0], tuning.SEARCH[field][-1]
    for value in (
        lowest - 1,
        highest + 1,
        1 << 70,
        -highest,
        True,
        False,
        float(highest),
        "1",
        None,
        [highest],
    ):
        assert not tuning.accepted(field, value), value


def test_an_odd_number_is_accepted_where_not_all_candidates_are_powers_of_two(monkeypatch):
    monkeypatch.setattr(tuning, "SEARCH", {"even": (4, 64), "odd": (3, 64)})
    assert [tuning.accepted("even", 5), tuning.accepted("odd", 5)] == [False, True]
    assert tuning.accepted_range("even") == "a power of two from 4 to 64"
    assert tuning.accepted_range("odd") == "an integer from 3 to 64"


# ---- where profiles are --------------------------------------------------------------------------


def test_the_folder_follows_the_environment(monkeypatch, cache):
    assert profile.directory() == f"{cache}/profiles"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert profile.directory() == f"{cache}/profiles"
    monkeypatch.delenv("VKDML_CACHE_DIR")
    assert profile.directory() == "/elsewhere/vkdml/profiles"
    monkeypatch.setenv("HOME", "/somewhere")
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert profile.directory() == "/somewhere/.cache/vkdml/profiles"
    monkeypatch.setenv("HOME", "nowhere")
    assert profile.directory() is None


def test_without_a_home_there_is_no_profile_and_none_can_be_stored(monkeypatch, info):
    monkeypatch.delenv("VKDML_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    assert profile.load(info) is None
    assert profile.remove(info) is None
    with pytest.raises(profile.CannotStoreError, match=r"no home directory .* set VKDML_CACHE_DIR"):
        profile.store(info, profile_for(info))


def test_each_device_and_driver_version_has_a_file_of_its_own(info):
    others = [
        replace(info, uuid="0" * 32),
        replace(info, driver_name="another"),
        replace(info, driver_info="1.2.3"),
        replace(info, api_version="1.9.9"),
        replace(info, driver_info="../" * 100),
    ]
    paths = {profile.path_of(each) for each in [info, *others]}
    assert len(paths) == 6
    assert all(os.path.dirname(path) == profile.directory() for path in paths)
    assert all(len(os.path.basename(path)) < 200 for path in paths)


# ---- writing -------------------------------------------------------------------------------------


def test_what_is_stored_is_loaded_and_can_be_removed(info):
    assert profile.load(info) is None
    assert profile.remove(info) is None
    stored = profile_for(info, **{FIELD: other_value(info)})
    path = profile.store(info, stored)
    assert path == profile.path_of(info)
    assert profile.load(info) == stored
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert profile.remove(info) == path
    assert profile.load(info) is None


def test_a_write_that_fails_leaves_the_old_profile_and_no_rest(info, monkeypatch):
    old = profile_for(info, **{FIELD: other_value(info)})
    path = profile.store(info, old)

    def full(*_):
        raise OSError(28, "No space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as broken:
            broken.setattr(os, function, full)
            with pytest.raises(
                profile.CannotStoreError, match=r"cannot be stored in .*No space.*VKDML_CACHE_DIR"
            ):
                profile.store(info, profile_for(info))
        assert profile.load(info) == old
        assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_folder_that_cannot_be_made_or_a_file_that_cannot_be_deleted_is_one_line(info, monkeypatch, cache):
    os.makedirs(profile.path_of(info))
    with pytest.raises(profile.CannotStoreError, match="cannot be deleted"):
        profile.remove(info)
    (cache / "file").touch()
    monkeypatch.setenv("VKDML_CACHE_DIR", str(cache / "file"))
    assert profile.load(info) is None
    assert profile.remove(info) is None
    for call in (profile.make_directory, lambda: profile.store(info, profile_for(info))):
        with pytest.raises(profile.CannotStoreError, match=r"stored in .*/file/profiles: Not a dir"):
            call()


# ---- what is of no use ---------------------------------------------------------------------------


def damages(info):
    good = changed(info)
    yield "damaged: not JSON", b""
    yield "damaged: not JSON", good[: len(good) // 2]
    yield "damaged: not JSON", b"\xff\xfe\x00"
    yield "damaged: not JSON", b"[" * 60000
    yield "damaged: .* bytes are too many", b" " * 70000
    for content in (b"[]", b"null", b"1", b'"text"'):
        yield "damaged: not a JSON object", content
    yield "of format None", b"{}"
    for version in (0, 2, "1", True, 1.0):
        yield f"of format {version!r}; this vkdml reads format 1", changed(info, format=version)
    yield "damaged: candidates is not an integer", changed(info, candidates="many")
    for name in {f.name for f in fields(Profile)} - {"candidates"}:
        yield f"missing or unknown: .'{name}'", changed(info, **{name: None})
        if name != "values":
            yield f"damaged: {name} is not a string", changed(info, **{name: 1})
    yield "missing or unknown: .'surplus'", changed(info, surplus=1)
    yield "damaged: values is not an object", changed(info, values=[1])
    yield "'nosuch' is no number that is tuned", changed(info, values={"nosuch": 1})
    yield "is no number that is tuned", changed(info, values={"x" * 50000: 1})
    untuned = next(f.name for f in fields(tuning.Tuning) if f.name not in tuning.SEARCH)
    yield f"'{untuned}' is no number that is tuned", changed(info, values={untuned: 1})
    for value in (True, "64", 64.0, [], {}, -1, 0, 1 << 60, "x" * 50000):
        yield f"damaged: {FIELD} is .*; accepted is .* from", changed(info, values={FIELD: value})
    yield "accepted is", changed(info, values={FIELD: float("nan")})
    yield "foreign: it is for device '0000", changed(info, device_uuid="0" * 32)
    yield "foreign: it is for driver 'other'", changed(info, driver="other")


def test_damaged_and_foreign_profiles_are_ignored_with_a_warning_that_says_how_to_mend_it(info):
    numbers = info.plan_limits.tuning
    path = Path(profile.store(info, profile_for(info)))
    cases = list(damages(info))
    assert len(cases) > 40
    for fault, content in cases:
        path.write_bytes(content)
        with pytest.raises(ProfileFault, match=fault):
            profile.load(info)
        tuned, warning = profile.tuned(info, numbers)
        assert tuned is numbers
        assert warning.startswith(f"{path} is ignored: ")
        assert warning.endswith("(run 'vkdml tune', or delete the file)")
        assert len(warning.splitlines()) == 1
        assert len(warning) < len(str(path)) + 300


@contextlib.contextmanager
def somebody_else():
    """Without root's rights, which make everything readable."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_profile_that_may_not_be_read_is_ignored_with_a_warning(info, monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("VKDML_CACHE_DIR", folder)
        path = profile.store(info, profile_for(info))
        for closed in (path, os.path.dirname(path)):
            for way in (folder, os.path.dirname(path), path):
                os.chmod(way, 0o755)
            os.chmod(closed, 0)
            with somebody_else():
                tuned, warning = profile.tuned(info, info.plan_limits.tuning)
            assert tuned is info.plan_limits.tuning
            assert warning.startswith(f"{path} is ignored: cannot be read: Permission denied")
        os.chmod(os.path.dirname(path), 0o755)


def test_what_is_not_a_file_is_ignored_with_a_warning_and_not_waited_for(info):
    path = profile.path_of(info)
    os.makedirs(path)
    assert "is ignored: not a file" in profile.tuned(info, info.plan_limits.tuning)[1]
    os.rmdir(path)
    os.mkfifo(path)
    assert "is ignored: not a file" in profile.tuned(info, info.plan_limits.tuning)[1]
    os.unlink(path)
    os.symlink(path, path)
    assert "is ignored: cannot be read: Too many" in profile.tuned(info, info.plan_limits.tuning)[1]


# ---- devices -------------------------------------------------------------------------------------


def test_a_device_without_a_profile_costs_one_look_and_says_nothing(info, monkeypatch):
    looks = []
    look = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **options: looks.append(path) or look(path, **options))
    assert profile.tuned(info, info.plan_limits.tuning) == (info.plan_limits.tuning, None)
    assert looks == [profile.path_of(info)]


def test_a_device_plans_with_its_profile_and_computes_the_same(info):
    rng = np.random.default_rng(3)
    x = rng.integers(-100, 100, (300, 500)).astype(np.int8)
    plain = devices.open_device(info)
    wanted = [vkdml.argmax(x, axis=axis, device=plain) for axis in (None, 0, 1)]
    values = {field: other_value(info, field) for field in tuning.SEARCH}
    profile.store(info, profile_for(info, **values))
    device = vkdml.Device(info.index)
    assert device.limits == replace(plain.limits, tuning=replace(plain.limits.tuning, **values))
    for axis, indices in zip((None, 0, 1), wanted, strict=True):
        np.testing.assert_array_equal(vkdml.argmax(x, axis=axis, device=device), indices)
    # Plans wait for the next call under the device's own numbers.
    waiting = [set(opened.executions._executions._waiting) for opened in (device, plain)]
    assert all(waiting)
    assert not waiting[0] & waiting[1]


def test_the_switch_goes_before_the_profile_and_the_profile_before_the_class(info, monkeypatch):
    numbers = info.plan_limits.tuning
    value = other_value(info)
    profile.store(info, profile_for(info, **{FIELD: value}))
    profiled = replace(numbers, **{FIELD: value})
    for setting in ("", "on", " ON"):
        monkeypatch.setenv("VKDML_PROFILE", setting)
        assert profile.tuned(info, numbers) == (profiled, None)
    for setting in ("off", "OFF "):
        monkeypatch.setenv("VKDML_PROFILE", setting)
        assert profile.tuned(info, numbers) == (numbers, None)
        assert devices.open_device(info).limits == info.plan_limits
    monkeypatch.setenv("VKDML_PROFILE", "of")
    assert profile.tuned(info, numbers) == (
        numbers,
        "VKDML_PROFILE is 'of', so profiles are ignored; accepted are 'on' and 'off'",
    )


def test_a_device_warns_once_of_a_profile_at_the_line_that_opened_it(info):
    path = Path(profile.store(info, profile_for(info)))
    path.write_text("{")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        opened = [devices.open_device(info) for _ in range(3)]
    assert [(w.category, w.filename) for w in caught] == [(vkdml.ProfileWarning, __file__)]
    assert str(caught[0].message).startswith(f"{path} is ignored: damaged: not JSON")
    assert issubclass(vkdml.ProfileWarning, UserWarning)
    assert all(device.limits == info.plan_limits for device in opened)
    assert vkdml.argmax([1, 3, 2], device=opened[0]) == 1


def extremes():
    for field, values in tuning.SEARCH.items():
        yield {field: values[0]}
        yield {field: values[-1]}
    for end in (0, -1):
        yield {field: values[end] for field, values in tuning.SEARCH.items()}


@pytest.mark.any_driver
def test_no_accepted_value_changes_a_result(info):
    device = vkdml.Device(info.index)
    rng = np.random.default_rng(5)
    x = rng.integers(0, 40, (67, 4099))
    calls = [(x.astype("int8"), None), (x.astype("int8"), 0), (x.astype("int8"), 1)]
    for values in extremes():
        if len(values) > 1:
            calls = [*calls[:3], (x.astype("float32"), 1)]
        tuned = profile_for(info, **values).apply(info.plan_limits.tuning)
        fix(device, "limits", replace(info.plan_limits, tuning=tuned))
        for array, axis in calls:
            got = vkdml.argmax(array, axis=axis, device=device)
            wanted = np.argmax(array, axis=axis)
            np.testing.assert_array_equal(got, wanted, err_msg=f"{values} {array.dtype} {axis}")
        got = vkdml.slice1(calls[0][0], (0, 1), (67, 4097), (-1, -2), device=device)
        np.testing.assert_array_equal(got, calls[0][0][::-1, -2:0:-2], err_msg=str(values))


def test_the_profile_of_a_search_is_that_of_the_device(info):
    value = other_value(info)
    found = tune.Found(info.plan_limits.tuning, {FIELD: value}, (), complete=True, candidates=17)
    made = tune.profile_of(info, found)
    assert made.candidates == 17
    assert replace(made, date="2026-01-31", candidates=None) == profile_for(info, **{FIELD: value})
    profile.store(info, made)
    assert profile.load(info) == made
