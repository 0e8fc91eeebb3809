"""Reading SPIR-V modules: the numbers are those of the SPIR-V specification."""

from __future__ import annotations

import struct
from collections.abc import Iterator

TYPE_POINTER, FUNCTION, FUNCTION_CALL, VARIABLE, DECORATE = 32, 54, 57, 59, 71
SPEC_CONSTANT_TRUE, SPEC_CONSTANT_FALSE, SPEC_CONSTANT, SPEC_CONSTANT_COMPOSITE = 48, 49, 50, 51
BRANCH_CONDITIONAL, LOOP_MERGE, PHI = 250, 246, 245
PUSH_CONSTANT, SPEC_ID = 9, 1


def instructions(module: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The operation and the operands of each instruction."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    at = 5
    while at < len(words):
        yield words[at] & 0xFFFF, words[at + 1 : at + (words[at] >> 16)]
        at += words[at] >> 16


def operations(module: bytes) -> list[int]:
    """The operations of all instructions."""
    return [operation for operation, _ in instructions(module)]


def slots(module: bytes) -> set[int]:
    """Of the module's specialization constants."""
    return {
        words[2] for operation, words in instructions(module) if operation == DECORATE and words[1] == SPEC_ID
    }
