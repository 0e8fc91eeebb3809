"""Recorded sequences: operators, uploads and downloads recorded once and evaluated any number of times."""

from __future__ import annotations

import threading
from collections.abc import Generator
from numbers import Real
from types import TracebackType
from typing import Any, NoReturn
from weakref import ref

import numpy as np
import numpy.typing as npt

from vkdml.arrays.array import Array
from vkdml.common.wording import wrong_type, wrong_value
from vkdml.compiled.evaluation import Evaluation, discard_done, left_running
from vkdml.compiled.operator import CompiledOperator
from vkdml.compiled.recorded import Place, RecordedOperation, recorded_dispatches
from vkdml.compiled.transfers import (
    Download,
    HostArray,
    recorded_transfer,
    require_array,
    require_pair,
    staging_buffer,
)
from vkdml.errors import DeviceError
from vkdml.runtime.device import Device
from vkdml.runtime.fixed_pipelines import RUNS_BETWEEN
from vkdml.runtime.memory import Bytes
from vkdml.runtime.recording import NativeSequence


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

    Operations take effect in the order in which they were recorded. An operation that writes memory is
    ordered against every other operation that uses the same memory; all others may overlap.

    The sequence does not keep device arrays alive: an evaluation after one was freed raises DeviceError. It
    keeps the NumPy arrays of uploads and downloads alive; each evaluation reads those of the uploads. Device
    arrays that a running sequence uses can be read and written at any time: the host waits for the sequence
    first.

    Each thread must record and evaluate its own sequences; any number of threads may wait for one.
    ``await sequence`` evaluates without blocking the event loop. A ``with`` block waits for the evaluation at
    its end and clears the sequence. Attributes are read-only.
    """

    __slots__ = (
        "__weakref__",
        "_device",
        "_downloads",
        "_evaluation",
        "_is_built",
        "_is_starting",
        "_lock",
        "_measured",
        "_native",
        "_native_timestamps",
        "_outputs",
        "_recorded",
        "_runs_left",
        "_timed",
        "_uploads",
    )

    def __init__(self, device: Device, *, timings: bool = True) -> None:
        """See :meth:`vkdml.Device.sequence`."""
        if not isinstance(device, Device):
            raise wrong_type("device", device, "a vkdml.Device")
        if not isinstance(timings, bool | np.bool_):
            raise wrong_type("timings", timings, "True and False")
        device.require_usable()
        discard_done()
        self._device = device
        self._timed = bool(timings)
        # A signal handler may use the sequence that its thread is using.
        self._lock = threading.RLock()
        self._is_starting = False
        self._recorded: list[RecordedOperation] = []
        self._uploads: list[tuple[HostArray, Bytes]] = []
        self._downloads: list[Download] = []
        self._outputs: list[Array] = []
        self._native: NativeSequence | None = None
        self._native_timestamps = 0
        self._is_built = False
        # Until operations take pipelines of their own; 0 or less: never.
        self._runs_left = device.limits.tuning.fixed_parameters_after
        # For each operation of the last evaluation: its label and its number of native operations.
        self._measured: tuple[tuple[str, int], ...] | None = None
        self._evaluation = Evaluation(device.limits.tuning.spin_microseconds)

    @property
    def device(self) -> Device:
        """The device that evaluates the sequence."""
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
        raise TypeError(
            "a sequence is bound to its device and cannot be copied or pickled; accepted: another sequence "
            "with the same operations"
        )

    def __repr__(self) -> str:
        count = len(self._recorded)
        state = ", running" if self._evaluation.under_way else ""
        return f"<vkdml.Sequence of {count} operation{'' if count == 1 else 's'}{state}>"

    # ---- recording -----------------------------------------------------------------------------------------

    def record(self, op: CompiledOperator, input: Array, output: Array | None = None) -> Array:
        """Record an operator on arrays; the arrays are checked at once.

        >>> x = vkdml.dml.BufferTensorDesc(vkdml.dml.DataType.UINT8, sizes=(4,))
        >>> reverse = vkdml.default_device().compile(vkdml.dml.Slice1OperatorDesc(x, x, (0,), (4,), (-1,)))
        >>> sequence, elements = reverse.device.sequence(), vkdml.asarray(np.uint8([1, 2, 3, 4]))
        >>> reversed_elements = sequence.record(reverse, input=elements)
        >>> sequence.eval()
        <vkdml.Sequence of 1 operation>
        >>> reversed_elements.tolist()
        [4, 3, 2, 1]

        Args:
            op: an operator that the sequence's device compiled.
            input: as for :meth:`CompiledOperator.dispatch`.
            output: as for :meth:`CompiledOperator.dispatch`; None allocates a new array.

        Returns:
            The output; each evaluation writes its elements. The sequence keeps a new one alive.

        Raises:
            TypeError, ValueError, MemoryError: as :meth:`CompiledOperator.dispatch`; nothing is recorded.
            DeviceError: the sequence is running.

        Source of the rule: DirectML's ``IDMLCommandRecorder::RecordDispatch``.
        """
        if not isinstance(op, CompiledOperator):
            raise wrong_type("op", op, "a CompiledOperator, made by device.compile(desc)")
        if op.device is not self._device:
            raise ValueError(
                f"an operator of {op.device!r} cannot be recorded in a sequence of {self._device!r}; "
                "accepted: operators that the sequence's device compiled"
            )
        with self._lock:
            self._require_idle("record into")
            plan, regions, result = op.bind(input, output)
            written = result if output is None else output
            places = (
                Place("input", ref(input.memory), None, regions["input"][1]),
                Place(op.output_role, ref(written.memory), None, regions[op.output_role][1]),
            )
            self._append(recorded_dispatches(self._device, op.desc.operator, plan, places))
            if output is None:
                self._outputs.append(result)
        return result

    def upload(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Record a copy from a NumPy array to a device array; each evaluation reads the NumPy array again.

        >>> a, host = vkdml.empty(2, np.int32), np.int32([1, 2])
        >>> sequence = a.device.sequence()
        >>> sequence.upload(a, host)
        >>> host[0] = 7
        >>> _ = sequence.eval()
        >>> a.tolist()
        [7, 2]

        Args:
            array: a writeable array on the sequence's device with at least one element; views are accepted.
            host: a NumPy array of the same shape and dtype, with any strides. ``eval`` and ``eval_async``
                read it before they return; it may be changed after that.

        Raises:
            TypeError: not such arrays, or another dtype.
            ValueError: another device or shape, or a read-only array.
            MemoryError: no memory for the staging buffer.
            DeviceError: the sequence is running.
        """
        with self._lock:
            self._require_idle("record into")
            require_pair(self._device, "upload", array, host, "host")
            if not array.writeable:
                raise ValueError("upload: array is a read-only view; accepted: a writeable Array")
            staging = staging_buffer(self._device, array)
            recorded = recorded_transfer(self._device, "upload", array, staging)
            source = self._host_array("host", "upload", host)
            self._append(recorded)
            self._uploads.append((source, staging.view()[: array.nbytes]))

    def download(self, array: Array, out: npt.NDArray[Any] | None = None) -> Download:
        """Record a copy to the host of the elements that a device array has at this point of the sequence.

        >>> a = vkdml.asarray([1, 2, 3])
        >>> sequence = a.device.sequence()
        >>> backwards = sequence.download(a[::-1])
        >>> _ = sequence.eval()
        >>> backwards.numpy()
        array([3, 2, 1])

        Args:
            array: an array on the sequence's device with at least one element; views are accepted.
            out: None, or a writeable NumPy array of the same shape and dtype, with any strides. It has the
                elements when ``eval`` or ``wait`` returns.

        Returns:
            A handle whose ``numpy()`` waits for the evaluation and returns the elements.

        Raises:
            TypeError, ValueError, MemoryError, DeviceError: as :meth:`upload`.
        """
        with self._lock:
            self._require_idle("record into")
            if out is None:
                require_array(self._device, "download", array)
            else:
                require_pair(self._device, "download", array, out, "out")
                if not out.flags.writeable:
                    raise ValueError("download: out is read-only; accepted: a writeable NumPy array")
            staging = staging_buffer(self._device, array)
            recorded = recorded_transfer(self._device, "download", array, staging)
            target = None if out is None else self._host_array("out", "download", out)
            self._append(recorded)
            arrived = staging.view()[: array.nbytes]
            download = Download(self._device, self._evaluation, arrived, array.shape, array.dtype, target)
            self._downloads.append(download)
            return download

    def clear(self) -> None:
        """Remove all operations; the timings stay until something is recorded.

        >>> a = vkdml.asarray([1, 2, 3])
        >>> sequence = a.device.sequence()
        >>> _ = sequence.download(a)
        >>> sequence.clear()
        >>> len(sequence)
        0

        Raises:
            DeviceError: the sequence is running.
        """
        with self._lock:
            self._require_idle("clear")
            self._recorded, self._uploads, self._downloads, self._outputs = [], [], [], []
            self._is_built = False
            self._evaluation.forget()

    def _append(self, recorded: RecordedOperation) -> None:
        self._recorded.append(recorded)
        self._is_built, self._measured = False, None
        self._evaluation.forget()
        self._runs_left = self._device.limits.tuning.fixed_parameters_after

    def _take_fixed_pipelines(self) -> None:
        """Let operations go over to pipelines of their own where these are built; have the others built."""
        executions = self._device.executions
        recorded = [each.with_fixed_pipelines(executions) for each in self._recorded]
        if any(new is not old for new, old in zip(recorded, self._recorded, strict=True)):
            self._recorded, self._is_built = recorded, False
        if any(each.shared for each in recorded):
            self._runs_left = RUNS_BETWEEN

    def _host_array(self, role: str, label: str, array: npt.NDArray[Any]) -> HostArray:
        return HostArray(role, label, len(self._recorded), array, array.shape, array.dtype)

    def _require_idle(self, action: str) -> None:
        if self._is_starting:
            raise DeviceError(
                f"cannot {action} a sequence whose evaluation this thread is starting, further up its call "
                "stack; accepted: a call after that one returned"
            )
        if self.running:
            raise DeviceError(f"cannot {action} a sequence that is running: wait() for it first")

    # ---- evaluating ----------------------------------------------------------------------------------------

    def eval(self) -> Sequence:
        """Evaluate all operations, wait, and return the sequence.

        >>> a = vkdml.asarray([1.0, 2.0])
        >>> sequence = a.device.sequence()
        >>> elements = sequence.download(a)
        >>> sequence.eval()
        <vkdml.Sequence of 1 operation>

        Raises:
            DeviceError: the sequence is empty or running, an array that it uses was freed, or the device
                failed.
            ValueError: a NumPy array of an upload or a download has another shape or dtype than when it was
                recorded, or was made read-only.
            MemoryError: no memory for the evaluation; the sequence stays as it is.
        """
        self.eval_async()
        self.wait()
        return self

    def eval_async(self) -> Sequence:
        """Start an evaluation and return the sequence at once; raises as :meth:`eval`.

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
        for number, recorded in enumerate(self._recorded):
            recorded.require_arrays(number)
        for source, _ in self._uploads:
            source.require_unchanged()
        for download in self._downloads:
            download.require_unchanged()
        if self._evaluation.failed:
            self._native, self._is_built = None, False
        self._runs_left -= 1
        if not self._runs_left:
            self._take_fixed_pipelines()
        self._is_starting = True
        try:
            if not self._is_built:
                self._device.executions.insist(self._build)
            assert self._native is not None
            for source, staged in self._uploads:
                source.copy_to(staged)
            labels = ((recorded.label, recorded.native_operations) for recorded in self._recorded)
            self._measured = tuple(labels)
            self._evaluation.start(self._native, tuple(download.deliver for download in self._downloads))
        except BaseException as error:
            if self._evaluation.under_way:  # Ctrl-C came after the submission
                raise
            # A native sequence that failed is not used again.
            self._native, self._is_built = None, False
            self._evaluation.need_not_be_awaited()
            if isinstance(error, MemoryError):
                raise MemoryError(
                    f"evaluating a sequence of {len(self._recorded)} operations: {error}"
                ) from None
            raise
        finally:
            self._is_starting = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the evaluation that runs.

        >>> vkdml.default_device().sequence().wait(timeout=0.5)  # nothing runs
        True

        Args:
            timeout: seconds, 0 or more; None and infinity wait without a limit. After a time-out the
                evaluation goes on, and can be waited for again.

        Returns:
            True when nothing runs any more, False on a time-out.

        Raises:
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is negative or NaN; or the ``out`` of a download cannot take the elements
                any more, which is raised once.
            DeviceError: the device failed.
        """
        return self._evaluation.wait(_seconds(timeout))

    def timings(self) -> list[tuple[str, float]]:
        """Return (operation, nanoseconds on the device) for each operation of the last evaluation.

        >>> a = vkdml.asarray([1, 2, 3])
        >>> with a.device.sequence() as sequence:
        ...     elements = sequence.download(a)
        ...     _ = sequence.eval()
        >>> [operation for operation, nanoseconds in sequence.timings()]
        ['download']

        An operation has the name of its DirectML operator, ``upload`` or ``download``. Each is timed from its
        own begin to its own end, also when operations overlap. Timings stay after :meth:`clear` and after a
        ``with`` block, until something is recorded.

        Raises:
            DeviceError: the sequence is running, was not evaluated after something was recorded, or was made
                with ``timings=False``; or the device has no timestamps.
        """
        if not self._timed:
            raise DeviceError("this sequence has no timings: make it with device.sequence(timings=True)")
        if not self._device.info.queue_timestamp_bits:
            raise DeviceError(f"the compute queue of {self._device.name} has no timestamps")
        with self._lock:
            self._require_idle("read the timings of")
            if self._measured is None or self._native is None:
                raise DeviceError(
                    "the sequence has not been evaluated since something was recorded: call its eval() first"
                )
            measured = iter(self._native.timings())
            return [(label, sum(next(measured) for _ in range(count))) for label, count in self._measured]

    def __await__(self) -> Generator[Any, None, Sequence]:
        """Evaluate without blocking the event loop; after :meth:`eval_async`, wait for that evaluation.

        That is done once: after ``wait``, another ``await`` or a download's ``numpy``, or if something was
        recorded or cleared since, ``await`` evaluates anew. Reading an Array does not count.

        >>> import asyncio
        >>> a = vkdml.asarray([1.0, 2.0])
        >>> sequence = a.device.sequence()
        >>> elements = sequence.download(a)
        >>> async def evaluated():
        ...     return await sequence
        >>> asyncio.run(evaluated()), elements.numpy()
        (<vkdml.Sequence of 1 operation>, array([1., 2.]))

        A cancelled ``await`` does not stop the evaluation, which can be waited for again. Returns the
        sequence, raises as :meth:`eval`.
        """
        return self._evaluate_in_background().__await__()

    async def _evaluate_in_background(self) -> Sequence:
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self._evaluate_without_spinning)
        return self

    def _evaluate_without_spinning(self) -> None:
        with self._lock:
            if self._evaluation.is_awaited:
                self._start()
        self._evaluation.wait(None, spins=False)

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

    # The default argument keeps the set reachable while the interpreter ends and clears this module's names.
    def __del__(self, _left_running: set[Evaluation] = left_running) -> None:
        evaluation = getattr(self, "_evaluation", None)
        if evaluation is not None and evaluation.under_way:
            _left_running.add(evaluation)

    def _build(self) -> None:
        """Record the operations in a native sequence."""
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


def _seconds(timeout: Any) -> float | None:
    """Return a time limit in seconds; None for no limit.

    Raises:
        TypeError: it is not a number.
        ValueError: it is negative or NaN.
    """
    if timeout is None:
        return None
    accepted = "seconds, 0 or more, or None for no limit"
    number: Any = timeout
    if isinstance(number, bool) or not isinstance(number, Real):
        raise wrong_type("timeout", number, accepted)
    if not timeout >= 0:  # NaN compares as False
        raise wrong_value("timeout", timeout, accepted)
    try:
        seconds = float(number)
    except OverflowError:
        return None
    return seconds if seconds <= threading.TIMEOUT_MAX else None


__all__ = ["Download", "Sequence"]
