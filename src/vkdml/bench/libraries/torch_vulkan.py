"""torchvulkan as a library to compare with: operators of PyTorch as Vulkan compute shaders."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from vkdml.bench.cases import Case
from vkdml.bench.contents import Bytes
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.library import numbers_of, one_line, queued, require_right
from vkdml.bench.libraries.torch_library import Torch
from vkdml.bench.unsupported import Unsupported


class TorchVulkan(Torch):
    """PyTorch with the package torchvulkan, which is compiled against one release of PyTorch."""

    method = "host clock over queued calls, results checked"

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        # An operator that it lacks would run on the processor.
        os.environ["TORCHVULKAN_STRICT"] = "1"
        super().__init__(False, most_bytes)
        try:
            self.vulkan = importlib.import_module("torchvulkan")
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError):
                raise
            raise Unsupported(
                f"does not load beside torch {self.torch.__version__}: {one_line(error)}"
            ) from None
        if not self.vulkan.is_available():
            raise Unsupported("finds no Vulkan device")

    def select(self, device_name: str) -> None:
        names = [self.vulkan.get_device_name(number) for number in range(self.vulkan.device_count())]
        if device_name not in names:
            raise Unsupported(f"does not have {device_name}; its devices are {', '.join(names)}")
        self.device = f"vulkan:{names.index(device_name)}"

    @property
    def version(self) -> str:
        return f"{self.vulkan.__version__} (torch {self.torch.__version__})"

    @property
    def runs_on(self) -> str:
        return "device"

    def content(self, case: Case) -> str:
        return numbers_of(case)

    def time(self, case: Case) -> list[float]:
        call: Callable[[], Any] = self._call(case)
        result = call().cpu()
        require_right(case, self.host_bytes(self.content(case)), _numpy(self.torch, result))
        return queued(call, self._wait)

    def public_call(self, case: Case) -> Callable[[], object] | None:
        return self._waiting(self._call(case))

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        find = super().finder(case, content)
        if case.kind != "to device":
            return find

        def move_and_wait(number: int) -> Any:
            moved = find(number)
            self._wait()
            return moved

        return move_and_wait

    def _wait(self) -> None:
        self.vulkan.synchronize(self.device)


def _numpy(torch: Any, tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of the host as NumPy has it; types that NumPy lacks as bytes."""
    try:
        array: np.ndarray[Any, Any] = tensor.numpy()
    except TypeError:
        array = tensor.view(torch.uint8).numpy()
    return array
