"""The verbs below key: who may open a vault.

Each slot wraps the same master key under one passphrase; changing slots rewrites no data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chunkvault.errors import SelectionError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chunkvault.vault.vault import Vault


@dataclass(frozen=True)
class KeyInfo:
    """One key slot.

    Attributes:
        id: its name, hex digits.
        label: what its owner called it.
        created_ns: when it was made, nanoseconds since the epoch.
        current: it is the one this run was opened with.
    """

    id: str
    label: str
    created_ns: int
    current: bool


async def list_keys(vault: Vault) -> list[KeyInfo]:
    """All slots, oldest first.

    Raises:
        UsageError: the vault is not encrypted.
    """
    _need_encryption(vault)
    slots = [
        KeyInfo(slot.slot_id, slot.label, slot.created_ns, slot.slot_id == vault.slot_id)
        for slot in await vault.read_slots()
    ]
    return sorted(slots, key=lambda slot: (slot.created_ns, slot.id))


async def add_key(vault: Vault, passphrase: str, label: str, *, clock_ns: Callable[[], int]) -> str:
    """Let another passphrase open the vault.

    Returns:
        The new slot's id.
    """
    _need_encryption(vault)
    return await vault.add_slot(passphrase, label, now_ns=clock_ns())


async def remove_key(vault: Vault, prefix: str) -> str:
    """Remove the slot whose id begins with ``prefix``; the passphrase opens nothing from then on.

    Returns:
        The removed slot's id.

    Raises:
        SelectionError: no slot, or more than one, is meant.
        UsageError: it is the last one; without it nobody could open the vault again.
    """
    keys = await list_keys(vault)
    matching = [key for key in keys if prefix and key.id.startswith(prefix.lower())]
    if len(matching) != 1:
        what = "no key slot" if not matching else "more than one key slot"
        raise SelectionError(f"{what} begins with {prefix!r}: see 'chunkvault key list'")
    if len(keys) == 1:
        raise UsageError("this is the last key slot; add another before removing it")
    await vault.remove_slot(matching[0].id)
    return matching[0].id


async def change_key(vault: Vault, new_passphrase: str, *, clock_ns: Callable[[], int]) -> str:
    """Replace the passphrase this run was opened with; the new slot is durable before the old goes.

    Returns:
        The new slot's id.
    """
    keys = await list_keys(vault)
    current = next((key for key in keys if key.current), None)
    label = current.label if current is not None else ""
    added = await vault.add_slot(new_passphrase, label, now_ns=clock_ns())
    if current is not None:
        await vault.remove_slot(current.id)
    return added


def _need_encryption(vault: Vault) -> None:
    if not vault.config.encrypted:
        raise UsageError("this vault is not encrypted: it has no keys")
