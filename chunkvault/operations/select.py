"""Which snapshot, and what of it: from a person's words to a record.

What lives here: ``latest``, id prefixes, ``SNAPSHOT:PATH``. What may not: reading manifests.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from chunkvault.errors import ChunkvaultError, SelectionError
from chunkvault.format.snapshot import Snapshot
from chunkvault.fs.metadata import printable
from chunkvault.ids import SnapshotId, id_to_hex
from chunkvault.vault.layout import snapshot_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chunkvault.operations.events import Events
    from chunkvault.vault.vault import Vault

LATEST: Final = "latest"
_PREFIX: Final = re.compile(r"[0-9a-f]{4,64}", re.ASCII)
_READS: Final = 32


@dataclass(frozen=True)
class Listed:
    """A snapshot and its id."""

    id: SnapshotId
    snapshot: Snapshot

    @property
    def short(self) -> str:
        """The first digits of the id, as people pass them around."""
        return id_to_hex(self.id)[:8]

    @property
    def when(self) -> str:
        """When the run began, in UTC."""
        started = datetime.fromtimestamp(self.snapshot.started_ns // 1_000_000_000, UTC)
        return f"{started:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class Selection:
    """A snapshot, and a path inside it.

    Attributes:
        snapshot: ``latest`` or the first digits of an id.
        path: below the root folder, without slashes at its ends; None for all of the snapshot.
    """

    snapshot: str
    path: bytes | None


def parse_selection(text: str | bytes) -> Selection:
    """``SNAPSHOT`` or ``SNAPSHOT:PATH``; the path is taken literally, whatever characters it holds.

    Raises:
        SelectionError: no snapshot named, or a path with ``.`` or ``..`` in it.
    """
    words, colon, path = os.fsencode(text).partition(b":")
    snapshot = words.decode("ascii", "replace").lower()
    if snapshot != LATEST and not _PREFIX.fullmatch(snapshot):
        raise SelectionError(
            f"{printable(words)} is no snapshot: name it by at least 4 digits of its id, or "
            f"'{LATEST}' (and a path after a colon: {LATEST}:/home/ada)"
        )
    parts = [part for part in path.split(b"/") if part]
    if any(part in {b".", b".."} for part in parts):
        raise SelectionError(f"path {printable(path)} must not contain '.' or '..'")
    return Selection(snapshot, b"/".join(parts) if colon and parts else None)


async def list_snapshots(vault: Vault, *, events: Events) -> list[Listed]:
    """All snapshots that can be read, oldest first; the others are warned of."""
    ids = await vault.snapshot_ids()
    limit = asyncio.Semaphore(_READS)

    async def read(one: SnapshotId) -> Listed | None:
        async with limit:
            try:
                return Listed(one, await vault.read_snapshot(one))
            except ChunkvaultError as error:
                events.warn("snapshot", f"snapshot {id_to_hex(one)[:8]} cannot be read: {error}")
                return None

    found = await asyncio.gather(*(read(one) for one in ids))
    listed = [one for one in found if one is not None]
    listed.sort(key=lambda one: (one.snapshot.started_ns, one.id))
    return listed


async def find_snapshot(
    vault: Vault,
    text: str,
    *,
    hostname: str | None,
    events: Events,
    path: bytes | None = None,
    now_ns: int | None = None,
) -> Listed:
    """The snapshot that ``text`` names.

    ``latest`` is the newest complete snapshot of ``hostname`` (of any host where that is None) that
    covers ``path``; one dated in the future is passed over while there are others.

    Raises:
        SelectionError: none, or more than one, is meant.
    """
    if text != LATEST:
        return await _by_prefix(vault, text)
    snapshots = await list_snapshots(vault, events=events)
    if not snapshots:
        raise SelectionError("the vault holds no snapshot yet: make one with 'chunkvault backup'")
    mine = [s for s in snapshots if hostname is None or s.snapshot.hostname == hostname]
    if not mine:
        hosts = ", ".join(sorted({s.snapshot.hostname for s in snapshots}))
        raise SelectionError(
            f"no snapshot of host {hostname}; there are some of: {hosts} (choose one with --host)"
        )
    covering = [s for s in mine if path is None or covers(s.snapshot.roots, path)]
    if not covering:
        raise SelectionError(
            f"no snapshot of this host covers /{printable(path or b'')}; see 'chunkvault snapshots'"
        )
    past = [s for s in covering if now_ns is None or s.snapshot.started_ns <= now_ns] or covering
    complete = [s for s in past if not s.snapshot.partial]
    chosen = (complete or past)[-1]
    host = chosen.snapshot.hostname
    roots = ", ".join(printable(root) for root in chosen.snapshot.roots)
    part = ", a partial one" if chosen.snapshot.partial else ""
    events.note(
        "latest",
        f"latest is {chosen.short} of {chosen.when}{part}, host {host}: {roots}",
    )
    return chosen


async def _by_prefix(vault: Vault, text: str) -> Listed:
    matching = [one for one in await vault.snapshot_ids() if id_to_hex(one).startswith(text)]
    if not matching:
        raise SelectionError(f"no snapshot {text}: see 'chunkvault snapshots'")
    if len(matching) > 1:
        names = ", ".join(sorted(id_to_hex(one)[:12] for one in matching[:5]))
        raise SelectionError(f"{text} could be any of {names}: give more digits")
    return Listed(matching[0], await vault.read_snapshot(matching[0]))


def covers(roots: Iterable[bytes], path: bytes) -> bool:
    """Whether a snapshot of these roots can hold the path, or something below it."""
    for root in roots:
        inner = root.strip(b"/")
        if (
            not inner
            or inner == path
            or path.startswith(inner + b"/")
            or inner.startswith(path + b"/")
        ):
            return True
    return False


def describe(listed: Listed) -> str:
    """The record's name in the vault, for messages."""
    return snapshot_name(listed.id)
