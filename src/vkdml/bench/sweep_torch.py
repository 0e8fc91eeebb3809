"""What torch does for a case of a sweep: the same elements of the same view, in one public call or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkdml.bench.sweep import SweepCase

SEVERAL_AXES = "reduces one axis or all of them"
BACKWARDS = "has no views with negative steps"


def torch_refusal(case: SweepCase) -> str:
    """Say what torch does not have for a case; nothing where it can do the same."""
    one_or_all = case.axis is None or len(case.axis) in (1, len(case.permutation))
    if not one_or_all:
        return SEVERAL_AXES
    backwards = case.window is not None and any(step < 0 for step in case.window.steps)
    return BACKWARDS if backwards and not case.is_copy else ""


def torch_call(torch: Any, flat: Any, case: SweepCase) -> Callable[[], Any]:
    """Return torch's call for a case.

    Negative steps, which its indexing does not take, are a window of positive ones and ``flip``.

    Args:
        torch: the module.
        flat: the array's bytes, a tensor of uint8 where torch computes.
        case: that :func:`torch_refusal` has nothing against.
    """
    elements = flat.view(getattr(torch, case.element))
    if case.view is not None:
        repeated = elements.as_strided(case.view.sizes, case.view.strides)
        return _copy_of(repeated)
    view = elements.view(case.memory_shape).permute(case.permutation)
    if case.window is None or not case.is_copy:
        function = torch.argmax if case.op == "argmax" else torch.argmin
        taken = view if case.window is None else view[case.cuts]
        if case.axis is None or len(case.axis) == len(case.permutation):
            return lambda: function(taken)
        dim = case.axis[0]
        return lambda: function(taken, dim=dim)
    flipped = tuple(axis for axis, step in enumerate(case.window.steps) if step < 0)
    cuts = tuple(
        # From the far end a step may not divide the window: the rest is left at the near end.
        slice(offset + ((size - 1) % -step if step < 0 else 0), offset + size, abs(step))
        for offset, size, step in zip(case.window.offsets, case.window.sizes, case.window.steps, strict=True)
    )
    chosen = view[cuts]
    if flipped:
        return lambda: chosen.flip(flipped).contiguous()
    return _copy_of(chosen)


def _copy_of(view: Any) -> Callable[[], Any]:
    # torch's contiguous() copies nothing where a view already is.
    if view.is_contiguous():
        return lambda: view.clone()
    return lambda: view.contiguous()
