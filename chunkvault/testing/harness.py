"""Hooks that bypass the store under test, so that its word is not taken for what it did.

What lives here: the `Harness` interface of the contract rules, and harnesses for stores whose
objects lie in memory or in a folder. What may not: rules.
"""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from chunkvault.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chunkvault.store.base import Store

_INCOMING: Final = "incoming"


class Harness(Protocol):
    """One fresh, empty location, and two ways to it: by a store, and past it.

    The hooks may block: the store under test is idle, or has threads of its own.

    Attributes:
        store: the store under test, wrapped where a wrapper is tested.
    """

    store: Store

    def raw_write(self, name: str, data: bytes) -> None:
        """Plant an object."""
        ...

    def raw_read(self, name: str) -> bytes | None:
        """What lies under a name; None for nothing."""
        ...

    def raw_names(self) -> set[str]:
        """Names of all objects, temporaries left out."""
        ...

    def raw_temporaries(self) -> int:
        """How many temporary names of puts there are."""
        ...

    def plant_oddities(self) -> None:
        """Plant what no listing may show, as far as the location can hold such things.

        That is an unfinished put's temporary, and things below ``blobs/`` that are no objects.
        """
        ...

    def raw_modes(self) -> Mapping[str, int]:
        """Permission bits of everything stored, folders too; empty where there are none."""
        ...

    def after_power_cut(self) -> Store:
        """A new store on what a power cut now might leave."""
        ...


class MemoryHarness:
    """For a `MemoryStore`.

    Args:
        wrap: puts the wrapper under test around it.
        seed: of what a power cut takes.
    """

    def __init__(self, wrap: Callable[[Store], Store], *, seed: int = 0) -> None:
        self._memory = MemoryStore()
        self._rng = random.Random(seed)  # noqa: S311 - no secret depends on it
        self.store: Store = wrap(self._memory)

    def raw_write(self, name: str, data: bytes) -> None:
        """See `Harness`."""
        self._memory.put_sync(name, data)

    def raw_read(self, name: str) -> bytes | None:
        """See `Harness`."""
        return self._memory.objects.get(name)

    def raw_names(self) -> set[str]:
        """See `Harness`."""
        return set(self._memory.objects)

    def raw_temporaries(self) -> int:
        """See `Harness`."""
        return 0

    def plant_oddities(self) -> None:
        """A dict holds nothing odd."""

    def raw_modes(self) -> Mapping[str, int]:
        """See `Harness`."""
        return {}

    def after_power_cut(self) -> Store:
        """See `Harness`."""
        return self._memory.crash(self._rng)


class FolderHarness:
    """For any store whose objects end up as files in a folder of this machine.

    Args:
        root: the folder; it may not exist yet.
        open_store: opens the store on it.
        wrap: puts the wrapper under test around it.
    """

    def __init__(
        self, root: Path, open_store: Callable[[], Store], wrap: Callable[[Store], Store]
    ) -> None:
        self._root = root
        self._open_store = open_store
        self.store: Store = wrap(open_store())

    def raw_write(self, name: str, data: bytes) -> None:
        """See `Harness`."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def raw_read(self, name: str) -> bytes | None:
        """See `Harness`."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def raw_names(self) -> set[str]:
        """See `Harness`."""
        files = (path for path in self._root.rglob("*") if path.is_file())
        names = (path.relative_to(self._root).as_posix() for path in files)
        return {name for name in names if not name.startswith(f"{_INCOMING}/")}

    def raw_temporaries(self) -> int:
        """See `Harness`."""
        incoming = self._root / _INCOMING
        return len(list(incoming.iterdir())) if incoming.is_dir() else 0

    def plant_oddities(self) -> None:
        """A temporary, links, a FIFO, an empty folder, and names that no object can have."""
        self.raw_write(f"{_INCOMING}/0123456789abcdef-7", b"unfinished")
        blobs = self._root / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        (blobs / "link").symlink_to("../config")
        (blobs / "dangling").symlink_to("nowhere")
        (blobs / "empty-folder").mkdir()
        os.mkfifo(blobs / "fifo")
        for name in (b"a b", b"\xff", b"a\nb", "ä".encode(), b"x~"):
            Path(os.fsdecode(os.fsencode(blobs) + b"/" + name)).write_bytes(b"odd")

    def raw_modes(self) -> Mapping[str, int]:
        """See `Harness`."""
        paths = [self._root, *self._root.rglob("*")]
        return {str(path): stat.S_IMODE(path.lstat().st_mode) for path in paths}

    def after_power_cut(self) -> Store:
        """A second store on the same folder: power cannot be cut here, so that nothing is lost."""
        return self._open_store()
