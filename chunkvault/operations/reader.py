"""Reads one file's content, whole or in chunks, and tells whether it held still meanwhile.

What lives here: descriptors and bytes. What may not: what becomes of them. A file is opened by name
below its folder's descriptor, without following a link and without waiting for a pipe's other end.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from chunkvault.fs.metadata import read_xattrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chunkvault.format.entry import Xattr

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK: Final = 512
"""st_blocks counts in these, whatever the file system's own block size (POSIX)."""
_CANNOT_SEEK_DATA: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
_UNSIZED_LIMIT: Final = 1 << 30
"""How much to read of a file whose status claims no size, as in /proc."""


class ReplacedError(OSError):
    """What stands at the name is no longer the regular file that was looked up."""


class Small(NamedTuple):
    """A small file's content and attributes.

    Attributes:
        content: its bytes; without the holes where it has any.
        layout: (hole before, data length) pairs; empty for a file without holes.
        xattrs: extended attributes.
        stable: whether the status after reading equals the one before.
    """

    content: bytes
    layout: tuple[tuple[int, int], ...]
    xattrs: tuple[Xattr, ...]
    stable: bool


def is_sparse(status: os.stat_result) -> bool:
    """Whether the file may have holes: it takes less room than its size."""
    return status.st_blocks * _BLOCK < status.st_size


def same_file(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether nothing happened to a file between two looks at it."""
    return (
        before.st_mtime_ns == after.st_mtime_ns
        and before.st_size == after.st_size
        and before.st_ctime_ns == after.st_ctime_ns
        and before.st_ino == after.st_ino
        and before.st_dev == after.st_dev
    )


def read_small(folder: int, name: bytes, status: os.stat_result) -> Small:
    """Read a file that was small when it was looked up.

    Five system calls where nothing unusual happens.

    Raises:
        ReplacedError: it is no regular file any more.
        OSError: it cannot be opened or read.
    """
    size = status.st_size
    fd = os.open(name, _OPEN, dir_fd=folder)
    try:
        if size and status.st_blocks * _BLOCK >= size:
            content = os.read(fd, size + 1)
            after = os.fstat(fd)
            if len(content) == size and same_file(status, after):
                return Small(content, (), read_xattrs(fd), stable=True)
        return _read_unusual(fd, status)
    finally:
        os.close(fd)


def _read_unusual(fd: int, status: os.stat_result) -> Small:
    """A file that is sparse, changed just now, or whose size is not to be believed."""
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        raise ReplacedError(0, "it is no regular file any more")
    os.lseek(fd, 0, os.SEEK_SET)
    layout: tuple[tuple[int, int], ...] = ()
    if is_sparse(before):
        layout = tuple(segments(fd, before.st_size))
        content = b"".join(_read_segments(fd, layout))
        layout = layout if any(hole for hole, _ in layout) else ()
    else:
        content = _read_to_end(fd, before.st_size)
    after = os.fstat(fd)
    expected = sum(hole + length for hole, length in layout) if layout else len(content)
    # A size of zero is what /proc claims of everything; there the bytes decide.
    whole = expected == after.st_size or before.st_size == after.st_size == 0
    stable = same_file(status, before) and same_file(before, after) and whole
    return Small(content, layout, read_xattrs(fd), stable=stable)


def _read_to_end(fd: int, size: int) -> bytes:
    limit = size or _UNSIZED_LIMIT
    parts: list[bytes] = []
    while limit > 0:
        part = os.read(fd, min(limit, 1 << 20))
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _read_segments(fd: int, layout: tuple[tuple[int, int], ...]) -> Iterator[bytes]:
    position = 0
    for hole, length in layout:
        position += hole
        data = os.pread(fd, length, position)
        # A file that was cut short meanwhile: what is missing reads as zeros, and is reported.
        yield data + bytes(length - len(data))
        position += length


def segments(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a sparse file's data lies, as (hole before, data length) pairs that sum up to ``size``.

    Uses SEEK_DATA and SEEK_HOLE; a file system without them reports one run of data.
    """
    position = 0
    while position < size:
        try:
            data = min(os.lseek(fd, position, os.SEEK_DATA), size)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                yield size - position, 0
            elif position == 0 and error.errno in _CANNOT_SEEK_DATA:
                yield 0, size
            else:
                raise
            return
        end = size
        if data < size:
            end = min(os.lseek(fd, data, os.SEEK_HOLE), size)
        yield data - position, end - data
        position = end


class LargeFile:
    """A file open for reading in pieces of the caller's size.

    Attributes:
        layout: (hole before, data length) pairs; empty for a file without holes.
        xattrs: extended attributes.
        size_read: bytes of data read so far.
    """

    def __init__(
        self,
        folder: int,
        name: bytes,
        status: os.stat_result,
        *,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open it.

        Raises:
            ReplacedError: it is no regular file any more.
            OSError: it cannot be opened.
        """
        self._fd = os.open(name, _OPEN, dir_fd=folder)
        try:
            self._before = os.fstat(self._fd)
            if not stat.S_ISREG(self._before.st_mode):
                raise ReplacedError(0, "it is no regular file any more")  # noqa: TRY301 - closes below
            self.layout: tuple[tuple[int, int], ...] = ()
            if is_sparse(self._before):
                found = tuple(segments(self._fd, self._before.st_size))
                if any(hole for hole, _ in found):
                    self.layout = found
            self.xattrs = read_xattrs(self._fd)
            self._runs = iter(self.layout or ((0, self._before.st_size or _UNSIZED_LIMIT),))
        except BaseException:
            os.close(self._fd)
            raise
        self._looked_up = status
        self._stopped = stopped
        self._position = 0
        self._left = 0
        self.size_read = 0
        self.short = False

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes of data; empty at the end, or when the run is being stopped."""
        while self._left == 0:
            run = next(self._runs, None)
            if run is None:
                return b""
            hole, self._left = run
            self._position += hole
        if self._stopped():
            return b""
        data = os.pread(self._fd, min(size, self._left), self._position)
        if not data:
            if not self.layout:
                self._left, self._runs = 0, iter(())
                return b""
            # Cut short meanwhile: the layout was fixed when reading began, so zeros stand in.
            data = bytes(min(size, self._left))
            self.short = True
        self._position += len(data)
        self._left -= len(data)
        self.size_read += len(data)
        return data

    def stable(self) -> bool:
        """Whether the file was the same from the first look until now."""
        after = os.fstat(self._fd)
        return (
            not self.short
            and same_file(self._looked_up, self._before)
            and same_file(self._before, after)
        )

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)
