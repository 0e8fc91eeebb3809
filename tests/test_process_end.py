"""The end of a process while drivers compile and devices compute in threads that nobody joins."""

from __future__ import annotations

import signal

import processes
import pytest

# A driver that keeps compiled kernels would not compile them here.
COLD = {"MESA_SHADER_CACHE_DISABLE": "1"}
# Some drivers compile a kernel when it is made, lavapipe when it is first run.
COMPILING = """
    import os, signal
    from vkdml.runtime.execution_cache import ExecutionCache
    x = np.random.default_rng(1).random((300, 300))
    device = vkdml.default_device()
    compiling, take = threading.Event(), ExecutionCache.take
    def tell_and_take(*given):
        compiling.set()
        return take(*given)
    ExecutionCache.take = tell_and_take
    def work(axis=0):
        while True:
            vkdml.argmax(x, axis)
    def in_the_background(axis):
        threading.Thread(target=work, args=(axis,), daemon=True).start()
    in_the_background(0)
    assert compiling.wait(60)
"""
MOMENTS = (0, 0.3, 0.4, 0.5, 0.6, 0.8)


@pytest.fixture(scope="module")
def compile_seconds():
    """How long the first call with a kernel takes on this machine, about."""
    return float(
        processes.printed(
            """
            x = np.random.default_rng(1).random((300, 300))
            device = vkdml.default_device()
            started = time.perf_counter()
            vkdml.argmax(x, 0)
            print(time.perf_counter() - started)
            """,
            **COLD,
        )
    )


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_may_end_while_a_daemon_thread_compiles_its_first_kernel(moment, compile_seconds):
    """What the compiler makes for itself meanwhile must not be destroyed under it."""
    processes.printed(f"{COMPILING}\n    time.sleep({moment * compile_seconds})", **COLD)


@pytest.mark.parametrize("moment", [0, 0.5])
def test_a_process_may_end_while_several_threads_compile_and_a_sequence_runs(moment, compile_seconds):
    processes.printed(
        f"""{COMPILING}
    in_the_background(1)
    in_the_background(None)
    sequence = device.sequence()
    host = np.zeros(1 << 20, np.uint8)
    array = vkdml.asarray(host)
    for _ in range(20):
        sequence.upload(array, host)
    sequence.eval_async()
    time.sleep({moment * compile_seconds})
    """,
        **COLD,
    )


def test_ctrl_c_ends_a_process_while_a_daemon_thread_compiles():
    done = processes.finished(
        f"{COMPILING}\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)", **COLD
    )
    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.endswith("KeyboardInterrupt\n")


def test_sys_exit_keeps_its_exit_code_while_a_daemon_thread_compiles():
    done = processes.finished(f"{COMPILING}\n    sys.exit(5)", **COLD)
    assert (done.returncode, done.stderr) == (5, "")


def test_a_forked_child_does_not_wait_for_the_threads_of_its_parent():
    script = f"""{COMPILING}
    child = os.fork()
    if child == 0:
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    # Python 3.12 and later warn of a fork in a process with threads.
    assert (
        processes.printed(f"    warnings.simplefilter('ignore', DeprecationWarning)\n{script}", **COLD)
        == "7\n"
    )


def test_exit_handlers_may_compute_in_all_threads():
    """Nothing is refused before Python itself has ended."""
    script = """
        import atexit
        end, found = threading.Event(), []
        def work():
            end.wait()
            found.append(int(vkdml.argmin([3, 1, 2])))
        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        def finish():
            end.set()
            worker.join(60)
            print(found, vkdml.argmax([1, 3, 2]))
        atexit.register(finish)
    """
    assert processes.printed(script) == "[1] 1\n"


def test_objects_that_live_to_the_last_end_in_silence():
    """While Python ends, modules lose their names before their objects are gone."""
    processes.printed("""
        class Kept:
            pass
        kept = Kept()
        device = vkdml.default_device()
        array = vkdml.asarray(np.arange(1 << 20))
        kept.everything = [array, array[::2], device, device.sequence()]
        for out in (None, np.empty(array.shape, array.dtype)):
            sequence = device.sequence()
            kept.everything += [sequence.download(array, out), sequence.eval_async(), vkdml.argmax(array)]
        kept.itself = kept
        sys.modules["kept to the last"] = kept
        sys.kept = kept
    """)
