"""Draws the pictures of docs/operators.md: python docs/pictures.py

Each is an SVG of its own white ground, so that it is legible on dark pages too. The numbers in them are
computed by NumPy. Nothing in a file depends on the machine: drawing again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDER = Path(__file__).resolve().parent / "pictures"
SIDE = 34
INK, QUIET, GROUND = "#1b1f24", "#57606a", "#ffffff"
PLAIN, COMPETES, CHOSEN = "#ffffff", "#cfe4ff", "#ffb454"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())


class Drawing:
    """The elements of an SVG, in pixels from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="system-ui, sans-serif" font-size="14">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{QUIET}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
        ]

    def text(
        self, x: float, y: float, text: object, *, size: int = 14, anchor: str = "middle", ink: str = INK
    ) -> None:
        """Write a line whose middle, or start, lies at a place."""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
            f'dominant-baseline="central" fill="{ink}">{escape(str(text))}</text>'
        )

    def call(self, x: float, y: float, text: str) -> None:
        """Write code."""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" dominant-baseline="central" font-family="monospace" font-size="13" '
            f'fill="{INK}">{escape(text)}</text>'
        )

    def cell(self, x: float, y: float, value: object, fill: str = PLAIN, corner: object = "") -> None:
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{SIDE}" height="{SIDE}" fill="{fill}" stroke="{QUIET}"/>'
        )
        size = 12 if len(str(value)) > 2 else 14
        self.text(x + SIDE / 2, y + SIDE / 2 + (3 if corner != "" else 0), value, size=size)
        if corner != "":
            self.text(x + 4, y + 7, corner, size=9, anchor="start", ink=QUIET)

    def grid(
        self,
        x: float,
        y: float,
        values: npt.NDArray[Any],
        fill: Callable[[int, int], str] = lambda row, column: PLAIN,
        corner: Callable[[int, int], object] = lambda row, column: "",
    ) -> None:
        """Draw a matrix of cells."""
        for (row, column), value in np.ndenumerate(values):
            place = x + column * SIDE, y + row * SIDE
            self.cell(*place, value, fill(row, column), corner(row, column))

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        self._parts.append(
            f'<path d="M{x:g} {y:g} {to_x:g} {to_y:g}" stroke="{QUIET}" stroke-width="1.5" '
            'fill="none" marker-end="url(#head)"/>'
        )

    def frame(self, x: float, y: float, columns: int, rows: int) -> None:
        """Draw a bold frame round cells."""
        self._parts.append(
            f'<rect x="{x - 2:g}" y="{y - 2:g}" width="{columns * SIDE + 4}" height="{rows * SIDE + 4}" '
            f'fill="none" stroke="{INK}" stroke-width="2.5" stroke-dasharray="7 4"/>'
        )

    def svg(self) -> str:
        return "\n".join([*self._parts, "</svg>"]) + "\n"


def axes() -> str:
    """What competes with what, along each axis of a matrix."""
    x = np.array([[4, 9, 1, 7], [8, 2, 9, 3], [5, 9, 6, 0]])
    drawing = Drawing(440, 376, "argmax of a 3 x 4 matrix over axis 0, over axis 1 and over all axes")
    left, top, down = 40, 46, 46 + 3 * SIDE

    drawing.call(left, 20, "argmax(x, axis=0)")
    best = x.argmax(0)
    drawing.grid(
        left,
        top,
        x,
        lambda i, j: _shade(j == 1, j == 1 and i == best[1]),
        lambda i, j: i if j == 1 else "",
    )
    drawing.arrow(28, top, 28, down)
    drawing.grid(left, down + 20, best[None], lambda i, j: CHOSEN if j == 1 else PLAIN)

    left = 240
    drawing.call(left, 20, "argmax(x, axis=1)")
    best = x.argmax(1)
    drawing.grid(
        left,
        top,
        x,
        lambda i, j: _shade(i == 1, i == 1 and j == best[1]),
        lambda i, j: j if i == 1 else "",
    )
    drawing.arrow(left, down + 12, left + 4 * SIDE, down + 12)
    drawing.grid(left + 4 * SIDE + 16, top, best[:, None], lambda i, j: CHOSEN if i == 1 else PLAIN)

    left, top = 40, 258
    drawing.call(left, top - 20, "argmax(x)")
    first = int(x.argmax())
    drawing.grid(left, top, x, lambda i, j: _shade(True, 4 * i + j == first), lambda i, j: 4 * i + j)
    drawing.cell(left + 4 * SIDE + 16, top, first, CHOSEN)
    return drawing.svg()


def several_axes() -> str:
    """The index of an element among several reduced axes."""
    x = np.arange(24).reshape(2, 3, 4) % 5
    best = x.transpose(1, 0, 2).reshape(3, 8).argmin(1)
    drawing = Drawing(540, 196, "argmin of a 2 x 3 x 4 array over axes 0 and 2")
    drawing.call(60, 20, "argmin(x, axis=(0, 2))")
    top = 46
    for layer, left in enumerate((60, 240)):
        drawing.grid(
            left, top, x[layer],
            lambda i, j, layer=layer: _shade(i == 1, i == 1 and 4 * layer + j == best[1]),  # type: ignore[misc]
            lambda i, j, layer=layer: 4 * layer + j if i == 1 else "",  # type: ignore[misc]
        )  # fmt: skip
        drawing.text(left + 2 * SIDE, top + 3 * SIDE + 34, f"x[{layer}]", ink=QUIET)
    drawing.arrow(48, top, 48, top + 3 * SIDE)
    drawing.text(24, top + 1.5 * SIDE, "axis 1", size=12, ink=QUIET)
    drawing.arrow(60, top + 3 * SIDE + 12, 60 + 4 * SIDE, top + 3 * SIDE + 12)
    drawing.text(60 + 4 * SIDE + 22, top + 3 * SIDE + 12, "axis 2", size=12, ink=QUIET)
    drawing.grid(440, top, best[:, None], lambda i, j: CHOSEN if i == 1 else PLAIN)
    drawing.text(440 + SIDE / 2, top + 3 * SIDE + 34, "result", ink=QUIET)
    return drawing.svg()


def ties() -> str:
    """Which of equal elements is chosen, and what NaNs do."""
    drawing = Drawing(400, 226, "Which of equal elements argmax chooses, and what NaNs do")
    row = np.array([1, 5, 5, 2, 5])
    with_nan = ["1", "NaN", "5", "NaN", "2"]
    nan = np.array([1, np.nan, 5, np.nan, 2])
    first_nan, last_nan = np.flatnonzero(np.isnan(nan))[[0, -1]]
    lines: Iterable[tuple[list[str], Any, int]] = (
        (['direction="increasing"'], row, int(row.argmax())),
        (['direction="decreasing"'], row, row.size - 1 - int(row[::-1].argmax())),
        (['nan_policy="propagate"'], with_nan, int(first_nan)),
        (['nan_policy="propagate",', 'direction="decreasing"'], with_nan, int(last_nan)),
        (['nan_policy="omit"'], with_nan, int(np.nanargmax(nan))),
    )
    for place, (options, values, chosen) in enumerate(lines):
        top = 16 + place * 40
        for column, value in enumerate(values):
            drawing.cell(16 + column * SIDE, top, value, _shade(False, column == chosen), column)
        for number, line in enumerate(options):
            middle = top + SIDE / 2 + 16 * (number - (len(options) - 1) / 2)
            drawing.call(16 + 5 * SIDE + 16, middle, line)
    return drawing.svg()


def windows() -> str:
    """Windows with positive and negative strides."""
    x = np.arange(20).reshape(4, 5)
    drawing = Drawing(360, 474, "slice1 of a 4 x 5 matrix with strides (2, 2) and (-2, 2)")
    for top, strides in ((42, (2, 2)), (258, (-2, 2))):
        left = 20
        rows = np.arange(4)[:: strides[0]]
        columns = np.arange(1, 4)[:: strides[1]]
        drawing.call(left, top - 22, f"slice1(x, (0, 1), (4, 3), {strides})")
        drawing.grid(
            left, top, x,
            lambda i, j, rows=rows, columns=columns: _shade(  # type: ignore[misc]
                1 <= j < 4, i in rows and j in columns
            ),
        )  # fmt: skip
        drawing.frame(left + SIDE, top, 3, 4)
        right, start = left + 5 * SIDE + 14, top + (rows[0] + 0.5) * SIDE
        drawing.arrow(right, start, right, top + (rows[-1] + 0.5) * SIDE)
        drawing.arrow(left + 1.5 * SIDE, top + 4 * SIDE + 16, left + 3.5 * SIDE, top + 4 * SIDE + 16)
        drawing.grid(right + 36, top + SIDE, x[np.ix_(rows, columns)], lambda i, j: CHOSEN)
    drawing.text(20, 446, "dashed: the window; orange: what is copied;", size=12, anchor="start", ink=QUIET)
    drawing.text(20, 461, "arrows: in which order", size=12, anchor="start", ink=QUIET)
    return drawing.svg()


def steps() -> str:
    """One dimension: from where a window is stepped through, and output_sizes."""
    x = np.arange(10)
    drawing = Drawing(390, 232, "slice1 of ten elements with strides 3 and -3, and with output_sizes")
    lines = (
        ("slice1(x, 1, 8, 3)", x[1:9:3]),
        ("slice1(x, 1, 8, -3)", x[8:0:-3]),
        ("slice1(x, 1, 8, 3, output_sizes=2)", x[1:9:3][:2]),
    )
    for place, (call, copied) in enumerate(lines):
        top = 36 + place * 70
        drawing.call(16, top - 16, f"{call}: {', '.join(map(str, copied))}")
        drawing.grid(
            16, top, x[None],
            lambda i, j, copied=copied: _shade(1 <= j < 9, j in copied),  # type: ignore[misc]
        )  # fmt: skip
        drawing.frame(16 + SIDE, top, 8, 1)
    return drawing.svg()


def _shade(competes: bool, chosen: bool) -> str:
    return CHOSEN if chosen else COMPETES if competes else PLAIN


PICTURES: dict[str, Callable[[], str]] = {
    "axes": axes, "several-axes": several_axes, "ties": ties, "windows": windows, "steps": steps,
}  # fmt: skip

if __name__ == "__main__":
    main()
