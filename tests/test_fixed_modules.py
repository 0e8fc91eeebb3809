"""Modules of which push constants became specialization constants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spirv_words import PUSH_CONSTANT, TYPE_POINTER, VARIABLE, check_valid, instructions, slots

from vkdml import _native
from vkdml.plan import kernels
from vkdml.plan.device_classes import DISCRETE, SOFTWARE, tuning_for
from vkdml.plan.fixed_parameters import with_fixed_parameters
from vkdml.plan.plans import Plan, Step


@pytest.mark.parametrize("family", kernels.schema().families)
def test_modules_have_a_specialization_constant_for_each_word_of_their_push_constants(family, tmp_path):
    for kernel in kernels.schema().families[family].kernels.values():
        first = len(kernel.family.constants)
        code = kernels.spirv(kernel.name)
        fixed = _native.with_fixed_parameters(code, first)
        for operation, words in instructions(fixed):
            assert operation != TYPE_POINTER or words[1] != PUSH_CONSTANT
            assert operation != VARIABLE or words[2] != PUSH_CONSTANT
        assert slots(code) <= set(range(first))
        assert slots(fixed) - slots(code) == set(range(first, first + kernel.family.push_bytes // 4))
        check_valid(tmp_path / f"{kernel.name}.spv", fixed)


@pytest.mark.parametrize("cut", [4, 24, 40])
def test_what_is_no_whole_module_is_refused(cut):
    code = kernels.spirv("slice1_runs_4_bytes")
    with pytest.raises(ValueError, match=r"SPIR-V|push constants"):
        _native.with_fixed_parameters(code[:cut], 3)


def plan_with(*names: str, nbytes: int, copied: int = 0) -> Plan:
    """Return a plan of steps of these kernels: of a copy if ``copied`` bytes are written."""
    steps = tuple(Step(name, (64,), b"\1" * 128, 1) for name in names)
    output = ("output", copied) if copied else ("indices", 16)
    return Plan(steps, (("input", nbytes), output), ())


def fixed_steps(plan: Plan, tuning=DISCRETE) -> list[bool]:
    return [step.fixed_parameters for step in with_fixed_parameters(plan, tuning).steps]


def test_steps_of_small_plans_have_them_and_of_large_plans_those_that_gain():
    limit = DISCRETE.fixed_parameters_to_bytes
    planes = "slice1_planes_4_bytes", "slice1_tiles_4_bytes"
    assert fixed_steps(plan_with(*planes, nbytes=limit, copied=limit)) == [True, True]
    assert fixed_steps(plan_with(*planes, nbytes=limit + 4, copied=limit + 4)) == [False, True]
    large = plan_with(planes[0], nbytes=limit + 4, copied=limit + 4)
    assert with_fixed_parameters(large, DISCRETE) is large
    never = replace(DISCRETE, fixed_parameters_after=0)
    assert fixed_steps(plan_with(*planes, nbytes=16, copied=16), never) == [False, False]


def test_reductions_have_them_up_to_the_size_to_which_their_kernels_gain():
    names = "argreduce_rows_subgroups_float_4_bytes", "argreduce_joined_vectors_float_4_bytes"
    (most,) = (most for name, _, most in DISCRETE.fixed_parameters_kernels if name == "argreduce")
    assert most > DISCRETE.fixed_parameters_to_bytes
    assert fixed_steps(plan_with(*names, nbytes=most)) == [True, True]
    assert fixed_steps(plan_with(*names, nbytes=most + 4)) == [False, True]


def test_words_have_them_only_where_the_input_or_the_output_is_small():
    (most,) = (most for name, _, most in DISCRETE.fixed_parameters_kernels if name == "slice1_words")
    name = "slice1_words_2_bytes"
    assert fixed_steps(plan_with(name, nbytes=most + 4, copied=most + 4)) == [False]
    assert fixed_steps(plan_with(name, nbytes=1 << 30, copied=most)) == [True]
    assert fixed_steps(plan_with(name, nbytes=most, copied=1 << 30)) == [True]


def test_processors_have_them_from_the_size_on_from_which_they_gain():
    names = "slice1_words_4_bytes", "slice1_runs_4_bytes"
    small, large = (1 << 20) - 4, 1 << 20
    assert fixed_steps(plan_with(*names, nbytes=large, copied=small), SOFTWARE) == [False, False]
    assert fixed_steps(plan_with(*names, nbytes=large, copied=large), SOFTWARE) == [False, True]
    swiftshader = tuning_for("software", "SwiftShader driver")
    assert fixed_steps(plan_with(*names, nbytes=large, copied=large), swiftshader) == [False, False]
    (rows,) = (least for name, least, _ in SOFTWARE.fixed_parameters_kernels if "rows_float" in name)
    names = "argreduce_rows_float_4_bytes", "argreduce_combine_integer_4_bytes"
    assert fixed_steps(plan_with(*names, nbytes=rows - 4), SOFTWARE) == [False, False]
    assert fixed_steps(plan_with(*names, nbytes=rows), SOFTWARE) == [True, False]


def test_kernels_with_other_sizes_are_in_the_table():
    for name, least, most in {*DISCRETE.fixed_parameters_kernels, *SOFTWARE.fixed_parameters_kernels}:
        assert any(kernel.startswith(name) for kernel in kernels.table())
        assert least < most
