"""Recorded sequences: operators, uploads and downloads recorded once and evaluated any number of times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from types import TracebackType
from typing import Any, NoReturn
from weakref import ref

import numpy as np
import numpy.typing as npt

from vkdml.arrays.array import Array
from vkdml.arrays.operations import require_same_device
from vkdml.common.wording import type_of
from vkdml.compiled.operator import CompiledOperator
from vkdml.errors import DeviceError, DeviceLostError
from vkdml.plan.cache import slice1_plan
from vkdml.plan.layout import row_major_strides
from vkdml.plan.plans import Plan
from vkdml.runtime.device import Device
from vkdml.runtime.host_memory import copy_bytes
from vkdml.runtime.memory import Bytes, Memory
from vkdml.runtime.recording import (
    Buffer,
    NativeSequence,
    RecordableStep,
    record_steps,
    recordable_steps,
    workspace_for,
)

# Evaluations whose sequence was dropped: whoever reads what they write must still find them.
_left_running: set[Evaluation] = set()


@dataclass(frozen=True)
class _Place:
    """A byte in memory that a recorded operation uses: an array's, which it does not keep, or staging."""

    role: str
    memory: ref[Memory] | None
    staging: Buffer | None
    offset: int

    def region(self) -> tuple[Buffer, int] | None:
        """Return the buffer and the byte in it, or None if the array is gone."""
        if self.staging is not None:
            return self.staging, self.offset
        memory = None if self.memory is None else self.memory()
        return None if memory is None else (memory.buffer, self.offset)


@dataclass(frozen=True)
class _Recorded:
    """An operation as it was recorded: dispatches, or else one copy of bytes."""

    label: str
    places: tuple[_Place, ...]
    """For a copy: from where, and to where."""
    steps: tuple[RecordableStep, ...] = ()
    workspace: Buffer | None = None
    copied_bytes: int = 0

    @property
    def native_operations(self) -> int:
        return len(self.steps) or 1

    def record(self, sequence: NativeSequence, number: int) -> None:
        regions = {}
        for place in self.places:
            region = place.region()
            if region is None:
                raise DeviceError(self.gone(number, place))
            regions[place.role] = region
        if self.steps:
            record_steps(sequence, self.steps, self.workspace, regions)
        else:
            (source, source_offset), (target, target_offset) = regions.values()
            sequence.copy(source, target, self.copied_bytes, source_offset, target_offset)

    def gone(self, number: int, place: _Place) -> str:
        return (
            f"the {place.role} array of operation {number} ({self.label}) is gone: a sequence does not keep "
            "the arrays that it uses; keep them, or clear() the sequence and record with others"
        )


@dataclass(frozen=True)
class _HostArray:
    """A NumPy array of an upload or a download, as it was when it was recorded."""

    role: str
    label: str
    operation: int
    array: npt.NDArray[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def require_unchanged(self) -> None:
        """Raise ValueError if it was given another shape or dtype, or made read-only, since."""
        array, writes = self.array, self.label == "download"
        if array.dtype == self.dtype and array.shape == self.shape and not (writes and _is_read_only(array)):
            return
        read_only, writeable = "read-only " if _is_read_only(array) else "", "writeable " if writes else ""
        raise ValueError(
            f"the {self.role} array of operation {self.operation} ({self.label}) was changed after it was "
            f"recorded: it is now a {read_only}NumPy array of shape {array.shape} and type {array.dtype}; "
            f"accepted: as recorded, a {writeable}one of shape {self.shape} and type {self.dtype}"
        )

    def fill(self, arrived: Bytes) -> None:
        """Copy elements from contiguous bytes."""
        self.require_unchanged()
        target = np.asarray(self.array)
        _copy_elements(target, arrived.view(_opaque(target)).reshape(self.shape))

    def copy_to(self, staged: Bytes) -> None:
        """Copy the elements to contiguous bytes."""
        source = np.asarray(self.array)
        _copy_elements(staged.view(_opaque(source)).reshape(self.shape), source)


class Sequence:
    """Operations on arrays of one device, recorded once; made by :meth:`vkdml.Device.sequence`.

    >>> import numpy as np, vkdml
    >>> from vkdml import dml
    >>> device = vkdml.default_device()
    >>> x = dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))
    >>> y = dml.BufferTensorDesc(dml.DataType.UINT32, sizes=(2, 1))
    >>> argmax = device.compile(dml.ArgMaxOperatorDesc(x, y, axes=(1,)))
    >>> host, elements = np.float32([[1, 3, 2], [9, 8, 7]]), vkdml.empty((2, 3), np.float32)
    >>> sequence = device.sequence()
    >>> sequence.upload(elements, host)
    >>> indices = sequence.record(argmax, input=elements)
    >>> found = sequence.download(indices)
    >>> sequence.eval()
    <vkdml.Sequence of 3 operations>
    >>> found.numpy().tolist()
    [[1], [0]]
    >>> host[0] = 4, 3, 2
    >>> sequence.eval().timings()[0][0], found.numpy().tolist()
    ('upload', [[0], [0]])

    Operations take effect in the order in which they were recorded. Those of which one writes memory that
    the other uses wait for each other; others may overlap. Arrays given to it are not kept alive: evaluating
    after one is gone raises DeviceError. NumPy arrays of uploads and downloads are kept; uploads read theirs
    at each evaluation. An array on the device that a running sequence uses can be read and written at any
    time: the host waits for the sequence first.

    Each thread is to record and evaluate sequences of its own; any number of threads may wait for one.
    ``await sequence`` evaluates without blocking the event loop. As a context manager it waits at the end for
    what runs, and clears itself. Attributes are read-only.
    """

    __slots__ = (
        "__weakref__",
        "_awaited",
        "_device",
        "_downloads",
        "_evaluation",
        "_is_built",
        "_lock",
        "_measured",
        "_native",
        "_native_timestamps",
        "_outputs",
        "_recorded",
        "_timed",
        "_uploads",
    )

    def __init__(self, device: Device, *, timings: bool = True) -> None:
        """See :meth:`vkdml.Device.sequence`."""
        if not isinstance(device, Device):
            raise TypeError(f"device is {type_of(device)}; accepted: a vkdml.Device")
        if not isinstance(timings, bool | np.bool_):
            raise TypeError(f"timings is {type_of(timings)}; accepted: True and False")
        device.require_usable()
        _forget_what_is_done()
        self._device = device
        self._timed = bool(timings)
        self._lock = threading.Lock()
        self._recorded: list[_Recorded] = []
        self._uploads: list[tuple[_HostArray, Bytes]] = []
        self._downloads: list[Download] = []
        self._outputs: list[Array] = []
        self._native: NativeSequence | None = None
        self._native_timestamps = 0
        self._is_built = False
        # Of the last evaluation: each operation, and how many native ones it is.
        self._measured: tuple[tuple[str, int], ...] | None = None
        self._awaited = True
        self._evaluation = Evaluation(device.limits.tuning.spin_microseconds)

    @property
    def device(self) -> Device:
        """The device that evaluates it."""
        return self._device

    @property
    def running(self) -> bool:
        """Whether an evaluation is under way."""
        return not self._evaluation.is_done()

    def __len__(self) -> int:
        return len(self._recorded)

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sequence is bound to its device and cannot be copied or pickled: record another")

    def __repr__(self) -> str:
        count = len(self._recorded)
        state = ", running" if self._evaluation.under_way else ""
        return f"<vkdml.Sequence of {count} operation{'' if count == 1 else 's'}{state}>"

    # ---- recording -----------------------------------------------------------------------------------------

    def record(self, op: CompiledOperator, input: Array, output: Array | None = None) -> Array:
        """Record an operator on arrays, which are checked now.

        >>> x = vkdml.dml.BufferTensorDesc(vkdml.dml.DataType.UINT8, sizes=(4,))
        >>> reverse = vkdml.default_device().compile(vkdml.dml.Slice1OperatorDesc(x, x, (0,), (4,), (-1,)))
        >>> sequence, elements = reverse.device.sequence(), vkdml.asarray(np.uint8([1, 2, 3, 4]))
        >>> reversed_elements = sequence.record(reverse, input=elements)
        >>> sequence.eval()
        <vkdml.Sequence of 1 operation>
        >>> reversed_elements.tolist()
        [4, 3, 2, 1]

        Args:
            op: compiled for this sequence's device.
            input: as for ``dispatch``.
            output: as for ``dispatch``; a new array for None.

        Returns:
            The output, whose elements are there once the sequence was evaluated. A new one is kept by the
            sequence too.

        Raises:
            TypeError, ValueError, MemoryError: as ``dispatch``; then nothing is recorded.
            DeviceError: the sequence is running.

        Source of the rule: DirectML's ``IDMLCommandRecorder::RecordDispatch``.
        """
        if not isinstance(op, CompiledOperator):
            raise TypeError(
                f"op is {type_of(op)}; accepted: a CompiledOperator, made by device.compile(desc)"
            )
        if op.device is not self._device:
            raise ValueError(
                f"an operator of {op.device!r} cannot be recorded in a sequence of {self._device!r}; "
                "accepted are operators that the sequence's device compiled"
            )
        with self._lock:
            self._require_idle("record into")
            plan, regions, result = op.bind(input, output)
            written = result if output is None else output
            places = (
                _Place("input", ref(input.memory), None, regions["input"][1]),
                _Place(op.output_role, ref(written.memory), None, regions[op.output_role][1]),
            )
            self._append(self._dispatched(op.desc.operator, plan, places))
            if output is None:
                self._outputs.append(result)
        return result

    def upload(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Record that an array takes the elements that a NumPy array has at each evaluation.

        >>> a, host = vkdml.empty(2, np.int32), np.int32([1, 2])
        >>> sequence = a.device.sequence()
        >>> sequence.upload(a, host)
        >>> host[0] = 7
        >>> _ = sequence.eval()
        >>> a.tolist()
        [7, 2]

        Args:
            array: on this sequence's device, writeable, with at least one element; may be a view.
            host: of the same shape and dtype, any strides. It is read by ``eval`` and ``eval_async`` before
                they return, and may be changed as soon as they did.

        Raises:
            TypeError: not such arrays, or another dtype.
            ValueError: another device or shape, or a read-only array.
            MemoryError: no memory for the bytes under way.
            DeviceError: the sequence is running.
        """
        with self._lock:
            self._require_idle("record into")
            self._require_pair("upload", array, host, "host")
            if not array.writeable:
                raise ValueError("upload: array is a read-only view; accepted: a writeable Array")
            staging = self._staging(array)
            recorded = self._transfer("upload", array, staging)
            source = self._host_array("host", "upload", host)
            self._append(recorded)
            self._uploads.append((source, staging.view()[: array.nbytes]))

    def download(self, array: Array, out: npt.NDArray[Any] | None = None) -> Download:
        """Record that the elements an array has at this point are brought to the host.

        >>> a = vkdml.asarray([1, 2, 3])
        >>> sequence = a.device.sequence()
        >>> backwards = sequence.download(a[::-1])
        >>> _ = sequence.eval()
        >>> backwards.numpy()
        array([3, 2, 1])

        Args:
            array: on this sequence's device, with at least one element; may be a view.
            out: None, or a writeable NumPy array of the same shape and dtype, any strides. It is filled when
                an evaluation is found done: when ``eval`` or ``wait`` returns.

        Returns:
            A handle; its ``numpy()`` waits for the evaluation under way and returns the elements.

        Raises:
            TypeError, ValueError, MemoryError, DeviceError: as :meth:`upload`.
        """
        with self._lock:
            self._require_idle("record into")
            if out is None:
                self._require_array("download", array)
            else:
                self._require_pair("download", array, out, "out")
                if not out.flags.writeable:
                    raise ValueError("download: out is read-only; accepted: a writeable NumPy array")
            staging = self._staging(array)
            recorded = self._transfer("download", array, staging)
            target = None if out is None else self._host_array("out", "download", out)
            self._append(recorded)
            arrived = staging.view()[: array.nbytes]
            download = Download(self._evaluation, arrived, array.shape, array.dtype, target)
            self._downloads.append(download)
            return download

    def clear(self) -> None:
        """Forget all operations, so that others can be recorded; the last timings stay until then.

        Raises:
            DeviceError: the sequence is running.
        """
        with self._lock:
            self._require_idle("clear")
            self._recorded, self._uploads, self._downloads, self._outputs = [], [], [], []
            self._is_built = False

    def _append(self, recorded: _Recorded) -> None:
        self._recorded.append(recorded)
        self._is_built, self._measured = False, None

    def _host_array(self, role: str, label: str, array: npt.NDArray[Any]) -> _HostArray:
        return _HostArray(role, label, len(self._recorded), array, array.shape, array.dtype)

    def _dispatched(self, label: str, plan: Plan, places: tuple[_Place, ...]) -> _Recorded:
        executions = self._device.executions
        try:
            steps, workspace = executions.insist(
                lambda: (recordable_steps(executions, plan), workspace_for(executions, plan))
            )
        except MemoryError as error:
            raise executions.explained(error, plan) from None
        return _Recorded(label, places, steps, workspace)

    def _staging(self, array: Array) -> Buffer:
        try:
            return self._device.executions.buffer(array.nbytes, visible=True)
        except MemoryError as error:
            raise MemoryError(f"memory to bring {array.shape} {array.dtype} over: {error}") from None

    def _transfer(self, label: str, array: Array, staging: Buffer) -> _Recorded:
        """Return the upload or download of an array: a copy of bytes, or a kernel that knows its strides."""
        upload = label == "upload"
        packed = row_major_strides(array.shape), 0, array.size
        (_, offset), base, elements = array.binding
        if array.is_compact:
            offset = array.view.offset * array.itemsize
        lies = _Place("output" if upload else "input", ref(array.memory), None, offset)
        staged = _Place("input" if upload else "output", None, staging, 0)
        places = (staged, lies) if upload else (lies, staged)
        if array.is_compact:
            return _Recorded(label, places, copied_bytes=array.nbytes)
        strided = array.view.strides, base, elements
        (strides, base, elements), output = (packed, strided) if upload else (strided, packed)
        output_strides, output_base, output_elements = output
        plan = slice1_plan(
            array.shape,
            strides,
            base,
            elements,
            output_strides,
            array.itemsize,
            self._device.limits,
            output_base,
            output_elements,
        )
        return self._dispatched(label, plan, places)

    def _require_array(self, action: str, array: Any) -> None:
        if not isinstance(array, Array):
            raise TypeError(f"{action}: array is {type_of(array)}; accepted: a vkdml.Array")
        require_same_device(self._device, array.device)
        if not array.size:
            raise ValueError(
                f"{action}: array of shape {array.shape} has no elements; accepted: at least one"
            )

    def _require_pair(self, action: str, array: Any, host: Any, what: str) -> None:
        self._require_array(action, array)
        accepted = f"a NumPy array of shape {array.shape} and type {array.dtype}"
        if isinstance(host, np.ma.MaskedArray):
            raise TypeError(f"{action}: {what} has a mask; accepted: {accepted}, as its data attribute is")
        if not isinstance(host, np.ndarray):
            raise TypeError(f"{action}: {what} is {type_of(host)}; accepted: {accepted}")
        if host.dtype != array.dtype or host.shape != array.shape:
            error = TypeError if host.dtype != array.dtype else ValueError
            raise error(
                f"{action}: {what} is a NumPy array of shape {host.shape} and type {host.dtype}; "
                f"accepted: {accepted}"
            )

    def _require_idle(self, action: str) -> None:
        if self.running:
            raise DeviceError(f"cannot {action} a sequence that is running: wait() for it first")

    # ---- evaluating ----------------------------------------------------------------------------------------

    def eval(self) -> Sequence:
        """Evaluate all operations and wait; returns the sequence.

        Raises:
            DeviceError: it is empty or running, an array that it uses is gone, or the device failed.
            ValueError: a NumPy array of an upload or a download was given another shape or dtype, or was made
                read-only, after it was recorded.
            MemoryError: no memory to evaluate it; it stays as it is.
        """
        self.eval_async()
        self.wait()
        return self

    def eval_async(self) -> Sequence:
        """Start an evaluation and return at once; raises as :meth:`eval`.

        >>> a = vkdml.asarray([1.0, 2.0])
        >>> sequence = a.device.sequence()
        >>> ones = sequence.download(a)
        >>> sequence.eval_async().wait()
        True
        """
        with self._lock:
            self._start()
        return self

    def _start(self) -> None:
        self._require_idle("evaluate")
        self._device.require_usable()
        if not self._recorded:
            raise DeviceError("the sequence is empty: record() an operation first")
        self._device.require_usable()
        self._require_kept()
        for source, _ in self._uploads:
            source.require_unchanged()
        for download in self._downloads:
            download._require_unchanged()
        if self._evaluation.failed:
            self._native, self._is_built = None, False
        try:
            if not self._is_built:
                self._device.executions.insist(self._build)
            assert self._native is not None
            for source, staged in self._uploads:
                source.copy_to(staged)
            self._evaluation.start(self._native, tuple(self._downloads))
        except BaseException as error:
            # What has failed once is not used again.
            self._native, self._is_built = None, False
            if isinstance(error, MemoryError):
                raise MemoryError(
                    f"evaluating a sequence of {len(self._recorded)} operations: {error}"
                ) from None
            raise
        self._measured = tuple((recorded.label, recorded.native_operations) for recorded in self._recorded)
        self._awaited = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the evaluation under way.

        >>> vkdml.default_device().sequence().wait(timeout=0.5)  # nothing runs
        True

        Args:
            timeout: seconds, 0 or more; None and infinity have no limit. What runs goes on after a time-out:
                wait again.

        Returns:
            True when nothing runs any more, False on time-out.

        Raises:
            TypeError, ValueError: ``timeout`` is no such number.
            DeviceError: the device failed.
            ValueError: the ``out`` of a download cannot take the elements any more; said once.
        """
        return self._wait(_seconds(timeout))

    def _wait(self, timeout: float | None, spins: bool = True) -> bool:
        try:
            return self._evaluation.wait(timeout, spins)
        finally:
            if not self._evaluation.under_way:
                self._awaited = True

    def timings(self) -> list[tuple[str, float]]:
        """Return (operation, nanoseconds on the device) for each operation of the last evaluation.

        >>> a = vkdml.asarray([1, 2, 3])
        >>> with a.device.sequence() as sequence:
        ...     elements = sequence.download(a)
        ...     _ = sequence.eval()
        >>> [operation for operation, nanoseconds in sequence.timings()]
        ['download']

        Operations are named as DirectML's operators, ``upload`` and ``download``. Those that overlap are
        measured from begin to end each. They stay, after :meth:`clear` and a ``with`` block too, until
        something is recorded.

        Raises:
            DeviceError: the sequence has not been evaluated since something was recorded, is running, or
                was made with ``timings=False``; or the device has no timestamps.
        """
        if not self._timed:
            raise DeviceError("this sequence measures nothing: make it with device.sequence(timings=True)")
        if not self._device.info.queue_timestamp_bits:
            raise DeviceError(f"the compute queue of {self._device.name} has no timestamps")
        with self._lock:
            self._require_idle("read the timings of")
            if self._measured is None or self._native is None:
                raise DeviceError("the sequence has not been evaluated yet: eval() it first")
            measured = iter(self._native.timings())
            return [(label, sum(next(measured) for _ in range(count))) for label, count in self._measured]

    def __await__(self) -> Generator[Any, None, Sequence]:
        """Evaluate without blocking the event loop, or wait so for what :meth:`eval_async` started.

        >>> import asyncio
        >>> a = vkdml.asarray([1.0, 2.0])
        >>> sequence = a.device.sequence()
        >>> elements = sequence.download(a)
        >>> async def evaluated():
        ...     return await sequence
        >>> asyncio.run(evaluated()), elements.numpy()
        (<vkdml.Sequence of 1 operation>, array([1., 2.]))

        Cancelling harms nothing: what runs goes on, and can be waited for. Returns the sequence, raises as
        :meth:`eval`.
        """
        return self._evaluate_in_background().__await__()

    async def _evaluate_in_background(self) -> Sequence:
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self._evaluate_quietly)
        return self

    def _evaluate_quietly(self) -> None:
        with self._lock:
            if self._awaited:
                self._start()
        self._wait(None, spins=False)

    def __enter__(self) -> Sequence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.wait()
        finally:
            if not self._evaluation.under_way:
                self.clear()

    # While the interpreter ends, this module's names may be gone before the last sequence.
    def __del__(self, _left_running: set[Evaluation] = _left_running) -> None:
        evaluation = getattr(self, "_evaluation", None)
        if evaluation is not None and evaluation.under_way:
            _left_running.add(evaluation)

    def _require_kept(self) -> None:
        for number, recorded in enumerate(self._recorded):
            for place in recorded.places:
                if place.memory is not None and place.memory() is None:
                    raise DeviceError(recorded.gone(number, place))

    def _build(self) -> None:
        """Record what was recorded here in a native sequence."""
        operations = sum(recorded.native_operations for recorded in self._recorded)
        timestamps = operations if self._timed and self._device.info.queue_timestamp_bits else 0
        if self._native is None or self._native_timestamps < timestamps:
            self._native = None
            self._native = self._device.native.sequence(timestamps, False)
            self._native_timestamps = timestamps
        else:
            self._native.clear()
        for number, recorded in enumerate(self._recorded):
            recorded.record(self._native, number)
            for place in recorded.places:
                memory = None if place.memory is None else place.memory()
                if memory is not None:
                    memory.used_by(self._evaluation)
        self._is_built = True


class Download:
    """Elements that a sequence brings to the host; made by :meth:`Sequence.download`."""

    __slots__ = ("__weakref__", "_arrived", "_dtype", "_evaluation", "_fault", "_is_filled", "_out", "_shape")

    def __init__(
        self,
        evaluation: Evaluation,
        arrived: Bytes,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        out: _HostArray | None,
    ) -> None:
        self._evaluation = evaluation
        self._arrived = arrived
        self._is_filled = False
        self._fault: Callable[[], BaseException] | None = None
        self._shape = shape
        self._dtype = dtype
        self._out = out

    def numpy(self) -> npt.NDArray[Any]:
        """Return the elements of the last evaluation, once it is done: ``out``, or else a new array.

        Raises:
            DeviceError: the sequence was not evaluated since it was recorded, or the device failed.
            ValueError: ``out`` was given another shape or dtype, or was made read-only, after it was
                recorded, and did not take the elements.
        """
        self._evaluation.finish(None)
        if self._fault is not None:
            raise self._fault()
        if not self._is_filled:
            raise DeviceError("the sequence has not been evaluated since this was recorded: eval() it first")
        if self._out is not None:
            return self._out.array
        result = np.empty(self._shape, self._dtype)
        copy_bytes(result.reshape(-1).view(np.uint8), self._arrived)
        return result

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a download is part of its sequence and cannot be copied or pickled: take its numpy()"
        )

    def _require_unchanged(self) -> None:
        if self._out is not None:
            self._out.require_unchanged()

    def _deliver(self) -> Callable[[], BaseException] | None:
        """Note that the elements have arrived; return why ``out`` could not take them, if so."""
        self._fault = None
        try:
            if self._out is not None:
                self._out.fill(self._arrived)
            self._is_filled = True
        except Exception as error:
            self._fault = _another(error)
        return self._fault

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False and self._out is None:
            raise ValueError("a download is seen by NumPy as a copy; accepted are copy=None and True")
        host = self.numpy()
        wanted = host if dtype is None else host.astype(dtype, copy=False)
        return wanted.copy() if copy and wanted is host and self._out is not None else wanted


class Evaluation:
    """The evaluations of one sequence, one at a time, and the threads that wait for them.

    One thread waits for the device; others wait for that thread. What the device failed in is told to all who
    wait for this evaluation or read what it writes. What only a download failed in is told to those who
    wait for the sequence, once, and to those who ask for that download.
    """

    __slots__ = (
        "__weakref__",
        "_attendant",
        "_changed",
        "_downloads",
        "_error",
        "_native",
        "_spin_us",
        "_undelivered",
        "_under_way",
    )

    def __init__(self, spin_us: float) -> None:
        self._spin_us = spin_us
        self._changed = threading.Condition()
        self._native: NativeSequence | None = None
        self._downloads: tuple[Download, ...] = ()
        self._attendant: int | None = None
        self._error: Callable[[], BaseException] | None = None
        self._undelivered: Callable[[], BaseException] | None = None
        self._under_way = False

    @property
    def under_way(self) -> bool:
        """Whether it runs, as far as anybody has looked."""
        return self._under_way

    @property
    def failed(self) -> bool:
        """Whether the device failed in the last one."""
        return self._error is not None

    def start(self, native: NativeSequence, downloads: tuple[Download, ...]) -> None:
        """Submit; once it is done, each download delivers."""
        self._native, self._downloads = native, downloads
        self._error = self._undelivered = None
        native.submit()
        self._under_way = True

    def is_done(self) -> bool:
        """Look, without waiting, and without raising."""
        if self._under_way and self._attendant is None:
            with suppress(RuntimeError, MemoryError):  # the next to wait is told
                self.finish(0.0, spins=False)
        return not self._under_way

    def settle(self) -> None:
        """Wait until nothing runs; for those who use the same memory. Raises what the device failed in."""
        if self._under_way:
            self.finish(None)

    def wait(self, timeout: float | None, spins: bool = True) -> bool:
        """Wait as :meth:`finish`, for those who wait for the sequence: raises what a download failed in."""
        done = self.finish(timeout, spins)
        with self._changed:
            undelivered, self._undelivered = self._undelivered, None
        if undelivered is not None:
            raise undelivered()
        return done

    def finish(self, timeout: float | None, spins: bool = True) -> bool:
        """Wait, raising what the device failed in; False on time-out (seconds)."""
        end = None if timeout is None else time.monotonic() + timeout
        me = threading.get_ident()
        if self._attendant == me:
            raise DeviceError("this thread waits for the sequence already, below in its own stack")
        done = False
        try:
            if not self._attend(end, me):
                return not self._under_way
            assert self._native is not None
            left = None if end is None else max(end - time.monotonic(), 0.0)
            try:
                if self._native.wait(left, self._spin_us if spins else 0.0):
                    faults = [download._deliver() for download in self._downloads]
                    self._undelivered = next((fault for fault in faults if fault is not None), None)
                    done = True
            except DeviceLostError as error:  # any other leaves it running
                self._error = _another(error)
                done = True
                raise
            return done
        finally:
            if self._attendant == me:
                with self._changed:
                    self._attendant = None
                    if done:
                        self._under_way, self._downloads = False, ()
                    self._changed.notify_all()
                if done:
                    _left_running.discard(self)

    def _attend(self, end: float | None, me: int) -> bool:
        """Return True once this thread is to wait for the device, False when it need not or has no time."""
        with self._changed:
            while True:
                if not self._under_way:
                    if self._error is not None:
                        raise self._error()
                    return False
                if self._attendant is None:
                    self._attendant = me
                    return True
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)


def _forget_what_is_done() -> None:
    for evaluation in _left_running.copy():
        if evaluation.is_done():
            _left_running.discard(evaluation)


def _another(error: BaseException) -> Callable[[], BaseException]:
    """Return what makes errors like this one, for each who is told of it."""
    kind, arguments = type(error), error.args
    return lambda: kind(*arguments)


def _seconds(timeout: Any) -> float | None:
    """Return a time limit in seconds, None for no limit.

    Raises:
        TypeError, ValueError: it is none.
    """
    if timeout is None:
        return None
    accepted = "accepted: seconds, 0 or more, or None for no limit"
    number: Any = timeout
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"timeout is {type_of(number)}; {accepted}")
    if not timeout >= 0:  # nor is NaN
        raise ValueError(f"timeout is {timeout}; {accepted}")
    try:
        seconds = float(number)
    except OverflowError:
        return None
    return seconds if seconds <= threading.TIMEOUT_MAX else None


def _is_read_only(array: npt.NDArray[Any]) -> bool:
    return not array.flags.writeable


def _opaque(array: npt.NDArray[Any]) -> str:
    return f"V{array.itemsize}"


def _copy_elements(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy all bits of the elements of an array to another of its shape and element size."""
    if target.flags.c_contiguous and source.flags.c_contiguous:
        copy_bytes(target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8))
    else:
        target.view(_opaque(target))[...] = source.view(_opaque(source))


__all__ = ["Download", "Sequence"]
