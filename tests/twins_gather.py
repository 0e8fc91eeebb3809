"""NumPy twins of the gather kernels: for one step of a plan, what the kernel of that name writes.

Each takes the step and the buffers (bytes, by role) and changes the buffers as the kernel does, item by item,
from the same push constants.
"""

from __future__ import annotations

import numpy as np
from plans import by_family
from twins_slice1 import WORD, CopyStep, offsets_of


class GatherStep(CopyStep):
    """One step, with the items that its workgroups process."""

    def __init__(self, step, buffers) -> None:
        super().__init__(step, buffers)
        p = self.p
        self.items = [
            item
            for begin in range(0, step.workgroups * p.items_per_workgroup, p.items_per_workgroup)
            for item in range(begin, min(begin + p.items_per_workgroup, p.items))
        ]


def gather_places(step, buffers) -> None:
    s = GatherStep(step, buffers)
    p = s.p
    kind = "i" if s.constants.signed_elements else "u"
    numbers = buffers["input"].view(f"{kind}{s.element_bytes}")
    places, faults = buffers["places"].view(np.uint32), buffers["faults"].view(np.uint32)
    for item in s.items:
        number = int(numbers[offsets_of(item, s.dims, p.input_base, 0)[0]])
        number += p.size if number < 0 else 0
        if not 0 <= number < p.size:
            faults[p.fault_word] = min(faults[p.fault_word], item)
            number = 0
        places[item] = (number * p.stride + (int(places[item]) if p.add else 0)) % WORD


def gather_elements(step, buffers) -> None:
    s = GatherStep(step, buffers)
    p = s.p
    source, places = buffers["input"].view(f"V{s.element_bytes}"), buffers["places"].view(np.uint32)
    per_item = max(4 // s.element_bytes, 1)
    for item in s.items:
        first = item * per_item
        elements = np.zeros(per_item, source.dtype)
        for number in range(per_item):
            # What is left of the last word is filled.
            offset, place = offsets_of(min(first + number, p.elements - 1), s.dims, p.input_base, 0)
            elements[number] = source[(offset + int(places[place])) % WORD]
        start = first * s.element_bytes
        buffers["gathered"][start : start + per_item * s.element_bytes] = elements.view(np.uint8)


TWINS = {"gather_places": gather_places, "gather_elements": gather_elements}
"""Every twin by the family of its kernels."""
run = by_family(TWINS)
