"""SPIR-V that is damaged, or asks for what a kernel is not given, is refused with what is wrong."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkdml
from vkdml.plan import kernels
from vkdml.plan.plans import PUSH_BYTES

# The smallest kernel of each family.
SMALLEST = [
    min((kernel.name for kernel in family.kernels.values()), key=lambda name: len(kernels.spirv(name)))
    for family in kernels.schema().families.values()
]
WHOLE = min((kernels.spirv(name) for name in kernels.table()), key=len)


@pytest.mark.parametrize("name", SMALLEST)
def test_spirv_cut_off_at_any_word_is_refused(name: str, device: vkdml.Device) -> None:
    code = kernels.spirv(name)
    bindings = len(kernels.table()[name].bindings)
    for length in (*range(0, 400, 4), *range(400, len(code), 52), len(code) - 4):
        with pytest.raises(ValueError, match="SPIR-V"):
            device.native.kernel(code[:length], bindings, PUSH_BYTES)
    with pytest.raises(ValueError, match="words of 4 bytes"):
        device.native.kernel(code[:-1], bindings, PUSH_BYTES)
    assert device.native.kernel(code, bindings, PUSH_BYTES).bindings == bindings


def test_what_is_no_spirv_is_refused(device: vkdml.Device) -> None:
    for code in (b"", b"\0" * 64, b"not SPIR-V at all, but of whole words.."):
        with pytest.raises(ValueError, match="SPIR-V"):
            device.native.kernel(code, 1, 0)


def changed(code: bytes, word: int, value: int) -> bytes:
    words = np.frombuffer(code, np.uint32).copy()
    words[word] = value
    return words.tobytes()


def test_damaged_spirv_is_refused_with_what_is_wrong(device: vkdml.Device) -> None:
    code = WHOLE
    words = np.frombuffer(code, np.uint32)
    entry = next(at for at, word in enumerate(words) if word & 0xFFFF == 15)
    faults = {
        changed(code, 0, 0x03022307): "this is not SPIR-V",
        changed(code, 1, 0x00010600): r"its version is 1\.6; accepted are 1\.0 to 1\.3",
        changed(code, 3, 0): "its ids are below 0",
        changed(code, 3, 0xFFFFFFFF): "its ids are below 4294967295",
        changed(code, 3, 20): "below the bound in its header",
        changed(code, 4, 9): "its schema is 9",
        changed(code, 5, 17): "has 0 words",
        changed(code, 6, 23): r"it needs capability 23.* accepted are Shader \(1\)",
        changed(code, entry + 1, 0): r"no entry point 'main' of a compute shader .* has main \(model 0\)",
        changed(code, entry + 3, 0x6E69616E): r"has nain \(model 5\)",
        code + bytes(4): "has 0 words of the 1 that are left",
        code + np.uint32([0x00010000]).tobytes(): r"its last instruction is 0, not OpFunctionEnd",
    }
    for damaged, fault in faults.items():
        with pytest.raises(ValueError, match=fault):
            device.native.kernel(damaged, 4, PUSH_BYTES)


@settings(max_examples=400)
@given(st.data())
def test_an_id_out_of_place_is_refused(device: vkdml.Device, data: st.DataObject) -> None:
    """Wherever a result is named, another result's name is one too many, and one name is missing."""
    code = WHOLE
    words = np.frombuffer(code, np.uint32)
    places = []
    at = 5
    while at < words.size:
        if words[at] & 0xFFFF in (61, 65, 128, 248):  # OpLoad, OpAccessChain, OpIAdd, OpLabel
            places.append(at + (1 if words[at] & 0xFFFF == 248 else 2))
        at += int(words[at] >> 16)
    place = data.draw(st.sampled_from(places))
    value = data.draw(
        st.sampled_from([0, int(words[3]), 2**32 - 1, *(int(words[p]) for p in places if p != place)])
    )
    with pytest.raises(ValueError, match="this SPIR-V cannot be a kernel"):
        device.native.kernel(changed(code, place, value), 4, PUSH_BYTES)


BUFFERS = "".join(f"layout(binding = {i}) buffer B{i} {{ uint b{i}[]; }};\n" for i in range(5))
MAIN = "layout(local_size_x = 8) in;\nvoid main() { b0[gl_GlobalInvocationID.x] = 1u; }\n"
ONE = "layout(binding = 0) buffer B { uint b0[]; };\n"
FOREIGN = {
    "vertex shader": ("vert", "void main() { gl_Position = vec4(0); }", "no entry point 'main'"),
    "too many bindings": ("comp", BUFFERS + MAIN, r"it uses binding \d; given are 2, counted from 0"),
    "another set": ("comp", ONE.replace("binding", "set = 1, binding") + MAIN, "set 1; accepted is set 0"),
    "an image": (
        "comp",
        ONE + "layout(binding = 1, r32ui) uniform uimage2D i;\n"
        "layout(local_size_x = 8) in;\nvoid main() { b0[0] = imageLoad(i, ivec2(0)).x; }",
        "storage class 0 .* accepted are storage buffers",
    ),
    "a uniform buffer": (
        "comp",
        ONE + "layout(binding = 1) uniform U { uint u; };\n"
        "layout(local_size_x = 8) in;\nvoid main() { b0[0] = u; }",
        "is a uniform buffer; accepted are storage buffers",
    ),
    "an array of buffers": (
        "comp",
        "layout(binding = 0) buffer B { uint b0[]; } all_of_them[2];\n"
        "layout(local_size_x = 8) in;\nvoid main() { all_of_them[1].b0[0] = 1u; }",
        "is no single storage buffer",
    ),
    "more push constants": (
        "comp",
        ONE + "layout(push_constant) uniform P { uint p[4]; uint q; };\n"
        "layout(local_size_x = 8) in;\nvoid main() { b0[0] = q; }",
        "reads push constants from byte 16 on; given are 8 bytes",
    ),
    "64-bit integers": (
        "comp",
        "#extension GL_ARB_gpu_shader_int64 : require\n" + ONE + "layout(local_size_x = 8) in;\n"
        "void main() { b0[0] = uint(uint64_t(b0[1]) * b0[2] >> 32); }",
        "it needs capability 11",
    ),
    "great workgroups": (
        "comp",
        ONE + MAIN.replace("local_size_x = 8", "local_size_x = 1024, local_size_y = 1024"),
        "its workgroups are of 1024 x 1024 x 1 invocations; accepted are 1 to",
    ),
}  # fmt: skip


def compiled(folder: Any, stage: str, source: str) -> bytes:
    (folder / f"shader.{stage}").write_text("#version 450\n" + source)
    subprocess.run(
        [
            "glslangValidator",
            "-V",
            "--target-env",
            "vulkan1.1",
            "-o",
            folder / "shader.spv",
            folder / f"shader.{stage}",
        ],
        check=True,
        capture_output=True,
    )
    return (folder / "shader.spv").read_bytes()


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_spirv_is_refused_with_what_is_wrong(name: str, tmp_path: Any, device: vkdml.Device) -> None:
    stage, source, fault = FOREIGN[name]
    code = compiled(tmp_path, stage, source)
    with pytest.raises(ValueError, match=fault):
        device.native.kernel(code, 2, 8)


@pytest.mark.parametrize("name", SMALLEST)
def test_constants_that_make_a_workgroup_too_great_are_refused(name: str, device: vkdml.Device) -> None:
    code, bindings = kernels.spirv(name), len(kernels.table()[name].bindings)
    most = device.limits.max_workgroup_invocations
    for size in (0, most + 1, 2**32 - 1):
        with pytest.raises(
            ValueError, match=f"workgroups are of {size} x 1 x 1 .* accepted are 1 to {most} on"
        ):
            device.native.kernel(code, bindings, PUSH_BYTES, [size])


def test_the_greatest_workgroup_is_accepted(device: vkdml.Device) -> None:
    name = min(SMALLEST, key=lambda name: len(kernels.spirv(name)))
    bindings, most = len(kernels.table()[name].bindings), device.limits.max_workgroup_invocations
    assert device.native.kernel(kernels.spirv(name), bindings, PUSH_BYTES, [most]).bindings == bindings


def test_a_plain_foreign_kernel_is_accepted(tmp_path: Any, device: vkdml.Device) -> None:
    assert device.native.kernel(compiled(tmp_path, "comp", BUFFERS + MAIN), 5, 0).bindings == 5
