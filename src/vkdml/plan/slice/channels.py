"""What copies of planes to pixels and of pixels to planes have in common."""

from __future__ import annotations

# By element width, the most words of shared memory for a workgroup, those of padding not counted.
MOST_CELLS = {1: 1920, 2: 3840, 4: 3840}
# Dimensions of channels, at most: the kernels count groups of them.
MOST_CHANNEL_DIMS = 2
