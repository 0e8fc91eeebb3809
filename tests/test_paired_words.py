"""Modules whose vectors of words in buffers became integers of 64 bits."""

from __future__ import annotations

import pytest
import spirv_words
from compiled_modules import compiled, run_module
from spirv_words import VIEWS_OF_BUFFER, check_valid

import vkdml
from vkdml import _native
from vkdml.plan import kernels

HEAD = (
    "#version 450\n#extension GL_ARB_gpu_shader_int64 : enable\nlayout(local_size_x = 1) in;\n"
    f"layout(constant_id = 0) const uint W = 5u;\n{VIEWS_OF_BUFFER}"
)


def program(body: str) -> str:
    """Of a workgroup for each vector of the buffer."""
    return f"{HEAD}void main() {{\nuint group = gl_WorkGroupID.x;\n{body}\n}}\n"


def words_of_accesses(module: bytes) -> list[int]:
    """How many words each pointer into a buffer leads to: -2 and -4, if they are integers of 64 bits."""
    words, pointers, found = {}, {}, []
    for operation, operands in spirv_words.instructions(module):
        if operation == spirv_words.TYPE_INT:
            words[operands[0]] = 1 if operands[1] == 32 else -2
        elif operation == spirv_words.TYPE_VECTOR:
            words[operands[0]] = words.get(operands[1], 0) * operands[2]
        elif operation == spirv_words.TYPE_POINTER and operands[1] == spirv_words.STORAGE_BUFFER:
            pointers[operands[0]] = words.get(operands[2], 0)
        elif operation == spirv_words.ACCESS_CHAIN and operands[0] in pointers:
            found.append(pointers[operands[0]])
    return found


@pytest.mark.parametrize("family", sorted({kernel.family.name for kernel in kernels.table().values()}))
def test_all_vectors_of_kernels_are_paired_and_their_modules_stay_valid(family, tmp_path):
    for name, kernel in kernels.table().items():
        if kernel.family.name != family:
            continue
        module = kernels.spirv(name)
        made = _native.with_paired_words(module)
        check_valid(tmp_path / "module.spv", made)
        before, after = words_of_accesses(module), words_of_accesses(made)
        assert len(before) == len(after) > 0
        assert not {2, 4} & set(after)
        assert (made == module) == (not {2, 4} & set(before))


# What a program does with vectors, and the words that it makes of 10 to 17.
USES = {
    "vectors": ("vectors[group] = vectors[group] + W;", [15, 16, 17, 18, 19, 20, 21, 22]),
    "their parts": (
        "uvec4 v = vectors[group]; vectors[group] = uvec4(v.wz, v.x + v.y, W);",
        [13, 12, 21, 5, 17, 16, 29, 5],
    ),
    "pairs": ("pairs[2u * group] = pairs[2u * group + 1u].yx;", [13, 12, 12, 13, 17, 16, 16, 17]),
    "pairs of a vector": (
        "uvec4 v = vectors[group]; pairs[2u * group + 1u] = v.xy + pairs[2u * group];",
        [10, 11, 20, 22, 14, 15, 28, 30],
    ),
    "a word that is loaded": (
        "uvec4 v = vectors[group]; words[4u * group] = vectors[group].z + v.x; words[4u * group + 1u] = v.w;",
        [22, 13, 12, 13, 30, 17, 16, 17],
    ),
    "a word whose number varies": (
        "uvec4 v = vectors[group]; words[4u * group] = vectors[group][v.y % 4u] + pairs[2u * group][group];",
        [23, 11, 12, 13, 32, 15, 16, 17],
    ),
    "all of them twice": (
        "for (uint i = 0u; i < 2u; i++) if (W != 4u) vectors[group] += vectors[group].wwww;",
        [49, 50, 51, 52, 65, 66, 67, 68],
    ),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_programs_compute_what_they_did(use, tmp_path):
    body, expected = USES[use]
    module = compiled(tmp_path, program(body))
    made = _native.with_paired_words(module)
    check_valid(tmp_path / "module.spv", made)
    assert {-2, -4} & set(words_of_accesses(made))
    assert not {2, 4} & set(words_of_accesses(made))
    assert run_module(module, [], [*range(10, 18)]) == expected


LEFT = {
    "a word that is stored": program("vectors[group].y = W;"),
    "a word that is stored beside whole vectors": program("vectors[group] += 1u; vectors[group].y = W;"),
    "a word that is counted": program("vectors[group][1] = W; atomicAdd(words[group], vectors[group].x);"),
    "a word that is counted beside whole vectors": program(
        "pairs[group + 2u] = pairs[group]; atomicAdd(pairs[group].x, 1u);"
    ),
    "words of vectors alone": program("words[group] = vectors[group].x + pairs[group].y;"),
    "words alone": program("words[group] = words[group + 4u];"),
    "three words": (
        HEAD + "layout(std430, binding = 0) buffer Three { uvec3 three[]; };\n"
        "void main() { three[0] = three[1].zyx; }\n"
    ),
    "several members": (
        HEAD + "layout(std430, binding = 0) buffer Two { uvec4 first; uvec4 more[]; };\n"
        "void main() { more[0] = first; }\n"
    ),
    "numbers with a sign": (
        HEAD + "layout(std430, binding = 0) buffer Signed { ivec4 signed_words[]; };\n"
        "void main() { signed_words[0] = signed_words[1]; }\n"
    ),
    "integers of 64 bits": (
        HEAD + "layout(std430, binding = 0) buffer Wide { uint64_t wide[]; };\n"
        "void main() { wide[0] = wide[1]; vectors[1] = vectors[2]; }\n"
    ),
}


@pytest.mark.parametrize("kind", LEFT)
def test_other_arrays_stay_as_they_are(kind, tmp_path):
    module = compiled(tmp_path, LEFT[kind])
    assert _native.with_paired_words(module) == module


def test_one_array_may_be_paired_beside_one_that_is_not(tmp_path):
    body = "vectors[group] += 1u; vectors[group].y = W; pairs[2u * group + 1u] = pairs[2u * group];"
    module = compiled(tmp_path, program(body))
    made = _native.with_paired_words(module)
    check_valid(tmp_path / "module.spv", made)
    assert sorted(words_of_accesses(made)) == [-2, -2, 1, 4, 4]
    assert run_module(module, [], [*range(10, 18)]) == [11, 5, 11, 5, 15, 5, 15, 5]


@pytest.mark.parametrize("cut", [0, 4, 24, 40, -8, -24, -400])
def test_what_is_no_whole_module_is_refused(cut):
    with pytest.raises(ValueError, match="SPIR-V module"):
        _native.with_paired_words(kernels.spirv("slice1_runs_4_bytes")[:cut])


def test_lavapipe_can_do_it():
    info = vkdml.default_device().info
    if info.type != "software":
        pytest.skip("GPUs get modules as they are")
    assert info.features["shader_int64"] == ("llvmpipe" in info.name)
