"""Does to device arrays what users do, at random, for a time: python tests/fuzz_arrays.py --seconds 60.

Each case draws an array, whole or in shards, and keeps a NumPy array beside it. Views, assignments, copies,
pickles, deletions, attribute assignments, subclasses, scalars, operators and NumPy's functions follow in any
order; after each, every array that is left must hold what its NumPy array holds.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import gc
import operator
import pickle
import platform
import secrets
import sys
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy_surface

import vkdml

Pair = tuple[Any, np.ndarray]
TYPES = (
    "float32",
    "float64",
    "float16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "uint64",
    "bool",
    "complex64",
    "S2",
)
FUNCTIONS = numpy_surface.functions()
OPERATORS = (
    *(
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
    ),
    *(operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, divmod),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.contains),
)
READ_ONLY = (AttributeError, TypeError)
PLAIN = "{:}".format
SCALARS = (int, float, complex, bool, operator.index, round, str, PLAIN, "{:d}".format, "{:.3f}".format)


def random_host(rng: np.random.Generator) -> np.ndarray:
    shape = tuple(rng.integers(0, 5, rng.integers(0, 4)).tolist())
    dtype = np.dtype(TYPES[rng.integers(len(TYPES))])
    numbers = rng.integers(0 if dtype.kind in "ubS" else -3, 4, shape)
    host = np.asarray(numbers).astype(dtype)
    if dtype.kind in "fc" and host.size:
        host[rng.random(shape) < 0.1] = np.nan
    return host


def on_device(rng: np.random.Generator, host: np.ndarray) -> Any:
    """The array on the device, or where it has dimensions sometimes in shards."""
    if host.ndim and rng.random() < 0.4:
        axis = int(rng.integers(host.ndim))
        cuts = np.sort(rng.integers(0, host.shape[axis] + 1, rng.integers(0, 4)))
        return vkdml.ShardedArray([vkdml.asarray(part) for part in np.split(host, cuts, axis)], axis)
    return vkdml.asarray(host)


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    parts: list[Any] = []
    for size in shape[: rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(4)
        if kind == 0 and size:
            parts.append(int(rng.integers(-size, size)))
        elif kind == 1:
            parts.append(slice(None))
        else:
            ends = [None if rng.random() < 0.3 else int(rng.integers(-6, 7)) for _ in range(2)]
            parts.append(slice(*ends, int(rng.choice([-3, -2, -1, 1, 2, 3]))))
    if rng.random() < 0.3:
        parts.insert(int(rng.integers(len(parts) + 1)), None)
    if len(parts) < len(shape) and rng.random() < 0.3:
        # What stood behind now counts from the end: only what fits there may.
        parts.append(Ellipsis)
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)


def indexed(host: np.ndarray, key: Any) -> np.ndarray:
    parts = key if isinstance(key, tuple) else (key,)
    result: np.ndarray = host[parts if Ellipsis in parts else (*parts, ...)]
    return result


class Case:
    """Arrays that are alive, each with the NumPy array that it must equal."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pairs: list[Pair] = []
        self.done: list[str] = []

    def run(self) -> None:
        self.new()
        for _ in range(self.rng.integers(4, 12)):
            step = STEPS[self.rng.integers(len(STEPS))]
            self.done.append(step.__name__)
            if not self.pairs:
                self.new()
            step(self)
            self.check()

    def check(self) -> None:
        for x, host in self.pairs:
            assert x.shape == host.shape, f"shape {x.shape}, wanted {host.shape}"
            assert x.dtype == host.dtype, f"type {x.dtype}, wanted {host.dtype}"
            got = x.numpy()
            assert got.shape == host.shape
            assert got.tobytes() == host.tobytes(), f"{x!r} holds {got!r}, wanted {host!r}"

    def any(self) -> Pair:
        return self.pairs[self.rng.integers(len(self.pairs))]

    def new(self) -> None:
        host = random_host(self.rng)
        self.pairs.append((on_device(self.rng, host), host))

    # ---- steps ---------------------------------------------------------------------------------------------

    def view(self) -> None:
        x, host = self.any()
        key = random_key(self.rng, host.shape)
        self.done.append(repr(key))
        self.pairs.append((x[key], indexed(host, key)))

    def turned(self) -> None:
        x, host = self.any()
        if isinstance(x, vkdml.ShardedArray):
            return
        kind = self.rng.integers(4)
        if kind == 0:
            self.pairs.append((x.T, host.T))
        elif kind == 1:
            order = tuple(self.rng.permutation(host.ndim).tolist())
            self.pairs.append((x.transpose(order), host.transpose(order)))
        elif kind == 2:
            wanted = (-1,) if host.size else (0, 3)
            try:
                self.pairs.append((x.reshape(wanted), host.view().reshape(wanted)))
            except ValueError as error:
                if "without a copy" not in str(error):
                    raise
            else:
                if self.pairs[-1][1].size and not np.may_share_memory(self.pairs[-1][1], host):
                    self.pairs.pop()  # NumPy copied, and the view of the device writes through
        else:
            shape = (2, *host.shape)
            self.pairs.append((x.broadcast_to(shape), np.broadcast_to(host, shape)))

    def assign(self) -> None:
        x, host = self.any()
        key = random_key(self.rng, host.shape)
        target = indexed(host, key)
        kind = self.rng.integers(4)
        value, of_host = self.any()
        if kind == 0:
            number = int(self.rng.integers(0, 2))
            value, of_host = number, np.asarray(number).astype(host.dtype)
        elif kind == 1 or of_host.dtype != host.dtype:
            wanted = tuple(1 if self.rng.random() < 0.3 else size for size in target.shape)
            of_host = np.resize(np.arange(3), wanted).astype(host.dtype)
            value = of_host.copy()
        elif kind == 2 and of_host.ndim:
            value, of_host = value[::-1], of_host[::-1]
        self.done.append(f"{key!r} = {value!r}")
        if not host.flags.writeable or (isinstance(x, vkdml.Array) and not x.writeable):
            refused(ValueError, lambda: operator.setitem(x, key, value))
            return
        try:
            np.broadcast_to(np.empty(of_host.shape), target.shape)
        except ValueError:
            if of_host.ndim > target.ndim and of_host.shape[: of_host.ndim - target.ndim].count(1):
                return  # may fit without its dimensions of size 1
            refused(ValueError, lambda: operator.setitem(x, key, value))
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target[...] = of_host
            x[key] = value

    def swap(self) -> None:
        """Assign overlapping parts of an array to each other."""
        x, host = self.any()
        if not host.ndim or not host.flags.writeable or host.shape[0] < 2:
            return
        if isinstance(x, vkdml.Array) and not x.writeable:
            return
        for target, source in ((np.s_[1:], np.s_[:-1]), (np.s_[...], np.s_[::-1])):
            if self.rng.random() < 0.5:
                host[target] = host[source].copy()
                x[target] = x[source]

    def copied(self) -> None:
        x, host = self.any()
        made = (x.copy, lambda: copy.copy(x), lambda: copy.deepcopy(x), lambda: vkdml.asarray(x, copy=True))
        self.pairs.append((made[self.rng.integers(len(made))](), host.copy()))

    def pickled(self) -> None:
        x, host = self.any()
        self.pairs.append((pickle.loads(pickle.dumps(x)), host.copy()))

    def delete(self) -> None:
        gone = []
        for _ in range(self.rng.integers(1, 3)):
            if self.pairs:
                gone.append(weakref.ref(self.pairs.pop(self.rng.integers(len(self.pairs)))[0]))
        # NumPy 2.4 keeps arguments of ufunc.accumulate() where it raises.
        if self.rng.random() < 0.2 and "numpy_function" not in self.done:
            gc.collect()
            kept = [x for x, _ in self.pairs]
            for reference in gone:
                x = reference()
                assert x is None or any(x is other for other in kept), f"nobody holds {x!r}, but it is there"

    def attributes(self) -> None:
        x, _ = self.any()
        others = [value for pair in self.pairs for value in pair]
        for thing in (x, x.memory, x.placement) if isinstance(x, vkdml.Array) else (x,):
            for name in (*dir(thing), "new_attribute"):
                value = others[self.rng.integers(len(others))]
                refused(READ_ONLY, lambda n=name, t=thing, v=value: setattr(t, n, v))
                refused(READ_ONLY, lambda n=name, t=thing: delattr(t, n))

    def subclass(self) -> None:
        x, host = self.any()
        refused(TypeError, lambda: type("Mine", (type(x),), {}))
        refused(TypeError, lambda: vkdml.Array(host))
        if isinstance(x, vkdml.ShardedArray):
            x.__init__([vkdml.zeros(3)])  # changes nothing

    def scalars(self) -> None:
        x, host = self.any()
        if host.ndim and host.size:
            place = tuple(int(self.rng.integers(size)) for size in host.shape)
            x, host = x[place], host[place]
        for convert in SCALARS:
            strings = host.dtype.kind == "S" and convert in (str, PLAIN)
            if strings or (host.dtype.kind == "c" and convert is round):
                continue  # NumPy's versions, arrays and scalars differ in them
            scalar = np.asarray(host, x.dtype)
            of_numpy = scalar[()] if convert is round else scalar  # arrays do not round
            wanted, fault = numpy_surface.outcome(convert, lambda n=of_numpy: ((n,), {}))
            got, error = numpy_surface.outcome(convert, lambda: ((x,), {}))
            if host.shape:
                assert error is not None or isinstance(got, str), f"{convert} of {host!r}: {got!r}"
            elif fault is None:
                assert error is None, f"{convert} of {host!r}: {error!r}"
                assert same_number(got, wanted), f"{convert} of {host!r}: {got!r}, wanted {wanted!r}"
            elif convert is not round:  # Python rounds what NumPy does not: bools
                assert error is not None, f"{convert} of {host!r}: {got!r}, NumPy raises {fault!r}"

    def python(self) -> None:
        x, host = self.any()
        if host.ndim:
            assert len(x) == len(host)
            for part, of_host in zip(list(x), list(host), strict=True):
                assert part.numpy().tobytes() == np.asarray(of_host, host.dtype).tobytes()
        else:
            refused(TypeError, lambda: len(x))
            refused(TypeError, lambda: iter(x))
        assert numpy_surface.same(x.tolist(), host.tolist())
        other = (1, x, 2.5)[self.rng.integers(3)]
        for compute in OPERATORS:
            refused(TypeError, lambda c=compute: c(x, other))
            if compute is not operator.contains:
                refused(TypeError, lambda c=compute: c(1, x))
        for compute in (operator.neg, operator.pos, operator.abs, operator.invert, hash):
            refused(TypeError, lambda c=compute: c(x))

    def reduce(self) -> None:
        x, host = self.any()
        axis = None if not host.ndim or self.rng.random() < 0.5 else int(self.rng.integers(host.ndim))
        for name in ("argmax", "argmin"):
            if host.dtype.kind in "cS":
                refused(TypeError, lambda n=name: getattr(x, n)(axis))
                continue
            wanted, fault = numpy_surface.outcome(getattr(host, name), lambda: ((axis,), {}))
            got, error = numpy_surface.outcome(getattr(vkdml, name), lambda: ((x, axis), {}))
            assert type(fault) is type(error), (
                f"{name} along {axis} of {host!r}: {got!r} {error!r}, {wanted!r} {fault!r}"
            )
            assert fault is not None or numpy_surface.same(got, wanted), (
                f"{name} along {axis} of {host!r}: {got!r}"
            )

    def windows(self) -> None:
        x, host = self.any()
        offsets = [int(self.rng.integers(size + 1)) for size in host.shape]
        sizes = [int(self.rng.integers(size - o + 1)) for size, o in zip(host.shape, offsets, strict=True)]
        steps = [int(self.rng.choice([-2, -1, 1, 2])) for _ in sizes]
        wanted = host[tuple(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True))]
        wanted = wanted[tuple(slice(None, None, step) for step in steps)] if host.ndim else wanted
        self.pairs.append((vkdml.slice1(x, offsets, sizes, steps), np.array(wanted, host.dtype)))

    def numpy_function(self) -> None:
        x, host = self.any()
        if host.size > 40:  # some functions take powers of it
            return
        name, function = FUNCTIONS[self.rng.integers(len(FUNCTIONS))]
        self.done.append(name)
        numpy_surface.check(name, function, x, host)


STEPS: tuple[Callable[[Case], None], ...] = (
    *(
        Case.new,
        Case.view,
        Case.view,
        Case.turned,
        Case.assign,
        Case.assign,
        Case.swap,
        Case.copied,
        Case.pickled,
    ),
    *(Case.delete, Case.attributes, Case.subclass, Case.scalars, Case.python, Case.reduce, Case.windows),
    *(Case.numpy_function,) * 4,
)


def refused(kind: type[Exception] | tuple[type[Exception], ...], does: Callable[[], object]) -> None:
    try:
        result = does()
    except kind:
        return
    raise AssertionError(f"no {kind}, but {result!r}")


def same_number(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return bool(got == wanted)
    return bool(got == wanted or (got != got and wanted != wanted))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long to look for failures (default 60)"
    )
    parser.add_argument("--seed", type=int, help="the first case's seed (default: random)")
    parser.add_argument("--cases", type=int, help="stop after so many cases")
    options = parser.parse_args(arguments)
    if not options.seconds > 0:
        parser.error(f"--seconds {options.seconds:g}: more than 0 is accepted")
    faulthandler.enable()
    warnings.simplefilter("ignore")
    info = vkdml.default_device().info
    driver = f"{info.driver_name} {info.driver_info}"
    print(f"{info.name} ({info.type}), {driver}; NumPy {np.__version__}, Python {platform.python_version()}")
    first = secrets.randbits(32) if options.seed is None else options.seed
    started = said = time.monotonic()
    print(f"seed {first}, {options.seconds:g} s", flush=True)
    count = 0
    while time.monotonic() - started < options.seconds and count != options.cases:
        case = Case(first + count)
        try:
            case.run()
        except Exception as error:
            traceback.print_exception(error)
            print(f"\nFAILED after {count} cases; steps: {', '.join(case.done)}")
            print(f"again: python tests/fuzz_arrays.py --cases 1 --seed {first + count}", flush=True)
            return 1
        count += 1
        if time.monotonic() - said >= 10:
            said = time.monotonic()
            print(f"{said - started:6.0f} s  {count} cases  seed {first + count}", flush=True)
    print(f"no failure in {count} cases, seeds {first} to {first + count - 1}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
