"""Walks the sources of a backup in manifest order, one folder descriptor at a time.

What lives here: which entries there are, in which order. What may not: reading contents, deciding
what is new. Every name is looked up alone, relative to the descriptor of its folder, and no link is
followed below a source, so that a tree that changes underneath cannot lead the walk elsewhere.
Only names are held in memory, and those of the folders on the current path only: a million files in
one folder cost about 110 MB.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from chunkvault.format.entry import order_key

OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOFOLLOW: Final = os.O_NOFOLLOW
_MAX_OPEN: Final = 200
"""Folders held open at once; above that the upper ones are closed and reopened on the way back."""
_TYPE_MASK: Final = 0o170000
_DIRECTORY: Final = stat.S_IFDIR


class Found(NamedTuple):
    """One entry of the walk; ``folder`` is valid until the next one is asked for.

    Attributes:
        path: below the root folder, without a leading slash.
        name: last component.
        folder: descriptor of the folder that holds it; for a directory, of the directory itself, or
            -1 where that cannot be opened.
        status: as by lstat; for a folder on the way to a source, as by stat.
    """

    path: bytes
    name: bytes
    folder: int
    status: os.stat_result


class ScanReport(Protocol):
    """Hears of what the walk could not do, or left out on purpose."""

    def __call__(self, kind: str, path: bytes, error: OSError | None) -> None:
        """``kind`` is missing, vanished, unreadable, own-vault or other-device."""


Excluded = Callable[[bytes, bool], bool]
"""(path below its source, is a directory) → leave it out."""


class _Wanted:
    """A folder that a source names, or that lies on the way to one."""

    __slots__ = ("below", "is_source")

    def __init__(self) -> None:
        self.below: dict[bytes, _Wanted] = {}
        self.is_source = False


class _Frame:
    """A folder on the current path."""

    __slots__ = ("device", "fd", "identity", "names", "path", "source_length", "wanted")

    def __init__(
        self,
        fd: int,
        path: bytes,
        device: int,
        identity: tuple[int, int],
        wanted: _Wanted | None,
        source_length: int,
    ) -> None:
        self.fd = fd
        self.path = path
        self.device = device
        self.identity = identity
        self.wanted = wanted
        self.source_length = source_length
        self.names: Iterator[bytes] = iter(())


class Scanner:
    """The walk over all sources, as one sequence in manifest order.

    Args:
        sources: absolute paths. One inside another is walked once. A source that is a symlink is
            found as the link it is; links on the way to a source are followed, as a shell would.
        report: hears of problems; the walk goes on.
        excluded: patterns, asked before anything is looked up; sources themselves are never asked.
        one_file_system: do not enter a folder on another device than its source's.
        own: (device, inode) of folders never to enter: the vault, the cache.
    """

    def __init__(
        self,
        sources: Iterable[bytes],
        *,
        report: ScanReport,
        excluded: Excluded | None = None,
        one_file_system: bool = False,
        own: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self._root = _Wanted()
        for source in sources:
            node = self._root
            for part in source.split(b"/"):
                if part:
                    node = node.below.setdefault(part, _Wanted())
            node.is_source = True
        self._report = report
        self._excluded = excluded
        self._one_file_system = one_file_system
        self._own = own
        self._stack: list[_Frame] = []

    def __iter__(self) -> Iterator[Found]:
        try:
            root = os.open(b"/", OPEN_FOLDER)
            top = os.fstat(root)
            self._push(root, b"", top, self._root, 0)
            yield from self._walk()
        finally:
            for frame in self._stack:
                if frame.fd >= 0:
                    os.close(frame.fd)
            self._stack.clear()

    # The walk is one loop rather than a recursion: a generator a level would cost each entry one
    # call a level, and Python's stack is shallower than file systems are.
    def _walk(self) -> Iterator[Found]:
        stack, excluded, lstat = self._stack, self._excluded, os.stat
        while stack:
            frame = stack[-1]
            fd, wanted, skip = frame.fd, frame.wanted, frame.source_length
            prefix = frame.path + b"/" if frame.path else b""
            for name in frame.names:
                path = prefix + name
                inner = wanted.below.get(name) if wanted is not None else None
                if excluded is not None and inner is None and excluded(path[skip:], False):  # noqa: FBT003
                    continue
                try:
                    # A folder on the way to a source is looked up as a shell would: through links.
                    on_the_way = inner is not None and not inner.is_source
                    status = lstat(name, dir_fd=fd, follow_symlinks=on_the_way)
                except OSError as error:
                    self._missed(path, inner, error)
                    continue
                if status.st_mode & _TYPE_MASK != _DIRECTORY:
                    if inner is None or self._is_no_folder(path, inner):
                        yield Found(path, name, fd, status)
                    continue
                if self._leave_out(path, status, inner, skip):
                    continue
                opened = self._enter(frame, name, path, status, inner)
                yield Found(path, name, opened, status)
                if stack[-1] is not frame:
                    break
            else:
                self._leave(frame)

    def _is_no_folder(self, path: bytes, inner: _Wanted) -> bool:
        """Whether what is no folder was asked for itself; sources below it cannot exist."""
        if inner.below:
            self._missed_below(path, inner, NotADirectoryError(20, "Not a directory"))
        return inner.is_source

    def _leave_out(
        self, path: bytes, status: os.stat_result, inner: _Wanted | None, skip: int
    ) -> bool:
        """Whether a folder is the vault's own, or excluded."""
        if (status.st_dev, status.st_ino) in self._own:
            self._report("own-vault", path, None)
            return True
        if self._excluded is None or inner is not None:
            return False
        return self._excluded(path[skip:], True)  # noqa: FBT003

    def _enter(
        self, frame: _Frame, name: bytes, path: bytes, status: os.stat_result, inner: _Wanted | None
    ) -> int:
        """Open a folder and make it the current one; -1, and a report, where that fails."""
        on_the_way = inner is not None and not inner.is_source
        try:
            fd = os.open(name, OPEN_FOLDER | (0 if on_the_way else _NOFOLLOW), dir_fd=frame.fd)
        except OSError as error:
            if inner is not None:
                self._missed(path, inner, error)
            else:
                self._report("unreadable", path, error)
            return -1
        try:
            self._push(fd, path, status, inner, frame.source_length, above=frame)
        except OSError as error:
            os.close(fd)
            self._report("unreadable", path, error)
            return -1
        return fd

    def _push(
        self,
        fd: int,
        path: bytes,
        status: os.stat_result,
        wanted: _Wanted | None,
        source_length: int,
        above: _Frame | None = None,
    ) -> None:
        is_source = wanted is not None and wanted.is_source
        inside = source_length > 0 or self._root.is_source
        if is_source or above is None:
            device = status.st_dev
            source_length = len(path) + 1 if path else 0
        else:
            device = above.device
        frame = _Frame(fd, path, device, (status.st_dev, status.st_ino), wanted, source_length)
        frame.names = self._names(frame, everything=is_source or inside, status=status)
        if len(self._stack) >= _MAX_OPEN:
            upper = self._stack[len(self._stack) - _MAX_OPEN]
            if upper.fd >= 0:
                os.close(upper.fd)
                upper.fd = -1
        self._stack.append(frame)

    def _names(self, frame: _Frame, *, everything: bool, status: os.stat_result) -> Iterator[bytes]:
        explicit = frame.wanted.below if frame.wanted is not None else {}
        if not everything:
            return iter(sorted(explicit))
        if self._one_file_system and status.st_dev != frame.device:
            self._report("other-device", frame.path, None)
            return iter(sorted(explicit))
        encode = os.fsencode
        names = [encode(name) for name in os.listdir(frame.fd)]
        if explicit:
            names = list({*names, *explicit})
        names.sort()
        return iter(names)

    def _leave(self, frame: _Frame) -> None:
        """Go back to the folder above, reopening it through ``..`` if it had been closed."""
        self._stack.pop()
        if self._stack and self._stack[-1].fd < 0:
            self._reopen(frame, self._stack[-1])
        if frame.fd >= 0:
            os.close(frame.fd)

    def _reopen(self, frame: _Frame, above: _Frame) -> None:
        """Get ``above`` back as the parent of ``frame``, or give its remaining names up.

        A folder that was moved while something below it was read has another parent now; what
        would be found there is not what the walk set out to find.
        """
        problem: OSError | None = None
        if frame.fd >= 0:
            try:
                fd = os.open(b"..", OPEN_FOLDER, dir_fd=frame.fd)
                seen = os.fstat(fd)
            except OSError as error:
                problem = error
            else:
                if (seen.st_dev, seen.st_ino) == above.identity:
                    above.fd = fd
                    return
                os.close(fd)
        above.names = iter(())
        self._report("unreadable", above.path, problem)

    def _missed(self, path: bytes, inner: _Wanted | None, error: OSError) -> None:
        if inner is not None:
            if inner.is_source:
                self._report("missing", path, error)
            self._missed_below(path, inner, error)
        elif isinstance(error, FileNotFoundError):
            self._report("vanished", path, error)
        else:
            self._report("unreadable", path, error)

    def _missed_below(self, path: bytes, inner: _Wanted, error: OSError) -> None:
        for name, deeper in sorted(inner.below.items()):
            self._missed(path + b"/" + name, deeper, error)


def relative(path: bytes) -> bytes:
    """A source's absolute path as manifest paths are written: below the root folder."""
    return b"/".join(part for part in path.split(b"/") if part)


def in_order(paths: Iterable[bytes]) -> list[bytes]:
    """Paths in manifest order."""
    return sorted(paths, key=order_key)
