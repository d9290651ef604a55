"""Snapshot records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from chunkvault.errors import FormatError, UnsupportedFormatError
from chunkvault.format.limits import MAX_SNAPSHOT_SIZE
from chunkvault.format.snapshot import (
    ManifestRef,
    Snapshot,
    Totals,
    decode_snapshot,
    encode_snapshot,
)
from chunkvault.ids import ChunkId, SnapshotId

CHUNK = ChunkId(b"c" * 32)
GOOD = Snapshot(
    started_ns=1796083200123456789,
    finished_ns=1796083201000000000,
    hostname="büro",
    username="ada",
    roots=(b"/", b"/home/\xff"),
    tags=("nightly", ""),
    program="chunkvault 0.1.0",
    parent=SnapshotId(b"p" * 32),
    partial=True,
    manifest=(ManifestRef(b"a/b", CHUNK, 7), ManifestRef(b"a.b", CHUNK, (1 << 32) - 1)),
    users={0: "root", (1 << 32) - 1: "nobody"},
    groups={0: "root"},
    totals=Totals(1, 2, 3, (1 << 64) - 1, 5, 6, 7, 8, 9, 10, 11, 12),
    excludes=("*.tmp", "b\udcffd"),
)
EMPTY = replace(
    GOOD, roots=(), tags=(), parent=None, partial=False, manifest=(), users={}, groups={},
    totals=Totals(), excludes=(),
)  # fmt: skip

KEYS: list[str] = list(msgpack.unpackb(encode_snapshot(EMPTY), strict_map_key=False))


def record(**changes: Any) -> bytes:
    """The good record with some keys replaced."""
    fields = msgpack.unpackb(
        encode_snapshot(GOOD), strict_map_key=False, unicode_errors="surrogateescape"
    )
    data = msgpack.packb({**fields, **changes}, unicode_errors="surrogateescape")
    assert isinstance(data, bytes)
    return data


@pytest.mark.parametrize("snapshot", [GOOD, EMPTY])
def test_records_come_back(snapshot: Snapshot) -> None:
    """Every field, text that is not UTF-8 included."""
    back = decode_snapshot(encode_snapshot(snapshot))
    assert back == snapshot
    assert all(type(ref) is ManifestRef for ref in back.manifest)


def test_unknown_keys_are_ignored() -> None:
    """A later writer of version 1 may tell more, in the record and in its totals."""
    totals = {**msgpack.unpackb(record(), strict_map_key=False, unicode_errors="replace")["totals"]}
    assert decode_snapshot(record(colour="red", totals={**totals, "more": "?"})) == GOOD


def test_a_newer_record_is_refused_by_name() -> None:
    """The message names both versions, whatever else the record holds."""
    with pytest.raises(UnsupportedFormatError, match=r"version 2.* knows 1"):
        decode_snapshot(msgpack.packb({"v": 2}))


@pytest.mark.parametrize("key", KEYS)
def test_no_key_may_be_missing_or_of_another_type(key: str) -> None:
    """Each key is needed, and is not a float."""
    fields = msgpack.unpackb(encode_snapshot(EMPTY), strict_map_key=False)
    del fields[key]
    changes: list[dict[str, Any]] = [{}, {key: 1.5}, {key: [[]]}, {key: {1.5: 1.5}}]
    for change in changes:
        changed = fields | change
        with pytest.raises(FormatError, match="snapshot record"):
            decode_snapshot(msgpack.packb(changed))


BAD: list[dict[str, Any]] = [
    {"v": 0},
    {"v": True},
    {"v": "1"},
    {"started_ns": True},
    {"started_ns": 1 << 63},
    {"finished_ns": None},
    {"hostname": b"bytes"},
    {"username": None},
    {"program": 1},
    {"partial": 1},
    {"partial": None},
    {"parent": b"short"},
    {"parent": "p" * 32},
    {"roots": b"/"},
    {"roots": ["/"]},
    {"roots": [b""]},
    {"roots": [b"home"]},
    {"roots": [b"//"]},
    {"roots": [b"/home/"]},
    {"roots": [b"/home/../etc"]},
    {"roots": [b"/a\0"]},
    {"tags": "nightly"},
    {"tags": [b"nightly"]},
    {"tags": [None]},
    {"excludes": [1]},
    {"users": []},
    {"users": {"0": "root"}},
    {"users": {-1: "root"}},
    {"users": {1 << 32: "root"}},
    {"users": {True: "root"}},
    {"users": {0: b"root"}},
    {"groups": {0: None}},
    {"totals": []},
    {"totals": {}},
    {"totals": {**dict.fromkeys(Totals.__slots__, 0), "files": -1}},
    {"totals": {**dict.fromkeys(Totals.__slots__, 0), "skipped": 0.0}},
    {"manifest": {}},
    {"manifest": [b"a"]},
    {"manifest": [[b"a", CHUNK]]},
    {"manifest": [[b"a", CHUNK, 1, 1]]},
    {"manifest": [["a", CHUNK, 1]]},
    {"manifest": [[b"/a", CHUNK, 1]]},
    {"manifest": [[b"a/../b", CHUNK, 1]]},
    {"manifest": [[b"a", b"short", 1]]},
    {"manifest": [[b"a", None, 1]]},
    {"manifest": [[b"a", CHUNK, 0]]},
    {"manifest": [[b"a", CHUNK, True]]},
    {"manifest": [[b"a", CHUNK, 1 << 32]]},
    {"manifest": [[b"a", CHUNK, 1], [b"a", CHUNK, 1]]},
    {"manifest": [[b"b", CHUNK, 1], [b"a", CHUNK, 1]]},
    {"manifest": [[b"a.b", CHUNK, 1], [b"a/b", CHUNK, 1]]},
]


@pytest.mark.parametrize("changes", BAD, ids=[f"case {n}" for n in range(len(BAD))])
def test_bad_fields_are_refused(changes: dict[str, Any]) -> None:
    """Type and bounds of every field, and the order of manifest chunks."""
    with pytest.raises(FormatError, match="snapshot record"):
        decode_snapshot(record(**changes))


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc0", b"\x90", record() + b"\xc0", record()[:-1], bytes(MAX_SNAPSHOT_SIZE + 1)],
    ids=["empty", "nil", "array", "more", "cut", "large"],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    """One map, whole, and of a size that records have."""
    with pytest.raises(FormatError):
        decode_snapshot(data)


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, hostname="\ud800"),
        replace(GOOD, started_ns=1 << 90),
        replace(GOOD, roots=(b"relative",)),
        replace(GOOD, manifest=GOOD.manifest[::-1]),
    ],
    ids=["text", "time", "root", "order"],
)
def test_what_could_not_be_read_again_is_not_written(bad: Snapshot) -> None:
    """No record is published that its own decoder refuses."""
    with pytest.raises(FormatError):
        encode_snapshot(bad)
