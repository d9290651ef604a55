"""Reads a snapshot's manifest, whole or only what lies at and below one path.

What lives here: which manifest chunks are needed, and the checks that hold across them. The checks
inside one chunk are ``format.manifest``'s.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING, Final

from chunkvault.errors import DamagedError, FormatError
from chunkvault.format.entry import Entry, FileType, order_key
from chunkvault.format.frame import Kind
from chunkvault.format.manifest import decode_extents, decode_manifest
from chunkvault.vault.layout import blob_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from chunkvault.format.entry import Extent
    from chunkvault.format.snapshot import ManifestRef, Snapshot
    from chunkvault.vault.vault import Vault

_AHEAD: Final = 8
"""Manifest chunks on their way at once."""


async def read_manifest(
    vault: Vault,
    snapshot: Snapshot,
    path: bytes | None = None,
    *,
    damaged: Callable[[DamagedError], None] | None = None,
) -> AsyncIterator[list[Entry]]:
    """The entry at ``path`` and all below it, in manifest order, in pages.

    Args:
        vault: where the manifest chunks are.
        snapshot: whose manifest.
        path: None for the whole snapshot.
        damaged: hears of a chunk that cannot be read, which is then left out.

    Raises:
        DamagedError: a chunk cannot be read, and nobody listens.
    """
    refs = wanted_refs(snapshot.manifest, path)
    low = b"" if path is None else order_key(path)
    high = low + b"\1"
    fetches: deque[tuple[ManifestRef, asyncio.Task[list[Entry]]]] = deque()
    waiting = iter(refs)
    try:
        for ref in waiting:
            fetches.append((ref, asyncio.create_task(read_page(vault, ref))))
            if len(fetches) < _AHEAD:
                continue
            page = await _take(fetches, damaged)
            if page:
                yield _between(page, low, high) if path is not None else page
        while fetches:
            page = await _take(fetches, damaged)
            if page:
                yield _between(page, low, high) if path is not None else page
    finally:
        for _, task in fetches:
            task.cancel()


async def _take(
    fetches: deque[tuple[ManifestRef, asyncio.Task[list[Entry]]]],
    damaged: Callable[[DamagedError], None] | None,
) -> list[Entry]:
    _, task = fetches.popleft()
    try:
        return await task
    except DamagedError as error:
        if damaged is None:
            raise
        damaged(error)
        return []


async def read_page(vault: Vault, ref: ManifestRef) -> list[Entry]:
    """The entries of one manifest chunk.

    Raises:
        DamagedError: it cannot be read, or is not what the snapshot says.
    """
    data = await vault.read_chunk(Kind.MANIFEST, ref.chunk)
    try:
        entries = decode_manifest(data)
        if len(entries) != ref.entries or entries[0].path != ref.first_path:
            raise FormatError("it does not begin or end where the snapshot says")  # noqa: TRY301
    except FormatError as error:
        raise DamagedError(blob_name(ref.chunk), str(error)) from error
    return entries


def _between(page: list[Entry], low: bytes, high: bytes) -> list[Entry]:
    first = bisect_left(page, low, key=lambda entry: order_key(entry.path))
    last = bisect_left(page, high, key=lambda entry: order_key(entry.path))
    return page[first:last]


def wanted_refs(refs: tuple[ManifestRef, ...], path: bytes | None) -> tuple[ManifestRef, ...]:
    """The manifest chunks that can hold ``path`` or something below it."""
    if path is None:
        return refs
    key = order_key(path)
    first = bisect_right(refs, key, key=lambda ref: order_key(ref.first_path))
    last = bisect_left(refs, key + b"\1", key=lambda ref: order_key(ref.first_path))
    return refs[max(first - 1, 0) : last]


class TreeCheck:
    """The rules that hold across a manifest: rising order, and a folder for each entry.

    Raises `FormatError` at the first entry that breaks one, so that nothing of a hostile manifest
    is ever written.

    Args:
        top: the path whose sub-tree is read; its own folder need not appear.
    """

    def __init__(self, top: bytes | None = None) -> None:
        self._top = top
        self._last = b""
        self._folder = b""
        self._folders: list[bytes] = []

    def page(self, entries: list[Entry]) -> None:
        """Check the next entries."""
        if not entries:
            return
        if order_key(entries[0].path) <= order_key(self._last) and self._last:
            raise FormatError(f"manifest order is broken at {entries[0].path!r}")
        self._last = entries[-1].path
        directory = FileType.DIRECTORY
        for entry in entries:
            path = entry.path
            parent = path.rpartition(b"/")[0]
            if parent != self._folder:
                self._climb(path, parent)
            if entry.type == directory:
                self._folders.append(self._folder)
                self._folder = path

    def _climb(self, path: bytes, parent: bytes) -> None:
        if path == self._top:
            self._folder = parent
            return
        while self._folder != parent:
            if not self._folders:
                raise FormatError(f"{path!r} has no folder in the manifest")
            self._folder = self._folders.pop()


async def read_extents(vault: Vault, entry: Entry) -> AsyncIterator[Extent]:
    """The extents of a file, wherever they are kept.

    Raises:
        DamagedError: a list of extents cannot be read, or they do not sum up to the file's size.
    """
    if not entry.extent_lists:
        for extent in entry.extents:
            yield extent
        return
    total = 0
    for chunk in entry.extent_lists:
        data = await vault.read_chunk(Kind.EXTENTS, chunk)
        try:
            extents = decode_extents(data)
        except FormatError as error:
            raise DamagedError(blob_name(chunk), str(error)) from error
        for extent in extents:
            total += extent.length
            yield extent
    if total != entry.size:
        raise DamagedError(
            blob_name(entry.extent_lists[-1]), "its extents do not fit the file's size"
        )
