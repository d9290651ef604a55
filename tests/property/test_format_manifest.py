"""Manifest chunks: exact round trips, one error for garbage, and a fast path equal to the slow."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import msgpack  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkvault.errors import FormatError
from chunkvault.format.entry import Entry, Extent, FileType, order_key
from chunkvault.format.limits import MAX_CHUNK_SIZE
from chunkvault.format.manifest import (
    decode_extents,
    decode_manifest,
    encode_entry,
    encode_extents,
)
from chunkvault.format.rows import checked_entry
from chunkvault.ids import ChunkId, ContentDigest

U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)
TIMES = st.integers(-(1 << 63), (1 << 64) - 1)
IDS = st.binary(min_size=32, max_size=32)
NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"a.b", b"a-", b"...", b"\xff", b"\x01"]),
    st.binary(min_size=1, max_size=6).map(
        lambda name: name.translate(bytes.maketrans(b"/\0", b"xy"))
    ),
).filter(lambda name: name not in {b".", b".."})
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
HOLES = st.builds(Extent, st.none(), st.just(0), st.integers(1, 1 << 50))


@st.composite
def data_extents(draw: st.DrawFn) -> Extent:
    offset = draw(st.integers(0, MAX_CHUNK_SIZE - 1))
    length = draw(st.integers(1, MAX_CHUNK_SIZE - offset))
    return Extent(ChunkId(draw(IDS)), offset, length)


EXTENTS = st.one_of(data_extents(), data_extents(), HOLES)
XATTRS = st.dictionaries(
    st.sampled_from([b"user.a", b"user.b", b"security.selinux"]), st.binary(max_size=8)
).map(lambda named: tuple(sorted(named.items())))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from([FileType.FILE] * 4 + list(FileType)))
    content: dict[str, Any] = {}
    if kind is FileType.FILE:
        extents = tuple(draw(st.lists(EXTENTS, max_size=3)))
        content = {"extents": extents, "size": sum(extent.length for extent in extents)}
        if draw(st.booleans()):
            content["digest"] = ContentDigest(draw(IDS))
        if draw(st.integers(0, 9)) == 0:
            lists = tuple(map(ChunkId, draw(st.lists(IDS, min_size=1, max_size=3))))
            content |= {"extents": (), "size": draw(st.integers(1, 1 << 62)), "extent_lists": lists}
    elif kind is FileType.SYMLINK:
        content["target"] = draw(st.binary(min_size=1, max_size=9)).replace(b"\0", b"x")
    elif kind in (FileType.CHARACTER_DEVICE, FileType.BLOCK_DEVICE):
        content["rdev"] = draw(U64)
    base = Entry(
        draw(PATHS), int(kind), draw(st.integers(0, 0o7777)), draw(U32), draw(U32), draw(TIMES), 0,
        draw(TIMES), draw(U64), draw(U64), draw(U32), xattrs=draw(st.one_of(st.just(()), XATTRS)),
    )  # fmt: skip
    return base._replace(**content)


CHUNKS = st.lists(entries(), min_size=1, max_size=8, unique_by=lambda entry: entry.path).map(
    lambda found: sorted(found, key=lambda entry: order_key(entry.path))
)


def encode(found: list[Entry]) -> bytes:
    return b"".join(map(encode_entry, found))


def decode_or_none(data: bytes) -> list[Entry] | None:
    try:
        return decode_manifest(data)
    except FormatError:
        return None


@given(CHUNKS)
def test_chunks_come_back_exactly(found: list[Entry]) -> None:
    """Whatever a scanner can find, decoded it is what was encoded."""
    assert decode_manifest(encode(found)) == found


@given(st.binary(max_size=300))
def test_garbage_raises_format_error_only(data: bytes) -> None:
    """No bytes bring up another exception."""
    decode_or_none(data)


@given(
    CHUNKS,
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(-3, 3),
)
def test_mutated_chunks_raise_format_error_or_follow_the_rules(
    found: list[Entry], changes: list[tuple[int, int]], moved: int
) -> None:
    """Flipped, cut or lengthened: what still decodes is a good chunk that encodes to itself."""
    data = bytearray(encode(found))
    for at, value in changes:
        data[at % len(data)] = value
    if moved < 0:
        del data[moved:]
    else:
        data += data[:moved]
    decoded = decode_or_none(bytes(data))
    if decoded is not None:
        assert decode_manifest(encode(decoded)) == decoded


ODD = st.one_of(
    st.sampled_from(
        [None, True, False, 0, 1, -1, 1.0, "", "x", b"", b"c" * 32, b"c" * 31, [], {}, 1 << 32]
    ),
    st.sampled_from([[b"c" * 32, 0, 1] * 2, {3: b"t"}, {4: 1}, {5: [b"a", b"b"]}, {2: b"c" * 32}]),
    st.sampled_from([b"..", b"/", b"a//b", b"a/./b", b"a/../b", b"a\0", MAX_CHUNK_SIZE, 1 << 63]),
    st.integers(1, 8),
)


@settings(max_examples=400)
@given(CHUNKS, st.lists(st.tuples(st.integers(0), st.integers(0, 15), ODD), max_size=2))
def test_the_checks_by_columns_equal_the_checks_by_rows(
    found: list[Entry], changes: list[tuple[int, int, Any]]
) -> None:
    """What the fast path lets through is what the slow one does, and makes the same entries."""
    rows: list[list[Any]] = [
        list(msgpack.unpackb(encode_entry(entry), strict_map_key=False, use_list=True))
        for entry in found
    ]
    for number, column, value in changes:
        rows[number % len(rows)][column] = value
    data = b"".join(map(msgpack.packb, rows))
    try:
        slow = [checked_entry(as_decoded(row)) for row in rows]
    except FormatError:
        assert decode_or_none(data) is None
        return
    keys = [order_key(entry.path) for entry in slow]
    rising = all(one < two for one, two in itertools.pairwise(keys))
    assert decode_or_none(data) == (slow if rising else None)


def as_decoded(value: Any) -> Any:
    """Arrays as tuples, as the decoder sees them."""
    if isinstance(value, list):
        return tuple(map(as_decoded, value))
    if isinstance(value, dict):
        return {key: as_decoded(item) for key, item in value.items()}
    return value


@given(st.lists(EXTENTS, min_size=1, max_size=20))
def test_lists_of_extents_come_back_exactly(found: list[Extent]) -> None:
    """Data and holes in any order."""
    assert decode_extents(encode_extents(found)) == found


@given(st.lists(EXTENTS, min_size=1, max_size=4), st.integers(0), st.integers(0, 255))
def test_mutated_lists_of_extents_raise_format_error_only(
    found: list[Extent], at: int, value: int
) -> None:
    """One byte changed, or the end cut off."""
    data = bytearray(encode_extents(found))
    data[at % len(data)] = value
    for bad in (bytes(data), bytes(data[: at % len(data)])):
        try:
            decoded = decode_extents(bad)
        except FormatError:
            continue
        assert decode_extents(encode_extents(decoded)) == decoded


@given(st.binary(max_size=200))
def test_garbage_is_no_list_of_extents(data: bytes) -> None:
    """No bytes bring up another exception."""
    with contextlib.suppress(FormatError):
        decode_extents(data)
