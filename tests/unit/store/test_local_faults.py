"""Full, read-only, broken and killed: by real means where there are any, else by failing calls."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from chunkvault.errors import (
    FullError,
    NotFoundError,
    RefusedError,
    StoreError,
    UnreachableError,
)
from chunkvault.store.local import LocalStore
from chunkvault.testing.contract import BLOB, listing

PACKAGE = Path(__file__).parents[3]

MEANINGS = {
    errno.ENOSPC: FullError,
    errno.EDQUOT: FullError,
    errno.EROFS: RefusedError,
    errno.EACCES: RefusedError,
    errno.EPERM: RefusedError,
    errno.ESTALE: UnreachableError,
    errno.ENOTCONN: UnreachableError,
    errno.EIO: StoreError,
    errno.EMFILE: StoreError,
    errno.EXDEV: StoreError,
}


def _raising(code: int) -> Callable[..., NoReturn]:
    def call(*args: object, **kwargs: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("call", ["open", "write", "close", "rename"])
@pytest.mark.parametrize("code", MEANINGS, ids=lambda code: errno.errorcode[code])
def test_a_put_that_fails_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    """Whichever call fails, the old object stays, no temporary does, and the error is ours."""
    root = tmp_path / "vault"
    store = LocalStore(root)
    store.put_sync(BLOB, b"old")
    real = getattr(os, call)

    def failing(*args: object, **kwargs: object) -> NoReturn:
        if call == "close":
            real(*args, **kwargs)
        _raising(code)()

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(StoreError) as caught:
            store.put_sync(BLOB, b"new")
    assert type(caught.value) is MEANINGS[code]
    assert caught.value.name == BLOB
    assert str(root) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (root / BLOB).read_bytes() == b"old"
    assert list((root / "incoming").iterdir()) == []
    store.put_sync(BLOB, b"new")
    assert (root / BLOB).read_bytes() == b"new"
    asyncio.run(store.close())


@pytest.mark.parametrize("code", MEANINGS, ids=lambda code: errno.errorcode[code])
def test_other_calls_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Reading, looking, listing, moving, deleting and sweeping translate what fails below them."""
    error = MEANINGS[code]

    async def run() -> None:
        store = LocalStore(tmp_path / "vault")
        await store.put(BLOB, b"old")
        uses: dict[str, Callable[[], Awaitable[object]]] = {
            "read": lambda: store.get(BLOB, limit=9),
            "open": lambda: store.get(BLOB, limit=9),
            "stat": lambda: store.stat(BLOB),
            "scandir": lambda: listing(store, "blobs/"),
            "rename": lambda: store.move(BLOB, "b"),
            "unlink": lambda: store.delete(BLOB),
            "listdir": lambda: store.sweep_incoming(0),
        }
        for call, use in uses.items():
            with monkeypatch.context() as patch:
                patch.setattr(os, call, _raising(code))
                with pytest.raises(StoreError) as caught:
                    await use()
            assert type(caught.value) is error, call
        assert await store.get(BLOB, limit=9) == b"old"
        await store.close()

    asyncio.run(run())


def test_a_file_system_that_counts_no_inodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zero of zero inodes left (btrfs) does not mean that they have run out."""
    status = SimpleNamespace(f_files=0, f_favail=0)
    store = LocalStore(tmp_path / "vault")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _raising(errno.ENOSPC))
        patch.setattr(os, "fstatvfs", lambda descriptor: status)
        with pytest.raises(FullError, match="free some space"):
            store.put_sync(BLOB, b"x")
    asyncio.run(store.close())


def test_short_writes_and_reads_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take or give less than asked; the object is whole all the same."""
    write, read = os.write, os.read
    data = os.urandom(10_000)
    store = LocalStore(tmp_path / "vault")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, view: write(fd, memoryview(view)[:999]))
        patch.setattr(os, "read", lambda fd, size: read(fd, min(size, 777)))
        store.put_sync(BLOB, data)
        assert store.get_sync(BLOB, limit=10_000) == data
    assert (tmp_path / "vault" / BLOB).read_bytes() == data
    asyncio.run(store.close())


def test_an_oversize_object_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted terabyte costs one look."""
    root = tmp_path / "vault"
    root.mkdir()
    with (root / "config").open("wb") as file:
        file.truncate(1 << 40)
    store = LocalStore(root)
    monkeypatch.setattr(os, "read", _raising(errno.EIO))
    with pytest.raises(StoreError, match="1099511627776 bytes"):
        store.get_sync("config", limit=1 << 20)
    asyncio.run(store.close())


# On real file systems with real limits, in a mount namespace of the test's own


def _on_tmpfs(tmp_path: Path, options: str, script: str) -> str:
    """Run a script with ``root``, a fresh tmpfs, and what the tests below need."""
    mount = tmp_path / "mount"
    mount.mkdir()
    prelude = f"""
import asyncio, os, subprocess, sys
from pathlib import Path
from chunkvault.errors import *
from chunkvault.store.local import LocalStore
from chunkvault.testing.contract import listing
mount = {str(mount)!r}
root = Path(mount) / "vault"
"""
    command = 'mount -t tmpfs -o "$1" none "$2" && exec "$3" -W error -c "$4"'
    arguments = ["sh", options, str(mount), sys.executable, prelude + script]
    done = subprocess.run(  # noqa: S603 - a script of the tests themselves
        ["unshare", "-Urm", "sh", "-c", command, *arguments],  # noqa: S607 - wherever it is
        capture_output=True,
        text=True,
        check=False,
        cwd=PACKAGE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk(tmp_path: Path) -> None:
    """Objects are whole or absent, nothing is left behind, and with room again all goes on."""
    out = _on_tmpfs(
        tmp_path,
        "size=2m",
        """
async def run():
    store = LocalStore(root)
    stored = 0
    try:
        for number in range(100):
            await store.put(f"blobs/aa/{number}", bytes(100_000))
            stored += 1
    except FullError as error:
        print(error)
    assert await listing(store, "") == {f"blobs/aa/{n}": 100_000 for n in range(stored)}
    assert 10 < stored < 22, stored
    assert os.listdir(root / "incoming") == []
    await store.barrier()
    await store.move("blobs/aa/0", "trash/0")
    await store.delete("blobs/aa/1")
    subprocess.run(["mount", "-o", "remount,size=8m", mount], check=True)
    await store.put("blobs/aa/more", bytes(1_000_000))
    await store.barrier()
    await store.close()
asyncio.run(run())
""",
    )
    assert "cannot write blobs/aa/" in out
    assert "No space left on device; free some space" in out


def test_no_inodes_left(tmp_path: Path) -> None:
    """The message says that it is not the bytes that have run out."""
    out = _on_tmpfs(
        tmp_path,
        "nr_inodes=20",
        """
async def run():
    store = LocalStore(root)
    try:
        for number in range(100):
            await store.put(f"blobs/aa/{number}", b"x")
    except FullError as error:
        print(error)
    assert os.listdir(root / "incoming") == []
    await store.close()
asyncio.run(run())
""",
    )
    assert "no inodes" in out


def test_a_read_only_file_system(tmp_path: Path) -> None:
    """Everything can be read, nothing changed, and the error says why."""
    out = _on_tmpfs(
        tmp_path,
        "size=2m",
        """
async def run():
    store = LocalStore(root)
    await store.put("config", b"x")
    await store.close()
    subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
    store = LocalStore(root)
    assert await store.get("config", limit=1) == b"x"
    assert await listing(store, "") == {"config": 1}
    for call in (store.put("a", b"x"), store.move("config", "b"), store.delete("config")):
        try:
            await call
        except RefusedError as error:
            print(error)
        else:
            raise AssertionError("not refused")
    await store.barrier()
    await store.close()
asyncio.run(run())
""",
    )
    assert out.count("Read-only file system; mount it for writing") == 3


def test_a_file_system_mounted_inside(tmp_path: Path) -> None:
    """A shard on another file system cannot be written atomically, and is refused as such."""
    out = _on_tmpfs(
        tmp_path,
        "size=2m",
        """
(root / "blobs").mkdir(parents=True)
subprocess.run(["mount", "-t", "tmpfs", "none", str(root / "blobs")], check=True)
async def run():
    store = LocalStore(root)
    try:
        await store.put("blobs/x", b"x")
    except StoreError as error:
        print(error)
    assert os.listdir(root / "incoming") == []
    await store.close()
asyncio.run(run())
""",
    )
    assert "must lie on one file system" in out


def test_a_plain_user_is_refused(tmp_path: Path) -> None:
    """Without rights a read or a write is a refusal, not a missing object."""
    out = _on_tmpfs(
        tmp_path,
        "size=2m,mode=755",
        """
async def prepare():
    store = LocalStore(root)
    await store.put("config", b"x")
    await store.close()
asyncio.run(prepare())
os.chmod(root, 0o755)
import ctypes
assert ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) == 0  # drop CAP_DAC_OVERRIDE from the bounding set
program = '''
import asyncio
from pathlib import Path
from chunkvault.errors import RefusedError
from chunkvault.store.local import LocalStore
import sys
async def run():
    store = LocalStore(Path(sys.argv[1]))
    for call in (store.get("config", limit=9), store.put("new", b"x")):
        try:
            await call
        except RefusedError as error:
            print(error)
        else:
            raise AssertionError("not refused")
    await store.close()
asyncio.run(run())
'''
os.chmod(root / "config", 0)
os.chmod(root, 0o555)
assert ctypes.CDLL(None).prctl(24, 2, 0, 0, 0) == 0  # and CAP_DAC_READ_SEARCH
subprocess.run([sys.executable, "-c", program, str(root)], check=True)
""",
    )
    assert out.count("Permission denied; check its owner and mode") == 2


# Killed

KILLED = """
import hashlib, itertools, os, sys
from pathlib import Path
from chunkvault.store.local import LocalStore
store = LocalStore(Path(sys.argv[1]))
for number in itertools.count():
    body = os.urandom(64) * 65_536
    store.put_sync(f"blobs/{number % 3}/{number}", hashlib.sha256(body).digest() + body)
    store.put_sync("config", hashlib.sha256(body).digest() + body)
    print(number, flush=True)
"""


@pytest.mark.parametrize("puts", [1, 3, 5, 7])
def test_a_killed_process_leaves_whole_objects(tmp_path: Path, puts: int) -> None:
    """SIGKILL in the midst of puts: every object under a final name is whole; the rest is swept."""
    root = tmp_path / "vault"
    process = subprocess.Popen(  # noqa: S603 - likewise
        [sys.executable, "-c", KILLED, str(root)], stdout=subprocess.PIPE, cwd=PACKAGE
    )
    assert process.stdout is not None
    for _ in range(puts):
        process.stdout.readline()
    process.kill()
    process.stdout.read()
    process.stdout.close()
    process.wait()

    async def run() -> None:
        store = LocalStore(root)
        names = await listing(store, "")
        assert len(names) >= puts + 1
        for name, size in names.items():
            data = await store.get(name, limit=size)
            assert hashlib.sha256(data[32:]).digest() == data[:32], name
        await store.sweep_incoming(0)
        assert list((root / "incoming").iterdir()) == []
        with pytest.raises(NotFoundError):
            await store.get("blobs/0/1000000", limit=1)
        await store.close()

    asyncio.run(run())
