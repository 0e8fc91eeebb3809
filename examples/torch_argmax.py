"""Chooses the next token of each row of a language model's logits, which torch holds on a GPU.

python examples/torch_argmax.py            # needs an NVIDIA GPU and torch with CUDA
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import vkdml

try:
    import torch
except ModuleNotFoundError as error:
    sys.exit(f"torch_argmax: {error.name} is not installed; this example needs torch with CUDA")

ROWS, TOKENS = 64, 128256


def main(words: Sequence[str] | None = None) -> int:
    """Run the example; 0 when both ways choose the same tokens, else 1."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(words)
    if not torch.cuda.is_available():
        sys.exit("torch_argmax: torch finds no GPU; this example needs an NVIDIA GPU and torch with CUDA")
    # Memory of both: torch's kernels write the logits to it, and vkdml reads them there.
    try:
        shared = vkdml.empty((ROWS, TOKENS), "float16", share="cuda")
    except vkdml.DeviceError as error:
        sys.exit(f"torch_argmax: {error}")
    logits = torch.from_dlpack(shared)
    hidden = torch.randn(ROWS, 512, device=logits.device, dtype=torch.float16)
    weights = torch.randn(512, TOKENS, device=logits.device, dtype=torch.float16)
    torch.matmul(hidden, weights, out=logits)
    tokens = torch.from_dlpack(vkdml.argmax(shared, axis=1))
    print("in shared memory: ", tokens.tolist()[:5])

    # A tensor in torch's own memory is copied on the GPU first; the result goes to a tensor, too.
    own = logits.clone()
    chosen = torch.empty(ROWS, dtype=torch.int64, device=own.device)
    vkdml.argmax(own, axis=1, out=chosen)
    print("in torch's memory:", chosen.tolist()[:5])

    # torch may take any of several equal logits, vkdml takes the first.
    best = own.amax(1, keepdim=True)
    equal = torch.equal(tokens, chosen) and torch.equal(own.gather(1, chosen[:, None]), best)
    print("equal:", equal)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
