"""Metering: calls, errors, bytes, names and time, per method."""

from __future__ import annotations

import asyncio

import pytest

from chunkvault.errors import NotFoundError
from chunkvault.store.memory import MemoryStore
from chunkvault.store.wrap.meter import METHODS, Counters, MeterStore


def test_every_method_is_counted() -> None:
    """One call of each, two of get, of which one fails; each takes one tick of the clock."""
    ticks = iter(range(1000))

    async def run() -> MeterStore:
        store = MeterStore(MemoryStore(), clock=lambda: float(next(ticks)))
        await store.put("a", memoryview(b"12345"))
        assert await store.get("a", limit=9) == b"12345"
        with pytest.raises(NotFoundError):
            await store.get("b", limit=9)
        assert [item.name async for page in store.list("") for item in page] == ["a"]
        await store.stat("a")
        await store.move("a", "b")
        await store.delete("b")
        await store.barrier()
        await store.close()
        return store

    counters = asyncio.run(run()).counters
    assert counters["put"] == Counters(calls=1, bytes=5, seconds=1.0)
    assert counters["get"] == Counters(calls=2, errors=1, bytes=5, seconds=2.0)
    assert counters["list"] == Counters(calls=1, objects=1, seconds=2.0)  # a page, and the end
    for method in ("stat", "move", "delete", "barrier", "close"):
        assert counters[method] == Counters(calls=1, seconds=1.0)
    assert set(counters) == set(METHODS)


def test_a_readers_own_time_is_not_counted() -> None:
    """What the caller does between two pages is not the store's time."""
    now = 0.0

    async def run() -> MeterStore:
        nonlocal now
        memory = MemoryStore()
        for number in range(2500):
            memory.put_sync(f"a/{number}", b"")
        store = MeterStore(memory, clock=lambda: now)
        async for _ in store.list(""):
            now += 100.0
        return store

    assert asyncio.run(run()).counters["list"] == Counters(calls=1, objects=2500)
