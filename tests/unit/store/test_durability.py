"""Barriers: what is synced, which errors count, and that a failed barrier stays failed."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chunkvault.errors import FullError, StoreError
from chunkvault.store import durability
from chunkvault.store.durability import (
    FileByFile,
    NativeCalls,
    WholeFileSystem,
    WriteBack,
    choose_durability,
    load_native,
)
from chunkvault.store.local import LocalOptions, LocalStore
from chunkvault.testing.contract import BLOB, OTHER


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _without_syncfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "load_libc", lambda: None)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what fsync is called on, by their place in the file system, in order."""
    names: list[str] = []

    def record(descriptor: int) -> None:
        names.append(_path_of(descriptor))

    monkeypatch.setattr(os, "fsync", record)
    return names


def test_linux_has_both_calls() -> None:
    """On Linux the cheap form is used, so that the fallback is not what gets measured."""
    native = load_native()
    assert sys.platform != "linux" or native.syncfs is not None
    assert sys.platform != "linux" or native.sync_file_range is not None


def test_a_system_without_them_is_recognised() -> None:
    """Without a C library, and with one that lacks the calls, files are synced one by one."""
    for libc in (None, object()):
        native = NativeCalls(libc)
        assert native.syncfs is None
        assert native.sync_file_range is None
        native.start_write_back(-1, 1 << 20, WriteBack.ORDERED)
        assert isinstance(choose_durability(native, print), FileByFile)


def test_syncfs_gets_the_root_and_its_errors_count(tmp_path: Path) -> None:
    """The real call: works on a folder, and reports a bad descriptor as what it is."""
    native = load_native()
    assert native.syncfs is not None
    root = os.open(tmp_path, os.O_RDONLY)
    native.syncfs(root)
    os.close(root)
    with pytest.raises(OSError, match="descriptor") as caught:
        native.syncfs(root)
    assert caught.value.errno == errno.EBADF


def test_barrier_calls_syncfs_on_the_store(tmp_path: Path) -> None:
    """One call a barrier, on the root's own descriptor, and none before anything was done."""
    called: list[str] = []
    store = LocalStore(tmp_path / "vault")
    store._durability = WholeFileSystem(lambda fd: called.append(_path_of(fd)), print)

    async def run() -> None:
        await store.barrier()
        assert called == []
        await store.put(BLOB, b"x")
        await store.barrier()
        await store.close()

    asyncio.run(run())
    assert called == [str(tmp_path / "vault")]


@pytest.mark.parametrize(
    ("code", "error"), [(errno.EIO, StoreError), (errno.ENOSPC, FullError)], ids=["EIO", "ENOSPC"]
)
def test_a_failed_barrier_stays_failed(tmp_path: Path, code: int, error: type[StoreError]) -> None:
    """The kernel reports a lost write once; a later barrier must not pass over it."""
    failures = [_error(code)]

    def syncfs(descriptor: int) -> None:
        if failures:
            raise failures.pop()

    store = LocalStore(tmp_path / "vault")
    store._durability = WholeFileSystem(syncfs, print)

    async def run() -> None:
        await store.put(BLOB, b"x")
        for _ in range(2):
            with pytest.raises(error, match="cannot make durable"):
                await store.barrier()
        await store.close()

    asyncio.run(run())
    assert not failures


def test_syncfs_refused_by_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that does not offer it gets sync, with one notice for all barriers."""
    notices: list[str] = []
    synced: list[bool] = []
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))

    def syncfs(descriptor: int) -> None:
        raise _error(errno.ENOTSUP)

    store = LocalStore(tmp_path / "vault", notice=notices.append)
    store._durability = WholeFileSystem(syncfs, store._warn)

    async def run() -> None:
        await store.put(BLOB, b"x")
        await store.barrier()
        await store.barrier()
        await store.close()

    asyncio.run(run())
    assert synced == [True, True]
    assert len(notices) == 1
    assert "cannot confirm" in notices[0]


def test_file_by_file_syncs_files_then_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[str]
) -> None:
    """Every file and folder changed since the last barrier, moves and deletions too; once each."""
    _without_syncfs(monkeypatch)
    root = tmp_path / "vault"

    async def run() -> None:
        store = LocalStore(root)
        await store.put("config", b"x")
        await store.put(BLOB, b"x")
        await store.put(OTHER, b"x")
        await store.move(OTHER, "trash/x")
        synced.clear()
        await store.barrier()
        files = [str(root / name) for name in ("config", BLOB, "trash/x")]
        folders = [str(root / name) for name in ("", "blobs", "blobs/ab", "blobs/cd", "trash")]
        assert sorted(synced[:3]) == sorted(files)
        assert set(folders) <= set(synced[3:])
        assert len(synced) == len(set(synced))
        synced.clear()
        await store.barrier()
        assert synced == []
        await store.delete(BLOB)
        await store.barrier()
        assert synced == [str(root / "blobs/ab")]
        await store.close()

    asyncio.run(run())


def test_file_by_file_keeps_a_bounded_number_of_names(tmp_path: Path, synced: list[str]) -> None:
    """At the bound files are synced by the put that reaches it; the barrier does the rest."""
    store = LocalStore(tmp_path / "vault")
    store._durability = FileByFile(print, batch=10)

    async def run() -> None:
        for number in range(25):
            await store.put(f"a/{number}", b"x")
        assert sum("/a/" in name for name in synced) == 20
        await store.barrier()
        assert sorted(name for name in synced if "/a/" in name) == sorted(
            str(tmp_path / "vault" / "a" / str(number)) for number in range(25)
        )
        await store.close()

    asyncio.run(run())


def _failing_fsync(code: int, fails: Callable[[int], bool]) -> Callable[[int], None]:
    def fsync(descriptor: int) -> None:
        if fails(descriptor):
            raise _error(code)

    return fsync


def _is_folder(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP], ids=["EINVAL", "ENOTSUP"])
def test_folders_that_cannot_be_synced_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Network mounts refuse fsync of folders; that is no reason to fail, nor to complain."""
    _without_syncfs(monkeypatch)
    notices: list[str] = []

    async def run() -> None:
        store = LocalStore(tmp_path / "vault", notice=notices.append)
        monkeypatch.setattr(os, "fsync", _failing_fsync(code, _is_folder))
        await store.put(BLOB, b"x")
        await store.barrier()
        await store.close()

    asyncio.run(run())
    assert notices == []


def test_files_that_cannot_be_synced_give_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where even files cannot be synced the vault works, and says once what it is worth."""
    _without_syncfs(monkeypatch)
    notices: list[str] = []

    async def run() -> None:
        store = LocalStore(tmp_path / "vault", notice=notices.append)
        monkeypatch.setattr(os, "fsync", _failing_fsync(errno.ENOTSUP, lambda fd: True))
        await store.put(BLOB, b"x")
        await store.put(OTHER, b"x")
        await store.barrier()
        await store.close()

    asyncio.run(run())
    assert len(notices) == 1


@pytest.mark.parametrize("where", ["file", "folder"])
def test_io_errors_are_never_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """EIO from a file or a folder fails this barrier and all later ones."""
    _without_syncfs(monkeypatch)

    async def run() -> None:
        store = LocalStore(tmp_path / "vault")
        await store.put(BLOB, b"x")
        with monkeypatch.context() as patch:
            patch.setattr(
                os,
                "fsync",
                _failing_fsync(errno.EIO, lambda fd: _is_folder(fd) == (where == "folder")),
            )
            with pytest.raises(StoreError, match="check the disk"):
                await store.barrier()
        with pytest.raises(StoreError, match="check the disk"):
            await store.barrier()
        await store.close()

    asyncio.run(run())


def test_an_io_error_between_barriers_is_kept_for_the_barrier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch synced by a put may fail; the put says so, and the barrier still does."""
    store = LocalStore(tmp_path / "vault")
    store._durability = FileByFile(print, batch=2)

    async def run() -> None:
        await store.put("a", b"x")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", _failing_fsync(errno.EIO, lambda fd: True))
            with pytest.raises(StoreError, match="check the disk"):
                await store.put("b", b"x")
        with pytest.raises(StoreError, match="check the disk"):
            await store.barrier()
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "size", "flags"),
    [
        (WriteBack.LAZY, 1 << 20, []),
        (WriteBack.EARLY, 1 << 20, [2]),
        (WriteBack.EARLY, 100, []),
        (WriteBack.ORDERED, 1 << 20, [6]),
        (WriteBack.ORDERED, 100, [6]),
    ],
)
def test_write_back_before_the_name(
    tmp_path: Path, mode: WriteBack, size: int, flags: list[int]
) -> None:
    """Write-back starts as chosen, on a file that has not got its final name yet."""
    store = LocalStore(tmp_path / "vault", LocalOptions(write_back=mode))
    seen: list[int] = []

    def sync_file_range(descriptor: int, flag: int) -> None:
        assert "/incoming/" in _path_of(descriptor)
        assert os.fstat(descriptor).st_size == size
        seen.append(flag)

    store._native.sync_file_range = sync_file_range
    store.put_sync(BLOB, bytes(size))
    asyncio.run(store.close())
    assert seen == flags


def test_write_back_that_is_not_offered_is_not_tried_again(tmp_path: Path) -> None:
    """It is a help, not a need; but a disk that refuses the data is an error."""
    store = LocalStore(tmp_path / "vault")
    calls: list[int] = []

    def sync_file_range(descriptor: int, flag: int) -> None:
        calls.append(flag)
        raise _error(errno.EIO if len(calls) == 1 else errno.ENOSYS)

    store._native.sync_file_range = sync_file_range
    with pytest.raises(StoreError, match="check the disk"):
        store.put_sync(BLOB, bytes(1 << 20))
    assert not (tmp_path / "vault" / BLOB).exists()
    for _ in range(2):
        store.put_sync(BLOB, bytes(1 << 20))
    assert len(calls) == 2
    asyncio.run(store.close())
