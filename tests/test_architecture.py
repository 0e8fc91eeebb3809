"""What ARCHITECTURE.md says about the way of a call is what happens."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import vkdml

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text()


def walk(after: str) -> list[str]:
    """The functions of a numbered list, in order."""
    section = TEXT[TEXT.index(after) :]
    numbered = section[section.index("\n1. ") : section.index("\n\n", section.index("\n1. "))]
    return re.findall(r"^\d+\. `([^`]+)`", numbered, re.M)


def stack_at(last: str, call: Callable[[], object]) -> list[str]:
    """The package's functions between a call and the function that is named."""
    stacks: list[list[str]] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and last.endswith(qualified_name(frame)):
            stack = []
            at: FrameType | None = frame
            while at is not None:
                module = at.f_globals.get("__name__", "")
                if module.startswith("vkdml."):
                    stack.append(f"{module.removeprefix('vkdml.')}.{qualified_name(at)}")
                at = at.f_back
            stacks.append(stack[::-1])

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    (stack,) = stacks
    return stack


def qualified_name(frame: FrameType) -> str:
    """Python 3.10 has no co_qualname."""
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    return name if owner is None else f"{type(owner).__name__}.{name}"


HOST, ARRAY = "A host array, `vkdml.argmax(x)`:", "An Array, `vkdml.argmax(a)`:"


@pytest.mark.parametrize("after", [HOST, ARRAY])
def test_the_walk_of_a_call_is_the_one_that_is_written_down(device, after):
    x = np.arange(1000, dtype=np.int32).reshape(8, 125)
    given = x if after == HOST else vkdml.asarray(x, device=device)
    device.executions.known_calls.clear()
    device.trim()
    written = [name for name in walk(after) if "::" not in name and not name.startswith("vk")]
    met = stack_at(written[-1], lambda: vkdml.argmax(given, axis=1, device=device))
    assert [name for name, said in zip(met, written, strict=True) if not name.endswith(said)] == []


def test_a_walk_has_at_most_ten_functions_and_none_twice():
    host = walk(HOST)
    native = host[host.index("record_steps") + 1 :]
    device = [*walk(ARRAY), *native]
    assert host[-1] == device[-1] == "vkCmdDispatch"
    for functions in (host, device):
        assert len(functions) <= 10
        assert len(set(functions)) == len(functions)


def test_the_native_functions_of_the_walk_exist():
    sources = "\n".join(path.read_text() for path in (ROOT / "src" / "native").rglob("*.cpp"))
    for name in [*walk(HOST), *walk(ARRAY)]:
        if "::" in name:
            assert f" {name}(" in sources, name


def test_every_file_that_is_named_exists():
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_0-9]+\.(?:py|glsl|json|comp))`", TEXT))
    assert len(named) > 20
    folders = [
        ROOT,
        *(path for path in (ROOT / "src" / "vkdml").glob("**") if path.is_dir()),
        ROOT / "tests",
        ROOT / "shaders",
    ]
    missing = {name for name in named if not any((folder / name).exists() for folder in folders)}
    assert missing == set()


def test_every_layer_of_the_contract_is_in_the_picture():
    picture = TEXT[TEXT.index("## The layers") : TEXT.index("A folder imports only")]
    contract = (ROOT / "pyproject.toml").read_text()
    layers = re.search(r"^layers = \[(.*?)\]", contract, re.M | re.S)
    assert layers is not None
    names = re.findall(r"[a-z_]+", layers[1])
    assert {"plan", "runtime", "arrays", "operators", "ops"} <= set(names)
    assert [name for name in names if name != "__main__" and not re.search(rf"\b{name}\b", picture)] == []
