"""Tensors in host memory of producers of each version of DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkdml
from vkdml.arrays import foreign


class Producer:
    """A tensor in host memory that offers DLPack and nothing else."""

    def __init__(self, array: Any, *, versions: bool = True) -> None:
        self.array, self.versions = array, versions
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        if options and not self.versions:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.array.__dlpack__(**options)


def test_types_that_numpy_does_not_lend_are_named():
    for element in ("V8", "datetime64[s]"):
        with pytest.raises(BufferError, match=r"NumPy lends no host copy of type .*; accepted are integers"):
            vkdml.asarray(np.zeros(3, element)).__dlpack__(dl_device=(1, 0))


@pytest.mark.parametrize("versions", [True, False])
def test_producers_of_each_version(versions):
    x = np.float32([[1, 5, 3], [7, 2, 7]])
    versions &= foreign.NUMPY_TAKES_VERSIONS
    producer = Producer(x, versions=versions)
    assert vkdml.argmax(producer, 1).tolist() == [1, 0]
    assert np.array_equal(vkdml.from_dlpack(producer).numpy(), x)
    assert producer.asked[0] == ({"max_version": (1, 0)} if foreign.NUMPY_TAKES_VERSIONS else {})


@pytest.mark.skipif(not foreign.NUMPY_TAKES_VERSIONS, reason="this NumPy does not know versions of DLPack")
def test_read_only_tensors_are_taken():
    x = np.arange(6)
    x.flags.writeable = False
    with pytest.raises(BufferError):
        x.__dlpack__()
    assert vkdml.argmax(Producer(x)) == 5


@pytest.mark.parametrize("max_version", [None, (0, 5), (1, 0), (2, 0)])
def test_copies_for_the_host_have_the_version_that_was_asked_for(max_version):
    capsule = vkdml.asarray([1.0, 2.0]).__dlpack__(dl_device=(1, 0), max_version=max_version)
    versioned = foreign.NUMPY_TAKES_VERSIONS and max_version is not None and max_version[0] >= 1
    assert ('"dltensor_versioned"' if versioned else '"dltensor"') in repr(capsule)
