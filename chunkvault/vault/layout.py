"""Where things lie in a vault; the same at every location.

What lives here: names. What may not: any I/O. docs/format.md, "Layout", is the norm.
"""

from __future__ import annotations

from typing import Final

from chunkvault.ids import ChunkId, SnapshotId, id_from_hex, id_to_hex

CONFIG: Final = "config"
KEYS: Final = "keys/"
BLOBS: Final = "blobs/"
SNAPSHOTS: Final = "snapshots/"
INCOMING: Final = "incoming/"
LOCK: Final = "lock"
"""Only in a local vault, and only for flock; it holds nothing."""


def blob_name(chunk: ChunkId) -> str:
    """Where a chunk's blob lies: ``blobs/ab/ab12…``."""
    text = id_to_hex(chunk)
    return f"{BLOBS}{text[:2]}/{text}"


def blob_chunk(name: str) -> ChunkId:
    """The chunk whose blob lies there.

    Raises:
        FormatError: not the name of a blob, or in another's shard.
    """
    chunk = ChunkId(id_from_hex(name.rpartition("/")[2]))
    if blob_name(chunk) != name:
        id_from_hex(name)  # a blob in the wrong folder: refused under its whole name
    return chunk


def snapshot_name(snapshot: SnapshotId) -> str:
    """Where a snapshot record lies: ``snapshots/<64 hex>``."""
    return SNAPSHOTS + id_to_hex(snapshot)


def snapshot_id(name: str) -> SnapshotId:
    """The snapshot whose record lies there.

    Raises:
        FormatError: not the name of a snapshot record.
    """
    return SnapshotId(id_from_hex(name.removeprefix(SNAPSHOTS)))


def slot_name(slot_id: str) -> str:
    """Where a key slot lies: ``keys/<id>``."""
    return KEYS + slot_id
