"""Stores that fail on purpose, by script, so that a test can fail at every step in turn.

What lives here: wrappers that fail, die or dawdle. What may not: chance; a script says what happens
at which call.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from chunkvault.store.wrap.base import WrapperStore, close_pages, override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from chunkvault.store.base import Buffer, Listed, ObjectInfo, Store

_T = TypeVar("_T")


class When(enum.Enum):
    """How a call fails.

    Attributes:
        BEFORE: nothing is done.
        AFTER: all is done, and the reply is lost. A listing is lost after its first page.
        TORN: a put leaves the first ``keep`` bytes under the final name, as no honest store would;
            a get returns the first ``keep`` bytes. Without an error both claim success. Other
            methods take it for BEFORE.
    """

    BEFORE = "before"
    AFTER = "after"
    TORN = "torn"


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        call: at which call it happens, counted from 1 among the calls of ``method``.
        error: what is raised; None, allowed with TORN only, for a lie.
        method: which method; "" for any, counted together.
        when: how.
        keep: bytes that TORN keeps.
        times: how many calls in a row fail.
    """

    call: int
    error: Exception | None
    method: str = ""
    when: When = When.BEFORE
    keep: int = 0
    times: int = 1

    def __post_init__(self) -> None:
        if self.call < 1 or self.keep < 0 or self.times < 1:
            raise ValueError(f"not a fault: {self}")
        if self.error is None and self.when is not When.TORN:
            raise ValueError(f"a fault without an error: {self}")

    def strikes(self, method: str, of_method: int, of_all: int) -> bool:
        """Whether it happens at this call."""
        if self.method not in {"", method}:
            return False
        number = of_method if self.method else of_all
        return self.call <= number < self.call + self.times


class FaultStore(WrapperStore):
    """Fails as a script says; ``close`` never does, and is not counted.

    Attributes:
        calls: the calls so far, failed ones too, as (method, name).
    """

    def __init__(self, inner: Store, script: Iterable[Fault]) -> None:
        super().__init__(inner)
        self._script = tuple(script)
        self._of_method: dict[str, int] = {}
        self.calls: list[tuple[str, str]] = []

    def _next(self, method: str, name: str) -> Fault | None:
        self.calls.append((method, name))
        number = self._of_method[method] = self._of_method.get(method, 0) + 1
        for fault in self._script:
            if fault.strikes(method, number, len(self.calls)):
                return fault
        return None

    async def _call(self, method: str, name: str, run: Callable[[], Awaitable[_T]]) -> _T:
        fault = self._next(method, name)
        if fault is None or fault.error is None:
            return await run()
        if fault.when is When.AFTER:
            await run()
        raise fault.error

    @override
    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        fault = self._next("put", name)
        if fault is None:
            await self.inner.put(name, data)
            return
        if fault.when is When.AFTER:
            await self.inner.put(name, data)
        elif fault.when is When.TORN:
            await self.inner.put(name, bytes(data)[: fault.keep])
        if fault.error is not None:
            raise fault.error

    @override
    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        fault = self._next("get", name)
        if fault is not None and fault.when is When.BEFORE and fault.error is not None:
            raise fault.error
        data = await self.inner.get(name, limit=limit)
        if fault is None:
            return data
        if fault.error is not None:
            raise fault.error
        return data[: fault.keep]

    @override
    async def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`."""
        fault = self._next("list", prefix)
        error = None if fault is None else fault.error
        if fault is not None and fault.when is not When.AFTER and error is not None:
            raise error
        pages = self.inner.list(prefix)
        try:
            async for page in pages:
                yield page
                if error is not None:
                    raise error
        finally:
            await close_pages(pages)
        if error is not None:
            raise error

    @override
    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        return await self._call("stat", name, lambda: self.inner.stat(name))

    @override
    async def move(self, source: str, target: str) -> None:
        """See `Store`."""
        await self._call("move", source, lambda: self.inner.move(source, target))

    @override
    async def delete(self, name: str) -> None:
        """See `Store`."""
        await self._call("delete", name, lambda: self.inner.delete(name))

    @override
    async def barrier(self) -> None:
        """See `Store`."""
        await self._call("barrier", "", self.inner.barrier)


class SimulatedCrash(Exception):  # noqa: N818 - not an error that anything may handle
    """The process is to be taken for dead; no `ChunkvaultError`, so that nothing handles it."""


class CrashStore(WrapperStore):
    """Dies at a call: the first ``after`` calls work, every later one raises `SimulatedCrash`.

    Run an operation once with ``after=None`` and read ``len(calls)``; then once for each number
    below it. ``close`` always works and is not counted, so that a test can let go of things.

    Attributes:
        calls: the calls that worked, as (method, name).
        crashed: whether one did not.
    """

    def __init__(self, inner: Store, after: int | None = None) -> None:
        super().__init__(inner)
        self._after = after
        self.calls: list[tuple[str, str]] = []
        self.crashed = False

    def _count(self, method: str, name: str) -> None:
        if self.crashed or (self._after is not None and len(self.calls) >= self._after):
            self.crashed = True
            raise SimulatedCrash(f"at call {len(self.calls) + 1}: {method} {name}")
        self.calls.append((method, name))

    @override
    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        self._count("put", name)
        await self.inner.put(name, data)

    @override
    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        self._count("get", name)
        return await self.inner.get(name, limit=limit)

    @override
    async def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`."""
        self._count("list", prefix)
        pages = self.inner.list(prefix)
        try:
            async for page in pages:
                yield page
        finally:
            await close_pages(pages)

    @override
    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        self._count("stat", name)
        return await self.inner.stat(name)

    @override
    async def move(self, source: str, target: str) -> None:
        """See `Store`."""
        self._count("move", source)
        await self.inner.move(source, target)

    @override
    async def delete(self, name: str) -> None:
        """See `Store`."""
        self._count("delete", name)
        await self.inner.delete(name)

    @override
    async def barrier(self) -> None:
        """See `Store`."""
        self._count("barrier", "")
        await self.inner.barrier()


class LatencyStore(WrapperStore):
    """Waits before each call and each page of a listing, as a distant location would.

    Args:
        inner: the store.
        seconds: how long.
        sleep: waits; a test may count instead.
    """

    def __init__(
        self,
        inner: Store,
        seconds: float,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._sleep = sleep

    async def _wait(self) -> None:
        await self._sleep(self._seconds)

    @override
    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        await self._wait()
        await self.inner.put(name, data)

    @override
    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        await self._wait()
        return await self.inner.get(name, limit=limit)

    @override
    async def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`."""
        await self._wait()
        pages = self.inner.list(prefix)
        try:
            async for page in pages:
                yield page
                await self._wait()
        finally:
            await close_pages(pages)

    @override
    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        await self._wait()
        return await self.inner.stat(name)

    @override
    async def move(self, source: str, target: str) -> None:
        """See `Store`."""
        await self._wait()
        await self.inner.move(source, target)

    @override
    async def delete(self, name: str) -> None:
        """See `Store`."""
        await self._wait()
        await self.inner.delete(name)

    @override
    async def barrier(self) -> None:
        """See `Store`."""
        await self._wait()
        await self.inner.barrier()
