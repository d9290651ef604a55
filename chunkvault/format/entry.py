"""One entry of a manifest: a file, folder, link or node, as a flat tuple.

What lives here: the value and its field meanings. Encoding is in ``format.manifest``.
A NamedTuple, because a million of them pass through a backup: msgpack packs a tuple as it is, and
building one costs a third of a dataclass.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from chunkvault.ids import ChunkId, ContentDigest


class FileType(IntEnum):
    """What an entry is. The numbers are part of the format."""

    FILE = 1
    DIRECTORY = 2
    SYMLINK = 3
    FIFO = 4
    SOCKET = 5
    CHARACTER_DEVICE = 6
    BLOCK_DEVICE = 7


class Extent(NamedTuple):
    """A run of a file's bytes: ``length`` bytes at ``offset`` of a chunk, or a hole.

    Attributes:
        chunk: the chunk's id; None for a hole, which reads as zeros and takes no space.
        offset: where in the chunk the run begins; 0 for a hole.
        length: bytes, at least 1.
    """

    chunk: ChunkId | None
    offset: int
    length: int


Xattr: TypeAlias = tuple[bytes, bytes]


class Entry(NamedTuple):
    """One file, folder, link or node of a snapshot.

    Attributes:
        path: bytes below the root folder, without a leading slash: ``home/ada/notes.txt``. Never
            empty, no empty, ``.`` or ``..`` component, no NUL.
        type: a FileType value.
        mode: the twelve permission bits.
        uid: numeric owner, 0 to 2**32 - 1; names are in the snapshot record.
        gid: numeric group.
        mtime_ns: modification time, nanoseconds since the epoch, may be negative.
        size: bytes of a regular file, holes included; 0 for everything else.
        ctime_ns: status change time when read; serves change detection only.
        inode: inode number when read, likewise; with ``device`` it ties hard links together.
        device: device number of the file system it was on, likewise.
        links: hard link count when read; above 1, entries with equal inode and device and equal
            content are one file.
        extents: content of a regular file in order, summing up to ``size``; empty for other types.
        extent_lists: for a file of many extents, the chunks (kind EXTENTS) that hold the list;
            ``extents`` is then empty.
        digest: BLAKE3 of the content of a file that was bundled; None for others.
        target: what a symlink points to; empty for other types.
        rdev: device number of a device node, 0 for other types.
        xattrs: extended attributes in order of name, POSIX ACLs among them.
    """

    path: bytes
    type: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size: int
    ctime_ns: int
    inode: int
    device: int
    links: int
    extents: tuple[Extent, ...] = ()
    extent_lists: tuple[ChunkId, ...] = ()
    digest: ContentDigest | None = None
    target: bytes = b""
    rdev: int = 0
    xattrs: tuple[Xattr, ...] = ()


def order_key(path: bytes) -> bytes:
    """The manifest's order: folder before contents, names by their bytes.

    ``/`` sorts before every other byte, NUL being impossible in a name.
    """
    return path.replace(b"/", b"\0")
