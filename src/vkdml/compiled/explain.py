"""Text that describes a DirectML operator, its canonical layout and its plan."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from vkdml.dml import BufferTensorDesc, OperatorDesc, Slice1OperatorDesc
from vkdml.dml.lowering import call_of, strides_of
from vkdml.plan import kernels
from vkdml.plan.layout import CopyLayout, Dim, ReduceLayout
from vkdml.plan.plans import Plan, Step

COLUMNS = 80


def explain(desc: OperatorDesc, plan: Plan, device: str) -> str:
    """Describe an operator, its canonical layout and its plan in lines of at most 80 columns."""
    lines = [*_wrapped("", f"{desc.operator} on {device}")]
    lines += _tensor("input ", desc.input_tensor)
    lines += _tensor("output", desc.output_tensor)
    if isinstance(desc, Slice1OperatorDesc):
        lines += _wrapped(
            "  window  ",
            f"offsets {tuple(desc.input_window_offsets)}, sizes {tuple(desc.input_window_sizes)}, "
            f"strides {tuple(desc.input_window_strides)}",
        )
    else:
        choice = "first" if desc.axis_direction.name == "INCREASING" else "last"
        what = "least" if desc.function.name == "ARGMIN" else "greatest"
        lines += _wrapped(
            "  reduce  ",
            f"axes {tuple(desc.axes)}: the {choice} of the {what} (axis direction "
            f"{desc.axis_direction.name}); NaNs lose",
        )
    lines += _layout(call_of(desc).layout)
    for number, step in enumerate(plan.steps, 1):
        lines += _step(f"kernel {number} of {len(plan.steps)}", step)
    used = (f"{role} {nbytes}" for role, nbytes in plan.buffer_bytes if nbytes)
    lines += _wrapped("buffers (bytes): ", ", ".join(used))
    if plan.bytes_of("workspace"):
        parts = f"{len(plan.layout)} words of layout, {plan.counters} counters, scratch for the rest"
        lines += _wrapped("  workspace: ", parts)
    return "\n".join(lines)


def _tensor(role: str, tensor: BufferTensorDesc) -> list[str]:
    packed = " packed" if tensor.strides is None else ""
    text = f"{tensor.data_type.name} sizes {tuple(tensor.sizes)}{packed}, strides {strides_of(tensor)}, "
    return _wrapped(f"  {role}  ", text + f"{tensor.total_tensor_size_in_bytes} bytes")


def _layout(layout: ReduceLayout | CopyLayout) -> list[str]:
    if isinstance(layout, CopyLayout):
        return [
            "canonical layout (elements)",
            *_dims("copied", layout.dims, "output"),
            *_wrapped("  bases   ", f"input {layout.input_base}, output {layout.output_base}"),
        ]
    order = ", positions in descending order" if layout.reversed_order else ""
    bases = f"input {layout.input_base}, output {layout.output_base}, index {layout.index_base}{order}"
    return [
        "canonical layout (elements)",
        *_dims("kept", layout.kept, "output"),
        *_dims("reduced", layout.reduced, "index"),
        *_wrapped("  bases   ", bases),
    ]


def _dims(kind: str, dims: tuple[Dim, ...], second: str) -> list[str]:
    if not dims:
        return [f"  {kind:8}nothing"]
    lines = []
    for dim in dims:
        text = f"{dim.size} steps of input {dim.input_stride:+}, {second} {dim.output_stride:+}"
        lines += _wrapped(f"  {kind:8}", text)
    return lines


def _step(heading: str, step: Step) -> list[str]:
    kernel = kernels.table()[step.kernel]
    constants = []
    for constant, value in zip(kernel.own_constants, step.constants, strict=True):
        if constant is not None:
            constants.append(f"{constant.name.upper()}={bool(value) if constant.type == 'bool' else value}")
    lines = _wrapped(f"{heading}: ", step.kernel)
    subgroups = f", subgroups of {step.subgroup_size}" if step.subgroup_size else ""
    bindings = ", ".join(kernel.bindings)
    lines += _wrapped("  workgroups  ", f"{step.workgroups} of {step.constants[0]} invocations{subgroups}")
    lines += _wrapped("  bindings    ", bindings)
    lines += _wrapped("  constants   ", " ".join(constants))
    return lines + _wrapped("  push        ", " ".join(_pushed(kernel.family.unpack(step.push))))


def _pushed(fields: Mapping[str, int | tuple[int, ...]]) -> list[str]:
    texts = []
    for name, value in fields.items():
        if isinstance(value, int):
            texts.append(f"{name}={value}")
            continue
        used = list(value)
        while used and not used[-1]:
            used.pop()
        texts.append(f"{name}=[{', '.join(map(str, used))}]")
    return texts


def _wrapped(heading: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        COLUMNS,
        initial_indent=heading,
        subsequent_indent=" " * min(len(heading), 14) or "  ",
        break_on_hyphens=False,
    ) or [heading.rstrip()]
