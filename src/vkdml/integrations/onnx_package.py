"""The package onnx, or the sentence that says how to get it."""

from vkdml.common.wording import how_to_install

try:
    import onnx
    import onnx.backend.base
    import onnx.checker
    import onnx.defs
    import onnx.helper
    import onnx.numpy_helper
except ModuleNotFoundError as error:
    if error.name != "onnx":  # a part of onnx, or what onnx itself needs
        raise
    raise ModuleNotFoundError(
        "vkdml.onnx reads models with the package onnx, which is not installed: "
        + how_to_install("onnx", "onnx"),
        name="onnx",
    ) from None

__all__ = ["onnx"]
