"""Compiles every kernel with AMD's compiler in Mesa, for GPUs that are not here; `./run compile-amd` runs it.

RADV_FORCE_FAMILY makes of Mesa's driver RADV a device without hardware, which compiles pipelines. For each
family of GPUs this builds the pipelines that plans ask of such a device, and reads what the compiler says:
registers, spills, shared memory (LDS), size, subgroups per SIMD. A pipeline that is refused or spills is a
fault, and the exit code is then 1. `--record` writes one JSON file for each family, and their tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "amd"
PAGE = ROOT / "docs" / "other-gpus.md"
BEGIN = "<!-- amd: written by ./run compile-amd --record -->"
END = "<!-- end of amd -->"
SYSTEM_DRIVERS = Path("/usr/share/vulkan/icd.d")
NEWER_DRIVER = ROOT / ".drivers" / "mesa25" / "radeon_icd.json"
AT_ONCE = 2


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of GPUs, and what its shader processors are, by AMD's instruction set manuals."""

    name: str
    """As RADV_FORCE_FAMILY takes it."""
    generation: str
    sold_as: str
    subgroup_slots: int
    """Subgroups that one SIMD holds at most."""
    subgroup_sizes: tuple[int, ...] = (64,)
    newer_driver: bool = False
    """Mesa 22.3 does not know it."""


FAMILIES = (
    Family("tahiti", "GCN 1", "Radeon HD 7970", 10),
    Family("polaris10", "GCN 4", "Radeon RX 480", 8),
    Family("vega10", "GCN 5", "Radeon RX Vega 64", 10),
    Family("navi10", "RDNA 1", "Radeon RX 5700", 20, (64, 32)),
    Family("navi21", "RDNA 2", "Radeon RX 6800", 16, (64, 32)),
    Family("gfx1100", "RDNA 3", "Radeon RX 7900", 16, (64, 32)),
    Family("gfx1200", "RDNA 4", "Radeon RX 9060", 16, (64, 32), newer_driver=True),
)
# Four SIMDs share the workgroups of a compute unit (GCN) or a workgroup processor (RDNA).
SIMDS = 4
STATISTICS = {
    "vgprs": "VGPRs",
    "sgprs": "SGPRs",
    "spilled_vgprs": "Spilled VGPRs",
    "spilled_sgprs": "Spilled SGPRs",
    "scratch_bytes": "Scratch size",
    "lds_bytes": "LDS size",
    "code_bytes": "Code size",
}

Entry = dict[str, Any]
"""What is recorded of one pipeline."""
Record = dict[str, Any]
"""What is recorded of one family."""


# ---- one family, in a process that sees nothing else -------------------------------------------------------


def compiled(family: Family, drawn_calls: int | None, one_width: bool = False) -> Record:
    """Compile the pipelines of the device that the environment makes; without drawn calls, one a kernel.

    With ``one_width``, of kernels that differ in the width of their elements alone, one is compiled.
    """
    import planned_pipelines
    from pipeline_statistics import Compiler

    import vkdml

    device = vkdml.Device(0)
    limits = device.limits
    pipelines = planned_pipelines.on(device, drawn_calls or 1)
    if drawn_calls is None:
        pipelines = {
            last: pipelines[last] for last in {pipeline.kernel: pipeline for pipeline in pipelines}.values()
        }
    if one_width:
        wanted = set(of_one_width(pipeline.kernel for pipeline in pipelines))
        pipelines = {
            pipeline: planned for pipeline, planned in pipelines.items() if pipeline.kernel in wanted
        }
    compiler = Compiler()
    entries = [
        entry_of(family, compiler, pipeline, planned, limits.subgroup_size)
        for pipeline, planned in pipelines.items()
    ]
    if drawn_calls is not None and 32 in family.subgroup_sizes:
        narrow = planned_pipelines.of_benchmark(dataclasses.replace(limits, subgroup_size=32))
        entries += [entry_of(family, compiler, pipeline, False, 32, 32) for pipeline in sorted(narrow)]
    return {
        "family": family.name,
        "device": device.name,
        "driver": f"{device.info.driver_name} {device.info.driver_info}",
        "limits": {
            "subgroup_size": limits.subgroup_size,
            "max_workgroup_invocations": limits.max_workgroup_invocations,
            "max_shared_memory": limits.max_shared_memory,
        },
        "pipelines": entries,
    }


def of_one_width(names: Iterable[str]) -> list[str]:
    """Return one of the kernels that differ in the width of their elements alone, not always of the same."""
    from vkdml.plan import kernels

    alike: dict[object, list[str]] = {}
    for name in sorted(names):
        kernel = kernels.table()[name]
        others = frozenset((axis, value) for axis, value in kernel.variant.items() if axis != "element_bytes")
        alike.setdefault((kernel.family.name, others), []).append(name)
    return [found[turn % len(found)] for turn, found in enumerate(alike.values())]


def entry_of(
    family: Family, compiler: Any, pipeline: Any, planned: bool, offered: int, forced: int = 0
) -> Entry:
    """Compile one pipeline.

    Args:
        family: of the device.
        compiler: a Compiler.
        pipeline: a Pipeline.
        planned: whether the device's own plans use it.
        offered: the subgroup size that pipelines may require on the device; 0 if they may not.
        forced: the subgroup size to require, whatever the pipeline does.
    """
    from vkdml.plan import kernels
    from vkdml.plan.plans import PUSH_BYTES

    # Where no size can be required, there is one size only.
    required = forced or (pipeline.subgroup_size if offered else 0)
    constants = pipeline.named_constants
    entry: Entry = {
        "kernel": pipeline.kernel,
        "constants": {name: value for name, value in constants.items() if value},
        "planned": planned,
        "required_subgroup_size": required,
    }
    bindings = len(kernels.table()[pipeline.kernel].bindings)
    try:
        done = compiler.compile(
            kernels.spirv(pipeline.kernel), bindings, PUSH_BYTES, pipeline.constants, required
        )
    except RuntimeError as error:
        return {**entry, "fault": str(error)}
    entry["subgroup_size"] = done.subgroup_size
    entry |= {name: done.statistics[theirs] for name, theirs in STATISTICS.items()}
    # From RDNA on the driver counts in units of 32 invocations.
    units = done.subgroup_size // 32 if 32 in family.subgroup_sizes else 1
    resident = min(int(done.statistics["Subgroups per SIMD"]) // units, family.subgroup_slots)
    workgroup_subgroups = -(-constants["workgroup"] // done.subgroup_size)
    entry["subgroups_per_simd"] = resident
    entry["subgroups_in_whole_workgroups"] = (
        SIMDS * resident // workgroup_subgroups * workgroup_subgroups / SIMDS
    )
    return entry


# ---- all families ------------------------------------------------------------------------------------------


def driver_of(family: Family) -> Path | None:
    """The manifest of a RADV that knows the family, or None."""
    if family.newer_driver:
        return NEWER_DRIVER if NEWER_DRIVER.exists() else None
    found = sorted(SYSTEM_DRIVERS.glob("radeon_icd*.json"))
    return found[0] if found else None


def environment(family: Family, driver: Path) -> dict[str, str]:
    """The environment in which the family is the only device."""
    return {
        **os.environ,
        "RADV_FORCE_FAMILY": family.name,
        "VK_DRIVER_FILES": str(driver),
        "VK_ICD_FILENAMES": str(driver),
        "VK_INSTANCE_LAYERS": "",
        "VKDML_PROFILE": "off",
        # Pipelines of earlier runs would come without their statistics.
        "MESA_SHADER_CACHE_DISABLE": "true",
    }


def compiled_apart(family: Family, driver: Path, *, quick: bool, one_width: bool = False) -> Record:
    """What :func:`compiled` returns, from a process of its own."""
    command = [sys.executable, __file__, "--inside", family.name, *(["--quick"] if quick else [])]
    command += ["--one-width"] if one_width else []
    done = subprocess.run(command, env=environment(family, driver), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{family.name}: exit code {done.returncode}, error output:\n{done.stderr}")
    record: Record = json.loads(done.stdout)
    return record


def faults(record: Record) -> list[str]:
    """What is wrong with a family's pipelines, one line each."""
    lines = []
    for entry in record["pipelines"]:
        what = f"{record['family']}: {entry['kernel']} with {entry['constants']}"
        if "fault" in entry:
            lines.append(f"{what} was refused: {entry['fault']}")
            continue
        spills = {
            name: entry[name] for name in ("spilled_vgprs", "spilled_sgprs", "scratch_bytes") if entry[name]
        }
        if spills:
            lines.append(f"{what} spills: {spills}")
    return lines


# ---- the tables --------------------------------------------------------------------------------------------


def group_of(kernel: str) -> str:
    """The row of the tables that a kernel belongs to: its family and how it reads, whatever its elements."""
    for start in (
        *("argreduce_rows_subgroups", "argreduce_rows", "argreduce_columns_vectors"),
        *("argreduce_columns_unaligned", "argreduce_columns_elements", "argreduce_periods"),
        *("argreduce_combine", "argreduce_joined", "argreduce_across", "argreduce_phases"),
        *("argreduce_short_single", "argreduce_short_packed"),
        *("slice1_runs", "slice1_tiles"),
    ):
        if kernel.startswith(start):
            return start
    return kernel


def spread(numbers: Iterable[float]) -> str:
    """The least and the greatest, as `4-8`."""
    listed = sorted(numbers)
    least, greatest = (f"{number:g}" for number in (listed[0], listed[-1]))
    return least if least == greatest else f"{least}-{greatest}"


def section(records: Mapping[str, Record]) -> str:
    """The generated part of the page, from what is recorded of each family."""
    families = [family for family in FAMILIES if family.name in records]
    wide = {family.name: list(of_size(records[family.name], 64)) for family in families}
    narrow = {family.name: list(of_size(records[family.name], 32)) for family in families}
    parts = ["### What was compiled\n", *_overview(families, records), ""]
    parts += [
        "### Subgroups per SIMD\n",
        "Fewest and most over the pipelines of a row, of subgroups of 64 invocations, in whole workgroups. "
        "In brackets: rows\nthat no plan of this GPU uses.\n",
        *_matrix(
            families,
            wide,
            lambda entries: spread(e["subgroups_in_whole_workgroups"] for e in entries),
            slots=True,
        ),
        "\n### Vector registers per invocation\n",
        *_matrix(families, wide, lambda entries: spread(e["vgprs"] for e in entries)),
        "\n### Shared memory per workgroup, in bytes\n",
        *_matrix(families, wide, lambda entries: spread(e["lds_bytes"] for e in entries)),
        "\n### Machine code, in KiB\n",
        *_matrix(families, wide, lambda entries: spread(round(e["code_bytes"] / 1024, 1) for e in entries)),
    ]
    halved = [family for family in families if narrow[family.name]]
    if halved:
        parts += [
            "\n### The benchmark's pipelines in subgroups of 32\n",
            "vkdml asks for the subgroup size that the driver reports, which is 64. These are subgroups per "
            "SIMD and vector registers\nif it asked for 32.\n",
            *_matrix(
                halved,
                narrow,
                lambda entries: (
                    f"{spread(e['subgroups_in_whole_workgroups'] for e in entries)} subgroups, "
                    f"{spread(e['vgprs'] for e in entries)} registers"
                ),
                bracketed=False,
                slots=True,
            ),
        ]
    parts += ["\n### Fewest subgroups\n", *_fewest(families, wide)]
    return "\n".join(parts) + "\n"


def of_size(record: Record, subgroup_size: int) -> Iterator[Entry]:
    """The entries that were compiled, with subgroups of this size."""
    return (entry for entry in record["pipelines"] if entry.get("subgroup_size") == subgroup_size)


def _overview(families: list[Family], records: Mapping[str, Record]) -> Iterator[str]:
    yield (
        "| GPU | generation | compiler | kernels | pipelines | used by its plans | refused | spilling "
        "| subgroups |"
    )
    yield "|---|---|---|--:|--:|--:|--:|--:|---|"
    for family in families:
        record = records[family.name]
        entries = record["pipelines"]
        refused = sum("fault" in entry for entry in entries)
        asked = record["limits"]["subgroup_size"]
        yield (
            f"| {family.name} ({family.sold_as}) | {family.generation} | {record['driver']} "
            f"| {len({entry['kernel'] for entry in entries})} | {len(entries)} "
            f"| {sum(entry['planned'] for entry in entries)} | {refused} | {len(faults(record)) - refused} "
            f"| {f'{asked}, asked for' if asked else '64, cannot be asked for'} |"
        )


def _matrix(
    families: list[Family],
    entries: Mapping[str, list[Entry]],
    cell: Callable[[list[Entry]], str],
    *,
    bracketed: bool = True,
    slots: bool = False,
) -> Iterator[str]:
    """Yield a table's lines; ``slots``: the families' heads say how many subgroups a SIMD has room for."""
    groups = sorted({group_of(entry["kernel"]) for listed in entries.values() for entry in listed})
    yield (
        "| kernels | "
        + " | ".join(
            f"{family.name} (of {family.subgroup_slots})" if slots else family.name for family in families
        )
        + " |"
    )
    yield "|---|" + "--:|" * len(families)
    for group in groups:
        cells = []
        for family in families:
            listed = [entry for entry in entries[family.name] if group_of(entry["kernel"]) == group]
            planned = [entry for entry in listed if entry["planned"]] or listed
            if not listed:
                cells.append("")
            elif bracketed and not planned[0]["planned"]:
                cells.append(f"({cell(planned)})")
            else:
                cells.append(cell(planned))
        yield f"| {group} | " + " | ".join(cells) + " |"


def _fewest(families: list[Family], wide: Mapping[str, list[Entry]]) -> Iterator[str]:
    yield "Of the pipelines that plans use, the one that leaves most room unused on each GPU.\n"
    yield "| GPU | kernel | subgroups per SIMD | vector registers | shared memory | invocations |"
    yield "|---|---|--:|--:|--:|--:|"
    for family in families:
        planned = [entry for entry in wide[family.name] if entry["planned"]]
        entry = min(planned, key=lambda entry: (entry["subgroups_in_whole_workgroups"], entry["kernel"]))
        yield (
            f"| {family.name} | {entry['kernel']} "
            f"| {entry['subgroups_in_whole_workgroups']:g} of {family.subgroup_slots} | {entry['vgprs']} "
            f"| {entry['lds_bytes']} | {entry['constants']['workgroup']} |"
        )


def rewritten(page: str, inner: str) -> str:
    """The page with what is between its markers replaced."""
    before, begin, rest = page.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the tables: accepted are the lines {BEGIN} and {END}")
    return f"{before}{begin}\n{inner}\n{end}{after}"


def recorded() -> dict[str, Record]:
    """What the repository holds, by family."""
    paths = ((family.name, RESULTS / f"{family.name}.json") for family in FAMILIES)
    return {name: json.loads(path.read_text()) for name, path in paths if path.exists()}


def as_text(record: Record) -> str:
    """JSON with one line for each pipeline."""
    lines = ",\n  ".join(json.dumps(entry, separators=(",", ":")) for entry in record["pipelines"])
    head = json.dumps({name: value for name, value in record.items() if name != "pipelines"}, indent=1)
    return f'{head[:-2]},\n "pipelines": [\n  {lines}\n ]\n}}\n'


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Compile every kernel for AMD's GPUs, without one.")
    names = [family.name for family in FAMILIES]
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(names)}; default all")
    parser.add_argument("--quick", action="store_true", help="one pipeline of each kernel")
    parser.add_argument(
        "--record",
        action="store_true",
        help=f"write {RESULTS.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}",
    )
    parser.add_argument("--inside", metavar="FAMILY", help=argparse.SUPPRESS)
    parser.add_argument("--one-width", action="store_true", help=argparse.SUPPRESS)
    # Only says what is wrong with the others: `./run` asks before it fetches a driver for them.
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    by_name = {family.name: family for family in FAMILIES}
    if given.inside:
        import planned_pipelines

        drawn = None if given.quick else planned_pipelines.DRAWN_CALLS
        print(json.dumps(compiled(by_name[given.inside], drawn, given.one_width)))
        return 0
    unknown = sorted(set(given.families) - by_name.keys())
    if unknown:
        parser.error(f"unknown {', '.join(unknown)}; accepted are {', '.join(names)}")
    if given.record and given.quick:
        parser.error("--record wants all pipelines: leave out --quick")
    if given.check:
        return 0
    wanted = [by_name[name] for name in given.families] or list(FAMILIES)
    return run(wanted, quick=given.quick, record=given.record)


def run(families: list[Family], *, quick: bool, record: bool) -> int:
    """Compile for these families, two at a time, and say what came of it."""
    drivers = {family: driver_of(family) for family in families}
    for family, driver in drivers.items():
        if driver is None:
            print(
                f"{family.name}: skipped; no RADV that knows it is here (.drivers/mesa25, {SYSTEM_DRIVERS})"
            )
    known = {family: driver for family, driver in drivers.items() if driver is not None}
    if not known:
        return 1
    found = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for made in pool.map(lambda each: compiled_apart(*each, quick=quick), known.items()):
            wrong = faults(made)
            found += wrong
            count = len(made["pipelines"])
            print(f"{made['family']}: {count} pipelines, {len(wrong)} faults; {made['driver']}", flush=True)
            if record:
                RESULTS.mkdir(parents=True, exist_ok=True)
                (RESULTS / f"{made['family']}.json").write_text(as_text(made))
    if record:
        PAGE.write_text(rewritten(PAGE.read_text(), section(recorded())))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
