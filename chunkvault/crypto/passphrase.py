"""From a passphrase to the key that wraps the master key: Argon2id.

What lives here: how text becomes bytes, and parameters bounded before they are run. They come from
a key slot, which cannot be authenticated before it is opened: unbounded, it could ask for all the
memory there is, or for a year.

Source: RFC 9106 (Argon2id); RFC 8265, OpaqueString (why NFC).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from chunkvault.errors import FormatError, PassphraseError

SALT_SIZE: Final = 16
KEY_SIZE: Final = 32
MAX_PASSPHRASE_SIZE: Final = 64 << 10
"""Bytes; longer ones are a file given by mistake."""
MIN_MEMORY_KIB_PER_LANE: Final = 8
MAX_MEMORY_KIB: Final = 1 << 20
MAX_ITERATIONS: Final = 32
MAX_LANES: Final = 16


@dataclass(frozen=True, slots=True)
class KdfParameters:
    """What Argon2id is run with.

    The defaults are RFC 9106's second recommended choice: 64 MiB, three passes, four lanes.

    Attributes:
        salt: 16 random bytes.
        memory_kib: memory, KiB; at least 8 a lane, at most 1 GiB.
        iterations: passes over it, 1 to 32.
        lanes: degree of parallelism, 1 to 16.

    Raises:
        FormatError: on construction, where a value is out of bounds.
    """

    salt: bytes = field(repr=False)
    memory_kib: int = 64 << 10
    iterations: int = 3
    lanes: int = 4

    def __post_init__(self) -> None:
        if len(self.salt) != SALT_SIZE:
            raise FormatError(f"the key slot's salt has {len(self.salt)} bytes, not {SALT_SIZE}")
        _bounded("lanes", self.lanes, 1, MAX_LANES)
        _bounded("iterations", self.iterations, 1, MAX_ITERATIONS)
        least = MIN_MEMORY_KIB_PER_LANE * self.lanes
        _bounded("memory_kib", self.memory_kib, least, MAX_MEMORY_KIB)


def _bounded(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise FormatError(f"the key slot asks for {name} {value}, allowed are {least} to {most}")


def passphrase_bytes(text: str) -> bytes:
    """What a passphrase is to Argon2id: UTF-8 of its NFC form.

    So an accent typed as one character or as two, as systems differ in, opens the same vault. Bytes
    that were no UTF-8 (surrogates, PEP 383) are kept as they were. Nothing is trimmed.

    Raises:
        PassphraseError: empty, longer than 64 KiB, or text that no bytes stand for.
    """
    try:
        data = unicodedata.normalize("NFC", text).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PassphraseError("the passphrase holds characters that cannot be encoded") from None
    if not data:
        raise PassphraseError("the passphrase is empty: give one of at least one character")
    if len(data) > MAX_PASSPHRASE_SIZE:
        raise PassphraseError(f"the passphrase is longer than {MAX_PASSPHRASE_SIZE} bytes")
    return data


def derive_wrapping_key(passphrase: bytes, parameters: KdfParameters) -> bytes:
    """The 32-byte key that wraps the master key; takes about 0.1 s and ``memory_kib`` of memory.

    Args:
        passphrase: from `passphrase_bytes`.
        parameters: from the key slot.

    Raises:
        PassphraseError: this machine lacks the memory, or its crypto library lacks Argon2id.
    """
    try:
        return Argon2id(
            salt=parameters.salt,
            length=KEY_SIZE,
            iterations=parameters.iterations,
            lanes=parameters.lanes,
            memory_cost=parameters.memory_kib,
        ).derive(passphrase)
    except MemoryError:
        raise PassphraseError(
            f"not enough memory to try the passphrase: {parameters.memory_kib} KiB are needed"
        ) from None
    except UnsupportedAlgorithm:
        raise PassphraseError(
            "the cryptography library here has no Argon2id: install its wheel from PyPI"
        ) from None
