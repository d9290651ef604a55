"""The vault's config: version, id and settings; no secrets.

What lives here: the value, its two lines, and their tag. What may not: finding the key.

The config must be read before a passphrase is asked for, so it is decoded first and verified when
the key is there: who opens an encrypted vault calls both `decode_config` and `verify_config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chunkvault.errors import AuthenticationError, FormatError
from chunkvault.format import signed
from chunkvault.format.limits import FORMAT_VERSION, MAX_CHUNK_SIZE

VAULT_ID_SIZE: Final = 16
MIN_CHUNK_SIZE: Final = 64
"""Smallest minimum; small settings serve tests and very small vaults."""
MIN_AVERAGE_SIZE: Final = 256
MAX_COMPRESSION_LEVEL: Final = 19
_WHAT: Final = "config"


@dataclass(frozen=True, slots=True)
class ChunkerSettings:
    """Where large files are cut; all writers of a vault must agree, or nothing is found twice.

    Attributes:
        min_size: bytes; files below are bundled.
        avg_size: bytes.
        max_size: bytes.

    Raises:
        FormatError: on construction, where a value is out of bounds.
    """

    min_size: int = 256 << 10
    avg_size: int = 1 << 20
    max_size: int = 4 << 20

    def __post_init__(self) -> None:
        rising = MIN_CHUNK_SIZE <= self.min_size <= self.avg_size <= self.max_size
        if not rising or self.avg_size < MIN_AVERAGE_SIZE or self.max_size > MAX_CHUNK_SIZE:
            raise FormatError(
                f"chunk sizes {self.min_size}, {self.avg_size}, {self.max_size} are not allowed: "
                f"they rise from {MIN_CHUNK_SIZE} to {MAX_CHUNK_SIZE} bytes, "
                f"the average from {MIN_AVERAGE_SIZE}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultConfig:
    """What a vault is.

    Attributes:
        vault_id: 16 random bytes, the same at every location of the vault.
        created_ns: when it was made, nanoseconds since the epoch.
        encrypted: sealed under a master key, rather than checksummed.
        chunker: where large files are cut.
        compression_level: of zstd, 1 to 19; a writer's choice, no reader needs it.
        format_version: of all that is in the vault.

    Raises:
        FormatError: on construction, where a value is out of bounds.
    """

    vault_id: bytes
    created_ns: int
    encrypted: bool
    chunker: ChunkerSettings = ChunkerSettings()
    compression_level: int = 3
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if len(self.vault_id) != VAULT_ID_SIZE:
            raise FormatError(f"{_WHAT}: a vault id has {VAULT_ID_SIZE} bytes")
        if not 1 <= self.compression_level <= MAX_COMPRESSION_LEVEL:
            raise FormatError(
                f"{_WHAT}: compression level {self.compression_level} is not allowed: "
                f"1 to {MAX_COMPRESSION_LEVEL}"
            )
        if self.format_version != FORMAT_VERSION:
            raise FormatError(f"{_WHAT}: format version {self.format_version} cannot be written")


def encode_config(config: VaultConfig, key: bytes | None) -> bytes:
    """The stored config.

    Args:
        config: what to store.
        key: the config subkey of an encrypted vault, None for one without encryption.
    """
    if config.encrypted is (key is None):
        raise ValueError("an encrypted vault's config needs a key, another one's takes none")
    line = signed.to_line(
        {
            "format": config.format_version,
            "vault": config.vault_id.hex(),
            "created_ns": config.created_ns,
            "encrypted": config.encrypted,
            "chunker": {
                "name": "fastcdc",
                "min": config.chunker.min_size,
                "avg": config.chunker.avg_size,
                "max": config.chunker.max_size,
            },
            "compression": {"name": "zstd", "level": config.compression_level},
        }
    )
    return signed.join_lines(line, signed.tag(line, key))


def decode_config(data: bytes) -> VaultConfig:
    """What a stored config says.

    The tag of an encrypted vault's config is not verified here: see `verify_config`.

    Raises:
        UnsupportedFormatError: a newer version wrote it.
        FormatError: not a config, values out of bounds, or a checksum that does not hold.
    """
    line, fields, stored_tag = signed.split_lines(data, _WHAT)
    chunker = signed.mapping(fields, "chunker", _WHAT)
    compression = signed.mapping(fields, "compression", _WHAT)
    signed.word(chunker, "name", "fastcdc", _WHAT)
    signed.word(compression, "name", "zstd", _WHAT)
    config = VaultConfig(
        vault_id=signed.hex_bytes(fields, "vault", VAULT_ID_SIZE, _WHAT),
        created_ns=signed.time_ns(fields, "created_ns", _WHAT),
        encrypted=signed.flag(fields, "encrypted", _WHAT),
        chunker=ChunkerSettings(
            signed.integer(chunker, "min", MIN_CHUNK_SIZE, MAX_CHUNK_SIZE, _WHAT),
            signed.integer(chunker, "avg", MIN_AVERAGE_SIZE, MAX_CHUNK_SIZE, _WHAT),
            signed.integer(chunker, "max", MIN_AVERAGE_SIZE, MAX_CHUNK_SIZE, _WHAT),
        ),
        compression_level=signed.integer(compression, "level", 1, MAX_COMPRESSION_LEVEL, _WHAT),
    )
    if not config.encrypted and not signed.same(stored_tag, signed.tag(line, None)):
        raise FormatError(f"{_WHAT} is damaged: its checksum does not hold")
    return config


def verify_config(data: bytes, key: bytes) -> None:
    """Make sure that who wrote a stored config held the vault's key.

    Args:
        data: as stored.
        key: the config subkey.

    Raises:
        AuthenticationError: someone else wrote or altered it, or it claims to be of a vault without
            encryption.
        FormatError: not a config.
    """
    line, _, stored_tag = signed.split_lines(data, _WHAT)
    if not signed.same(stored_tag, signed.tag(line, key)):
        raise AuthenticationError(f"{_WHAT} was altered, or belongs to another vault")
