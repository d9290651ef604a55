"""The lock of a local vault."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from chunkvault.errors import VaultError
from chunkvault.vault.locks import VaultLock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


class Said(list[str]):
    """What a lock warned of."""

    def __call__(self, message: str) -> None:
        self.append(message)


def take(lock: VaultLock, *, shared: bool, wait_s: float = 0.0) -> None:
    asyncio.run(lock.acquire(shared=shared, wait_s=wait_s))


def quiet(path: Path) -> VaultLock:
    def fail(message: str) -> None:
        raise AssertionError(message)

    return VaultLock(path, warn=fail)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_only_shared_locks_go_together(
    tmp_path: Path, first: bool, second: bool, together: bool
) -> None:
    """Many may add at once; who takes away is alone."""
    one, two = quiet(tmp_path / "lock"), quiet(tmp_path / "lock")
    take(one, shared=first)
    if together:
        take(two, shared=second)
        assert two.held
    else:
        with pytest.raises(VaultError, match=r"locked by another process .*try again") as caught:
            take(two, shared=second)
        assert "\n" not in str(caught.value)
        assert not two.held
    one.release()
    two.release()
    take(two, shared=False)
    two.release()


def test_leaving_the_context_gives_the_lock_back(tmp_path: Path) -> None:
    """After an error too."""

    async def fail() -> None:
        async with quiet(tmp_path / "lock") as lock:
            await lock.acquire(shared=False)
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(fail())
    lock = quiet(tmp_path / "lock")
    take(lock, shared=False)
    lock.release()
    lock.release()


def test_a_lock_is_taken_once(tmp_path: Path) -> None:
    """Taking it twice would lose the first one."""
    lock = quiet(tmp_path / "lock")
    take(lock, shared=True)
    with pytest.raises(ValueError, match="already"):
        take(lock, shared=False)
    lock.release()


def test_the_file_is_private_and_stays(tmp_path: Path) -> None:
    """Without the file two processes could hold two locks."""
    lock = quiet(tmp_path / "lock")
    before = os.umask(0)
    try:
        take(lock, shared=True)
    finally:
        os.umask(before)
    lock.release()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "lock").stat().st_size == 0


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    """A killed prune leaves nothing to clean up; until then its number is named."""
    path = tmp_path / "lock"
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
        " print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(  # noqa: S603 - a fixed command
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(VaultError, match="another process") as caught:
            take(quiet(path), shared=True)
        if sys.platform == "linux":
            assert f"(pid {holder.pid})" in str(caught.value)
        holder.kill()
        holder.wait()
    lock = quiet(path)
    take(lock, shared=True)
    lock.release()


def pausing(
    rounds: int, then: Callable[[], None]
) -> tuple[list[float], Callable[[float], Awaitable[None]]]:
    """A pause that takes no time and does something in a certain round."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == rounds:
            then()
        await asyncio.sleep(0)

    return pauses, pause


def test_waiting_ends_when_the_lock_is_free(tmp_path: Path) -> None:
    """Who waits says so once, and goes on as soon as the other one ends."""
    other, said = quiet(tmp_path / "lock"), Said()
    take(other, shared=False)
    pauses, pause = pausing(3, other.release)
    lock = VaultLock(tmp_path / "lock", warn=said, pause=pause)
    take(lock, shared=True, wait_s=60)
    assert lock.held
    assert len(pauses) == 3
    assert len(said) == 1
    assert said[0].endswith("waiting")
    lock.release()


def test_waiting_has_an_end(tmp_path: Path) -> None:
    """No more seconds than were granted."""
    other, said = quiet(tmp_path / "lock"), Said()
    take(other, shared=False)
    pauses, pause = pausing(0, other.release)
    lock = VaultLock(tmp_path / "lock", warn=said, pause=pause)
    with pytest.raises(VaultError, match="try again"):
        take(lock, shared=False, wait_s=1.2)
    assert sum(pauses) == pytest.approx(1.2)
    other.release()


@pytest.mark.parametrize(
    "code", sorted({errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOLCK, errno.ENOSYS})
)
def test_a_file_system_without_locks_is_no_obstacle(tmp_path: Path, code: int) -> None:
    """The run goes on without, and says so once; no descriptor is left open."""
    said = Said()
    descriptors: list[int] = []

    def flock(fd: int, _operation: int) -> None:
        descriptors.append(fd)
        raise OSError(code, os.strerror(code))

    lock = VaultLock(tmp_path / "lock", warn=said, flock=flock)
    take(lock, shared=False)
    assert not lock.held
    assert len(said) == 1
    assert "cannot be locked" in said[0]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptors[0])
    lock.release()


def test_a_platform_without_flock_is_no_obstacle(tmp_path: Path) -> None:
    """Nothing but a warning."""
    said = Said()
    take(VaultLock(tmp_path / "lock", warn=said, flock=None), shared=True)
    assert len(said) == 1


def test_another_failure_is_an_error_on_one_line(tmp_path: Path) -> None:
    """A broken disk is not taken for a missing feature."""

    def flock(_fd: int, _operation: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    lock = VaultLock(tmp_path / "lock", warn=Said(), flock=flock)
    with pytest.raises(VaultError, match=r"lock .*Input/output error"):
        take(lock, shared=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VaultError, match="cannot be opened"):
        take(quiet(tmp_path / "link"), shared=True)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_file_replaced_meanwhile_is_locked_anew(tmp_path: Path) -> None:
    """A lock on a file that is no longer there excludes nobody, so the new one is taken."""
    path = tmp_path / "lock"
    calls: list[int] = []

    def flock(fd: int, operation: int) -> None:
        fcntl.flock(fd, operation)
        calls.append(fd)
        if len(calls) == 1:
            path.unlink()

    lock = VaultLock(path, warn=Said(), flock=flock)
    take(lock, shared=False)
    assert len(calls) == 2
    with pytest.raises(VaultError, match="another process"):
        take(quiet(path), shared=True)
    lock.release()
    take(quiet(path), shared=True)
