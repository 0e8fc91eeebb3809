"""What a driver's name and version tell of it."""

from __future__ import annotations

import re


def is_lavapipe(driver_name: str) -> bool:
    """Whether this is Mesa's software driver.

    >>> is_lavapipe("llvmpipe"), is_lavapipe("SwiftShader driver")
    (True, False)
    """
    return "llvmpipe" in driver_name.lower()


def mesa_number(driver_info: str) -> int:
    """Return the first number of Mesa's version, or 0.

    >>> mesa_number("Mesa 25.0.7 (LLVM 15.0.6)"), mesa_number("5.0")
    (25, 0)
    """
    found = re.match(r"Mesa (\d+)", driver_info)
    return int(found[1]) if found else 0
