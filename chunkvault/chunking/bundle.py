"""Puts small files together into bundles, which are stored like any chunk.

What lives here: where a bundle ends. What may not: which files go into one; the caller chooses.

A bundle ends after a file that its digest chooses, not at a fixed size. So two machines with the
same tree make the same bundles, and a file that comes or goes changes its own bundle, seldom more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chunkvault.chunking.cdc import ChunkerParams
    from chunkvault.ids import ContentDigest


class Bundler:
    """Collects the contents of small files until their bundle is full.

    A bundle of at least ``min_size`` ends after a file with a probability in proportion to the
    file's size, such that bundles are ``avg_size`` on average; and it ends before it could grow
    beyond ``max_size``.

    Args:
        params: sizes of chunks.

    Attributes:
        full: the bundle ends here; ``take`` it before the next ``add``.
        size: bytes in the open bundle.
    """

    def __init__(self, params: ChunkerParams) -> None:
        self._min = params.min_size
        self._max = params.max_size
        # Beyond this the next file, of min_size - 1 at most, might not fit.
        self._fits = params.max_size - params.min_size + 1
        # Of 2**64 digests' beginnings, how many a byte of content makes an end.
        self._odds = (1 << 64) // max(1, params.avg_size - params.min_size)
        self._parts: list[bytes] = []
        self.size = 0
        self.full = False

    def add(self, content: bytes, digest: ContentDigest) -> int:
        """Put a file into the open bundle.

        Args:
            content: below ``min_size`` bytes.
            digest: of the content; its first 8 bytes decide.

        Returns:
            Where in the bundle the content begins.

        Raises:
            ValueError: the bundle was full, or the content is large: it would exceed max_size.
        """
        offset = self.size
        length = len(content)
        size = offset + length
        if size > self._max:
            raise ValueError("a bundle must be taken when it is full, and holds small files only")
        self._parts.append(content)
        self.size = size
        if size >= self._min and (
            size > self._fits or int.from_bytes(digest[:8], "big") < length * self._odds
        ):
            self.full = True
        return offset

    def take(self) -> bytes:
        """End the open bundle and begin another; empty if nothing was added."""
        bundle = b"".join(self._parts)
        self._parts = []
        self.size = 0
        self.full = False
        return bundle
