"""The types of the public functions, for type checkers: what goes in and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from vkdml.arguments import Direction, NanPolicy
from vkdml.arrays.array import Array
from vkdml.arrays.sharded import ShardedArray
from vkdml.operators.progress import Progress
from vkdml.operators.result import ArgReduceResult
from vkdml.runtime.device import DevicesLike

Axis = SupportsIndex | Sequence[SupportsIndex] | frozenset[int] | set[int] | None
PerDimension = SupportsIndex | Sequence[SupportsIndex]
Indices = npt.NDArray[np.integer[Any]]
Host = npt.NDArray[Any]
_Element = TypeVar("_Element", bound=np.generic)


class SupportsDLPack(Protocol):
    """A tensor of another library."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class SupportsChunks(Protocol):
    """An array in chunks: of zarr, h5py or tensorstore, or what is indexed like them."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def chunks(self) -> Any: ...

    def __getitem__(self, index: Any, /) -> Any: ...


HostArrayLike = npt.ArrayLike | SupportsDLPack | SupportsChunks
_Chunked = TypeVar("_Chunked", bound=SupportsChunks)
# Of another library, on the GPU where the input lies.
_Tensor = TypeVar("_Tensor", bound=SupportsDLPack)


class ArgReduce(Protocol):
    """:func:`vkdml.argmax` and :func:`vkdml.argmin`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, x: Array, axis: Axis = ..., *, keepdims: bool = ..., dtype: npt.DTypeLike | None = ...,
        direction: Direction = ..., nan_policy: NanPolicy = ..., return_values: Literal[False] = ...,
        out: Array | None = ..., device: DevicesLike = ..., progress: Progress = ...,
    ) -> Array: ...  # fmt: skip

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, x: Array, axis: Axis = ..., *, keepdims: bool = ..., dtype: npt.DTypeLike | None = ...,
        direction: Direction = ..., nan_policy: NanPolicy = ..., return_values: Literal[True],
        out: tuple[Array | None, Array | None] | None = ..., device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> ArgReduceResult[Array, Array]: ...  # fmt: skip

    @overload
    def __call__(
        self, x: HostArrayLike | ShardedArray, axis: None = ..., *, keepdims: Literal[False] = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[False] = ..., out: None = ..., device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> np.integer[Any]: ...  # fmt: skip

    @overload
    def __call__(
        self, x: HostArrayLike | ShardedArray, axis: Axis = ..., *, keepdims: bool = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[False] = ..., out: Host | None = ..., device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> Indices: ...  # fmt: skip

    @overload
    def __call__(
        self, x: HostArrayLike, axis: Axis = ..., *, keepdims: bool = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[False] = ..., out: _Chunked, device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> _Chunked: ...  # fmt: skip

    @overload
    def __call__(
        self, x: npt.NDArray[_Element], axis: Axis = ..., *, keepdims: bool = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[True], out: tuple[Host | None, Host | None] | None = ...,
        device: DevicesLike = ..., progress: Progress = ...,
    ) -> ArgReduceResult[Indices, npt.NDArray[_Element]]: ...  # fmt: skip

    @overload
    def __call__(
        self, x: HostArrayLike | ShardedArray, axis: Axis = ..., *, keepdims: bool = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[True], out: tuple[Host | None, Host | None] | None = ...,
        device: DevicesLike = ..., progress: Progress = ...,
    ) -> ArgReduceResult[Indices, Host]: ...  # fmt: skip

    @overload
    def __call__(
        self, x: HostArrayLike, axis: Axis = ..., *, keepdims: bool = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[True],
        out: tuple[Host | SupportsChunks | None, Host | SupportsChunks | None],
        device: DevicesLike = ..., progress: Progress = ...,
    ) -> ArgReduceResult[Any, Any]: ...  # fmt: skip

    @overload
    def __call__(
        self, x: Array | SupportsDLPack, axis: Axis = ..., *, keepdims: bool = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[False] = ..., out: _Tensor, device: DevicesLike = ...,
    ) -> _Tensor: ...  # fmt: skip

    @overload
    def __call__(
        self, x: Array | SupportsDLPack, axis: Axis = ..., *, keepdims: bool = ...,
        dtype: npt.DTypeLike | None = ..., direction: Direction = ..., nan_policy: NanPolicy = ...,
        return_values: Literal[True], out: tuple[_Tensor, _Tensor], device: DevicesLike = ...,
    ) -> ArgReduceResult[_Tensor, _Tensor]: ...  # fmt: skip


class Slice1(Protocol):
    """:func:`vkdml.slice1`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, x: Array, offsets: PerDimension, sizes: PerDimension, strides: PerDimension, *,
        output_sizes: PerDimension | None = ..., out: Array | None = ..., device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> Array: ...  # fmt: skip

    @overload
    def __call__(
        self, x: ShardedArray, offsets: PerDimension, sizes: PerDimension, strides: PerDimension, *,
        output_sizes: PerDimension | None = ..., out: None = ..., device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> ShardedArray: ...  # fmt: skip

    @overload
    def __call__(
        self, x: npt.NDArray[_Element], offsets: PerDimension, sizes: PerDimension, strides: PerDimension, *,
        output_sizes: PerDimension | None = ..., out: npt.NDArray[_Element] | None = ...,
        device: DevicesLike = ..., progress: Progress = ...,
    ) -> npt.NDArray[_Element]: ...  # fmt: skip

    @overload
    def __call__(
        self, x: HostArrayLike, offsets: PerDimension, sizes: PerDimension, strides: PerDimension, *,
        output_sizes: PerDimension | None = ..., out: Host | None = ..., device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> Host: ...  # fmt: skip

    @overload
    def __call__(
        self, x: HostArrayLike, offsets: PerDimension, sizes: PerDimension, strides: PerDimension, *,
        output_sizes: PerDimension | None = ..., out: _Chunked, device: DevicesLike = ...,
        progress: Progress = ...,
    ) -> _Chunked: ...  # fmt: skip

    @overload
    def __call__(
        self, x: Array | SupportsDLPack, offsets: PerDimension, sizes: PerDimension, strides: PerDimension, *,
        output_sizes: PerDimension | None = ..., out: _Tensor, device: DevicesLike = ...,
    ) -> _Tensor: ...  # fmt: skip
