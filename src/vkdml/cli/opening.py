"""Opens the device that a command is to use, or says in one line why it cannot."""

from __future__ import annotations

import typer

import vkdml


def opened(selector: str | None) -> vkdml.Device:
    """Return the device that ``--device`` names, without it the one of ``VKDML_DEVICE``, else the best.

    Raises:
        typer.BadParameter: ``--device`` names none.
        vkdml.DeviceError: ``VKDML_DEVICE`` names none, or there is none.
    """
    try:
        return vkdml.Device(selector)
    except (vkdml.NoDeviceError, ValueError, TypeError) as error:
        if selector is None:
            raise vkdml.NoDeviceError(str(error)) from None
        if not vkdml.devices():
            raise
        raise typer.BadParameter(f"--device: {error}") from None
