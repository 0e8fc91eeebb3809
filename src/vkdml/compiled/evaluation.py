"""The evaluations of a sequence, and the threads that wait for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from vkdml.errors import DeviceError, DeviceLostError
from vkdml.runtime.recording import NativeSequence

# Makes a new exception for each thread: an exception that was raised holds the traceback of its thread.
Fault: TypeAlias = Callable[[], BaseException]
# Takes the elements that have arrived; returns a fault if it could not.
Delivery: TypeAlias = Callable[[], Fault | None]


def fault_from(error: BaseException) -> Fault:
    """Return the function that makes exceptions like this one."""
    kind, arguments = type(error), error.args
    return lambda: kind(*arguments)


class Evaluation:
    """The evaluations of one sequence, one at a time, and the threads that wait for them.

    One thread waits for the device, and the others wait for that thread. A fault of the device is raised in
    every thread that waits for the evaluation or reads what it writes. A fault of a download is raised once
    in a thread that waits for the sequence, and in every thread that asks for that download.
    """

    __slots__ = (
        "__weakref__",
        "_changed",
        "_deliveries",
        "_device_fault",
        "_download_fault",
        "_is_awaited",
        "_native",
        "_spin_us",
        "_under_way",
        "_waiting_thread",
    )

    def __init__(self, spin_us: float) -> None:
        self._spin_us = spin_us
        self._changed = threading.Condition()
        self._native: NativeSequence | None = None
        self._deliveries: tuple[Delivery, ...] = ()
        self._waiting_thread: int | None = None
        self._device_fault: Fault | None = None
        self._download_fault: Fault | None = None
        self._under_way = False
        self._is_awaited = True

    @property
    def is_awaited(self) -> bool:
        """Whether a thread has waited for the last evaluation and its downloads, or none has to."""
        return self._is_awaited and self._download_fault is None

    def need_not_be_awaited(self) -> None:
        """Let the next who awaits the sequence have it evaluated anew, if no fault of a download is left."""
        self._is_awaited = True

    def forget(self) -> None:
        """The same where the sequence is changed: nobody is told of such a fault any more."""
        self._is_awaited, self._download_fault = True, None

    @property
    def under_way(self) -> bool:
        """Whether the evaluation runs, as far as any thread has checked."""
        return self._under_way

    @property
    def failed(self) -> bool:
        """Whether the device failed in the last evaluation."""
        return self._device_fault is not None

    def start(self, native: NativeSequence, deliveries: tuple[Delivery, ...]) -> None:
        """Submit the sequence; the thread that finds it done calls the deliveries.

        If Ctrl-C comes here, the evaluation is under way: it may have been submitted.
        """
        self._native, self._deliveries = native, deliveries
        self._device_fault = self._download_fault = None
        self._under_way, self._is_awaited = True, False
        try:
            native.submit()
        except Exception:
            self._under_way, self._is_awaited, self._deliveries = False, True, ()
            raise

    def is_done(self) -> bool:
        """Return whether nothing runs; does not wait and does not raise."""
        if self._under_way and self._waiting_thread is None:
            with suppress(RuntimeError, MemoryError):  # the next thread that waits gets the error
                self.finish(0.0, spins=False)
        return not self._under_way

    def settle(self) -> None:
        """Wait until nothing runs, for threads that use the same memory; raise a fault of the device only."""
        if self._under_way:
            self.finish(None)

    def wait(self, timeout: float | None, spins: bool = True) -> bool:
        """Wait like :meth:`finish`, for threads that wait for the sequence; also raise a download's fault."""
        try:
            done = self.finish(timeout, spins)
        finally:
            self._is_awaited = self._is_awaited or not self._under_way
        with self._changed:
            fault, self._download_fault = self._download_fault, None
        if fault is not None:
            raise fault()
        return done

    def finish(self, timeout: float | None, spins: bool = True) -> bool:
        """Wait at most `timeout` seconds, raise a fault of the device; return whether nothing runs."""
        end = None if timeout is None else time.monotonic() + timeout
        me = threading.get_ident()
        if self._waiting_thread == me:
            raise DeviceError(
                "this thread already waits for the sequence, further up its call stack; accepted: a wait in "
                "another thread, or after that one returned"
            )
        done = False
        try:
            if not self._may_wait_for_device(end, me):
                return not self._under_way
            assert self._native is not None
            left = None if end is None else max(end - time.monotonic(), 0.0)
            try:
                if self._native.wait(left, self._spin_us if spins else 0.0):
                    faults = [deliver() for deliver in self._deliveries]
                    self._download_fault = next((fault for fault in faults if fault is not None), None)
                    done = True
            except DeviceLostError as error:  # after any other error the evaluation still runs
                self._device_fault = fault_from(error)
                done = True
                raise
            return done
        finally:
            if self._waiting_thread == me:
                with self._changed:
                    self._waiting_thread = None
                    if done:
                        self._under_way, self._deliveries = False, ()
                    self._changed.notify_all()
                if done:
                    left_running.discard(self)

    def _may_wait_for_device(self, end: float | None, me: int) -> bool:
        """Return True when this thread is the one to wait for the device; False if done or out of time."""
        with self._changed:
            while True:
                if not self._under_way:
                    if self._device_fault is not None:
                        raise self._device_fault()
                    return False
                if self._waiting_thread is None:
                    self._waiting_thread = me
                    return True
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)


# Running evaluations whose sequence was dropped. Memory refers to its evaluations weakly, and readers of that
# memory must still find them.
left_running: set[Evaluation] = set()


def discard_done() -> None:
    """Drop the evaluations that were left running and are done by now."""
    for evaluation in left_running.copy():
        if evaluation.is_done():
            left_running.discard(evaluation)
