"""The reading thread of a backup: walk, compare with the parent, read what changed, cut it.

What lives here: the decision for each entry. Where the bytes come from is in ``reader``, where they
go in ``sink``, how entries become a manifest in ``manifest_writer``. This runs in one thread,
because for small files two threads fight over the interpreter and are slower than one.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from chunkvault.errors import ChunkvaultError
from chunkvault.format.entry import Entry, Extent, FileType
from chunkvault.format.frame import Kind
from chunkvault.format.limits import MAX_EXTENTS_INLINE, MAX_EXTENTS_PER_LIST
from chunkvault.format.manifest import decode_extents, encode_extents
from chunkvault.fs.metadata import printable, read_xattrs, read_xattrs_at
from chunkvault.operations.manifest_writer import file_entry, lay_out
from chunkvault.operations.parent import ParentEntries, unchanged
from chunkvault.operations.reader import LargeFile, ReplacedError, Small, read_small

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from chunkvault.chunking.cdc import Chunker
    from chunkvault.format.entry import Xattr
    from chunkvault.fs.scan import Found, Scanner
    from chunkvault.ids import ChunkId
    from chunkvault.operations.digests import DigestIndex
    from chunkvault.operations.events import Events
    from chunkvault.operations.manifest_writer import ManifestWriter
    from chunkvault.operations.sink import ChunkSink
    from chunkvault.vault.codec import BlobCodec

_TYPE_MASK: Final = 0o170000
_REGULAR: Final = stat.S_IFREG
_TYPES: Final = {
    stat.S_IFREG: FileType.FILE,
    stat.S_IFDIR: FileType.DIRECTORY,
    stat.S_IFLNK: FileType.SYMLINK,
    stat.S_IFIFO: FileType.FIFO,
    stat.S_IFSOCK: FileType.SOCKET,
    stat.S_IFCHR: FileType.CHARACTER_DEVICE,
    stat.S_IFBLK: FileType.BLOCK_DEVICE,
}
_REREADS: Final = 2
"""How often a small file that changes while it is read is read again before it is taken as it
is."""


class Counts:
    """What a run has seen so far; plain integers, because each entry adds to them."""

    __slots__ = (
        "added",
        "changed",
        "directories",
        "files",
        "others",
        "read",
        "size",
        "skipped",
        "unchanged",
    )

    def __init__(self) -> None:
        self.files = self.directories = self.others = self.size = 0
        self.added = self.changed = self.unchanged = self.read = self.skipped = 0


class Archiver:
    """Feeds one snapshot's entries to a manifest writer.

    Args:
        scanner: the walk.
        parent: the earlier snapshot's entries.
        manifest: takes entries.
        sink: takes chunks of large files.
        codec: computes digests, reads extent lists.
        chunker: cuts large files.
        digests: knows small files by their content.
        events: hears of problems, shows progress.
        stopped: asked often; True ends the run after the current entry.
        between: called between two entries; the run checkpoints there.
    """

    def __init__(  # noqa: PLR0913 - the parts of one pipeline, wired in one place
        self,
        *,
        parent: ParentEntries,
        manifest: ManifestWriter,
        sink: ChunkSink,
        codec: BlobCodec,
        chunker: Chunker,
        small_below: int,
        digests: DigestIndex,
        events: Events,
        read_extents: Callable[[ChunkId], bytes],
        stopped: Callable[[], bool],
        between: Callable[[], None],
    ) -> None:
        self._parent = parent
        self._manifest = manifest
        self._sink = sink
        self._codec = codec
        self._chunker = chunker
        self._small_below = small_below
        self._digests = digests
        self._events = events
        self._read_extents = read_extents
        self._stopped = stopped
        self._between = between
        self._held: set[ChunkId] = set()
        self._linked: dict[tuple[int, int], Entry] = {}
        self.counts = Counts()

    def run(self, scanner: Scanner) -> bool:
        """Archive all that the walk finds.

        Returns:
            Whether it came to its end; False where it was stopped.

        Raises:
            ChunkvaultError: a chunk could not be stored.
        """
        counts, progress, parent = self.counts, self._events.progress, self._parent
        stopped, between, add = self._stopped, self._between, self._manifest.add_again
        at = parent.at
        for found in scanner:
            if stopped():
                return False
            between()
            past = at(found.path)
            status = found.status
            progress.files += 1
            if status.st_mode & _TYPE_MASK == _REGULAR:
                if (
                    past is not None
                    and unchanged(past, status, parent.started_ns)
                    and past.type == FileType.FILE
                    and self._holds(past)
                ):
                    add(past, *parent.place)
                    counts.files += 1
                    counts.unchanged += 1
                    counts.size += status.st_size
                    progress.size += status.st_size
                else:
                    progress.current = found.path
                    self._file(found, past)
            else:
                self._other(found, past)
        return not stopped()

    def stream(self, path: bytes, source: BinaryIO, now_ns: int) -> None:
        """Archive one stream, such as a database dump, as a file at ``path``."""
        pieces = self._cut(source.read)
        size = pieces.size
        entry = Entry(
            path,
            FileType.FILE,
            0o600,
            os.getuid(),
            os.getgid(),
            now_ns,
            size,
            now_ns,
            0,
            0,
            1,
            pieces.inline,
            pieces.lists,
        )
        self._manifest.add(entry)
        self.counts.files += 1
        self.counts.added += 1
        self.counts.size += size
        self.counts.read += size

    # Whether the vault still holds what an unchanged file refers to. A blob that was lost is
    # thereby noticed by the next backup, which reads the file again and stores it again.
    def _holds(self, entry: Entry) -> bool:
        held = self._held
        for extent in entry.extents:
            chunk = extent[0]
            if chunk is not None and chunk not in held:
                if not self._sink.holds(chunk, published=True):
                    return False
                held.add(chunk)
        return not entry.extent_lists or self._holds_lists(entry)

    def _holds_lists(self, entry: Entry) -> bool:
        holds = self._sink.holds
        for chunk in entry.extent_lists:
            if not holds(chunk, published=True):
                return False
            try:
                extents = decode_extents(self._read_extents(chunk))
            except ChunkvaultError:  # whatever is wrong with it, the file is read again
                return False
            if not all(e.chunk is None or holds(e.chunk, published=True) for e in extents):
                return False
        return True

    def _file(self, found: Found, past: Entry | None) -> None:
        try:
            if found.status.st_size < self._small_below:
                self._small(found)
            else:
                self._large(found)
        except FileNotFoundError:
            self._events.note(
                "vanished", f"{printable(found.path)} vanished before it was read", found.path
            )
            return
        except ReplacedError:
            self._skip("replaced", found, "was replaced by something else while it was read")
            return
        except OSError as error:
            self._skip("unreadable", found, f"cannot be read: {error.strerror or error}")
            return
        counts = self.counts
        counts.files += 1
        if past is None or past.type != FileType.FILE:
            counts.added += 1
        else:
            counts.changed += 1

    def _skip(self, kind: str, found: Found, why: str) -> None:
        self.counts.skipped += 1
        self._events.warn(
            kind, f"{printable(found.path)} {why}; it is not in this snapshot", found.path
        )

    def _small(self, found: Found) -> None:
        small = read_small(found.folder, found.name, found.status)
        status = found.status
        for _ in range(_REREADS):
            if small.stable:
                break
            status = os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
            if status.st_size >= self._small_below:
                self._large(found._replace(status=status))
                return
            small = read_small(found.folder, found.name, status)
        if not small.stable:
            self._changing(found)
        self._keep_small(found.path, status, small)
        size = len(small.content)
        self.counts.size += size
        self.counts.read += size
        self._events.progress.size += size

    def _keep_small(self, path: bytes, status: os.stat_result, small: Small) -> None:
        content, layout, xattrs, _ = small
        if not content:
            holes = lay_out((), layout)
            size = sum(e.length for e in holes)
            self._manifest.add(file_entry(path, status, size, holes, xattrs=xattrs))
            return
        digest = self._codec.content_digest(content)
        known = self._digests.find(digest)
        if (
            known is not None
            and known.length == len(content)
            and known.chunk is not None
            and self._sink.holds(known.chunk)
        ):
            extents = lay_out((known,), layout) if layout else (known,)
            size = len(content) + sum(hole for hole, _ in layout)
            entry = file_entry(path, status, size, extents, digest=digest, xattrs=xattrs)
            self._manifest.add(entry)
        elif len(content) >= self._small_below:  # /proc claims no size, and then has much to say
            chunk = self._sink.add(Kind.DATA, content)
            extent = Extent(chunk, 0, len(content))
            self._manifest.add(file_entry(path, status, len(content), (extent,), xattrs=xattrs))
        else:
            self._manifest.add_small(path, status, content, digest, xattrs, layout)

    def _changing(self, found: Found) -> None:
        self._events.warn(
            "changed",
            f"{printable(found.path)} changed while it was read; it is stored as it was read, "
            "and is read again next time",
            found.path,
        )

    def _large(self, found: Found) -> None:
        status = found.status
        key = (status.st_dev, status.st_ino)
        twin = self._linked.get(key) if status.st_nlink > 1 else None
        if twin is not None and twin.ctime_ns == status.st_ctime_ns and twin.size == status.st_size:
            self._manifest.add(twin._replace(path=found.path))
            self.counts.size += twin.size
            return
        file = LargeFile(found.folder, found.name, status, stopped=self._stopped)
        try:
            pieces = self._cut(file.read, layout=file.layout)
            stable = file.stable()
        finally:
            file.close()
        if self._stopped():
            return  # cut short by the stop; the next run reads it again
        if not stable:
            self._changing(found)
        entry = file_entry(
            found.path,
            status,
            pieces.size,
            pieces.inline,
            extent_lists=pieces.lists,
            xattrs=file.xattrs,
        )
        self._manifest.add(entry)
        self.counts.size += pieces.size
        if status.st_nlink > 1 and stable:
            self._linked[key] = entry

    def _cut(
        self, read: Callable[[int], bytes], *, layout: tuple[tuple[int, int], ...] = ()
    ) -> _Pieces:
        pieces = _Pieces(self._sink, layout)
        progress = self._events.progress
        for chunk in self._chunker.split(read):
            size = len(chunk)
            pieces.add(Extent(self._sink.add(Kind.DATA, chunk), 0, size))
            progress.size += size
            self.counts.read += size
        pieces.end()
        return pieces

    def _other(self, found: Found, past: Entry | None) -> None:
        status = found.status
        kind = _TYPES.get(status.st_mode & _TYPE_MASK)
        if kind is None:
            self._skip("type", found, "is of a type that cannot be stored")
            return
        counts = self.counts
        if kind is FileType.DIRECTORY:
            counts.directories += 1
        else:
            counts.others += 1
        parent = self._parent
        if past is not None and past.type == kind and unchanged(past, status, parent.started_ns):
            self._manifest.add_again(past, *parent.place)
            return
        target = b""
        xattrs: tuple[Xattr, ...] = ()
        try:
            if kind is FileType.SYMLINK:
                target = os.readlink(found.name, dir_fd=found.folder)
            xattrs = self._other_xattrs(found, kind)
        except FileNotFoundError:
            self._events.note(
                "vanished", f"{printable(found.path)} vanished before it was read", found.path
            )
            return
        except OSError as error:
            self._skip("unreadable", found, f"cannot be read: {error.strerror or error}")
            return
        device = kind in (FileType.CHARACTER_DEVICE, FileType.BLOCK_DEVICE)
        self._manifest.add(
            Entry(
                found.path,
                kind,
                status.st_mode & 0o7777,
                status.st_uid,
                status.st_gid,
                status.st_mtime_ns,
                0,
                status.st_ctime_ns,
                status.st_ino,
                status.st_dev,
                1 if kind is FileType.DIRECTORY else status.st_nlink,
                target=target,
                rdev=status.st_rdev if device else 0,
                xattrs=xattrs,
            )
        )

    @staticmethod
    def _other_xattrs(found: Found, kind: FileType) -> tuple[Xattr, ...]:
        if kind is FileType.DIRECTORY:
            return read_xattrs(found.folder) if found.folder >= 0 else ()
        return read_xattrs_at(found.folder, found.name)


class _Pieces:
    """The extents of one file as its chunks come, in bounded memory.

    Attributes:
        size: bytes so far, holes included.
        inline: the extents, where they are few.
        lists: the chunks that hold them, where they are many.
    """

    def __init__(self, sink: ChunkSink, layout: tuple[tuple[int, int], ...]) -> None:
        self._sink = sink
        self._layout = list(reversed(layout))
        self._sparse = bool(layout)
        self._extents: list[Extent] = []
        self.size = 0
        self.inline: tuple[Extent, ...] = ()
        self.lists: tuple[ChunkId, ...] = ()

    def add(self, piece: Extent) -> None:
        """Take the next chunk of data."""
        if not self._sparse:
            self._append(piece)
            return
        chunk, offset, available = piece
        while available:
            if self._layout[-1][0] or not self._layout[-1][1]:
                hole, length = self._layout.pop()
                if hole:
                    self._append(Extent(None, 0, hole))
                if length:
                    self._layout.append((0, length))
                continue
            _, length = self._layout.pop()
            taken = min(length, available)
            self._append(Extent(chunk, offset, taken))
            offset += taken
            available -= taken
            if taken < length:
                self._layout.append((0, length - taken))

    def end(self) -> None:
        """No more data: only holes can be left."""
        for hole, _ in reversed(self._layout):
            if hole:
                self._append(Extent(None, 0, hole))
        if self.lists or len(self._extents) > MAX_EXTENTS_INLINE:
            self._store_list()
        self.inline = tuple(self._extents)

    def _append(self, extent: Extent) -> None:
        self._extents.append(extent)
        self.size += extent.length
        if len(self._extents) >= MAX_EXTENTS_PER_LIST:
            self._store_list()

    def _store_list(self) -> None:
        if self._extents:
            chunk = self._sink.add(Kind.EXTENTS, encode_extents(self._extents))
            self.lists = (*self.lists, chunk)
            self._extents = []
