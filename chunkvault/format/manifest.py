"""Manifest chunks and lists of extents: entries to bytes and back.

What lives here: the encoding of entries, and the decoding of whole chunks. What may not: rules that
hold across chunks, which are the manifest reader's.

A manifest chunk is a run of rows, one MessagePack array of sixteen an entry. All rows have the same
columns, so that a chunk is checked column by column at the speed of C: a backup of 50,000 unchanged
files decodes as many rows. The column checks may doubt a good row, never pass a bad one. Where they
doubt, ``format.rows`` applies the rules row by row, and finds the words for the message.
"""

from __future__ import annotations

import itertools
import operator
import zlib
from collections.abc import Sequence
from itertools import repeat
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from chunkvault.errors import FormatError
from chunkvault.format.entry import Entry, Extent, FileType, Xattr
from chunkvault.format.limits import (
    MAX_CHUNK_SIZE,
    MAX_ENTRY_SIZE,
    MAX_EXTENT_LISTS,
    MAX_EXTENTS_INLINE,
    MAX_EXTENTS_PER_LIST,
    MAX_EXTENTS_SIZE,
    MAX_FILE_SIZE,
    MAX_ID_NUMBER,
    MAX_MANIFEST_SIZE,
    MAX_PATH_SIZE,
    MAX_XATTRS,
)
from chunkvault.format.packing import pack, unpack, unpack_all
from chunkvault.format.paths import shown
from chunkvault.format.rows import (
    CHUNK,
    COLUMNS,
    DIGEST,
    EXTENTS,
    FILE,
    KIND,
    LENGTH,
    LISTS,
    MAX_MODE,
    MORE,
    OFFSET,
    RDEV,
    SIZE,
    SYMLINK,
    TARGET,
    TIME_MAX,
    TIME_MIN,
    XATTRS,
    Row,
    checked_entry,
    complete,
    extents_of,
    new,
    xattrs_of,
)
from chunkvault.ids import ID_SIZE, ContentDigest

if TYPE_CHECKING:
    import os  # only its stat_result, as a type

MANIFEST_MAX_BYTES: Final = 1 << 20
"""Where a writer ends a manifest chunk even without a boundary, once it has this many bytes."""
_BOUNDARY_MASK: Final = 2047

_MIN_ROW: Final = 2 + COLUMNS
_MAX_ARRAY: Final = max(3 * MAX_EXTENTS_INLINE, 2 * MAX_XATTRS)
_TYPES: Final = frozenset(map(int, FileType))

Columns: TypeAlias = list[tuple[Any, ...]]


def is_boundary(path: bytes) -> bool:
    """Whether a new manifest chunk begins with the entry at this path; one in 2048 does.

    It depends on nothing but the path, so unchanged folders give identical chunks whatever happens
    elsewhere. A reader need not care.
    """
    return not zlib.crc32(path) & _BOUNDARY_MASK


# Encoding


def encode_entry(entry: Entry) -> bytes:
    """One row of a manifest chunk; a chunk is the rows joined, in order of `order_key`.

    Times beyond what 64 bits of nanoseconds hold (before 1677, after 2554) become the nearest that
    can be held. Other values are taken as they are: they come from the scanner or from a decoded
    manifest.

    Raises:
        FormatError: the entry is larger than an entry may be, or a number does not fit its field.
    """
    (
        path, kind, mode, uid, gid, mtime, size, ctime, inode, device, links,
        extents, lists, digest, target, rdev, xattrs,
    ) = entry  # fmt: skip
    chunk, offset, length = None, 0, 0
    if len(extents) == 1:
        ((chunk, offset, length),) = extents
    plain = not (lists or target or rdev or xattrs or len(extents) > 1)
    more = None if plain else _encode_more(entry)
    row = (
        path, kind, mode, uid, gid, mtime, size, ctime, inode, device, links,
        digest, chunk, offset, length, more,
    )  # fmt: skip
    try:
        data = pack(row)
    except OverflowError:
        data = _pack_clamped(row)
    if len(data) > MAX_ENTRY_SIZE or len(path) > MAX_PATH_SIZE:
        raise FormatError(
            f"{shown(path)} cannot be stored: its path and attributes take {len(data)} bytes, "
            f"more than {MAX_ENTRY_SIZE}, or its path more than {MAX_PATH_SIZE}"
        )
    return data


def encode_bundled(
    path: bytes, status: os.stat_result, digest: ContentDigest, extent: Extent
) -> bytes:
    """`encode_entry` of a bundled file without attributes, in a third of the time.

    A first backup does this once a file: no `Entry` is built on the way.

    Raises:
        FormatError: the path is too long, or a number does not fit its field.
    """
    chunk, offset, length = extent
    row = (
        path, FILE, status.st_mode & MAX_MODE, status.st_uid, status.st_gid, status.st_mtime_ns,
        length, status.st_ctime_ns, status.st_ino, status.st_dev, status.st_nlink,
        digest, chunk, offset, length, None,
    )  # fmt: skip
    if len(path) > MAX_PATH_SIZE:
        raise FormatError(f"{shown(path)} cannot be stored: its path is too long")
    try:
        return pack(row)
    except OverflowError:
        return _pack_clamped(row)


def _pack_clamped(row: Row) -> bytes:
    values = list(row)
    for column in (5, 7):
        values[column] = min(max(values[column], TIME_MIN), TIME_MAX)
    try:
        return pack(values)
    except OverflowError:
        raise FormatError(f"{shown(row[0])} cannot be stored: a number is out of range") from None


def _encode_more(entry: Entry) -> dict[int, object]:
    more: dict[int, object] = {}
    if len(entry.extents) > MAX_EXTENTS_INLINE or len(entry.extent_lists) > MAX_EXTENT_LISTS:
        raise FormatError(f"{shown(entry.path)} cannot be stored: too many extents in its entry")
    if len(entry.xattrs) > MAX_XATTRS:
        raise FormatError(f"{shown(entry.path)} cannot be stored: too many extended attributes")
    if len(entry.extents) > 1:
        more[EXTENTS] = [field for extent in entry.extents for field in extent]
    if entry.extent_lists:
        more[LISTS] = b"".join(entry.extent_lists)
    if entry.target:
        more[TARGET] = entry.target
    if entry.rdev:
        more[RDEV] = entry.rdev
    if entry.xattrs:
        more[XATTRS] = [field for xattr in entry.xattrs for field in xattr]
    return more


def encode_extents(extents: Sequence[Extent]) -> bytes:
    """The plaintext of a chunk of kind EXTENTS.

    Args:
        extents: 1 to `MAX_EXTENTS_PER_LIST` of them.

    Raises:
        FormatError: none, or too many.
    """
    if not 1 <= len(extents) <= MAX_EXTENTS_PER_LIST:
        raise FormatError(f"a list of {len(extents)} extents cannot be stored")
    return pack([field for extent in extents for field in extent])


# Decoding


def decode_extents(data: bytes) -> list[Extent]:
    """The extents in a chunk of kind EXTENTS.

    Raises:
        FormatError: anything that is not such a list.
    """
    if len(data) > MAX_EXTENTS_SIZE:
        raise FormatError("list of extents is too large")
    values = unpack(data, "list of extents", max_array=3 * MAX_EXTENTS_PER_LIST)
    return list(extents_of(values, "list of extents"))


def decode_manifest(data: bytes) -> list[Entry]:
    """The entries of a manifest chunk, every rule of the format checked.

    Raises:
        FormatError: anything else than at least one good entry, in strictly rising order. The
            message names the first bad entry.
    """
    if not data or len(data) > MAX_MANIFEST_SIZE:
        raise FormatError(
            f"manifest chunk of {len(data)} bytes: allowed are 1 to {MAX_MANIFEST_SIZE}"
        )
    rows = unpack_all(
        data,
        "manifest chunk",
        max_values=len(data) // _MIN_ROW + 1,
        max_array=_MAX_ARRAY,
        max_map=XATTRS,
    )
    if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {COLUMNS}:
        raise FormatError("manifest chunk holds something that is no entry")
    columns: Columns = list(zip(*rows, strict=True))
    rare = [number for number, more in enumerate(columns[MORE]) if more is not None]
    if not _sure(columns, rare):
        entries = [checked_entry(row) for row in rows]
        _check_order(columns[0])
        return entries
    _check_order(columns[0])
    entries = _build(columns)
    _complete_rare(entries, columns, rare)
    return entries


def _check_order(paths: Sequence[bytes]) -> None:
    keys = [path.replace(b"/", b"\0") for path in paths]
    if all(map(operator.lt, keys, keys[1:])):
        return
    for number, (earlier, later) in enumerate(itertools.pairwise(keys)):
        if earlier >= later:
            raise FormatError(f"manifest entry {shown(paths[number + 1])} is out of order")


def _build(columns: Columns) -> list[Entry]:
    """Entries of checked columns, but for what the last column holds."""
    extents = map(new, repeat(Extent), zip(*columns[CHUNK:MORE], strict=True))
    contents: list[Any] = list(zip(extents, strict=True))
    for number, length in enumerate(columns[LENGTH]):
        if not length:
            contents[number] = ()
    nothing = repeat(())
    fields = zip(
        *columns[:DIGEST], contents, nothing, columns[DIGEST], repeat(b""), repeat(0), nothing
    )  # fmt: skip
    return list(map(new, repeat(Entry), fields))


def _complete_rare(entries: list[Entry], columns: Columns, rare: list[int]) -> None:
    """Put in what the last column holds.

    Where each file has a security label, all rows are rare and few labels differ: these have a way
    of their own, which takes a third of the time.
    """
    sizes, lengths, mores = columns[SIZE], columns[LENGTH], columns[MORE]
    labels: dict[Row, tuple[Xattr, ...]] = {}
    for number in rare:
        entry, more = entries[number], mores[number]
        flat = more.get(XATTRS) if len(more) == 1 else None
        if (
            flat is None
            or entry[1] == SYMLINK
            or sizes[number] != lengths[number]
            or set(map(type, more)) != {int}
            or type(flat) is not tuple
            or set(map(type, flat)) != {bytes}
        ):
            entries[number] = complete(entry, more)
            continue
        xattrs = labels.get(flat)
        if xattrs is None:
            xattrs = labels[flat] = xattrs_of(flat, f"manifest entry {shown(entry.path)}")
        entries[number] = new(Entry, (*entry[:-1], xattrs))


# Rules, column by column


def _sure(columns: Columns, rare: list[int]) -> bool:
    """Whether all rows are good, but for order and what the last column holds; False is a doubt."""
    return (
        set(map(type, columns[0])) == {bytes}
        and set(map(type, itertools.chain(*columns[1:DIGEST], *columns[OFFSET:MORE]))) == {int}
        and _sure_paths(columns[0])
        and _sure_numbers(columns)
        and _sure_content(columns)
        and _sure_sizes(columns, rare)
    )


def _sure_paths(paths: Sequence[bytes]) -> bool:
    """One search over all paths, each between slashes, instead of a split of each."""
    joined = b"/" + b"/\0/".join(paths) + b"/"
    return (
        joined.count(b"\0") == len(paths) - 1
        and b"//" not in joined
        and b"/./" not in joined
        and b"/../" not in joined
        and max(map(len, paths)) <= MAX_PATH_SIZE
    )


def _sure_numbers(columns: Columns) -> bool:
    _, kinds, modes, uids, gids, _, sizes, _, inodes, devices, links = columns[:DIGEST]
    ids = {*uids, *gids, *links}
    modes_seen, kinds_seen = set(modes), set(kinds)
    return (
        _TYPES.issuperset(kinds_seen)
        and min(modes_seen) >= 0
        and max(modes_seen) <= MAX_MODE
        and min(ids) >= 0
        and max(ids) <= MAX_ID_NUMBER
        and min(inodes) >= 0
        and min(set(devices)) >= 0
        and min(sizes) >= 0
        and max(sizes) <= MAX_FILE_SIZE
        and min(columns[OFFSET]) >= 0
        and min(columns[LENGTH]) >= 0
    )


def _sure_content(columns: Columns) -> bool:
    """Which kinds of rows have which columns filled; a chunk has few combinations."""
    digests, chunks, offsets, lengths, mores = columns[DIGEST:]
    combinations = set(
        zip(
            columns[KIND],
            map(type, digests),
            map(type, chunks),
            map(bool, offsets),
            map(bool, lengths),
            map(type, mores),
            strict=True,
        )
    )
    return (
        all(itertools.starmap(_sure_combination, combinations))
        and {len(digest) for digest in digests if digest is not None} <= {ID_SIZE}
        and {len(chunk) for chunk in set(chunks) if chunk is not None} <= {ID_SIZE}
        and max(map(operator.add, offsets, lengths)) <= MAX_CHUNK_SIZE
    )


def _sure_combination(
    kind: int,
    digest: type,
    chunk: type,
    offset: bool,  # noqa: FBT001 - one argument a column
    length: bool,  # noqa: FBT001
    more: type,
) -> bool:
    if more not in (dict, NoneType):
        return False
    if kind != FILE:
        nothing = digest is chunk is NoneType and not offset and not length
        return nothing and (kind != SYMLINK or more is dict)
    if chunk is NoneType:
        return not offset and digest in (bytes, NoneType)
    return chunk is bytes and length and digest in (bytes, NoneType)


def _sure_sizes(columns: Columns, rare: list[int]) -> bool:
    """Sizes equal what the only extent holds; rare rows are summed up where they are completed."""
    sizes, lengths = columns[SIZE], columns[LENGTH]
    if not rare or sizes == lengths:
        return sizes == lengths
    some_sizes, some_lengths = list(sizes), list(lengths)
    for number in rare:
        some_sizes[number] = some_lengths[number] = 0
    return some_sizes == some_lengths
