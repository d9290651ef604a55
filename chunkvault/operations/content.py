"""Brings the content of files out of the vault: many chunks on their way, few in memory.

What lives here: which chunks to fetch when. Where the bytes go is the caller's business.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from chunkvault.errors import ChunkvaultError, DamagedError
from chunkvault.format.frame import Kind
from chunkvault.operations.manifest_reader import read_extents
from chunkvault.vault.layout import blob_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from chunkvault.format.entry import Entry, Extent
    from chunkvault.ids import ChunkId
    from chunkvault.vault.codec import BlobCodec
    from chunkvault.vault.vault import Vault

IN_FLIGHT_BYTES: Final = 48 << 20
_FETCHES: Final = 32


async def stream(vault: Vault, entry: Entry) -> AsyncIterator[bytes | memoryview]:
    """A file's bytes in order, zeros for holes.

    Raises:
        DamagedError: a chunk is missing or damaged; what came before is good.
    """
    ahead: deque[tuple[Extent, asyncio.Task[memoryview] | None]] = deque()
    pending = 0
    try:
        async for extent in read_extents(vault, entry):
            task = None
            if extent.chunk is not None:
                task = asyncio.create_task(fetch_extent(vault, extent))
                pending += extent.length
            ahead.append((extent, task))
            while pending > IN_FLIGHT_BYTES or len(ahead) > _FETCHES:
                first, running = ahead.popleft()
                pending -= first.length if running is not None else 0
                async for data in _delivered(first, running):
                    yield data
        while ahead:
            async for data in _delivered(*ahead.popleft()):
                yield data
    finally:
        for _, running in ahead:
            if running is not None:
                running.cancel()


async def _delivered(
    extent: Extent, task: asyncio.Task[memoryview] | None
) -> AsyncIterator[bytes | memoryview]:
    if task is not None:
        yield await task
        return
    zeros = bytes(min(extent.length, 1 << 20))
    left = extent.length
    while left:
        part = zeros[: min(left, len(zeros))]
        yield part
        left -= len(part)


async def fetch_extent(vault: Vault, extent: Extent) -> memoryview:
    """The bytes of one extent that is no hole.

    Raises:
        DamagedError: the chunk is missing, damaged, or shorter than the extent claims.
    """
    chunk, offset, length = extent
    if chunk is None:
        raise ValueError("a hole has no chunk")
    data = await vault.read_chunk(Kind.DATA, chunk)
    return cut_out(chunk, data, offset, length)


def cut_out(chunk: ChunkId, data: bytes, offset: int, length: int) -> memoryview:
    """The extent's bytes of a chunk.

    Raises:
        DamagedError: the chunk is shorter than the extent claims.
    """
    if offset + length > len(data):
        raise DamagedError(blob_name(chunk), "it is shorter than a file in it claims")
    return memoryview(data)[offset : offset + length]


Content = bytes | bytearray | memoryview | ChunkvaultError
"""What became of one file's content: its bytes, or why they cannot be had."""


class Batch:
    """Small files whose contents are fetched together, each chunk once.

    Attributes:
        entries: the entries in order, other types among them.
        size: bytes of content.
        contents: after ``load``, one for each entry that has content, by its place in ``entries``.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.size = 0
        self.contents: dict[int, Content] = {}
        self._wanted: dict[ChunkId, list[tuple[int, int, int, int]]] = {}

    def add(self, entry: Entry) -> None:
        """Take an entry; its content, if any, has no holes and no extent lists."""
        number = len(self.entries)
        self.entries.append(entry)
        self.size += entry.size
        at = 0
        for chunk, offset, length in entry.extents:
            if chunk is not None:
                self._wanted.setdefault(chunk, []).append((number, at, offset, length))
            at += length

    async def load(
        self, vault: Vault, fetch: Callable[[ChunkId], Awaitable[bytes]], slots: asyncio.Semaphore
    ) -> None:
        """Fetch all contents; a chunk that cannot be had fails the files in it, and no others."""
        loop = asyncio.get_running_loop()

        async def one(chunk: ChunkId, wants: list[tuple[int, int, int, int]]) -> None:
            async with slots:
                try:
                    data = await fetch(chunk)
                except DamagedError as error:
                    for number, *_ in wants:
                        self.contents[number] = error
                    return
                await loop.run_in_executor(
                    vault.workers, self._spread, vault.codec, chunk, data, wants
                )

        await asyncio.gather(*(one(chunk, wants) for chunk, wants in self._wanted.items()))

    def _spread(
        self,
        codec: BlobCodec,
        chunk: ChunkId,
        data: bytes,
        wants: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """Hand each file its part, and hold those with a digest against it."""
        entries, contents = self.entries, self.contents
        view = memoryview(data)
        for number, at, offset, length in wants:
            entry = entries[number]
            if offset + length > len(data):
                contents[number] = DamagedError(
                    blob_name(chunk), "it is shorter than a file claims"
                )
            elif length == entry.size:
                part = view[offset : offset + length]
                if entry.digest is not None and codec.content_digest(part) != entry.digest:
                    contents[number] = DamagedError(
                        blob_name(chunk), "a file in it is not what its digest promises"
                    )
                else:
                    contents[number] = part
            else:
                self._part(number, entry.size, at, view[offset : offset + length])

    def _part(self, number: int, size: int, at: int, part: memoryview) -> None:
        whole = self.contents.setdefault(number, bytearray(size))
        if isinstance(whole, bytearray):
            whole[at : at + len(part)] = part
