"""How files on a local file system become durable, in the cheapest way the system offers.

One ``fsync`` a file would cost a journal commit a file. Linux has ``syncfs``, which makes a whole
file system durable at once and says whether any write to it has failed; elsewhere the names written
since the last barrier are kept and synced one by one.

What lives here: ``barrier`` in its two forms, and early write-back. What may not: which files are
written, and where. ctypes (2 ms) is imported when a store is opened.

Sources: syncfs(2), sync_file_range(2), fsync(2) of the Linux man-pages; fcntl(2) of macOS. A failed
write-back is reported once and the pages are then taken for clean (Rebello et al., "Can
applications recover from fsync failures?", USENIX ATC 2020), so that a second barrier would
succeed over lost data: a barrier that has failed keeps failing.
"""

from __future__ import annotations

import enum
import errno
import fcntl
import os
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WRITE: Final = 2
_WAIT_AFTER: Final = 4
_NOT_OFFERED: Final = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY}
)
_EARLY_FROM: Final = 64 << 10
"""Smaller files cost more to start than they save."""

BATCH: Final = 20_000
"""Names kept between barriers where each is synced by itself."""

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)


class WriteBack(enum.Enum):
    """When a file's bytes begin their way to the disk.

    Attributes:
        LAZY: when the kernel or the barrier says so.
        EARLY: as soon as they are written, so that the barrier finds little left to do.
        ORDERED: likewise, and the file gets its name only when they are there. On file systems
            that journal sizes behind data (ext4 in its default mode, XFS) a power cut before the
            barrier then leaves no short file under a final name. Costs a wait for the disk a file.
    """

    LAZY = 0
    EARLY = _WRITE
    ORDERED = _WRITE | _WAIT_AFTER


class Durability(Protocol):
    """Hears of every change, and makes all of them durable when asked."""

    def wrote(self, root: int, name: str) -> None:
        """A file has got its final name."""
        ...

    def changed(self, folder: str) -> None:
        """A folder has gained or lost a name."""
        ...

    def forgot(self, name: str) -> None:
        """A file has lost this name."""
        ...

    def barrier(self, root: int) -> None:
        """Return when all of it survives a power cut.

        Raises:
            OSError: it may not, now and for ever after.
        """
        ...


class _Lasting:
    """Runs barriers, and fails for ever once one has failed."""

    def __init__(self) -> None:
        self.failure: OSError | None = None

    def run(self, flush: Callable[[int], None], root: int) -> None:
        """Run one.

        Raises:
            OSError: this one, or one before it, failed.
        """
        if self.failure is not None:
            code = self.failure.errno or errno.EIO
            raise OSError(code, os.strerror(code))
        try:
            flush(root)
        except OSError as error:
            self.failure = error
            raise


class WholeFileSystem:
    """``syncfs``: keeps no names.

    It reports writes that failed since the folder was opened (Linux 5.8; older kernels report
    less), so that the descriptor must be older than the first write.
    """

    def __init__(self, syncfs: Callable[[int], None], notice: Callable[[str], None]) -> None:
        self._lasting = _Lasting()
        self._syncfs = syncfs
        self._notice = notice

    def wrote(self, root: int, name: str) -> None:
        """Nothing to remember."""

    def changed(self, folder: str) -> None:
        """Nothing to remember."""

    def forgot(self, name: str) -> None:
        """Nothing to remember."""

    def barrier(self, root: int) -> None:
        """See `Durability`."""
        self._lasting.run(self._flush, root)

    def _flush(self, root: int) -> None:
        try:
            self._syncfs(root)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
            os.sync()  # waits on Linux, but tells of no failure
            self._notice("the file system cannot confirm that data is on disk; sync was used")


class FileByFile:
    """``fsync`` of each file, then of each folder, that changed since the last barrier."""

    def __init__(self, notice: Callable[[str], None], *, batch: int = BATCH) -> None:
        self._lasting = _Lasting()
        self._notice = notice
        self._batch = batch
        self._lock = threading.Lock()
        self._files: set[str] = set()
        self._folders: dict[str, None] = {}

    def wrote(self, root: int, name: str) -> None:
        """Keep the name, or sync all of them when there are too many."""
        with self._lock:
            self._files.add(name)
            self._folders[name.rpartition("/")[0]] = None
            if len(self._files) < self._batch:
                return
            files, self._files = self._files, set()
        try:
            self._sync_all(root, files, folders=False)
        except OSError as error:
            self._lasting.failure = error  # the barrier must not pass over what this lost
            raise

    def changed(self, folder: str) -> None:
        """Keep the folder."""
        with self._lock:
            self._folders[folder] = None

    def forgot(self, name: str) -> None:
        """Drop the name; its folder has changed."""
        with self._lock:
            self._files.discard(name)
            self._folders[name.rpartition("/")[0]] = None

    def barrier(self, root: int) -> None:
        """See `Durability`."""
        self._lasting.run(self._flush, root)

    def _flush(self, root: int) -> None:
        with self._lock:
            files, self._files = self._files, set()
            folders, self._folders = self._folders, {}
        self._sync_all(root, files, folders=False)
        self._sync_all(root, folders, folders=True)
        if self._lasting.failure is not None:  # a batch failed meanwhile
            raise self._lasting.failure

    def _sync_all(self, root: int, names: Iterable[str], *, folders: bool) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_DIRECTORY if folders else 0)
        for name in names:
            try:
                descriptor = os.open(name or ".", flags, dir_fd=root)
            except FileNotFoundError:
                continue  # moved or removed since: whoever did so has noted it
            try:
                if not sync_descriptor(descriptor) and not folders:
                    self._notice("the file system cannot confirm that data is on disk")
            finally:
                os.close(descriptor)


def sync_descriptor(descriptor: int) -> bool:
    """Make one file or folder durable, past the drive's own cache where the system can ask for it.

    Returns:
        False where the file system does not offer it (folders on many network mounts).

    Raises:
        OSError: its data may be lost.
    """
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
        else:
            return True
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise
        return False
    return True


class NativeCalls:
    """The two Linux calls that Python does not offer, each None where the system has it not."""

    def __init__(self, libc: Any) -> None:  # noqa: ANN401 - a ctypes library has no type
        self.syncfs = _syncfs(libc)
        self.sync_file_range = _sync_file_range(libc)

    def start_write_back(self, descriptor: int, size: int, mode: WriteBack) -> None:
        """Start the way to the disk, and for ORDERED wait until it is gone.

        Raises:
            OSError: the disk refused the data.
        """
        if self.sync_file_range is None or mode is WriteBack.LAZY:
            return
        if mode is WriteBack.EARLY and size < _EARLY_FROM:
            return
        try:
            self.sync_file_range(descriptor, mode.value)
        except OSError as error:
            if error.errno not in _NOT_OFFERED | {errno.ESPIPE}:
                raise
            self.sync_file_range = None


def load_native() -> NativeCalls:
    """Find the calls in the C library."""
    return NativeCalls(load_libc())


def load_libc() -> Any:  # noqa: ANN401 - a ctypes library has no type
    """The C library already loaded, or None where there is no way to it."""
    try:
        import ctypes  # noqa: PLC0415 - commands without a store need not pay for it

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError, TypeError):
        return None


def _call(function: Any, *arguments: int) -> None:  # noqa: ANN401 - likewise
    import ctypes  # noqa: PLC0415 - loaded by load_libc already

    while function(*arguments) != 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


def _syncfs(libc: Any) -> Callable[[int], None] | None:  # noqa: ANN401 - likewise
    function = getattr(libc, "syncfs", None)
    if function is None:
        return None
    try:
        _call(function, -1)
    except OSError as error:
        if error.errno != errno.EBADF:  # a kernel that has it complains of the descriptor
            return None
    return lambda descriptor: _call(function, descriptor)


def _sync_file_range(libc: Any) -> Callable[[int, int], None] | None:  # noqa: ANN401 - likewise
    function = getattr(libc, "sync_file_range", None)
    if function is None:
        return None
    import ctypes  # noqa: PLC0415 - loaded by load_libc already

    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return lambda descriptor, flags: _call(function, descriptor, 0, 0, flags)


def choose_durability(native: NativeCalls, notice: Callable[[str], None]) -> Durability:
    """The cheapest form that this system offers."""
    if native.syncfs is not None:
        return WholeFileSystem(native.syncfs, notice)
    return FileByFile(notice)
