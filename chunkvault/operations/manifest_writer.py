"""Turns the entries of a snapshot, as they come, into manifest chunks.

Small files wait here until their bundle ends and its id is known; all that comes after them in path
order waits with them, up to a bound. What may not live here: reading files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chunkvault.format.entry import Entry, Extent, FileType
from chunkvault.format.frame import Kind
from chunkvault.format.manifest import MANIFEST_MAX_BYTES, encode_entry, is_boundary
from chunkvault.format.snapshot import ManifestRef

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from chunkvault.chunking.bundle import Bundler
    from chunkvault.format.entry import Xattr
    from chunkvault.fs.metadata import OwnerNames
    from chunkvault.ids import ChunkId, ContentDigest
    from chunkvault.operations.sink import ChunkSink

MAX_WAITING: Final = 8192
"""Entries that may wait for a bundle before it is ended early; about 5 MB."""

_Layout = tuple[tuple[int, int], ...]
"""(hole before, data length) pairs of a sparse file; empty for a file without holes."""


class _Waiting:
    """A small file whose bundle is still open."""

    __slots__ = ("digest", "holes", "links", "offset", "path", "size", "status", "stored", "xattrs")

    def __init__(  # noqa: PLR0913 - a plain record, built in one place
        self,
        path: bytes,
        status: os.stat_result,
        offset: int,
        stored: int,
        digest: ContentDigest,
        xattrs: tuple[Xattr, ...],
        holes: _Layout,
    ) -> None:
        self.path = path
        self.status = status
        self.offset = offset
        self.stored = stored
        self.digest = digest
        self.xattrs = xattrs
        self.holes = holes

    def entry(self, bundle: ChunkId) -> Entry:
        st, whole = self.status, Extent(bundle, self.offset, self.stored)
        extents = lay_out((whole,), self.holes) if self.holes else (whole,)
        size = self.stored + sum(hole for hole, _ in self.holes)
        return file_entry(self.path, st, size, extents, digest=self.digest, xattrs=self.xattrs)


def file_entry(  # noqa: PLR0913 - the one constructor of file entries
    path: bytes,
    status: os.stat_result,
    size: int,
    extents: tuple[Extent, ...],
    *,
    extent_lists: tuple[ChunkId, ...] = (),
    digest: ContentDigest | None = None,
    xattrs: tuple[Xattr, ...] = (),
) -> Entry:
    """The entry of a regular file with this status and content."""
    return Entry(
        path,
        FileType.FILE,
        status.st_mode & 0o7777,
        status.st_uid,
        status.st_gid,
        status.st_mtime_ns,
        size,
        status.st_ctime_ns,
        status.st_ino,
        status.st_dev,
        status.st_nlink,
        extents,
        extent_lists,
        digest,
        b"",
        0,
        xattrs,
    )


def lay_out(pieces: tuple[Extent, ...], layout: _Layout) -> tuple[Extent, ...]:
    """Spread the pieces of a sparse file's data over its layout, holes between them.

    ``layout`` says, in order, how long a hole is and how much data follows it; the data lengths sum
    up to what ``pieces`` hold.
    """
    result: list[Extent] = []
    rest = list(reversed(pieces))
    for hole, length in layout:
        if hole:
            result.append(Extent(None, 0, hole))
        while length:
            chunk, offset, available = rest.pop()
            taken = min(length, available)
            result.append(Extent(chunk, offset, taken))
            length -= taken
            if taken < available:
                rest.append(Extent(chunk, offset + taken, available - taken))
    return tuple(result)


class ManifestWriter:
    """Collects entries in manifest order and hands finished manifest chunks to the sink.

    Args:
        sink: takes bundles and manifest chunks.
        bundler: where small files are put together.
        names: asked once for each owner.
        bundled: hears of each small file's digest and extent when its bundle is handed over.
    """

    def __init__(
        self,
        sink: ChunkSink,
        bundler: Bundler,
        names: OwnerNames,
        *,
        bundled: Callable[[ContentDigest, Extent], None],
    ) -> None:
        self._sink = sink
        self._bundler = bundler
        self._names = names
        self._bundled = bundled
        self._waiting: list[Entry | _Waiting] = []
        self._open: dict[ContentDigest, int] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._first = b""
        self._users: set[int] = set()
        self._groups: set[int] = set()
        self.refs: list[ManifestRef] = []
        self.last_path = b""

    def add(self, entry: Entry) -> None:
        """Take the next entry, complete as it is."""
        if self._waiting:
            self._waiting.append(entry)
            if len(self._waiting) >= MAX_WAITING:
                self.end_bundle()
        else:
            self._write(entry)

    def add_small(
        self,
        path: bytes,
        status: os.stat_result,
        content: bytes,
        digest: ContentDigest,
        xattrs: tuple[Xattr, ...],
        holes: _Layout = (),
    ) -> None:
        """Take the next entry, a file whose content goes into the open bundle."""
        offset = self._open.get(digest)
        if offset is None:
            offset = self._open[digest] = self._bundler.add(content, digest)
        self._waiting.append(_Waiting(path, status, offset, len(content), digest, xattrs, holes))
        if self._bundler.full or len(self._waiting) >= MAX_WAITING:
            self.end_bundle()

    def end_bundle(self) -> None:
        """Hand the open bundle over, and write all that waited for it."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        bundle = self._sink.add(Kind.DATA, self._bundler.take())
        reported: set[ContentDigest] = set()
        for item in waiting:
            if isinstance(item, Entry):
                self._write(item)
                continue
            if item.digest not in reported:
                reported.add(item.digest)
                self._bundled(item.digest, Extent(bundle, item.offset, item.stored))
            self._write(item.entry(bundle))
        self._open.clear()

    def end_chunk(self) -> None:
        """Hand the open manifest chunk over; the next entry begins a new one."""
        self.end_bundle()
        self._cut()

    def discard(self) -> None:
        """Forget what is not handed over yet, and what was: the run saves nothing."""
        self._waiting.clear()
        self._open.clear()
        self._parts.clear()
        self.refs.clear()

    def _write(self, entry: Entry) -> None:
        path = entry.path
        if self._parts and (self._size >= MANIFEST_MAX_BYTES or is_boundary(path)):
            self._cut()
        if not self._parts:
            self._first = path
        data = encode_entry(entry)
        self._parts.append(data)
        self._size += len(data)
        self.last_path = path
        if entry.uid not in self._users:
            self._users.add(entry.uid)
            self._names.user(entry.uid)
        if entry.gid not in self._groups:
            self._groups.add(entry.gid)
            self._names.group(entry.gid)

    def _cut(self) -> None:
        if self._parts:
            chunk = self._sink.add(Kind.MANIFEST, b"".join(self._parts))
            self.refs.append(ManifestRef(self._first, chunk, len(self._parts)))
            self._parts, self._size = [], 0
