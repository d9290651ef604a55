"""A store in memory, for tests and for learning the contract.

What lives here: `MemoryStore`. It is honest about barriers: what came after the last one may be
lost in a crash, and ``crash`` shows how. What may not: anything that only a test needs to know.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from chunkvault.errors import NotFoundError, OversizeError
from chunkvault.store.base import Buffer, Listed, ObjectInfo
from chunkvault.store.names import check_name, check_prefix

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from random import Random

_PAGE: Final = 1000


class _Object(NamedTuple):
    data: bytes
    modified_ns: int


class _Change(NamedTuple):
    """One change since the last barrier: ``source`` (None: gone) took or gave ``content``."""

    name: str
    content: _Object | None
    moved_from: str = ""


class MemoryStore:
    """Objects in a dict; safe from many threads.

    Args:
        clock_ns: what ``modified_ns`` is taken from.
        location: for messages.
    """

    def __init__(
        self, *, clock_ns: Callable[[], int] = time.time_ns, location: str = "memory"
    ) -> None:
        self._clock_ns = clock_ns
        self._location = location
        self._lock = threading.Lock()
        self._objects: dict[str, _Object] = {}
        self._before: dict[str, _Object | None] = {}
        self._changes: list[_Change] = []

    @property
    def location(self) -> str:
        """The name given."""
        return self._location

    @property
    def objects(self) -> Mapping[str, bytes]:
        """A copy of what is stored, for inspection."""
        with self._lock:
            return {name: found.data for name, found in self._objects.items()}

    def crash(self, rng: Random) -> MemoryStore:
        """What a power cut now might leave, as a new store.

        Everything before the last barrier is there. Of what came after it, each change is there
        or not, in no order, but never a part of an object; a move may have made its new name and
        kept its old one.
        """
        survivor = MemoryStore(clock_ns=self._clock_ns, location=self._location)
        with self._lock:
            objects = dict(self._objects)
            before = dict(self._before)
            changes = list(self._changes)
        for name, content in before.items():
            _assign(objects, name, content)
        for change in changes:
            if rng.random() < 0.5:
                _assign(objects, change.name, change.content)
                if change.moved_from and rng.random() < 0.5:
                    _assign(objects, change.moved_from, None)
        survivor._objects = objects
        return survivor

    def _change(self, change: _Change) -> None:
        for name in filter(None, (change.name, change.moved_from)):
            self._before.setdefault(name, self._objects.get(name))
        _assign(self._objects, change.name, change.content)
        if change.moved_from:
            _assign(self._objects, change.moved_from, None)
        self._changes.append(change)

    def _find(self, name: str) -> _Object:
        check_name(name)
        found = self._objects.get(name)
        if found is None:
            raise NotFoundError(f"{self._location} has no {name}", name=name)
        return found

    def put_sync(self, name: str, data: Buffer) -> None:
        """See `BlockingStore`."""
        check_name(name)
        content = _Object(bytes(data), self._clock_ns())
        with self._lock:
            self._change(_Change(name, content))

    def get_sync(self, name: str, *, limit: int) -> bytes:
        """See `BlockingStore`."""
        data = self._find(name).data
        if len(data) > limit:
            raise OversizeError(
                f"{name} in {self._location} holds {len(data)} bytes, more than the {limit} "
                "allowed; run check",
                name=name,
            )
        return data

    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        self.put_sync(name, data)

    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        return self.get_sync(name, limit=limit)

    async def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`."""
        check_prefix(prefix)
        with self._lock:
            names = [name for name in self._objects if name.startswith(prefix)]
        for start in range(0, len(names), _PAGE):
            page = [
                Listed(name, len(found.data))
                for name in names[start : start + _PAGE]
                if (found := self._objects.get(name)) is not None
            ]
            if page:
                yield page

    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        found = self._find(name)
        return ObjectInfo(len(found.data), found.modified_ns)

    async def move(self, source: str, target: str) -> None:
        """See `Store`."""
        check_name(target)
        with self._lock:
            content = self._find(source)
            if source != target:
                self._change(_Change(target, content, moved_from=source))

    async def delete(self, name: str) -> None:
        """See `Store`."""
        check_name(name)
        with self._lock:
            if name in self._objects:
                self._change(_Change(name, None))

    async def barrier(self) -> None:
        """See `Store`."""
        with self._lock:
            self._before.clear()
            self._changes.clear()

    async def close(self) -> None:
        """Nothing to release: a test may open the same objects again."""


def _assign(objects: dict[str, _Object], name: str, content: _Object | None) -> None:
    if content is None:
        objects.pop(name, None)
    else:
        objects[name] = content
