"""The package onnx, or the sentence that says how to get it."""

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
        "vkdml.onnx reads models with the package onnx, which is not installed: pip install onnx", name="onnx"
    ) from None

__all__ = ["onnx"]
