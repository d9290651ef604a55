"""Turns the entries of a snapshot, as they come, into manifest chunks.

Small files wait here until their bundle ends and its id is known; all that comes after them in path
order waits with them, up to a bound. What may not live here: reading files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from chunkvault.errors import FormatError
from chunkvault.format.entry import Entry, Extent, FileType
from chunkvault.format.frame import Kind
from chunkvault.format.manifest import (
    MANIFEST_MAX_BYTES,
    encode_bundled,
    encode_entry,
    is_boundary,
)
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

Layout: TypeAlias = tuple[tuple[int, int], ...]
"""(hole before, data length) pairs of a sparse file; empty for a file without holes."""


class _Rare(NamedTuple):
    """A small file whose bundle is still open, and that has holes or attributes."""

    path: bytes
    status: os.stat_result
    offset: int
    stored: int
    digest: ContentDigest
    xattrs: tuple[Xattr, ...]
    holes: Layout

    def entry(self, bundle: ChunkId) -> Entry:
        whole = Extent(bundle, self.offset, self.stored)
        extents = lay_out((whole,), self.holes) if self.holes else (whole,)
        size = self.stored + sum(hole for hole, _ in self.holes)
        return file_entry(
            self.path, self.status, size, extents, digest=self.digest, xattrs=self.xattrs
        )


_Plain: TypeAlias = "tuple[bytes, os.stat_result, ContentDigest]"
"""Path, status and digest of a small file without either; where it lies the open bundle knows."""


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


def lay_out(pieces: tuple[Extent, ...], layout: Layout) -> tuple[Extent, ...]:
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
        bundled: hears of the digests and extents of a bundle when it is handed over.
        refused: hears of entries that the format cannot hold; they are left out.
    """

    def __init__(
        self,
        sink: ChunkSink,
        bundler: Bundler,
        names: OwnerNames,
        *,
        bundled: Callable[[dict[ContentDigest, Extent]], None],
        refused: Callable[[bytes, FormatError], None],
    ) -> None:
        self._sink = sink
        self._bundler = bundler
        self._names = names
        self._bundled = bundled
        self._refused = refused
        self._waiting: list[Entry | _Rare | _Plain] = []
        self._open: dict[ContentDigest, tuple[int, int]] = {}
        self._again: list[Entry] = []
        self._again_ref: ManifestRef | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._first = b""
        self._users: set[int] = set()
        self._groups: set[int] = set()
        self.refs: list[ManifestRef] = []

    def add(self, entry: Entry) -> None:
        """Take the next entry, complete as it is."""
        if self._again:
            self._end_again(entry.path)
        if self._waiting:
            self._waiting.append(entry)
            if len(self._waiting) >= MAX_WAITING:
                self.end_bundle()
        else:
            self._write(entry)

    def add_again(self, entry: Entry, ref: ManifestRef | None, number: int) -> None:
        """Take the next entry as it stood in an earlier snapshot.

        Where all entries of an earlier manifest chunk come again and nothing between them, the
        chunk is taken over as it is, and none of them is encoded.

        Args:
            entry: the entry.
            ref: the manifest chunk it stood in, None where that is not known whole.
            number: its number in there.
        """
        again = self._again
        if again and number == len(again) and ref is self._again_ref:
            again.append(entry)
        elif ref is not None and number == 0 and self._is_between(entry.path):
            self._again_ref, self._again = ref, [entry]
        else:
            self.add(entry)

    def _is_between(self, path: bytes) -> bool:
        """Whether an earlier chunk that begins with ``path`` can be taken over from here."""
        if self._waiting:
            return False
        if self._again:
            self._end_again(path)
        if self._parts and is_boundary(path):
            self._cut()
        return not self._parts

    def _end_again(self, path: bytes | None) -> None:
        """End a run of entries that came again: take their chunk over, or encode them after all.

        Args:
            path: of the next entry, None where there is none. A chunk that any other entry than
                one at a boundary follows would go on, had it been encoded, so it is not taken over.
        """
        again, ref = self._again, self._again_ref
        self._again, self._again_ref = [], None
        whole = ref is not None and len(again) == ref.entries
        if whole and ref is not None and (path is None or is_boundary(path)) and self._held(ref):
            self.refs.append(ref)
            self._note_owners({entry.uid for entry in again}, {entry.gid for entry in again})
            return
        for entry in again:
            self._write(entry)

    def _held(self, ref: ManifestRef) -> bool:
        return self._sink.holds(ref.chunk, published=True)

    def add_small(
        self,
        path: bytes,
        status: os.stat_result,
        content: bytes,
        digest: ContentDigest,
        xattrs: tuple[Xattr, ...],
        holes: Layout = (),
    ) -> None:
        """Take the next entry, a file whose content goes into the open bundle."""
        if self._again:
            self._end_again(path)
        place = self._open.get(digest)
        if place is None:
            offset = self._bundler.add(content, digest)
            place = self._open[digest] = (offset, len(content))
        if xattrs or holes:
            self._waiting.append(_Rare(path, status, *place, digest, xattrs, holes))
        else:
            self._waiting.append((path, status, digest))
        if self._bundler.full or len(self._waiting) >= MAX_WAITING:
            self.end_bundle()

    def end_bundle(self) -> None:
        """Hand the open bundle over, and write all that waited for it."""
        waiting, self._waiting = self._waiting, []
        places, self._open = self._open, {}
        if not waiting:
            return
        bundle = self._sink.add(Kind.DATA, self._bundler.take())
        extents = {digest: Extent(bundle, *place) for digest, place in places.items()}
        self._bundled(extents)
        for item in waiting:
            if isinstance(item, Entry):
                self._write(item)
            elif isinstance(item, _Rare):
                self._write(item.entry(bundle))
            else:
                path, status, digest = item
                data = encode_bundled(path, status, digest, extents[digest])
                self._append(path, status.st_uid, status.st_gid, data)

    def end_chunk(self) -> None:
        """Hand the open manifest chunk over; the next entry begins a new one."""
        if self._again:
            self._end_again(None)
        self.end_bundle()
        self._cut()

    def discard(self) -> None:
        """Forget what is not handed over yet, and what was: the run saves nothing."""
        self._again.clear()
        self._waiting.clear()
        self._open.clear()
        self._parts.clear()
        self.refs.clear()

    def _write(self, entry: Entry) -> None:
        try:
            data = encode_entry(entry)
        except FormatError as error:
            self._refused(entry.path, error)
        else:
            self._append(entry.path, entry.uid, entry.gid, data)

    def _append(self, path: bytes, uid: int, gid: int, data: bytes) -> None:
        """Put one encoded entry into the open manifest chunk, or into the next."""
        if is_boundary(path) or self._size >= MANIFEST_MAX_BYTES:
            self._cut()
        if not self._parts:
            self._first = path
        self._parts.append(data)
        self._size += len(data)
        if uid not in self._users or gid not in self._groups:
            self._note_owners({uid}, {gid})

    def _note_owners(self, users: set[int], groups: set[int]) -> None:
        for uid in users - self._users:
            self._names.user(uid)
        for gid in groups - self._groups:
            self._names.group(gid)
        self._users |= users
        self._groups |= groups

    def _cut(self) -> None:
        if self._parts:
            chunk = self._sink.add(Kind.MANIFEST, b"".join(self._parts))
            self.refs.append(ManifestRef(self._first, chunk, len(self._parts)))
            self._parts, self._size = [], 0
