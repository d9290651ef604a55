"""Manifest chunks and lists of extents: every rule of the format page, one bad row each."""

from __future__ import annotations

import os
import stat
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from chunkvault.errors import FormatError
from chunkvault.format.entry import Entry, Extent, FileType, order_key
from chunkvault.format.limits import (
    MAX_CHUNK_SIZE,
    MAX_EXTENTS_INLINE,
    MAX_EXTENTS_PER_LIST,
    MAX_MANIFEST_SIZE,
    MAX_XATTRS,
)
from chunkvault.format.manifest import (
    decode_extents,
    decode_manifest,
    encode_bundled,
    encode_entry,
    encode_extents,
    is_boundary,
)
from chunkvault.format.rows import xattrs_of
from chunkvault.ids import ChunkId, ContentDigest

CHUNK = ChunkId(b"c" * 32)
OTHER = ChunkId(b"d" * 32)
DIGEST = ContentDigest(b"e" * 32)


def entry(path: bytes = b"home/file", **changes: Any) -> Entry:
    """A small file, 92 bytes in a bundle, unless changed."""
    base = Entry(
        path, FileType.FILE, 0o644, 1000, 1000, 17 * 10**17, 92, 17 * 10**17 + 1, 140, 64768, 1,
        (Extent(CHUNK, 4096, 92),), (), DIGEST,
    )  # fmt: skip
    return base._replace(**changes)


def bare(path: bytes, kind: FileType, **changes: Any) -> Entry:
    """An entry without content."""
    return entry(path, type=kind, size=0, extents=(), digest=None, **changes)


ROW: list[Any] = list(msgpack.unpackb(encode_entry(entry())))
"""A good row, to be spoiled."""
SYMLINK: list[Any] = list(
    msgpack.unpackb(encode_entry(bare(b"l", FileType.SYMLINK, target=b"t")), strict_map_key=False)
)


def row(base: list[Any] = ROW, **columns: Any) -> bytes:
    """A row with some columns replaced: ``c5=...`` is the column 5."""
    values = list(base)
    for name, value in columns.items():
        values[int(name[1:])] = value
    data = msgpack.packb(values)
    assert isinstance(data, bytes)
    return data


def manifest(*entries: Entry) -> bytes:
    return b"".join(encode_entry(one) for one in entries)


KINDS = [
    entry(),
    entry(digest=None),
    entry(size=0, extents=(), digest=None),
    entry(size=1 << 40, extents=(Extent(None, 0, 1 << 40),), digest=None),
    entry(size=300, extents=(Extent(CHUNK, 7, 100), Extent(None, 0, 100), Extent(OTHER, 0, 100))),
    entry(size=5 << 30, extents=(), extent_lists=(CHUNK, OTHER), digest=None),
    entry(xattrs=((b"user.a", b""), (b"user.b", b"\0\xff"))),
    entry(size=2, extents=(Extent(CHUNK, 0, 1), Extent(CHUNK, 1, 1)), xattrs=((b"a", b"b"),)),
    entry(mtime_ns=-1, ctime_ns=(1 << 64) - 1, inode=(1 << 64) - 1, device=(1 << 64) - 1),
    entry(mtime_ns=-(1 << 63), uid=(1 << 32) - 1, gid=0, links=(1 << 32) - 1, mode=0o7777),
    entry(extents=(Extent(CHUNK, MAX_CHUNK_SIZE - 92, 92),)),
    entry(b"\xff\xfe\n\x1b[0m"),
    entry(b"..."),
    entry(b"a/..b/.c/d.."),
    bare(b"d", FileType.DIRECTORY),
    bare(b"d", FileType.DIRECTORY, xattrs=((b"system.posix_acl_default", b"\2"),)),
    bare(b"l", FileType.SYMLINK, target=b"../\xff"),
    bare(b"l", FileType.SYMLINK, target=b"t", xattrs=((b"security.selinux", b"x"),)),
    bare(b"p", FileType.FIFO),
    bare(b"s", FileType.SOCKET),
    bare(b"c", FileType.CHARACTER_DEVICE, rdev=259),
    bare(b"c", FileType.CHARACTER_DEVICE),
    bare(b"b", FileType.BLOCK_DEVICE, rdev=(1 << 64) - 1),
]


@pytest.mark.parametrize("one", KINDS)
def test_entries_come_back(one: Entry) -> None:
    """Every type, with everything it can have, alone in a chunk."""
    (back,) = decode_manifest(encode_entry(one))
    assert back == one
    assert type(back) is Entry
    assert all(type(extent) is Extent for extent in back.extents)


def test_a_chunk_of_all_kinds_comes_back_in_order() -> None:
    """Rows of all shapes side by side."""
    entries = sorted(
        (one._replace(path=b"n%03d" % number) for number, one in enumerate(KINDS)),
        key=lambda one: order_key(one.path),
    )
    assert decode_manifest(manifest(*entries)) == entries


def test_many_files_with_the_same_security_label() -> None:
    """A label on each file comes back on each, whatever else the files have."""
    label = ((b"security.selinux", b"unconfined"),)
    entries = [entry(b"%04d" % n, xattrs=label) for n in range(50)]
    entries[7] = entry(b"0007", size=3 << 20, extents=(Extent(None, 0, 3 << 20),), xattrs=label)
    entries[9] = bare(b"0009", FileType.DIRECTORY, xattrs=label)
    entries[11] = entry(b"0011", xattrs=((b"security.selinux", b"other"),))
    assert decode_manifest(manifest(*entries)) == entries


BAD_PATHS = [
    b"", b"/", b"/etc", b"etc/", b"a//b", b".", b"..", b"./a", b"a/.", b"a/./b", b"../a", b"a/..",
    b"a/../b", b"a\0b", b"\0", b"x" * ((1 << 20) + 1),
]  # fmt: skip


@pytest.mark.parametrize("path", BAD_PATHS, ids=lambda path: repr(path[:12]))
@pytest.mark.parametrize("place", [0, 1, 2])
def test_hostile_paths_are_refused(path: bytes, place: int) -> None:
    """No path that leads out of a restore target gets past, alone or among good ones."""
    rows = [row(c0=b"before"), row(c0=b"zz/after")]
    rows.insert(place, row(c0=path))
    with pytest.raises(FormatError, match="path"):
        decode_manifest(b"".join(rows))
    with pytest.raises(FormatError, match="path"):
        decode_manifest(row(c0=path))


def test_two_paths_cannot_hide_in_one() -> None:
    """The bytes that the checker puts between paths are refused inside a path."""
    with pytest.raises(FormatError, match="NUL"):
        decode_manifest(row(c0=b"a/\0/b"))


BAD_COLUMNS: list[tuple[str, dict[str, Any]]] = [
    ("path text", {"c0": "text"}),
    ("path none", {"c0": None}),
    ("path number", {"c0": 7}),
    *((f"column {n} bool", {f"c{n}": True}) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14)),
    *((f"column {n} false", {f"c{n}": False}) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14)),
    *((f"column {n} float", {f"c{n}": 1.0}) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14)),
    *((f"column {n} nil", {f"c{n}": None}) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14)),
    *((f"column {n} bytes", {f"c{n}": b"1"}) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15)),
    *((f"column {n} map", {f"c{n}": {1: 2}}) for n in range(16)),
    *((f"column {n} array", {f"c{n}": [1]}) for n in range(16)),
    *((f"column {n} negative", {f"c{n}": -1}) for n in (1, 2, 3, 4, 6, 8, 9, 10, 13, 14)),
    ("type 0", {"c1": 0}),
    ("type 8", {"c1": 8}),
    ("mode", {"c2": 0o10000}),
    ("uid", {"c3": 1 << 32}),
    ("gid", {"c4": 1 << 32}),
    ("links", {"c10": 1 << 32}),
    ("size", {"c6": 1 << 63, "c12": None, "c13": 0, "c14": 1 << 63}),
    ("size differs", {"c6": 93}),
    ("size without content", {"c12": None, "c13": 0, "c14": 0}),
    ("content without size", {"c6": 0}),
    ("digest short", {"c11": b"e" * 31}),
    ("digest empty", {"c11": b""}),
    ("digest text", {"c11": "e" * 32}),
    ("chunk short", {"c12": b"c" * 31}),
    ("chunk empty", {"c12": b""}),
    ("chunk number", {"c12": 0}),
    ("chunk false", {"c12": False}),
    ("empty extent", {"c6": 0, "c14": 0}),
    ("hole with an offset", {"c12": None}),
    ("hole with an offset, empty", {"c6": 0, "c12": None, "c14": 0}),
    ("extent beyond a chunk", {"c13": MAX_CHUNK_SIZE - 91}),
    ("more empty", {"c15": {}}),
    ("more text key", {"c15": {"3": b"t"}}),
    ("more unknown key", {"c15": {6: b""}}),
    ("more key 0", {"c15": {0: b""}}),
    ("more bool key", {"c15": {True: [CHUNK, 0, 1, CHUNK, 1, 1]}}),
    ("more float key", {"c15": {5.0: [b"a", b"b"]}}),
    ("target of a file", {"c15": {3: b"t"}}),
    ("device number of a file", {"c15": {4: 1}}),
    ("two homes for extents", {"c6": 94, "c15": {1: [CHUNK, 0, 1, CHUNK, 1, 1]}}),
    ("two homes for extents, one of the right size", {"c6": 2, "c15": {1: [CHUNK, 0, 1] * 2}}),
    ("lists besides an extent", {"c15": {2: CHUNK}}),
    ("size differs, with attributes", {"c6": 93, "c15": {5: [b"a", b"b"]}}),
    ("no content, offset false", {"c6": 0, "c12": None, "c13": False, "c14": 0}),
    ("no content, length 0.0", {"c6": 0, "c12": None, "c13": 0, "c14": 0.0}),
]
EMPTY: dict[str, Any] = {"c11": None, "c12": None, "c13": 0, "c14": 0}
BAD_MORE: list[tuple[str, int, dict[int, Any]]] = [
    ("one extent in the map", 1, {1: [CHUNK, 0, 1]}),
    ("no extents in the map", 0, {1: []}),
    ("extents cut short", 2, {1: [CHUNK, 0, 1, CHUNK, 1]}),
    ("extents no array", 2, {1: CHUNK}),
    ("extents do not sum up", 3, {1: [CHUNK, 0, 1, CHUNK, 1, 1]}),
    ("extent without length", 1, {1: [CHUNK, 0, 1, CHUNK, 1, 0]}),
    ("extent with negative length", 1, {1: [CHUNK, 0, 2, CHUNK, 1, -1]}),
    ("extent with negative offset", 2, {1: [CHUNK, 0, 1, CHUNK, -1, 1]}),
    ("extent with a bool", 2, {1: [CHUNK, 0, 1, CHUNK, 1, True]}),
    ("extent with a short id", 2, {1: [CHUNK, 0, 1, b"x", 1, 1]}),
    ("extent with a text id", 2, {1: [CHUNK, 0, 1, "x" * 32, 1, 1]}),
    ("extent beyond its chunk", 2, {1: [CHUNK, 0, 1, CHUNK, MAX_CHUNK_SIZE, 1]}),
    ("hole with an offset", 2, {1: [CHUNK, 0, 1, None, 1, 1]}),
    ("too long a hole", 1, {1: [None, 0, 1 << 63, CHUNK, 0, 1]}),
    ("too many extents", MAX_EXTENTS_INLINE + 1, {1: [None, 0, 1] * (MAX_EXTENTS_INLINE + 1)}),
    ("lists and extents", 2, {1: [CHUNK, 0, 1, CHUNK, 1, 1], 2: CHUNK}),
    ("lists of no size", 0, {2: CHUNK}),
    ("lists empty", 1, {2: b""}),
    ("lists not whole", 1, {2: CHUNK + b"x"}),
    ("lists no bytes", 1, {2: "x" * 32}),
    ("too many lists", 1, {2: CHUNK * 65_537}),
    ("xattrs empty", 0, {5: []}),
    ("xattrs no array", 0, {5: b"ab"}),
    ("xattrs not pairs", 0, {5: [b"a"]}),
    ("xattrs text", 0, {5: ["a", b"b"]}),
    ("xattrs number", 0, {5: [b"a", 1]}),
    ("xattrs nameless", 0, {5: [b"", b"b"]}),
    ("xattrs NUL", 0, {5: [b"a\0", b"b"]}),
    ("xattrs long name", 0, {5: [b"a" * 256, b"b"]}),
    ("xattrs unordered", 0, {5: [b"b", b"", b"a", b""]}),
    ("xattrs twice", 0, {5: [b"a", b"", b"a", b""]}),
    ("xattrs map inside", 0, {5: [b"a", {1: 2}]}),
    (
        "too many xattrs",
        0,
        {5: [part for n in range(MAX_XATTRS + 1) for part in (b"%05d" % n, b"")]},
    ),
]
BAD_SPECIAL: list[tuple[str, dict[str, Any]]] = [
    ("no target", {"c15": None}),
    ("only attributes", {"c15": {5: [b"a", b"b"]}}),
    ("empty target", {"c15": {3: b""}}),
    ("text target", {"c15": {3: "t"}}),
    ("NUL in target", {"c15": {3: b"a\0b"}}),
    ("long target", {"c15": {3: b"t" * 65_536}}),
    ("size", {"c6": 1}),
    ("hole", {"c6": 1, "c14": 1}),
    ("extent", {"c6": 1, "c12": CHUNK, "c14": 1}),
    ("digest", {"c11": DIGEST}),
    ("lists", {"c6": 1, "c15": {2: CHUNK, 3: b"t"}}),
    ("extents", {"c6": 2, "c15": {1: [CHUNK, 0, 1, CHUNK, 1, 1], 3: b"t"}}),
    ("device number", {"c15": {3: b"t", 4: 1}}),
    ("device number 0", {"c1": 6, "c15": {4: 0}}),
    ("device number bool", {"c1": 6, "c15": {4: True}}),
    ("device number negative", {"c1": 7, "c15": {4: -1}}),
    ("device number of a folder", {"c1": 2, "c15": {4: 1}}),
    ("target of a folder", {"c1": 2}),
]


def assert_refused(bad: bytes) -> None:
    """Refused alone, and among good rows of either shape."""
    for data in (
        bad,
        row(c0=b"\x01") + bad,
        bad + row(c0=b"z"),
        bad + row(c0=b"z", c15={5: [b"user.a", b"b"]}),
    ):
        with pytest.raises(FormatError) as caught:
            decode_manifest(data)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("columns", [c for _, c in BAD_COLUMNS], ids=[n for n, _ in BAD_COLUMNS])
def test_bad_columns_are_refused(columns: dict[str, Any]) -> None:
    """Type and range of every column, and how they belong together."""
    assert_refused(row(**columns))


@pytest.mark.parametrize(
    ("size", "more"), [(s, m) for _, s, m in BAD_MORE], ids=[n for n, _, _ in BAD_MORE]
)
def test_bad_maps_are_refused(size: int, more: dict[int, Any]) -> None:
    """Everything in the last column."""
    assert_refused(row(**EMPTY, c6=size, c15=more))


@pytest.mark.parametrize("columns", [c for _, c in BAD_SPECIAL], ids=[n for n, _ in BAD_SPECIAL])
def test_bad_links_and_nodes_are_refused(columns: dict[str, Any]) -> None:
    """Only files have content, only links a target, only devices a number."""
    assert_refused(row(SYMLINK, **columns))


@pytest.mark.parametrize(
    "paths",
    [
        (b"b", b"a"),
        (b"a", b"a"),
        (b"a/b", b"a"),
        (b"a.txt", b"a/b"),
        (b"a", b"a-b", b"a/c"),
        (b"a", b"b", b"c", b"bb"),
    ],
)
def test_rows_out_of_order_are_refused(paths: tuple[bytes, ...]) -> None:
    """The message names the first path that is in the wrong place; twice the same is wrong too."""
    with pytest.raises(FormatError, match=f"'{paths[-1].decode()}' is out of order"):
        decode_manifest(manifest(*(entry(path) for path in paths)))


def test_order_is_checked_among_unusual_rows_too() -> None:
    """A file that is one huge hole has the chunk checked row by row; order still counts."""
    hole = entry(b"b", size=1 << 40, extents=(Extent(None, 0, 1 << 40),), digest=None)
    with pytest.raises(FormatError, match="out of order"):
        decode_manifest(manifest(hole, entry(b"a")))


def test_more_rows_than_a_chunk_has_room_for_are_not_even_built() -> None:
    """Tiny values by the million are refused while they are counted."""
    with pytest.raises(FormatError, match="more than its size allows"):
        decode_manifest(b"\x90" * 100_000)


def test_too_many_attributes_are_refused_wherever_they_come_from() -> None:
    """The rule does not lean on the decoder's limit for arrays."""
    flat = tuple(part for n in range(MAX_XATTRS + 1) for part in (b"%05d" % n, b""))
    assert len(xattrs_of(flat[:-2], "entry")) == MAX_XATTRS
    with pytest.raises(FormatError, match="too many"):
        xattrs_of(flat, "entry")


def test_a_folder_comes_before_what_it_holds_and_that_before_its_sibling() -> None:
    """The slash sorts below every other byte."""
    entries = [
        bare(b"a", FileType.DIRECTORY),
        entry(b"a/x"),
        entry(b"a\x01"),
        entry(b"a-b"),
        entry(b"a.txt"),
    ]
    assert decode_manifest(manifest(*entries)) == entries


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x90",
        b"\xc0",
        b"\x00" * 40,
        msgpack.packb(ROW[:15]),
        msgpack.packb([*ROW, None]),
        msgpack.packb([ROW]),
        msgpack.packb(dict(enumerate(ROW[:5]))),
        encode_entry(entry()) + b"\xc0",
        encode_entry(entry()) + b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 2000,
        b"\xdc\x00\x10\xc6\xff\xff\xff\xff",
        bytes(MAX_MANIFEST_SIZE + 1),
        b"\x90" * 100_000,
        b"\xc7\x08\x05" + bytes(8),
        b"\xd6\xff" + bytes(4),
    ],
    ids=[f"case {n}" for n in range(17)],
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    """Other values, claims of huge lengths, deep nesting."""
    with pytest.raises(FormatError):
        decode_manifest(data)


def test_every_truncation_is_refused() -> None:
    """A chunk cut inside a row never decodes; cut between rows it has fewer of them."""
    rows = [encode_entry(one._replace(path=b"%03d" % n)) for n, one in enumerate(KINDS)]
    data = b"".join(rows)
    ends = {sum(map(len, rows[:n])) for n in range(1, len(rows) + 1)}
    for size in range(len(data)):
        if size in ends:
            assert decode_manifest(data[:size])
        else:
            with pytest.raises(FormatError):
                decode_manifest(data[:size])


def test_longer_forms_of_numbers_and_bytes_are_accepted() -> None:
    """Other writers may not use the shortest form."""
    values = list(ROW)
    data = b"\xdd" + (16).to_bytes(4, "big")
    for value in values:
        if isinstance(value, bytes):
            data += b"\xc6" + len(value).to_bytes(4, "big") + value
        elif value is None:
            data += b"\xc0"
        else:
            data += b"\xcf" + value.to_bytes(8, "big")
    assert decode_manifest(data) == [entry()]


def test_the_message_names_the_entry_on_one_line() -> None:
    """A hostile name cannot reach a terminal, or fill a screen."""
    path = b"evil\n\x1b[2J" + b"x" * 5000
    with pytest.raises(FormatError) as caught:
        decode_manifest(row(c0=path, c2=-1))
    message = str(caught.value)
    assert r"evil\n\x1b[2J" in message
    assert message.isprintable()
    assert len(message) < 400


# Writing


def status(**changes: int) -> os.stat_result:
    """What lstat might say of `entry`."""
    facts = {
        "st_mode": stat.S_IFREG | 0o644, "st_ino": 140, "st_dev": 64768, "st_nlink": 1,
        "st_uid": 1000, "st_gid": 1000, "st_size": 92, "st_mtime_ns": 17 * 10**17,
        "st_ctime_ns": 17 * 10**17 + 1, **changes,
    }  # fmt: skip
    names = ("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_size")
    first = tuple(facts[name] for name in names)
    times = {"st_mtime_ns": facts["st_mtime_ns"], "st_ctime_ns": facts["st_ctime_ns"]}
    return os.stat_result((*first, 0, 0, 0), times)


def test_the_short_way_to_write_a_bundled_file_gives_the_same_row() -> None:
    """Byte for byte what its entry gives, times out of range included."""
    extent = Extent(CHUNK, 4096, 92)
    assert encode_bundled(entry().path, status(), DIGEST, extent) == encode_entry(entry())
    far = encode_bundled(entry().path, status(st_mtime_ns=1 << 90), DIGEST, extent)
    assert far == encode_entry(entry(mtime_ns=1 << 90))


def test_the_short_way_keeps_the_limits() -> None:
    """A path that is too long and a number that does not fit are errors there too."""
    extent = Extent(CHUNK, 4096, 92)
    with pytest.raises(FormatError, match="cannot be stored"):
        encode_bundled(b"x" * ((1 << 20) + 1), status(), DIGEST, extent)
    with pytest.raises(FormatError, match="cannot be stored"):
        encode_bundled(b"x", status(st_ino=1 << 70), DIGEST, extent)


def test_times_out_of_range_become_the_nearest() -> None:
    """A file dated the year 300,000 does not end the backup."""
    (back,) = decode_manifest(encode_entry(entry(mtime_ns=1 << 90, ctime_ns=-(1 << 90))))
    assert (back.mtime_ns, back.ctime_ns) == ((1 << 64) - 1, -(1 << 63))


@pytest.mark.parametrize(
    "bad",
    [
        entry(inode=1 << 64),
        entry(b"x" * ((1 << 20) + 1)),
        entry(xattrs=tuple((b"%03d" % n, bytes(1 << 20)) for n in range(5))),
        entry(xattrs=tuple((b"%05d" % n, b"") for n in range(MAX_XATTRS + 1))),
        entry(extents=(Extent(CHUNK, 0, 1),) * (MAX_EXTENTS_INLINE + 1)),
        entry(extent_lists=(CHUNK,) * 65_537),
    ],
    ids=["inode", "path", "large", "xattrs", "extents", "lists"],
)
def test_what_could_not_be_read_again_is_not_written(bad: Entry) -> None:
    """Limits are kept by the writer as well, with an error that names the path."""
    with pytest.raises(FormatError, match="cannot be stored"):
        encode_entry(bad)


def test_the_writer_goes_on_after_an_entry_that_cannot_be_stored() -> None:
    """An error leaves nothing behind in the encoder."""
    with pytest.raises(FormatError):
        encode_entry(entry(inode=1 << 64))
    assert decode_manifest(encode_entry(entry())) == [entry()]


def test_boundaries_depend_on_the_path_alone_and_are_one_in_2048() -> None:
    """Chunks come out at about two thousand entries, the same on every machine."""
    paths = [b"home/ada/%d" % n for n in range(200_000)]
    found = [path for path in paths if is_boundary(path)]
    assert 60 < len(found) < 140
    assert found[0] == b"home/ada/195"


# Lists of extents


def test_lists_of_extents_come_back() -> None:
    """Data and holes, up to the most that one list may hold."""
    extents = [Extent(CHUNK, 5, 100), Extent(None, 0, (1 << 63) - 1), Extent(OTHER, 0, 1)]
    assert decode_extents(encode_extents(extents)) == extents
    many = [Extent(CHUNK, n, 1) for n in range(MAX_EXTENTS_PER_LIST)]
    back = decode_extents(encode_extents(many))
    assert back == many
    assert type(back[0]) is Extent


@pytest.mark.parametrize("count", [0, MAX_EXTENTS_PER_LIST + 1])
def test_lists_of_no_or_too_many_extents_are_not_written(count: int) -> None:
    """The limits of a list hold for the writer."""
    with pytest.raises(FormatError):
        encode_extents([Extent(CHUNK, 0, 1)] * count)


@pytest.mark.parametrize(
    "value",
    [
        None, 7, [], [CHUNK], [CHUNK, 0], [CHUNK, 0, 1, None], [CHUNK, 0, 0], [CHUNK, -1, 1],
        [CHUNK, 0, 1.0], [CHUNK, False, 1], [b"short", 0, 1], ["x" * 32, 0, 1], [None, 1, 1],
        [CHUNK, MAX_CHUNK_SIZE, 1], [None, 0, 1 << 63], [None, 0, 1] * (MAX_EXTENTS_PER_LIST + 1),
        {1: 2}, [[CHUNK, 0, 1]], [{}, 0, 1],
    ],
)  # fmt: skip
def test_what_is_no_list_of_extents_is_refused(value: object) -> None:
    """Every field is checked, and the count."""
    with pytest.raises(FormatError):
        decode_extents(msgpack.packb(value))


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", encode_extents([Extent(CHUNK, 0, 1)]) + b"\xc0", bytes((1 << 20) + 1)]
)
def test_lists_of_extents_hold_one_value(data: bytes) -> None:
    """Nothing missing, nothing after it, nothing huge."""
    with pytest.raises(FormatError):
        decode_extents(data)
