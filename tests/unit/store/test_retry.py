"""Retrying: what is tried again, how often, how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from chunkvault.errors import (
    FullError,
    NotFoundError,
    RefusedError,
    StoreError,
    UnreachableError,
)
from chunkvault.store.base import Listed, Store
from chunkvault.store.memory import MemoryStore
from chunkvault.store.wrap.retry import RetryPolicy, RetryStore
from chunkvault.testing.faults import Fault, FaultStore, When

GONE = UnreachableError("no answer")


class _Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def _retry(
    inner: Store, time: _Time, policy: RetryPolicy | None = None, jitter: float = 1.0
) -> RetryStore:
    return RetryStore(
        inner, policy, sleep=time.sleep, random=lambda: jitter, clock=lambda: time.now
    )


def _filled() -> MemoryStore:
    memory = MemoryStore()
    memory.put_sync("a", b"old")
    return memory


CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "put": lambda store: store.put("a", b"new"),
    "get": lambda store: store.get("a", limit=9),
    "stat": lambda store: store.stat("a"),
    "move": lambda store: store.move("a", "b"),
    "delete": lambda store: store.delete("a"),
}


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
@pytest.mark.parametrize("method", CALLS)
def test_unreachable_is_tried_again(method: str, when: When) -> None:
    """Each method gets through two failures, whether or not its effect took place."""
    memory, time = _filled(), _Time()
    faults = FaultStore(memory, [Fault(1, GONE, method, when, times=2)])
    asyncio.run(_as_coroutine(CALLS[method](_retry(faults, time))))
    expected = {"put": {"a": b"new"}, "move": {"b": b"old"}, "delete": {}}
    assert memory.objects == expected.get(method, {"a": b"old"})
    lost_reply_of_move = method == "move" and when is When.AFTER  # the second attempt settles it
    assert time.slept == ([0.5] if lost_reply_of_move else [0.5, 1.0])


@pytest.mark.parametrize("error", [RefusedError, FullError, NotFoundError, StoreError])
@pytest.mark.parametrize("method", CALLS)
def test_other_errors_are_not(method: str, error: type[StoreError]) -> None:
    """A refusal, a full disk, a missing object: one attempt."""
    faults, time = FaultStore(_filled(), [Fault(1, error("no"), method)]), _Time()
    with pytest.raises(error):
        asyncio.run(_as_coroutine(CALLS[method](_retry(faults, time))))
    assert len(faults.calls) == 1
    assert time.slept == []


def test_barrier_is_not_tried_again() -> None:
    """A second barrier might speak for puts that only the first could vouch for."""
    faults, time = FaultStore(_filled(), [Fault(1, GONE, "barrier")]), _Time()
    with pytest.raises(UnreachableError):
        asyncio.run(_retry(faults, time).barrier())
    assert len(faults.calls) == 1


def test_delays_double_up_to_the_cap_and_attempts_end() -> None:
    """Ceilings grow as promised; the last failure is raised as it came."""
    faults, time = FaultStore(_filled(), [Fault(1, GONE, times=99)]), _Time()
    policy = RetryPolicy(attempts=6, base_seconds=1, cap_seconds=5, total_seconds=1000)
    with pytest.raises(UnreachableError) as caught:
        asyncio.run(_retry(faults, time, policy).get("a", limit=9))
    assert caught.value is GONE
    assert time.slept == [1, 2, 4, 5, 5]
    assert len(faults.calls) == 6


def test_jitter_is_full() -> None:
    """The delay is the ceiling times the random number, down to none."""
    for jitter in (0.0, 0.25):
        faults, time = FaultStore(_filled(), [Fault(1, GONE)]), _Time()
        asyncio.run(_retry(faults, time, jitter=jitter).get("a", limit=9))
        assert time.slept == [0.5 * jitter]


def test_total_time_is_bounded() -> None:
    """No wait begins that would end after the total."""
    faults, time = FaultStore(_filled(), [Fault(1, GONE, times=99)]), _Time()
    policy = RetryPolicy(attempts=99, base_seconds=1, cap_seconds=64, total_seconds=10)
    with pytest.raises(UnreachableError):
        asyncio.run(_retry(faults, time, policy).get("a", limit=9))
    assert time.slept == [1, 2, 4]


def test_retry_after_is_honoured() -> None:
    """The location's own wish is the least delay, unless it is beyond the total."""
    error = UnreachableError("busy")
    error.retry_after = 7  # type: ignore[attr-defined]
    faults, time = FaultStore(_filled(), [Fault(1, error)]), _Time()
    asyncio.run(_retry(faults, time).get("a", limit=9))
    assert time.slept == [7]
    faults, time = FaultStore(_filled(), [Fault(1, error)]), _Time()
    with pytest.raises(UnreachableError):
        asyncio.run(_retry(faults, time, RetryPolicy(total_seconds=5)).get("a", limit=9))
    assert time.slept == []


def test_a_move_of_nothing_stays_an_error_after_a_failure() -> None:
    """A lost reply is believed only where the target is there."""
    faults, time = FaultStore(MemoryStore(), [Fault(1, GONE, "move")]), _Time()
    with pytest.raises(NotFoundError, match="has no a"):
        asyncio.run(_retry(faults, time).move("a", "b"))


class _FlakyList(MemoryStore):
    """Breaks after some pages in its first six listings; each is in another order."""

    def __init__(self, pages_each: int) -> None:
        super().__init__()
        self.pages_each = pages_each
        self.listings = 0

    def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:  # type: ignore[explicit-override]
        return self._list_flaky(prefix)

    async def _list_flaky(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        self.listings += 1
        names = sorted(name for name in self.objects if name.startswith(prefix))
        shift = (self.listings * 17) % len(names)
        names = names[shift:] + names[:shift]
        for start in range(0, len(names), 10):
            if start >= 10 * self.pages_each and self.listings <= 6:
                raise UnreachableError("link lost")
            yield [Listed(name, 1) for name in names[start : start + 10]]


def test_list_begins_again_without_duplicates() -> None:
    """A listing that breaks after two pages, each time in another order, yields each name once."""
    inner, time = _FlakyList(pages_each=2), _Time()
    expected = {f"blobs/{number:03}" for number in range(100)}
    for name in expected:
        inner.put_sync(name, b"x")

    async def run() -> list[str]:
        return [item.name async for page in _retry(inner, time).list("") for item in page]

    found = asyncio.run(run())
    assert sorted(found) == sorted(expected)
    assert inner.listings == 7


def test_list_without_progress_gives_up() -> None:
    """Attempts are bounded where no new page comes."""
    inner, time = _FlakyList(pages_each=0), _Time()
    inner.put_sync("a", b"x")

    async def run() -> None:
        async for _ in _retry(inner, time, RetryPolicy(attempts=3)).list(""):
            pass

    with pytest.raises(UnreachableError):
        asyncio.run(run())
    assert inner.listings == 3


@pytest.mark.parametrize("bad", [{"attempts": 0}, {"base_seconds": -1.0}])
def test_bad_policies_are_refused(bad: dict[str, float]) -> None:
    """A policy without attempts, or with negative times, is a defect of the caller."""
    with pytest.raises(ValueError, match="policy"):
        RetryPolicy(**bad)  # type: ignore[arg-type]


async def _as_coroutine(call: Awaitable[object]) -> None:
    await call
