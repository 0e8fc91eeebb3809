"""NumPy as a library to compare with, on the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkdml.bench import latency
from vkdml.bench.cases import Case
from vkdml.bench.contents import Bytes
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.library import Library, copied, single_axis, wall_clock
from vkdml.bench.unsupported import Unsupported


class NumPy(Library):
    """NumPy, on the processor."""

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(False, most_bytes)

    @property
    def version(self) -> str:
        return str(np.__version__)

    def time(self, case: Case) -> list[float]:
        array = self.host_array(case)
        if case.op == "slice1":
            view = copied(array, case)
            # A copy even of what is contiguous.
            return wall_clock(lambda: view.copy(order="C"))
        shape, axis = single_axis(case)
        array = array.reshape(shape)[..., ::2] if case.alternate else array.reshape(shape)
        function = np.argmax if case.op == "argmax" else np.argmin
        with np.errstate(invalid="ignore"):
            return wall_clock(lambda: function(array, axis=axis))

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        if case.kind != "host":
            raise Unsupported("has no device arrays")
        arrays = latency.host_arrays(case, content)
        return lambda number: int(np.argmax(arrays[number % len(arrays)]))
