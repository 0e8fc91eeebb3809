"""The Vulkan instance: none is needed to import vkdml, and a missing one is named with its remedy."""

from __future__ import annotations

import ast
import json
import textwrap

import processes
import pytest

from vkdml import _native

USE = """
    try:
        vkdml.argmax([1, 3, 2])
    except vkdml.NoDeviceError as error:
        print(error)
"""
VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")


def said_with(variable, value, **environment):
    """What the first use says where this variable alone restricts the loader."""
    unset = f"import os; [os.environ.pop(name, None) for name in {VARIABLES} if name != {variable!r}]"
    done = processes.finished(unset + textwrap.dedent(USE), **{variable: value}, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_manifests_that_are_added_are_looked_at_first_unless_others_are_forced(tmp_path, monkeypatch):
    added = tmp_path / "added.json"
    added.write_text("{}")
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    usual = _native.loader()["icd_files"]
    assert str(added) not in usual
    monkeypatch.setenv("VK_ADD_DRIVER_FILES", f"{added}:{tmp_path / 'missing.json'}")
    assert _native.loader()["icd_files"] == [str(added), *usual]
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path / "only.json"))
    assert _native.loader()["icd_files"] == [str(tmp_path / "only.json")]


def test_import_works_without_vulkan_and_the_first_use_names_the_remedy(tmp_path):
    (tmp_path / "libvulkan.so.1").write_text("no library")
    done = processes.finished(
        'assert vkdml._native.loader()["path"] is None\n' + textwrap.dedent(USE),
        LD_LIBRARY_PATH=str(tmp_path),
    )
    assert "no Vulkan loader" in done.stdout, done.stderr
    assert "apt install" in done.stdout
    missing = str(tmp_path / "missing.json")
    for variable in VARIABLES:
        said = said_with(variable, missing)
        assert "argmax of (3,) int64: the Vulkan loader found no usable driver" in said
        assert f": {variable} names {missing}, which does not exist: unset this variable" in said
        assert "apt install" not in said


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_that_is_set_but_empty_is_named(variable):
    said = said_with(variable, "")
    assert f": {variable} is set but empty, so the loader looks at no driver: unset it, or" in said
    assert "apt install" not in said


@pytest.mark.parametrize("kind", ["nothing", "folder"])
@pytest.mark.parametrize("variable", VARIABLES)
def test_what_the_loader_is_said_to_look_at_is_what_the_error_says(variable, kind, tmp_path):
    value = str(tmp_path) if kind == "folder" else ""  # an empty one: loaders read all .json files
    said = said_with(variable, value)
    report = "print(vkdml._native.loader()['named_drivers'])"
    unset = f"import os; [os.environ.pop(name, None) for name in {VARIABLES} if name != {variable!r}]\n"
    named = ast.literal_eval(processes.finished(unset + report, **{variable: value}).stdout)
    assert named["variable"] == variable
    assert f": {named['fault']}: {named['remedy']}" in said


def test_no_variable_names_the_drivers_by_default():
    unset = f"import os; [os.environ.pop(name, None) for name in {VARIABLES}]\n"
    assert processes.finished(unset + "print(vkdml._native.loader()['named_drivers'])").stdout == "None\n"


def test_the_newer_variable_wins_though_it_is_empty():
    done = processes.finished(USE, VK_DRIVER_FILES="", VK_ICD_FILENAMES="/nonexistent.json")
    assert ": VK_DRIVER_FILES is set but empty" in done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["folder", "text", "missing library"])
def test_a_variable_that_names_no_usable_manifest_is_named(kind, tmp_path):
    path = tmp_path / {"folder": "", "text": "passwd", "missing library": "icd.json"}[kind]
    if kind == "text":
        path.write_text("root:x:0:0")
    elif kind == "missing library":
        content = {"file_format_version": "1.0.0", "ICD": {"library_path": "./no.so", "api_version": "1.1.0"}}
        path.write_text(json.dumps(content))
    said = said_with("VK_DRIVER_FILES", str(path))
    assert f"VK_DRIVER_FILES names {path}, which gives no usable driver: unset it, or set it to a man" in said
    assert "apt install" not in said


@pytest.mark.parametrize("damaged", ["{ this is not JSON", '{"ICD": {"library_path": "no.so"', '{"a": }', ""])
def test_only_the_manifest_that_does_not_parse_is_named(damaged, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    content = {
        "file_format_version": "1.0.0",
        "ICD": {"library_path": "./no.so", "api_version": "1.1.0"},
        "more": [None, True, -1.5e3, {}, [], 'quoted "text" \\ \u00e9'],
    }
    good.write_text(json.dumps(content))
    bad.write_text(damaged)
    said = said_with("VK_DRIVER_FILES", f"{good}:{bad}")
    if damaged:  # the loader passes over an empty file
        assert f": the manifest of a driver is damaged ({bad}): reinstall that driver, or remove" in said
    assert "install the Vulkan loader" not in said


def test_the_device_variable_is_not_blamed_where_there_is_no_driver():
    assert "VKDML_DEVICE" not in said_with("VK_DRIVER_FILES", "", VKDML_DEVICE="llvmpipe")
