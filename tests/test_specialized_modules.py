"""Modules whose specialization constants have their values."""

from __future__ import annotations

import random

import hypothesis
import planned_pipelines
import pytest
import spirv_words
from compiled_modules import compiled, run_module
from hypothesis import strategies as st
from random_programs import BOOLS, INVOCATIONS, WORDS, random_program
from spirv_words import check_valid, operations
from thinned import examples

from vkdml import _native
from vkdml.plan import kernels

SPECIALIZATION = {
    spirv_words.SPEC_CONSTANT_TRUE, spirv_words.SPEC_CONSTANT_FALSE,
    spirv_words.SPEC_CONSTANT, spirv_words.SPEC_CONSTANT_COMPOSITE,
}  # fmt: skip


@pytest.mark.parametrize("fixed", [False, True])
def test_the_modules_of_plans_are_valid_and_smaller(fixed, tmp_path):
    pipelines = planned_pipelines.of_each_kernel()
    assert len(pipelines) > 100
    for kernel, constants, _ in pipelines:
        module = kernels.spirv(kernel)
        values = list(constants)
        if fixed:
            module = _native.with_fixed_parameters(module, len(constants))
            values += range(1, 1 + kernels.table()[kernel].family.push_bytes // 4)
        made = _native.specialized(module, values)
        check_valid(tmp_path / "module.spv", made)
        assert not SPECIALIZATION & set(operations(made))
        assert not spirv_words.slots(made)
        assert len(made) < len(module)


@examples(40)
@hypothesis.given(st.integers(0, 2**32 - 1))
def test_random_programs_compute_what_they_do_in_python(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("program")
    program, draw = random_program(seed), random.Random(seed)
    module = compiled(path, program.glsl)
    words = [draw.choice([0, 1, 2, 7, draw.getrandbits(32)]) for _ in range(4 * INVOCATIONS)]
    constants = [draw.choice([0, 1, 2, 3, 4, 9]) for _ in range(WORDS)]
    constants += [draw.randrange(2) for _ in range(BOOLS)]
    specialized = _native.specialized(module, constants)
    check_valid(path / "specialized.spv", specialized)
    without_shifts = _native.with_vector_arithmetic(specialized)
    check_valid(path / "without_shifts.spv", without_shifts)
    expected = program.expected(words, constants)
    assert run_module(module, constants, words) == expected
    assert run_module(without_shifts, [], words) == expected


def program_of(body: str, functions: str = "") -> str:
    return (
        "#version 450\nlayout(local_size_x = 1) in;\nlayout(constant_id = 0) const uint W = 5u;\n"
        "layout(constant_id = 1) const bool B = false;\n"
        "layout(std430, binding = 0) buffer Buffer { uint words[]; };\n"
        f"{functions}\nvoid main() {{\n{body}\n}}\n"
    )


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        ("if (B) words[0] = 1u; else words[0] = 2u;", ""),
        ("if (B || W == 3u) words[0] = 1u;", ""),
        ("if (words[1] == 1u && !B) words[0] = 1u; words[2] = 1u;", ""),
        ("words[0] = !B || words[1] == 1u ? 1u : 2u;", ""),
        ("if (words[1] == 1u || !B) words[0] = 1u; words[2] = 1u;", ""),
        ("uint kind = B ? 7u : 9u; if (kind == 7u) words[0] = 1u;", ""),
        ("if (is_odd(W)) words[0] = 1u;", "bool is_odd(uint word) { return word % 2u == 1u; }"),
        (
            "uint kind; choose(kind); if (kind == 2u) words[0] = 1u;",
            "void choose(out uint kind) { kind = B ? 2u : 3u; }",
        ),
        (
            "kind = W; choose(); if (kind == 3u) words[0] = 1u;",
            "uint kind;\nvoid choose() { if (W != 3u) kind = W; }",
        ),
        ("if (min(W, 3u) == max(3u, W)) words[0] = 1u;", ""),
    ],
)
def test_what_constants_decide_is_no_branch(body, functions, tmp_path):
    module = compiled(tmp_path, program_of(body, functions))
    assert spirv_words.BRANCH_CONDITIONAL in operations(module)
    for constants in ([3, 0], [3, 1], [4, 0], [4, 1]):
        made = _native.specialized(module, constants)
        check_valid(tmp_path / "module.spv", made)
        if "words[1]" not in body or constants[1] == ("&&" in body):
            assert spirv_words.BRANCH_CONDITIONAL not in operations(made), constants


def test_functions_that_are_never_called_are_left_out(tmp_path):
    functions = "void f() { words[0] = 1u; } void g() { words[1] = words[2] / 3u; f(); }"
    module = compiled(tmp_path, program_of("if (B) g();", functions))
    for constants, left in (([5, 0], 1), ([5, 1], 3)):
        made = _native.specialized(module, constants)
        check_valid(tmp_path / "module.spv", made)
        assert operations(made).count(spirv_words.FUNCTION) == left


@pytest.mark.parametrize("cut", [0, 4, 24, 40, -4, -24, -400])
def test_what_is_no_whole_module_is_refused(cut):
    module = kernels.spirv("slice1_runs_4_bytes")[:cut]
    with pytest.raises(ValueError, match="SPIR-V module"):
        _native.specialized(module, [])


def test_constants_that_are_no_words_are_refused(tmp_path):
    glsl = (
        "#version 450\nlayout(constant_id = 0) const double D = 1.0;\nvoid main() { if (D > 2.0) return; }\n"
    )
    with pytest.raises(ValueError, match="a specialization constant of the SPIR-V module is no word"):
        _native.specialized(compiled(tmp_path, glsl), [1])


def test_constants_that_are_not_given_keep_their_values(tmp_path):
    module = compiled(tmp_path, program_of("words[0] = W; words[1] = B ? 1u : 2u;"))
    assert run_module(module, [], [0] * 4) == [5, 2, 0, 0]
    assert run_module(module, [7], [0] * 4) == [7, 2, 0, 0]
    assert run_module(module, [7, 1, 9], [0] * 4) == [7, 1, 0, 0]


def test_where_the_module_does_not_define_a_condition_both_ways_stay(tmp_path):
    body = "uint kind; if (kind == W) words[0] = words[0] + 1u; words[1] = 3u;"
    module = compiled(tmp_path, program_of(body))
    made = _native.specialized(module, [5, 0])
    check_valid(tmp_path / "module.spv", made)
    assert spirv_words.BRANCH_CONDITIONAL in operations(made)
    assert run_module(module, [5, 0], [7, 0, 0, 0])[1] == 3
