"""The verb backup: make one snapshot of some sources.

What lives here: how a run is put together, checkpointed, stopped and published. The reading of
files is the archiver's. Order is what keeps snapshots whole: all blobs, then a durability barrier,
then
the snapshot record.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from chunkvault import __version__
from chunkvault.chunking.bundle import Bundler
from chunkvault.chunking.cdc import Chunker, ChunkerParams
from chunkvault.errors import ChunkvaultError, SourceError, UsageError
from chunkvault.format.frame import Kind
from chunkvault.format.manifest import decode_manifest
from chunkvault.format.snapshot import Snapshot, Totals
from chunkvault.fs.exclude import compile_excludes
from chunkvault.fs.metadata import OwnerNames, printable
from chunkvault.fs.scan import Scanner, relative
from chunkvault.operations.archiver import Archiver
from chunkvault.operations.digests import DigestIndex
from chunkvault.operations.manifest_writer import ManifestWriter
from chunkvault.operations.parent import ParentEntries
from chunkvault.operations.select import Listed, list_snapshots
from chunkvault.operations.sink import ChunkSink

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from chunkvault.format.entry import Entry
    from chunkvault.ids import ChunkId, SnapshotId
    from chunkvault.operations.events import Events
    from chunkvault.vault.vault import Vault


@dataclass(frozen=True)
class BackupOptions:
    """What to back up, and how.

    Attributes:
        sources: absolute paths.
        hostname: recorded, and used to find the parent.
        username: recorded.
        tags: recorded.
        excludes: gitignore patterns, each relative to the source it is met in.
        one_file_system: stay on each source's own device.
        dry_run: read and cut all of it, store nothing.
        stdin_name: the name under which a stream is stored; then there are no sources.
        checkpoint_seconds: how often a long run publishes what it has as a partial snapshot.
    """

    sources: tuple[bytes, ...]
    hostname: str
    username: str
    tags: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    one_file_system: bool = False
    dry_run: bool = False
    stdin_name: str | None = None
    checkpoint_seconds: float = 300

    def __post_init__(self) -> None:
        if bool(self.sources) == (self.stdin_name is not None):
            raise UsageError("name at least one source to back up, or use --stdin")
        if self.stdin_name is not None and not _is_plain_name(self.stdin_name):
            raise UsageError(f"--stdin-name {self.stdin_name!r} is no file name")
        for source in self.sources:
            if not source.startswith(b"/"):
                raise UsageError(f"source {printable(source)} is not an absolute path")

    @property
    def roots(self) -> tuple[bytes, ...]:
        """The absolute paths that a snapshot of this run covers, sorted."""
        if self.stdin_name is not None:
            return (b"/" + os.fsencode(self.stdin_name),)
        return tuple(sorted({b"/" + relative(source) for source in self.sources}))


def _is_plain_name(name: str) -> bool:
    return bool(name) and name not in {".", ".."} and "/" not in name and "\0" not in name


@dataclass(frozen=True)
class BackupResult:
    """What a run made.

    Attributes:
        snapshot: the new snapshot's id; None where nothing was saved (a dry run, or a run that was
            stopped before the first entry was complete).
        partial: the run was stopped, and the snapshot ends where it was.
        parent: the snapshot it was compared with.
        totals: what was seen and stored.
        seconds: how long it took.
    """

    snapshot: SnapshotId | None
    partial: bool
    parent: SnapshotId | None
    totals: Totals
    seconds: float


async def backup(
    vault: Vault,
    options: BackupOptions,
    *,
    events: Events,
    clock_ns: Callable[[], int],
    stop: threading.Event,
    stdin: BinaryIO | None = None,
) -> BackupResult:
    """Make a snapshot of the sources.

    Files that cannot be read are warned of, by name, and left out; the rest is stored. When
    ``stop`` is set, what is complete is published as a partial snapshot.

    Raises:
        SourceError: none of the sources exists, or the stream cannot be read.
        StoreError: the vault cannot be written; no snapshot was made, a rerun resumes.
    """
    run = _Run(vault, options, events=events, clock_ns=clock_ns, stop=stop)
    return await run.execute(stdin)


class _Run:
    """One backup, from choosing a parent to publishing the snapshot."""

    def __init__(
        self,
        vault: Vault,
        options: BackupOptions,
        *,
        events: Events,
        clock_ns: Callable[[], int],
        stop: threading.Event,
    ) -> None:
        self._vault = vault
        self._options = options
        self._events = events
        self._clock_ns = clock_ns
        self._stop = stop
        self._begun = time.monotonic()
        self._checkpointed = self._begun
        self._checkpoints: list[SnapshotId] = []
        self._missing = 0
        self._names = OwnerNames()
        self._loop = asyncio.get_running_loop()

    async def execute(self, stdin: BinaryIO | None) -> BackupResult:
        self._started_ns = self._clock_ns()
        self._events.progress.phase = "reading"
        snapshots = await list_snapshots(self._vault, events=self._events)
        chain = self._chain(snapshots)
        self._parent = chain[0].id if chain else None
        await self._vault.sweep()
        inventory = await self._vault.load_inventory()
        self._sink = ChunkSink(self._vault, inventory, self._loop, dry_run=self._options.dry_run)
        try:
            finished = await asyncio.to_thread(self._archive, chain, snapshots, stdin)
        finally:
            await asyncio.to_thread(self._quiesce)
        snapshot = None
        if not self._options.dry_run and (finished or self._writer.refs):
            self._events.progress.phase = "publishing"
            # Hints may be noted while the disk is waited for; what is durable only after that.
            noting = asyncio.create_task(asyncio.to_thread(self._digests.flush))
            try:
                snapshot, record = await self._vault.publish_snapshot(
                    self._record(partial=not finished)
                )
            finally:
                await noting
            self._vault.catalog.add_snapshot(snapshot, record)
            self._vault.catalog.add_chunks(self._sink.take_stored())
            await self._drop_checkpoints()
        return BackupResult(
            snapshot, not finished, self._parent, self._totals(), time.monotonic() - self._begun
        )

    def _quiesce(self) -> None:
        """Let what is on its way land, so that nothing is written after the run has ended."""
        try:
            self._sink.settle()
        except ChunkvaultError:
            if not self._stop.is_set():
                raise

    # Choosing what to compare with

    def _chain(self, snapshots: list[Listed]) -> list[Listed]:
        """What to compare with: the newest snapshot, behind a partial one its own parent."""
        if self._options.stdin_name is not None:
            return []
        mine = [
            listed
            for listed in snapshots
            if listed.snapshot.hostname == self._options.hostname
            and tuple(sorted(listed.snapshot.roots)) == self._options.roots
        ]
        past = [listed for listed in mine if listed.snapshot.started_ns <= self._started_ns]
        by_id = {listed.id: listed for listed in snapshots}
        chain: list[Listed] = []
        candidates = past or mine
        current = candidates[-1] if candidates else None
        while current is not None and current not in chain:
            chain.append(current)
            behind = current.snapshot.parent if current.snapshot.partial else None
            current = by_id.get(behind) if behind is not None else None
        return chain

    # The reading thread

    def _archive(
        self, chain: list[Listed], snapshots: list[Listed], stdin: BinaryIO | None
    ) -> bool:
        settings = self._vault.config.chunker
        params = ChunkerParams(settings.min_size, settings.avg_size, settings.max_size)
        digests = DigestIndex(self._vault.catalog)
        if digests.is_empty and snapshots:
            digests.refill(self._known_entries(chain or snapshots[-1:]))
        self._digests = digests
        self._writer = ManifestWriter(
            self._sink,
            Bundler(params),
            self._names,
            bundled=digests.add,
            refused=self._refused,
        )
        self._archiver = Archiver(
            parent=ParentEntries(
                [listed.snapshot for listed in chain], read=self._read, damaged=self._damaged
            ),
            manifest=self._writer,
            sink=self._sink,
            codec=self._vault.codec,
            chunker=Chunker(params, self._vault.chunker_seed),
            small_below=params.min_size,
            digests=digests,
            events=self._events,
            read_extents=lambda chunk: self._read(Kind.EXTENTS, chunk).result(),
            stopped=self._stop.is_set,
            between=self._checkpoint_if_due,
        )
        if self._options.stdin_name is not None:
            finished = self._archive_stream(stdin)
        else:
            finished = self._archiver.run(self._scanner())
            if self._missing and self._missing == len(self._options.sources):
                raise SourceError("none of the sources can be read; nothing was saved")
        self._writer.end_chunk()
        self._sink.settle()
        return finished

    def _archive_stream(self, stdin: BinaryIO | None) -> bool:
        if stdin is None:
            raise SourceError("there is no standard input to read")
        path = os.fsencode(self._options.stdin_name or "")
        try:
            self._archiver.stream(path, stdin, self._started_ns)
        except OSError as error:
            raise SourceError(f"standard input cannot be read: {error.strerror}") from error
        if self._stop.is_set():
            self._writer.discard()
            return False
        return True

    def _scanner(self) -> Scanner:
        options = self._options
        own = set()
        for folder in self._vault.own_folders:
            try:
                status = folder.stat()
            except OSError:
                continue
            own.add((status.st_dev, status.st_ino))
        return Scanner(
            options.sources,
            report=self._scan_problem,
            excluded=compile_excludes(options.excludes),
            one_file_system=options.one_file_system,
            own=frozenset(own),
        )

    def _scan_problem(self, kind: str, path: bytes, error: OSError | None) -> None:
        name = printable(b"/" + path)
        why = error.strerror if error is not None else "it was moved meanwhile"
        if kind == "own-vault":
            self._events.note(kind, f"{name} belongs to the vault itself and is left out", path)
        elif kind == "other-device":
            self._events.note(kind, f"{name} is another file system and is left out", path)
        elif kind == "vanished":
            self._events.note(kind, f"{name} vanished before it was read", path)
        elif kind == "missing":
            self._missing += 1
            self._events.warn(kind, f"source {name} cannot be read: {why}", path)
        else:
            self._archiver.counts.skipped += 1
            self._events.warn(
                "unreadable", f"{name} cannot be read: {why}; it is not in this snapshot", path
            )

    def _read(self, kind: Kind, chunk: ChunkId) -> Future[bytes]:
        return asyncio.run_coroutine_threadsafe(self._vault.read_chunk(kind, chunk), self._loop)

    def _damaged(self, error: ChunkvaultError) -> None:
        self._events.note(
            "parent",
            f"part of the previous snapshot cannot be read, its files are read anew: {error}",
        )

    def _known_entries(self, listed: list[Listed]) -> Iterator[Entry]:
        for one in listed:
            for ref in one.snapshot.manifest:
                try:
                    yield from decode_manifest(self._read(Kind.MANIFEST, ref.chunk).result())
                except ChunkvaultError:  # a damaged manifest only costs some deduplication here
                    continue

    # Publishing

    def _checkpoint_if_due(self) -> None:
        now = time.monotonic()
        if now - self._checkpointed < self._options.checkpoint_seconds or self._options.dry_run:
            return
        self._checkpointed = now
        self._writer.end_chunk()
        self._sink.settle()
        if self._writer.refs and self._options.stdin_name is None:
            publishing = asyncio.run_coroutine_threadsafe(
                self._vault.publish_snapshot(self._record(partial=True)), self._loop
            )
            earlier, self._checkpoints = self._checkpoints, [publishing.result()[0]]
            self._vault.catalog.add_chunks(self._sink.take_stored())
            asyncio.run_coroutine_threadsafe(self._drop(earlier), self._loop).result()

    def _refused(self, path: bytes, error: ChunkvaultError) -> None:
        self._archiver.counts.skipped += 1
        self._events.warn("refused", f"{error}; it is not in this snapshot", path)

    def _record(self, *, partial: bool) -> Snapshot:
        options = self._options
        return Snapshot(
            started_ns=self._started_ns,
            finished_ns=self._clock_ns(),
            hostname=options.hostname,
            username=options.username,
            roots=options.roots,
            tags=options.tags,
            program=f"chunkvault {__version__}",
            parent=self._parent,
            partial=partial,
            manifest=tuple(self._writer.refs),
            users=dict(self._names.users),
            groups=dict(self._names.groups),
            totals=self._totals(),
            excludes=options.excludes,
        )

    async def _drop_checkpoints(self) -> None:
        earlier, self._checkpoints = self._checkpoints, []
        await self._drop(earlier)

    async def _drop(self, checkpoints: list[SnapshotId]) -> None:
        for checkpoint in checkpoints:
            await self._vault.delete_snapshot(checkpoint)

    def _totals(self) -> Totals:
        counts, sink = self._archiver.counts, self._sink
        return Totals(
            files=counts.files,
            directories=counts.directories,
            others=counts.others,
            size=counts.size,
            added_files=counts.added,
            changed_files=counts.changed,
            unchanged_files=counts.unchanged,
            read_bytes=counts.read,
            new_chunks=sink.new_chunks,
            new_bytes=sink.new_bytes,
            stored_bytes=sink.stored_bytes,
            skipped=counts.skipped,
        )
