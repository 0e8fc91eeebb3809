"""Faults that may cost a process its life: bad drivers, start methods, ends, signals, too little memory."""

from __future__ import annotations

import ctypes.util
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import processes
import pytest
from needs import missing

NO_DRIVER = r"the Vulkan loader found no usable driver|no Vulkan driver offers a device|could not be started"


def manifest(folder: Path, library: str) -> str:
    path = folder / "driver.json"
    path.write_text(
        json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": library, "api_version": "1.1.0"}})
    )
    return str(path)


def bad_driver(kind: str, folder: Path) -> str:
    """The manifest of a driver that cannot be used."""
    if kind == "missing library":
        return manifest(folder, str(folder / "libmissing.so"))
    if kind == "no library":
        (folder / "libtext.so").write_text("this is text")
        return manifest(folder, str(folder / "libtext.so"))
    if kind == "another library":
        return manifest(folder, ctypes.util.find_library("m") or "libm.so.6")
    (folder / "driver.json").write_text("{ this is not JSON")
    return str(folder / "driver.json")


BAD_DRIVERS = ("missing library", "no library", "another library", "damaged manifest")


@pytest.mark.parametrize("kind", BAD_DRIVERS)
def test_a_driver_that_cannot_be_loaded_is_named_error_and_remedy(kind, tmp_path):
    path = bad_driver(kind, tmp_path)
    done = processes.finished(
        """
        for attempt in (vkdml.devices, vkdml.Device, lambda: vkdml.slice1([1, 2], (0,), (2,), (1,))):
            try:
                attempt()
            except vkdml.NoDeviceError as error:
                print(error)
        """,
        VK_DRIVER_FILES=path,
        VK_ICD_FILENAMES=path,
    )
    # The loader may say something of its own on the error output.
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout
    for line in lines:
        assert any(words in line for words in NO_DRIVER.split("|")), line
        if kind == "damaged manifest":
            assert f"is damaged ({path}): reinstall that driver, or remove the file" in line
        else:
            assert f"VK_DRIVER_FILES names {path}, which gives no usable driver: unset it" in line


def test_a_driver_that_cannot_be_loaded_does_not_disturb_another(tmp_path):
    good = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if not good:
        missing(
            "the loader finds the driver by itself, so none can be put beside it: no driver was asked for"
        )
    both = f"{bad_driver('no library', tmp_path)}:{good}"
    done = processes.finished("print(vkdml.argmax([1, 3, 2]))", VK_DRIVER_FILES=both, VK_ICD_FILENAMES=both)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_not_forked_compute(method):
    script = f"""
        import multiprocessing
        assert vkdml.argmax([1, 3, 2]) == 1
        with multiprocessing.get_context("{method}").Pool(2) as pool:
            print(*pool.map(vkdml.argmin, [[3, 1], [1, 3], [5, 4, 3]], chunksize=1))
        assert vkdml.argmax([1, 2, 3]) == 2
    """
    assert processes.printed(script, VKDML_DEVICE="0") == "1 0 2\n"


def test_a_forked_child_ends_as_any_process_while_the_parent_computes():
    """The child tears down a sequence in flight, and an execution kept for another call."""
    assert (
        processes.printed("""
            import os, native_work
            device = vkdml.Device()
            assert vkdml.argmax([1, 3, 2], device=device) == 1
            sequence = native_work.long_sequence(device, 0.6)
            sequence.submit()
            child = os.fork()
            if child == 0:
                for attempt in (sequence.wait, sequence.submit, sequence.clear, device.trim):
                    try:
                        attempt()
                    except vkdml.DeviceError as error:
                        assert "forked" in str(error) or "running" in str(error), error
                del sequence
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            assert sequence.wait(60)
            assert vkdml.argmax([1, 3, 4], device=device) == 2
        """)
        == "7\n"
    )


AT_THE_END = {
    "at once": "",
    "busy": """
class Busy:
    def __del__(self):
        end = time.perf_counter() + 0.3
        while time.perf_counter() < end:
            pass
sys.modules["kept to the last"] = Busy()
""",
    "asleep": """
class Asleep:
    def __del__(self):
        time.sleep(0.3)
sys.modules["kept to the last"] = Asleep()
""",
}


@pytest.mark.parametrize(
    ("work", "end"),
    [
        ("one long wait", "at once"),
        ("one long wait", "asleep"),
        ("many short waits", "busy"),
        ("calls", "busy"),
        ("calls", "at once"),
    ],
)
def test_the_interpreter_may_end_while_a_daemon_thread_waits(work, end):
    """A thread that cannot have the GIL back must not take the process with it."""
    processes.printed(f"""
import native_work
device = vkdml.Device()
sequence = native_work.long_sequence(device, {0.6 if work == "one long wait" else 0.05})
x = np.arange(1 << 20, dtype=np.float32)
begun = threading.Event()
def work():
    if {work == "one long wait"}:
        sequence.submit()
        begun.set()
        sequence.wait(spin_us=0)
    while True:
        begun.set()
        sequence.eval(spin_us=0) if {work != "calls"} else vkdml.argmax(x, device=device)
threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(0.1)
{AT_THE_END[end]}
""")


def test_sys_exit_and_an_exception_with_work_in_flight_keep_their_exit_codes():
    start = """
        import native_work
        sequence = native_work.long_sequence(vkdml.Device(), 0.3)
        sequence.submit()
    """
    assert processes.finished(start + "    sys.exit(5)").returncode == 5
    done = processes.finished(start + "    raise RuntimeError('the user failed')")
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: the user failed\n")


def test_ctrl_c_at_any_moment_of_a_call_leaves_the_device_usable():
    lines = processes.printed("""
        import gc, random, signal
        device = vkdml.Device()
        x = np.random.default_rng(1).standard_normal((300, 1000)).astype(np.float32)
        window = x[20:280][::-1, ::2]
        expected = x.argmax(axis=1)
        rows = lambda: vkdml.argmax(x, axis=1, device=device)
        part = lambda: vkdml.slice1(x, (20, 0), (260, 1000), (-1, 2), device=device)
        started = time.perf_counter()
        rows(), part()  # kernels are built here
        rows(), part()
        started = time.perf_counter()
        rows(), part()
        usual = time.perf_counter() - started
        random.seed(1)
        interrupted = 0
        for _ in range(150):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, usual))
                rows(), part()
                time.sleep(2 * usual)
            except KeyboardInterrupt:
                interrupted += 1
            assert np.array_equal(rows(), expected)
            assert np.array_equal(part(), window)
        del part, rows
        device.trim()
        gc.collect()
        print(interrupted, device.memory()["used"], device.memory()["pooled"])
    """)
    assert lines == "150 0 0\n"


def test_ctrl_c_during_a_timed_wait_and_a_second_one_during_the_next():
    script = """
        import native_work
        sequence = native_work.long_sequence(vkdml.Device(), 1)
        sequence.submit()
        for wait in (lambda: sequence.wait(timeout=60), sequence.wait):
            print("waiting", flush=True)
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        assert sequence.wait(60)
        assert sequence.eval(60)  # the sequence is as it was before
    """
    with subprocess.Popen(
        processes.command(script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(2):
            assert process.stdout.readline() == "waiting\n"
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
        assert process.wait(processes.TIMEOUT_SECONDS) == 0, process.stderr.read()


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer needs all of the address space")
@pytest.mark.skipif("TSAN_OPTIONS" in os.environ, reason="ThreadSanitizer needs all of the address space")
def test_a_process_that_may_not_have_more_memory_gets_memory_error_and_goes_on():
    lines = processes.printed("""
        import gc, pathlib, resource
        device = vkdml.Device()
        x = np.arange(8 << 20, dtype=np.float32)
        rows = x.reshape(1024, -1)
        actions = {
            "argmax": lambda: vkdml.argmax(x, device=device),
            "argmin": lambda: vkdml.argmin(rows, axis=0, return_values=True, device=device),
            "slice1": lambda: vkdml.slice1(x, (0,), (x.size,), (-1,), device=device),
        }
        for action in actions.values():
            action()  # kernels are built with memory enough: compilers end the process without it
        device.trim()
        held = device.memory()["used"]
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        no_limit = resource.getrlimit(resource.RLIMIT_AS)
        for name, action in actions.items():
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20), no_limit[1]))
            try:
                action()
                print(name, "found memory")
            except MemoryError as error:
                print(name, "refused", len(str(error)) > 0)
                del error
            resource.setrlimit(resource.RLIMIT_AS, no_limit)
            gc.collect()
            device.trim()
            assert device.memory()["used"] == held
            action()
            assert vkdml.argmax(x, device=device) == x.size - 1
            device.trim()
        print(device.native.imports_host_memory)
    """)
    *lines, imports = lines.splitlines()
    # What reads the array where it lies needs no other memory for it; results do.
    reduced = "found memory" if imports == "True" else "refused True"
    assert lines == [f"argmax {reduced}", f"argmin {reduced}", "slice1 refused True"]
