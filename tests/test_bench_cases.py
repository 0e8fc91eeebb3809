"""The benchmark's cases cover every kernel and fit a device. No device is used."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vkdml.bench import cases, suites
from vkdml.bench.cases import GIB, MIB, Case
from vkdml.plan import kernels
from vkdml.plan.device_classes import TUNING
from vkdml.plan.plans import DeviceLimits

LIMITS = {
    kind: DeviceLimits(tuning, (1 << 32) - 1, (1 << 31) - 1, 1024, 48 << 10)
    for kind, tuning in TUNING.items()
}
LIMITS["subgroups"] = replace(LIMITS["discrete"], subgroup_size=32)
FULL = suites.suite("full")


@pytest.mark.parametrize("name", suites.SUITES)
def test_no_two_cases_of_a_suite_have_one_name(name):
    names = [case.name for case in suites.suite(name)]
    assert len(names) == len(set(names))
    assert bool(names) == (name != "latency")


def test_every_kernel_of_the_table_is_timed_by_the_full_suite():
    assert suites.untimed_kernels(FULL, LIMITS.values()) == set()


def test_a_kernel_that_no_case_uses_is_named():
    without = [case for case in FULL if case.op != "slice1"]
    untimed = suites.untimed_kernels(without, LIMITS.values())
    assert untimed == {name for name, entry in kernels.table().items() if "output" in entry.bindings}


def test_all_cases_can_be_planned_within_the_buffers_of_a_large_gpu():
    for case in FULL:
        plan = cases.plan_of(case, LIMITS["discrete"])
        assert plan.bytes_of("input") >= case.input_bytes
        outputs = plan.bytes_of("indices") + plan.bytes_of("values") + plan.bytes_of("output")
        assert 0 <= outputs - case.written_bytes(4) < 8


@pytest.mark.parametrize(
    ("row", "elements"),
    [
        ("all axes", 15), ("last axis", 4), ("axis 0", 4), ("short rows", 4), ("short columns", 4),
        ("middle axis", 3), ("axes 0 and 2", 3), ("segmentation", 3), ("150 classes", 4), ("cube", 4),
        ("stack of 8", 4), ("logits", 3), ("small", 15), ("sizes", 1), ("slice1", 5), ("hard data", 2),
        ("options", 3),
    ],
)  # fmt: skip
def test_each_row_of_the_full_suite_has_its_element_types(row, elements):
    assert len({case.element for case in FULL if case.row == row}) == elements


def test_large_cases_have_1_gib_unless_a_model_gives_their_shape():
    shaped_by_models = {"segmentation", "150 classes", "logits", "small", "sizes", "images", "distance table"}
    for case in FULL:
        if case.row == "many results":
            assert 0.99 * GIB < 4 * case.input_bytes <= GIB, case.name
        elif case.row not in shaped_by_models | {cases.EVERY_KERNEL}:
            assert 0.99 * GIB < case.input_bytes <= GIB, case.name


def test_indices_of_cases_with_many_results_have_8_bytes():
    many = [case for case in FULL if case.row == "many results"]
    assert {case.return_values for case in many} == {False, True}
    for case in many:
        assert case.wide_indices
        assert " int64" in case.name
        plan = cases.plan_of(case, LIMITS["discrete"], 4)
        assert plan.bytes_of("indices") == 8 * case.outputs
        values = case.outputs * case.element_bytes if case.return_values else 0
        assert case.written_bytes(4) == 8 * case.outputs + values


@pytest.mark.parametrize("mib", [1, 4, 64])
def test_fitted_cases_fit_and_say_what_they_were(mib):
    for before in FULL:
        after = cases.fitted(before, mib * MIB)
        assert after.input_bytes <= mib * MIB
        if after is before:
            assert before.scaled_from is None
        else:
            assert after.scaled_from == before.shape
            assert len(after.shape) == len(before.shape)
        assert cases.plan_of(after, LIMITS["software"])


def test_fitting_spares_what_is_reduced_and_odd_sizes():
    rows = cases.fitted(Case("", "argmax", "float32", (4096, 65536), (1,)), 4 * MIB)
    assert rows.shape == (16, 65536)
    columns = cases.fitted(Case("", "argmax", "float32", (4096, 65536), (0,)), 4 * MIB)
    assert columns.shape == (4096, 256)
    odd = cases.fitted(Case("", "argmax", "float32", (64, 21, 513, 513), (1,)), 4 * MIB)
    assert odd.shape == (1, 21, 65, 513)


def test_fitted_suites_hold_each_case_once():
    fitted = cases.fitted_suite(FULL, MIB)
    assert len({case.name for case in fitted}) == len(fitted) < len(FULL)


@pytest.mark.parametrize("window", list(cases.WINDOWS))
@pytest.mark.parametrize("shape", [(12, 20), (1, 1), (7, 3)])
def test_windows_are_what_numpy_slices(window, shape):
    shape = (*shape, 3) if window == "turned" else shape
    case = Case("", "slice1", "float32", shape, window=window)
    array = np.arange(math.prod(shape)).reshape(shape)
    expected = {
        "copy": array,
        "flip": array[::-1, ::-1],
        "[::2, ::2]": array[::2, ::2],
        "transposed": array.T,
        "[::-2, ::-2]": array[::-1, ::-1][::2, ::2],
        "[:, ::-1]": array[:, ::-1],
        "transposed [::2]": array.T[::2],
        "[:, ::3]": array[:, ::3],
        "transposed [::3]": array.T[::3],
        "transposed [:3]": array.T[:3],
        "turned": array.swapaxes(0, 1),
    }.get(window)
    sizes, strides, base = cases.copied_view(case)
    got = np.lib.stride_tricks.as_strided(array.reshape(-1)[base:], sizes, [8 * stride for stride in strides])
    if expected is not None:
        assert np.array_equal(got, expected)
    elif shape == (12, 20):
        assert np.array_equal(got, array[1:11, 5:14])
    assert case.outputs == math.prod(sizes)


def test_bytes_of_skipped_elements_count_within_a_sector():
    skipping = Case("", "slice1", "int8", (1024, 1024), window="[::2, ::2]")
    assert (skipping.read_bytes, skipping.written_bytes(4)) == (512 * 1024, 512 * 512)
    wide = replace(skipping, element="complex128")
    assert wide.read_bytes == 512 * 512 * 32


def test_bytes_of_a_reduction_are_its_input_indices_and_values():
    case = Case("", "argmax", "float16", (10, 30), (0,), return_values=True)
    assert (case.read_bytes, case.written_bytes(4), case.written_bytes(8)) == (600, 180, 300)


def test_only_what_other_libraries_have_is_compared():
    case = Case("", "argmin", "float32", (8,))
    assert case.is_compared
    for change in (
        {"data": "constant"}, {"direction": "decreasing"}, {"nan_policy": "omit"}, {"return_values": True}
    ):  # fmt: skip
        assert not replace(case, **change).is_compared
        assert replace(case, **change).name != case.name
