"""The Store contract: what every location promises, whatever it is made of.

A store maps names to immutable byte strings. Names are relative paths of ASCII letters, digits,
``-``, ``_`` and ``.``, with ``/`` between folders (``blobs/ab/ab12…``). No back end may weaken a
rule below, and ``chunkvault.testing.contract`` holds a test for each.

What lives here: the interface and its value types. What may not: any I/O, any back end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

Buffer: TypeAlias = bytes | bytearray | memoryview


class Listed(NamedTuple):
    """One object in a listing."""

    name: str
    size: int


class ObjectInfo(NamedTuple):
    """What ``stat`` tells of one object.

    Attributes:
        size: stored bytes.
        modified_ns: last change by the location's own clock, nanoseconds since the epoch.
    """

    size: int
    modified_ns: int


class Store(Protocol):
    """Eight methods, all asynchronous, all safe to call from many tasks at once.

    Errors are `NotFoundError`, `OversizeError`, `RefusedError`, `FullError` and
    `UnreachableError`, or plain `StoreError` where none of them fits; nothing foreign escapes.
    Cancelling a call leaves the store as if the call had not begun, or as if it had ended.
    """

    @property
    def location(self) -> str:
        """The location as a person wrote it, without secrets; for messages."""
        ...

    async def put(self, name: str, data: Buffer) -> None:
        """Store ``data`` under ``name``, whole or not at all.

        Under ``name`` there is at every instant either nothing, the old object, or the new one,
        never a part: after an error, a crash or a lost reply too. An existing object is replaced.
        Missing folders are made. Durable only after ``barrier``.
        """
        ...

    async def get(self, name: str, *, limit: int) -> bytes:
        """The whole object.

        Raises:
            NotFoundError: there is none.
            OversizeError: it is larger than ``limit`` bytes; at most ``limit`` + 1 are read.
        """
        ...

    def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """Objects whose name starts with ``prefix``, in pages, in no particular order.

        ``prefix`` is ``""`` or ends in ``/``. Each object that exists during the whole call appears
        once. A folder that does not exist is empty. Temporary names of unfinished puts never
        appear.
        """
        ...

    async def stat(self, name: str) -> ObjectInfo:
        """Size and age of one object.

        Raises:
            NotFoundError: there is none.
        """
        ...

    async def move(self, source: str, target: str) -> None:
        """Rename an object, replacing ``target``, without reading it.

        At every instant the content is under at least one of the two names.

        Raises:
            NotFoundError: ``source`` does not exist.
        """
        ...

    async def delete(self, name: str) -> None:
        """Remove an object; one that is not there is no error, so that a retry is safe."""
        ...

    async def barrier(self) -> None:
        """Return when all that was done before this call survives a power cut.

        Raises:
            StoreError: it may not; nothing that relies on it may be published.
        """
        ...

    async def close(self) -> None:
        """Release connections and descriptors; may be called twice."""
        ...


@runtime_checkable
class FreeSpace(Protocol):
    """Extra: a store that can tell how much room is left."""

    async def free_space(self) -> int | None:
        """Bytes still free for this user; None where the location does not tell."""
        ...


@runtime_checkable
class BlockingStore(Protocol):
    """Extra: a store so close that a worker thread may wait for it without an event loop.

    The same promises and errors as the asynchronous methods, callable from any thread. It saves
    the hop to the loop and back where the caller is in a thread already.
    """

    def put_sync(self, name: str, data: Buffer) -> None:
        """``put``, returning when it is done."""
        ...

    def get_sync(self, name: str, *, limit: int) -> bytes:
        """``get``, returning the object."""
        ...


@runtime_checkable
class Sweepable(Protocol):
    """Extra: a store in which a killed process may leave temporary names behind."""

    async def sweep_incoming(self, older_than_ns: int) -> int:
        """Remove temporaries that nobody has written to for so long.

        Args:
            older_than_ns: least age, nanoseconds, by the location's own clock; longer than any
                put can take, or a running one loses its file and fails.

        Returns:
            How many were removed.
        """
        ...
