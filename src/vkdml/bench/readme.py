"""Writes a README's benchmark section: `python -m vkdml.bench.readme README.md FILE.json ...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from vkdml.bench.cases import EVERY_KERNEL, SHORT_NAMES
from vkdml.bench.plots import PARTS
from vkdml.bench.record import Record, RecordFault, Row, best_peer, load, write_whole
from vkdml.bench.report import (
    LIBRARY_NAMES,
    ceiling,
    latency_notes,
    libraries,
    limit,
    microseconds,
    sums,
    times_as_fast,
)

BEGIN = "<!-- benchmark: written by python -m vkdml.bench.readme -->"
END = "<!-- end of benchmark -->"
# Below this a time says more than a rate.
_LEAST_RATE_BYTES = 64 << 20
_LEFT_OUT = (EVERY_KERNEL, "own")


def section(records: Iterable[tuple[str, Record]], folder: Path) -> str:
    """Return the section's text.

    Args:
        records: each with its file's path as the README links to it.
        folder: in which the README lies; plots found beside a record are shown.
    """
    parts: list[str] = []
    for link, record in records:
        parts.extend(_of_record(link, record, folder))
    return "\n".join(parts).strip() + "\n"


def rewrite(text: str, inner: str) -> str:
    """Return a README with what is between its two markers replaced.

    Raises:
        RecordFault: the markers are not there.
    """
    before, begin, rest = text.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RecordFault(f"README has no place for the benchmark: accepted are the lines {BEGIN} and {END}")
    return f"{before}{begin}{inner}{end}{after}"


def _of_record(link: str, record: Record, folder: Path) -> Iterator[str]:
    yield f"### {record.device['name']}\n"
    yield (
        f"{record.device['driver']}; {record.machine['processor']}, {record.machine['cores']} cores; "
        f"Python {record.versions['python']}, {libraries(record)}; {record.date}. "
        f"All numbers: [{link}]({link}).\n"
    )
    if record.device["type"] == "software":
        said = "Times are those of whole calls, from host array to host array. Every result was checked."
        if any(row.scaled_from for row in record.rows):
            said += f" The cases were made smaller{limit(record)}."
        yield f"{said}\n"
    elif record.ceiling_gb_per_s:
        yield (
            "Times are those of the kernels, by the device's clock. Every result was checked. "
            f"GB/s count bytes read and written. {ceiling(record)}.\n"
        )
    if record.peers:
        yield f"{_methods(record)}\n"
    yield "| case | types | vkdml | best other library | times as fast |"
    yield "|---|---|--:|--:|--:|"
    for name in dict.fromkeys(row.row for row in record.rows if row.row not in _LEFT_OUT):
        yield _line(record, name, [row for row in record.rows if row.row == name])
    yield ""
    for line in sums(record):
        yield f"{line}\n"
    if record.latency:
        yield from _latency(record)
    for part in PARTS:
        image = Path(link).with_name(f"{Path(link).stem}-{part}.svg")
        if (folder / image).exists():
            yield f"![{record.device['name']}: {part}]({image.as_posix()})\n"


def _line(record: Record, name: str, rows: Sequence[Row]) -> str:
    types = " ".join(dict.fromkeys(SHORT_NAMES[row.element] for row in rows))
    rated = record.device["type"] != "software" and min(row.read_bytes for row in rows) >= _LEAST_RATE_BYTES
    compared = [(row, best) for row in rows if (best := best_peer(record, row))]
    if rated:
        ours = _range([row.gb_per_s for row in rows], "GB/s")
        theirs = _range(
            [(row.read_bytes + row.written_bytes) / (best[1] * 1e3) for row, best in compared], "GB/s"
        )
    else:
        ours = _range([row.compared_us for row in rows], "us")
        theirs = _range([best[1] for _, best in compared], "us")
    ratios = [best[1] / row.compared_us for row, best in compared]
    faster = _range(ratios, "times")
    names = ", ".join(dict.fromkeys(LIBRARY_NAMES[best[0]] for _, best in compared))
    return f"| {name} | {types} | {ours} | {f'{names}: {theirs}' if compared else ''} | {faster} |"


def _methods(record: Record) -> str:
    """Say how the other libraries were timed."""
    by_method: dict[str, list[str]] = {}
    for name, peer in record.peers.items():
        by_method.setdefault(peer.method, []).append(LIBRARY_NAMES[name])
    said = [f"{', '.join(names)}: {method}" for method, names in by_method.items()]
    return f"How the other libraries were timed: {'. '.join(said)}."


_NUMBERS: dict[str, Callable[[float], str]] = {
    "us": lambda value: f"{microseconds(value)} us",
    "GB/s": lambda value: f"{value:.0f} GB/s",
    "times": times_as_fast,
}


def _range(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    low, high = _NUMBERS[unit](min(values)), _NUMBERS[unit](max(values))
    return low if low == high else f"{low.removesuffix(f' {unit}')} to {high}"


def _latency(record: Record) -> Iterator[str]:
    names = [name for name in record.peers if any(name in row.peers for row in record.latency)]
    yield f"| from call to index, us (p50) | vkdml |{''.join(f' {LIBRARY_NAMES[name]} |' for name in names)}"
    yield "|---|--:|" + "--:|" * len(names)
    for row in record.latency:
        others = [row.peers.get(name) for name in names]
        cells = [microseconds(peer.p50_us) if peer and not peer.why else "" for peer in others]
        yield f"| {row.case} | {microseconds(row.ours.p50_us)} |{''.join(f' {cell} |' for cell in cells)}"
    yield ""
    for line in latency_notes(record):
        yield f"{line[0].upper()}{line[1:]}\n"


def main(arguments: Sequence[str]) -> int:
    """Rewrite the section; returns the exit status."""
    if len(arguments) < 2:
        print("usage: python -m vkdml.bench.readme README.md FILE.json ...", file=sys.stderr)
        return 2
    readme = Path(arguments[0])
    try:
        written = rewrite(readme.read_text(), section_of_files(readme, arguments[1:]))
        write_whole(readme, written.encode())
    except (RecordFault, OSError) as error:
        print(f"vkdml: {error}", file=sys.stderr)
        return 1
    return 0


def section_of_files(readme: Path, files: Sequence[str | Path]) -> str:
    """Return the section that these JSON files give for a README."""
    folder = readme.resolve().parent
    records = [(Path(os.path.relpath(Path(file).resolve(), folder)).as_posix(), load(file)) for file in files]
    # GPUs first, whatever the files are called.
    records.sort(key=lambda each: each[1].device["type"] == "software")
    return section(records, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
