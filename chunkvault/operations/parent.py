"""The previous snapshot's entries, in step with the walk, so that unchanged files are not read.

What lives here: which entry stood at a path last time, and whether it can be trusted. A partial
snapshot ends where its run was stopped; from there on its own parent's entries continue, so that a
run after an interrupted one re-reads nothing that either of them holds.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from chunkvault.errors import ChunkvaultError
from chunkvault.format.entry import Entry, FileType, order_key
from chunkvault.format.frame import Kind
from chunkvault.format.manifest import decode_manifest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from chunkvault.format.snapshot import ManifestRef, Snapshot
    from chunkvault.ids import ChunkId

FINE_GRAIN_NS: Final = 20_000_000
"""Linux stamps files by its tick, at most 10 ms long; twice that leaves room."""
COARSE_GRAIN_NS: Final = 2_000_000_000
"""FAT counts in two seconds, HFS+ in one."""
_COARSE_STEP_NS: Final = 10_000_000
_FILE: Final = int(FileType.FILE)
_AHEAD: Final = 4
"""Manifest chunks fetched ahead; each is up to a few MB decoded."""


class _Page(NamedTuple):
    """Entries of one manifest chunk.

    Attributes:
        entries: all of them, or those behind where an interrupted run had come to.
        ref: the chunk; None where not all of its entries are here.
        started_ns: start of the run that wrote the snapshot.
    """

    entries: list[Entry]
    ref: ManifestRef | None
    started_ns: int


_NOTHING: Final = _Page([], None, 0)


class ParentEntries:
    """Entries of a chain of snapshots, asked for in rising path order.

    Args:
        chain: the parent first; each next one continues where the one before was stopped.
        read: starts fetching a chunk.
        damaged: hears of manifest chunks that cannot be read; their files are read anew.
    """

    def __init__(
        self,
        chain: list[Snapshot],
        *,
        read: Callable[[Kind, ChunkId], Future[bytes]],
        damaged: Callable[[ChunkvaultError], None],
    ) -> None:
        self._read = read
        self._damaged = damaged
        self._pages = self._chained(chain)
        self._page = next(self._pages, _NOTHING)
        self._next = 0

    @property
    def started_ns(self) -> int:
        """Start of the run that wrote the entry that ``at`` returned last."""
        return self._page.started_ns

    @property
    def place(self) -> tuple[ManifestRef | None, int]:
        """Where that entry stands: its manifest chunk, if known whole, and its number in there."""
        return self._page.ref, self._next - 1

    def at(self, path: bytes) -> Entry | None:
        """The entry that stood at ``path``; each call's path comes after the one before."""
        entries, number = self._page.entries, self._next
        if number < len(entries):
            entry = entries[number]
            if entry.path == path:
                self._next = number + 1
                return entry
        return self._search(path)

    def _search(self, path: bytes) -> Entry | None:
        """Pass over what is gone; at a page's end, turn to the next."""
        key = order_key(path)
        while True:
            entries, number = self._page.entries, self._next
            while number < len(entries) and order_key(entries[number].path) < key:
                number += 1
            if number < len(entries):
                found = entries[number].path == path
                self._next = number + found
                return entries[number] if found else None
            page = next(self._pages, None)
            if page is None:
                self._next = number
                return None
            self._page, self._next = page, 0

    def _chained(self, chain: list[Snapshot]) -> Iterator[_Page]:
        after: bytes | None = None
        for snapshot in chain:
            last = after
            for entries, ref in self._of(snapshot.manifest, after):
                if entries:
                    last = entries[-1].path
                    yield _Page(entries, ref, snapshot.started_ns)
            after = last
            if not snapshot.partial:
                return

    def _of(
        self, refs: tuple[ManifestRef, ...], after: bytes | None
    ) -> Iterator[tuple[list[Entry], ManifestRef | None]]:
        floor = None if after is None else order_key(after)
        wanted = [
            ref
            for number, ref in enumerate(refs)
            if floor is None
            or number + 1 == len(refs)
            or order_key(refs[number + 1].first_path) > floor
        ]
        fetches: deque[tuple[ManifestRef, Future[bytes]]] = deque()
        for number in range(len(wanted) + _AHEAD):
            if number < len(wanted):
                ref = wanted[number]
                fetches.append((ref, self._read(Kind.MANIFEST, ref.chunk)))
            if number >= _AHEAD:
                ref, fetch = fetches.popleft()
                entries = self._decoded(fetch)
                if floor is not None and entries and order_key(entries[0].path) <= floor:
                    yield [e for e in entries if order_key(e.path) > floor], None
                else:
                    yield entries, ref if len(entries) == ref.entries else None

    def _decoded(self, fetch: Future[bytes]) -> list[Entry]:
        try:
            return decode_manifest(fetch.result())
        except ChunkvaultError as error:
            self._damaged(error)
            return []


def unchanged(entry: Entry, status: os.stat_result, started_ns: int) -> bool:
    """Whether a file's status proves that its content is what an earlier entry says.

    Size, mtime, ctime, inode and device are equal, and the times are older than the earlier run's
    start by more than the clock's grain: a file rewritten within one tick of being read looks the
    same, so such a one is never trusted.

    Args:
        entry: of the earlier snapshot.
        status: as found now.
        started_ns: start of the run that wrote the entry.
    """
    changed, modified = status.st_ctime_ns, status.st_mtime_ns
    if (
        changed != entry.ctime_ns
        or modified != entry.mtime_ns
        or (status.st_size != entry.size and entry.type == _FILE)
        or status.st_ino != entry.inode
        or status.st_dev != entry.device
    ):
        return False
    grain = FINE_GRAIN_NS if changed % _COARSE_STEP_NS else COARSE_GRAIN_NS
    limit = started_ns - grain
    return changed < limit and modified < limit
