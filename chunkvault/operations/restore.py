"""The verb restore: bring a snapshot, or what lies at some paths of it, back to disk.

What lives here: the order of things, and what to do about damage. Each manifest is read and checked
whole before the first write. Then contents are fetched in batches ahead of one writing thread (two
threads creating files in one file system are slower than one); large files are written by many.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chunkvault.errors import (
    ChunkvaultError,
    DamagedError,
    FormatError,
    Interrupted,
    SelectionError,
    TargetError,
)
from chunkvault.format.entry import Entry, FileType
from chunkvault.format.frame import Kind
from chunkvault.fs.metadata import printable
from chunkvault.fs.writer import TreeWriter
from chunkvault.operations.content import IN_FLIGHT_BYTES, Batch, fetch_extent
from chunkvault.operations.manifest_reader import TreeCheck, read_extents, read_manifest
from chunkvault.operations.select import Listed, Selection, find_snapshot

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from chunkvault.format.entry import Extent
    from chunkvault.fs.writer import FileWriter
    from chunkvault.ids import ChunkId, SnapshotId
    from chunkvault.operations.events import Events
    from chunkvault.vault.vault import Vault

_BATCH_BYTES: Final = 16 << 20
_BATCH_ENTRIES: Final = 4096
_LARGE: Final = 4 << 20
"""Files above this are written piece by piece, and never held whole."""
_KEPT_ENTRIES: Final = 60_000
"""Entries kept from the check for the restore; a longer manifest is read twice."""
_FETCHES: Final = 32


@dataclass(frozen=True)
class RestoreOptions:
    """Where to, and how.

    Attributes:
        target: the folder to fill; made where it does not exist.
        owners: give files their owners; None means when running as root.
        dry_run: check and count, write nothing.
    """

    target: Path
    owners: bool | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class RestoreResult:
    """What was restored.

    Attributes:
        snapshots: one for each selection.
        files: regular files written.
        directories: folders written.
        others: links and nodes written.
        size: bytes of content written.
        failed: entries that could not be restored, each warned of.
        seconds: how long it took.
    """

    snapshots: tuple[SnapshotId, ...]
    files: int
    directories: int
    others: int
    size: int
    failed: int
    seconds: float


async def restore(
    vault: Vault,
    selections: Sequence[Selection],
    options: RestoreOptions,
    *,
    hostname: str | None,
    events: Events,
    stop: threading.Event,
) -> RestoreResult:
    """Restore each selection into the target.

    A selected folder's contents fill the target; a selected file keeps its name; a whole snapshot
    reappears with its absolute paths below the target. Entries that cannot be restored are warned
    of and the rest goes on.

    Raises:
        SelectionError: a snapshot or path that does not exist; nothing was written.
        DamagedError: a manifest that breaks the format's rules; nothing was written.
        Interrupted: ``stop`` was set; what was written is complete.
    """
    begun = time.monotonic()
    events.progress.phase = "reading the manifest"
    chosen: list[tuple[Listed, Selection]] = []
    for selection in selections:
        listed = await find_snapshot(
            vault, selection.snapshot, hostname=hostname, events=events, path=selection.path
        )
        chosen.append((listed, selection))
    parts = [_Part(vault, listed, selection.path, events) for listed, selection in chosen]
    for part in parts:
        await part.check()
    events.progress.phase = "restoring"
    for part in parts:
        await part.run(options, stop)
    return RestoreResult(
        snapshots=tuple(listed.id for listed, _ in chosen),
        files=sum(part.files for part in parts),
        directories=sum(part.directories for part in parts),
        others=sum(part.others for part in parts),
        size=sum(part.size for part in parts),
        failed=sum(part.failed for part in parts),
        seconds=time.monotonic() - begun,
    )


class _Part:
    """One selection: checked whole, then written."""

    def __init__(self, vault: Vault, listed: Listed, path: bytes | None, events: Events) -> None:
        self._vault = vault
        self._listed = listed
        self._path = path
        self._events = events
        self._pages: list[list[Entry]] | None = []
        self._skip = 0
        self._linked: dict[tuple[object, ...], bytes] = {}
        self._lost: set[bytes] = set()
        self.files = self.directories = self.others = self.size = self.failed = 0

    # Before the first write

    async def check(self) -> None:
        """Read the manifest through once: rules, totals, and whether the path matches anything."""
        tree = TreeCheck(self._path)
        snapshot = self._listed.snapshot
        progress = self._events.progress
        first: Entry | None = None
        entries = size = 0
        async for page in read_manifest(
            self._vault, snapshot, self._path, damaged=self._manifest_damaged
        ):
            if not page:
                continue
            if self.failed == 0:  # behind a lost manifest chunk, folders may be missing
                try:
                    tree.page(page)
                except FormatError as error:
                    raise DamagedError(f"snapshot {self._listed.short}", str(error)) from error
            first = first or page[0]
            entries += len(page)
            size += sum(entry.size for entry in page)
            if self._pages is not None:
                self._pages.append(page)
                if entries > _KEPT_ENTRIES:
                    self._pages = None
        if first is None and self.failed == 0 and self._path is not None:
            raise SelectionError(
                f"snapshot {self._listed.short} holds no /{printable(self._path)}: "
                f"see 'chunkvault ls {self._listed.short}'"
            )
        if self._path is not None and first is not None:
            directory = first.path != self._path or first.type == FileType.DIRECTORY
            name_at = self._path.rfind(b"/") + 1
            self._skip = len(self._path) + 1 if directory else name_at
        progress.total_files = (progress.total_files or 0) + entries
        progress.total_size = (progress.total_size or 0) + size

    def _manifest_damaged(self, error: DamagedError) -> None:
        self.failed += 1
        self._events.warn(
            "damaged", f"part of the manifest of {self._listed.short} cannot be read: {error}"
        )

    async def _manifest(self) -> AsyncIterator[list[Entry]]:
        if self._pages is not None:
            for page in self._pages:
                yield page
            return
        async for page in read_manifest(
            self._vault, self._listed.snapshot, self._path, damaged=lambda _: None
        ):
            yield page

    # Writing

    async def run(self, options: RestoreOptions, stop: threading.Event) -> None:
        """Write all entries."""
        if options.dry_run:
            async for page in self._manifest():
                for entry in page:
                    self._count(entry)
            return
        owners = os.geteuid() == 0 if options.owners is None else options.owners
        writer = await asyncio.to_thread(
            TreeWriter, options.target, owners=owners, report=self._not_applied
        )
        slots = asyncio.Semaphore(_FETCHES)
        loading: asyncio.Queue[tuple[Batch | Entry, asyncio.Task[None] | None] | None]
        loading = asyncio.Queue(maxsize=2)
        feeder = asyncio.create_task(self._feed(loading, slots))
        try:
            while (work := await loading.get()) is not None:
                if stop.is_set():
                    break
                item, task = work
                if task is not None:
                    await task
                if isinstance(item, Batch):
                    await asyncio.to_thread(self._write_batch, writer, item, stop)
                else:
                    await self._write_large(writer, item, stop)
            if not stop.is_set():
                await feeder
        finally:
            await _end(feeder, loading)
            await asyncio.to_thread(writer.finish)
        if stop.is_set():
            raise Interrupted("restore was stopped; run it again to complete it")

    async def _feed(
        self,
        loading: asyncio.Queue[tuple[Batch | Entry, asyncio.Task[None] | None] | None],
        slots: asyncio.Semaphore,
    ) -> None:
        """Group entries into batches and start fetching them, two ahead of the writer."""

        async def fetch(chunk: ChunkId) -> bytes:
            return await self._vault.read_chunk(Kind.DATA, chunk)

        async def start(batch: Batch) -> None:
            if batch.entries:
                task = asyncio.create_task(batch.load(self._vault, fetch, slots))
                await loading.put((batch, task))

        batch = Batch()
        try:
            async for page in self._manifest():
                for entry in page:
                    if _is_large(entry):
                        await start(batch)
                        batch = Batch()
                        await loading.put((entry, None))
                        continue
                    batch.add(entry)
                    if batch.size >= _BATCH_BYTES or len(batch.entries) >= _BATCH_ENTRIES:
                        await start(batch)
                        batch = Batch()
            await start(batch)
        finally:
            await loading.put(None)

    def _write_batch(self, writer: TreeWriter, batch: Batch, stop: threading.Event) -> None:
        contents, skip, lost = batch.contents, self._skip, self._lost
        for number, entry in enumerate(batch.entries):
            if stop.is_set():
                return
            path = entry.path[skip:]
            if lost and self._below_lost(entry.path):
                continue
            try:
                if entry.type == FileType.FILE:
                    self._write_file(writer, path, entry, contents.pop(number, b""))
                else:
                    self._write_other(writer, path, entry)
            except ChunkvaultError as error:
                self._fail(entry, error)
            else:
                self._count(entry)

    def _write_file(self, writer: TreeWriter, path: bytes, entry: Entry, content: object) -> None:
        if isinstance(content, ChunkvaultError):
            raise content
        if entry.links > 1 and self._link(writer, path, entry):
            return
        if not isinstance(content, bytes | bytearray | memoryview) or len(content) != entry.size:
            raise DamagedError(f"content of {printable(entry.path)}", "its size is wrong")
        writer.file(path, entry, content)

    def _link(self, writer: TreeWriter, path: bytes, entry: Entry) -> bool:
        """Make a hard link where another name of the same file was restored before."""
        # Inode numbers alone do not prove it: one may have been reused while the backup ran.
        identity = (
            entry.device,
            entry.inode,
            entry.type,
            entry.size,
            entry.mtime_ns,
            entry.extents,
            entry.extent_lists,
            entry.target,
            entry.rdev,
        )
        first = self._linked.get(identity)
        if first is None:
            self._linked[identity] = path
            return False
        writer.hard_link(path, entry, first)
        return True

    def _write_other(self, writer: TreeWriter, path: bytes, entry: Entry) -> None:
        if entry.type == FileType.DIRECTORY:
            writer.directory(path, entry)
        elif entry.links > 1 and self._link(writer, path, entry):
            return
        elif entry.type == FileType.SYMLINK:
            writer.symlink(path, entry)
        else:
            writer.node(path, entry)

    async def _write_large(self, writer: TreeWriter, entry: Entry, stop: threading.Event) -> None:
        path = entry.path[self._skip :]
        if self._lost and self._below_lost(entry.path):
            return
        try:
            if entry.links > 1 and await asyncio.to_thread(self._link, writer, path, entry):
                self._count(entry)
                return
            file = await asyncio.to_thread(writer.open_file, path, entry)
            try:
                await self._fill(file, entry, stop)
            except BaseException:
                await asyncio.to_thread(file.abort)
                raise
            await asyncio.to_thread(file.commit)
        except ChunkvaultError as error:
            self._fail(entry, error)
        else:
            self._count(entry, counted=True)

    async def _fill(self, file: FileWriter, entry: Entry, stop: threading.Event) -> None:
        """Write the pieces of a large file as they arrive, in any order."""
        loop = asyncio.get_running_loop()
        progress = self._events.progress
        running: set[asyncio.Task[None]] = set()
        pending = position = 0

        async def piece(extent: Extent, at: int) -> None:
            data = await fetch_extent(self._vault, extent)
            await loop.run_in_executor(self._vault.workers, file.write_at, at, data)
            progress.size += len(data)

        try:
            async for extent in read_extents(self._vault, entry):
                if extent.chunk is not None:
                    while running and pending + extent.length > IN_FLIGHT_BYTES:
                        done, running = await asyncio.wait(
                            running, return_when=asyncio.FIRST_COMPLETED
                        )
                        pending = 0 if not running else pending - sum(_finished(t) for t in done)
                    task = asyncio.create_task(piece(extent, position), name=str(extent.length))
                    running.add(task)
                    pending += extent.length
                position += extent.length
                if stop.is_set():
                    raise Interrupted("restore was stopped")
            for task in running:
                await task
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    # Keeping count

    def _count(self, entry: Entry, *, counted: bool = False) -> None:
        progress = self._events.progress
        progress.files += 1
        if entry.type == FileType.FILE:
            self.files += 1
            self.size += entry.size
            if not counted:
                progress.size += entry.size
        elif entry.type == FileType.DIRECTORY:
            self.directories += 1
        else:
            self.others += 1

    def _fail(self, entry: Entry, error: ChunkvaultError) -> None:
        self.failed += 1
        kind = "damaged" if isinstance(error, DamagedError) else "target"
        if isinstance(error, Interrupted):
            return
        if entry.type == FileType.DIRECTORY:
            self._lost.add(entry.path)
        elif entry.links > 1:  # nothing may be linked to what is not there
            path = entry.path[self._skip :]
            self._linked = {key: at for key, at in self._linked.items() if at != path}
        why = str(error)
        if not isinstance(error, TargetError):
            why = f"{printable(entry.path)} is not restored: {why}"
        self._events.warn(kind, why, entry.path)

    def _below_lost(self, path: bytes) -> bool:
        """Whether a folder above could not be made; its contents are counted, not tried."""
        above = path.rpartition(b"/")[0]
        while above:
            if above in self._lost:
                self.failed += 1
                self._events.warn(
                    "target", f"{printable(path)} is not restored: its folder is missing", path
                )
                return True
            above = above.rpartition(b"/")[0]
        return False

    def _not_applied(self, kind: str, path: bytes, error: OSError) -> None:
        why = error.strerror or str(error)
        self._events.warn(kind, f"{printable(path)}: {kind} not restored: {why}", path)


def _is_large(entry: Entry) -> bool:
    return bool(
        entry.size > _LARGE
        or entry.extent_lists
        or (entry.extents and any(extent.chunk is None for extent in entry.extents))
    )


def _finished(task: asyncio.Task[None]) -> int:
    task.result()  # raises what the piece raised
    return int(task.get_name())


async def _end(
    feeder: asyncio.Task[None],
    loading: asyncio.Queue[tuple[Batch | Entry, asyncio.Task[None] | None] | None],
) -> None:
    """Stop fetching, whatever state it is in."""
    feeder.cancel()
    while not feeder.done():
        while not loading.empty():
            work = loading.get_nowait()
            if work is not None and work[1] is not None:
                work[1].cancel()
        await asyncio.sleep(0)
    await asyncio.gather(feeder, return_exceptions=True)
