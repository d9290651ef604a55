"""The verbs ls and dump: look into a snapshot without restoring it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chunkvault.errors import DamagedError, SelectionError
from chunkvault.format.entry import Entry, FileType
from chunkvault.fs.metadata import printable
from chunkvault.operations.content import stream
from chunkvault.operations.manifest_reader import read_manifest
from chunkvault.operations.select import Listed, Selection, find_snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import BinaryIO

    from chunkvault.operations.events import Events
    from chunkvault.vault.vault import Vault


async def list_entries(
    vault: Vault,
    selection: Selection,
    *,
    hostname: str | None,
    events: Events,
    recursive: bool,
) -> AsyncIterator[Entry]:
    """What lies at a path of a snapshot, in manifest order.

    A folder's contents (all levels where ``recursive``), or the one entry that is no folder. Parts
    of a damaged manifest are warned of and left out.

    Raises:
        SelectionError: there is no such snapshot, or nothing at that path.
    """
    listed = await _find(vault, selection, hostname=hostname, events=events)
    path = selection.path
    prefix = b"" if path is None else path + b"/"
    found = path is None
    whole = True

    def damaged(error: DamagedError) -> None:
        nonlocal whole
        whole = False
        events.warn("damaged", f"part of the manifest cannot be read: {error}")

    async for page in read_manifest(vault, listed.snapshot, path, damaged=damaged):
        for entry in page:
            found = True
            if entry.path == path:
                if entry.type != FileType.DIRECTORY:
                    yield entry
            elif recursive or b"/" not in entry.path[len(prefix) :]:
                yield entry
    if not found and whole:
        raise _nothing_at(listed, path or b"")


async def dump(
    vault: Vault,
    selection: Selection,
    *,
    hostname: str | None,
    events: Events,
    out: BinaryIO,
) -> int:
    """Write one file's content to a stream.

    Returns:
        Bytes written.

    Raises:
        SelectionError: no such snapshot or path, or it is not a file.
        DamagedError: part of the content is missing or damaged; what was written is good.
    """
    if selection.path is None:
        raise SelectionError("name the file to dump: SNAPSHOT:PATH")
    listed = await _find(vault, selection, hostname=hostname, events=events)
    entry = await _entry(vault, listed, selection.path)
    if entry.type != FileType.FILE:
        raise SelectionError(f"/{printable(selection.path)} is not a file; use restore")
    written = 0
    async for data in stream(vault, entry):
        await asyncio.to_thread(_write, out, data)
        written += len(data)
        events.progress.size = written
    if written != entry.size:
        raise DamagedError(f"/{printable(entry.path)}", "its content does not fit its size")
    return written


def _write(out: BinaryIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[out.write(view) or 0 :]
    out.flush()


async def _find(
    vault: Vault, selection: Selection, *, hostname: str | None, events: Events
) -> Listed:
    return await find_snapshot(
        vault, selection.snapshot, hostname=hostname, events=events, path=selection.path
    )


async def _entry(vault: Vault, listed: Listed, path: bytes) -> Entry:
    async for page in read_manifest(vault, listed.snapshot, path):
        for entry in page:
            if entry.path == path:
                return entry
    raise _nothing_at(listed, path)


def _nothing_at(listed: Listed, path: bytes) -> SelectionError:
    return SelectionError(
        f"snapshot {listed.short} holds no /{printable(path)}: see 'chunkvault ls {listed.short}'"
    )
