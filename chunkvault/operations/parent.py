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
_AHEAD: Final = 4
"""Manifest chunks fetched ahead; each is up to a few MB decoded."""


class Past(NamedTuple):
    """An entry of an earlier snapshot, and the start of the run that wrote it."""

    entry: Entry
    started_ns: int


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
        self._entries = self._chained(chain)
        self._current = next(self._entries, None)

    def at(self, path: bytes) -> Past | None:
        """The entry that stood at ``path``; each call's path comes after the one before."""
        current = self._current
        if current is None:
            return None
        if current.entry.path != path:
            key = order_key(path)
            while current is not None and order_key(current.entry.path) < key:
                current = next(self._entries, None)
            self._current = current
            if current is None or current.entry.path != path:
                return None
        self._current = next(self._entries, None)
        return current

    def _chained(self, chain: list[Snapshot]) -> Iterator[Past]:
        after: bytes | None = None
        for snapshot in chain:
            last = after
            for entry in self._of(snapshot.manifest, after):
                last = entry.path
                yield Past(entry, snapshot.started_ns)
            after = last
            if not snapshot.partial:
                return

    def _of(self, refs: tuple[ManifestRef, ...], after: bytes | None) -> Iterator[Entry]:
        floor = None if after is None else order_key(after)
        wanted = [
            ref
            for number, ref in enumerate(refs)
            if floor is None
            or number + 1 == len(refs)
            or order_key(refs[number + 1].first_path) > floor
        ]
        fetches: deque[Future[bytes]] = deque()
        for number in range(len(wanted) + _AHEAD):
            if number < len(wanted):
                fetches.append(self._read(Kind.MANIFEST, wanted[number].chunk))
            if number >= _AHEAD:
                for entry in self._decoded(fetches.popleft()):
                    if floor is None or order_key(entry.path) > floor:
                        yield entry

    def _decoded(self, fetch: Future[bytes]) -> list[Entry]:
        try:
            return decode_manifest(fetch.result())
        except ChunkvaultError as error:
            self._damaged(error)
            return []


def unchanged(past: Past, status: os.stat_result) -> bool:
    """Whether a file's status proves that its content is what the earlier entry says.

    Size, mtime, ctime, inode and device are equal, and the times are older than the earlier run's
    start by more than the clock's grain: a file rewritten within one tick of being read looks the
    same, so such a one is never trusted.
    """
    entry = past.entry
    changed = status.st_ctime_ns
    if (
        changed != entry.ctime_ns
        or status.st_mtime_ns != entry.mtime_ns
        or (status.st_size != entry.size and entry.type == FileType.FILE)
        or status.st_ino != entry.inode
        or status.st_dev != entry.device
    ):
        return False
    grain = FINE_GRAIN_NS if changed % _COARSE_STEP_NS else COARSE_GRAIN_NS
    limit = past.started_ns - grain
    return changed < limit and entry.mtime_ns < limit
