"""The verb stats: how much there is, how much of it is the same, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chunkvault.errors import DamagedError
from chunkvault.format.entry import FileType
from chunkvault.operations.manifest_reader import read_extents, read_page
from chunkvault.operations.select import list_snapshots

if TYPE_CHECKING:
    from chunkvault.format.snapshot import ManifestRef
    from chunkvault.ids import ChunkId
    from chunkvault.operations.events import Events
    from chunkvault.vault.vault import Vault


@dataclass(frozen=True)
class VaultStats:
    """Sizes of a vault, bytes unless said otherwise.

    Attributes:
        snapshots: how many there are.
        files: regular files, summed over all snapshots.
        logical_size: their content, summed over all snapshots, holes included.
        unique_size: the different content among it, before compression.
        stored_size: all blobs, as they lie there.
        blobs: how many blobs.
        deduplication: logical by unique size.
        compression: unique by stored size.
    """

    snapshots: int
    files: int
    logical_size: int
    unique_size: int
    stored_size: int
    blobs: int

    @property
    def deduplication(self) -> float:
        """How many times the different content is referred to; 1.0 where nothing is shared."""
        return self.logical_size / self.unique_size if self.unique_size else 1.0

    @property
    def compression(self) -> float:
        """Different content by what it takes in the vault, manifests included."""
        return self.unique_size / self.stored_size if self.stored_size else 1.0


async def stats(vault: Vault, *, events: Events) -> VaultStats:
    """Read all manifests and list all blobs; reads no file content.

    Manifest chunks that several snapshots share are read once.
    """
    snapshots = await list_snapshots(vault, events=events)
    inventory = await vault.load_inventory()
    events.progress.phase = "reading manifests"
    tally = _Tally(vault, events)
    for listed in snapshots:
        await tally.add(listed.snapshot.manifest)
    return VaultStats(
        snapshots=len(snapshots),
        files=tally.files,
        logical_size=tally.size,
        unique_size=sum(tally.chunks.values()),
        stored_size=sum(size for _, size in inventory.items()),
        blobs=len(inventory),
    )


class _Tally:
    def __init__(self, vault: Vault, events: Events) -> None:
        self._vault = vault
        self._events = events
        self._known: dict[ChunkId, tuple[int, int]] = {}
        self.chunks: dict[ChunkId, int] = {}
        self.files = self.size = 0

    async def add(self, manifest: tuple[ManifestRef, ...]) -> None:
        """Count one snapshot."""
        for ref in manifest:
            known = self._known.get(ref.chunk)
            if known is None:
                known = self._known[ref.chunk] = await self._read(ref)
            self.files += known[0]
            self.size += known[1]

    async def _read(self, ref: ManifestRef) -> tuple[int, int]:
        files = size = 0
        try:
            for entry in await read_page(self._vault, ref):
                if entry.type != FileType.FILE:
                    continue
                files += 1
                size += entry.size
                async for chunk, offset, length in read_extents(self._vault, entry):
                    if chunk is not None:
                        end = offset + length
                        if end > self.chunks.get(chunk, 0):
                            self.chunks[chunk] = end
        except DamagedError as error:
            self._events.warn("damaged", f"left out of the count: {error}")
        self._events.progress.files += files
        return files, size
