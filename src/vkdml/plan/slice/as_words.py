"""Copies of wide elements as copies of their words, for kernels of elements of up to 4 bytes."""

from __future__ import annotations

from vkdml.plan.layout import CopyLayout, Dim


def in_words(layout: CopyLayout, element_bytes: int) -> tuple[CopyLayout, int]:
    """Return the same copy, and the width of its elements: at most 4 bytes.

    >>> in_words(CopyLayout((Dim(5, 3, 1),), 0, 0), 8)[0].dims
    (Dim(size=5, input_stride=6, output_stride=2), Dim(size=2, input_stride=1, output_stride=1))
    """
    if element_bytes <= 4:
        return layout, element_bytes
    words = element_bytes // 4
    dims = [Dim(dim.size, dim.input_stride * words, dim.output_stride * words) for dim in layout.dims]
    # The inner dimension merges with the words of its elements.
    if dims and (dims[-1].input_stride, dims[-1].output_stride) == (words, words):
        dims[-1] = Dim(dims[-1].size * words, 1, 1)
    else:
        dims.append(Dim(words, 1, 1))
    return CopyLayout(tuple(dims), layout.input_base * words, layout.output_base * words), 4
