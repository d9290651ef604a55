"""A store in a folder of a local or mounted file system.

A put writes under a temporary name in ``incoming/`` and renames, so that nothing partial ever has
a final name. It does not wait for the disk: ``barrier`` does, once for all. Files are 0600 and
folders 0700 whatever the umask. Every path is resolved from one descriptor of the root, opened at
the first use: the store does not care about the working folder, a file system mounted over it in
mid-run gets nothing, and ``syncfs`` hears of every write that failed since.

What lives here: the promises of a store, and what the system's errors mean. What may not: what the
names mean, plain file handling (``store.folder``), and how data becomes durable
(``store.durability``).

The methods named ``…_sync`` do the work; the asynchronous ones run them in a few threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import secrets
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from chunkvault.errors import (
    FullError,
    NotFoundError,
    OversizeError,
    RefusedError,
    StoreError,
    UnreachableError,
)
from chunkvault.store.base import Buffer, Listed, ObjectInfo
from chunkvault.store.durability import (
    NativeCalls,
    WriteBack,
    choose_durability,
    load_native,
)
from chunkvault.store.folder import (
    FOLDER_MODE,
    NO_OBJECT,
    OPEN_FOLDER,
    Page,
    discard,
    is_folder,
    make_private,
    names_in,
    read_all,
    remove_if_older,
    sync_folder,
    try_chmod,
    walk,
    write_all,
)
from chunkvault.store.names import INCOMING, check_name, check_prefix, printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Sequence
    from pathlib import Path

_P = ParamSpec("_P")
_T = TypeVar("_T")

_FILE_MODE: Final = 0o600
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_MOUNT: Final = (UnreachableError, "check the mount and run again")
_RIGHTS: Final = (RefusedError, "check its owner and mode")
_GONE: Final = (StoreError, "was the folder moved or removed?")
_MEANINGS: Final[dict[int, tuple[type[StoreError], str]]] = {
    errno.ENOSPC: (FullError, ""),
    errno.EDQUOT: (FullError, ""),
    errno.EROFS: (RefusedError, "mount it for writing"),
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ESTALE: _MOUNT,
    errno.ETIMEDOUT: _MOUNT,
    errno.EHOSTDOWN: _MOUNT,
    errno.EHOSTUNREACH: _MOUNT,
    errno.ENOTCONN: _MOUNT,
    errno.EIO: (StoreError, "check the disk, then run check --read-data"),
    errno.ENOENT: _GONE,
    errno.ENOTDIR: (StoreError, "a file is where a folder should be"),
    errno.EXDEV: (StoreError, "the vault must lie on one file system"),
}


@dataclass(frozen=True)
class LocalOptions:
    """How a local store works.

    Attributes:
        write_back: when bytes begin their way to the disk.
        threads: calls in progress at once.
    """

    write_back: WriteBack = WriteBack.EARLY
    threads: int = 4


class LocalStore:
    """A folder; nothing on disk is touched before the first call.

    Args:
        root: the folder. Missing, it holds nothing, and the first put makes it.
        options: how it works.
        location: the folder as its user wrote it, for messages.
        random_bytes: for temporary names.
        notice: hears, once each, of promises that the file system cannot keep.
    """

    def __init__(
        self,
        root: Path,
        options: LocalOptions | None = None,
        *,
        location: str | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._options = options or LocalOptions()
        self._path = root.absolute()
        self._location = printable(str(root)) if location is None else location
        self._random_bytes = random_bytes
        self._notice = notice
        self._noticed: set[str] = set()
        self._lock = threading.Lock()
        self._fd = -1
        self._closing = False
        self._closed = False
        self._native: NativeCalls = load_native()
        self._durability = choose_durability(self._native, self._warn)
        self._token = random_bytes(8).hex()
        self._counter = itertools.count()
        self._repair_modes: bool | None = None
        self._pool = ThreadPoolExecutor(self._options.threads, thread_name_prefix="store")

    @property
    def location(self) -> str:
        """The folder as its user wrote it."""
        return self._location

    @property
    def root(self) -> Path:
        """The folder, absolute."""
        return self._path

    # Asynchronous: the same, in a thread

    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        await self._run(self.put_sync, name, data)

    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        return await self._run(self.get_sync, name, limit=limit)

    async def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`; one page is in memory at a time, however large the folder.

        A folder that is a symbolic link is refused rather than passed over: what reads a listing
        must not take it for complete when it is not.
        """
        check_prefix(prefix)
        pages = self._pages(prefix)
        try:
            while page := await self._run(next, pages, None):
                yield page
        finally:
            pages.close()

    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        return await self._run(self._stat, name)

    async def move(self, source: str, target: str) -> None:
        """See `Store`."""
        await self._run(self._move, source, target)

    async def delete(self, name: str) -> None:
        """See `Store`."""
        await self._run(self._delete, name)

    async def barrier(self) -> None:
        """See `Store`. Once it has failed it fails for good: open the vault again, and check it."""
        await self._run(self._barrier)

    async def close(self) -> None:
        """Wait for calls in progress and release the descriptor; may be called twice.

        Threads that use the ``…_sync`` methods must have ended before.
        """
        if self._closing:
            return
        self._closing = True
        await asyncio.to_thread(self._pool.shutdown)
        with self._lock:
            self._closed = True
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    async def create_root(self) -> None:
        """Make the root and what is missing above it, 0700; an existing one is left as it is.

        Raises:
            StoreError: it cannot be made.
        """
        await self._run(self._root_for_writing)

    async def free_space(self) -> int | None:
        """See `FreeSpace`."""
        return await self._run(self._free_space)

    async def sweep_incoming(self, older_than_ns: int) -> int:
        """See `Sweepable`."""
        return await self._run(self._sweep, older_than_ns)

    async def _run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run it in a thread. Cancelled, it has not begun or has ended when this returns."""
        if self._closing:
            raise RuntimeError(f"the store {self._location} is closed")
        call = self._pool.submit(function, *args, **kwargs)
        try:
            return await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            while not call.done():  # a second cancellation must not let go of it either
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([asyncio.wrap_future(call)])
            raise

    # Writing

    def put_sync(self, name: str, data: Buffer) -> None:
        """See `BlockingStore`."""
        check_name(name)
        root = self._root_for_writing()
        try:
            temporary = self._write_temporary(root, data)
            try:
                self._rename(root, temporary, name)
            except BaseException:
                discard(root, temporary)
                raise
            self._durability.wrote(root, name)
        except OSError as error:
            raise self._error("write", name, error) from error

    def _write_temporary(self, root: int, data: Buffer) -> str:
        temporary, descriptor = self._open_temporary(root)
        try:
            try:
                size = write_all(descriptor, data)
                if self._repair_modes is not False:
                    self._repair_mode(descriptor)
                self._native.start_write_back(descriptor, size, self._options.write_back)
            finally:
                os.close(descriptor)  # some file systems tell only now that there is no room
        except BaseException:
            discard(root, temporary)
            raise
        return temporary

    def _open_temporary(self, root: int) -> tuple[str, int]:
        made = False
        while True:
            temporary = f"{INCOMING}/{self._token}-{next(self._counter)}"
            try:
                return temporary, os.open(temporary, _NEW, _FILE_MODE, dir_fd=root)
            except FileExistsError:  # this process was forked
                self._token = self._random_bytes(8).hex()
            except FileNotFoundError:
                if made:  # a link that leads nowhere has the folder's name
                    raise
                self._make_folder(root, INCOMING)
                made = True

    def _repair_mode(self, descriptor: int) -> None:
        """Undo a umask that takes even the owner's rights.

        No umask can add any, so that one look tells whether every file needs this.
        """
        wrong = stat.S_IMODE(os.fstat(descriptor).st_mode) != _FILE_MODE
        if wrong:
            wrong = try_chmod(descriptor, _FILE_MODE)
        self._repair_modes = wrong

    def _make_folder(self, root: int, folder: str) -> None:
        """Make a folder and those above it.

        Raises:
            OSError: it cannot be made; ENOENT when the root itself is gone.
        """
        parent = ""
        for part in folder.split("/"):
            path = f"{parent}/{part}" if parent else part
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, FOLDER_MODE, dir_fd=root)
                self._durability.changed(parent)
                make_private(path, root)
            parent = path

    def _rename(self, root: int, source: str, target: str) -> None:
        try:
            os.rename(source, target, src_dir_fd=root, dst_dir_fd=root)
        except FileNotFoundError:
            folder = target.rpartition("/")[0]
            if not folder:
                raise
            self._make_folder(root, folder)
            os.rename(source, target, src_dir_fd=root, dst_dir_fd=root)

    def _move(self, source: str, target: str) -> None:
        check_name(source)
        check_name(target)
        root = self._root()
        if root is None:
            raise self._missing(source)
        try:
            self._status(root, source)
            if source == target:
                return
            self._rename(root, source, target)
            self._durability.wrote(root, target)
            self._durability.forgot(source)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise self._missing(source) from error
            raise self._error("move", source, error) from error

    def _delete(self, name: str) -> None:
        check_name(name)
        root = self._root()
        if root is None:
            return
        try:
            os.unlink(name, dir_fd=root)
            self._durability.forgot(name)
        except OSError as error:
            if error.errno in NO_OBJECT:
                return
            if error.errno in {errno.EISDIR, errno.EPERM} and is_folder(root, name):
                return  # a folder is no object
            raise self._error("remove", name, error) from error

    def _barrier(self) -> None:
        if self._fd < 0:
            return  # nothing was done yet
        try:
            self._durability.barrier(self._fd)
        except OSError as error:
            raise self._error("make durable all of", "", error) from error

    def _sweep(self, older_than_ns: int) -> int:
        root = self._root()
        if root is None:
            return 0
        try:
            names = [f"{INCOMING}/{name}" for name in names_in(root, INCOMING)]
            if not names:
                return 0
            oldest = self._now_ns(root) - older_than_ns
            return sum(remove_if_older(root, name, oldest) for name in names)
        except OSError as error:
            raise self._error("clear", INCOMING, error) from error

    def _now_ns(self, root: int) -> int:
        """The file system's own clock, which on a network mount is another machine's."""
        temporary, descriptor = self._open_temporary(root)
        try:
            os.write(descriptor, b"\0")
            return os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)
            discard(root, temporary)

    # Reading

    def get_sync(self, name: str, *, limit: int) -> bytes:
        """See `BlockingStore`."""
        check_name(name)
        root = self._root()
        if root is None:
            raise self._missing(name)
        try:
            descriptor = os.open(name, _READ, dir_fd=root)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise self._missing(name)
                if status.st_size > limit:
                    raise self._oversize(name, status.st_size, limit)
                return read_all(descriptor, status.st_size)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in NO_OBJECT:
                raise self._missing(name) from error
            raise self._error("read", name, error) from error

    def _stat(self, name: str) -> ObjectInfo:
        check_name(name)
        root = self._root()
        if root is None:
            raise self._missing(name)
        try:
            status = self._status(root, name)
        except OSError as error:
            if error.errno in NO_OBJECT:
                raise self._missing(name) from error
            raise self._error("look at", name, error) from error
        return ObjectInfo(status.st_size, status.st_mtime_ns)

    def _status(self, root: int, name: str) -> os.stat_result:
        status = os.stat(name, dir_fd=root, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise self._missing(name)
        return status

    def _pages(self, prefix: str) -> Generator[Page]:
        root = self._root()
        if root is None:
            return
        try:
            yield from walk(root, prefix, where=self._location)
        except OSError as error:
            raise self._error("list", prefix, error) from error

    def _free_space(self) -> int | None:
        root = self._root()
        if root is None:
            return None
        try:
            status = os.fstatvfs(root)
        except OSError as error:
            raise self._error("look at", "", error) from error
        return status.f_bavail * status.f_frsize

    # The root

    def _root(self) -> int | None:
        """The root's descriptor; None where there is no such folder."""
        if self._fd >= 0:
            return self._fd
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the store {self._location} is closed")
            if self._fd < 0:
                try:
                    self._fd = os.open(self._path, OPEN_FOLDER)
                except OSError as error:
                    if error.errno in NO_OBJECT:
                        return None
                    raise self._error("open", "", error) from error
            return self._fd

    def _root_for_writing(self) -> int:
        root = self._root()
        if root is None:
            try:
                self._make_root()
                root = self._root()
            except OSError as error:
                raise self._error("make", "", error) from error
        if root is None:
            raise StoreError(f"{self._location} is not a folder: choose another location")
        return root

    def _make_root(self) -> None:
        missing: list[Path] = []
        for folder in (self._path, *self._path.parents):
            if os.path.lexists(folder):
                break
            missing.append(folder)
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, FOLDER_MODE)
                make_private(folder)
                sync_folder(folder.parent)

    # Errors

    def _missing(self, name: str) -> NotFoundError:
        return NotFoundError(f"{self._location} has no {name}", name=name)

    def _oversize(self, name: str, size: int, limit: int) -> OversizeError:
        return OversizeError(
            f"{name} in {self._location} holds {size} bytes, more than the {limit} allowed; "
            "run check",
            name=name,
        )

    def _error(self, verb: str, name: str, error: OSError) -> StoreError:
        """What a system call's failure means, and what to do about it."""
        what = f"{name} in {self._location}" if name else self._location
        code = error.errno or 0
        why = os.strerror(code) if code else str(error)
        kind, advice = _MEANINGS.get(code, (StoreError, ""))
        if code in _FULL:
            advice = self._what_is_full(code)
        ending = f"; {advice}" if advice else ""
        return kind(f"cannot {verb} {what}: {why}{ending}", name=name)

    def _what_is_full(self, code: int) -> str:
        if code == errno.EDQUOT:
            return "free some space below the quota and run again"
        with contextlib.suppress(OSError):
            status = os.fstatvfs(self._fd)
            if status.f_files and not status.f_favail:  # some file systems count no inodes
                return "there are no inodes left (too many files); remove some and run again"
        return "free some space and run again"

    def _warn(self, message: str) -> None:
        if self._notice is not None and message not in self._noticed:
            self._noticed.add(message)
            self._notice(f"{self._location}: {message}")
