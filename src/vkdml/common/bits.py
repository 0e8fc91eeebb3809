"""Elements as bits, which nobody may change."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt


def opaque(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view of the elements as so many plain bytes each.

    Assigned as what they are, NumPy may change their bits (a bool's), and it can neither join nor describe
    arrays of all extension types.

    >>> import numpy as np
    >>> opaque(np.zeros(3, np.float32)).dtype
    dtype('V4')
    """
    return x.view(f"V{x.itemsize}")
