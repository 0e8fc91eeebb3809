"""ONNX's ArgMax, ArgMin and Slice on any Vulkan GPU: a backend for models and single nodes of them.

>>> import numpy as np, onnx, vkdml.onnx
>>> node = onnx.helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)
>>> vkdml.onnx.run_node(node, [np.uint16([[1, 5, 5], [7, 2, 7]])]).y
array([1, 0])
"""

from vkdml.integrations.onnx_backend import Backend
from vkdml.integrations.onnx_lower import lower
from vkdml.integrations.onnx_model import PreparedModel

is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device

__all__ = [
    "Backend",
    "PreparedModel",
    "is_compatible",
    "lower",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
