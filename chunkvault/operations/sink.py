"""Where the reading thread of a backup drops its chunks: deduplicated, sealed and stored behind it.

One thread reads and cuts; this bridges from it to the event loop, where sealing (in worker threads)
and ``Store.put`` run for many chunks at once. The bridge is bounded by bytes, not by chunks, so
that memory does not depend on what is backed up; a reader that is ahead waits in ``add``.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

from chunkvault.errors import ChunkvaultError, DamagedError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from chunkvault.format.frame import Kind
    from chunkvault.ids import ChunkId
    from chunkvault.store.base import Buffer
    from chunkvault.vault.inventory import Inventory
    from chunkvault.vault.vault import Vault

IN_FLIGHT_BYTES: Final = 48 << 20
"""Plaintext handed over and not yet stored; sealed copies come on top of it, one a worker."""


class ChunkSink:
    """Takes chunks from one thread, stores those the vault does not hold.

    Attributes:
        new_chunks: chunks stored.
        new_bytes: their plaintext bytes.
        stored_bytes: their bytes as stored.
    """

    def __init__(
        self,
        vault: Vault,
        inventory: Inventory,
        loop: asyncio.AbstractEventLoop,
        *,
        dry_run: bool = False,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
    ) -> None:
        self._vault = vault
        self._inventory = inventory
        self._loop = loop
        self._dry_run = dry_run
        self._limit = in_flight_bytes
        self._room = threading.Condition()
        self._in_flight = 0
        self._writing: dict[ChunkId, int] = {}
        self._error: BaseException | None = None
        self._sound: set[ChunkId] = set()
        self._stored_sizes: list[tuple[ChunkId, int]] = []
        self.new_chunks = 0
        self.new_bytes = 0
        self.stored_bytes = 0

    def holds(self, chunk: ChunkId, *, published: bool = False) -> bool:
        """Whether the vault has the chunk's blob whole, or will have it once ``settle`` returns.

        A name alone does not prove it. A power cut before the barrier leaves names behind whose
        content never reached the disk. So a blob counts if a snapshot refers to it, which is
        published after the barrier only, or if the catalog noted its size after one; any other is
        read and opened first, and stored anew if it is bad.

        Args:
            chunk: which one.
            published: a snapshot refers to it.
        """
        if chunk in self._writing:
            return True
        size = self._inventory.size_of(chunk)
        if size is None:
            return False
        if chunk in self._sound:
            return True
        noted = self._vault.catalog.chunk_size(chunk)
        if (size == noted or (noted is None and published)) or self._opens(chunk):
            self._sound.add(chunk)
            return True
        self._inventory.discard(chunk)
        return False

    def _opens(self, chunk: ChunkId) -> bool:
        reading = asyncio.run_coroutine_threadsafe(self._vault.verify_chunk(chunk), self._loop)
        try:
            reading.result()
        except DamagedError:
            return False
        return True

    def add(self, kind: Kind, plaintext: Buffer) -> ChunkId:
        """Hand over a chunk; waits while too much is on its way.

        Raises:
            ChunkvaultError: storing this or an earlier chunk failed; nothing more is taken.
        """
        codec = self._vault.codec
        chunk = codec.chunk_id(kind, plaintext)
        if self.holds(chunk):
            return chunk
        size = len(plaintext)
        with self._room:
            while self._in_flight and self._in_flight + size > self._limit and not self._error:
                self._room.wait()
            if self._error is not None:
                raise self._error
            self._in_flight += size
            self._writing[chunk] = size
        self.new_chunks += 1
        self.new_bytes += size
        if self._dry_run:
            self._done(chunk, size, 0)
            return chunk
        future = self._vault.write_chunk_soon(kind, chunk, plaintext, self._loop)
        future.add_done_callback(lambda done: self._stored(chunk, size, done))
        return chunk

    def _stored(self, chunk: ChunkId, size: int, done: Future[int]) -> None:
        """Runs in some thread when a chunk is stored, or is not."""
        error = ChunkvaultError("the run was cancelled") if done.cancelled() else done.exception()
        self._done(chunk, size, 0 if error is not None else done.result(), error)

    def _done(
        self, chunk: ChunkId, size: int, stored: int, error: BaseException | None = None
    ) -> None:
        with self._room:
            if error is None:
                self._inventory.add(chunk, stored)
                self._sound.add(chunk)
                self.stored_bytes += stored
                if not self._dry_run:
                    self._stored_sizes.append((chunk, stored))
            elif self._error is None:
                self._error = error
            del self._writing[chunk]
            self._in_flight -= size
            self._room.notify_all()

    def settle(self) -> None:
        """Wait until all that was handed over is stored; from the reading thread.

        Raises:
            ChunkvaultError: something could not be stored.
        """
        with self._room:
            while self._writing:
                self._room.wait()
            if self._error is not None:
                raise self._error

    def take_stored(self) -> list[tuple[ChunkId, int]]:
        """Chunks stored since the last call, and their stored sizes."""
        taken, self._stored_sizes = self._stored_sizes, []
        return taken
