"""Assembles the commands into one typer application and turns users' mistakes into one line each."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

import typer

import vkdml
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
app.command()(bench)
app.command()(devices)
app.command()(doctor)
app.command()(tune)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    """ARGMIN, ARGMAX and SLICE1 on any Vulkan device."""
    if version:
        typer.echo(f"vkdml {vkdml.__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0 well, 1 a fault found, 2 called wrongly."""
    try:
        with warnings.catch_warnings():
            # The commands say themselves which devices are software drivers.
            warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
            status = app(args=list(arguments), prog_name="vkdml", standalone_mode=False)
        sys.stdout.flush()
    except vkdml.DeviceError as error:
        return _complain(str(error), status=1)
    except BrokenPipeError:
        # The reader (head, less) has gone; give the interpreter's last flush somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        # click and typer share no public base class for usage errors across their versions.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        return _complain(f"{message()} (vkdml --help lists what is accepted)", status=2)
    return int(status or 0)


def _complain(message: str, status: int) -> int:
    print("vkdml: " + " ".join(message.split()), file=sys.stderr)
    return status
