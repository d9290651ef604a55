"""What all wrappers share: everything is passed on.

What lives here: `WrapperStore`, which forwards the eight methods. What may not: any behaviour.
Extras are not passed on, since a wrapper could not keep its promise for calls it does not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from typing_extensions import override

    from chunkvault.store.base import Buffer, Listed, ObjectInfo, Store
else:

    def override(method):  # noqa: ANN001, ANN201 - typing.override comes with Python 3.12
        """Mark a method that replaces the base's; for the type checker."""
        return method


__all__ = ["WrapperStore", "close_pages", "override"]


class WrapperStore:
    """A store that hands every call to another.

    Attributes:
        inner: the other.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def location(self) -> str:
        """See `Store`."""
        return self.inner.location

    async def put(self, name: str, data: Buffer) -> None:
        """See `Store`."""
        await self.inner.put(name, data)

    async def get(self, name: str, *, limit: int) -> bytes:
        """See `Store`."""
        return await self.inner.get(name, limit=limit)

    def list(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        """See `Store`."""
        return self.inner.list(prefix)

    async def stat(self, name: str) -> ObjectInfo:
        """See `Store`."""
        return await self.inner.stat(name)

    async def move(self, source: str, target: str) -> None:
        """See `Store`."""
        await self.inner.move(source, target)

    async def delete(self, name: str) -> None:
        """See `Store`."""
        await self.inner.delete(name)

    async def barrier(self) -> None:
        """See `Store`."""
        await self.inner.barrier()

    async def close(self) -> None:
        """See `Store`."""
        await self.inner.close()


async def close_pages(pages: AsyncIterator[Sequence[Listed]]) -> None:
    """End a listing now, not when it is collected; it may not have been read to its end."""
    close = getattr(pages, "aclose", None)
    if close is not None:
        await close()
