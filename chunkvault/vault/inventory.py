"""What is known of the blobs at one location: ids and sizes, packed, a million in 45 MB.

Pure logic; no I/O. It is filled from listings or from the catalog, and may be out of date.

Ids lie sorted, end to end, in one byte string for each value of their first byte; sizes beside
them. What came since lies in a dict, and moves over when there is much of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Self

from chunkvault.ids import ID_SIZE, ChunkId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SHARDS: Final = 256
_LOOSE: Final = 1 << 15
"""Recent ids that are always put up with, at about 170 bytes each; and a sixteenth of all."""

_Shard = tuple[bytes, "array[int]"]


class Inventory:
    """Ids of blobs and their sizes in bytes as stored.

    One thread at a time may change it; others may look things up meanwhile.
    """

    __slots__ = ("_gone", "_packed", "_recent", "_shards")

    def __init__(self) -> None:
        self._shards: list[_Shard] = [(b"", array("Q"))] * _SHARDS
        self._packed = 0
        self._recent: dict[bytes, int] = {}
        self._gone: set[bytes] = set()

    @classmethod
    def from_pages(cls, pages: Iterable[Iterable[tuple[bytes, int]]]) -> Self:
        """An inventory of all ids in the pages; of one that comes twice, the last size counts.

        Raises:
            ValueError: an id is not 32 bytes long.
        """
        ids = [bytearray() for _ in range(_SHARDS)]
        sizes = [array("Q") for _ in range(_SHARDS)]
        for page in pages:
            for chunk, size in page:
                if len(chunk) != ID_SIZE:
                    raise ValueError("an id is 32 bytes long")
                ids[chunk[0]] += chunk
                sizes[chunk[0]].append(size)
        result = cls()
        for number in range(_SHARDS):
            result._shards[number] = _pack(dict(_rows((ids[number], sizes[number]))))
            ids[number].clear()
            del sizes[number][:]
        result._packed = sum(len(shard[1]) for shard in result._shards)
        return result

    def size_of(self, chunk: ChunkId) -> int | None:
        """The blob's size, None where it is not known to exist; 2 µs."""
        # In this order: packing fills the shards before it drops the dict.
        size = self._recent.get(chunk)
        if size is not None:
            return size
        if self._gone and chunk in self._gone:
            return None
        ids, sizes = self._shards[chunk[0]]
        place = _find(ids, len(sizes), chunk)
        return None if place is None else sizes[place]

    def __contains__(self, chunk: ChunkId) -> bool:
        return self.size_of(chunk) is not None

    def __len__(self) -> int:
        return self._packed + len(self._recent) - len(self._gone)

    def add(self, chunk: ChunkId, size: int) -> None:
        """Note a blob that was stored, or its new size."""
        if len(chunk) != ID_SIZE or size < 0:
            raise ValueError("an id is 32 bytes long, and a size no less than 0")
        ids, sizes = self._shards[chunk[0]]
        place = _find(ids, len(sizes), chunk)
        if place is None:
            self._recent[chunk] = size
            self._pack_if_due()
        else:
            sizes[place] = size
            self._gone.discard(chunk)

    def discard(self, chunk: ChunkId) -> None:
        """Note that a blob is gone; one that was not known is no error."""
        if self._recent.pop(chunk, None) is None and chunk in self:
            self._gone.add(chunk)
            self._pack_if_due()

    def items(self) -> Iterator[tuple[ChunkId, int]]:
        """All ids and sizes, in no particular order; nothing may change meanwhile."""
        gone = self._gone
        for shard in self._shards:
            for chunk, size in _rows(shard):
                if chunk not in gone:
                    yield ChunkId(chunk), size
        for chunk, size in self._recent.items():
            yield ChunkId(chunk), size

    def _pack_if_due(self) -> None:
        if len(self._recent) + len(self._gone) <= max(_LOOSE, self._packed >> 4):
            return
        recent: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        for chunk, size in self._recent.items():
            recent[chunk[0]][chunk] = size
        for number, added in enumerate(recent):
            rows = dict(_rows(self._shards[number]))
            for chunk in self._gone.intersection(rows):
                del rows[chunk]
            self._shards[number] = _pack(rows | added)
        self._packed = sum(len(shard[1]) for shard in self._shards)
        self._recent = {}
        self._gone = set()


def _rows(shard: tuple[bytes | bytearray, array[int]]) -> Iterator[tuple[bytes, int]]:
    ids, sizes = shard
    for number, size in enumerate(sizes):
        yield bytes(ids[number * ID_SIZE : (number + 1) * ID_SIZE]), size


def _pack(rows: dict[bytes, int]) -> _Shard:
    ordered = sorted(rows)
    return b"".join(ordered), array("Q", [rows[chunk] for chunk in ordered])


def _find(ids: bytes, count: int, chunk: bytes) -> int | None:
    """Where in the sorted ids ``chunk`` is, counted in ids."""

    def at(number: int) -> bytes:
        start = number * ID_SIZE
        return ids[start : start + ID_SIZE]

    place = bisect_left(range(count), chunk, key=at)
    return place if place < count and at(place) == chunk else None
