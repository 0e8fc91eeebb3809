"""NumPy's own cases of argmax and argmin, out of the installed package, run through vkdml."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from foreign_tests import imported

import vkdml

# NumPy's test module, by the name that it has in this version; wheels without tests have none.
NAMES = ("numpy._core.tests.test_multiarray", "numpy.core.tests.test_multiarray")


def their_tests() -> Any:
    return imported(*NAMES)


class Cases:
    """What NumPy's tests take for the module numpy: argmax and argmin are vkdml's."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def argmax(self, a: Any, axis: Any = None, out: Any = None, **options: Any) -> Any:
        return self._found(vkdml.argmax, a, axis, out, options)

    def argmin(self, a: Any, axis: Any = None, out: Any = None, **options: Any) -> Any:
        return self._found(vkdml.argmin, a, axis, out, options)

    def _found(self, operator: Any, a: Any, axis: Any, out: Any, options: dict[str, Any]) -> Any:
        self._calls.append(str(np.asarray(a).dtype))
        return operator(a, axis, out=out, **options)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    monkeypatch.setattr(their_tests(), "np", Cases(made))
    return made


def of_numbers(cases: list[tuple[Any, int]], accepted: bool) -> list[tuple[Any, int]]:
    """The cases of elements that vkdml takes, or the others: complex numbers and times."""
    return [case for case in cases if (np.asarray(case[0]).dtype.kind in "fiub") == accepted]


@pytest.mark.parametrize("name", ["TestArgmax", "TestArgmin"])
def test_values_ties_nans_and_lengths(name: str, device: vkdml.Device, calls: list[str]) -> None:
    theirs = getattr(their_tests(), name)
    cases = of_numbers(theirs.nan_arr, accepted=True)
    assert len(cases) > 50
    for case in cases[(name == "TestArgmin") :: 3]:  # most data are in both lists
        theirs().test_combinations(case)
    for special in ("test_maximum_signed_integers", "test_minimum_signed_integers"):
        if hasattr(theirs, special):
            getattr(theirs(), special)()
    assert {"uint8", "int64", "float32", "float64", "bool"} <= set(calls)
    assert len(calls) >= 2 * len(cases) - 6


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_axes_keepdims_and_out(name: str, device: vkdml.Device) -> None:
    theirs = their_tests().TestArgmaxArgminCommon
    for size in theirs.sizes:
        for axis in (*range(-len(size), len(size)), None):
            theirs().test_np_argmin_argmax_keepdims(size, axis, getattr(vkdml, name))


@pytest.mark.parametrize("name", ["TestArgmax", "TestArgmin"])
def test_the_other_elements_of_their_cases_are_refused(name: str, device: vkdml.Device) -> None:
    cases = of_numbers(getattr(their_tests(), name).nan_arr, accepted=False)
    assert {np.asarray(data).dtype.kind for data, _ in cases} == set("cmMO")
    for (data, _), operator in itertools.product(cases, (vkdml.argmax, vkdml.argmin)):
        with pytest.raises(TypeError, match=r"cannot be compared|Python objects"):
            operator(np.asarray(data))
