"""Counts what passes through a store.

What lives here: `MeterStore` and its counters. What may not: printing or limiting anything.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chunkvault.store.wrap.base import WrapperStore, close_pages, override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from chunkvault.store.base import Buffer, Listed, ObjectInfo, Store

METHODS: Final = ("put", "get", "list", "stat", "move", "delete", "barrier", "close")


@dataclass
class Counters:
    """What one method has done so far.

    Attributes:
        calls: begun; a listing is one call, however many pages it has.
        errors: ended by an exception, cancellation included.
        bytes: content handed over or received whole; 0 for methods that move none.
        objects: names received by listings.
        seconds: spent inside the inner store; concurrent calls add up.
    """

    calls: int = 0
    errors: int = 0
    bytes: int = 0
    objects: int = 0
    seconds: float = 0.0


class MeterStore(WrapperStore):
    """Counts calls, errors, bytes and time, one `Counters` a method.

    Attributes:
        counters: by method name; all eight are always there.
    """

    def __init__(self, inner: Store, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(inner)
        self._clock = clock
        self.counters = {method: Counters() for method in METHODS}

    @contextmanager
    def _timed(self, method: str) -> Iterator[Counters]:
        counters = self.counters[method]
        counters.calls += 1
        start = self._clock()
        try:
            yield counters
        except BaseException:
            counters.errors += 1
            raise
        finally:
            counters.seconds += self._clock() - start

    @override
    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        with self._timed("put") as counters:
            await self.inner.put(name, data)
            counters.bytes += memoryview(data).nbytes

    @override
    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        with self._timed("get") as counters:
            data = await self.inner.get(name, limit=limit)
            counters.bytes += len(data)
            return data

    @override
    async def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`; the time its reader takes between pages does not count."""
        counters = self.counters["list"]
        counters.calls += 1
        pages = self.inner.list(prefix)
        try:
            while (page := await self._next_page(pages, counters)) is not None:
                counters.objects += len(page)
                yield page
        finally:
            await close_pages(pages)

    async def _next_page(
        self, pages: AsyncIterator[Sequence[Listed]], counters: Counters
    ) -> Sequence[Listed] | None:
        start = self._clock()
        try:
            return await anext(pages, None)
        except BaseException:
            counters.errors += 1
            raise
        finally:
            counters.seconds += self._clock() - start

    @override
    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        with self._timed("stat"):
            return await self.inner.stat(name)

    @override
    async def move(self, source: str, target: str) -> None:
        """See `Store`."""
        with self._timed("move"):
            await self.inner.move(source, target)

    @override
    async def delete(self, name: str) -> None:
        """See `Store`."""
        with self._timed("delete"):
            await self.inner.delete(name)

    @override
    async def barrier(self) -> None:
        """See `Store`."""
        with self._timed("barrier"):
            await self.inner.barrier()

    @override
    async def close(self) -> None:
        """See `Store`."""
        with self._timed("close"):
            await self.inner.close()
