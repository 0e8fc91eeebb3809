"""Every kernel passes AMD's compiler without spilling, and `docs/other-gpus.md` says what was recorded.

`./run compile-amd` compiles for all families, with all specialization constants that plans use.
"""

from __future__ import annotations

import compile_amd
import pytest
from needs import missing

from vkdml.common.rounding import round_up
from vkdml.plan import kernels
from vkdml.plan.plans import SHARED_BYTES_OF_INVOCATION
from vkdml.plan.slice import pixel_tile_copies
from vkdml.plan.slice.tile_shapes import shared_bytes

FAMILY = next(family for family in compile_amd.FAMILIES if family.name == "navi21")
RECORDED = compile_amd.recorded()
# What every device has.
LEAST_SHARED_BYTES = 16 << 10
# AMD's compiler allocates shared memory in multiples of 512 or 1024 bytes.
ALLOCATED_BYTES = 1024


def test_kernels_of_every_kind_are_compiled_for_a_gpu_that_is_not_here():
    driver = compile_amd.driver_of(FAMILY)
    if driver is None:
        missing("Mesa's driver RADV is not installed (Debian: mesa-vulkan-drivers)")
    record = compile_amd.compiled_apart(FAMILY, driver, quick=True, one_width=True)
    assert compile_amd.faults(record) == []
    entries = record["pipelines"]
    compiled = [entry["kernel"] for entry in entries]
    assert sorted(compiled) == sorted(compile_amd.of_one_width(kernels.table()))
    assert len(compiled) > len(kernels.table()) // 3
    assert record["limits"]["subgroup_size"] == 64
    for entry in entries:
        assert entry["subgroup_size"] == 64
        assert 0 < entry["vgprs"] <= 256
        assert (
            0 < entry["subgroups_in_whole_workgroups"] <= entry["subgroups_per_simd"] <= FAMILY.subgroup_slots
        )
        assert entry["required_subgroup_size"] == (64 if "subgroups" in entry["kernel"] else 0)


def entry(**changes):
    named = {"kernel": "k", "constants": {}, "spilled_vgprs": 0, "spilled_sgprs": 0, "scratch_bytes": 0}
    return {**named, **changes}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"spilled_vgprs": 3}, "navi21: k with {} spills: {'spilled_vgprs': 3}"),
        ({"spilled_sgprs": 1}, "navi21: k with {} spills: {'spilled_sgprs': 1}"),
        ({"scratch_bytes": 64}, "navi21: k with {} spills: {'scratch_bytes': 64}"),
        ({"fault": "VkResult -3"}, "navi21: k with {} was refused: VkResult -3"),
    ],
)
def test_what_spills_or_is_refused_fails_the_command(changes, fault, monkeypatch, capsys):
    record = {
        "family": "navi21",
        "driver": "a driver",
        "pipelines": [entry(), entry(**changes)],
    }
    monkeypatch.setattr(compile_amd, "driver_of", lambda family: compile_amd.ROOT)
    monkeypatch.setattr(compile_amd, "compiled_apart", lambda *_, **__: record)
    assert compile_amd.run([FAMILY], quick=True, record=False) == 1
    assert fault in capsys.readouterr().out.splitlines()
    record["pipelines"].pop()
    assert compile_amd.run([FAMILY], quick=True, record=False) == 0


def test_a_family_without_a_driver_is_said_to_be_left_out(monkeypatch, capsys):
    monkeypatch.setattr(compile_amd, "driver_of", lambda family: None)
    assert compile_amd.run([FAMILY], quick=True, record=False) == 1
    assert "navi21: skipped; no RADV that knows it is here" in capsys.readouterr().out


def test_a_driver_that_refuses_a_module_is_named():
    driver = compile_amd.driver_of(FAMILY)
    if driver is None:
        missing("Mesa's driver RADV is not installed (Debian: mesa-vulkan-drivers)")
    unknown = compile_amd.dataclasses.replace(FAMILY, name="navi99")
    with pytest.raises(RuntimeError, match=r"navi99: exit code \d+, error output"):
        compile_amd.compiled_apart(unknown, driver, quick=True)


# ---- what the repository holds -----------------------------------------------------------------------------


def test_the_tables_are_those_of_the_recorded_results():
    page = compile_amd.PAGE.read_text()
    assert compile_amd.rewritten(page, compile_amd.section(RECORDED)) == page


@pytest.mark.parametrize("family", compile_amd.FAMILIES, ids=lambda family: family.name)
def test_the_recorded_results_have_every_kernel_and_no_fault(family):
    record = RECORDED[family.name]
    assert {entry["kernel"] for entry in record["pipelines"]} == set(kernels.table())
    assert compile_amd.faults(record) == []


@pytest.mark.parametrize("family", compile_amd.FAMILIES, ids=lambda family: family.name)
def test_kernels_take_no_more_shared_memory_than_planning_allows_for(family):
    """Planning counts on SHARED_BYTES_OF_INVOCATION for each invocation; others have sizes of their own."""
    for entry in RECORDED[family.name]["pipelines"]:
        kernel, constants = kernels.table()[entry["kernel"]], entry["constants"]
        if kernel.family.name == "slice1_tiles":
            width = kernel.family.axes["element_bytes"][kernel.variant["element_bytes"]]
            # The compiler allocates in steps.
            most = round_up(shared_bytes(constants["down"], constants["across"], width), ALLOCATED_BYTES)
        elif kernel.family.name == "slice1_pixel_tiles":
            nbytes = pixel_tile_copies.shared_bytes(
                constants["down"], constants["across"], constants["rows_at_once"]
            )
            most = round_up(nbytes, ALLOCATED_BYTES)
        elif kernel.family.name == "argreduce_across":
            most = round_up(4 * constants["found_words"], ALLOCATED_BYTES)
        elif kernel.family.name in ("slice1_boxes", "slice1_pixels", "slice1_planes", "argreduce_short"):
            most = LEAST_SHARED_BYTES
        else:
            most = SHARED_BYTES_OF_INVOCATION * constants["workgroup"]
        # It adds what it needs itself.
        assert entry["lds_bytes"] <= max(most, 512), entry
