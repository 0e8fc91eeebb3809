"""Things made ready that wait for their next user: keyed, bounded, shared by threads."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class Shelf(list[tuple[Item, int]]):
    """The things of one key that wait, each with its bytes; those used least recently first."""

    __slots__ = ("used",)
    used: bool
    """Whether something was borrowed here since the pool last looked for what to drop."""

    def __init__(self) -> None:
        super().__init__()
        self.used = False


class Lender(Generic[Key, Item]):
    """Borrows things of one key from a pool again and again, in a fraction of the time of ``take``.

    >>> pool = Pool(most=2, most_bytes=100)
    >>> pool.put("key", "item", 10)
    >>> lender = Lender(pool, "key")
    >>> lent = lender.borrow()
    >>> lent, pool.take("key")
    (('item', 10), None)
    >>> lender.give_back(lent)
    >>> pool.take("key")
    'item'

    The pool counts what is borrowed as if it were there. What comes back after the pool dropped things goes
    the pool's own way.
    """

    __slots__ = ("_drops", "_key", "_pool", "_shelf")

    def __init__(self, pool: Pool[Key, Item], key: Key) -> None:
        self._pool = pool
        self._key = key
        self._shelf: Shelf[Item] | None = None
        self._drops = -1

    def borrow(self) -> tuple[Item, int] | None:
        """Return a thing and its bytes, which are the caller's until :meth:`give_back`, or None."""
        pool = self._pool
        if self._drops != pool.drops or self._shelf is None:
            drops = pool.drops
            self._shelf = pool.shelf(self._key)
            self._drops = drops  # last: another thread trusts the shelf by it
        shelf = self._shelf
        if not shelf:
            return None
        try:
            return shelf.pop()  # atomic, so that threads need no lock
        except IndexError:  # another thread was faster
            return None

    def give_back(self, lent: tuple[Item, int]) -> None:
        """Keep a thing for the next caller. One that failed is dropped instead."""
        shelf = self._shelf
        if shelf is not None and self._drops == self._pool.drops:
            shelf.append(lent)
            shelf.used = True
        else:
            self._pool.put(self._key, *lent)


class Pool(Generic[Key, Item]):
    """Things that wait for their next user, by what they can be used for. Thread-safe.

    >>> pool = Pool(most=2, most_bytes=100)
    >>> for number in range(3):
    ...     pool.put(number, f"item {number}", 10)
    >>> pool.take(0), pool.take(2), pool.take(2)
    (None, 'item 2', None)

    Of the key that was used least recently, things go first. What is dropped is destroyed outside the lock.

    Ctrl-C may come between any two lines, and a signal handler may use the pool there. It costs at most the
    thing at hand: the totals are raised before a thing comes in and lowered after one went out, so they are
    never too low, and they are counted anew before anything is dropped on their account.
    """

    def __init__(self, most: int, most_bytes: int, most_item_bytes: int | None = None) -> None:
        """Make an empty pool.

        Args:
            most: things that may wait.
            most_bytes: that they may have together.
            most_item_bytes: a thing of more is not kept; ``most_bytes`` if None.
        """
        self._most = most
        self._most_bytes = most_bytes
        self._most_item_bytes = most_bytes if most_item_bytes is None else min(most_item_bytes, most_bytes)
        self._lock = threading.RLock()
        # Least recently used first; the things of a key likewise. A shelf may be empty.
        self._waiting: dict[Key, Shelf[Item]] = {}
        self._count = 0
        self._bytes = 0
        self.drops = 0
        """How often shelves were taken away: before the last time, a :class:`Lender` may know others."""

    def shelf(self, key: Key) -> Shelf[Item] | None:
        """Return the shelf of a key, for a :class:`Lender`."""
        return self._waiting.get(key)

    def take(self, key: Key) -> Item | None:
        """Return a thing of this key, which is then the caller's alone, or None."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                return None
            try:
                item, nbytes = waiting.pop()
            except IndexError:  # what interrupted calls leave
                return None
            self._count -= 1
            self._bytes -= nbytes
            return item

    def put(self, key: Key, item: Item, nbytes: int) -> None:
        """Keep a thing for the next user of its key, within the bounds."""
        if nbytes > self._most_item_bytes or not self._most:
            return
        surplus = None
        with self._lock:
            self._count += 1
            self._bytes += nbytes
            waiting = self._waiting.pop(key, None)
            if waiting is None:
                waiting = Shelf()
            waiting.append((item, nbytes))
            self._waiting[key] = waiting
            if self._is_over() or len(self._waiting) > 2 * self._most:
                surplus = self._take_surplus()
        del surplus

    def _is_over(self) -> bool:
        return self._count > self._most or self._bytes > self._most_bytes

    def _take_surplus(self) -> list[tuple[Item, int]]:
        """Return what is over the bounds, for the caller to drop when it has given up the lock."""
        # What is borrowed is counted when it comes back.
        self.drops += 1
        counted = [nbytes for waiting in list(self._waiting.values()) for _, nbytes in waiting]
        self._count, self._bytes = len(counted), sum(counted)
        for key, waiting in list(self._waiting.items()):
            if not waiting:
                self._waiting.pop(key, None)
            elif waiting.used:
                waiting.used = False
                self._waiting[key] = self._waiting.pop(key, waiting)
        surplus = []
        for key, waiting in list(self._waiting.items()):
            if not self._is_over():
                break
            while waiting and self._is_over():
                try:
                    item, nbytes = waiting.pop(0)
                except IndexError:
                    break
                surplus.append((item, nbytes))
                self._count -= 1
                self._bytes -= nbytes
            if not waiting:
                self._waiting.pop(key, None)
        return surplus

    def clear(self) -> bool:
        """Drop everything; False when there was nothing."""
        with self._lock:
            self.drops += 1
            dropped, self._waiting = self._waiting, {}
            self._count = self._bytes = 0
        dropped_any = any(dropped.values())
        for waiting in dropped.values():  # lenders may still know them
            waiting.clear()
        return dropped_any
