"""Makes names in code links to the reference: `vkdml.argmax`, `dml.run(desc, x)`, `DML_TENSOR_DESC`."""

from __future__ import annotations

import re
from enum import Enum

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from vkdml import dml


def full_name(code: str) -> str:
    """Return the name in the reference that code starts with, or that its C name has; empty if there is none.

    >>> full_name("dml.run(desc, x)"), full_name("DML_AXIS_DIRECTION"), full_name("numpy.argmax")
    ('vkdml.dml.run', 'vkdml.dml.AxisDirection', '')
    """
    name = re.match(r"(?:(?:vkdml|dml)\.)+[\w.]*\w|DML_\w+", code)
    if name is None:
        return ""
    last = name[0].rpartition(".")[2]
    if last.startswith("DML_"):
        meant = getattr(dml, last, None)
        if isinstance(meant, Enum):
            return f"vkdml.dml.{type(meant).__name__}.{meant.name}"
        return f"vkdml.dml.{meant.__name__}" if isinstance(meant, type) else ""
    return re.sub(r"^dml\b", "vkdml.dml", name[0])


class NamedInCode(SphinxPostTransform):
    default_priority = 900

    def run(self, **options: object) -> None:
        documented = self.env.domains.python_domain.objects
        page = self.env.current_document.docname
        for literal in list(self.document.findall(nodes.literal)):
            place = documented.get(full_name(literal.astext()))
            if place is not None and not isinstance(literal.parent, nodes.reference | nodes.title):
                shown = literal.deepcopy()
                link = make_refnode(self.app.builder, page, place.docname, place.node_id, shown)
                literal.replace_self(link)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(NamedInCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
