"""Key slots: the master key wrapped under one passphrase.

What lives here: the value, its two lines, and what authenticates the first. What may not: deriving
keys, wrapping and unwrapping, which ``vault`` composes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from chunkvault.errors import FormatError
from chunkvault.format import signed
from chunkvault.format.limits import FORMAT_VERSION, MAX_LABEL_CHARACTERS

SLOT_ID_SIZE: Final = 16
SALT_SIZE: Final = 16
NONCE_SIZE: Final = 12
WRAPPED_SIZE: Final = 32 + 16
"""The master key and the tag of AES-GCM."""
_MAX_U32: Final = (1 << 32) - 1
_WHAT: Final = "key slot"
_SLOT_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHeader:
    """The readable part of a key slot.

    Attributes:
        slot_id: 32 hex digits, random; its name in the vault.
        label: what its owner called it.
        created_ns: when it was made, nanoseconds since the epoch.
        memory_kib: of Argon2id; ``crypto.passphrase.KdfParameters`` bounds it, and the next two.
        iterations: of Argon2id.
        lanes: of Argon2id.
        salt: 16 bytes.

    Raises:
        FormatError: on construction, where an id, a label or a salt is not as it must be.
    """

    slot_id: str
    label: str
    created_ns: int
    memory_kib: int
    iterations: int
    lanes: int
    salt: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _SLOT_ID.fullmatch(self.slot_id):
            raise FormatError(f"{_WHAT}: an id has {2 * SLOT_ID_SIZE} hex digits")
        if len(self.label) > MAX_LABEL_CHARACTERS:
            raise FormatError(f"{_WHAT}: a label has at most {MAX_LABEL_CHARACTERS} characters")
        if len(self.salt) != SALT_SIZE:
            raise FormatError(f"{_WHAT}: a salt has {SALT_SIZE} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySlot(SlotHeader):
    """A key slot as stored.

    Attributes:
        line: the first line, byte for byte.
        nonce: of AES-256-GCM, 12 bytes.
        wrapped: the sealed master key, tag last, 48 bytes.
    """

    line: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    wrapped: bytes = field(repr=False)


def slot_line(header: SlotHeader) -> bytes:
    """The first line of a new key slot."""
    return signed.to_line(
        {
            "format": FORMAT_VERSION,
            "slot": header.slot_id,
            "label": header.label,
            "created_ns": header.created_ns,
            "kdf": {
                "name": "argon2id",
                "memory_kib": header.memory_kib,
                "iterations": header.iterations,
                "lanes": header.lanes,
                "salt": header.salt.hex(),
            },
        }
    )


def slot_associated_data(line: bytes, vault_id: bytes) -> bytes:
    """What AES-GCM authenticates besides the master key: the first line, and whose slot it is."""
    return line + vault_id


def encode_slot(line: bytes, nonce: bytes, wrapped: bytes) -> bytes:
    """The stored key slot.

    Args:
        line: from `slot_line`.
        nonce: 12 bytes.
        wrapped: the master key sealed with `slot_associated_data`, 48 bytes.
    """
    return signed.join_lines(line, nonce + wrapped)


def decode_slot(data: bytes, slot_id: str) -> KeySlot:
    """A stored key slot; whether it is genuine shows when it is unwrapped.

    Args:
        data: as stored.
        slot_id: the name that it stands under.

    Raises:
        UnsupportedFormatError: a newer version wrote it.
        FormatError: not a key slot, or another one than its name says.
    """
    line, fields, sealed = signed.split_lines(data, _WHAT)
    kdf = signed.mapping(fields, "kdf", _WHAT)
    signed.word(kdf, "name", "argon2id", _WHAT)
    if len(sealed) != NONCE_SIZE + WRAPPED_SIZE:
        raise FormatError(f"{_WHAT} has a wrapped key of the wrong size")
    slot = KeySlot(
        slot_id=signed.hex_bytes(fields, "slot", SLOT_ID_SIZE, _WHAT).hex(),
        label=signed.text(fields, "label", MAX_LABEL_CHARACTERS, _WHAT),
        created_ns=signed.time_ns(fields, "created_ns", _WHAT),
        memory_kib=signed.integer(kdf, "memory_kib", 1, _MAX_U32, _WHAT),
        iterations=signed.integer(kdf, "iterations", 1, _MAX_U32, _WHAT),
        lanes=signed.integer(kdf, "lanes", 1, _MAX_U32, _WHAT),
        salt=signed.hex_bytes(kdf, "salt", SALT_SIZE, _WHAT),
        line=line,
        nonce=sealed[:NONCE_SIZE],
        wrapped=sealed[NONCE_SIZE:],
    )
    if slot.slot_id != slot_id:
        raise FormatError(f"{_WHAT} says it is {slot.slot_id}, its name says otherwise")
    return slot
