"""Plots: what headings and labels say, that no two labels touch, and that the committed ones are current."""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

import pytest
from bench_records import full_record
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from vkdml.bench import plot_page, plots
from vkdml.bench.libraries import peers
from vkdml.bench.record import PeerTime, Record
from vkdml.bench.record_file import load

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results"
COMMITTED = {
    image.relative_to(RESULTS).as_posix(): (image, part)
    for image in sorted(RESULTS.rglob("*.svg"))
    for part in plots.PARTS
    if image.stem.endswith(f"-{part}")
}


def test_every_library_has_a_colour_of_its_own() -> None:
    colours = [plots._COLOURS[name] for name in peers.NAMES]
    assert len(set(colours)) == len(colours)


@functools.lru_cache(maxsize=1)
def figures_of(record: Path) -> dict[str, Figure]:
    """Images of one record come one after another."""
    return plots.figures(load(record))


def labels(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that is seen, with where it stands, in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        if axes.axison:
            texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title]
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    seen = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in seen]


def faults(figure: Figure, seen: list[tuple[str, Bbox]] | None = None) -> list[str]:
    """Labels that touch another, and labels that are cut off."""
    seen = labels(figure) if seen is None else seen
    width, height = figure.bbox.width, figure.bbox.height
    # Extents are those of the font's box, which is a little larger than what is drawn.
    cut = [
        f"cut off: {text}"
        for text, box in seen
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]
    inner = [(text, box.padded(-0.5)) for text, box in seen]
    return cut + [
        f"{one!r} touches {other!r}"
        for (one, a), (other, b) in itertools.combinations(inner, 2)
        if a.overlaps(b)
    ]


def heading(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def panels(figure: Figure, text: str) -> int:
    """How many texts within the panels are this one."""
    return sum(part.get_text() == text for axes in figure.axes for part in axes.texts)


@pytest.fixture(scope="module")
def full() -> Record:
    made = full_record()
    made.rows[1].peers["torch"] = PeerTime(why="argmax(): does not support this")
    made.rows[2].peers["torch"] = PeerTime(why="out of time")
    return made


def test_there_are_committed_plots_of_every_part() -> None:
    assert {part for _, part in COMMITTED.values()} == set(plots.PARTS)
    assert len(COMMITTED) == len(list(RESULTS.rglob("*.svg")))


@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_plot_says_what_this_code_says_of_its_record(name: str) -> None:
    image, part = COMMITTED[name]
    figure = figures_of(image.with_name(f"{image.stem.removesuffix(f'-{part}')}.json"))[part]
    seen = labels(figure)
    drawn = {line.strip() for text, _ in seen for line in text.splitlines()}
    # Matplotlib writes every text beside its outlines.
    texts = re.findall(r"<!-- (.*?) -->", image.read_text(), re.DOTALL)
    committed = {line.strip() for text in texts for line in text.splitlines()}
    assert drawn <= committed, "draw it again: python bench/draw.py RECORD.json"
    assert not faults(figure, seen)


def test_labels_of_a_full_record_do_not_touch(full: Record) -> None:
    for figure in plots.figures(full).values():
        assert not faults(figure)


def test_touching_and_cut_labels_would_be_found() -> None:
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, "one label")
    figure.text(0.2, 0.52, "another")
    figure.text(0.9, 0.9, "too far right")
    found = faults(figure)
    assert any("touches" in fault for fault in found)
    assert "cut off: too far right" in found


def test_headings_say_what_is_better_when_and_with_which_versions(full: Record) -> None:
    better = {"dtypes": "higher is better", "sizes": "lower is better", "latency": "further left is better"}
    figures = plots.figures(full)
    assert set(better) <= set(figures)
    for part, words in better.items():
        said = heading(figures[part])
        assert figures[part].texts[0].get_text().endswith(words)
        assert full.device["name"] in said
        assert f"Measured {full.date} with vkdml {full.versions['vkdml']}" in said
        assert all(peer.version in said for peer in full.peers.values())


def test_every_axis_has_a_unit(full: Record) -> None:
    units = {"dtypes": "GB/s", "sizes": "microseconds", "latency": "% of calls"}
    for part, figure in plots.figures(full).items():
        assert all(units[part] in axes.get_ylabel() for axes in figure.axes if axes.axison)


def test_a_bar_that_is_not_there_says_why(full: Record) -> None:
    figure = plots.figures(full)["dtypes"]
    absent = panels(figure, plots.NOT_SUPPORTED), panels(figure, plots.NOT_TIMED)
    assert absent == (1, 1)


def test_bars_side_by_side_that_are_not_there_have_one_label(full: Record) -> None:
    row = full.rows[0]
    row = type(row)(**{**vars(row), "peers": dict.fromkeys(row.peers, PeerTime(why="no such type"))})
    names = ["vkdml", *row.peers]
    together = list(plots._absent(row, names, each=False))
    assert together == [(1, len(names) - 1, plots.NOT_SUPPORTED)]
    assert len(list(plots._absent(row, names, each=True))) == len(names) - 1


@pytest.mark.parametrize(("slow", "scale"), [(3, "linear"), (300, "log")])
def test_an_axis_is_logarithmic_where_bars_would_vanish(slow: float, scale: str) -> None:
    made = full_record()
    for row in made.rows:
        row.us = (row.read_bytes + row.written_bytes) / 4e6
        for name in row.peers:
            row.peers[name] = PeerTime(row.us * slow)
    axes = plots.figures(made)["dtypes"].axes[0]
    assert axes.get_yscale() == scale
    assert ("logarithmic" in axes.get_ylabel()) == (scale == "log")
    lowest = min(bar.get_height() for bar in axes.patches)
    assert axes.get_ylim()[0] < lowest


@pytest.mark.parametrize(("low", "high"), [(11, 13), (14, 1700), (1, 1e7), (12800, 30500), (0.2, 400)])
def test_labels_of_a_logarithmic_axis_have_room_and_are_several(low: float, high: float) -> None:
    for inches in (1.5, 3.6):
        ticks = plot_page.log_ticks(low, high, inches, 8)
        assert len(ticks) >= 2
        assert all(low <= tick <= high for tick in ticks)
        assert len({f"{tick:g}" for tick in ticks}) == len(ticks)
