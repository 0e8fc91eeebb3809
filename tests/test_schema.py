"""The schema of kernels: what it refuses, and that the modules and the host agree on what it says."""

from __future__ import annotations

import copy
import json
import struct
from importlib import resources

import numpy as np
import pytest

from vkdml.plan import kernels, schema

ROWS = kernels.family("argreduce_rows")
RUNS = kernels.family("slice1_runs")
RUNS_FIELDS = {
    "vectors": 7, "outer_dims": 1, "dims": 2, "input_base": -3, "output_base": 4, "run": 5,
    "vectors_per_run": 6, "vectors_per_run_inverse": 8, "vectors_per_workgroup": 64, "last_vector": 9,
    "boundary_step": 5, "shares_in_turn": 6,
}  # fmt: skip
CHOICE = {
    "whole_vectors": 1, "step": 0, "element_bytes": 4, "workgroup": 64, "layout_in_push": 1,
    "written": 0, "parts_in_turn": 1, "run_dims": 0, "rows_last_first": 0, "row_words": 0, "parted": 0,
}  # fmt: skip


def content() -> dict:
    return json.loads((resources.files("vkdml") / "spirv" / "kernels.json").read_text())


def test_push_constants_come_back_as_they_were_packed():
    push = RUNS.push(**RUNS_FIELDS, layout_words=(9, -1, 1))
    unpacked = RUNS.unpack(push)
    assert unpacked.pop("layout_words") == (9, (1 << 32) - 1, 1, *(0,) * (RUNS.layout_room - 3))
    assert unpacked == {**RUNS_FIELDS, "input_base": (1 << 32) - 3}


def test_flags_are_bits_and_64_bit_fields_are_two_words():
    names = {name for field in ROWS.push_fields[1:-1] for name in [field.name]}
    fields = dict.fromkeys(names, 0) | {"index_base": (5 << 32) + 7}
    flags = {
        "layout_in_push": False,
        "wide_indices": True,
        "high_words": False,
        "with_values": False,
        "positions_adjacent": True,
    }
    push = ROWS.push(**fields, **flags)
    assert struct.unpack("<32I", push)[0] == 0b10010
    unpacked = ROWS.unpack(push)
    assert unpacked["index_base"] == (5 << 32) + 7
    assert {flag: bool(unpacked[flag]) for flag in flags} == flags


def test_names_that_are_missing_or_unknown_are_refused_with_those_accepted():
    without = {name: value for name, value in RUNS_FIELDS.items() if name != "vectors_per_workgroup"}
    with pytest.raises(
        TypeError, match="push constants of slice1_runs: colour unknown; vectors_per_workgroup missing; they"
    ):
        RUNS.push(**without, colour=1)
    with pytest.raises(TypeError, match="constants of slice1_runs: colour unknown; they are element_bytes, "):
        RUNS.specialize(**CHOICE, colour=1)


def test_layouts_that_do_not_fit_are_refused_with_the_room_there_is():
    room = RUNS.layout_room
    assert RUNS.unpack(RUNS.push(**RUNS_FIELDS, layout_words=range(room)))["layout_words"] == (*range(room),)
    with pytest.raises(
        ValueError, match=rf"{room + 1} layout words .* slice1_runs, which hold at most {room}"
    ):
        RUNS.push(**RUNS_FIELDS, layout_words=range(room + 1))


def test_numbers_of_more_bits_than_their_field_are_refused():
    most = (1 << 32) - 1
    assert RUNS.unpack(RUNS.push(**{**RUNS_FIELDS, "run": most}))["run"] == most
    # Of a mirrored array of more than 2^31 elements.
    assert RUNS.unpack(RUNS.push(**RUNS_FIELDS, layout_words=(-most,)))["layout_words"][0] == 1
    for number in (1 << 32, -(1 << 32), 1 << 70):
        accepted = rf"slice1_runs cannot be {number}; accepted are numbers from -\(2\^32 - 1\) to 2\^32 - 1"
        with pytest.raises(ValueError, match=f"run of {accepted}"):
            RUNS.push(**{**RUNS_FIELDS, "run": number})
        with pytest.raises(ValueError, match=f"layout_words of {accepted}"):
            RUNS.push(**RUNS_FIELDS, layout_words=(1, number))
    names = {field.name for field in ROWS.push_fields[1:-1]}
    flags = dict.fromkeys((flag for field in ROWS.push_fields for flag in field.flags), False)
    fields = {**dict.fromkeys(names, 0), **flags}
    assert ROWS.unpack(ROWS.push(**{**fields, "index_base": (1 << 64) - 1}))["index_base"] == (1 << 64) - 1
    with pytest.raises(ValueError, match=r"index_base of argreduce_rows .* to 2\^64 - 1"):
        ROWS.push(**{**fields, "index_base": 1 << 64})


def test_variants_that_are_not_built_are_refused():
    with pytest.raises(ValueError, match="step of slice1_runs cannot be 3; accepted are 0, 1, -1, 2, -2"):
        RUNS.specialize(**{**CHOICE, "step": 3})
    with pytest.raises(ValueError, match=r"no variant with .*step='second', element_bytes='4_b"):
        RUNS.specialize(**{**CHOICE, "step": 2})


def test_constants_that_a_variant_does_without_do_not_tell_pipelines_apart():
    choice = dict.fromkeys((constant.name for constant in ROWS.constants), 1)
    plain = {**choice, "subgroups": 0, "memory_order": 0, "keys": "integer", "element_bytes": 4}
    name, constants = ROWS.specialize(**plain)
    assert ROWS.specialize(**{**plain, "subgroup": 8, "aligned": 0, "omit_nan": 0}) == (name, constants)
    kernel = kernels.table()[name]
    assert kernel.named(constants).keys() == {
        "workgroup", "take_min", "take_last", "signed_elements", "split", "fixed_flags", "in_rounds",
        "one_subgroup", "simple_layout",
    }  # fmt: skip
    # A constant that it has tells pipelines apart, and not modules.
    for subgroups in (0, 1):
        names = {ROWS.specialize(**{**plain, "subgroups": subgroups, "split": split}) for split in (0, 1)}
        assert len({name for name, _ in names}) == 1
        assert len(names) == 2


def slots_and_push_bytes(code: bytes) -> tuple[set[int], int]:
    """The specialization constants that a module has, and the offset of the layout words."""
    words = np.frombuffer(code, np.uint32)
    slots, offsets, at = set(), {}, 5
    pushed = set()
    while at < words.size:
        length, op = words[at] >> 16, words[at] & 0xFFFF
        if op == 71 and words[at + 2] == 1:  # OpDecorate SpecId
            slots.add(int(words[at + 3]))
        elif op == 72 and words[at + 3] == 35:  # OpMemberDecorate Offset
            offsets.setdefault(int(words[at + 1]), []).append(int(words[at + 4]))
        elif op == 32 and words[at + 2] == 9:  # OpTypePointer PushConstant
            pushed.add(int(words[at + 3]))
        at += int(length)
    (block,) = (offsets[struct_type] for struct_type in pushed if struct_type in offsets)
    return slots, max(block)


@pytest.mark.parametrize("family", kernels.schema().families)
def test_modules_have_the_constants_and_push_constants_of_the_schema(family):
    for kernel in set(kernels.family(family).kernels.values()):
        slots, last_field = slots_and_push_bytes(kernels.spirv(kernel.name))
        assert slots <= {slot for slot, constant in enumerate(kernel.own_constants) if constant is not None}
        assert 0 in slots
        assert last_field == kernels.schema().push_bytes - 4 * kernels.family(family).layout_room


def test_the_installed_modules_are_those_of_the_table():
    installed = {path.name for path in (resources.files("vkdml") / "spirv").iterdir()}
    assert installed == {f"{name}.spv" for name in kernels.table()} | {"kernels.json"}


def test_variants_that_are_listed_twice_or_along_no_axis_are_refused():
    twice = content()
    twice["families"]["slice1_tiles"]["variants"] *= 2
    with pytest.raises(ValueError, match="slice1_tiles has a variant twice"):
        schema.parse(twice)
    nowhere = copy.deepcopy(content())
    nowhere["families"]["slice1_tiles"]["variants"][0]["colour"] = [1]
    with pytest.raises(KeyError, match=r"slice1_tiles has variants along .'colour'., which are no axes"):
        schema.parse(nowhere)
