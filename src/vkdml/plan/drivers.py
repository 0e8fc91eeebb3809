"""What a driver's name and version tell of it."""

from __future__ import annotations

import re


def is_lavapipe(driver_name: str) -> bool:
    """Whether this is Mesa's software driver.

    >>> is_lavapipe("llvmpipe"), is_lavapipe("SwiftShader driver")
    (True, False)
    """
    return "llvmpipe" in driver_name.lower()


def is_swiftshader(driver_name: str) -> bool:
    """Whether this is Google's software driver.

    >>> is_swiftshader("SwiftShader driver"), is_swiftshader("llvmpipe")
    (True, False)
    """
    return "swiftshader" in driver_name.lower()


def gathers_words(driver_info: str) -> bool:
    """Whether this version of lavapipe loads words from storage buffers without branches.

    ``tests/test_texel_loads.py`` checks that the native module, which loads others as texels, agrees.

    >>> gathers_words("Mesa 25.0.7 (LLVM 15.0.6)"), gathers_words("Mesa 22.3.6 (LLVM 15.0.6)")
    (True, False)
    """
    return _mesa_number(driver_info) >= 25


def _mesa_number(driver_info: str) -> int:
    """Return the first number of Mesa's version, or 0.

    >>> _mesa_number("Mesa 25.0.7 (LLVM 15.0.6)"), _mesa_number("5.0")
    (25, 0)
    """
    found = re.match(r"Mesa (\d+)", driver_info)
    return int(found[1]) if found else 0
