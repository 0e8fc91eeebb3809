"""Calls of Vulkan in a forked child: a clear error."""

from __future__ import annotations

import processes


def test_a_forked_child_gets_a_clear_error_not_a_hang():
    processes.printed("""
        import os
        kept = vkdml.Device()
        assert vkdml.argmax([1, 3, 2]) == 1
        evaluated = kept.sequence()
        array = vkdml.asarray([1, 3, 2], device=kept)
        evaluated.download(array)
        evaluated.eval()
        # Python 3.12 and later warn of a fork in a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            make_buffer = lambda: kept.native.buffer(64, vkdml._native.MemoryKind.host)
            calls = [lambda: vkdml.argmax([1, 3, 2]), vkdml.Device, vkdml.devices, make_buffer]
            for attempt in (*calls, kept.memory, kept.trim, evaluated.timings):
                try:
                    attempt()
                    os._exit(1)
                except vkdml.DeviceError as error:
                    if "forked" not in str(error) or "spawn" not in str(error):
                        os._exit(2)
            del kept
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert vkdml.argmax([1, 2, 5]) == 2
        raise SystemExit(os.waitstatus_to_exitcode(status))
    """)
