"""Modules that ask for their loops to be unrolled."""

from __future__ import annotations

import planned_pipelines
import pytest
import spirv_words
from compiled_modules import compiled, run_module
from spirv_words import check_valid, program_of_words

from vkdml import _native
from vkdml.plan import kernels

NONE, UNROLL, DONT_UNROLL = 0, 1, 2


def controls(module: bytes) -> list[int]:
    """What the module says of each of its loops."""
    return [
        operands[2]
        for operation, operands in spirv_words.instructions(module)
        if operation == spirv_words.LOOP_MERGE
    ]


def test_most_loops_of_plans_ask_to_be_unrolled(tmp_path):
    asked, silent = 0, 0
    for kernel, constants, _ in planned_pipelines.of_each_kernel():
        module = _native.specialized(kernels.spirv(kernel), list(constants))
        made = _native.with_unrolled_loops(module)
        check_valid(tmp_path / "module.spv", made)
        for before, after in zip(controls(module), controls(made), strict=True):
            assert after in ({NONE, UNROLL} if before == NONE else {before})
            asked += after != before
            silent += after == NONE
        assert len(made) == len(module)
    assert asked > silent > 0


# What a program makes of the words 10 to 17, with N = 3.
USES = {
    "a known number of times": (
        "for (uint j = 0u; j < N; j++) words[i] += j;",
        [word + 3 for word in range(10, 18)],
    ),
    "backward": (
        "uint sum = 0u; for (uint j = N; j-- > 0u;) sum = 10u * sum + words[j];\n"
        "if (i == 0u) words[7] = sum;",
        [10, 11, 12, 13, 14, 15, 16, 12 * 100 + 11 * 10 + 10],
    ),
    "as often as a word says": (
        "uint count = words[i] % 4u; for (uint j = 0u; j < count; j++) words[i] += 100u * j;",
        [10 + 100, 11 + 300, 12, 13, 14 + 100, 15 + 300, 16, 17],
    ),
    "in each other, and left early": (
        "for (uint j = 0u; j < 2u; j++)\n"
        "for (uint k = 0u; k < N; k++) { if (k == 2u) break; words[i] += k + j; }",
        [word + 4 for word in range(10, 18)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_programs_compute_what_they_did(use, tmp_path):
    body, expected = USES[use]
    module = compiled(tmp_path, program_of_words(body))
    assert NONE in controls(module)
    made = _native.with_unrolled_loops(module)
    check_valid(tmp_path / "module.spv", made)
    assert set(controls(made)) == {UNROLL}
    assert run_module(_native.specialized(made, [3]), [], [*range(10, 18)]) == expected


@pytest.mark.parametrize(("hint", "control"), [("unroll", UNROLL), ("dont_unroll", DONT_UNROLL)])
def test_loops_that_say_what_becomes_of_them_stay_as_they_are(hint, control, tmp_path):
    module = compiled(tmp_path, program_of_words(f"[[{hint}]] for (uint j = 0u; j < N; j++) words[i] += j;"))
    assert controls(module) == [control]
    assert _native.with_unrolled_loops(module) == module


SILENT = {
    "an array of its own": (
        "uint own[4]; for (uint j = 0u; j < N; j++) own[j] = words[j];\nwords[i] = own[i % 3u];"
    ),
    "an array that a function has": "for (uint j = 0u; j < N; j++) words[i] += through_array(j);",
    "a long one": "for (uint j = 0u; j < N; j++) { " + "words[i] = words[i + j] * 5u + 1u; " * 120 + "}",
}


@pytest.mark.parametrize("kind", SILENT)
def test_loops_for_which_swiftshader_takes_all_memory_do_not_ask(kind, tmp_path):
    function = "uint through_array(uint j) { uint own[2] = {j, 1u}; return own[words[0] % 2u]; }\n"
    module = compiled(tmp_path, program_of_words(SILENT[kind], function))
    assert controls(module) == [NONE]
    assert _native.with_unrolled_loops(module) == module


@pytest.mark.parametrize("cut", [0, 4, 24, 40, -8, -24, -400])
def test_what_is_no_whole_module_is_refused(cut):
    with pytest.raises(ValueError, match="SPIR-V module"):
        _native.with_unrolled_loops(kernels.spirv("slice1_runs_4_bytes")[:cut])
