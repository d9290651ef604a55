"""An open vault: read and write its objects, whatever the location.

What lives here: opening, making, and the few object-level verbs the operations are built from. What
may not: deciding what to read or write. Every object that comes in passes ``codec`` or a format
decoder, so that nothing unverified leaves this room.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from chunkvault.crypto.keys import (
    MasterKey,
    Subkeys,
    derive_subkeys,
    keyed_hash,
    new_master_key,
)
from chunkvault.errors import (
    DamagedError,
    FormatError,
    NotAVaultError,
    NotFoundError,
    OversizeError,
    PassphraseError,
    UnsupportedFormatError,
    VaultExistsError,
)
from chunkvault.format.config import (
    ChunkerSettings,
    VaultConfig,
    decode_config,
    encode_config,
    verify_config,
)
from chunkvault.format.frame import MAX_BLOB_SIZE, MAX_SNAPSHOT_FRAME_SIZE
from chunkvault.format.limits import MAX_TEXT_FILE_SIZE
from chunkvault.format.snapshot import Snapshot, decode_snapshot, encode_snapshot
from chunkvault.ids import ChunkId, SnapshotId
from chunkvault.store.base import BlockingStore, Sweepable
from chunkvault.vault import slots
from chunkvault.vault.catalog import Catalog
from chunkvault.vault.codec import BlobCodec
from chunkvault.vault.inventory import Inventory
from chunkvault.vault.known import check_known, remember
from chunkvault.vault.layout import (
    BLOBS,
    CONFIG,
    KEYS,
    LOCK,
    SNAPSHOTS,
    blob_chunk,
    blob_name,
    slot_name,
    snapshot_id,
    snapshot_name,
)
from chunkvault.vault.locks import VaultLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType

    from chunkvault.format.frame import Kind
    from chunkvault.format.slot import KeySlot
    from chunkvault.store.base import Buffer, Store


_T = TypeVar("_T")

_ABANDONED_NS: Final = 24 * 3600 * 10**9
"""No put takes a day; what has not been written to for so long belongs to no living process."""

_LOCK_WAIT_S: Final = 60.0
"""How long to wait for a prune to end."""


@dataclass(frozen=True)
class InitOptions:
    """What a new vault is made with.

    Attributes:
        compression_level: of zstd, 1 to 19.
        chunker: chunk sizes; they cannot be changed later without losing deduplication.
        label: what the first key slot is called.
    """

    compression_level: int = 3
    chunker: ChunkerSettings = field(default_factory=ChunkerSettings)
    label: str = ""


async def init_vault(
    store: Store,
    options: InitOptions,
    *,
    passphrase: str | None,
    clock_ns: Callable[[], int],
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> VaultConfig:
    """Make a vault; encrypted where a passphrase is given.

    The config is written last: until then there is no vault.

    Raises:
        VaultExistsError: the location holds a vault, or anything else.
        StoreError: it cannot be written.
    """
    await _refuse_occupied(store)
    config = VaultConfig(
        vault_id=random_bytes(16),
        created_ns=clock_ns(),
        encrypted=passphrase is not None,
        chunker=options.chunker,
        compression_level=options.compression_level,
    )
    keys: Subkeys | None = None
    if passphrase is not None:
        master = new_master_key(random_bytes)
        keys = derive_subkeys(master)
        slot_id, data = await asyncio.to_thread(
            slots.make_slot,
            master,
            passphrase,
            config.vault_id,
            label=options.label,
            now_ns=clock_ns(),
            random_bytes=random_bytes,
        )
        await slots.put_slot(store, slot_id, data)
    await store.put(CONFIG, encode_config(config, None if keys is None else keys.config))
    await store.barrier()
    return config


async def _refuse_occupied(store: Store) -> None:
    try:
        await store.stat(CONFIG)
    except NotFoundError:
        pass
    else:
        raise VaultExistsError(f"{store.location} already holds a vault; it was left as it is")
    async for page in store.list(""):
        if page:
            raise VaultExistsError(
                f"{store.location} is not empty ({page[0].name}); choose a new or empty folder"
            )


async def open_vault(
    store: Store,
    *,
    passphrase: Callable[[], str] | None,
    cache_dir: Path | None,
    notice: Callable[[str], None] | None = None,
    read_only: bool = False,
) -> Vault:
    """Open the vault at a location.

    Args:
        store: the location.
        passphrase: asked once, and only where the vault is encrypted.
        cache_dir: where the catalog lives; None keeps it in memory.
        notice: hears of what is worth knowing.
        read_only: takes no lock.

    Raises:
        NotAVaultError: there is none.
        UnsupportedFormatError: it was made by a newer version.
        PassphraseError: there is no passphrase, or it opens no slot.
        DamagedError: its config is damaged or was tampered with.
    """
    config, data = await _read_config(store)
    slot_id = ""
    keys: Subkeys | None = None
    master: MasterKey | None = None
    if config.encrypted:
        if passphrase is None:
            raise PassphraseError(f"{store.location} is encrypted: give its passphrase")
        found, _ = await slots.read_slots(store)
        opened, slot_id = await asyncio.to_thread(
            slots.unlock, found, passphrase(), config.vault_id, store.location
        )
        master, keys = opened, derive_subkeys(opened)
        try:
            verify_config(data, keys.config)
        except FormatError as error:
            raise DamagedError(CONFIG, f"{error}; somebody may have changed it") from error
    else:
        await _refuse_disguise(store)
    check_known(cache_dir, store.location, config)
    remember(cache_dir, store.location, config)
    lock = None if read_only else await _share(store, notice)
    mac_key = keys.catalog if keys is not None else keyed_hash(None, config.vault_id)
    path = None if cache_dir is None else cache_dir / config.vault_id.hex() / "catalog.sqlite"
    catalog = Catalog.open(path, mac_key=mac_key, vault_id=config.vault_id)
    return Vault(
        store=store,
        config=config,
        keys=keys,
        master=master,
        slot_id=slot_id,
        catalog=catalog,
        lock=lock,
        cache_dir=cache_dir,
    )


async def _refuse_disguise(store: Store) -> None:
    """A vault that has key slots is encrypted, whatever its config says now.

    Anybody can write a plain config; who put one over an encrypted vault's waits for the next
    backup to come unencrypted.
    """
    good, bad = await slots.read_slots(store)
    if good or bad:
        raise DamagedError(
            CONFIG,
            "it says the vault is not encrypted, but there are key slots; somebody may "
            "have replaced it",
        )


async def _share(store: Store, notice: Callable[[str], None] | None) -> VaultLock | None:
    """Keep exclusive holders out of a local vault for as long as it is open."""
    root = getattr(store, "root", None)
    if not isinstance(root, Path):
        return None
    lock = VaultLock(root / LOCK, warn=notice or (lambda _: None))
    await lock.acquire(shared=True, wait_s=_LOCK_WAIT_S)
    return lock


async def _read_config(store: Store) -> tuple[VaultConfig, bytes]:
    try:
        data = await store.get(CONFIG, limit=MAX_TEXT_FILE_SIZE)
    except NotFoundError as error:
        raise NotAVaultError(
            f"there is no vault at {store.location}: make one with 'chunkvault init'"
        ) from error
    except OversizeError as error:
        raise DamagedError(CONFIG, "it is too large to be one") from error
    try:
        return decode_config(data), data
    except UnsupportedFormatError:
        raise
    except FormatError as error:
        raise DamagedError(CONFIG, str(error)) from error


class Vault:
    """An open vault. Use as an asynchronous context manager, or call ``close``.

    Attributes:
        store: its location.
        config: what it was made with.
        codec: chunk to blob and back.
        catalog: the local index.
        workers: threads for sealing, opening and hashing.
        slot_id: the key slot it was opened with; "" where it is not encrypted.
    """

    def __init__(  # noqa: PLR0913 - built by open_vault alone
        self,
        *,
        store: Store,
        config: VaultConfig,
        keys: Subkeys | None,
        master: MasterKey | None,
        slot_id: str,
        catalog: Catalog,
        lock: VaultLock | None,
        cache_dir: Path | None,
    ) -> None:
        self.store = store
        self.config = config
        self.codec = BlobCodec(keys, level=config.compression_level)
        self.catalog = catalog
        self.workers = ThreadPoolExecutor(os.cpu_count() or 2, thread_name_prefix="seal")
        self.slot_id = slot_id
        self.chunker_seed = keys.chunker_seed if keys is not None else 0
        self._master = master
        self._lock = lock
        self._blocking = store if isinstance(store, BlockingStore) else None
        self._cache_dir = cache_dir

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release everything; may be called twice."""
        self.workers.shutdown(wait=True, cancel_futures=True)
        self.catalog.close()
        if self._lock is not None:
            self._lock.release()
        await self.store.close()

    @property
    def location(self) -> str:
        """Where it lives, for messages."""
        return self.store.location

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """Folders on this machine that are the vault's own, and no part of any backup."""
        root = getattr(self.store, "root", None)
        folders = [root] if isinstance(root, Path) else []
        if self._cache_dir is not None:
            folders.append(self._cache_dir)
        return tuple(folders)

    # Chunks

    async def sweep(self) -> None:
        """Remove what killed processes left in ``incoming/``, once it is a day old."""
        if isinstance(self.store, Sweepable):
            await self.store.sweep_incoming(_ABANDONED_NS)

    async def load_inventory(self) -> Inventory:
        """List all blobs."""
        inventory = Inventory()
        async for page in self.store.list(BLOBS):
            for name, size in page:
                try:
                    inventory.add(blob_chunk(name), size)
                except FormatError:
                    continue  # not one of ours; check names it
        return inventory

    def write_chunk_soon(
        self, kind: Kind, chunk: ChunkId, plaintext: Buffer, loop: asyncio.AbstractEventLoop
    ) -> Future[int]:
        """Begin to seal and store a chunk, from a thread outside the loop.

        Returns:
            A future of its stored bytes.
        """
        blocking = self._blocking
        if blocking is not None:
            # One thread does both: each wake-up of the event loop would cost the reading thread
            # more than the work itself.
            return self.workers.submit(self._write_here, blocking, kind, chunk, plaintext)
        return asyncio.run_coroutine_threadsafe(self.write_chunk(kind, chunk, plaintext), loop)

    def _write_here(
        self, store: BlockingStore, kind: Kind, chunk: ChunkId, plaintext: Buffer
    ) -> int:
        def put(frame: Buffer) -> int:
            store.put_sync(blob_name(chunk), frame)
            return len(frame)

        return self.codec.seal_for(kind, chunk, plaintext, put)

    async def write_chunk(self, kind: Kind, chunk: ChunkId, plaintext: Buffer) -> int:
        """Seal and store a chunk.

        Returns:
            Its stored bytes.
        """
        loop = asyncio.get_running_loop()
        data = await loop.run_in_executor(self.workers, self.codec.seal, kind, chunk, plaintext)
        await self.store.put(blob_name(chunk), data)
        return len(data)

    async def read_chunk(self, kind: Kind, chunk: ChunkId) -> bytes:
        """A chunk's plaintext.

        Raises:
            DamagedError: it is missing, or not what its name promises.
            StoreError: the location failed.
        """
        return await self._opened(chunk, partial(self.codec.open, kind, chunk))

    async def verify_chunk(self, chunk: ChunkId) -> int:
        """Read a blob of whatever kind, open it and hash its plaintext.

        Returns:
            Its stored bytes.

        Raises:
            DamagedError: it is missing, or not what its name promises.
        """
        return await self._opened(chunk, partial(self._verified, chunk))

    def _verified(self, chunk: ChunkId, data: bytes) -> int:
        self.codec.verify(chunk, data)
        return len(data)

    async def _opened(self, chunk: ChunkId, open_: Callable[[bytes], _T]) -> _T:
        """Fetch a blob and open it in a worker; both in one where the store allows it."""
        loop = asyncio.get_running_loop()
        name = blob_name(chunk)
        try:
            if self._blocking is not None:
                return await loop.run_in_executor(
                    self.workers, _open_here, self._blocking, name, open_
                )
            data = await self.store.get(name, limit=MAX_BLOB_SIZE)
            return await loop.run_in_executor(self.workers, open_, data)
        except NotFoundError as error:
            raise DamagedError(name, "it is missing") from error
        except OversizeError as error:
            raise DamagedError(name, "it is larger than any blob can be") from error
        except FormatError as error:
            raise DamagedError(name, str(error)) from error

    # Snapshots

    async def snapshot_ids(self) -> list[SnapshotId]:
        """Ids of all snapshot records, damaged ones too."""
        found: list[SnapshotId] = []
        async for page in self.store.list(SNAPSHOTS):
            for name, _ in page:
                try:
                    found.append(snapshot_id(name))
                except FormatError:
                    continue
        return sorted(found)

    async def read_snapshot(self, snapshot: SnapshotId, *, cached: bool = True) -> Snapshot:
        """A snapshot record.

        Raises:
            DamagedError: it is missing, or not what its name promises.
        """
        name = snapshot_name(snapshot)
        data = self.catalog.snapshot_sealed(snapshot) if cached else None
        if data is not None:
            try:
                return decode_snapshot(self.codec.open_snapshot(snapshot, data))
            except FormatError:
                pass  # the catalog's copy is bad; the vault's may not be
        try:
            data = await self.store.get(name, limit=MAX_SNAPSHOT_FRAME_SIZE)
            record = decode_snapshot(self.codec.open_snapshot(snapshot, data))
        except NotFoundError as error:
            raise DamagedError(name, "it is missing") from error
        except (FormatError, OversizeError) as error:
            raise DamagedError(name, str(error)) from error
        self.catalog.add_snapshot(snapshot, data)
        return record

    async def publish_snapshot(self, record: Snapshot) -> tuple[SnapshotId, bytes]:
        """Make all that was written durable, then the record visible, then durable too.

        Returns:
            Its id, and the record as stored, for the catalog.

        Raises:
            StoreError: something may not be durable; the snapshot is not to be relied on.
        """
        await self.store.barrier()
        snapshot, data = self.codec.seal_snapshot(encode_snapshot(record))
        await self.store.put(snapshot_name(snapshot), data)
        await self.store.barrier()
        return snapshot, data

    async def delete_snapshot(self, snapshot: SnapshotId) -> None:
        """Remove a record; its blobs stay."""
        await self.store.delete(snapshot_name(snapshot))

    async def misplaced(self) -> list[DamagedError]:
        """Objects whose names no part of the vault has; damaged key slots and config among them."""
        found: list[DamagedError] = []
        async for page in self.store.list(""):
            for name, _ in page:
                if not _is_known(name):
                    found.append(DamagedError(name, "no object of a vault has this name"))
        _, bad = await slots.read_slots(self.store)
        return [*found, *bad]

    # Key slots

    async def read_slots(self) -> list[KeySlot]:
        """All slots that can be read."""
        return (await slots.read_slots(self.store))[0]

    async def add_slot(self, passphrase: str, label: str, *, now_ns: int) -> str:
        """Wrap the master key under another passphrase; durable when this returns.

        Returns:
            The slot's id.
        """
        if self._master is None:
            raise PassphraseError("this vault is not encrypted: it has no keys")
        slot_id, data = await asyncio.to_thread(
            slots.make_slot,
            self._master,
            passphrase,
            self.config.vault_id,
            label=label,
            now_ns=now_ns,
            random_bytes=secrets.token_bytes,
        )
        await slots.put_slot(self.store, slot_id, data)
        return slot_id

    async def remove_slot(self, slot_id: str) -> None:
        """Remove a slot; durable when this returns."""
        await self.store.delete(slot_name(slot_id))
        await self.store.barrier()


def _open_here(store: BlockingStore, name: str, open_: Callable[[bytes], _T]) -> _T:
    return open_(store.get_sync(name, limit=MAX_BLOB_SIZE))


def _is_known(name: str) -> bool:
    try:
        if name.startswith(BLOBS):
            blob_chunk(name)
        elif name.startswith(SNAPSHOTS):
            snapshot_id(name)
    except FormatError:
        return False
    return name in {CONFIG, LOCK} or name.startswith((BLOBS, SNAPSHOTS, KEYS, "trash/"))
