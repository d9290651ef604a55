"""What is known of the blobs at one location: ids and sizes, packed, a million in 41 MB.

Pure logic; no I/O. It is filled from listings or from the catalog, and may be out of date.

Ids lie sorted, end to end, in one byte string for each value of their first byte (a shard), their
sizes beside them, and a table of where each value of the second byte begins. What came since lies
in a dict, and moves over when there is much of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from chunkvault.ids import ID_SIZE, ChunkId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SHARDS: Final = 256
_LOOSE: Final = 1 << 15
"""Recent ids that are always put up with, at about 170 bytes each; and a sixteenth of all."""


class _Shard(NamedTuple):
    ids: bytes
    sizes: array[int]
    starts: array[int]
    """For each second byte how many ids come before it, and at last how many there are."""


_EMPTY: Final = _Shard(b"", array("Q"), array("I", bytes(4 * 257)))


class Inventory:
    """Ids of blobs and their sizes in bytes as stored.

    One thread at a time may change it; others may look things up meanwhile.
    """

    __slots__ = ("_gone", "_packed", "_recent", "_shards")

    def __init__(self) -> None:
        self._shards: list[_Shard] = [_EMPTY] * _SHARDS
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
            result._shards[number] = _pack(dict(_rows(ids[number], sizes[number])))
            ids[number].clear()
            del sizes[number][:]
        result._packed = sum(len(shard.sizes) for shard in result._shards)
        return result

    def size_of(self, chunk: ChunkId) -> int | None:
        """The blob's size, None where it is not known to exist; 1 µs."""
        # In this order: packing fills the shards before it drops the dict.
        size = self._recent.get(chunk)
        if size is not None:
            return size
        if self._gone and chunk in self._gone:
            return None
        shard = self._shards[chunk[0]]
        place = _find(shard, chunk)
        return None if place is None else shard.sizes[place]

    def __contains__(self, chunk: ChunkId) -> bool:
        return self.size_of(chunk) is not None

    def __len__(self) -> int:
        return self._packed + len(self._recent) - len(self._gone)

    def add(self, chunk: ChunkId, size: int) -> None:
        """Note a blob that was stored, or its new size."""
        if len(chunk) != ID_SIZE or size < 0:
            raise ValueError("an id is 32 bytes long, and a size no less than 0")
        shard = self._shards[chunk[0]]
        place = _find(shard, chunk)
        if place is None:
            self._recent[chunk] = size
            self._pack_if_due()
        else:
            shard.sizes[place] = size
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
            for chunk, size in _rows(shard.ids, shard.sizes):
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
            rows = dict(_rows(self._shards[number].ids, self._shards[number].sizes))
            for chunk in self._gone.intersection(rows):
                del rows[chunk]
            self._shards[number] = _pack(rows | added)
        self._packed = sum(len(shard.sizes) for shard in self._shards)
        self._recent = {}
        self._gone = set()


def _rows(ids: bytes | bytearray, sizes: array[int]) -> Iterator[tuple[bytes, int]]:
    for number, size in enumerate(sizes):
        yield bytes(ids[number * ID_SIZE : (number + 1) * ID_SIZE]), size


def _pack(rows: dict[bytes, int]) -> _Shard:
    """Pack ids that have their first byte in common."""
    if not rows:
        return _EMPTY
    ordered = sorted(rows)
    first = ordered[0][0]
    starts = array("I", [bisect_left(ordered, bytes((first, second))) for second in range(256)])
    starts.append(len(ordered))
    return _Shard(b"".join(ordered), array("Q", [rows[chunk] for chunk in ordered]), starts)


def _find(shard: _Shard, chunk: bytes) -> int | None:
    """Where in the shard ``chunk`` is, counted in ids.

    Some 15 ids of a million share their first two bytes; memchr and memcmp are through them sooner
    than a search by halves in Python.
    """
    ids, _, starts = shard
    second = chunk[1]
    start, end = starts[second] * ID_SIZE, starts[second + 1] * ID_SIZE
    place = ids.find(chunk, start, end)
    while place % ID_SIZE and place > 0:  # across two ids
        place = ids.find(chunk, place + 1, end)
    return None if place < 0 else place // ID_SIZE
