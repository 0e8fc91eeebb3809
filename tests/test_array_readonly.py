"""What nobody can do to a device array from outside: set its attributes, make or subclass it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import vkdml

HOST = np.arange(12, dtype=np.float32).reshape(4, 3)


def kinds():
    whole = vkdml.asarray(HOST)
    sharded = vkdml.ShardedArray([vkdml.asarray(HOST[:1]), vkdml.asarray(HOST[1:])])
    return [
        ("Array", whole, HOST),
        ("view", whole[1:, ::-1], HOST[1:, ::-1]),
        ("ShardedArray", sharded, HOST),
    ]


def test_no_attribute_can_be_set_or_deleted():
    values = [None, 3, np.dtype("float64"), (100, 100), vkdml.zeros(9), lambda *_: None]
    for kind, x, host in kinds():
        things = [(kind, x)]
        if isinstance(x, vkdml.Array):
            things += [("memory", x.memory), ("placement", x.placement)]
        for where, thing in things:
            for name in (*dir(thing), "shape_", "anything"):
                for value in values:
                    with pytest.raises((AttributeError, TypeError)):
                        setattr(thing, name, value)
                with pytest.raises((AttributeError, TypeError)):
                    delattr(thing, name)
            assert np.array_equal(x.numpy(), host), where
        assert (x.shape, x.dtype) == (host.shape, host.dtype)


def test_the_refusal_says_what_would_do():
    a = vkdml.asarray(HOST)
    with pytest.raises(AttributeError, match=r"cannot set 'dtype': .*read-only; .*asarray\(a, dtype\)"):
        a.dtype = np.dtype("float64")
    with pytest.raises(AttributeError, match=r"cannot delete 'shape': all attributes of Array are"):
        del a.shape
    with pytest.raises(AttributeError, match="of ShardedArray are read-only"):
        vkdml.ShardedArray([a]).shards = []
    for array in (a, vkdml.ShardedArray([a])):
        with pytest.raises(ValueError, match=r"must be left out by a view, as a\[1:\], not deleted"):
            del array[0]


def test_slots_hold_nothing_public():
    for kind in (vkdml.Array, vkdml.ShardedArray, type(vkdml.zeros(1).memory)):
        assert all(name.startswith("_") for name in kind.__slots__)
        assert not hasattr(kind, "__dict__") or "__dict__" not in dir(kind)


def test_a_row_cannot_be_made_to_reach_into_the_next():
    u = vkdml.asarray(HOST)
    row = u[0]
    with pytest.raises(AttributeError):
        row.dtype = np.dtype("float64")
    row[:] = 7
    assert np.array_equal(u.numpy()[1:], HOST[1:])


def test_field_names_given_out_are_copies():
    record = np.dtype([("a", "i4"), ("b", "i4")])
    host = np.zeros(3, record)
    a = vkdml.asarray(host)
    for dtype in (a.dtype, a.numpy().dtype, host.dtype):
        dtype.names = ("c", "d")
    assert a.dtype.names == ("a", "b")
    assert vkdml.ShardedArray([a]).dtype.names == ("a", "b")


def test_a_sharded_array_keeps_the_shards_that_it_was_given():
    shards = [vkdml.asarray(HOST), vkdml.asarray(HOST)]
    whole = vkdml.ShardedArray(shards)
    shards.append(vkdml.zeros(1))
    whole.__init__([vkdml.zeros(7)])
    assert whole.shape == (8, 3)
    assert len(whole.shards) == 2
    with pytest.raises(TypeError, match=r"a list or tuple of vkdml.Arrays, not one Array"):
        vkdml.ShardedArray(vkdml.asarray(HOST))


@pytest.mark.parametrize("kind", [vkdml.Array, vkdml.ShardedArray])
def test_subclasses_are_refused(kind):
    with pytest.raises(TypeError, match=f"vkdml.{kind.__name__} cannot be subclassed; accepted is"):
        type("Mine", (kind,), {"__slots__": ()})


def test_an_array_is_not_made_by_its_name():
    with pytest.raises(TypeError, match=r"accepted are vkdml.asarray\(x\), vkdml.empty"):
        vkdml.Array([1, 2, 3])
    a = vkdml.asarray(HOST)
    # To initialize it again changes nothing.
    a.__init__(a.memory, np.dtype("float64"), a.placement)
    a.memory.__init__(a.device, 1)
    assert a.dtype == np.float32
    assert np.array_equal(a.numpy(), HOST)


def test_arrays_can_be_referred_to_weakly():
    arrays = [x for _, x, _ in kinds()]
    references = [weakref.ref(x) for x in arrays]
    assert all(reference() is x for reference, x in zip(references, arrays, strict=True))
    del arrays
    gc.collect()
    assert [reference() for reference in references] == [None] * 3
