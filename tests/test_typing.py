"""What a user's type checker makes of the public functions: mypy --strict, once, on one program."""

from __future__ import annotations

import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import vkdml

pytest.importorskip("mypy", reason="mypy is among the development tools of vkdml[dev]")

PRELUDE = """\
from typing import Literal

import numpy as np
import numpy.typing as npt
import vkdml
from vkdml import dml


class Chunks:  # what zarr.Array has
    shape: tuple[int, ...]
    dtype: np.dtype[np.float32]
    chunks: tuple[int, ...]

    def __getitem__(self, index: slice) -> npt.NDArray[np.float32]:
        raise NotImplementedError


class Tensor:  # what torch.Tensor has
    def __dlpack__(self, *, stream: int | None = -1) -> object:
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        raise NotImplementedError


chunks: Chunks
tensor: Tensor
host: npt.NDArray[np.float32]
on_device: vkdml.Array
sharded: vkdml.ShardedArray
device: vkdml.Device
download: vkdml.Download
desc: dml.OperatorDesc
x: dml.BufferTensorDesc
flag: bool
direction: Literal["increasing", "decreasing"]
nan_policy: Literal["propagate", "omit"]
"""

HOST, ARRAY, SHARDED = r"numpy\.ndarray\[.*", r"vkdml\.\S*\.Array", r"vkdml\.\S*\.ShardedArray"
SCALAR = r"numpy\.integer\[Any\]"  # of all elements, as NumPy returns it
HOST_PAIR = r"(tuple\[numpy\.ndarray\[.*, numpy\.ndarray\[.*, fallback=)?vkdml\.\S*\.ArgReduceResult\b.*"
ARRAY_PAIR = r"(tuple\[vkdml\.\S*\.Array, vkdml\.\S*\.Array, fallback=)?vkdml\.\S*\.ArgReduceResult\b.*"

# Expressions, and the type that mypy finds.
INFERRED = {
    "vkdml.argmax(host)": SCALAR,
    "vkdml.argmax([[1, 5], [7, 2]], axis=1)": HOST,
    "vkdml.argmax(host, (0, 1), keepdims=True, dtype='int32', direction='decreasing')": HOST,
    "vkdml.argmax(host, nan_policy='omit')": SCALAR,
    "vkdml.argmax(host, dtype=np.uint64, device=0, progress=True)": SCALAR,
    "vkdml.argmax(host, direction=direction, nan_policy=nan_policy)": SCALAR,
    "vkdml.argmax(host, return_values=False)": SCALAR,
    "vkdml.argmax(on_device)": ARRAY,
    "vkdml.argmax(on_device, axis=-1, out=on_device)": ARRAY,
    "vkdml.argmax(sharded, axis=1)": HOST,
    "vkdml.argmax(host, return_values=True)": HOST_PAIR,
    "vkdml.argmax(host, return_values=True).values": HOST,
    "vkdml.argmin(on_device, 0, return_values=True)": ARRAY_PAIR,
    "vkdml.argmin(on_device, 0, return_values=True).indices": ARRAY,
    "vkdml.argmin(sharded, return_values=True).indices": HOST,
    "vkdml.argmin(host)": SCALAR,
    "vkdml.argmin(chunks)": SCALAR,
    "vkdml.argmin(chunks, 0)": HOST,
    "vkdml.argmin(host, 0, out=chunks)": r".*\.Chunks",
    "vkdml.argmin(chunks, return_values=True, out=(chunks, None)).indices": "Any",
    "vkdml.argmax(tensor, 0, out=tensor)": r".*\.Tensor",
    "vkdml.argmax(on_device, 0, out=tensor)": r".*\.Tensor",
    "vkdml.argmax(tensor, 0, return_values=True, out=(tensor, tensor)).values": r".*\.Tensor",
    "vkdml.slice1(tensor, 0, 3, -1, out=tensor)": r".*\.Tensor",
    "vkdml.slice1(chunks, 0, 3, -1)": HOST,
    "vkdml.slice1(chunks, 0, 3, -1, out=chunks)": r".*\.Chunks",
    "vkdml.slice1(host, (0, 0), (2, 2), (1, -1))": HOST,
    "vkdml.slice1([1, 2, 3], 0, 3, -1, output_sizes=2)": HOST,
    "vkdml.slice1(on_device, 0, 3, -1, out=on_device)": ARRAY,
    "vkdml.slice1(sharded, 0, 3, 1)": SHARDED,
    "vkdml.asarray(host, 'float32', device=device)": ARRAY,
    "vkdml.empty(3)": ARRAY,
    "vkdml.zeros((3, 2), np.int8, device='llvmpipe')": ARRAY,
    "vkdml.empty(3, 'float16', share='cuda')": ARRAY,
    "vkdml.asarray(tensor, share='cuda')": ARRAY,
    "vkdml.from_dlpack(host)": ARRAY,
    "on_device.numpy()": HOST,
    "on_device[::2, 1:]": ARRAY,
    "dml.run(desc, host)": HOST,
    "dml.run(desc, b'', output=bytearray(4))": HOST,
    "dml.run(dml.TypedOperatorDesc(dml.OperatorType.ARGMAX, desc), host)": HOST,
    "dml.run(desc, on_device, output=on_device, feature_level='5_0')": ARRAY,
    "dml.BufferTensorDesc(dml.DataType.FLOAT32, sizes=(2, 3))": r"vkdml\.\S*\.BufferTensorDesc",
    "dml.DML_BUFFER_TENSOR_DESC(1, 0, 2, (2, 3), None, 24, 0).Sizes": "Any",
    "dml.ArgMinOperatorDesc(x, x, (0,), dml.AxisDirection.DECREASING)": r"vkdml\.\S*\.ArgMinOperatorDesc",
    "dml.ArgMinOperatorDesc(x, x, axes=[0]).axes": r"\S*Sequence\[(builtins\.)?int\]",
    "dml.Slice1OperatorDesc(x, x, (0, 0), (4, 4), (-1, 2))": r"vkdml\.\S*\.Slice1OperatorDesc",
    "dml.validate(desc, 0x5000).level": r"vkdml\.\S*\.FeatureLevel",
    "device.compile(desc)": r"vkdml\.\S*\.CompiledOperator",
    "device.compile(desc).dispatch(on_device)": ARRAY,
    "device.sequence(timings=flag)": r"vkdml\.\S*\.Sequence",
    "device.sequence().record(device.compile(desc), on_device)": ARRAY,
    "device.sequence().download(on_device)": r"vkdml\.\S*\.Download",
    "download.numpy()": HOST,
    "device.sequence().eval().timings()": r"(builtins\.)?list\[(tuple\[|tuple\[builtins\.).*float\]\]",
}

# Expressions that mypy must refuse.
REFUSED = [
    "vkdml.argmax(host, direction='lst')",
    "vkdml.argmax(on_device, direction='first')",
    "vkdml.argmin(host, nan_policy='omitt')",
    "vkdml.argmin(on_device, nan_policy='raise')",
    "vkdml.argmax(host, dtype=3.5)",
    "vkdml.argmax(on_device, dtype=3.5)",
    "vkdml.argmax(host, axis='rows')",
    "vkdml.argmax(host, return_values='yes')",
    "vkdml.argmax(host, keepdim=True)",
    "vkdml.argmax()",
    "vkdml.slice1(host, (0, 0), (2, 2))",
    "vkdml.slice1(host, 0, 2.5, 1)",
    "dml.run(desc, on_device, output=bytearray(4))",
    "dml.run(host, host)",
    "dml.BufferTensorDesc('FLOAT32', sizes=(2, 3))",
    "dml.ArgMinOperatorDesc(host, x, (0,))",
    "dml.validate(desc, 5.0)",
    "device.compile(host)",
    "device.compile(desc).dispatch(host)",
    "device.sequence().upload(host, host)",
    "device.sequence().wait('long')",
    "vkdml.empty(3, share='rocm')",
    "vkdml.no_such_function",
]


def messages_of_mypy(program: Path, cache_dir: Path) -> list[list[tuple[str, str]]]:
    """Severity and text of the messages about each line of a program, from line 0, which does not exist."""
    package = Path(vkdml.__file__).parent
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=",
               "--no-pretty", "--no-error-summary", f"--cache-dir={cache_dir}", str(program)]  # fmt: skip
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=program.parent,
        env={"MYPYPATH": str(package.parent), "PATH": ""},
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    messages: list[list[tuple[str, str]]] = [[] for _ in range(len(program.read_text().splitlines()) + 1)]
    for line in ran.stdout.splitlines():
        message = re.match(r".*program\.py:(\d+): (error|note): (.*)", line)
        assert message is not None, line
        messages[int(message[1])].append((message[2], message[3]))
    return messages


def test_a_users_program(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """One test, since mypy takes seconds and runs once."""
    program = tmp_path / "program.py"
    revealed = [f"reveal_type({expression})" for expression in INFERRED]
    program.write_text("\n".join([*PRELUDE.splitlines(), *revealed, *REFUSED]))
    cache = getattr(pytestconfig, "cache", None)
    messages = messages_of_mypy(program, tmp_path / "cache" if cache is None else cache.mkdir("mypy"))

    declared = len(PRELUDE.splitlines()) + 1
    faults = [message for about in messages[:declared] for message in about]
    for (expression, expected), about in zip(INFERRED.items(), messages[declared:], strict=False):
        if not any(re.fullmatch(f'Revealed type is "{expected}"', text) for _, text in about):
            faults.append((expression, f"should be {expected}: {about}"))
        faults += [(expression, text) for severity, text in about if severity == "error"]
    for expression, about in zip(REFUSED, messages[declared + len(INFERRED) :], strict=True):
        if "error" not in [severity for severity, _ in about]:
            faults.append((expression, "should be refused"))
    assert not faults, "\n".join(map(": ".join, faults))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="typing keeps no overloads before Python 3.11")
@pytest.mark.parametrize("name", ["argmax", "argmin", "slice1", "asarray", "dml.run"])
def test_overloads_are_for_type_checkers_only(name: str) -> None:
    """typing would keep them, and through their globals the open devices, until the process ends."""
    function: typing.Any = vkdml
    for part in name.split("."):
        function = getattr(function, part)
    assert typing.get_overloads(function) == []  # type: ignore[attr-defined,unused-ignore]
