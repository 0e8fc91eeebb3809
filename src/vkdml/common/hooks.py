"""What upper folders do for methods of classes in lower ones. The package sets these when it is imported.

``Device.compile``, for example, makes an operator whose class is built on devices.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from vkdml.arguments import CallKey
    from vkdml.arrays.array import Array
    from vkdml.compiled.operator import CompiledOperator
    from vkdml.compiled.sequence import Sequence
    from vkdml.dml import OperatorDesc, TypedOperatorDesc
    from vkdml.dml.enums import FeatureLevelLike
    from vkdml.runtime.device import Device
    from vkdml.runtime.memory import Memory


class _CompileOperator(Protocol):
    def __call__(
        self,
        device: Device,
        desc: OperatorDesc | TypedOperatorDesc,
        *,
        feature_level: FeatureLevelLike,
    ) -> CompiledOperator: ...


class _NewSequence(Protocol):
    def __call__(self, device: Device, *, timings: bool) -> Sequence: ...


compile_operator: _CompileOperator
"""For ``Device.compile``."""
sequence: _NewSequence
"""For ``Device.sequence``."""
argmax: Callable[..., Any]
"""For methods of ``Array`` and ``ShardedArray``: the public function."""
argmin: Callable[..., Any]
"""As ``argmax``."""
cuda_memory: Callable[..., Memory]
"""For arrays that CUDA maps too: made like ``Memory``."""
from_cuda: Callable[..., Array]
"""For tensors of other libraries on a GPU: the Array of their elements, copied there if need be."""
on_cuda: Any
"""For the public functions, given such tensors: ``reduce`` and ``slice1``."""
call_as_before: Callable[[Array, CallKey | None], Any]
"""For methods of ``Array``: the result of a call that is known to be valid, or None."""
array_namespace: Callable[[str | None], ModuleType]
"""For ``Array.__array_namespace__``: the namespace that follows a version of the array API standard."""
indexed_by_arrays: Callable[[Array, Any], Array]
"""For ``Array.__getitem__``: indexing that is no view."""
taken_along_axis: Callable[[Array, Any, int], Array]
"""For ``numpy.take_along_axis``."""
