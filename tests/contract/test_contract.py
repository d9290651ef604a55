"""Every rule of the store contract, for every back end, bare and in every wrapper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from chunkvault.errors import RefusedError
from chunkvault.store.base import Store
from chunkvault.store.durability import FileByFile, WriteBack
from chunkvault.store.local import LocalOptions, LocalStore
from chunkvault.store.wrap.meter import MeterStore
from chunkvault.store.wrap.readonly import ReadOnlyStore
from chunkvault.store.wrap.retry import RetryStore
from chunkvault.testing.contract import BLOB, Rule, StoreContract
from chunkvault.testing.faults import CrashStore, FaultStore, LatencyStore
from chunkvault.testing.harness import FolderHarness, Harness, MemoryHarness

Wrap = Callable[[Store], Store]


def _memory(root: Path, wrap: Wrap) -> Harness:
    return MemoryHarness(wrap)


def _local(root: Path, wrap: Wrap) -> Harness:
    return FolderHarness(root, lambda: LocalStore(root), wrap)


def _local_ordered(root: Path, wrap: Wrap) -> Harness:
    options = LocalOptions(write_back=WriteBack.ORDERED, threads=1)
    return FolderHarness(root, lambda: LocalStore(root, options), wrap)


def _local_file_by_file(root: Path, wrap: Wrap) -> Harness:
    def open_store() -> Store:
        store = LocalStore(root)
        store._durability = FileByFile(print, batch=7)
        return store

    return FolderHarness(root, open_store, wrap)


BACK_ENDS = {
    "memory": _memory,
    "local": _local,
    "local-ordered": _local_ordered,
    "local-file-by-file": _local_file_by_file,
}
WRAPPERS: dict[str, Wrap] = {
    "bare": lambda store: store,
    "retry": RetryStore,
    "meter": MeterStore,
    "retry-meter": lambda store: RetryStore(MeterStore(store)),
    "no-faults": lambda store: FaultStore(store, ()),
    "no-crash": CrashStore,
    "no-latency": lambda store: LatencyStore(store, 0),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("back_end", ["memory", "local"])
@pytest.mark.parametrize("rule", StoreContract.rules())
def test_contract(rule: str, back_end: str, wrapper: str, tmp_path: Path) -> None:
    """The rule holds."""
    _check(StoreContract.rules()[rule], BACK_ENDS[back_end](tmp_path / "vault", WRAPPERS[wrapper]))


@pytest.mark.parametrize("back_end", ["local-ordered", "local-file-by-file"])
@pytest.mark.parametrize("rule", StoreContract.rules())
def test_contract_of_local_variants(rule: str, back_end: str, tmp_path: Path) -> None:
    """The rule holds however data becomes durable."""
    _check(StoreContract.rules()[rule], BACK_ENDS[back_end](tmp_path / "vault", WRAPPERS["bare"]))


@pytest.mark.parametrize("back_end", ["memory", "local"])
@pytest.mark.parametrize("rule", StoreContract.rules(reading_only=True))
def test_contract_of_read_only(rule: str, back_end: str, tmp_path: Path) -> None:
    """A read-only store keeps every rule that changes nothing."""
    _check(StoreContract.rules()[rule], BACK_ENDS[back_end](tmp_path / "vault", ReadOnlyStore))


@pytest.mark.parametrize("back_end", ["memory", "local"])
def test_read_only_refuses_changes(back_end: str, tmp_path: Path) -> None:
    """Put, move and delete through a read-only store change nothing."""
    harness = BACK_ENDS[back_end](tmp_path / "vault", ReadOnlyStore)
    harness.raw_write(BLOB, b"old")

    async def run() -> None:
        with pytest.raises(RefusedError):
            await harness.store.put(BLOB, b"new")
        with pytest.raises(RefusedError):
            await harness.store.move(BLOB, "trash/x")
        with pytest.raises(RefusedError):
            await harness.store.delete(BLOB)
        await harness.store.barrier()
        await harness.store.close()

    asyncio.run(run())
    assert harness.raw_names() == {BLOB}
    assert harness.raw_read(BLOB) == b"old"


def test_rules_are_found() -> None:
    """The suite holds its rules, and the read-only subset is smaller and not empty."""
    everything = StoreContract.rules()
    reading = StoreContract.rules(reading_only=True)
    assert "put_is_atomic_for_readers" in everything
    assert len(everything) >= 20
    assert set(reading) < set(everything)
    assert "list_names_each_object_once" in reading


def _check(rule: Rule, harness: Harness) -> None:
    async def run() -> None:
        await rule(harness)

    asyncio.run(run())
