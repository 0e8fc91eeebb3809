"""Makes links from a page to files outside docs/ lead somewhere on the site.

Records of measurements are copied to the site. README.md, ARCHITECTURE.md, CHANGELOG.md and the gallery's
examples are pages of it. Other files and folders are named as code; they become links once pyproject.toml
gives the address of the repository's files.
"""

from __future__ import annotations

import posixpath
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
COPIED = {".json", ".svg", ".png", ".csv"}
PAGES = {
    "README.md": "index",
    "ARCHITECTURE.md": "how-it-works",
    "CHANGELOG.md": "changelog",
    "examples/gallery": "gallery/index",
}

log = logging.getLogger(__name__)


class RepositoryFiles(SphinxTransform):
    """Replaces references to paths that start with ``..``."""

    default_priority = 5

    def apply(self) -> None:
        for reference in self.document.findall(addnodes.pending_xref):
            # In the repository a page is known by its file's name, on the site by its title.
            if reference.get("refdomain") == "doc" and reference.astext().endswith(".md"):
                reference["refexplicit"] = False
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for reference in list(self.document.findall(kind)):
                target = reference["reftarget"]
                if target.startswith("../"):
                    self._replace(reference, *target.partition("#")[::2])
                elif target.startswith(f"{ROOT}/"):  # what MyST makes of Markdown outside docs/
                    outside = posixpath.relpath(
                        f"{target}.md", self.env.srcdir / posixpath.dirname(self.env.docname)
                    )
                    self._replace(reference, outside, reference["reftargetid"])

    def _replace(self, reference: nodes.Element, target: str, anchor: str | None) -> None:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(self.env.docname), target))
        if path.startswith("..") or not (ROOT / path).exists():
            log.warning("no such file in the repository: %s", target, location=reference)
        elif path in PAGES or path.startswith("examples/gallery/"):
            name = PAGES.get(path) or posixpath.join("gallery", posixpath.basename(path).removesuffix(".py"))
            page = addnodes.pending_xref(
                "",
                *reference.children,
                refdomain="doc",
                reftype="myst",
                reftarget=name,
                reftargetid=anchor or None,
                refexplicit=True,
                refdoc=self.env.docname,
            )
            reference.replace_self(page)
        elif (ROOT / path).suffix not in COPIED:
            words = reference.astext()
            address = self.config.repository_files
            if address:
                reference.replace_self(nodes.reference("", words, refuri=f"{address.rstrip('/')}/{path}"))
            elif words in (path, target, posixpath.basename(path)):
                reference.replace_self(nodes.literal("", path))
            else:
                named = [nodes.Text(f"{words} ("), nodes.literal("", path), nodes.Text(")")]
                reference.replace_self(named)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("repository_files", "", "env")
    app.add_transform(RepositoryFiles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
