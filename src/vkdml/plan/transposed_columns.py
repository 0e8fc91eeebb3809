"""Columns whose outputs lie in another order than the input, in strips: subgroups read and write sectors.

A strip is a short piece of the innermost dimension. Along it invocations read neighbouring memory; from strip
to strip along the outputs' innermost dimension they write neighbouring indices.
"""

from __future__ import annotations

from dataclasses import replace

from vkdml.plan.layout import Dim, ReduceLayout
from vkdml.plan.plans import VECTOR_BYTES

# Outputs side by side.
_FEWEST_SIDE_BY_SIDE = 8
# Of the innermost dimension: what is left over of fewer takes a step that is too small to be fast.
_FEWEST_STRIPS = 40
# Bytes that compete for an output, of elements of 4 and 8 bytes, from which on strips may be wider.
_MANY_BYTES = 64


def _widest(positions: int, nbytes: int, strip_bytes: int) -> int:
    """Return the bytes of the widest strip: more where more is read for each output (H200)."""
    return strip_bytes * (4 if nbytes >= 4 and positions * nbytes >= _MANY_BYTES else 2)


def in_strips(layout: ReduceLayout, nbytes: int, strip_bytes: int) -> tuple[ReduceLayout, ...]:
    """Return the layouts of the whole strips, and of what is left over; none if other kernels are faster.

    >>> layout = ReduceLayout((Dim(99, 400, 1), Dim(400, 1, 99)), (Dim(5, 40000, 1),), 0, 0, 0, False)
    >>> (part,) = in_strips(layout, 4, 32)
    >>> [(dim.size, dim.input_stride) for dim in part.kept]
    [(50, 8), (99, 400), (8, 1)]

    Args:
        layout: canonical, one dimension reduced; positions are apart, and outputs lie in another order.
        nbytes: of an element.
        strip_bytes: of the narrowest strip.
    """
    *others, near = layout.kept
    fast = min(layout.kept, key=lambda dim: abs(dim.output_stride))
    positions = layout.reduced[0].size
    if near.input_stride != 1 or fast.size < _FEWEST_SIDE_BY_SIDE:
        return ()
    others.remove(fast)
    width = _widest(positions, nbytes, strip_bytes)
    if near.size * nbytes <= width:
        # It is short enough as it is.
        whole_vectors = near.size * nbytes % VECTOR_BYTES == 0
        return (replace(layout, kept=(*others, fast, near)),) if whole_vectors else ()
    while width > strip_bytes and near.size * nbytes < _FEWEST_STRIPS * width:
        width //= 2
    strip = width // nbytes
    strips, left = divmod(near.size, strip)
    if strips < _FEWEST_STRIPS:
        return ()
    along = Dim(strips, strip, strip * near.output_stride)
    whole = replace(layout, kept=(*others, along, fast, replace(near, size=strip)))
    if not left:
        return (whole,)
    done = strips * strip
    rest = replace(
        layout,
        kept=(*others, fast, *((replace(near, size=left),) if left > 1 else ())),
        input_base=layout.input_base + done,
        output_base=layout.output_base + done * near.output_stride,
    )
    return whole, rest
