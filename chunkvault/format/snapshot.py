"""The snapshot record: what one backup run made, and where its manifest begins.

What lives here: the value, and its MessagePack form. What may not: sealing, and reading manifests.
Readers ignore keys they do not know, so that later versions may tell more; what would change the
meaning of known keys raises the record's version instead.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, NamedTuple, TypeAlias

from chunkvault.errors import FormatError, UnsupportedFormatError
from chunkvault.format.entry import order_key
from chunkvault.format.limits import (
    FORMAT_VERSION,
    MAX_ID_NUMBER,
    MAX_SNAPSHOT_SIZE,
)
from chunkvault.format.packing import pack, unpack
from chunkvault.format.paths import path_fault, shown
from chunkvault.ids import ID_SIZE, ChunkId, SnapshotId

_WHAT: Final = "snapshot record"
_MAX_ITEMS: Final = 1 << 20
_MAX_U64: Final = (1 << 64) - 1
_TIME_LIMIT: Final = 1 << 63

_Map: TypeAlias = dict[Any, Any]


class ManifestRef(NamedTuple):
    """One manifest chunk of a snapshot.

    Attributes:
        first_path: path of its first entry.
        chunk: its id.
        entries: how many entries it holds.
    """

    first_path: bytes
    chunk: ChunkId
    entries: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run saw and stored.

    Attributes:
        files: regular files in the snapshot.
        directories: folders in it.
        others: links and nodes in it.
        size: bytes of the files, holes included.
        added_files: files with no entry in the parent.
        changed_files: files that differ from the parent's entry.
        unchanged_files: files that were not read.
        read_bytes: bytes read from files.
        new_chunks: chunks that were not in the vault before.
        new_bytes: their plaintext bytes.
        stored_bytes: their bytes as stored.
        skipped: entries that could not be read, and are missing.
    """

    files: int = 0
    directories: int = 0
    others: int = 0
    size: int = 0
    added_files: int = 0
    changed_files: int = 0
    unchanged_files: int = 0
    read_bytes: int = 0
    new_chunks: int = 0
    new_bytes: int = 0
    stored_bytes: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot record.

    Attributes:
        started_ns: when the run began, nanoseconds since the epoch, by its host's clock.
        finished_ns: when the record was written.
        hostname: where.
        username: by whom.
        roots: absolute paths that it covers.
        tags: words its owner gave it.
        program: name and version of the program that wrote it.
        parent: the snapshot it was compared with.
        partial: the run was stopped early; entries after the last one were not looked at.
        manifest: its manifest chunks, in order of first path.
        users: names of the numeric owners in it, as known on its host.
        groups: names of the numeric groups, likewise.
        totals: what was seen and stored.
        excludes: patterns of what was left out.
    """

    started_ns: int
    finished_ns: int
    hostname: str
    username: str
    roots: tuple[bytes, ...]
    program: str
    manifest: tuple[ManifestRef, ...]
    tags: tuple[str, ...] = ()
    parent: SnapshotId | None = None
    partial: bool = False
    users: dict[int, str]
    groups: dict[int, str]
    totals: Totals
    excludes: tuple[str, ...] = ()


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The plaintext of a snapshot record.

    Raises:
        FormatError: it is too large, or holds what its decoder would refuse.
    """
    record: dict[str, object] = {
        "v": FORMAT_VERSION,
        "started_ns": snapshot.started_ns,
        "finished_ns": snapshot.finished_ns,
        "hostname": snapshot.hostname,
        "username": snapshot.username,
        "roots": snapshot.roots,
        "tags": snapshot.tags,
        "program": snapshot.program,
        "parent": snapshot.parent,
        "partial": snapshot.partial,
        "manifest": snapshot.manifest,
        "users": snapshot.users,
        "groups": snapshot.groups,
        "totals": asdict(snapshot.totals),
        "excludes": snapshot.excludes,
    }
    try:
        data = pack(record)
    except (UnicodeEncodeError, OverflowError) as error:
        raise FormatError(f"snapshot record cannot be stored: {error}") from error
    decode_snapshot(data)  # what cannot be read again must not be published
    return data


def decode_snapshot(data: bytes) -> Snapshot:
    """The snapshot in a record's plaintext.

    Raises:
        UnsupportedFormatError: a newer version wrote it.
        FormatError: anything else that is not a snapshot record.
    """
    if len(data) > MAX_SNAPSHOT_SIZE:
        raise FormatError(f"{_WHAT} is larger than {MAX_SNAPSHOT_SIZE} bytes")
    record = unpack(data, _WHAT, max_array=_MAX_ITEMS)
    if not isinstance(record, dict):
        raise _fault("is not a map")
    _check_version(record)
    return Snapshot(
        started_ns=_integer(record, "started_ns", -_TIME_LIMIT, _TIME_LIMIT - 1),
        finished_ns=_integer(record, "finished_ns", -_TIME_LIMIT, _TIME_LIMIT - 1),
        hostname=_text(record, "hostname"),
        username=_text(record, "username"),
        roots=_roots(record),
        tags=_texts(record, "tags"),
        program=_text(record, "program"),
        parent=_parent(record),
        partial=_flag(record, "partial"),
        manifest=_manifest(record),
        users=_names(record, "users"),
        groups=_names(record, "groups"),
        totals=_totals(record),
        excludes=_texts(record, "excludes"),
    )


def _fault(why: str) -> FormatError:
    return FormatError(f"{_WHAT} {why}")


def _check_version(record: _Map) -> None:
    version = record.get("v")
    if type(version) is not int or version < 1:
        raise _fault("names no format version")
    if version > FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{_WHAT} is of format version {version}, this program knows {FORMAT_VERSION}: "
            "update chunkvault"
        )


def _integer(record: _Map, key: str, least: int, most: int) -> int:
    value = record.get(key)
    if type(value) is not int or not least <= value <= most:
        raise _fault(f"has no valid {key}")
    return value


def _text(record: _Map, key: str) -> str:
    value = record.get(key)
    if type(value) is not str:
        raise _fault(f"has no valid {key}")
    return value


def _flag(record: _Map, key: str) -> bool:
    value = record.get(key)
    if type(value) is not bool:
        raise _fault(f"has no valid {key}")
    return value


def _array(record: _Map, key: str) -> tuple[Any, ...]:
    value = record.get(key)
    if type(value) is not tuple:
        raise _fault(f"has no valid {key}")
    return value


def _texts(record: _Map, key: str) -> tuple[str, ...]:
    values = _array(record, key)
    if not all(type(value) is str for value in values):
        raise _fault(f"has no valid {key}")
    return values


def _roots(record: _Map) -> tuple[bytes, ...]:
    roots = _array(record, "roots")
    for root in roots:
        if type(root) is not bytes or not root.startswith(b"/"):
            raise _fault("has a root that is not an absolute path")
        fault = path_fault(root[1:]) if root != b"/" else None
        if fault is not None:
            raise _fault(f"has a root {shown(root)}: {fault}")
    return roots


def _parent(record: _Map) -> SnapshotId | None:
    value = record.get("parent", "missing")
    if value is None:
        return None
    if type(value) is not bytes or len(value) != ID_SIZE:
        raise _fault("has no valid parent")
    return SnapshotId(value)


def _manifest(record: _Map) -> tuple[ManifestRef, ...]:
    refs = tuple(_manifest_ref(value) for value in _array(record, "manifest"))
    for earlier, later in itertools.pairwise(refs):
        if order_key(earlier.first_path) >= order_key(later.first_path):
            raise _fault(f"has manifest chunks out of order at {shown(later.first_path)}")
    return refs


def _manifest_ref(value: object) -> ManifestRef:
    if type(value) is not tuple or len(value) != len(ManifestRef._fields):
        raise _fault("has a manifest chunk that is not path, id and count")
    path, chunk, entries = value
    fault = path_fault(path)
    if fault is not None:
        raise _fault(f"has a manifest chunk at {shown(path)}: {fault}")
    if type(chunk) is not bytes or len(chunk) != ID_SIZE:
        raise _fault(f"has a manifest chunk without an id at {shown(path)}")
    if type(entries) is not int or not 1 <= entries <= MAX_ID_NUMBER:
        raise _fault(f"has a manifest chunk without a count at {shown(path)}")
    return ManifestRef(path, ChunkId(chunk), entries)


def _names(record: _Map, key: str) -> dict[int, str]:
    names = record.get(key)
    if type(names) is not dict:
        raise _fault(f"has no valid {key}")
    for number, name in names.items():
        if type(number) is not int or not 0 <= number <= MAX_ID_NUMBER or type(name) is not str:
            raise _fault(f"has no valid {key}")
    return names


def _totals(record: _Map) -> Totals:
    totals = record.get("totals")
    if type(totals) is not dict:
        raise _fault("has no valid totals")
    return Totals(
        **{field.name: _integer(totals, field.name, 0, _MAX_U64) for field in fields(Totals)}
    )
