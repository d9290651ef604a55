"""Sealing and opening."""

from __future__ import annotations

import pytest

from chunkvault.crypto.aead import decrypt, decrypt_into, encrypt, encrypt_into
from chunkvault.errors import AuthenticationError

KEY, NONCE, AAD = b"k" * 32, b"n" * 12, b"header and id"


def test_what_was_sealed_opens() -> None:
    """Plaintext comes back, from bytes and from a view."""
    sealed = encrypt(KEY, NONCE, memoryview(b"plaintext"), AAD)
    assert len(sealed) == 9 + 16
    assert decrypt(KEY, NONCE, memoryview(sealed), AAD) == b"plaintext"


@pytest.mark.parametrize("at", range(9 + 16))
def test_any_flipped_bit_is_noticed(at: int) -> None:
    """Ciphertext and tag are authenticated in every byte."""
    sealed = bytearray(encrypt(KEY, NONCE, b"plaintext", AAD))
    sealed[at] ^= 1
    with pytest.raises(AuthenticationError):
        decrypt(KEY, NONCE, sealed, AAD)


def test_sealing_into_memory_of_the_callers_is_the_same() -> None:
    """The same bytes as with memory of its own, both ways."""
    room = bytearray(9 + 16)
    encrypt_into(KEY, NONCE, b"plaintext", AAD, memoryview(room))
    assert room == encrypt(KEY, NONCE, b"plaintext", AAD)
    opened = bytearray(9)
    decrypt_into(KEY, NONCE, room, AAD, memoryview(opened))
    assert opened == b"plaintext"


@pytest.mark.parametrize("at", [0, 8, 9, 24])
def test_any_flipped_bit_is_noticed_there_too(at: int) -> None:
    """Opening into memory of the caller's authenticates as well."""
    sealed = bytearray(encrypt(KEY, NONCE, b"plaintext", AAD))
    sealed[at] ^= 1
    with pytest.raises(AuthenticationError):
        decrypt_into(KEY, NONCE, sealed, AAD, memoryview(bytearray(9)))


def test_key_nonce_and_associated_data_must_be_the_same() -> None:
    """Nothing opens under another key, nonce or name."""
    sealed = encrypt(KEY, NONCE, b"plaintext", AAD)
    for key, nonce, aad in (
        (b"K" * 32, NONCE, AAD),
        (KEY, b"N" * 12, AAD),
        (KEY, NONCE, b"another id"),
    ):
        with pytest.raises(AuthenticationError):
            decrypt(key, nonce, sealed, aad)


@pytest.mark.parametrize("size", [0, 1, 15])
def test_what_is_shorter_than_a_tag_is_refused(size: int) -> None:
    """A truncated object gives the same error as an altered one."""
    with pytest.raises(AuthenticationError):
        decrypt(KEY, NONCE, bytes(size), AAD)


def test_a_short_nonce_is_refused() -> None:
    """A truncated object whose nonce is cut gives the same error too."""
    with pytest.raises(AuthenticationError):
        decrypt(KEY, b"n" * 7, bytes(32), AAD)
