"""Draws the plots of records again, beside them: python bench/draw.py bench/results/nvidia-h200.json ..."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from vkdml.bench import plots
from vkdml.bench.files import RecordFault
from vkdml.bench.record_file import load


def main(arguments: Sequence[str]) -> int:
    """Write FILE-dtypes.svg and so on for each FILE.json; returns the exit status."""
    if not arguments:
        print("usage: python bench/draw.py FILE.json ...", file=sys.stderr)
        return 2
    try:
        for file in map(Path, arguments):
            for written in plots.write(load(file), file.with_suffix(".svg")):
                print(written)
    except (RecordFault, OSError) as error:
        print(f"draw: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
