"""The verb check: is everything there, is it what it claims to be, and whom does the damage hurt.

What lives here: finding damage. What may not: mending it.

Without reading data, check opens every snapshot record and every manifest chunk, and holds the
list of blobs against what the manifests refer to. Sizes that a sealed blob cannot have, or that
differ from
the size it had when it was written, are read to be sure. It says how much it did not verify.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chunkvault.errors import ChunkvaultError, DamagedError, Interrupted, UsageError
from chunkvault.format.entry import Entry, FileType
from chunkvault.format.frame import plausible_size
from chunkvault.fs.metadata import printable
from chunkvault.ids import ChunkId, SnapshotId, id_to_hex
from chunkvault.operations.manifest_reader import TreeCheck, read_extents, read_page
from chunkvault.operations.select import Listed
from chunkvault.vault.layout import blob_name, snapshot_name

if TYPE_CHECKING:
    import random as random_module
    import threading
    from collections.abc import Iterable

    from chunkvault.format.snapshot import ManifestRef
    from chunkvault.operations.events import Events
    from chunkvault.vault.inventory import Inventory
    from chunkvault.vault.vault import Vault

_READS: Final = 16
_MAX_PATHS: Final = 1000
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Subset:
    """Which part of the blobs to read; exactly one of the three is set.

    Attributes:
        fraction: of all blobs, chosen at random, 0 to 1.
        part: (n, t): the n-th of t parts, by id, so that t runs read everything once.
        size: about this many stored bytes, chosen at random.
    """

    fraction: float | None = None
    part: tuple[int, int] | None = None
    size: int | None = None


def parse_subset(text: str) -> Subset:
    """``5%``, ``2/7`` or a size such as ``500M``.

    Raises:
        UsageError: anything else.
    """
    text = text.strip()
    try:
        if text.endswith("%"):
            percent = float(text[:-1])
            if 0 < percent <= 100:
                return Subset(fraction=percent / 100)
        elif "/" in text:
            n, t = (int(part) for part in text.split("/"))
            if 1 <= n <= t <= 1 << 16:
                return Subset(part=(n, t))
        elif match := _SIZE.fullmatch(text):
            size = int(float(match[1]) * _UNITS[match[2].upper()])
            if size > 0:
                return Subset(size=size)
    except ValueError:
        pass
    raise UsageError(
        f"subset {text!r} is neither a percentage (5%), a part (2/7) nor a size (500M)"
    )


@dataclass(frozen=True)
class CheckOptions:
    """How deep to look.

    Attributes:
        read_data: read, open and hash every blob.
        subset: read only these.
    """

    read_data: bool = False
    subset: Subset | None = None


@dataclass(frozen=True)
class Damage:
    """One bad object, and whom it hurts.

    Attributes:
        name: the object.
        why: what is wrong with it.
        snapshots: those that need it.
        paths: files that need it, the first thousand.
        more_paths: how many there are beyond those.
    """

    name: str
    why: str
    snapshots: tuple[SnapshotId, ...] = ()
    paths: tuple[bytes, ...] = ()
    more_paths: int = 0


@dataclass(frozen=True)
class CheckResult:
    """What was found.

    Attributes:
        snapshots: records looked at.
        blobs: blobs present.
        blobs_read: of these, read, opened and hashed.
        bytes_read: their stored bytes.
        not_verified: blobs whose content was not looked at.
        damaged: every bad object.
        orphans: blobs that nothing refers to; harmless, a prune removes them.
        orphan_bytes: their stored bytes.
        seconds: how long it took.
    """

    snapshots: int
    blobs: int
    blobs_read: int
    bytes_read: int
    not_verified: int
    damaged: tuple[Damage, ...]
    orphans: int
    orphan_bytes: int
    seconds: float


async def check(
    vault: Vault,
    options: CheckOptions,
    *,
    events: Events,
    stop: threading.Event,
    random: random_module.Random,
) -> CheckResult:
    """Look for damage.

    Raises:
        Interrupted: ``stop`` was set.
    """
    return await _Check(vault, options, events, stop, random).run()


@dataclass
class _Hurt:
    """Who needs a bad object."""

    why: str
    snapshots: dict[SnapshotId, None] = field(default_factory=dict)
    paths: dict[bytes, None] = field(default_factory=dict)


class _Check:
    def __init__(
        self,
        vault: Vault,
        options: CheckOptions,
        events: Events,
        stop: threading.Event,
        random: random_module.Random,
    ) -> None:
        self._vault = vault
        self._options = options
        self._events = events
        self._stop = stop
        self._random = random
        self._bad: dict[str, _Hurt] = {}
        self._referenced: set[ChunkId] = set()
        self._verified: set[ChunkId] = set()
        self._bytes_read = 0

    async def run(self) -> CheckResult:
        begun = time.monotonic()
        progress = self._events.progress
        inventory = await self._vault.load_inventory()
        progress.phase = "checking snapshots"
        snapshots, count = await self._snapshots()
        progress.phase = "checking manifests"
        await self._manifests(snapshots)
        await self._presence(inventory)
        progress.phase = "reading blobs"
        await self._read(self._choose(inventory))
        progress.phase = "finding what is hurt"
        await self._trace(snapshots)
        damaged = tuple(
            Damage(
                name,
                hurt.why,
                tuple(hurt.snapshots),
                tuple(hurt.paths)[:_MAX_PATHS],
                max(0, len(hurt.paths) - _MAX_PATHS),
            )
            for name, hurt in sorted(self._bad.items())
        )
        orphans = [(c, size) for c, size in inventory.items() if c not in self._referenced]
        return CheckResult(
            snapshots=count,
            blobs=len(inventory),
            blobs_read=len(self._verified),
            bytes_read=self._bytes_read,
            not_verified=sum(1 for chunk, _ in inventory.items() if chunk not in self._verified),
            damaged=damaged,
            orphans=len(orphans),
            orphan_bytes=sum(size for _, size in orphans),
            seconds=time.monotonic() - begun,
        )

    def _is_bad(self, name: str, error: ChunkvaultError) -> _Hurt:
        why = str(error).removeprefix(f"{name} is damaged: ")
        return self._bad.setdefault(name, _Hurt(why))

    # Records and manifests

    async def _snapshots(self) -> tuple[list[Listed], int]:
        """Every record, straight from the location rather than from the catalog's copy."""
        good: list[Listed] = []
        ids = await self._vault.snapshot_ids()
        for one in ids:
            self._go_on()
            try:
                good.append(Listed(one, await self._vault.read_snapshot(one, cached=False)))
            except DamagedError as error:
                self._is_bad(snapshot_name(one), error).snapshots[one] = None
        for damage in await self._vault.misplaced():
            self._is_bad(damage.name, damage)
        return good, len(ids)

    async def _manifests(self, snapshots: list[Listed]) -> None:
        seen: dict[ChunkId, bool] = {}
        for listed in snapshots:
            tree = TreeCheck()
            whole = True
            for ref in listed.snapshot.manifest:
                self._go_on()
                if ref.chunk in seen and not whole:
                    continue
                # A shared chunk is read again for the next snapshot's tree; that is cheap, and only
                # so the rules across chunks are checked for each snapshot.
                page = await self._page(listed, ref, seen)
                whole = whole and page is not None
                if page is not None and whole:
                    self._rules(listed, tree, page)

    async def _page(
        self, listed: Listed, ref: ManifestRef, seen: dict[ChunkId, bool]
    ) -> list[Entry] | None:
        self._referenced.add(ref.chunk)
        if seen.get(ref.chunk) is False:
            self._bad[blob_name(ref.chunk)].snapshots[listed.id] = None
            return None
        try:
            page = await read_page(self._vault, ref)
        except DamagedError as error:
            seen[ref.chunk] = False
            self._is_bad(error.name, error).snapshots[listed.id] = None
            return None
        if ref.chunk not in seen:
            seen[ref.chunk] = True
            self._verified.add(ref.chunk)
            for entry in page:
                await self._refer(listed, entry)
        return page

    def _rules(self, listed: Listed, tree: TreeCheck, page: list[Entry]) -> None:
        try:
            tree.page(page)
        except ChunkvaultError as error:
            self._is_bad(snapshot_name(listed.id), error).snapshots[listed.id] = None

    async def _refer(self, listed: Listed, entry: Entry) -> None:
        if entry.type != FileType.FILE:
            return
        self._referenced.update(entry.extent_lists)
        try:
            async for chunk, _, _ in read_extents(self._vault, entry):
                if chunk is not None:
                    self._referenced.add(chunk)
        except DamagedError as error:
            hurt = self._is_bad(error.name, error)
            hurt.snapshots[listed.id] = None
            hurt.paths[entry.path] = None
        else:
            self._verified.update(entry.extent_lists)

    # Blobs

    async def _presence(self, inventory: Inventory) -> None:
        hints = {c: size for page in self._vault.catalog.chunk_sizes() for c, size in page}
        doubtful: list[ChunkId] = []
        encrypted = self._vault.config.encrypted
        for chunk, size in inventory.items():
            hint = hints.get(chunk)
            if (hint is not None and hint != size) or not plausible_size(size, padded=encrypted):
                doubtful.append(chunk)
        for chunk in self._referenced:
            if chunk not in inventory:
                name = blob_name(chunk)
                self._is_bad(name, DamagedError(name, "it is missing"))
        await self._read(doubtful)

    def _choose(self, inventory: Inventory) -> list[ChunkId]:
        options, random = self._options, self._random
        if options.subset is None and not options.read_data:
            return []
        chunks = sorted(chunk for chunk, _ in inventory.items())
        subset = options.subset
        if subset is None:
            return chunks
        if subset.part is not None:
            n, t = subset.part
            return [c for c in chunks if int.from_bytes(c[:4], "big") * t >> 32 == n - 1]
        random.shuffle(chunks)
        if subset.fraction is not None:
            return chunks[: max(1, round(len(chunks) * subset.fraction))]
        chosen, total = [], 0
        for chunk in chunks:
            chosen.append(chunk)
            total += inventory.size_of(chunk) or 0
            if total >= (subset.size or 0):
                break
        return chosen

    async def _read(self, chunks: Iterable[ChunkId]) -> None:
        todo = iter([chunk for chunk in chunks if chunk not in self._verified])
        await asyncio.gather(*(self._reader(todo) for _ in range(_READS)))

    async def _reader(self, todo: Iterable[ChunkId]) -> None:
        for chunk in todo:
            self._go_on()
            name = blob_name(chunk)
            try:
                size = await self._vault.verify_chunk(chunk)
                self._bytes_read += size  # not across the await: readers interleave there
            except DamagedError as error:
                self._is_bad(name, error)
            self._verified.add(chunk)
            self._events.progress.files += 1
            self._events.progress.size = self._bytes_read

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise Interrupted("check was stopped; what it found so far is not complete")

    # Whom it hurts

    async def _trace(self, snapshots: list[Listed]) -> None:
        """Name the snapshots and paths behind each bad blob, if there are any."""
        bad = {name: hurt for name, hurt in self._bad.items() if name.startswith("blobs/")}
        if not bad:
            return
        pages: dict[ChunkId, dict[str, list[bytes]]] = {}
        for listed in snapshots:
            for ref in listed.snapshot.manifest:
                self._go_on()
                name = blob_name(ref.chunk)
                if name in bad:
                    bad[name].snapshots[listed.id] = None
                    start = printable(b"/" + ref.first_path)
                    note = f"; {ref.entries} entries from {start} on cannot be listed"
                    if note not in bad[name].why:
                        bad[name].why += note
                    continue
                if ref.chunk not in pages:
                    pages[ref.chunk] = await self._hurt_in(ref, bad)
                for blob, paths in pages[ref.chunk].items():
                    bad[blob].snapshots[listed.id] = None
                    bad[blob].paths.update(dict.fromkeys(paths))

    async def _hurt_in(self, ref: ManifestRef, bad: dict[str, _Hurt]) -> dict[str, list[bytes]]:
        hurt: dict[str, list[bytes]] = {}
        try:
            page = await read_page(self._vault, ref)
        except DamagedError:
            return hurt
        for entry in page:
            for chunk in await self._needed(entry):
                name = blob_name(chunk)
                if name in bad:
                    hurt.setdefault(name, []).append(entry.path)
        return hurt

    async def _needed(self, entry: Entry) -> set[ChunkId]:
        needed = set(entry.extent_lists)
        try:
            async for chunk, _, _ in read_extents(self._vault, entry):
                if chunk is not None:
                    needed.add(chunk)
        except DamagedError:
            pass  # the list itself is the bad blob
        return needed


def summary(result: CheckResult) -> str:
    """One line for a person."""
    if result.damaged:
        hurt = {one for damage in result.damaged for one in damage.snapshots}
        names = ", ".join(sorted(id_to_hex(one)[:8] for one in hurt)) or "none"
        return f"{len(result.damaged)} damaged objects; snapshots hurt: {names}"
    return f"no damage found; content of {result.not_verified} of {result.blobs} blobs not verified"
