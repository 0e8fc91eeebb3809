"""CUB as a library to compare with, in a program that is built where nvcc is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from vkdml.bench.cases import Case
from vkdml.bench.contents import Bytes
from vkdml.bench.latency import LatencyCase
from vkdml.bench.libraries.library import READINGS, WARM_SECONDS, Library, one_line
from vkdml.bench.unsupported import Unsupported


class Cub(Library):
    """CUB's DeviceReduce::ArgMax, in a small program that nvcc builds into the user's cache folder."""

    method = "CUDA events, queued"

    def __init__(self, cuda: bool, most_bytes: int) -> None:
        super().__init__(cuda, most_bytes)
        compiler = nvcc()
        if not cuda or compiler is None:
            raise Unsupported("needs nvcc and a CUDA device")
        self._compiler = compiler
        self._program = subprocess.Popen(
            [build_cub(compiler)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def version(self) -> str:
        said = subprocess.run(
            [self._compiler, "--version"], capture_output=True, text=True, check=False
        ).stdout
        return next((word.strip("V,") for word in said.split() if word.startswith("V")), "unknown")

    def time(self, case: Case) -> list[float]:
        if case.op != "argmax" or len(case.axes) != len(case.shape) or case.alternate:
            raise Unsupported("reduces whole arrays")
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        count = case.input_bytes // case.element_bytes
        self._program.stdin.write(f"{case.element} {count} {READINGS} {WARM_SECONDS}\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        if not line:
            raise Unsupported("its program ended")
        said = json.loads(line)
        if "why" in said:
            raise Unsupported(str(said["why"]))
        return [float(us) for us in said["us"]]

    def finder(self, case: LatencyCase, content: Bytes) -> Callable[[int], Any]:
        raise Unsupported("is no Python library")


def nvcc() -> str | None:
    """Return CUDA's compiler, if it is here."""
    return shutil.which("nvcc") or next(
        (str(path) for path in (Path("/usr/local/cuda/bin/nvcc"),) if path.exists()), None
    )


def build_cub(compiler: str) -> str:
    """Compile the CUB program unless the user's cache folder has it; return its path.

    Raises:
        Unsupported: the compiler refused.
    """
    source = resources.files("vkdml.bench.libraries") / "cub_argmax.cu"
    text = source.read_bytes()
    folder = Path(os.environ.get("VKDML_CACHE_DIR") or _user_cache()) / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"cub_argmax-{hashlib.sha256(text + compiler.encode()).hexdigest()[:16]}"
    if not program.exists():
        unfinished = folder / f"{program.name}.{os.getpid()}"
        command = [compiler, "-O3", "-std=c++17", "-arch=native", "-w", "-o", str(unfinished)]
        with resources.as_file(source) as path:
            # Older releases of CUB cannot compare halves.
            for halves in ([], ["-DWITHOUT_HALVES"]):
                built = subprocess.run(
                    [*command, *halves, str(path)], capture_output=True, text=True, check=False
                )
                if not built.returncode:
                    break
        if built.returncode:
            raise Unsupported(f"nvcc: {one_line(built.stderr)}")
        unfinished.rename(program)
    return str(program)


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vkdml"
