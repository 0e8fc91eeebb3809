"""docs/troubleshooting.md: every message that a user can meet has an entry, and every entry is a message's.

Messages are read from the sources: what Python code raises or warns of, and what the native module throws.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import vkdml

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
LEAST_LITERAL = 10
"""Characters that an entry shares with its message, so that none fits all."""

LEAST_MESSAGE = 5
"""Shorter ones put an operation or an array in front of another message."""

# ---- what the sources say --------------------------------------------------------------------------------

# Files whose messages are described elsewhere, or reach no user.
ELSEWHERE = {
    "dml/c_struct.py": "docs/directml-names.md has each",
    "dml/descriptors.py": "docs/directml-names.md has each",
    "dml/enums.py": "docs/directml-names.md has each",
    "dml/validation.py": "docs/directml-names.md has each",
    "plan/schema.py": "about kernels.json: the build and the tests read it",
    "bench/contents.py": "about the benchmark's own cases",
    "common/wording.py": "the callers' messages have entries",
}
# Messages of which the page has one entry for all, by the exception's name.
BY_CLASS = {
    "BadParameter": "Invalid value",
    "WrongResult": "expected is",
    "PeerFault": "--peers",
    "RecordFault": "accepted is a",
    "ProfileFault": "vkdml.ProfileWarning",
}
# Messages that no call of the public interface ends with, by their words.
INTERNAL = {
    "a NumPy boolean is not an integer": "callers catch it and name the argument",
    "a value of another type: ": "what a RecordFault says of the file",
    "unreachable": "an assertion",
    "this buffer is device memory": "the package asks for host buffers only",
    "this buffer was not allocated to be shared": "the package exports shared buffers only",
    "a buffer is a Buffer": "the package passes buffers",
    "this sequence is complete": "the package records before it evaluates",
    "no piece of the array begins at": "the package asks for tiles of the array's pieces",
    "a sequence copies between buffers of its own device": "the package checks devices before",
    "the kernel belongs to another device": "the package keeps kernels by device",
    "a buffer belongs to another device": "the package checks devices before",
    "this sequence cannot be given other buffers": "the package records again there",
    "the sequence is empty: record an operation first": "the package says record() an operation",
    "a buffer that this sequence uses is not among those to be held": "the package holds them",
    "a buffer that this sequence uses is gone": "the package names the array that was freed",
    "the sequence has not been evaluated yet": "the package says it before",
    "there is no Vulkan device": "the package selects among those that are there",
}


class Message(NamedTuple):
    """A message with "…" for what varies, the class that has it, and where it is."""

    text: str
    kind: str
    place: str


RAISING = re.compile(
    r"(Error|Warning|Fault|Parameter|WrongResult|ImpossibleTime|TooMuchWork)$|^(kind|error)$"
)


def python_messages() -> Iterator[Message]:
    package = ROOT / "src" / "vkdml"
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign | ast.Return) and isinstance(node.value, ast.JoinedStr):
                text = " ".join(template(node.value).split())
                if "; accepted" in text or "opens it anew" in text or "would need a copy" in text:
                    yield Message(text, "made before it is raised", f"{file}:{node.lineno}")
            if not isinstance(node, ast.Call) or not node.args:
                continue
            kind = ast.unparse(node.func).rpartition(".")[2]
            if kind == "warn":
                kind, *_ = (ast.unparse(argument) for argument in node.args[1:])
            if kind in ("wrong_type", "wrong_value") and len(node.args) == 3:
                where, given, accepted = map(template, node.args)
                text = f"{where} is {'…' if kind == 'wrong_type' else given}; accepted: {accepted}"
            elif RAISING.search(kind):
                text = template(node.args[0])
            else:
                continue
            yield Message(" ".join(text.split()), kind, f"{file}:{node.lineno}")


def template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return "…"


def native_messages() -> Iterator[Message]:
    for path in sorted((ROOT / "src" / "native").rglob("*.cpp")):
        text = path.read_text()
        for thrown in re.finditer(r"throw (?:nb::|std::)?(\w+)\((.*?)\);", text, re.DOTALL):
            line = text.count("\n", 0, thrown.start()) + 1
            # std::invalid_argument is what the package never lets come to a user.
            if thrown[1] not in ("invalid_argument", "python_error"):
                yield Message(_with_gaps(thrown[2]), thrown[1], f"{path.name}:{line}")


def _with_gaps(expression: str) -> str:
    """Join a C++ expression's string literals, with "…" where something else is added between them."""
    parts: list[str] = []
    end = 0
    for literal in re.finditer(r'"((?:[^"\\]|\\.)*)"', expression):
        if expression[end : literal.start()].strip(" \n+"):
            parts.append("…")
        parts.append(literal[1])
        end = literal.end()
    if expression[end:].strip(" \n+)"):
        parts.append("…")
    return " ".join("".join(parts).split())


@functools.cache
def messages() -> list[Message]:
    """Those of all sources, which take two seconds to read: not where tests are collected."""
    return [
        message
        for message in (*python_messages(), *native_messages())
        if message.place.partition(":")[0] not in ELSEWHERE
        and len(message.text.replace("…", "").strip()) > LEAST_MESSAGE
    ]


# ---- what the page says ----------------------------------------------------------------------------------

ENTRIES = [
    entry
    for row in re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)
    for entry in re.findall(r"`([^`]+)`", row)
]


def fits(entry: str, message: str) -> bool:
    """Whether the parts of an entry between "…" occur in a message one after the other."""
    at = 0
    for part in filter(None, (part.strip() for part in entry.split("…"))):
        found = message.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def test_the_sources_have_the_messages_that_are_looked_for() -> None:
    assert len(messages()) > 250
    texts = {message.text for message in messages()}
    assert "duplicate value in axis …; accepted are distinct axes" in texts
    assert "another thread is using this sequence: give each thread its own" in texts
    assert "no GPU was found: … computes on the processor (set … to choose a device knowingly)" in texts


def test_entries_are_long_enough_to_tell_messages_apart() -> None:
    assert len(ENTRIES) > 100
    assert not [entry for entry in ENTRIES if len(entry.replace("…", "").strip()) < LEAST_LITERAL]


def test_every_message_has_an_entry_or_a_reason_to_have_none() -> None:
    without = [
        message
        for message in messages()
        if message.kind not in BY_CLASS
        and not any(fits(words, message.text) for words in (*ENTRIES, *INTERNAL))
    ]
    assert not without


def test_a_message_that_no_user_meets_has_no_entry() -> None:
    both = [
        message
        for message in messages()
        if any(fits(words, message.text) for words in INTERNAL)
        and any(fits(entry, message.text) for entry in ENTRIES)
    ]
    assert not both


def test_every_entry_and_every_reason_is_that_of_a_message() -> None:
    stale = [words for words in (*ENTRIES, *INTERNAL) if not any(fits(words, m.text) for m in messages())]
    assert not stale


@pytest.mark.parametrize("kind", BY_CLASS)
def test_messages_of_one_class_have_an_entry_together(kind: str) -> None:
    assert any(message.kind == kind for message in messages())
    assert BY_CLASS[kind] in PAGE


def test_every_public_exception_and_warning_is_named() -> None:
    public = [
        f"vkdml.{name}"
        for name in vkdml.__all__
        if isinstance(found := getattr(vkdml, name), type) and issubclass(found, Exception)
    ]
    assert len(public) >= 5
    assert not [name for name in public if f"`{name}`" not in PAGE]
