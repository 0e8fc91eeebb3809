"""A device's pipelines, each of which is built once."""

from __future__ import annotations

import threading

from vkdml import _native
from vkdml.common.newest import Newest
from vkdml.errors import DeviceError
from vkdml.plan import kernels
from vkdml.plan.plans import PUSH_BYTES, Pipeline, Step

MOST_OF_ONE_SHAPE = 2048
# The first word of a SPIR-V module, and its last instruction, OpFunctionEnd.
_SPIRV_BEGIN, _SPIRV_END = b"\x03\x02\x23\x07", b"\x38\x00\x01\x00"


class Pipelines:
    """The pipelines of a device; of those that serve one shape, the newest. Thread-safe."""

    def __init__(self, device: _native.Device) -> None:
        self._device = device
        # Bounded: constants are flags, facts of element types, powers of two and small counts;
        # ARCHITECTURE.md lists them. A dictionary's own methods are atomic, so threads need no lock.
        self._of_any_shape: dict[Pipeline, _native.Kernel] = {}
        self._of_one_shape: Newest[_native.Kernel] = Newest(MOST_OF_ONE_SHAPE)
        self._being_built: dict[Pipeline, threading.RLock] = {}

    def of(self, step: Step) -> _native.Kernel:
        """Return the pipeline of a step, which is built if there is none yet."""
        key = step.pipeline
        family = kernels.table()[step.kernel].family
        serves_one_shape = bool(step.fixed_parameters) or family.has_constants_of_shape
        kept = self._of_one_shape if serves_one_shape else self._of_any_shape
        kernel = kept.get(key)
        if kernel is None:
            # Other threads that need it wait: a processor would take twice as long to build it twice. A
            # handler of a signal that comes meanwhile builds it, too.
            try:
                with self._being_built.setdefault(key, threading.RLock()):
                    kernel = kept.get(key)
                    if kernel is None:
                        kernel = kept[key] = self._built(step)
            finally:
                self._being_built.pop(key, None)
        return kernel

    def _built(self, step: Step) -> _native.Kernel:
        return self._device.kernel(
            _module(step.kernel),
            len(kernels.table()[step.kernel].bindings),
            0 if step.fixed_parameters else PUSH_BYTES,
            list(step.constants),
            step.subgroup_size,
            step.compiled_in,
        )


def _module(name: str) -> bytes:
    """Return the SPIR-V of a kernel; drivers may crash on what is cut off.

    Raises:
        DeviceError: the installation is damaged.
    """
    try:
        code = kernels.spirv(name)
    except OSError as error:
        raise DeviceError(
            f"the kernel {name} cannot be read ({error}): this installation of vkdml is damaged, reinstall it"
        ) from None
    if len(code) % 4 or not code.startswith(_SPIRV_BEGIN) or not code.endswith(_SPIRV_END):
        raise DeviceError(
            f"the kernel {name} is no whole SPIR-V module ({len(code)} bytes): this installation of vkdml is "
            "damaged, reinstall it"
        )
    return code
