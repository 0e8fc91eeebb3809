"""The pictures of docs/operators.md: drawn by docs/pictures.py, small, legible on any ground, and shown."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
MOST_BYTES = 40_000


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = script()


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_the_picture_is_up_to_date_and_small(name: str) -> None:
    drawn = (DOCS / "pictures" / f"{name}.svg").read_text()
    assert drawn == pictures.PICTURES[name](), "renew it with: python docs/pictures.py"
    assert len(drawn) < MOST_BYTES


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_the_picture_has_a_title_and_a_ground_of_its_own(name: str) -> None:
    svg = ElementTree.fromstring(pictures.PICTURES[name]())
    title, _, ground = list(svg)[:3]
    assert title.text
    assert (ground.get("width"), ground.get("height")) == (svg.get("width"), svg.get("height"))
    assert ground.get("fill") == pictures.GROUND


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_text_lies_within_the_picture(name: str) -> None:
    svg = ElementTree.fromstring(pictures.PICTURES[name]())
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        start, width = float(text.get("x", 0)), 0.62 * float(text.get("font-size", 14)) * len(text.text or "")
        if text.get("text-anchor") == "middle":
            start -= width / 2
        assert start >= 0, text.text
        assert start + width <= float(svg.get("width", 0)), text.text
        assert float(text.get("y", 0)) < float(svg.get("height", 0)), text.text


def test_every_picture_is_shown_and_every_file_is_drawn() -> None:
    shown = set(re.findall(r"!\[[^\]]+\]\(pictures/([\w-]+)\.svg\)", (DOCS / "operators.md").read_text()))
    assert shown == set(pictures.PICTURES) == {path.stem for path in (DOCS / "pictures").iterdir()}
