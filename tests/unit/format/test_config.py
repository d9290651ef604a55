"""The vault's config."""

from __future__ import annotations

import json
from typing import Any

import pytest
from blake3 import blake3

from chunkvault.errors import AuthenticationError, FormatError, UnsupportedFormatError
from chunkvault.format.config import (
    ChunkerSettings,
    VaultConfig,
    decode_config,
    encode_config,
    verify_config,
)

KEY = b"k" * 32
VAULT = bytes(range(16))


def config(**changes: Any) -> VaultConfig:
    values: dict[str, Any] = {"vault_id": VAULT, "created_ns": 5, "encrypted": True, **changes}
    return VaultConfig(**values)


PLAIN = config(encrypted=False)
FIELDS: dict[str, Any] = json.loads(encode_config(PLAIN, None).split(b"\n")[0])


def stored(fields: object) -> bytes:
    """A plain config that says this, with a good checksum."""
    line = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return line + b"\n" + blake3(line).hexdigest().encode() + b"\n"


def open_config(data: bytes) -> VaultConfig:
    """What who opens an encrypted vault does."""
    one = decode_config(data)
    verify_config(data, KEY)
    return one


@pytest.mark.parametrize(
    ("one", "key"),
    [
        (config(), KEY),
        (PLAIN, None),
        (config(chunker=ChunkerSettings(64, 256, 1024), compression_level=19), KEY),
        (config(chunker=ChunkerSettings(8 << 20, 8 << 20, 8 << 20)), KEY),
    ],
)
def test_configs_come_back(one: VaultConfig, key: bytes | None) -> None:
    """All settings, encrypted or not."""
    data = encode_config(one, key)
    assert decode_config(data) == one
    if key is not None:
        verify_config(data, key)


def test_a_person_can_read_it() -> None:
    """Two lines, the first of them JSON."""
    first, second, rest = encode_config(config(), KEY).split(b"\n")
    assert json.loads(first)["vault"] == VAULT.hex()
    assert len(second) == 64
    assert rest == b""


def test_any_altered_byte_of_an_encrypted_vaults_config_is_noticed_with_the_key() -> None:
    """Whatever a flipped bit makes of it, it is refused, at decoding or at verification."""
    good = encode_config(config(), KEY)
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(FormatError):
            open_config(bytes(bad))


def test_turning_encryption_off_is_noticed_with_the_key() -> None:
    """A config rewritten as one without encryption, checksum and all, is refused."""
    forged = encode_config(PLAIN, None)
    assert decode_config(forged) == PLAIN
    with pytest.raises(AuthenticationError, match="altered"):
        verify_config(forged, KEY)
    with pytest.raises(AuthenticationError):
        verify_config(encode_config(config(), b"x" * 32), KEY)


def test_any_altered_byte_of_a_plain_config_is_noticed() -> None:
    """The checksum covers the whole line."""
    good = encode_config(PLAIN, None)
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(FormatError):
            decode_config(bytes(bad))


def test_every_truncation_is_noticed() -> None:
    """Also one that only lacks the last newline."""
    good = encode_config(PLAIN, None)
    for size in range(len(good)):
        with pytest.raises(FormatError):
            decode_config(good[:size])


def test_a_newer_config_is_refused_by_name_before_anything_else() -> None:
    """Even if its other lines, checksum and settings are of a kind unknown here."""
    for data in (stored({**FIELDS, "format": 2}), b'{"format":7,"x":1}\nother\nlines\n'):
        with pytest.raises(UnsupportedFormatError, match=r"version \d.* knows 1"):
            decode_config(data)


def test_a_key_that_is_named_twice_is_refused() -> None:
    """Readers could take different ones, though the checksum holds."""
    line = encode_config(PLAIN, None).split(b"\n")[0]
    assert decode_config(stored(line)) == PLAIN
    with pytest.raises(FormatError, match="twice"):
        decode_config(stored(b'{"encrypted":true,' + line[1:]))


def test_unknown_keys_are_ignored() -> None:
    """A later writer of version 1 may say more."""
    assert decode_config(stored({**FIELDS, "comment": [1, {}]})) == PLAIN


BAD: list[dict[str, Any]] = [
    {"format": 0},
    {"format": True},
    {"format": 1.0},
    {"format": "1"},
    {"vault": "00"},
    {"vault": VAULT.hex().upper()},
    {"vault": "é" * 32},
    {"vault": None},
    {"created_ns": -1},
    {"created_ns": 1 << 63},
    {"encrypted": 0},
    {"encrypted": None},
    {"chunker": None},
    {"chunker": {"name": "rabin", "min": 64, "avg": 256, "max": 1024}},
    {"chunker": {"name": "fastcdc", "min": 63, "avg": 256, "max": 1024}},
    {"chunker": {"name": "fastcdc", "min": 64, "avg": 255, "max": 1024}},
    {"chunker": {"name": "fastcdc", "min": 512, "avg": 256, "max": 1024}},
    {"chunker": {"name": "fastcdc", "min": 64, "avg": 2048, "max": 1024}},
    {"chunker": {"name": "fastcdc", "min": 64, "avg": 256, "max": (8 << 20) + 1}},
    {"chunker": {"name": "fastcdc", "min": 64, "avg": 256}},
    {"compression": {"name": "xz", "level": 3}},
    {"compression": {"name": "zstd", "level": 0}},
    {"compression": {"name": "zstd", "level": 20}},
    {"compression": {"name": "zstd", "level": True}},
]


@pytest.mark.parametrize("changes", BAD, ids=[f"case {n}" for n in range(len(BAD))])
def test_bad_settings_are_refused(changes: dict[str, Any]) -> None:
    """Type and bounds of everything, though the checksum holds."""
    with pytest.raises(FormatError, match=r"config|chunk sizes"):
        decode_config(stored({**FIELDS, **changes}))


@pytest.mark.parametrize("key", FIELDS)
def test_no_key_may_be_missing(key: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(FormatError):
        decode_config(stored({k: v for k, v in FIELDS.items() if k != key}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\n\n",
        stored(b""),
        stored(b"null"),
        stored(b"[]"),
        stored(b'{"format":1,"format":1}'),
        stored(b'{"format":NaN}'),
        stored(b'{"format":' + b"9" * 5000 + b"}"),
        stored(b'{"format":\xff}'),
        stored(b"[" * 60_000),
        encode_config(PLAIN, None) + b"\n",
        b"\n" + encode_config(PLAIN, None),
        encode_config(PLAIN, None).replace(b"\n", b"\r\n"),
        bytes((64 << 10) + 1),
    ],
    ids=[f"case {n}" for n in range(15)],
)
def test_what_is_no_config_is_refused(data: bytes) -> None:
    """Other JSON, other lines, deep nesting, huge numbers."""
    with pytest.raises(FormatError):
        decode_config(data)
    with pytest.raises(FormatError):
        verify_config(data, KEY)


@pytest.mark.parametrize(
    "changes",
    [
        {"vault_id": b"short"},
        {"compression_level": 0},
        {"compression_level": 20},
        {"format_version": 2},
    ],
)
def test_a_config_that_could_not_be_read_again_cannot_be_made(changes: dict[str, Any]) -> None:
    """Bounds hold on construction."""
    with pytest.raises(FormatError):
        config(**changes)


def test_key_and_encryption_go_together() -> None:
    """An encrypted vault's config is never written without its key, nor the other way round."""
    with pytest.raises(ValueError, match="key"):
        encode_config(config(), None)
    with pytest.raises(ValueError, match="key"):
        encode_config(PLAIN, KEY)
