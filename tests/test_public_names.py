"""What `import vkdml` offers: the public names, help with others, and no inner modules."""

from __future__ import annotations

import importlib
import pkgutil
import pydoc
import re
import subprocess
import sys

import pytest

import vkdml

MODULES = [module.name for module in pkgutil.iter_modules(vkdml.__path__)]
PUBLIC_MODULES = {"array_api", "dml"}


def in_a_new_process(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_dir_of_the_array_api_shows_the_standards_names_only() -> None:
    shown = [name for name in dir(vkdml.array_api) if not re.fullmatch("__.*__", name)]
    assert shown == sorted(name for name in vkdml.array_api.__all__ if not name.startswith("__"))
    assert {"asarray", "argmax", "float32"} <= set(shown)
    assert "__array_api_version__" in dir(vkdml.array_api)


def test_dir_shows_the_public_names_only() -> None:
    shown = [name for name in dir(vkdml) if not re.fullmatch("__.*__", name)]
    assert shown == sorted(vkdml.__all__)
    assert set(MODULES) & set(shown) == PUBLIC_MODULES
    assert {"Device", "argmax", "default_device", "set_default_device", "devices"} <= set(shown)
    for name in shown:
        getattr(vkdml, name)
    assert "set_default_device" in pydoc.plain(pydoc.render_doc(vkdml))


def test_an_inner_module_is_imported_by_its_name_and_is_no_attribute() -> None:
    inner = sorted({*MODULES} - PUBLIC_MODULES - {"_native", "__main__"})
    script = f"""
import importlib, vkdml
assert [name for name in {inner} if hasattr(vkdml, name)] == []
for name in {inner}:
    exec(f"import vkdml.{{name}} as by_path; from vkdml import {{name}} as by_name")
    assert by_path is by_name is importlib.import_module(f"vkdml.{{name}}")
"""
    assert {"arrays", "plan", "runtime"} <= set(inner)
    in_a_new_process(script)


def test_a_name_that_is_missing_is_answered_with_the_one_that_was_meant() -> None:
    meant = {
        "array": "asarray", "tensor": "asarray", "slice": "slice1", "arg_max": "argmax", "argmx": "argmax",
        "ArgMax": "argmax", "device": "Device", "default_devices": "default_device", "ndarray": "Array",
    }  # fmt: skip
    script = f"""
import vkdml
for name in {list(meant)}:
    try:
        getattr(vkdml, name)([1])
    except AttributeError as error:
        print(error)
"""
    wanted = "module 'vkdml' has no attribute {!r}; did you mean {!r}?"
    assert in_a_new_process(script).splitlines() == [wanted.format(*pair) for pair in meant.items()]


def test_modules_that_are_imported_apart_are_named() -> None:
    script = """
import vkdml
for name in ("dask", "onnx"):
    try:
        getattr(vkdml, name)
    except AttributeError as error:
        print(error)
"""
    wanted = "module 'vkdml' has no attribute '{0}' yet: import vkdml.{0} first"
    assert in_a_new_process(script).splitlines() == [wanted.format(name) for name in ("dask", "onnx")]


def test_a_name_like_no_other_is_just_missing() -> None:
    for name in ("convolution", "__wrapped__", "_nothing"):
        with pytest.raises(AttributeError, match=f"^module 'vkdml' has no attribute '{name}'$"):
            getattr(vkdml, name)
    with pytest.raises(ImportError, match="cannot import name 'convolution'"):
        from vkdml import convolution  # type: ignore[attr-defined]  # noqa: F401


def test_the_module_can_be_reloaded() -> None:
    script = "import importlib, vkdml; print(sorted(dir(vkdml)) == sorted(dir(importlib.reload(vkdml))))"
    assert in_a_new_process(script) == "True\n"


def test_the_public_classes_say_where_they_are_found() -> None:
    """So that pickle and documentation find them, whatever module they are written in."""
    for name in (
        *("DeviceError", "NoDeviceError", "DeviceLostError"),
        *("SoftwareDeviceWarning", "ProfileWarning", "ArgReduceResult"),
    ):
        public = getattr(vkdml, name)
        assert public.__module__ == "vkdml"
        assert getattr(importlib.import_module(public.__module__), name) is public
