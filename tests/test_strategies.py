"""The values that the tests' arrays are drawn from: those at the edges of their own type, and of no other."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import oracle
import pytest
import strategies


@pytest.mark.parametrize("name", oracle.FLOAT_DTYPES)
def test_a_float_type_has_special_values_of_its_own(name: str) -> None:
    dtype = oracle.dtype_named(name)
    values = oracle.numbers(strategies.from_bits(strategies.special_bits(dtype), dtype))
    assert np.isnan(values).any()
    assert {-1.0, 0.0, 1.0} <= set(values.tolist())
    assert {False, True} == set(np.signbit(values[values == 0]).tolist())


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3b11fnuz, np.complex64, "S4"])
def test_a_type_that_is_not_known_has_none(dtype: type | str) -> None:
    with pytest.raises(
        ValueError, match=r"special values of \w+ are not known; accepted: bool, integers, .*float16"
    ):
        strategies.special_bits(np.dtype(dtype))
