"""The memory store's crash: what a power cut may take, and what it may not."""

from __future__ import annotations

import asyncio
import random

from chunkvault.store.base import BlockingStore, Store
from chunkvault.store.memory import MemoryStore


async def _busy_store() -> MemoryStore:
    store = MemoryStore()
    await store.put("kept", b"old")
    await store.put("replaced", b"old")
    await store.put("moved", b"content")
    await store.put("deleted", b"old")
    await store.barrier()
    await store.put("new", b"new")
    await store.put("replaced", b"new")
    await store.move("moved", "target")
    await store.delete("deleted")
    return store


def _crash(store: MemoryStore, seed: int) -> dict[str, bytes]:
    return dict(store.crash(random.Random(seed)).objects)  # noqa: S311 - a game of chance


def test_crash_drops_some_of_what_no_barrier_covers() -> None:
    """Over many crashes each change after the barrier is seen both kept and lost, on its own."""
    store = asyncio.run(_busy_store())
    outcomes = [_crash(store, seed) for seed in range(200)]
    assert {"new" in found for found in outcomes} == {True, False}
    assert {found["replaced"] for found in outcomes} == {b"old", b"new"}
    assert {"deleted" in found for found in outcomes} == {True, False}
    assert {("moved" in found, "target" in found) for found in outcomes} == {
        (True, False),
        (True, True),
        (False, True),
    }
    assert len({tuple(sorted(found)) for found in outcomes}) > 8


def test_crash_keeps_what_a_barrier_covers_and_tears_nothing() -> None:
    """Every object after a crash is whole, and all before the barrier is there or replaced."""
    store = asyncio.run(_busy_store())
    for seed in range(200):
        found = _crash(store, seed)
        assert found["kept"] == b"old"
        assert found.get("moved", found.get("target")) == b"content"
        assert set(found.values()) <= {b"old", b"new", b"content"}


def test_crash_leaves_the_store_alone() -> None:
    """The survivor is a copy: the store itself goes on as if nothing had happened."""
    store = asyncio.run(_busy_store())
    before = dict(store.objects)
    survivor = store.crash(random.Random(1))  # noqa: S311 - likewise
    survivor.put_sync("elsewhere", b"x")
    assert store.objects == before


def test_barrier_makes_everything_safe() -> None:
    """After a barrier a crash loses nothing."""
    store = asyncio.run(_busy_store())
    asyncio.run(store.barrier())
    for seed in range(20):
        assert _crash(store, seed) == store.objects


def test_modified_comes_from_the_clock_given() -> None:
    """Ages are the test's to choose."""
    store = MemoryStore(clock_ns=lambda: 42)
    store.put_sync("a", b"x")
    assert asyncio.run(store.stat("a")).modified_ns == 42


def test_it_is_a_blocking_store() -> None:
    """Callers in threads find the synchronous methods."""
    store: Store = MemoryStore()
    assert isinstance(store, BlockingStore)
    store.put_sync("a", memoryview(b"xyz")[1:])
    assert store.get_sync("a", limit=2) == b"yz"
