"""The store contract as executable rules, one method a rule; for every back end and every wrapper.

What lives here: rules, stated once, in terms of `Store` and `Harness`. What may not: anything that
holds for one back end only, any way to switch a rule off, and any test framework: a failed rule
raises `ContractViolation`, so that a program can run the rules on a user's own storage.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from chunkvault.errors import NotFoundError, OversizeError

if TYPE_CHECKING:
    from chunkvault.store.base import Buffer, Store
    from chunkvault.testing.harness import Harness

Rule: TypeAlias = Callable[["Harness"], Awaitable[None]]
_RuleT = TypeVar("_RuleT", bound=Callable[..., Awaitable[None]])

MIB: Final = 1 << 20
BLOB: Final = f"blobs/ab/{'ab' * 32}"
OTHER: Final = f"blobs/cd/{'cd' * 32}"

BAD_NAMES: Final = (
    *("", "/", "/etc/passwd", "a/", "a//b", "/a", ".", "..", "a/..", "../a", "a/../b", "./a"),
    *("a/./b", "a/.", "a b", "a\\b", "a\0b", "a\n", "\n", "ä", "a:b", "~", "*", "x" * 256),
    *("incoming", "incoming/x", "\udcff"),
)
GOOD_NAMES: Final = (
    "config",
    "keys/0a",
    "a",
    ".a",
    "a..b",
    "...",
    "A-Z_0.9",
    "incoming2",
    "x" * 255,
)


class ContractViolation(AssertionError):  # noqa: N818 - says what it is
    """A store broke a rule."""


def _require(condition: bool, what: str) -> None:  # noqa: FBT001 - an assertion
    if not condition:
        raise ContractViolation(what)


def _writes(rule: _RuleT) -> _RuleT:
    """Mark a rule that changes objects through the store, and so is not for a read-only one."""
    rule.__dict__["writes"] = True
    return rule


async def _expect(error: type[Exception], call: Awaitable[object], what: str) -> None:
    try:
        await call
    except error:
        return
    raise ContractViolation(f"{what}: no {error.__name__}")


async def listing(store: Store, prefix: str) -> dict[str, int]:
    """All of a listing, name to size.

    Raises:
        ContractViolation: a page is empty, or a name appears twice.
    """
    names: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    async for page in store.list(prefix):
        _require(len(page) > 0, "an empty page")
        for name, size in page:
            names[name] += 1
            sizes[name] = size
    twice = [name for name, count in names.items() if count > 1]
    _require(not twice, f"listed twice: {twice[:3]}")
    return sizes


class StoreContract:
    """The rules. Each takes a harness on a fresh location and closes its store."""

    @classmethod
    def rules(cls, *, reading_only: bool = False) -> dict[str, Rule]:
        """All rules by name; ``reading_only`` for those that a read-only store must keep too."""
        contract = cls()
        found: dict[str, Rule] = {}
        for name in vars(cls):
            rule = getattr(contract, name)
            if name.startswith("_") or name == "rules":
                continue
            if not (reading_only and hasattr(rule, "writes")):
                found[name] = rule
        return found

    # put

    @_writes
    async def put_stores_what_it_was_given(self, harness: Harness) -> None:
        """Bytes, bytearray and memoryview arrive as they are, under the name and no other."""
        values: tuple[Buffer, ...] = (b"bytes", bytearray(b"array"), memoryview(b"xviewx")[1:5])
        for number, data in enumerate(values):
            await harness.store.put(f"blobs/aa/{number}", data)
            _require(harness.raw_read(f"blobs/aa/{number}") == bytes(data), "not what was put")
        _require(len(harness.raw_names()) == 3, "something else was stored")
        _require(harness.raw_temporaries() == 0, "a temporary was left")
        await harness.store.close()

    @_writes
    async def put_replaces(self, harness: Harness) -> None:
        """A put over an object replaces it, a longer one by a shorter one too."""
        harness.raw_write(BLOB, b"long" * 1000)
        await harness.store.put(BLOB, b"short")
        _require(harness.raw_read(BLOB) == b"short", "not replaced")
        _require(await harness.store.get(BLOB, limit=10) == b"short", "reads something else")
        await harness.store.close()

    @_writes
    async def put_takes_empty_and_large_objects(self, harness: Harness) -> None:
        """Nothing, and 8 MiB, are stored and read back."""
        large = os.urandom(8 * MIB)
        for name, data in ((BLOB, b""), (OTHER, large)):
            await harness.store.put(name, data)
            _require(harness.raw_read(name) == data, f"{len(data)} bytes: stored otherwise")
            _require(await harness.store.get(name, limit=len(data)) == data, "read otherwise")
        _require(await listing(harness.store, "") == {BLOB: 0, OTHER: 8 * MIB}, "listed otherwise")
        await harness.store.close()

    @_writes
    async def put_is_atomic_for_readers(self, harness: Harness) -> None:
        """Readers polling during a new put and overwrites see nothing, the old or the new."""
        versions = [bytes([65 + number]) * (MIB + number) for number in range(8)]
        allowed = set(versions)
        done = asyncio.Event()

        async def poll() -> None:
            while not done.is_set():
                await asyncio.sleep(0)  # a store in memory never waits
                try:
                    seen = await harness.store.get(BLOB, limit=2 * MIB)
                except NotFoundError:
                    continue
                _require(seen in allowed, f"a part of {len(seen)} bytes was seen")

        async def poll_past_the_store() -> None:
            while not done.is_set():
                raw = await asyncio.to_thread(harness.raw_read, BLOB)
                _require(raw is None or raw in allowed, "a part was there")

        readers = [asyncio.create_task(poll()), asyncio.create_task(poll_past_the_store())]
        try:
            for _ in range(3):
                for version in versions:
                    await harness.store.put(BLOB, version)
                    await asyncio.sleep(0)
        finally:
            done.set()
            await asyncio.gather(*readers)
            await harness.store.close()

    @_writes
    async def puts_of_one_name_at_once_leave_one_whole(self, harness: Harness) -> None:
        """Of 64 concurrent puts under one name, one is there, whole, and nothing else."""
        versions = [os.urandom(64 << 10) for _ in range(64)]
        await asyncio.gather(*(harness.store.put(BLOB, version) for version in versions))
        _require(harness.raw_read(BLOB) in versions, "none of those put")
        _require(harness.raw_names() == {BLOB}, "other names were left")
        _require(harness.raw_temporaries() == 0, "temporaries were left")
        await harness.store.close()

    @_writes
    async def puts_of_many_names_at_once_all_arrive(self, harness: Harness) -> None:
        """200 concurrent puts into new folders all arrive."""
        expected = {f"blobs/{number % 50:02x}/{number}": b"%d" % number for number in range(200)}
        await asyncio.gather(*(harness.store.put(name, data) for name, data in expected.items()))
        _require(harness.raw_names() == set(expected), "names are missing")
        for name, data in expected.items():
            _require(harness.raw_read(name) == data, f"{name} holds something else")
        await harness.store.close()

    @_writes
    async def cancelled_puts_leave_nothing_or_all(self, harness: Harness) -> None:
        """A put cancelled at any point has not begun or has ended, and does nothing later."""
        old, new = b"old" * MIB, b"new!" * MIB
        for steps in range(12):
            name = f"blobs/aa/{steps}"
            if steps % 2:
                harness.raw_write(name, old)
            task = asyncio.create_task(harness.store.put(name, new))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            allowed = (old, new) if steps % 2 else (None, new)
            _require(harness.raw_read(name) in allowed, "a part was left")
            _require(harness.raw_temporaries() == 0, "a temporary was left")
        before = {name: harness.raw_read(name) for name in harness.raw_names()}
        await harness.store.close()
        after = {name: harness.raw_read(name) for name in harness.raw_names()}
        _require(before == after, "a cancelled put went on")

    @_writes
    async def objects_are_private(self, harness: Harness) -> None:
        """Where a location has modes, files are 0600 and folders 0700, even under umask 0."""
        mask = os.umask(0)
        try:
            await harness.store.put(BLOB, b"secret")
            await harness.store.put("config", b"secret")
            await harness.store.move("config", "trash/2026-01-01/config")
        finally:
            os.umask(mask)
        for path, mode in harness.raw_modes().items():
            _require(not mode & (stat.S_IRWXG | stat.S_IRWXO), f"{path} has mode {mode:o}")
            _require(bool(mode & stat.S_IWUSR), f"{path} has mode {mode:o}")
        await harness.store.close()

    # get and stat

    async def get_of_a_missing_object_is_not_found(self, harness: Harness) -> None:
        """At an empty location, in a missing folder and in an existing one."""
        await _expect(NotFoundError, harness.store.get(BLOB, limit=9), "empty location")
        await _expect(NotFoundError, harness.store.stat(BLOB), "empty location")
        harness.raw_write(OTHER, b"x")
        for name in (BLOB, OTHER[:-1], f"{OTHER}/below", "blobs"):
            await _expect(NotFoundError, harness.store.get(name, limit=9), name)
            await _expect(NotFoundError, harness.store.stat(name), name)
        await harness.store.close()

    async def get_keeps_to_its_limit(self, harness: Harness) -> None:
        """An object of exactly the limit is read; one byte more is an error; 0 is a limit too."""
        harness.raw_write(BLOB, b"12345")
        harness.raw_write(OTHER, b"")
        _require(await harness.store.get(BLOB, limit=5) == b"12345", "the limit itself")
        _require(await harness.store.get(OTHER, limit=0) == b"", "empty, limit 0")
        await _expect(OversizeError, harness.store.get(BLOB, limit=4), "limit 4 of 5")
        await _expect(OversizeError, harness.store.get(BLOB, limit=0), "limit 0 of 5")
        await harness.store.close()

    async def stat_tells_the_size_and_age(self, harness: Harness) -> None:
        """Size in bytes, and a time in this century in nanoseconds."""
        harness.raw_write(BLOB, b"12345")
        info = await harness.store.stat(BLOB)
        _require(info.size == 5, f"size {info.size}")
        _require(10**18 < info.modified_ns < 5 * 10**18, f"modified {info.modified_ns}")
        await harness.store.close()

    # list

    async def list_of_nothing_is_empty(self, harness: Harness) -> None:
        """At an empty location, and of a folder that is missing."""
        _require(await listing(harness.store, "") == {}, "empty location")
        _require(await listing(harness.store, "blobs/") == {}, "empty location, a folder")
        harness.raw_write("config", b"x")
        _require(await listing(harness.store, "blobs/") == {}, "a missing folder")
        _require(await listing(harness.store, "config/") == {}, "an object is no folder")
        await harness.store.close()

    async def list_names_each_object_once(self, harness: Harness) -> None:
        """2,500 objects in one folder and others around it, with sizes, by prefix."""
        flat = {f"blobs/aa/{number:04}": number % 7 for number in range(2500)}
        spread = {f"blobs/{number:02x}/x": 1 for number in range(40)}
        rest = {"config": 3, "keys/k": 4, "blobs.old/x": 5, "trash/2026-01-01/blobs/aa/y": 6}
        for name, size in (flat | spread | rest).items():
            harness.raw_write(name, bytes(size))
        store = harness.store
        _require(await listing(store, "") == flat | spread | rest, "everything")
        _require(await listing(store, "blobs/") == flat | spread, "a prefix")
        _require(await listing(store, "blobs/aa/") == flat, "a deeper prefix")
        _require(await listing(store, "keys/") == {"keys/k": 4}, "one object")
        _require(await listing(store, "blobs/a/") == {}, "half a folder's name")
        await store.close()

    async def list_shows_objects_only(self, harness: Harness) -> None:
        """Temporaries of unfinished puts, and odd things that are no objects, never appear."""
        harness.raw_write(BLOB, b"x")
        harness.raw_write("config", b"x")
        harness.plant_oddities()
        _require(await listing(harness.store, "") == {BLOB: 1, "config": 1}, "everything")
        _require(await listing(harness.store, "blobs/") == {BLOB: 1}, "a prefix")
        for name in ("blobs/link", "blobs/dangling", "blobs/fifo", "blobs/empty-folder"):
            await _expect(NotFoundError, harness.store.get(name, limit=9), name)
            await _expect(NotFoundError, harness.store.stat(name), name)
        await harness.store.close()

    async def list_may_be_left_early(self, harness: Harness) -> None:
        """A reader that stops after a page leaves the store usable, and closable."""
        for number in range(1200):
            harness.raw_write(f"blobs/aa/{number}", b"")
        async for page in harness.store.list(""):
            _require(len(page) > 0, "an empty page")
            break
        _require(len(await listing(harness.store, "")) == 1200, "a second listing")
        await harness.store.close()

    @_writes
    async def list_during_changes_keeps_what_stays(self, harness: Harness) -> None:
        """Objects that exist during the whole of a listing appear once while others come and go."""
        stay = {f"blobs/{number % 16:02x}/stay{number}": 1 for number in range(1500)}
        for name in stay:
            harness.raw_write(name, b"x")
        seen: list[str] = []
        number = 0
        async for page in harness.store.list("blobs/"):
            seen += [name for name, _ in page]
            await harness.store.put(f"blobs/{number % 16:02x}/new{number}", b"y")
            await harness.store.delete(f"blobs/{number % 16:02x}/new{number - 1}")
            number += 1
        counts = Counter(name for name in seen if name in stay)
        _require(counts == dict.fromkeys(stay, 1), "one is missing, or there twice")
        await harness.store.close()

    # move and delete

    @_writes
    async def move_renames(self, harness: Harness) -> None:
        """Into a folder that does not exist; the content goes along."""
        harness.raw_write(BLOB, b"content")
        await harness.store.move(BLOB, f"trash/2026-01-01/{BLOB}")
        _require(harness.raw_names() == {f"trash/2026-01-01/{BLOB}"}, "names after the move")
        _require(harness.raw_read(f"trash/2026-01-01/{BLOB}") == b"content", "content")
        await harness.store.close()

    @_writes
    async def move_replaces(self, harness: Harness) -> None:
        """An object under the target's name gives way; onto itself nothing happens."""
        harness.raw_write(BLOB, b"new")
        harness.raw_write(OTHER, b"old")
        await harness.store.move(BLOB, OTHER)
        _require(harness.raw_read(OTHER) == b"new", "not replaced")
        await harness.store.move(OTHER, OTHER)
        _require(harness.raw_read(OTHER) == b"new", "lost by a move onto itself")
        _require(harness.raw_names() == {OTHER}, "names after the moves")
        await harness.store.close()

    @_writes
    async def move_of_a_missing_object_is_not_found(self, harness: Harness) -> None:
        """The target stays as it is; a folder is not an object."""
        await _expect(NotFoundError, harness.store.move(BLOB, "trash/x"), "empty location")
        harness.raw_write(OTHER, b"old")
        await _expect(NotFoundError, harness.store.move(BLOB, OTHER), "missing source")
        await _expect(NotFoundError, harness.store.move(BLOB, BLOB), "missing, onto itself")
        await _expect(NotFoundError, harness.store.move("blobs", "trash/blobs"), "a folder")
        _require(harness.raw_read(OTHER) == b"old", "the target changed")
        _require(harness.raw_names() == {OTHER}, "names after the moves")
        await harness.store.close()

    @_writes
    async def delete_removes_and_may_be_repeated(self, harness: Harness) -> None:
        """What is not there is no error; other objects stay; a folder is not an object."""
        await harness.store.delete(BLOB)
        harness.raw_write(BLOB, b"x")
        harness.raw_write(OTHER, b"y")
        for _ in range(2):
            await harness.store.delete(BLOB)
            _require(harness.raw_names() == {OTHER}, "names after the deletion")
        await harness.store.delete("blobs")
        await harness.store.delete(f"{OTHER}/below")
        _require(harness.raw_read(OTHER) == b"y", "another object was lost")
        await _expect(NotFoundError, harness.store.get(BLOB, limit=9), "a deleted object")
        await harness.store.close()

    # barrier, close, names

    @_writes
    async def barrier_keeps_all_before_it(self, harness: Harness) -> None:
        """After a power cut all before the barrier is there, and nothing after it in part."""
        store = harness.store
        await store.barrier()
        for number in range(20):
            await store.put(f"blobs/aa/{number}", b"before")
        await store.move("blobs/aa/0", "blobs/aa/moved")
        await store.delete("blobs/aa/1")
        await store.barrier()
        await asyncio.gather(
            *(store.put(f"blobs/aa/{number}", b"after!") for number in range(10, 30))
        )
        survivor = harness.after_power_cut()
        found = {name: await survivor.get(name, limit=9) for name in await listing(survivor, "")}
        kept = {f"blobs/aa/{number}" for number in range(2, 20)} | {"blobs/aa/moved"}
        _require(kept <= set(found), f"lost: {kept - set(found)}")
        _require("blobs/aa/1" not in found, "a deletion was undone")
        _require(set(found.values()) <= {b"before", b"after!"}, "a part")
        await survivor.close()
        await store.close()

    async def barrier_and_close_need_no_objects(self, harness: Harness) -> None:
        """Both work on a location where nothing was done, and close works twice."""
        await harness.store.barrier()
        await harness.store.close()
        await harness.store.close()

    async def bad_names_are_refused(self, harness: Harness) -> None:
        """Names that could leave the location, or mean two things, are defects of the caller."""
        harness.raw_write("config", b"x")
        for name in BAD_NAMES:
            await _expect(ValueError, harness.store.get(name, limit=9), repr(name))
            await _expect(ValueError, harness.store.stat(name), repr(name))
        for prefix in ("blobs", "/", "../", "a//", "blobs/../", "incoming/"):
            await _expect(ValueError, listing(harness.store, prefix), repr(prefix))
        for name in GOOD_NAMES:
            await _expect(NotFoundError, harness.store.get(f"{name}.x"[-250:], limit=9), name)
        await harness.store.close()

    @_writes
    async def bad_names_are_not_written(self, harness: Harness) -> None:
        """Nor moved, in either direction, nor deleted; good ones are taken."""
        for name in BAD_NAMES:
            await _expect(ValueError, harness.store.put(name, b"x"), repr(name))
            await _expect(ValueError, harness.store.move(name, "a"), repr(name))
            await _expect(ValueError, harness.store.move("config", name), repr(name))
            await _expect(ValueError, harness.store.delete(name), repr(name))
        _require(harness.raw_names() == set(), "something was written")
        for name in GOOD_NAMES:
            await harness.store.put(name, b"x")
        _require(harness.raw_names() == set(GOOD_NAMES), "good names")
        await harness.store.close()
