"""Whether the driver that DRIVER names in the environment of `./run` is the one that is found."""

from __future__ import annotations

import vkdml

# How the name that a driver gives itself, and what it adds to it, begin.
NAMES = {
    "lavapipe": "llvmpipe",
    "lavapipe25": "llvmpipe Mesa 25",
    "swiftshader": "SwiftShader driver",
    "swiftshader-older": "SwiftShader driver",
}


def is_called(info: vkdml.DeviceInfo, asked: str) -> bool:
    """Whether a device's driver is the one that DRIVER asks for."""
    return f"{info.driver_name} {info.driver_info}".startswith(NAMES[asked])


def fault(asked: str) -> str | None:
    """Say what was found instead of the driver asked for; None where nothing is asked, or all is well."""
    if asked not in NAMES:
        return None
    try:
        found = vkdml.devices()
    except vkdml.DeviceError as error:
        return f"DRIVER={asked} was asked for, and there is no device: {error}"
    if all(is_called(info, asked) for info in found):
        return None
    names = sorted({f"{info.driver_name} {info.driver_info}" for info in found})
    return f"DRIVER={asked} was asked for ({NAMES[asked]}), and what was found is {', '.join(names)}"
