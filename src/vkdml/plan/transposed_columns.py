"""Columns whose outputs lie in another order than the input, in strips: subgroups read and write sectors.

A strip is a short piece of the innermost dimension. Along it invocations read neighbouring memory; from strip
to strip along the outputs' innermost dimension they write neighbouring indices.
"""

from __future__ import annotations

from dataclasses import replace

from vkdml.plan.layout import Dim, ReduceLayout

# More positions are read for each index that is written, wherever that lies.
MOST_POSITIONS = 32
# Outputs side by side.
_FEWEST_SIDE_BY_SIDE = 8
# Of the innermost dimension: shorter ones would have much left over.
_FEWEST_STRIPS = 16


def in_strips(layout: ReduceLayout, strip: int, least: int) -> tuple[ReduceLayout, ...]:
    """Return the layouts of the whole strips, and of what is left over; none if the layout is no such one.

    >>> layout = ReduceLayout((Dim(99, 40, 1), Dim(40, 1, 99)), (Dim(5, 4000, 1),), 0, 0, 0, False)
    >>> (part,) = in_strips(layout, 8, 4)
    >>> [(dim.size, dim.input_stride) for dim in part.kept]
    [(5, 8), (99, 40), (8, 1)]

    Args:
        layout: canonical.
        strip: elements of a strip.
        least: of the innermost dimension; one shorter than a strip is a strip of its own.
    """
    if not layout.kept or len(layout.reduced) != 1:
        return ()
    *others, near = layout.kept
    if near.input_stride != 1 or near.size < least or not 1 < layout.reduced[0].size <= MOST_POSITIONS:
        return ()
    fast = min(layout.kept, key=lambda dim: abs(dim.output_stride))
    if fast is near or fast.size < _FEWEST_SIDE_BY_SIDE or layout.reduced[0].input_stride == 1:
        return ()
    others.remove(fast)
    strips, left = divmod(near.size, strip) if near.size > strip else (1, 0)
    if left and strips < _FEWEST_STRIPS:
        return ()
    along = Dim(strips, strip, strip * near.output_stride)
    inner = replace(near, size=min(strip, near.size))
    whole = replace(layout, kept=(*others, *((along,) if strips > 1 else ()), fast, inner))
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
