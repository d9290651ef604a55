"""Which small files the vault already holds, by their content.

A moved, copied or renamed file is found here and keeps the extent it has. What this says is a hint:
the caller still asks whether the chunk is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chunkvault.format.entry import Entry, Extent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chunkvault.ids import ContentDigest
    from chunkvault.vault.catalog import Catalog

_FLUSH_AT: Final = 65_536
"""Digests kept in memory before they go to the catalog; about 20 MB."""


class DigestIndex:
    """Digests of this run in memory, those of earlier runs in the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._recent: dict[ContentDigest, Extent] = {}
        # Asking SQLite costs 4 µs a file; a first backup has nothing to ask for.
        self._ask = not catalog.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known at all."""
        return not self._ask and not self._recent

    def find(self, digest: ContentDigest) -> Extent | None:
        """Where a file of this content lies, as far as is known."""
        known = self._recent.get(digest)
        if known is None and self._ask:
            return self._catalog.find_digest(digest)
        return known

    def add(self, found: dict[ContentDigest, Extent]) -> None:
        """Remember files that were just bundled."""
        self._recent.update(found)
        if len(self._recent) >= _FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Hand what this run found to the catalog."""
        if self._recent:
            self._catalog.add_digests(self._recent.items())
            self._recent.clear()
            self._ask = True

    def refill(self, entries: Iterable[Entry]) -> None:
        """Learn the digests that manifests hold; what a lost catalog is rebuilt from."""
        for entry in entries:
            if entry.digest is not None and len(entry.extents) == 1:
                self.add({entry.digest: entry.extents[0]})
