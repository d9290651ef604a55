"""The lock of a local vault: shared for who adds, exclusive for who takes away.

What lives here: flock on one empty file. What may not: anything that must be right for snapshots to
stay whole. The order of writes sees to that; the lock only saves the work of bringing blobs back.

flock, because it ends with the process that holds it, however that ends: no lock is ever stale, and
there is nothing to break by force. The file stays: without it two processes could hold two locks.
"""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Final, Self

from chunkvault.errors import VaultError

try:
    import fcntl
except ImportError:  # no such thing on this platform: every vault is without locks
    _system_flock: Callable[[int, int], None] | None = None
    _SHARED = _EXCLUSIVE = 0
else:
    _system_flock = fcntl.flock
    _SHARED, _EXCLUSIVE = fcntl.LOCK_SH | fcntl.LOCK_NB, fcntl.LOCK_EX | fcntl.LOCK_NB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_PAUSE_S: Final = 0.5
_HELD: Final = frozenset({errno.EWOULDBLOCK, errno.EACCES})
_UNSUPPORTED: Final = frozenset(
    {errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EBADF}
)
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_PROC_LOCKS: Final = "/proc/locks"


class VaultLock:
    """One holder's lock. ``async with VaultLock(…) as lock: await lock.acquire(…)`` gives it back.

    Args:
        path: the lock file in the vault's root.
        warn: hears in one line why the run goes on without a lock, or that it waits.
        flock: as in the standard library; None where the platform has none.
        pause: waits some seconds; for tests.
    """

    def __init__(
        self,
        path: Path,
        *,
        warn: Callable[[str], None],
        flock: Callable[[int, int], None] | None = _system_flock,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._path = path
        self._warn = warn
        self._flock = flock
        self._pause = pause
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    async def acquire(self, *, shared: bool, wait_s: float = 0.0) -> None:
        """Take the lock; where the file system has none, warn and go on without.

        Args:
            shared: several holders at once, but none that is exclusive.
            wait_s: seconds to wait for others to end; 0 not to wait.

        Raises:
            VaultError: others hold it still.
            ValueError: this object holds it already.
        """
        if self._fd is not None:
            raise ValueError("the lock is held already")
        left = wait_s
        said = False
        while not self._try(shared=shared):
            holder = f"the vault {self._path.parent} is locked by another process{self._holder()}"
            if left <= 0:
                raise VaultError(f"{holder}; try again when it has ended")
            if not said:
                self._warn(f"{holder}; waiting")
                said = True
            await self._pause(min(_PAUSE_S, left))
            left -= _PAUSE_S

    def release(self) -> None:
        """Give the lock back; without one, nothing happens."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def _try(self, *, shared: bool) -> bool:
        """Take the lock if that can be had now; also True where locks cannot be had at all."""
        if self._flock is None:
            self._without("this platform has no flock")
            return True
        fd = self._open()
        if fd is None:
            return True
        try:
            self._flock(fd, _SHARED if shared else _EXCLUSIVE)
            if self._is_current(fd):
                self._fd = fd
            # Otherwise somebody took the file away meanwhile; the one that is there now is free.
            return self.held or self._try(shared=shared)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                self._without(error.strerror)
                return True
            if error.errno not in _HELD:
                raise VaultError(
                    f"the lock {self._path} cannot be taken: {error.strerror}; see what lies there"
                ) from error
        finally:
            if self._fd != fd:
                os.close(fd)
        return False

    def _open(self) -> int | None:
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | flags, 0o600)
        except OSError as error:
            refused = error
        if refused.errno in _READ_ONLY:
            try:
                return os.open(self._path, os.O_RDONLY | flags)
            except OSError:
                self._without(refused.strerror)
                return None
        raise VaultError(
            f"the lock {self._path} cannot be opened: {refused.strerror}; see what lies there"
        ) from refused

    def _is_current(self, fd: int) -> bool:
        """Whether the locked file still is the one that others will find under the name."""
        try:
            named = self._path.stat()
        except OSError:
            return False
        return os.path.samestat(os.fstat(fd), named)

    def _without(self, why: str | None) -> None:
        self._warn(
            f"the vault {self._path.parent} cannot be locked ({why});"
            " do not prune it while others use it"
        )

    def _holder(self) -> str:
        """Who has it, as far as Linux tells."""
        try:
            inode = self._path.stat().st_ino
            with open(_PROC_LOCKS, encoding="ascii") as locks:  # noqa: PTH123 - a constant
                rows = [line.split() for line in locks]
        except (OSError, ValueError):
            return ""
        # 1: FLOCK  ADVISORY  WRITE 6405 fd:00:1234567 0 EOF
        for row in rows:
            if len(row) > 5 and row[1] == "FLOCK" and row[5].rpartition(":")[2] == str(inode):
                return f" (pid {row[4]})"
        return ""
