"""Checking and reading SPIR-V modules: the numbers are those of the SPIR-V specification."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

TYPE_INT, TYPE_VECTOR, TYPE_RUNTIME_ARRAY, TYPE_STRUCT, ACCESS_CHAIN = 21, 23, 29, 30, 65
TYPE_POINTER, FUNCTION, VARIABLE, DECORATE = 32, 54, 59, 71
SPEC_CONSTANT_TRUE, SPEC_CONSTANT_FALSE, SPEC_CONSTANT, SPEC_CONSTANT_COMPOSITE = 48, 49, 50, 51
LOOP_MERGE, BRANCH_CONDITIONAL = 246, 250
CONSTANT, CONSTANT_COMPOSITE, COPY_OBJECT = 43, 44, 83
PUSH_CONSTANT, STORAGE_BUFFER, SPEC_ID, BINDING = 9, 12, 1, 33
# The words of one buffer, and its pairs and vectors of words, as a shader declares them.
VIEWS_OF_BUFFER = (
    "layout(std430, binding = 0) buffer Words { uint words[]; };\n"
    "layout(std430, binding = 0) buffer Pairs { uvec2 pairs[]; };\n"
    "layout(std430, binding = 0) buffer Vectors { uvec4 vectors[]; };\n"
)


# An invocation for each word, and a specialization constant.
_HEAD_OF_WORDS = (
    "#version 450\n#extension GL_EXT_control_flow_attributes : require\nlayout(local_size_x = 4) in;\n"
    f"layout(constant_id = 0) const uint N = 3u;\n{VIEWS_OF_BUFFER}"
)


def program_of_words(body: str, functions: str = "") -> str:
    """A shader of which each invocation runs ``body`` for word ``i``; ``N`` is a specialization constant."""
    return f"{_HEAD_OF_WORDS}{functions}void main() {{\nuint i = gl_GlobalInvocationID.x;\n{body}\n}}\n"


def tool(name: str, package: str) -> str:
    """The path of a program that a package of the system has."""
    found = shutil.which(name)
    assert found, f"{name} is missing; system-packages.txt lists {package}"
    return found


def check_valid(path: Path, module: bytes) -> None:
    """Write the module there, and check that it is valid for Vulkan 1.1."""
    path.write_bytes(module)
    subprocess.run([tool("spirv-val", "spirv-tools"), "--target-env", "vulkan1.1", path], check=True)


def instructions(module: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The operation and the operands of each instruction."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    at = 5
    while at < len(words):
        yield words[at] & 0xFFFF, words[at + 1 : at + (words[at] >> 16)]
        at += words[at] >> 16


def operations(module: bytes) -> list[int]:
    """The operations of all instructions."""
    return [operation for operation, _ in instructions(module)]


def slots(module: bytes) -> set[int]:
    """Of the module's specialization constants."""
    return {
        words[2] for operation, words in instructions(module) if operation == DECORATE and words[1] == SPEC_ID
    }
