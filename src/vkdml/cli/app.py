"""The typer application of all commands; wrong arguments become one line on standard error."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

import typer

import vkdml
from vkdml.bench.files import WriteError
from vkdml.cli.bench import bench
from vkdml.cli.devices import devices
from vkdml.cli.doctor import doctor
from vkdml.cli.tune import tune

app = typer.Typer(
    name="vkdml",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Short enough for the list of commands, which would be cut.
app.command(short_help="Time kernels, check results, compare with other libraries.")(bench)
app.command(short_help="List the Vulkan devices; * marks the default device.")(devices)
app.command(short_help="Check loader, drivers and devices; say how to fix faults.")(doctor)
app.command(short_help="Find and store the fastest tuning settings for a device.")(tune)

# How a write to standard output fails; other faults without a file's name come from elsewhere.
_OF_WRITING = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.ESTALE}

# Of typer's own messages and vkdml's, those that say what is accepted.
_LISTING = ("accepted", " is not one of ", " is not in the range ")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """ARGMIN, ARGMAX and SLICE1 on any Vulkan device."""
    if version:
        typer.echo(f"vkdml {vkdml.__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status.

    Args:
        arguments: the words after ``vkdml``.

    Returns:
        0 if the command succeeded, 1 if it found a fault, 2 for wrong arguments, 130 if it was interrupted.
    """
    _write_any_text()
    try:
        with warnings.catch_warnings():
            # The output of the commands names software devices.
            warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
            warnings.showwarning = _warn
            status = app(args=list(arguments), prog_name="vkdml", standalone_mode=False)
        if sys.stdout is not None:  # it is where the shell closed it
            sys.stdout.flush()
    except vkdml.DeviceError as error:
        return _complain(str(error), status=1)
    except BrokenPipeError:
        _discard_output()  # the reader (head, less) has exited
        return 1
    except WriteError as error:
        return _complain(str(error), status=1)
    except OSError as error:
        if error.filename is not None or error.errno is None:  # of a file, or a library's own
            raise
        if error.errno in _OF_WRITING:
            _discard_output()
            return _complain(f"the output could not be written: {error.strerror}", status=1)
        return _complain(str(error.strerror), status=1)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        # Usage errors have no public base class that all versions of click and typer share.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        said = message()
        if not any(words in said for words in _LISTING):
            command = getattr(getattr(error, "ctx", None), "command_path", _command_of(arguments))
            said += f" ({command} --help lists what is accepted)"
        return _complain(said, status=2)
    return int(status or 0)


def _command_of(arguments: Sequence[str]) -> str:
    """Return the command that was begun, for errors that do not tell."""
    known = {command.callback.__name__ for command in app.registered_commands if command.callback}
    return f"vkdml {arguments[0]}" if arguments and arguments[0] in known else "vkdml"


def _write_any_text() -> None:
    """Let standard output escape what its encoding lacks, as standard error does: paths, names of devices."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Send to nowhere what standard output did not take: the interpreter flushes it at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of vkdml's as the commands' own messages; others as Python does."""
    if issubclass(category, vkdml.ProfileWarning):
        _complain(str(message), status=0)
    else:
        _shown_by_python(message, category, filename, lineno, file, line)


_shown_by_python = warnings.showwarning


def _complain(message: str, status: int) -> int:
    print("vkdml: " + " ".join(message.split()), file=sys.stderr)
    return status
