"""What a test needs and a machine may lack: it is skipped there, but fails in continuous integration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parent.parent


def missing(what: str) -> NoReturn:
    """Skip the test; fail it under ``VKDML_TEST_ALL=1``, as continuous integration runs the tests."""
    if os.environ.get("VKDML_TEST_ALL") == "1":
        pytest.fail(f"{what}: under VKDML_TEST_ALL=1 no test is skipped for that")
    pytest.skip(what)


def two_drivers() -> dict[str, str]:
    """An environment in which the loader offers lavapipe and SwiftShader, each as a device."""
    swiftshader = ROOT / ".drivers/swiftshader/vk_swiftshader_icd.json"
    lavapipe = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    if not swiftshader.exists() or not lavapipe:
        missing("lavapipe or SwiftShader is not installed")
    files = f"{lavapipe[0]}:{swiftshader}"
    environment = {"VK_DRIVER_FILES": files, "VK_ICD_FILENAMES": files, "VKDML_DEVICE": ""}
    listed = subprocess.run(
        [sys.executable, "-m", "vkdml", "devices", "--json"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    names = [info["driver_name"] for info in json.loads(listed.stdout)["devices"]]
    assert sorted(names) == ["SwiftShader driver", "llvmpipe"]
    return environment
