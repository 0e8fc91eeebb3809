"""Random compute shaders of words and bools, and the same programs in Python: for what compiles modules."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

WORDS, BOOLS = 3, 2  # specialization constants: words in slots 0, 1, 2, bools in slots 3, 4
VARIABLES = ("a", "b", "c", "shared_word")
INVOCATIONS = 8

_HEADER = """#version 450
layout(local_size_x = 1) in;
layout(constant_id = 0) const uint W0 = 1u;
layout(constant_id = 1) const uint W1 = 2u;
layout(constant_id = 2) const uint W2 = 3u;
layout(constant_id = 3) const bool B0 = false;
layout(constant_id = 4) const bool B1 = true;
const uint W3 = (W0 * 3u + W1) ^ 5u;
const bool B2 = !B0;
layout(std430, binding = 0) buffer Buffer { uint words[]; };
uint shared_word = 7u;
"""


class Text(NamedTuple):
    """An expression, or a block of statements, in both languages."""

    glsl: str
    python: str


class Program(NamedTuple):
    """A shader that changes four words for each workgroup, and the function that computes those words."""

    glsl: str
    expected: Callable[[list[int], list[int]], list[int]]


def _varies(expression: Text) -> bool:
    return any(re.search(rf"\b{name}\b", expression.glsl) for name in VARIABLES)


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


class _Writer:
    """Writes operations on constants alone only where they are arithmetic.

    Of others glslang makes modules that are not valid.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions = 0

    def variable(self) -> Text:
        name = self.random.choice(VARIABLES)
        return Text(name, name)

    def word(self, depth: int) -> Text:
        kind = self.random.randrange(12 if depth else 4)
        if kind == 0:
            number = self.random.choice([0, 1, 2, 5, 31, 0x80000000, 0xFFFFFFFF])
            return Text(f"{number}u", str(number))
        if kind == 1:
            name = f"W{self.random.randrange(WORDS + 1)}"
            return Text(name, name)
        if kind < 4:
            return self.variable()
        a, b = self.word(depth - 1), self.word(depth - 1)
        if kind >= 8 and not _varies(a):
            a = self.variable()
        if kind < 8:
            operator = self.random.choice("+-*&|^")
            return Text(f"({a.glsl} {operator} {b.glsl})", f"(({a.python} {operator} {b.python}) & MASK)")
        if kind == 8:
            operator, theirs = self.random.choice([("/", "//"), ("%", "%")])
            return Text(f"({a.glsl} {operator} ({b.glsl} | 1u))", f"({a.python} {theirs} ({b.python} | 1))")
        if kind == 9:
            operator = self.random.choice(["<<", ">>"])
            return Text(
                f"({a.glsl} {operator} ({b.glsl} & 7u))", f"(({a.python} {operator} ({b.python} & 7)) & MASK)"
            )
        if kind == 10:
            name = self.random.choice(["min", "max"])
            return Text(f"{name}({a.glsl}, {b.glsl})", f"{name}({a.python}, {b.python})")
        condition = self.condition(depth - 1)
        return Text(
            f"({condition.glsl} ? {a.glsl} : {b.glsl})", f"({a.python} if {condition.python} else {b.python})"
        )

    def condition(self, depth: int) -> Text:
        kind = self.random.randrange(6 if depth else 3)
        if kind == 0:
            name = f"B{self.random.randrange(BOOLS + 1)}"
            return Text(name, name)
        if kind < 3:
            a, b = self.variable(), self.word(depth)
            operator = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
            return Text(f"({a.glsl} {operator} {b.glsl})", f"({a.python} {operator} {b.python})")
        p, q = self.condition(depth - 1), self.condition(depth - 1)
        if not _varies(p):
            p = self.condition(0) if _varies(q) else Text("(a != c)", "(a != c)")
        if kind == 3:
            return Text(f"!{p.glsl}", f"(not {p.python})")
        mine, theirs = self.random.choice([("&&", "and"), ("||", "or")])
        return Text(f"({p.glsl} {mine} {q.glsl})", f"({p.python} {theirs} {q.python})")

    def statement(self, depth: int, loop: bool, returns: bool) -> Text:
        kind = self.random.randrange(10 if depth else 3)
        target = self.random.choice(VARIABLES)
        if kind < 2 or (kind == 2 and not self.functions):
            value = self.word(2)
            return Text(f"{target} = {value.glsl};\n", f"{target} = {value.python}\n")
        if kind == 2:
            name = f"f{self.random.randrange(self.functions)}"
            argument = self.word(1)
            out, into = self.random.sample(VARIABLES[:3], 2)
            return Text(
                f"{out} = {name}({argument.glsl}, {into});\n",
                f"{out}, {into} = {name}({argument.python}, {into})\n",
            )
        if kind < 6:
            condition = self.condition(2)
            then, otherwise = (self.block(depth - 1, loop, returns) for _ in range(2))
            return Text(
                f"if ({condition.glsl}) {{\n{then.glsl}}} else {{\n{otherwise.glsl}}}\n",
                f"if {condition.python}:\n{then.python}else:\n{otherwise.python}",
            )
        if kind == 6 and (loop or returns):
            condition = self.condition(1)
            value = self.word(1)
            if returns and (not loop or self.random.randrange(2)):
                return Text(
                    f"if ({condition.glsl}) return {value.glsl};\n",
                    f"if {condition.python}: return {value.python}, b\n",
                )
            leave = self.random.choice(["break", "continue"])
            return Text(f"if ({condition.glsl}) {leave};\n", f"if {condition.python}: {leave}\n")
        if kind == 7:
            value = self.word(1)
            cases = [self.block(depth - 1, False, returns) for _ in range(2)]
            return Text(
                f"switch ({value.glsl} & 3u) {{\ncase 1u:\n{cases[0].glsl}    break;\n"
                f"default:\n{cases[1].glsl}}}\n",
                f"if {value.python} & 3 == 1:\n{cases[0].python}else:\n{cases[1].python}",
            )
        count, python = self.random.choice(
            [("W0", "W0"), ("W1", "W1"), ("2u", "2"), ("0u", "0"), ("(B0 ? 1u : 3u)", "(1 if B0 else 3)")]
        )
        body = self.block(depth - 1, True, returns)
        i = f"i{depth}"
        return Text(
            f"for (uint {i} = 0u; {i} < min({count}, 4u); {i}++) {{\n{body.glsl}}}\n",
            f"for {i} in range(min({python}, 4)):\n{body.python}",
        )

    def block(self, depth: int, loop: bool, returns: bool) -> Text:
        statements = [self.statement(depth, loop, returns) for _ in range(self.random.randrange(1, 4))]
        return Text(
            _indented("".join(each.glsl for each in statements)),
            _indented("".join(each.python for each in statements)),
        )

    def function(self) -> Text:
        body = self.block(2, False, True)
        result = self.word(1)
        name = f"f{self.functions}"
        self.functions += 1
        return Text(
            f"uint {name}(uint a, inout uint b) {{\n    uint c = W0;\n"
            f"{body.glsl}    return {result.glsl};\n}}\n",
            f"def {name}(a, b):\n    global shared_word\n    c = W0\n"
            f"{body.python}    return {result.python}, b\n",
        )


def random_program(seed: int) -> Program:
    """Return the program of this seed."""
    writer = _Writer(seed)
    functions = [writer.function() for _ in range(3)]
    body = writer.block(3, False, False)
    start = "uint first = gl_WorkGroupID.x * 4u;\nuint a = words[first], b = words[first + 1u], c = 9u;\n"
    end = "".join(f"words[first + {i}u] = {name};\n" for i, name in enumerate(VARIABLES))
    glsl = f"{_HEADER}{''.join(each.glsl for each in functions)}void main() {{\n{_indented(start)}{body.glsl}"
    code = (
        f"{''.join(each.python for each in functions)}def main(a, b):\n    global shared_word\n"
        f"    shared_word, c = 7, 9\n{body.python}    return [{', '.join(VARIABLES)}]\n"
    )

    def expected(words: list[int], constants: list[int]) -> list[int]:
        names = {f"W{i}": constants[i] for i in range(WORDS)}
        names |= {f"B{i}": bool(constants[WORDS + i]) for i in range(BOOLS)}
        names["W3"] = ((names["W0"] * 3 + names["W1"]) & 0xFFFFFFFF) ^ 5
        names["B2"] = not names["B0"]
        names["MASK"] = 0xFFFFFFFF
        exec(code, names)
        results: list[int] = []
        for at in range(0, len(words), 4):
            results += names["main"](words[at], words[at + 1])
        return results

    return Program(f"{glsl}{_indented(end)}}}\n", expected)
