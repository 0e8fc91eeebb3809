"""The Vulkan instance: none is needed to import vkdml, and a missing one is named with its remedy."""

from __future__ import annotations

import textwrap

import processes


def test_import_works_without_vulkan_and_the_first_use_names_the_remedy(tmp_path):
    (tmp_path / "libvulkan.so.1").write_text("no library")
    use = """
        try:
            vkdml.argmax([1, 3, 2])
        except vkdml.NoDeviceError as error:
            print(error)
    """
    done = processes.finished(
        'assert vkdml._native.loader()["path"] is None\n' + textwrap.dedent(use),
        LD_LIBRARY_PATH=str(tmp_path),
    )
    assert "no Vulkan loader" in done.stdout, done.stderr
    assert "apt install" in done.stdout
    missing = str(tmp_path / "missing.json")
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        given = {"VK_DRIVER_FILES": "", "VK_ICD_FILENAMES": "", variable: missing}
        done = processes.finished(use, **given)
        assert "argmax of (3,) int64: the Vulkan loader found no usable driver" in done.stdout, done.stderr
        assert f": {variable} names {missing}, which does not exist: unset this variable" in done.stdout
        assert "apt install" not in done.stdout
