"""SPIR-V modules compiled from GLSL, and what they make of a buffer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from native_work import HOST
from spirv_words import tool

import vkdml


def compiled(path: Path, glsl: str) -> bytes:
    """The module of a shader, whose files are left in the folder ``path``."""
    source, module = path / "program.comp", path / "program.spv"
    source.write_text(glsl)
    compiler = tool("glslangValidator", "glslang-tools")
    command = [compiler, "-V", "-g0", "--quiet", "--target-env", "vulkan1.1", source, "-o", module]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return module.read_bytes()


def run_module(module: bytes, constants: list[int], words: list[int]) -> list[int]:
    """Return what a shader makes of a buffer, one workgroup for each four words of it."""
    device = vkdml.default_device().native
    buffer = device.buffer(4 * len(words), HOST)
    content = buffer.view()[: 4 * len(words)].view(np.uint32)
    content[:] = words
    sequence = device.sequence()
    kernel = device.kernel(module, 1, 0, constants)
    sequence.dispatch(kernel, [buffer], b"", (len(words) // 4, 1, 1))
    assert sequence.eval()
    return content.tolist()
