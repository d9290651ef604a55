"""The rules of one manifest row, and of extents, applied one by one; slow, and with words.

What lives here: what each column of a row may hold, and the message where it does not.
``format.manifest`` checks most rows by columns instead, and comes here for the others.
"""

from __future__ import annotations

import operator
from itertools import repeat
from typing import Any, Final, TypeAlias

from chunkvault.errors import FormatError
from chunkvault.format.entry import Entry, Extent, FileType, Xattr
from chunkvault.format.limits import (
    MAX_CHUNK_SIZE,
    MAX_EXTENT_LISTS,
    MAX_EXTENTS_INLINE,
    MAX_FILE_SIZE,
    MAX_ID_NUMBER,
    MAX_TARGET_SIZE,
    MAX_XATTR_NAME_SIZE,
    MAX_XATTRS,
)
from chunkvault.format.paths import path_fault, shown
from chunkvault.ids import ID_SIZE, ChunkId

Row: TypeAlias = tuple[Any, ...]

COLUMNS: Final = 16
# Places of the columns that are referred to by name; the first eleven are Entry's.
KIND: Final = 1
SIZE: Final = 6
DIGEST: Final = 11
CHUNK: Final = 12
OFFSET: Final = 13
LENGTH: Final = 14
MORE: Final = 15

# Keys of the last column, a map that holds what few entries have.
EXTENTS: Final = 1
LISTS: Final = 2
TARGET: Final = 3
RDEV: Final = 4
XATTRS: Final = 5
_MORE_KEYS: Final = frozenset((EXTENTS, LISTS, TARGET, RDEV, XATTRS))

TIME_MIN: Final = -(1 << 63)
TIME_MAX: Final = (1 << 64) - 1
MAX_MODE: Final = 0o7777
_MAX_U64: Final = (1 << 64) - 1

FILE: Final = int(FileType.FILE)
SYMLINK: Final = int(FileType.SYMLINK)
_DEVICES: Final = frozenset((int(FileType.CHARACTER_DEVICE), int(FileType.BLOCK_DEVICE)))

new: Final[Any] = tuple.__new__
"""Makes a named tuple of a tuple of the right length; a third of the cost of calling its class."""


def checked_entry(row: Row) -> Entry:
    """The entry of one row, every rule applied; says what is wrong with it."""
    path, kind, mode, uid, gid, mtime, size, ctime, inode, device, links, *content = row
    digest, chunk, offset, length, more = content
    fault = path_fault(path) or _number_fault(row)
    if fault is None and kind != FILE and (size or digest is not None):
        fault = "only a file has a size and a digest"
    if fault is None and digest is not None and not _is_id(digest):
        fault = "its digest is not 32 bytes"
    if fault is None and (type(offset) is not int or type(length) is not int):
        fault = "its extent's offset or length is not an integer"
    if fault is not None:
        raise FormatError(f"manifest entry {shown(path)}: {fault}")
    extents: tuple[Extent, ...] = ()
    if length or offset or chunk is not None:
        extents = extents_of((chunk, offset, length), f"manifest entry {shown(path)}")
    entry = Entry(
        path, kind, mode, uid, gid, mtime, size, ctime, inode, device, links, extents,
        digest=digest,
    )  # fmt: skip
    return complete(entry, {} if more is None else more, empty=more is None)


_FIELDS: Final = (
    (1, "type", min(FileType), max(FileType)),
    (2, "mode", 0, MAX_MODE),
    (3, "uid", 0, MAX_ID_NUMBER),
    (4, "gid", 0, MAX_ID_NUMBER),
    (5, "mtime", TIME_MIN, TIME_MAX),
    (6, "size", 0, MAX_FILE_SIZE),
    (7, "ctime", TIME_MIN, TIME_MAX),
    (8, "inode", 0, _MAX_U64),
    (9, "device", 0, _MAX_U64),
    (10, "links", 0, MAX_ID_NUMBER),
)


def _number_fault(row: Row) -> str | None:
    for column, name, least, most in _FIELDS:
        value = row[column]
        if type(value) is not int:
            return f"its {name} is not an integer"
        if not least <= value <= most:
            return f"its {name} {value} is out of range"
    return None


def complete(entry: Entry, more: object, *, empty: bool = False) -> Entry:
    """The entry with what its last column holds, and the rules that depend on it.

    Args:
        entry: as the other columns have it.
        more: the last column.
        empty: the last column was nil; a map is never empty.
    """
    where = f"manifest entry {shown(entry.path)}"
    if not isinstance(more, dict) or not (empty or more):
        raise FormatError(f"{where}: its last column is neither nil nor a filled map")
    if set(map(type, more)) - {int} or not _MORE_KEYS.issuperset(more):
        raise FormatError(f"{where}: its last column has a key that version 1 does not define")
    extents = entry.extents
    if EXTENTS in more:
        extents = _several_extents(entry, more[EXTENTS], where)
    lists = _lists(more[LISTS], where) if LISTS in more else ()
    _check_content(entry, extents, lists, where)
    _check_special(entry.type, more, where)
    xattrs = xattrs_of(more[XATTRS], where) if XATTRS in more else ()
    return entry._replace(
        extents=extents,
        extent_lists=lists,
        target=more.get(TARGET, b""),
        rdev=more.get(RDEV, 0),
        xattrs=xattrs,
    )


def _check_content(
    entry: Entry, extents: tuple[Extent, ...], lists: tuple[ChunkId, ...], where: str
) -> None:
    if entry.type != FILE and (extents or lists):
        raise FormatError(f"{where}: only a file has content")
    if lists:
        if extents or not entry.size:
            raise FormatError(f"{where}: it has lists of extents besides extents, or no size")
    elif sum(extent[2] for extent in extents) != entry.size:
        raise FormatError(f"{where}: its extents do not sum up to its size")


def _check_special(kind: int, more: dict[Any, Any], where: str) -> None:
    """Symlinks have a target, devices may have a number; others have neither."""
    if (kind == SYMLINK) != (TARGET in more):
        raise FormatError(f"{where}: a symlink without a target, or a target without a symlink")
    if TARGET in more:
        target = more[TARGET]
        if type(target) is not bytes or not 0 < len(target) <= MAX_TARGET_SIZE or b"\0" in target:
            raise FormatError(f"{where}: its target is empty, too long, or holds a NUL")
    if RDEV in more:
        rdev = more[RDEV]
        if kind not in _DEVICES or type(rdev) is not int or not 0 < rdev <= _MAX_U64:
            raise FormatError(f"{where}: its device number is out of range or out of place")


def _several_extents(entry: Entry, value: object, where: str) -> tuple[Extent, ...]:
    extents = extents_of(value, where)
    if entry.extents or not 2 <= len(extents) <= MAX_EXTENTS_INLINE:
        raise FormatError(f"{where}: its extents belong elsewhere, or are too many")
    return extents


def _lists(value: object, where: str) -> tuple[ChunkId, ...]:
    if type(value) is not bytes or not value or len(value) % ID_SIZE:
        raise FormatError(f"{where}: its lists of extents are not whole ids")
    if len(value) > MAX_EXTENT_LISTS * ID_SIZE:
        raise FormatError(f"{where}: it has too many lists of extents")
    return tuple(ChunkId(value[at : at + ID_SIZE]) for at in range(0, len(value), ID_SIZE))


def xattrs_of(value: object, where: str) -> tuple[Xattr, ...]:
    """Extended attributes from their names and values, one after the other.

    Raises:
        FormatError: not pairs of byte strings in strict order of their names.
    """
    if type(value) is not tuple or not value or len(value) % 2 or set(map(type, value)) != {bytes}:
        raise FormatError(f"{where}: its extended attributes are not pairs of byte strings")
    names = value[::2]
    if not all(0 < len(name) <= MAX_XATTR_NAME_SIZE and b"\0" not in name for name in names):
        raise FormatError(f"{where}: an extended attribute's name is not valid")
    if not all(map(operator.lt, names, names[1:])) or len(names) > MAX_XATTRS:
        raise FormatError(f"{where}: its extended attributes are too many or out of order")
    return tuple(zip(names, value[1::2], strict=True))


def _is_id(value: object) -> bool:
    return type(value) is bytes and len(value) == ID_SIZE


def extents_of(value: object, where: str) -> tuple[Extent, ...]:
    """Extents from their fields, one after the other.

    Raises:
        FormatError: a field of the wrong type, or out of range.
    """
    if type(value) is not tuple or not value or len(value) % 3:
        raise FormatError(f"{where}: extents are not runs of chunk, offset and length")
    chunks, offsets, lengths = value[::3], value[1::3], value[2::3]
    if set(map(type, offsets + lengths)) != {int}:
        raise FormatError(f"{where}: an extent's offset or length is not an integer")
    if min(offsets) < 0 or min(lengths) < 1 or max(lengths) > MAX_FILE_SIZE:
        raise FormatError(f"{where}: an extent's offset or length is out of range")
    for chunk, offset, length in zip(chunks, offsets, lengths, strict=True):
        if chunk is None:
            if offset:
                raise FormatError(f"{where}: a hole has an offset")
        elif not _is_id(chunk):
            raise FormatError(f"{where}: an extent's chunk is not an id")
        elif offset + length > MAX_CHUNK_SIZE:
            raise FormatError(f"{where}: an extent ends beyond the largest chunk")
    return tuple(map(new, repeat(Extent), zip(chunks, offsets, lengths, strict=True)))
