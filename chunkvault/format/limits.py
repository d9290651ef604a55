"""How large things may be; every decoder believes a size only after holding it against these.

What lives here: numbers of the format, as docs/format.md lists them. What may not: how one program
is tuned.
"""

from __future__ import annotations

from typing import Final

FORMAT_VERSION: Final = 1
"""The one version of frames, records, config and slots that this program writes and reads."""

MAX_CHUNK_SIZE: Final = 8 << 20
"""Plaintext bytes of a data chunk."""
MAX_MANIFEST_SIZE: Final = 8 << 20
"""Plaintext bytes of a manifest chunk."""
MAX_EXTENTS_SIZE: Final = 1 << 20
"""Plaintext bytes of a chunk that holds a list of extents."""
MAX_SNAPSHOT_SIZE: Final = 16 << 20
"""Plaintext bytes of a snapshot record."""
MAX_TEXT_FILE_SIZE: Final = 64 << 10
"""Stored bytes of the config or of one key slot."""

MAX_ENTRY_SIZE: Final = 4 << 20
"""Encoded bytes of one manifest entry; what can grow so large is its extended attributes."""
MAX_PATH_SIZE: Final = 1 << 20
"""Bytes of a path; trees deeper than PATH_MAX exist."""
MAX_TARGET_SIZE: Final = 65_535
"""Bytes of a symlink's target."""
MAX_XATTR_NAME_SIZE: Final = 255
"""Bytes of an extended attribute's name."""
MAX_XATTRS: Final = 2048
"""Extended attributes of one entry."""

MAX_EXTENTS_INLINE: Final = 1024
"""Extents inside a manifest entry; a file of more keeps them in chunks of their own."""
MAX_EXTENTS_PER_LIST: Final = 4096
"""Extents in one such chunk."""
MAX_EXTENT_LISTS: Final = 65_536
"""Such chunks for one file."""

MAX_FILE_SIZE: Final = (1 << 63) - 1
"""Bytes of a file, and of a hole in it."""
MAX_ID_NUMBER: Final = (1 << 32) - 1
"""User and group ids, link counts."""

MAX_LABEL_CHARACTERS: Final = 200
"""Characters of a key slot's label."""
