"""Makes a package's README out of the repository's: an index shows it without the files it links to.

A provider of dynamic metadata for scikit-build-core; pyproject.toml has its setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field `readme`; the setting `files` is the repository's address for reading files."""
    with open("README.md", encoding="utf-8") as file:
        text = alone(file.read(), str(settings.get("files", "")))
    return {"readme": {"content-type": "text/markdown", "text": text}}


def alone(text: str, files: str) -> str:
    """Make relative links absolute below `files`; without that, keep their words and leave out images."""

    def link(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if files:
            return f"{image}[{words}]({files.rstrip('/')}/{target})"
        return "" if image else words

    # Link texts may stand in code spans, but code blocks hold no links.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)
