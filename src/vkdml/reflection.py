"""Names of a kernel's specialization and push constants, read from its SPIR-V."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from vkdml import kernels

HEADER_WORDS = 5
OP_NAME, OP_MEMBER_NAME, OP_DECORATE, OP_MEMBER_DECORATE, OP_VARIABLE, OP_TYPE_POINTER = 5, 6, 71, 72, 59, 32
OP_SPEC_CONSTANT_TRUE, OP_SPEC_CONSTANT_FALSE = 48, 49
DECORATION_SPEC_ID, DECORATION_OFFSET = 1, 35
STORAGE_PUSH_CONSTANT = 9


@dataclass(frozen=True)
class KernelNames:
    """What the shader's source calls its constants."""

    constants: tuple[tuple[int, str, bool], ...]
    """Position, name, and whether it is true or false, of each specialization constant that has a name."""
    push: tuple[tuple[int, str], ...]
    """Byte offset and name of each push constant, ascending."""


@lru_cache(maxsize=64)
def names_of(kernel: str) -> KernelNames:
    """Return the names in one kernel of the table.

    >>> names_of("slice1_runs_4_bytes").constants[0]
    (0, 'WORKGROUP', False)
    """
    names: dict[int, str] = {}
    members: dict[tuple[int, int], str] = {}
    positions: dict[int, int] = {}
    offsets: dict[tuple[int, int], int] = {}
    pointed_at: dict[int, int] = {}
    truths: set[int] = set()
    pushed = None
    for op, operands, raw in _instructions(kernels.spirv(kernel)):
        if op == OP_NAME:
            names[operands[0]] = _text(raw[4:])
        elif op == OP_MEMBER_NAME:
            members[operands[0], operands[1]] = _text(raw[8:])
        elif op == OP_DECORATE and operands[1] == DECORATION_SPEC_ID:
            positions[operands[0]] = operands[2]
        elif op == OP_MEMBER_DECORATE and operands[2] == DECORATION_OFFSET:
            offsets[operands[0], operands[1]] = operands[3]
        elif op in (OP_SPEC_CONSTANT_TRUE, OP_SPEC_CONSTANT_FALSE):
            truths.add(operands[1])
        elif op == OP_TYPE_POINTER and operands[1] == STORAGE_PUSH_CONSTANT:
            pointed_at[operands[0]] = operands[2]
        elif op == OP_VARIABLE and operands[2] == STORAGE_PUSH_CONSTANT:
            pushed = pointed_at[operands[0]]
    named = ((position, names[i], i in truths) for i, position in positions.items() if names.get(i))
    push = ((offset, members[at]) for at, offset in offsets.items() if at[0] == pushed and at in members)
    return KernelNames(tuple(sorted(named)), tuple(sorted(push)))


def _instructions(spirv: bytes) -> Iterator[tuple[int, tuple[int, ...], bytes]]:
    """Yield each instruction's opcode, and its operands as words and as bytes."""
    at = HEADER_WORDS * 4
    while at < len(spirv):
        (first,) = struct.unpack_from("<I", spirv, at)
        count, op = first >> 16, first & 0xFFFF
        raw = spirv[at + 4 : at + 4 * count]
        yield op, struct.unpack(f"<{count - 1}I", raw), raw
        at += 4 * count


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode()
