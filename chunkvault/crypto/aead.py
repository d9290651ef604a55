"""AES-256-GCM, and nothing about it that a caller could get wrong twice.

What lives here: one call to seal, one to open. What may not: choosing keys or nonces.
A key of its own per object (`keys.object_key`) and a random nonce keep a nonce from repeating under
a key: a blob is sealed anew only when it was lost or damaged.

Source: NIST SP 800-38D.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from chunkvault.errors import AuthenticationError

Buffer: TypeAlias = bytes | bytearray | memoryview

NONCE_SIZE: Final = 12
TAG_SIZE: Final = 16
_DOES_NOT_OPEN: Final = "it does not open under this vault's key: altered, or another object's"


def encrypt(key: bytes, nonce: bytes, plaintext: Buffer, associated_data: bytes) -> bytes:
    """Ciphertext followed by the 16-byte tag.

    Args:
        key: 32 bytes.
        nonce: 12 bytes, never used before under this key.
        plaintext: what to hide.
        associated_data: what to authenticate with it.
    """
    return AESGCM(key).encrypt(nonce, plaintext, associated_data)


def encrypt_into(
    key: bytes, nonce: bytes, plaintext: Buffer, associated_data: bytes, room: memoryview
) -> None:
    """Like `encrypt`, into memory of the caller's: a fresh megabyte costs more than sealing it.

    Args:
        key: 32 bytes.
        nonce: 12 bytes, never used before under this key.
        plaintext: what to hide.
        associated_data: what to authenticate with it.
        room: 16 bytes more than the plaintext.
    """
    AESGCM(key).encrypt_into(nonce, plaintext, associated_data, room)


def decrypt_into(
    key: bytes, nonce: bytes, sealed: Buffer, associated_data: bytes, room: memoryview
) -> None:
    """Like `decrypt`, into memory of the caller's; on error what is in it means nothing.

    Args:
        key: 32 bytes.
        nonce: 12 bytes.
        sealed: ciphertext and tag.
        associated_data: what was authenticated with it.
        room: 16 bytes less than ``sealed``.

    Raises:
        AuthenticationError: altered, truncated, misplaced, or sealed under another key.
    """
    try:
        AESGCM(key).decrypt_into(nonce, sealed, associated_data, room)
    except InvalidTag:
        raise AuthenticationError(_DOES_NOT_OPEN) from None


def decrypt(key: bytes, nonce: bytes, sealed: Buffer, associated_data: bytes) -> bytes:
    """The plaintext of ciphertext and tag.

    Raises:
        AuthenticationError: altered, truncated, misplaced, or sealed under another key.
    """
    if len(nonce) != NONCE_SIZE or len(sealed) < TAG_SIZE:
        raise AuthenticationError("it is too short to be sealed data")
    try:
        return AESGCM(key).decrypt(nonce, sealed, associated_data)
    except InvalidTag:
        raise AuthenticationError(_DOES_NOT_OPEN) from None
