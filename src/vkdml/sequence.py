"""Recorded sequences: operators, uploads and downloads recorded once and evaluated any number of times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from vkdml import _native
from vkdml.array import Array
from vkdml.array_ops import require_same_device
from vkdml.compiled import CompiledOperator
from vkdml.device import Device
from vkdml.errors import DeviceError
from vkdml.execute import RecordableStep, record_steps, recordable_steps, workspace_for
from vkdml.host import copy_bytes
from vkdml.layout import row_major_strides
from vkdml.memory import Bytes, Memory
from vkdml.plan import Plan
from vkdml.planning import slice1_plan


@dataclass(frozen=True)
class _Place:
    """A byte in memory that a recorded operation uses: an array's, which it does not keep, or staging."""

    role: str
    memory: ref[Memory] | None
    staging: _native.Buffer | None
    offset: int

    def region(self) -> tuple[_native.Buffer, int] | None:
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
    workspace: _native.Buffer | None = None
    copied_bytes: int = 0

    @property
    def native_operations(self) -> int:
        return len(self.steps) or 1

    def record(self, sequence: _native.Sequence, number: int) -> None:
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
    what runs, and clears itself.
    """

    def __init__(self, device: Device, *, timings: bool = True) -> None:
        """See :meth:`vkdml.Device.sequence`."""
        device.require_usable()
        _forget_what_is_done()
        self._device = device
        self._timed = bool(timings)
        self._lock = threading.Lock()
        self._recorded: list[_Recorded] = []
        self._uploads: list[tuple[npt.NDArray[Any], Bytes]] = []
        self._downloads: list[Download] = []
        self._outputs: list[Array] = []
        self._native: _native.Sequence | None = None
        self._native_timestamps = 0
        self._is_built = False
        self._evaluated = False
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
                f"op is a {type(op).__name__}; accepted: a CompiledOperator, made by device.compile(desc)"
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
            self._append(self._transfer("upload", array, staging))
            self._uploads.append((host, staging.view()[: array.nbytes]))

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
            self._append(self._transfer("download", array, staging))
            arrived = staging.view()[: array.nbytes]
            download = Download(self._evaluation, arrived, array.shape, array.dtype, out)
            self._downloads.append(download)
            return download

    def clear(self) -> None:
        """Forget all operations, so that others can be recorded.

        Raises:
            DeviceError: the sequence is running.
        """
        with self._lock:
            self._require_idle("clear")
            self._recorded, self._uploads, self._downloads, self._outputs = [], [], [], []
            self._is_built = self._evaluated = False

    def _append(self, recorded: _Recorded) -> None:
        self._recorded.append(recorded)
        self._is_built = self._evaluated = False

    def _dispatched(self, label: str, plan: Plan, places: tuple[_Place, ...]) -> _Recorded:
        executions = self._device.executions
        try:
            steps, workspace = executions.insist(
                lambda: (recordable_steps(executions, plan), workspace_for(executions, plan))
            )
        except MemoryError as error:
            raise executions.explained(error, plan) from None
        return _Recorded(label, places, steps, workspace)

    def _staging(self, array: Array) -> _native.Buffer:
        try:
            return self._device.executions.buffer(array.nbytes, _native.MemoryKind.host)
        except MemoryError as error:
            raise MemoryError(f"memory to bring {array.shape} {array.dtype} over: {error}") from None

    def _transfer(self, label: str, array: Array, staging: _native.Buffer) -> _Recorded:
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
            raise TypeError(f"{action}: array is a {type(array).__name__}; accepted: a vkdml.Array")
        require_same_device(self._device, array.device)
        if not array.size:
            raise ValueError(
                f"{action}: array of shape {array.shape} has no elements; accepted: at least one"
            )

    def _require_pair(self, action: str, array: Any, host: Any, what: str) -> None:
        self._require_array(action, array)
        accepted = f"a {array.dtype} NumPy array of shape {array.shape}"
        if not isinstance(host, np.ndarray):
            raise TypeError(f"{action}: {what} is a {type(host).__name__}; accepted: {accepted}")
        if host.dtype != array.dtype or host.shape != array.shape:
            error = TypeError if host.dtype != array.dtype else ValueError
            raise error(
                f"{action}: {what} is a {host.dtype} array of shape {host.shape}; accepted: {accepted}"
            )

    def _require_idle(self, action: str) -> None:
        if self.running:
            raise DeviceError(f"cannot {action} a sequence that is running: wait() for it first")

    # ---- evaluating ----------------------------------------------------------------------------------------

    def eval(self) -> Sequence:
        """Evaluate all operations and wait; returns the sequence.

        Raises:
            DeviceError: it is empty or running, an array that it uses is gone, or the device failed.
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
        self._require_kept()
        if self._evaluation.failed:
            self._native, self._is_built = None, False
        try:
            if not self._is_built:
                self._device.executions.insist(self._build)
            assert self._native is not None
            for host, staged in self._uploads:
                _copy_elements(staged.view(_opaque(host)).reshape(host.shape), host)
            self._evaluation.start(self._native, tuple(self._downloads))
        except BaseException as error:
            # What has failed once is not used again.
            self._native, self._is_built = None, False
            if isinstance(error, MemoryError):
                raise MemoryError(
                    f"evaluating a sequence of {len(self._recorded)} operations: {error}"
                ) from None
            raise
        self._evaluated, self._awaited = True, False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the evaluation under way.

        >>> vkdml.default_device().sequence().wait(timeout=0.5)  # nothing runs
        True

        Args:
            timeout: seconds; None has no limit. What runs goes on after a time-out: wait again.

        Returns:
            True when nothing runs any more, False on time-out.

        Raises:
            DeviceError: the device failed.
        """
        done = self._evaluation.wait(timeout)
        if done:
            self._awaited = True
        return done

    def timings(self) -> list[tuple[str, float]]:
        """Return (operation, nanoseconds on the device) for each operation of the last evaluation.

        Operations are named as DirectML's operators, ``upload`` and ``download``. Those that overlap are
        measured from begin to end each.

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
            if not self._evaluated or self._native is None:
                raise DeviceError("the sequence has not been evaluated yet: eval() it first")
            measured = iter(self._native.timings())
        return [
            (recorded.label, sum(next(measured) for _ in range(recorded.native_operations)))
            for recorded in self._recorded
        ]

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
        self._evaluation.wait(None, spins=False)
        self._awaited = True

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

    def __del__(self) -> None:
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

    def __init__(
        self,
        evaluation: Evaluation,
        arrived: Bytes,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        out: npt.NDArray[Any] | None,
    ) -> None:
        self._evaluation = evaluation
        self._arrived = arrived
        self._is_filled = False
        self._shape = shape
        self._dtype = dtype
        self._out = out

    def numpy(self) -> npt.NDArray[Any]:
        """Return the elements of the last evaluation, once it is done: ``out``, or else a new array.

        Raises:
            DeviceError: the sequence was not evaluated since it was recorded, or the device failed.
        """
        self._evaluation.wait(None)
        if not self._is_filled:
            raise DeviceError("the sequence has not been evaluated since this was recorded: eval() it first")
        if self._out is not None:
            return self._out
        result = np.empty(self._shape, self._dtype)
        copy_bytes(result.reshape(-1).view(np.uint8), self._arrived)
        return result

    def deliver(self) -> None:
        """Note that the elements have arrived; the evaluation calls it."""
        if self._out is not None:
            _copy_elements(self._out, self._arrived.view(_opaque(self._out)).reshape(self._shape))
        self._is_filled = True

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False and self._out is None:
            raise ValueError("a download is seen by NumPy as a copy; accepted are copy=None and True")
        host = self.numpy()
        wanted = host if dtype is None else host.astype(dtype, copy=False)
        return wanted.copy() if copy and wanted is self._out else wanted


class Evaluation:
    """The evaluations of one sequence, one at a time, and the threads that wait for them.

    One thread waits for the device; others wait for that thread.
    """

    def __init__(self, spin_us: float) -> None:
        self._spin_us = spin_us
        self._changed = threading.Condition()
        self._native: _native.Sequence | None = None
        self._downloads: tuple[Download, ...] = ()
        self._attendant: int | None = None
        self._error: Callable[[], BaseException] | None = None
        self.under_way = False
        """As far as anybody has looked."""

    @property
    def failed(self) -> bool:
        """Whether the last one did."""
        return self._error is not None

    def start(self, native: _native.Sequence, downloads: tuple[Download, ...]) -> None:
        """Submit; once it is done, each download delivers."""
        self._native, self._downloads, self._error = native, downloads, None
        native.submit()
        self.under_way = True

    def is_done(self) -> bool:
        """Look, without waiting, and without raising."""
        if self.under_way and self._attendant is None:
            with suppress(RuntimeError):  # the next to wait is told
                self.wait(0.0, spins=False)
        return not self.under_way

    def settle(self) -> None:
        """Wait until nothing runs."""
        if self.under_way:
            self.wait(None)

    def wait(self, timeout: float | None, spins: bool = True) -> bool:
        """Wait, raising what the evaluation raised; False on time-out (seconds)."""
        end = None if timeout is None else time.monotonic() + timeout
        me = threading.get_ident()
        if self._attendant == me:
            raise DeviceError("this thread waits for the sequence already, below in its own stack")
        done = False
        try:
            if not self._attend(end, me):
                return not self.under_way
            assert self._native is not None
            left = None if end is None else max(end - time.monotonic(), 0.0)
            try:
                if self._native.wait(left, self._spin_us if spins else 0.0):
                    for download in self._downloads:
                        download.deliver()
                    done = True
            except RuntimeError as error:
                kind, arguments = type(error), error.args
                self._error = lambda: kind(*arguments)
                done = True
                raise
            return done
        finally:
            if self._attendant == me:
                with self._changed:
                    self._attendant = None
                    if done:
                        self.under_way, self._downloads = False, ()
                    self._changed.notify_all()
                if done:
                    _left_running.discard(self)

    def _attend(self, end: float | None, me: int) -> bool:
        """Return True once this thread is to wait for the device, False when it need not or has no time."""
        with self._changed:
            while True:
                if not self.under_way:
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


# Evaluations whose sequence was dropped: whoever reads what they write must still find them.
_left_running: set[Evaluation] = set()


def _forget_what_is_done() -> None:
    for evaluation in tuple(_left_running):
        if evaluation.is_done():
            _left_running.discard(evaluation)


def _opaque(array: npt.NDArray[Any]) -> str:
    return f"V{array.itemsize}"


def _copy_elements(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy all bits of the elements of an array to another of its shape and element size."""
    if target.flags.c_contiguous and source.flags.c_contiguous:
        copy_bytes(target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8))
    else:
        target.view(_opaque(target))[...] = source.view(_opaque(source))


__all__ = ["Download", "Sequence"]
