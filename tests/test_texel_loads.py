"""Modules that load their input as texels."""

from __future__ import annotations

import numpy as np
import pytest
import spirv_words
from compiled_modules import compiled
from spirv_words import VIEWS_OF_BUFFER, check_valid

import vkdml
from vkdml import _native
from vkdml.plan import kernels
from vkdml.plan.drivers import gathers_words, is_lavapipe

ALL_WIDTHS = 7
HOST = _native.MemoryKind.host
HEAD = (
    f"#version 450\nlayout(local_size_x = 8) in;\n{VIEWS_OF_BUFFER}"
    "layout(std430, binding = 1) buffer Found { uint found[]; };\n"
)


def program(body: str) -> str:
    """Of eight invocations."""
    return f"{HEAD}void main() {{\nuint i = gl_LocalInvocationID.x;\n{body}\n}}\n"


def loads_of_input(module: bytes) -> set[int]:
    """How many words the elements have that are loaded from the buffer at binding 0."""
    words, arrays, structs, pointers, inputs, found = {}, {}, {}, {}, {}, set()
    bindings = {
        operands[0]: operands[2]
        for operation, operands in spirv_words.instructions(module)
        if operation == spirv_words.DECORATE and operands[1] == spirv_words.BINDING
    }
    for operation, operands in spirv_words.instructions(module):
        if operation == spirv_words.TYPE_INT:
            words[operands[0]] = operands[1] // 32
        elif operation == spirv_words.TYPE_VECTOR:
            words[operands[0]] = words.get(operands[1], 0) * operands[2]
        elif operation == spirv_words.TYPE_RUNTIME_ARRAY:
            arrays[operands[0]] = words.get(operands[1], 0)
        elif operation == spirv_words.TYPE_STRUCT and operands[1] in arrays:
            structs[operands[0]] = arrays[operands[1]]
        elif operation == spirv_words.TYPE_POINTER and operands[1] == spirv_words.STORAGE_BUFFER:
            pointers[operands[0]] = structs.get(operands[2], 0)
        elif operation == spirv_words.VARIABLE and bindings.get(operands[1]) == 0 and operands[0] in pointers:
            inputs[operands[1]] = pointers[operands[0]]
        elif operation == spirv_words.ACCESS_CHAIN and operands[2] in inputs:
            found.add(inputs[operands[2]])
    return found


@pytest.mark.parametrize("family", sorted({kernel.family.name for kernel in kernels.table().values()}))
def test_all_that_kernels_load_of_their_input_becomes_texels(family, tmp_path):
    count = 0
    for name, kernel in kernels.table().items():
        if kernel.family.name != family:
            continue
        module, bindings = kernels.spirv(name), len(kernel.family.bindings)
        made, texel_words = _native.with_texel_loads(module, bindings, ALL_WIDTHS)
        check_valid(tmp_path / "module.spv", made)
        check_valid(tmp_path / "paired.spv", _native.with_paired_words(made))
        assert set(texel_words) == loads_of_input(module) > set()
        assert loads_of_input(made) == set()
        count += 1
    assert count


@pytest.mark.parametrize("widths", range(8))
def test_only_texels_of_the_given_widths_are_loaded(widths, tmp_path):
    module = kernels.spirv("argreduce_short_walked_integer_8_bytes")
    assert loads_of_input(module) == {1, 2, 4}
    made, texel_words = _native.with_texel_loads(module, 4, widths)
    check_valid(tmp_path / "module.spv", made)
    assert texel_words == [words for words in (1, 2, 4) if words & widths]
    assert loads_of_input(made) == {1, 2, 4} - set(texel_words)
    assert (made == module) == (widths == 0)


# What a program finds in the words 0 to 31, and the words that its texels have.
USES = {
    "words": ("found[i] = words[i + 3u];", [1], np.arange(8) + 3),
    "vectors": (
        "uvec4 v = vectors[i]; found[i] = v.x + 100u * v.w;",
        [4],
        4 * np.arange(8) + 100 * (4 * np.arange(8) + 3),
    ),
    "pairs": (
        "uvec2 p = pairs[i]; found[i] = p.x + 100u * p.y;",
        [2],
        2 * np.arange(8) + 100 * (2 * np.arange(8) + 1),
    ),
    "words of pairs": (
        "found[i] = pairs[i].y * pairs[i + 1u].x;",
        [2],
        (2 * np.arange(8) + 1) * (2 * np.arange(8) + 2),
    ),
    "a word of a vector": ("found[i] = vectors[i].z;", [4], 4 * np.arange(8) + 2),
    "a word of a pair whose number varies": (
        "found[i] = pairs[i][i % 2u];",
        [2],
        2 * np.arange(8) + np.arange(8) % 2,
    ),
    "a word of a vector whose number varies": (
        "found[i] = vectors[i][words[i] % 4u];",
        [1, 4],
        4 * np.arange(8) + np.arange(8) % 4,
    ),
    "what some invocations load": (
        "if (i % 3u == 1u) found[i] = words[2u * i]; else found[i] = pairs[i].x + vectors[0].w;",
        [1, 2, 4],
        np.where(np.arange(8) % 3 == 1, 2 * np.arange(8), 2 * np.arange(8) + 3),
    ),
    "what a loop loads": (
        "uint sum = 0u; for (uint j = 0u; j < i; j++) sum += vectors[j].y; found[i] = sum;",
        [4],
        [sum(4 * other + 1 for other in range(each)) for each in range(8)],
    ),
    "nothing beyond the buffer": (
        "found[i] = words.length() > 32u ? words[words.length() + i] + 7u : 0u;",
        [1],
        np.full(8, 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_programs_compute_what_they_did(use, tmp_path):
    body, widths, expected = USES[use]
    module = compiled(tmp_path, program(body))
    made, texel_words = _native.with_texel_loads(module, 2, ALL_WIDTHS)
    check_valid(tmp_path / "module.spv", made)
    assert texel_words == widths
    device = vkdml.default_device().native
    before, after = device.buffer(4096, HOST), device.buffer(4096, HOST)
    before.view()[:128].view(np.uint32)[:] = np.arange(32)
    sequence = device.sequence()
    sequence.dispatch(device.kernel(module, 2, 0, []), [before, after], b"", (1, 1, 1))
    assert sequence.eval()
    np.testing.assert_array_equal(after.view()[:32].view(np.uint32), expected)


LEFT = {
    "an input that is written": program("words[i] = words[i + 8u];"),
    "an input of which another view is written": program("found[i] = vectors[i].x; words[i] = 0u;"),
    "an input that is counted": program("found[i] = vectors[i].x; atomicAdd(words[i], 1u);"),
    "no input": program("found[i] = i;"),
    "three words": (
        f"{HEAD}layout(std430, binding = 0) buffer Three {{ uvec3 three[]; }};\n"
        "void main() { found[0] = three[1].z; }\n"
    ),
    "several members": (
        f"{HEAD}layout(std430, binding = 0) buffer Two {{ uvec4 first; uvec4 more[]; }};\n"
        "void main() { found[0] = first.x + more[0].x; }\n"
    ),
    "numbers with a sign": (
        f"{HEAD}layout(std430, binding = 0) buffer Signed {{ ivec4 signed_words[]; }};\n"
        "void main() { found[0] = uint(signed_words[1].x); }\n"
    ),
}


@pytest.mark.parametrize("kind", LEFT)
def test_other_modules_stay_as_they_are(kind, tmp_path):
    module = compiled(tmp_path, LEFT[kind])
    assert _native.with_texel_loads(module, 2, ALL_WIDTHS) == (module, [])


def test_modules_of_a_newer_version_stay_as_they_are():
    module = bytearray(kernels.spirv("slice1_runs_4_bytes"))
    assert _native.with_texel_loads(bytes(module), 3, ALL_WIDTHS)[1]
    module[5] = 4  # SPIR-V 1.4 lists all variables with the entry point
    assert _native.with_texel_loads(bytes(module), 3, ALL_WIDTHS) == (bytes(module), [])


@pytest.mark.parametrize("cut", [0, 4, 24, 40, -8, -24, -400])
def test_what_is_no_whole_module_is_refused(cut):
    with pytest.raises(ValueError, match="SPIR-V module"):
        _native.with_texel_loads(kernels.spirv("slice1_runs_4_bytes")[:cut], 3, ALL_WIDTHS)


def test_lavapipe_loads_what_takes_less_time_as_texels(tmp_path):
    device = vkdml.default_device()
    body, all_widths, _ = USES["what some invocations load"]
    kernel = device.native.kernel(compiled(tmp_path, program(body)), 2, 0, [])
    if not is_lavapipe(device.info.driver_name):
        assert kernel.texel_words == []
    else:
        assert kernel.texel_words == ([4] if gathers_words(device.info.driver_info) else all_widths)


def test_the_end_of_a_buffer_may_be_less_than_a_vector(tmp_path):
    device = vkdml.default_device()
    limit = device.limits.max_storage_buffer_range
    if not is_lavapipe(device.info.driver_name) or limit > 1 << 28:
        pytest.skip("no texels, or a buffer that is too large to make")
    before, after = device.native.buffer(limit - 8, HOST), device.native.buffer(4096, HOST)
    before.view()[-8:].view(np.uint32)[:] = 5, 7
    body = "if (i < 2u) found[i] = words[i]; else found[i] = i < 3u ? vectors[0].x & 0u : pairs[0].y;"
    kernel = device.native.kernel(compiled(tmp_path, program(body)), 2, 0, [])
    sequence = device.native.sequence()
    sequence.dispatch(kernel, [before, after], b"", (1, 1, 1), offsets=[limit - 16, 0])
    assert sequence.eval()
    np.testing.assert_array_equal(after.view()[:32].view(np.uint32), [5, 7, 0, 7, 7, 7, 7, 7])


def test_an_array_begins_anywhere_in_its_buffer():
    x = np.random.default_rng(5).integers(0, 2**32, 5000, dtype=np.uint32)
    array = vkdml.asarray(x)
    for begin in (0, 1, 3, 4, 16, 1021, 4999):
        assert int(array[begin:].argmax()) == x[begin:].argmax()
        np.testing.assert_array_equal(array[begin::-1].numpy(), x[begin::-1])
