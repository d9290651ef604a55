"""Key slots: the master key wrapped under passphrases.

What lives here: the composition of passphrase stretching, sealing and the slot's format. What may
not:
asking anybody for a passphrase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chunkvault.crypto import aead
from chunkvault.crypto.keys import MasterKey
from chunkvault.crypto.passphrase import (
    SALT_SIZE,
    KdfParameters,
    derive_wrapping_key,
    passphrase_bytes,
)
from chunkvault.errors import (
    DamagedError,
    FormatError,
    NotFoundError,
    OversizeError,
    PassphraseError,
)
from chunkvault.format.limits import MAX_TEXT_FILE_SIZE
from chunkvault.format.slot import (
    NONCE_SIZE,
    SLOT_ID_SIZE,
    KeySlot,
    SlotHeader,
    decode_slot,
    encode_slot,
    slot_associated_data,
    slot_line,
)
from chunkvault.vault.layout import KEYS, slot_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chunkvault.store.base import Store

MAX_SLOTS: Final = 64
"""Each one costs 0.1 s of Argon2id to try."""


def make_slot(
    master: MasterKey,
    passphrase: str,
    vault_id: bytes,
    *,
    label: str,
    now_ns: int,
    random_bytes: Callable[[int], bytes],
) -> tuple[str, bytes]:
    """Wrap the master key.

    Returns:
        The new slot's id and its stored bytes.

    Raises:
        PassphraseError: the passphrase is empty or too long.
        FormatError: the label is too long.
    """
    kdf = KdfParameters(random_bytes(SALT_SIZE))
    header = SlotHeader(
        slot_id=random_bytes(SLOT_ID_SIZE).hex(),
        label=label,
        created_ns=now_ns,
        memory_kib=kdf.memory_kib,
        iterations=kdf.iterations,
        lanes=kdf.lanes,
        salt=kdf.salt,
    )
    line, nonce = slot_line(header), random_bytes(NONCE_SIZE)
    key = derive_wrapping_key(passphrase_bytes(passphrase), kdf)
    wrapped = aead.encrypt(key, nonce, master, slot_associated_data(line, vault_id))
    return header.slot_id, encode_slot(line, nonce, wrapped)


def unlock(
    slots: Sequence[KeySlot], passphrase: str, vault_id: bytes, location: str
) -> tuple[MasterKey, str]:
    """The master key, and the id of the slot that this passphrase opens.

    Raises:
        PassphraseError: it opens none.
    """
    data = passphrase_bytes(passphrase)
    for slot in slots:
        try:
            kdf = KdfParameters(slot.salt, slot.memory_kib, slot.iterations, slot.lanes)
            associated = slot_associated_data(slot.line, vault_id)
            master = aead.decrypt(
                derive_wrapping_key(data, kdf), slot.nonce, slot.wrapped, associated
            )
        except FormatError:  # parameters out of bounds, or another passphrase's slot
            continue
        return MasterKey(master), slot.slot_id
    if not slots:
        raise PassphraseError(f"{location} has no readable key slot: nothing can open it")
    raise PassphraseError(
        f"wrong passphrase for {location}: it opens none of its {len(slots)} key slot(s)"
    )


async def read_slots(store: Store) -> tuple[list[KeySlot], list[DamagedError]]:
    """All slots that can be read, in order of name, and what is wrong with the others."""
    names: list[str] = []
    async for page in store.list(KEYS):
        names.extend(name for name, _ in page)
    good: list[KeySlot] = []
    bad: list[DamagedError] = []
    for name in sorted(names)[:MAX_SLOTS]:
        try:
            data = await store.get(name, limit=MAX_TEXT_FILE_SIZE)
            good.append(decode_slot(data, name.removeprefix(KEYS)))
        except NotFoundError:
            continue  # removed meanwhile
        except (FormatError, OversizeError) as error:
            bad.append(DamagedError(name, str(error)))
    return good, bad


async def put_slot(store: Store, slot_id: str, data: bytes) -> None:
    """Store a new slot, durably."""
    await store.put(slot_name(slot_id), data)
    await store.barrier()
