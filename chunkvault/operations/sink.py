"""Where the reading thread of a backup drops its chunks: deduplicated, sealed and stored behind it.

One thread reads and cuts; this bridges from it to the event loop, where sealing (in worker threads)
and ``Store.put`` run for many chunks at once. The bridge is bounded by bytes, not by chunks, so
that memory does not depend on what is backed up; a reader that is ahead waits in ``add``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from chunkvault.errors import ChunkvaultError

if TYPE_CHECKING:
    import asyncio
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
        self._stored_sizes: list[tuple[ChunkId, int]] = []
        self.new_chunks = 0
        self.new_bytes = 0
        self.stored_bytes = 0

    def holds(self, chunk: ChunkId) -> bool:
        """Whether the vault has the chunk's blob, or will have it once ``settle`` returns."""
        return chunk in self._writing or chunk in self._inventory

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
