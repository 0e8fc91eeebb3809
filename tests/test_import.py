"""Importing vkdml a second time, in all the ways that Python has."""

from __future__ import annotations

import processes
import pytest

FORGET = """
    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == "vkdml"]:
            del sys.modules[name]
"""


def test_vkdml_can_be_deleted_from_the_modules_and_imported_again():
    printed = processes.printed(f"""{FORGET}
    first = vkdml
    array = first.asarray([1, 5, 2])
    for _ in range(3):
        forget()
        import vkdml
        assert vkdml is not first
        warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
        print(vkdml.argmax([1, 5, 2]), int(vkdml.asarray([3, 4]).argmax()), first.argmin([4, 2]))
        print(array.tolist(), int(first.argmax(array)))
        try:
            vkdml.empty(1 << 50)
        except MemoryError:
            print("refused")
    """)
    assert printed == "1 1 1\n[1, 5, 2] 1\nrefused\n" * 3


@pytest.mark.parametrize("first", ["errors", "_native", "runtime.device"])
def test_what_the_second_import_raises_is_caught_by_either_name(first):
    """Whichever inner module is imported first."""
    printed = processes.printed(f"""{FORGET}
    first = vkdml
    forget()
    import vkdml.{first}
    import vkdml
    assert vkdml is not first
    for module in (first, vkdml):
        for error in (first.NoDeviceError, vkdml.NoDeviceError, vkdml.DeviceError):
            try:
                module.Device(99)
            except error:
                print("caught")
    """)
    assert printed == "caught\n" * 6


@pytest.mark.parametrize("module", ["vkdml", "vkdml._native"])
def test_a_module_can_be_reloaded(module):
    assert (
        processes.printed(f"""
        import importlib, vkdml._native
        array = vkdml.asarray([1, 5, 2])
        importlib.reload({module})
        print(vkdml.argmax([1, 5, 2]), int(array.argmax()), vkdml.NoDeviceError.__name__)
        """)
        == "1 1 NoDeviceError\n"
    )


def test_a_second_interpreter_of_the_process_is_refused_by_import_error():
    printed = processes.printed("""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import test_import
        other = interpreters.create()
        try:
            refused = interpreters.run_string(other, "import sys; sys.path[:] = %r; import vkdml" % sys.path)
        except Exception as error:
            refused = error
        print("ImportError" in repr(refused))
        print(vkdml.argmax([1, 5, 2]))
        interpreters.destroy(other)
    """)
    assert printed == "True\n1\n"
