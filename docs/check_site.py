"""Checks a built site: python docs/check_site.py FOLDER.

Links lead somewhere, and a browser that shows a page asks no foreign host for anything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches without being asked, by tag. What a <link> names is fetched, too, except other pages.
FETCHED = {"script": ("src",), "img": ("src", "srcset"), "source": ("src", "srcset"), "iframe": ("src",),
           "video": ("src", "poster"), "audio": ("src",), "object": ("data",), "embed": ("src",)}  # fmt: skip
NAMED = {"canonical", "index", "search", "next", "prev", "author", "copyright", "up", "top", "license"}
# Templates, and sources with links back to all that they define, documented or not.
WRITTEN_BY_SPHINX = {"_static", "_modules"}
FOREIGN = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)


class Page(HTMLParser):
    """The addresses in a page, and the places in it that addresses can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and not NAMED & set(given.get("rel", "").split()):
            self.fetched.append(given.get("href", ""))
        for name in FETCHED.get(tag, ()):
            if name == "srcset":
                self.fetched += [part.split()[0] for part in given.get(name, "").split(",") if part.strip()]
            elif given.get(name):
                self.fetched.append(given[name])


@cache
def page_at(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def leads_nowhere(address: str, page: Path) -> bool:
    """Tell whether an address within the site is of no file, or of no place in its page."""
    parts = urlsplit(address)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not path.is_file():
        return True
    place = unquote(parts.fragment)
    return bool(place) and path.suffix == ".html" and place not in page_at(path).places


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with a site."""
    for file in sorted(site.rglob("*.html")):
        name = file.relative_to(site)
        if name.parts[0] in WRITTEN_BY_SPHINX:
            continue
        page = page_at(file)
        for address in page.fetched:
            if FOREIGN.match(address):
                yield f"{name}: fetches {address}"
        for address in {*page.links, *page.fetched}:
            inside = not FOREIGN.match(address) and not re.match(r"(mailto|data|javascript):", address)
            if inside and address not in ("", "#") and leads_nowhere(address, file):
                yield f"{name}: no such page or place: {address}"
    for file in sorted(site.rglob("*.css")):
        for address in re.findall(
            r"""(?:url\(|@import\s)\s*["']?([^"')\s;]+)""", file.read_text(encoding="utf-8")
        ):
            if FOREIGN.match(address):
                yield f"{file.relative_to(site)}: fetches {address}"


def main(folder: str) -> int:
    site = Path(folder).resolve()
    found = list(faults(site))
    if found:
        print(*found, sep="\n", file=sys.stderr)
    pages = len(list(site.rglob("*.html")))
    print(f"{pages} pages, {len(found)} faults")
    return bool(found) or not pages


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
