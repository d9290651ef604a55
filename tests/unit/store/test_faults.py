"""The stores that fail on purpose do so where the script says, and nowhere else."""

from __future__ import annotations

import asyncio

import pytest

from chunkvault.errors import ChunkvaultError, FullError
from chunkvault.store.memory import MemoryStore
from chunkvault.testing.faults import (
    CrashStore,
    Fault,
    FaultStore,
    LatencyStore,
    SimulatedCrash,
    When,
)

FULL = FullError("full")


def test_before_and_after() -> None:
    """BEFORE has no effect, AFTER has its whole effect; the calls around are untouched."""
    memory = MemoryStore()
    store = FaultStore(memory, [Fault(2, FULL, "put"), Fault(3, FULL, "put", When.AFTER)])

    async def run() -> None:
        await store.put("a", b"1")
        for name in ("b", "c"):
            with pytest.raises(FullError):
                await store.put(name, b"2")
        await store.put("d", b"3")

    asyncio.run(run())
    assert memory.objects == {"a": b"1", "c": b"2", "d": b"3"}
    assert store.calls == [("put", "a"), ("put", "b"), ("put", "c"), ("put", "d")]


def test_torn_and_lying() -> None:
    """TORN keeps a part; without an error it says nothing of it."""
    memory = MemoryStore()
    script = [
        Fault(1, FULL, "put", When.TORN, keep=2),
        Fault(2, None, "put", When.TORN, keep=1),
        Fault(1, None, "get", When.TORN, keep=3),
    ]
    store = FaultStore(memory, script)

    async def run() -> bytes:
        with pytest.raises(FullError):
            await store.put("a", b"12345")
        await store.put("b", b"12345")
        await store.put("c", b"12345")
        assert await store.get("c", limit=9) == b"123"
        return await store.get("c", limit=9)

    assert asyncio.run(run()) == b"12345"
    assert memory.objects == {"a": b"12", "b": b"1", "c": b"12345"}


def test_calls_of_any_method_count_together() -> None:
    """Without a method the call is counted among all."""
    store = FaultStore(MemoryStore(), [Fault(3, FULL, times=2)])

    async def run() -> None:
        await store.put("a", b"")
        await store.stat("a")
        with pytest.raises(FullError):
            await store.barrier()
        with pytest.raises(FullError):
            async for _ in store.list(""):
                pass
        await store.delete("a")

    asyncio.run(run())


def test_a_listing_lost_after_its_first_page() -> None:
    """AFTER on a listing yields a page and then fails."""
    memory = MemoryStore()
    for number in range(1500):
        memory.put_sync(f"a/{number}", b"")
    store = FaultStore(memory, [Fault(1, FULL, "list", When.AFTER)])
    seen: list[str] = []

    async def run() -> None:
        async for page in store.list(""):
            seen.extend(item.name for item in page)

    with pytest.raises(FullError):
        asyncio.run(run())
    assert len(seen) == 1000


@pytest.mark.parametrize("after", range(4))
def test_crash_stops_everything_after_a_call(after: int) -> None:
    """The first N calls take effect, no later one does, and close still works."""
    memory = MemoryStore()
    store = CrashStore(memory, after)

    async def run() -> None:
        try:
            for number in range(3):
                await store.put(str(number), b"x")
        except SimulatedCrash:
            with pytest.raises(SimulatedCrash):
                await store.delete("0")
        await store.close()

    asyncio.run(run())
    assert set(memory.objects) == {str(number) for number in range(after)}
    assert store.crashed == (after < 3)
    assert len(store.calls) == after


def test_a_crash_is_handled_by_nothing() -> None:
    """Code that handles this program's errors does not handle its death."""
    assert not issubclass(SimulatedCrash, ChunkvaultError)


def test_latency_waits_before_each_call_and_page() -> None:
    """Each call waits once, a listing once a page and once more for its end."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        store = LatencyStore(MemoryStore(), 0.02, sleep=sleep)
        await store.put("a", b"x")
        await store.get("a", limit=1)
        await store.stat("a")
        await store.move("a", "b")
        async for _ in store.list(""):
            pass
        await store.delete("b")
        await store.barrier()

    asyncio.run(run())
    assert waits == [0.02] * 8


@pytest.mark.parametrize(
    "make",
    [lambda: Fault(0, FULL), lambda: Fault(1, None), lambda: Fault(1, FULL, keep=-1)],
    ids=["no call", "no error", "negative"],
)
def test_senseless_faults_are_refused(make: object) -> None:
    """A script with a mistake does not pass for one without faults."""
    assert callable(make)
    with pytest.raises(ValueError, match="fault"):
        make()
