"""Opens the device of a command."""

from __future__ import annotations

import typer

import vkdml


def opened(selector: str | None) -> vkdml.Device:
    """Return the device of ``--device``, else of ``VKDML_DEVICE``, else the best device.

    Raises:
        typer.BadParameter: no device, or more than one, matches ``--device``.
        vkdml.DeviceError: no device, or more than one, matches ``VKDML_DEVICE``; or there is no device.
    """
    try:
        return vkdml.Device(selector)
    except (vkdml.NoDeviceError, ValueError, TypeError) as error:
        if selector is None:
            raise vkdml.NoDeviceError(str(error)) from None
        if not vkdml.devices():
            raise
        raise typer.BadParameter(f"--device: {error}") from None
