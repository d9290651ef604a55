"""Names of things that are 32 bytes long, and the one place where they become text and back.

Bytes inside, hex at the edges.
"""

from __future__ import annotations

import re
from typing import Final, NewType

from chunkvault.errors import FormatError

ChunkId = NewType("ChunkId", bytes)
"""BLAKE3 of a chunk's plaintext, keyed in an encrypted vault."""

SnapshotId = NewType("SnapshotId", bytes)
"""BLAKE3 of a snapshot record's stored bytes; its name in the vault."""

ContentDigest = NewType("ContentDigest", bytes)
"""BLAKE3 of a small file's content, keyed in an encrypted vault, under a key of its own."""

ID_SIZE: Final = 32
_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def id_to_hex(value: bytes) -> str:
    """The 64 lower-case hex digits that name an object."""
    return value.hex()


def id_from_hex(text: str) -> bytes:
    """The 32 bytes behind exactly 64 lower-case hex digits.

    Raises:
        FormatError: anything else, upper case included, so that one object has one name.
    """
    if not _HEX.fullmatch(text):
        raise FormatError(f"not an object id: {text[:80]!r}")
    return bytes.fromhex(text)
