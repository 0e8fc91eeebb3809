"""Writes the figures into the documentation: python bench/write_docs.py FILE.json ...

The tables and plots of every file go into docs/benchmarks.md, one plot and the main figures into README.md.
In both pages, what is between the two markers is replaced.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from vkdml.bench.cases import EVERY_KERNEL, SHORT_NAMES
from vkdml.bench.datasheets import published_rate
from vkdml.bench.files import RecordFault, write_whole
from vkdml.bench.plots import PARTS
from vkdml.bench.record import Record, Row, best_peer, mean_speedup
from vkdml.bench.record_file import load
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

ROOT = Path(__file__).resolve().parent.parent
README = Path("README.md")
PAGE = Path("docs") / "benchmarks.md"
BEGIN = "<!-- figures: written by python bench/write_docs.py -->"
END = "<!-- end of figures -->"
_COLUMNS = 120
# Below this a time says more than a rate.
_LEAST_RATE_BYTES = 64 << 20
_LEFT_OUT = (EVERY_KERNEL, "own")

Linked = tuple[str, Record]
"""A record, and its file's path as a page links to it."""


def tables(records: Iterable[Linked], folder: Path) -> str:
    """Return every record's tables.

    Args:
        records: in the order in which they are shown.
        folder: in which the page lies; plots found beside a record are shown.
    """
    parts: list[str] = []
    for link, record in records:
        parts.extend(_of_record(link, record, folder))
    return "\n".join(parts).strip() + "\n"


def summary(records: Sequence[Linked], folder: Path) -> str:
    """Return one plot, of the first record that has one, and the main figures of each record.

    Args:
        records: in the order in which they are shown.
        folder: in which the page lies.
    """
    plots = ((_plot(link, folder, PARTS[0]), record) for link, record in records)
    shown = next(
        (f"![{record.device['name']}: rates by element type]({plot})\n" for plot, record in plots if plot), ""
    )
    lines = [line for _, record in records for line in _main_figures(record)]
    return "\n".join([shown, *lines]).strip() + "\n"


def rewrite(text: str, inner: str) -> str:
    """Return a page with what is between its two markers replaced.

    Raises:
        RecordFault: the markers are not there.
    """
    before, begin, rest = text.partition(BEGIN + "\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RecordFault(f"there is no place for the figures; accepted are the lines {BEGIN} and {END}")
    return f"{before}{begin}{inner}{end}{after}"


def _of_record(link: str, record: Record, folder: Path) -> Iterator[str]:
    yield f"### {record.device['name']}{'' if record.rows else ': from call to result'}\n"
    yield _paragraph(
        f"{record.device['driver']}; {record.machine['processor']}, {record.machine['cores']} cores; "
        f"Python {record.versions['python']}, {libraries(record)}; {record.date}. "
        f"All numbers: [{Path(link).name}]({link})."
    )
    if record.device["type"] == "software":
        said = "Times are those of whole calls, from host array to host array. Every result was checked."
        if any(row.scaled_from for row in record.rows):
            said += f" The cases were made smaller{limit(record)}."
        yield _paragraph(said)
    elif record.ceiling_gb_per_s:
        yield _paragraph(
            "Times are those of the kernels, by the device's clock. Every result was checked. "
            f"GB/s count bytes read and written. {ceiling(record)}."
        )
    if record.peers and record.rows:
        yield _paragraph(_methods(record))
    if record.rows:
        yield "| case | types | vkdml | fastest other library | times as fast |"
        yield "|---|---|--:|--:|--:|"
        for name in dict.fromkeys(row.row for row in record.rows if row.row not in _LEFT_OUT):
            yield _line(record, name, [row for row in record.rows if row.row == name])
        yield ""
    for line in sums(record):
        yield _paragraph(line)
    if record.latency:
        yield from _latency(record)
    for part in PARTS:
        if plot := _plot(link, folder, part):
            yield f"![{record.device['name']}: {part}]({plot})\n"


def _plot(link: str, folder: Path, part: str) -> str:
    """Return the path of a record's plot as the page links to it; nothing if there is none."""
    image = Path(link).with_name(f"{Path(link).stem}-{part}.svg")
    return image.as_posix() if (folder / image).exists() else ""


def _paragraph(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"


def _item(text: str) -> str:
    return textwrap.fill(
        f"- {text}", _COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _line(record: Record, name: str, rows: Sequence[Row]) -> str:
    types = " ".join(dict.fromkeys(SHORT_NAMES[row.element] for row in rows))
    compared = _compared(record, rows)
    if all(_is_rated(record, row) for row in rows):
        ours, theirs = _rates(record, rows)
    else:
        ours = _range([row.compared_us for row in rows], "us")
        theirs = _range([best[1] for _, best in compared], "us")
    faster = _range([best[1] / row.compared_us for row, best in compared], "times")
    names = ", ".join(dict.fromkeys(LIBRARY_NAMES[best[0]] for _, best in compared))
    return f"| {name} | {types} | {ours} | {f'{names}: {theirs}' if compared else ''} | {faster} |"


def _compared(record: Record, rows: Iterable[Row]) -> list[tuple[Row, tuple[str, float]]]:
    """Return the rows that another library timed too, each with the fastest and its microseconds."""
    return [(row, best) for row in rows if (best := best_peer(record, row))]


def _is_rated(record: Record, row: Row) -> bool:
    """Whether GB/s say more of a row than microseconds."""
    return record.device["type"] != "software" and row.read_bytes >= _LEAST_RATE_BYTES


def _rates(record: Record, rows: Sequence[Row]) -> tuple[str, str]:
    """Return vkdml's range of GB/s and that of the fastest other library of each row."""
    others = [(row.read_bytes + row.written_bytes) / (best[1] * 1e3) for row, best in _compared(record, rows)]
    return _range([row.gb_per_s for row in rows], "GB/s"), _range(others, "GB/s")


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
    timed = {name for row in record.latency for name, peer in row.peers.items() if not peer.why}
    names = [name for name in record.peers if name in timed]
    yield f"| from call to result, us (p50) | vkdml |{''.join(f' {LIBRARY_NAMES[name]} |' for name in names)}"
    yield "|---|--:|" + "--:|" * len(names)
    for row in record.latency:
        others = [row.peers.get(name) for name in names]
        cells = [microseconds(peer.p50_us) if peer and not peer.why else "" for peer in others]
        yield f"| {row.case} | {microseconds(row.ours.p50_us)} |{''.join(f' {cell} |' for cell in cells)}"
    yield "\nAn empty cell: the library has no such call, or was not timed.\n"
    for line in latency_notes(record):
        yield _paragraph(f"{line[0].upper()}{line[1:]}")


def _cut_short(record: Record, rows: Sequence[Row], libraries: Sequence[str]) -> list[str]:
    """Return how many of the rows those libraries reached whose time ended before the rows did."""
    said = []
    for name, peer in record.peers.items():
        if "not reached" in peer.note and LIBRARY_NAMES[name] in libraries:
            reached = sum(row.peers[name].us is not None for row in rows if name in row.peers)
            said.append(f"{LIBRARY_NAMES[name]} ran {reached} of them within its time limit")
    return said


def _main_figures(record: Record) -> Iterator[str]:
    """Yield what a newcomer asks of a device first, one list item each."""
    compared = _compared(record, record.rows)
    mean = mean_speedup(record)
    if mean is None:
        return
    device = re.sub(r" (Device|\d+GB HBM\d\w*)$", "", record.device["name"].partition(" (")[0])
    is_software = record.device["type"] == "software"
    timed = "kernels"
    if is_software:
        mib = record.settings.get("mib")
        timed = f"calls on host arrays{f' up to {mib} MiB' if mib else ''}"
    peers = list(dict.fromkeys(LIBRARY_NAMES[best[0]] for _, best in compared))
    others = peers[0] if len(peers) == 1 else f"the fastest of {', '.join(peers[:-1])} and {peers[-1]}"
    lost = sum(best[1] < row.compared_us for row, best in compared)
    about = ["geometric mean", f"{mean[1]} cases, slower in {lost}"]
    about += _cut_short(record, [row for row, _ in compared], peers)
    yield _item(f"{device}, {timed}: {mean[0]:.2f} times as fast as {others} ({'; '.join(about)}).")
    whole = [row for row in record.rows if row.row == "all axes" and _is_rated(record, row)]
    if whole:
        ours, theirs = _rates(record, whole)
        said = [f"argmax over all axes, {len({row.element for row in whole})} element types: {ours}"]
        said += [f"fastest other library: {theirs}"] if theirs else []
        published = published_rate(record.device["name"])
        said += [f"data sheet of the memory: {published.gb_per_s:.4g} GB/s"] if published else []
        yield _item(f"{device}, {'; '.join(said)}.")
    for row in record.latency:
        if row.kind == "host" and row.nbytes < _LEAST_RATE_BYTES:
            timed_peers = [(name, row.peers[name]) for name in record.peers if name in row.peers]
            peer_times = [(LIBRARY_NAMES[name], peer.p50_us) for name, peer in timed_peers if not peer.why]
            times = [f"{name} {microseconds(us)}" for name, us in (("vkdml", row.ours.p50_us), *peer_times)]
            yield _item(f"{device}, time of a call on a {row.case}, median in us: {', '.join(times)}.")


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Rewrite both pages, or neither; returns the exit status."""
    if not arguments:
        print("usage: python bench/write_docs.py FILE.json ...", file=sys.stderr)
        return 2
    try:
        pages = {root / page: text for page, text in rewritten(arguments, root).items()}
        for page, text in pages.items():
            write_whole(page, text.encode())
    except (RecordFault, OSError) as error:
        print(f"write_docs: {error}", file=sys.stderr)
        return 1
    return 0


def rewritten(files: Sequence[str | Path], root: Path = ROOT) -> dict[Path, str]:
    """Return both pages with the figures of these files, by their path in the repository.

    Raises:
        RecordFault: a file or a page that cannot be used.
    """
    # GPUs first, whatever the files are called.
    records = sorted(
        ((Path(file), load(file)) for file in files), key=lambda each: each[1].device["type"] == "software"
    )
    pages = {}
    for page, write in ((README, summary), (PAGE, tables)):
        folder = (root / page).resolve().parent
        linked = [
            (Path(os.path.relpath(file.resolve(), folder)).as_posix(), record) for file, record in records
        ]
        try:
            pages[page] = rewrite((root / page).read_text(), write(linked, folder))
        except RecordFault as error:
            raise RecordFault(f"{page}: {error}") from None
    return pages


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
