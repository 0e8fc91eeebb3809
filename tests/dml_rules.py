"""The tables of DirectML's documentation: what its operators accept at every feature level."""

from __future__ import annotations

from vkdml import dml

ALL_LEVELS = tuple(str(level) for level in dml.FeatureLevel)

FLOATS = "FLOAT32 FLOAT16"
UP_TO_32_BITS = "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"
NO_DOUBLE = "FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"
ALL = f"FLOAT64 {NO_DOUBLE}"
INDEX = "INT64 INT32 UINT64 UINT32"
ONE_TO_EIGHT = (1, 2, 3, 4, 5, 6, 7, 8)

# The "Tensor support" tables of the documentation: dimension counts, input types, output types.
SUPPORT = {
    ("ARGMIN", "3_0"): (ONE_TO_EIGHT, UP_TO_32_BITS, INDEX),
    ("ARGMIN", "4_1"): (ONE_TO_EIGHT, NO_DOUBLE, INDEX),
    ("ARGMAX", "3_0"): (ONE_TO_EIGHT, UP_TO_32_BITS, INDEX),
    ("ARGMAX", "4_1"): (ONE_TO_EIGHT, NO_DOUBLE, INDEX),
    ("REDUCE", "1_0"): ((4,), FLOATS, "UINT32"),
    ("REDUCE", "2_1"): ((4,), UP_TO_32_BITS, "UINT32"),
    ("REDUCE", "3_0"): (ONE_TO_EIGHT, UP_TO_32_BITS, INDEX),
    ("REDUCE", "4_1"): (ONE_TO_EIGHT, NO_DOUBLE, INDEX),
    ("SLICE1", "2_1"): ((4, 5), UP_TO_32_BITS, UP_TO_32_BITS),
    ("SLICE1", "3_0"): (ONE_TO_EIGHT, UP_TO_32_BITS, UP_TO_32_BITS),
    ("SLICE1", "4_1"): (ONE_TO_EIGHT, ALL, ALL),
}


def rules_at(operator: str, level: str) -> str | None:
    """The level whose table holds at another; None where the operator does not exist yet."""
    return max((since for name, since in SUPPORT if name == operator and since <= level), default=None)
