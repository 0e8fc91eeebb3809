"""Work for recorded sequences: an operator that is compiled for it, and a sequence that takes a while."""

from __future__ import annotations

import numpy as np
import thinned
from dml_tensors import tensor

import vkdml
from vkdml import dml

COUNT = 4096
LONG_ROUNDS = 40 if thinned.for_swiftshader() else 120  # on software drivers


def reverse(device, count=COUNT):
    """The operator that writes so many elements in reverse."""
    x = tensor("INT32", count)
    return device.compile(dml.Slice1OperatorDesc(x, x, (0,), (count,), (-1,)))


class Long:
    """A sequence that takes a while: so long that the host can look while it runs."""

    def __init__(self, device):
        count = 1 << 18
        self.host = np.arange(count, dtype=np.int32)
        op = reverse(device, count)
        self.arrays = [vkdml.asarray(self.host, device=device), vkdml.empty(count, np.int32, device=device)]
        self.sequence = device.sequence()
        self.rounds = LONG_ROUNDS if device.info.type == "software" else 2000
        for i in range(self.rounds):
            self.sequence.record(op, input=self.arrays[i % 2], output=self.arrays[1 - i % 2])
        self.sequence.eval()  # made ready
