"""A store that can be read and not changed.

What lives here: `ReadOnlyStore`. What may not: exceptions to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunkvault.errors import RefusedError
from chunkvault.store.wrap.base import WrapperStore, override

if TYPE_CHECKING:
    from chunkvault.store.base import Buffer


class ReadOnlyStore(WrapperStore):
    """Refuses put, move and delete before the inner store hears of them."""

    @override
    async def put(self, name: str, data: Buffer) -> None:  # noqa: ARG002 - the contract's
        """Refuse.

        Raises:
            RefusedError: always.
        """
        raise self._refusal("write", name)

    @override
    async def move(self, source: str, target: str) -> None:  # noqa: ARG002 - the contract's
        """Refuse.

        Raises:
            RefusedError: always.
        """
        raise self._refusal("move", source)

    @override
    async def delete(self, name: str) -> None:
        """Refuse.

        Raises:
            RefusedError: always.
        """
        raise self._refusal("remove", name)

    def _refusal(self, verb: str, name: str) -> RefusedError:
        return RefusedError(
            f"cannot {verb} {name} in {self.location}: it was opened for reading only", name=name
        )
