"""Tries again where the location did not answer.

What lives here: `RetryStore`. What may not: retrying anything but `UnreachableError`; a refusal, a
full disk or a missing object does not go away by asking again.

Delays grow exponentially with full jitter (Brooker, "Exponential Backoff And Jitter", AWS
Architecture Blog, 2015): uniform between 0 and the ceiling, so that many clients cut off at one
moment do not come back at one moment.
"""

from __future__ import annotations

import asyncio
import hashlib
import random as random_module
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from chunkvault.errors import NotFoundError, UnreachableError
from chunkvault.store.wrap.base import WrapperStore, close_pages, override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from chunkvault.store.base import Buffer, Listed, ObjectInfo, Store

_T = TypeVar("_T")
_DIGEST: Final = 16


@dataclass(frozen=True)
class RetryPolicy:
    """How long to go on trying one call.

    Attributes:
        attempts: calls in all, the first included.
        base_seconds: ceiling of the first delay; it doubles each time.
        cap_seconds: no ceiling is higher.
        total_seconds: no delay begins that would end later than this after the first attempt began.
    """

    attempts: int = 8
    base_seconds: float = 0.5
    cap_seconds: float = 30.0
    total_seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or min(self.base_seconds, self.cap_seconds, self.total_seconds) < 0:
            raise ValueError(f"not a retry policy: {self}")

    def ceiling(self, failures: int) -> float:
        """The longest delay after so many failures, at least 1, in seconds."""
        return min(self.cap_seconds, self.base_seconds * 2.0 ** min(failures - 1, 60))


class RetryStore(WrapperStore):
    """Repeats calls that ended in `UnreachableError`, all but ``barrier`` and ``close``.

    A barrier speaks for puts that went over the link that broke: only the inner store can tell
    whether a new one may speak for them, and it says so by not raising.

    An error with an attribute ``retry_after`` (seconds, as in HTTP, RFC 9110 section 10.2.3) is
    waited for at least so long.

    Args:
        inner: the store.
        policy: how long to go on.
        sleep: waits for seconds.
        random: uniform in [0, 1).
        clock: monotonic seconds.
    """

    def __init__(
        self,
        inner: Store,
        policy: RetryPolicy | None = None,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner)
        self._policy = policy or RetryPolicy()
        self._sleep = sleep
        self._random = random
        self._clock = clock

    async def _repeat(self, call: Callable[[], Awaitable[_T]]) -> _T:
        patience = _Patience(self)
        while True:
            try:
                return await call()
            except UnreachableError as error:
                await patience.wait(error)

    @override
    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        await self._repeat(lambda: self.inner.put(name, data))

    @override
    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        return await self._repeat(lambda: self.inner.get(name, limit=limit))

    @override
    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        return await self._repeat(lambda: self.inner.stat(name))

    @override
    async def delete(self, name: str) -> None:
        """See `Store`."""
        await self._repeat(lambda: self.inner.delete(name))

    @override
    async def move(self, source: str, target: str) -> None:
        """See `Store`.

        The answer to a move that happened may be lost; the next attempt then misses the source,
        and finding the target means that all is done.
        """
        patience = _Patience(self)
        while True:
            try:
                await self.inner.move(source, target)
            except NotFoundError:
                if not (patience.failures and await self._exists(target)):
                    raise
            except UnreachableError as error:
                await patience.wait(error)
                continue
            return

    async def _exists(self, name: str) -> bool:
        try:
            await self.stat(name)
        except NotFoundError:
            return False
        return True

    @override
    async def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`; begins again after a failure, passing over what was yielded already.

        Sixteen bytes a name are kept for that. A page with something new restarts the policy's
        count and time, so that a long listing over a poor link ends.
        """
        patience = _Patience(self)
        yielded = bytearray()
        known: frozenset[bytes] = frozenset()
        while True:
            pages = self.inner.list(prefix)
            try:
                async for page in pages:
                    fresh = _remember_fresh(page, known, yielded)
                    if fresh:
                        yield fresh
                        patience = _Patience(self)
            except UnreachableError as error:
                await patience.wait(error)
                known = _split(yielded)
            else:
                return
            finally:
                await close_pages(pages)


class _Patience:
    """The failures of one call so far, and the waits between them."""

    def __init__(self, store: RetryStore) -> None:
        self._policy = store._policy
        self._sleep = store._sleep
        self._random = store._random
        self._clock = store._clock
        self._start = self._clock()
        self.failures = 0

    async def wait(self, error: UnreachableError) -> None:
        """Wait before the next attempt.

        Raises:
            UnreachableError: ``error``, when there will be none.
        """
        self.failures += 1
        delay = self._random() * self._policy.ceiling(self.failures)
        asked = getattr(error, "retry_after", None)
        if isinstance(asked, int | float):
            delay = max(delay, float(asked))
        elapsed = self._clock() - self._start
        if self.failures >= self._policy.attempts or elapsed + delay > self._policy.total_seconds:
            raise error
        await self._sleep(delay)


def _remember_fresh(
    page: Sequence[Listed], known: frozenset[bytes], yielded: bytearray
) -> list[Listed]:
    """Items whose names are not known; their digests are added to ``yielded``."""
    fresh = []
    for item in page:
        digest = _digest(item.name)
        if digest not in known:
            yielded += digest
            fresh.append(item)
    return fresh


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=_DIGEST).digest()


def _split(digests: bytearray) -> frozenset[bytes]:
    return frozenset(
        bytes(digests[start : start + _DIGEST]) for start in range(0, len(digests), _DIGEST)
    )
