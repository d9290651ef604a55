"""What is particular to a folder: modes, roots, odd files, temporaries, threads."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chunkvault.errors import NotFoundError, StoreError
from chunkvault.store.base import BlockingStore, FreeSpace, Store, Sweepable
from chunkvault.store.local import LocalOptions, LocalStore
from chunkvault.testing.contract import BLOB, listing


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _with_store(root: Path, use: Callable[[LocalStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = LocalStore(root)
        try:
            await use(store)
        finally:
            await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, mask: int) -> None:
    """Files are 0600, folders 0700, made parents too; what was there keeps its mode."""
    above = tmp_path / "above"
    above.mkdir(mode=0o755)
    above.chmod(0o755)
    root = above / "new" / "vault"

    async def use(store: LocalStore) -> None:
        before = os.umask(mask)
        try:
            await store.put("config", b"x")
            await store.put(BLOB, b"x")
            await store.put(BLOB, b"y")
            await store.move("config", "trash/2026-01-01/config")
        finally:
            os.umask(before)

    _with_store(root, use)
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in above.rglob("*")}
    assert len(found) == 9
    for path, mode in found.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE(above.stat().st_mode) == 0o755


def test_files_are_private_from_their_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No wider mode is ever asked for, which a later chmod would only narrow too late."""
    modes: list[int] = []
    real = os.open

    def record(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            modes.append(mode)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", record)
    _with_store(tmp_path / "vault", lambda store: store.put(BLOB, b"x"))
    assert set(modes) == {0o600}


def test_create_root(tmp_path: Path) -> None:
    """Makes the root and what is missing above it; leaves an existing one as it is."""
    root = tmp_path / "a" / "b"
    _with_store(root, lambda store: store.create_root())
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    root.chmod(0o750)
    _with_store(root, lambda store: store.create_root())
    assert stat.S_IMODE(root.stat().st_mode) == 0o750


def test_reading_a_missing_root_makes_nothing(tmp_path: Path) -> None:
    """Looking for a vault leaves no trace; there is simply nothing there."""
    root = tmp_path / "vault"

    async def use(store: LocalStore) -> None:
        with pytest.raises(NotFoundError):
            await store.get(BLOB, limit=9)
        with pytest.raises(NotFoundError):
            await store.move(BLOB, "a")
        assert await listing(store, "") == {}
        await store.delete(BLOB)
        await store.barrier()
        assert await store.sweep_incoming(0) == 0
        assert await store.free_space() is None

    _with_store(root, use)
    assert not root.exists()


def test_a_root_made_later_is_found(tmp_path: Path) -> None:
    """A store that found nothing looks again."""
    root = tmp_path / "vault"

    async def use(store: LocalStore) -> None:
        assert await listing(store, "") == {}
        root.mkdir()
        (root / "config").write_bytes(b"x")
        assert await store.get("config", limit=1) == b"x"

    _with_store(root, use)


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_a_root_that_is_no_folder(tmp_path: Path, kind: str) -> None:
    """Reads find nothing, writes say that it is no folder."""
    root = tmp_path / "vault"
    if kind == "file":
        root.write_bytes(b"precious")
    else:
        root.symlink_to("nowhere")

    async def use(store: LocalStore) -> None:
        with pytest.raises(NotFoundError):
            await store.get("config", limit=1)
        with pytest.raises(StoreError, match="is not a folder"):
            await store.put("config", b"x")

    _with_store(root, use)
    assert not root.exists() or root.read_bytes() == b"precious"


def test_the_working_folder_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative root is that of the moment the store was made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    async def use(store: LocalStore) -> None:
        monkeypatch.chdir(tmp_path / "elsewhere")
        await store.put("config", b"x")

    _with_store(Path("vault"), use)
    assert (tmp_path / "vault" / "config").read_bytes() == b"x"


def test_a_root_moved_in_mid_run_keeps_receiving(tmp_path: Path) -> None:
    """What was opened stays the target, even when another folder takes its name."""
    root = tmp_path / "vault"

    async def use(store: LocalStore) -> None:
        await store.put("a", b"1")
        root.rename(tmp_path / "moved")
        root.mkdir()
        await store.put("b", b"2")

    _with_store(root, use)
    assert list(root.iterdir()) == []
    assert (tmp_path / "moved" / "b").read_bytes() == b"2"


def test_a_root_removed_in_mid_run_is_an_error(tmp_path: Path) -> None:
    """Nothing is written to a folder without a name."""
    root = tmp_path / "vault"

    async def use(store: LocalStore) -> None:
        await store.create_root()
        root.rmdir()
        with pytest.raises(StoreError, match="moved or removed"):
            await store.put(BLOB, b"1")

    _with_store(root, use)
    assert not root.exists()


def test_a_link_in_place_of_a_folder_is_refused_by_list(tmp_path: Path) -> None:
    """A listing that would silently be short is an error: prune would act on it."""
    root = tmp_path / "vault"
    (tmp_path / "elsewhere").mkdir()
    root.mkdir()
    (root / "blobs").symlink_to("../elsewhere")

    async def use(store: LocalStore) -> None:
        for prefix in ("", "blobs/"):
            with pytest.raises(StoreError, match="symbolic link"):
                await listing(store, prefix)

    _with_store(root, use)


def test_a_link_in_place_of_an_object_is_not_followed(tmp_path: Path) -> None:
    """A planted link leads no read out of the vault; a put replaces the link, not its target."""
    root = tmp_path / "vault"
    victim = tmp_path / "victim"
    victim.write_bytes(b"secret")
    root.mkdir()
    (root / "config").symlink_to(victim)

    async def use(store: LocalStore) -> None:
        with pytest.raises(NotFoundError):
            await store.get("config", limit=9)
        with pytest.raises(NotFoundError):
            await store.move("config", "b")
        await store.put("config", b"new")

    _with_store(root, use)
    assert victim.read_bytes() == b"secret"
    assert (root / "config").read_bytes() == b"new"
    assert not (root / "config").is_symlink()


def test_a_folder_in_place_of_an_object(tmp_path: Path) -> None:
    """A put says so, and leaves no temporary."""
    root = tmp_path / "vault"
    (root / "config" / "x").mkdir(parents=True)

    async def use(store: LocalStore) -> None:
        with pytest.raises(StoreError, match="cannot write config"):
            await store.put("config", b"x")

    _with_store(root, use)
    assert list((root / "incoming").iterdir()) == []


def test_incoming_that_leads_nowhere(tmp_path: Path) -> None:
    """A dangling link in place of incoming/ is an error, and not tried for ever."""
    root = tmp_path / "vault"
    root.mkdir()
    (root / "incoming").symlink_to("nowhere")

    async def use(store: LocalStore) -> None:
        with pytest.raises(StoreError, match="cannot write config"):
            await store.put("config", b"x")

    _with_store(root, use)


def test_sweep_removes_old_temporaries_only(tmp_path: Path) -> None:
    """By age, against the file system's own clock; objects and folders stay."""
    root = tmp_path / "vault"
    day = 24 * 3600 * 10**9

    async def use(store: LocalStore) -> None:
        await store.put(BLOB, b"x")
        old, fresh = root / "incoming" / "old-1", root / "incoming" / "fresh-1"
        for path in (old, fresh):
            path.write_bytes(b"part")
        (root / "incoming" / "folder").mkdir()
        past = time.time_ns() - 2 * day
        os.utime(old, ns=(past, past))
        os.utime(root / BLOB, ns=(past, past))
        assert await store.sweep_incoming(day) == 1
        assert not old.exists()
        assert fresh.exists()
        assert await store.sweep_incoming(0) == 1
        assert (root / BLOB).exists()
        assert [path.name for path in (root / "incoming").iterdir()] == ["folder"]

    _with_store(root, use)


def test_a_forked_process_does_not_share_temporaries(tmp_path: Path) -> None:
    """Where two processes think of one temporary name, the second takes another."""
    root = tmp_path / "vault"
    tokens = iter([b"A" * 8, b"A" * 8, b"B" * 8])

    async def run() -> None:
        first = LocalStore(root, random_bytes=lambda size: next(tokens))
        second = LocalStore(root, random_bytes=lambda size: next(tokens))
        await first.create_root()
        (root / "incoming").mkdir()
        taken = root / "incoming" / f"{(b'A' * 8).hex()}-0"
        taken.write_bytes(b"first's")
        await second.put("config", b"second's")
        assert taken.read_bytes() == b"first's"
        await first.close()
        await second.close()

    asyncio.run(run())
    assert (root / "config").read_bytes() == b"second's"


def test_extras(tmp_path: Path) -> None:
    """It can be called from threads, swept, and asked for free space."""

    async def use(store: LocalStore) -> None:
        plain: Store = store
        assert isinstance(plain, BlockingStore)
        assert isinstance(plain, Sweepable)
        assert isinstance(plain, FreeSpace)
        plain.put_sync(BLOB, b"xyz")
        assert plain.get_sync(BLOB, limit=3) == b"xyz"
        free = await plain.free_space()
        assert free is not None
        assert free > 0

    _with_store(tmp_path / "vault", use)


def test_a_closed_store_is_not_used(tmp_path: Path) -> None:
    """A call after close is a defect of the caller, and touches no other descriptor."""
    store = LocalStore(tmp_path / "vault")

    async def run() -> None:
        await store.put("a", b"x")
        await store.close()
        with pytest.raises(RuntimeError, match="closed"):
            await store.get("a", limit=9)
        with pytest.raises(RuntimeError, match="closed"):
            store.put_sync("a", b"y")

    asyncio.run(run())
    assert (tmp_path / "vault" / "a").read_bytes() == b"x"


def test_close_waits_for_calls_in_progress(tmp_path: Path) -> None:
    """A put under way when the store is closed ends whole, and no descriptor is left open."""
    root = tmp_path / "vault"
    before = _open_descriptors()

    async def run() -> None:
        store = LocalStore(root, LocalOptions(threads=1))
        puts = [asyncio.create_task(store.put(f"a/{n}", b"x" * 10**6)) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*puts, return_exceptions=True) == [None] * 20

    asyncio.run(run())
    assert len(list((root / "a").iterdir())) == 20
    assert _open_descriptors() == before


def test_failed_calls_leave_no_descriptor_open(tmp_path: Path) -> None:
    """Neither misses nor oversize objects nor listings left early leak."""
    root = tmp_path / "vault"
    (root / "blobs").mkdir(parents=True)
    for number in range(1100):
        (root / "blobs" / str(number)).write_bytes(b"12")
    before = _open_descriptors()

    async def use(store: LocalStore) -> None:
        for _ in range(5):
            for name in ("blobs/1", "blobs/none", "blobs"):
                with pytest.raises(StoreError):
                    await store.get(name, limit=1)
            pages = store.list("")
            async for _page in pages:
                break
            await pages.aclose()  # type: ignore[attr-defined]
        assert _open_descriptors() <= before + 4  # the loop's own, and the root

    _with_store(root, use)
    assert _open_descriptors() == before
