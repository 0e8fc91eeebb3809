"""The tail of a segmentation model, cut off an ONNX model and run by vkdml, beside ONNX's reference.

    python examples/onnx_tail.py [--device NAME] [--small]

The model ends as segmentation models do: a classifier gives logits (1, 21, H, W), ArgMax over the classes and
Cast give labels. The classifier runs elsewhere, here in ONNX's reference implementation; vkdml runs the rest.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import vkdml

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
    from onnx.utils import Extractor

    import vkdml.onnx
except ModuleNotFoundError as error:
    sys.exit(f"onnx_tail: {error.name} is not installed: pip install {error.name}")

CLASSES, FEATURES, OPSET = 21, 8, 17


def whole_model(size: int) -> onnx.ModelProto:
    """A classifier of one layer, and what follows it; to be replaced by ``onnx.load(your_file)``."""
    weights = np.random.default_rng(0).standard_normal((CLASSES, FEATURES, 1, 1)).astype(np.float32)
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Conv", ["features", "weights"], ["logits"], name="classifier"),
                helper.make_node("ArgMax", ["logits"], ["index"], axis=1, keepdims=0),
                helper.make_node("Cast", ["index"], ["labels"], to=TensorProto.INT32),
            ],
            "segmentation",
            [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, FEATURES, size, size])],
            [helper.make_tensor_value_info("labels", TensorProto.INT32, [1, size, size])],
            [numpy_helper.from_array(weights, "weights")],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run the example; 0 when the labels equal those of ONNX's reference, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="VULKAN", help="VULKAN, VULKAN:1, or part of a device's name")
    parser.add_argument("--small", action="store_true", help="33 x 33 pixels, not 513 x 513")
    options = parser.parse_args(words)
    size = 33 if options.small else 513

    parts = Extractor(onnx.shape_inference.infer_shapes(whole_model(size)))
    head = parts.extract_model(["features"], ["logits"])
    tail = parts.extract_model(["logits"], ["labels"])
    features = np.random.default_rng(1).standard_normal((1, FEATURES, size, size)).astype(np.float32)
    (logits,) = ReferenceEvaluator(head).run(None, {"features": features})

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vkdml.SoftwareDeviceWarning)
            prepared = vkdml.onnx.prepare(tail, options.device)
            labels, seconds = timed(lambda: prepared.run([logits])[0])
    except vkdml.DeviceError as error:
        print(f"onnx_tail: {error}", file=sys.stderr)
        return 1
    reference, reference_seconds = timed(lambda: ReferenceEvaluator(tail).run(None, {"logits": logits})[0])

    equal = labels.dtype == reference.dtype and np.array_equal(labels, reference)
    print(f"nodes of the tail: {', '.join(node.op_type for node in tail.graph.node)}")
    print(f"logits {logits.shape} {logits.dtype} -> labels {labels.shape} {labels.dtype}")
    print(f"vkdml {seconds * 1e3:.2f} ms, onnx.reference {reference_seconds * 1e3:.2f} ms")
    print(f"equal: {equal}")
    return 0 if equal else 1


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of the last of a few calls, and the time of the fastest in seconds."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return result, min(times)


if __name__ == "__main__":
    sys.exit(main())
