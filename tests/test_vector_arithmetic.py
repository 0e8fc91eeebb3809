"""Modules that multiply and mask in place of shifts and of divisions by powers of two."""

from __future__ import annotations

import numpy as np
import planned_pipelines
import pytest
import spirv_words
from compiled_modules import compiled, run_module
from spirv_words import check_valid, operations, program_of_words

from vkdml import _native
from vkdml.plan import kernels

UNSIGNED_DIVIDE, UNSIGNED_MODULO = 134, 137
SHIFT_RIGHT, SHIFT_RIGHT_SIGNED, SHIFT_LEFT = 194, 195, 196
# Words whose shifts are hard: signs, ends, all bits, and one bit too many for a float.
WORDS = [
    0, 1, 2, 0x7F, 0x80, 0xFF, 0x1234567, 0xFFFFFF, 0x1000000, 0x1000001, 0x7FFFFFFF, 0x80000000,
    0x80000001, 0x8000007F, 0xFF7FFFFF, 0xFFFFFF80, 0xFFFFFFFF, 0xDEADBEEF, 0x12345678, 0x55555555,
]  # fmt: skip


def arithmetic(module: bytes, constants: list[int]) -> bytes:
    return _native.with_vector_arithmetic(_native.specialized(module, constants))


def computed(tmp_path, body: str, words: list[int], constants: list[int]) -> list[int]:
    """What the rewritten program makes of these words."""
    made = arithmetic(compiled(tmp_path, program_of_words(body)), constants)
    check_valid(tmp_path / "module.spv", made)
    return run_module(made, [], words)


def right_shifts(module: bytes) -> list[int | None]:
    """By how many bits each word or vector is shifted to the right; None: the module does not say."""
    known, found = {}, []
    for operation, operands in spirv_words.instructions(module):
        if operation == spirv_words.CONSTANT:
            known[operands[1]] = operands[2]
        elif operation == spirv_words.COPY_OBJECT and operands[2] in known:
            known[operands[1]] = known[operands[2]]
        elif (
            operation == spirv_words.CONSTANT_COMPOSITE
            and len({known.get(each) for each in operands[2:]}) == 1
        ):
            known[operands[1]] = known.get(operands[2])
        elif operation in (SHIFT_RIGHT, SHIFT_RIGHT_SIGNED):
            found.append(known.get(operands[3]))
    return found


def test_modules_of_plans_keep_only_shifts_that_floats_cannot_do(tmp_path):
    shifts = 0
    for kernel, constants, _ in planned_pipelines.of_each_kernel():
        module = kernels.spirv(kernel)
        made = arithmetic(module, list(constants))
        check_valid(tmp_path / "module.spv", made)
        assert SHIFT_LEFT not in operations(made)
        assert all(bits is None or bits < 7 for bits in right_shifts(made))
        shifts += operations(module).count(SHIFT_LEFT)
    assert shifts > 100


@pytest.mark.parametrize("bits", range(32))
def test_shifts_by_known_numbers(bits, tmp_path):
    words = np.array(WORDS, np.uint32)
    for body, expected in {
        "words[i] = words[i] << N;": words << np.uint32(bits),
        "words[i] = words[i] >> N;": words >> np.uint32(bits),
        "words[i] = uint(int(words[i]) >> N);": (words.view(np.int32) >> bits).view(np.uint32),
        f"words[i] = words[i] / {1 << bits}u;": words >> np.uint32(bits),
        f"words[i] = words[i] % {1 << bits}u;": words & np.uint32((1 << bits) - 1),
    }.items():
        assert computed(tmp_path, body, WORDS, [bits]) == expected.tolist(), body


@pytest.mark.parametrize("bits", [0, 1, 6, 7, 8, 16, 24, 30, 31])
def test_shifts_of_vectors(bits, tmp_path):
    words = np.array(WORDS, np.uint32).reshape(-1, 4)
    body = (
        "if (i % 4u != 0u) return;\nuvec4 v = vectors[i / 4u];\n"
        "uvec2 pair = v.xy << N; ivec3 three = ivec3(v.zwx) >> N;\n"
        f"vectors[i / 4u] = uvec4(pair + v.zw / {1 << bits}u, uvec2(three.xy) ^ v.xy >> N);"
    )
    n, signed = np.uint32(bits), words.view(np.int32) >> bits
    low = (words[:, :2] << n) + (words[:, 2:] >> n)
    expected = np.hstack([low, signed.view(np.uint32)[:, 2:] ^ (words[:, :2] >> n)])
    assert computed(tmp_path, body, WORDS, [bits]) == expected.ravel().tolist()


def test_shifts_to_the_left_by_numbers_that_differ(tmp_path):
    words = np.repeat(np.array(WORDS, np.uint32), 32)
    bits = np.tile(np.arange(32, dtype=np.uint32), len(WORDS))
    ones = np.uint32(1) << bits
    for body, expected in {
        "words[i] = words[i] << i % 32u;": words << bits,
        "words[i] = uint(int(words[i]) << int(i % 32u));": words << bits,
        "words[i] = (1u << i % 32u) - 1u;": ones - 1,
        "words[i] = N << i % 32u;": 0x80000003 * ones,
        "words[i] = (uvec3(words[i]) << uvec3(i % 32u, 31u - i % 32u, N & 31u)).y;": words << (31 - bits),
    }.items():
        assert computed(tmp_path, body, words.tolist(), [0x80000003]) == expected.tolist(), body


def test_divisions_by_other_numbers_stay(tmp_path):
    body = "words[i] = words[i] / 12u + words[i] % N + words[i] / (i + 1u);"
    made = arithmetic(compiled(tmp_path, program_of_words(body)), [7])
    assert operations(made).count(UNSIGNED_DIVIDE) == 2
    assert operations(made).count(UNSIGNED_MODULO) == 1
    words = [word // 12 + word % 7 + word // (i + 1) & 0xFFFFFFFF for i, word in enumerate(WORDS)]
    assert computed(tmp_path, body, WORDS, [7]) == words


def test_floats_of_the_module_are_used_again(tmp_path):
    body = (
        "vec2 floats = vec2(words[i], i);\n"
        "words[i] = floatBitsToUint(floats.x) >> 8 ^ (uvec2(words[i], N) >> 9).x + floatBitsToUint(floats.y);"
    )
    words = np.array(WORDS, np.uint32)
    counts = np.arange(len(WORDS)).astype(np.float32).view(np.uint32)
    expected = words.astype(np.float32).view(np.uint32) >> 8 ^ (words >> 9) + counts
    assert computed(tmp_path, body, WORDS, [5]) == expected.tolist()


LEFT = {
    "a shift by fewer bits than a float leaves out": "words[i] = words[i] >> 6;",
    "a shift to the right by a number that differs": "words[i] = words[i] >> words[i + 1u];",
    "floats": "words[i] = floatBitsToUint(uintBitsToFloat(words[i]) / 2.0);",
    "a division of numbers with a sign": "words[i] = uint(int(words[i]) / 2);",
}  # fmt: skip


@pytest.mark.parametrize("kind", LEFT)
def test_other_modules_stay_as_they_are(kind, tmp_path):
    module = compiled(tmp_path, program_of_words(LEFT[kind]))
    assert _native.with_vector_arithmetic(module) == module


def test_a_specialization_constant_without_a_value_is_not_known(tmp_path):
    module = compiled(
        tmp_path, program_of_words("words[i] = words[i] / N + (words[i] << N) + (words[i] >> N);")
    )
    made = _native.with_vector_arithmetic(module)
    check_valid(tmp_path / "module.spv", made)
    assert SHIFT_LEFT not in operations(made)
    assert {SHIFT_RIGHT, UNSIGNED_DIVIDE} <= set(operations(made))
    assert run_module(made, [8], WORDS) == [
        (word // 8 + (word << 8) + (word >> 8)) & 0xFFFFFFFF for word in WORDS
    ]


@pytest.mark.parametrize("cut", [0, 4, 24, 40, -8, -24, -400])
def test_what_is_no_whole_module_is_refused(cut):
    with pytest.raises(ValueError, match="SPIR-V module"):
        _native.with_vector_arithmetic(kernels.spirv("slice1_runs_4_bytes")[:cut])
