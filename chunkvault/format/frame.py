"""Frames: how a compressed body lies in a stored object.

What lives here: headers, payloads, padding, and where salt, nonce and checksum stand. What may not:
compression and encryption; ``vault.codec`` puts the three together.

    sealed blob       header 8 | nonce 12 | AES-256-GCM of the payload, tag 16 last
    sealed snapshot   header 8 | salt 32 | nonce 12 | AES-256-GCM of the payload, tag 16 last
    plain             header 8 | checksum 32 | payload

    payload           length of the body, u32 little-endian | body | zeros up to Padmé (if sealed)

Strategy: sizes are held against the limits before anything is allocated; large parts stay views
until one join.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from blake3 import blake3

from chunkvault.errors import FormatError, UnsupportedFormatError
from chunkvault.format.limits import (
    FORMAT_VERSION,
    MAX_CHUNK_SIZE,
    MAX_EXTENTS_SIZE,
    MAX_MANIFEST_SIZE,
    MAX_SNAPSHOT_SIZE,
)

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC: Final = b"CVLT"
HEADER_SIZE: Final = 8
SALT_SIZE: Final = 32
NONCE_SIZE: Final = 12
TAG_SIZE: Final = 16
CHECKSUM_SIZE: Final = 32
_LENGTH_SIZE: Final = 4
_ENCRYPTED: Final = 1


class Kind(IntEnum):
    """What a frame holds. The numbers are part of the format."""

    DATA = 1
    MANIFEST = 2
    EXTENTS = 3
    SNAPSHOT = 4


_MAX_PLAINTEXT: Final = {
    Kind.DATA: MAX_CHUNK_SIZE,
    Kind.MANIFEST: MAX_MANIFEST_SIZE,
    Kind.EXTENTS: MAX_EXTENTS_SIZE,
    Kind.SNAPSHOT: MAX_SNAPSHOT_SIZE,
}


def max_plaintext_size(kind: Kind) -> int:
    """Most bytes that a chunk or record of this kind has before compression."""
    return _MAX_PLAINTEXT[kind]


def max_body_size(kind: Kind) -> int:
    """Most bytes of a body: what zstd makes of the largest plaintext that does not compress."""
    plaintext = _MAX_PLAINTEXT[kind]
    return plaintext + (plaintext >> 8) + 64


def padme(size: int) -> int:
    """The size that ``size`` bytes are padded to: at most 12 % more, at most 3.2 % from 64 KiB on.

    Padmé keeps as many leading bits of a size as its exponent has bits, so a padded size tells
    O(log log size) bits. Padding a padded size changes nothing.

    Source: Nikitin, Barman, Lueks, Underwood, Hubaux and Ford, "Reducing Metadata Leakage from
    Encrypted Files and Communication with PURBs", PoPETs 2019(4), algorithm 1.
    """
    if size < 2:
        return size
    exponent = size.bit_length() - 1
    mask = (1 << (exponent - exponent.bit_length())) - 1
    return (size + mask) & ~mask


def max_frame_size(kind: Kind) -> int:
    """Most stored bytes of an object of this kind: what to read at most."""
    salt = SALT_SIZE if kind is Kind.SNAPSHOT else 0
    overhead = HEADER_SIZE + salt + NONCE_SIZE + TAG_SIZE
    return overhead + padme(_LENGTH_SIZE + max_body_size(kind))


MAX_BLOB_SIZE: Final = max(max_frame_size(kind) for kind in Kind if kind is not Kind.SNAPSHOT)
"""Most stored bytes of a blob, whose name does not tell its kind."""
MAX_SNAPSHOT_FRAME_SIZE: Final = max_frame_size(Kind.SNAPSHOT)
"""Most stored bytes of a snapshot record."""


def plausible_size(size: int, *, padded: bool) -> bool:
    """Whether a blob can have this many stored bytes; a truncated one mostly cannot.

    Args:
        size: stored bytes.
        padded: the vault is encrypted.
    """
    if padded:
        payload = size - HEADER_SIZE - NONCE_SIZE - TAG_SIZE
    else:
        payload = size - HEADER_SIZE - CHECKSUM_SIZE
    if payload <= _LENGTH_SIZE or size > MAX_BLOB_SIZE:
        return False
    return not padded or padme(payload) == payload


# Headers


class Header(NamedTuple):
    """The first eight bytes of a frame.

    Attributes:
        kind: what it holds.
        encrypted: sealed, rather than checksummed.
    """

    kind: Kind
    encrypted: bool


_HEADERS: Final = {
    Header(kind, encrypted): MAGIC + bytes((FORMAT_VERSION, kind, int(encrypted), 0))
    for kind in Kind
    for encrypted in (False, True)
}
_BY_BYTES: Final = {raw: header for header, raw in _HEADERS.items()}


def encode_header(kind: Kind, *, encrypted: bool) -> bytes:
    """The eight bytes a frame begins with."""
    return _HEADERS[Header(kind, encrypted)]


def decode_header(data: Buffer) -> Header:
    """What the first eight bytes of a frame say.

    Raises:
        FormatError: not a frame, or one with fields that version 1 does not define.
        UnsupportedFormatError: a frame of a newer version.
    """
    raw = bytes(data[:HEADER_SIZE])
    header = _BY_BYTES.get(raw)
    if header is not None:
        return header
    if len(raw) < HEADER_SIZE or raw[:4] != MAGIC:
        raise FormatError("it does not begin like an object of a vault")
    version = raw[4]
    if version > FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"it is of format version {version}, this program knows {FORMAT_VERSION}: "
            "update chunkvault"
        )
    raise FormatError(f"its header is not valid: {raw.hex()}")


# Payloads


def pack_payload(body: Buffer, *, padded: bool) -> bytes:
    """Length and body, with zeros up to the Padmé size where ``padded``."""
    size = _LENGTH_SIZE + len(body)
    padding = bytes(padme(size) - size) if padded else b""
    return b"".join((len(body).to_bytes(_LENGTH_SIZE, "little"), body, padding))


def payload_size(body_size: int) -> int:
    """Bytes of a padded payload around a body of this size."""
    return padme(_LENGTH_SIZE + body_size)


def lay_payload(body: Buffer, room: memoryview) -> None:
    """Like `pack_payload` with padding, into memory of the caller's.

    Args:
        body: a zstd frame.
        room: `payload_size` bytes; what is in it is overwritten.
    """
    end = _LENGTH_SIZE + len(body)
    room[:_LENGTH_SIZE] = len(body).to_bytes(_LENGTH_SIZE, "little")
    room[_LENGTH_SIZE:end] = body
    room[end:] = bytes(len(room) - end)


def unpack_payload(payload: Buffer, *, padded: bool) -> memoryview:
    """The body of a payload, not copied.

    Raises:
        FormatError: the length does not fit, or the padding is not as it must be.
    """
    view = memoryview(payload)
    if len(view) < _LENGTH_SIZE:
        raise FormatError("its payload is too short")
    end = _LENGTH_SIZE + int.from_bytes(view[:_LENGTH_SIZE], "little")
    if (padme(end) if padded else end) != len(view):
        raise FormatError("its length field does not fit its size")
    if bytes(view[end:]).strip(b"\0"):
        raise FormatError("its padding is not zero")
    return view[_LENGTH_SIZE:end]


# Frames


class FrameParts(NamedTuple):
    """A frame taken apart; nothing of it is verified yet but header and sizes.

    Attributes:
        header: the decoded header.
        salt: of a sealed snapshot; empty otherwise.
        nonce: of a sealed frame; empty otherwise.
        checksum: of a plain frame; empty otherwise.
        content: ciphertext and tag of a sealed frame, the payload of a plain one.
    """

    header: Header
    salt: bytes
    nonce: bytes
    checksum: bytes
    content: memoryview


def associated_data(header: bytes, salt_or_id: bytes) -> bytes:
    """What AES-GCM authenticates besides the payload.

    Args:
        header: the eight header bytes.
        salt_or_id: a blob's id; a snapshot's salt, its name being unknown before it is sealed.
    """
    return header + salt_or_id


def build_sealed_frame(header: bytes, nonce: bytes, sealed: Buffer, *, salt: bytes = b"") -> bytes:
    """A sealed frame from its parts; ``salt`` for snapshots only."""
    return b"".join((header, salt, nonce, sealed))


def build_plain_frame(header: bytes, object_id: bytes, body: Buffer) -> bytes:
    """A plain frame around a body.

    Args:
        header: the eight header bytes.
        object_id: a blob's id, empty for a snapshot.
        body: a zstd frame.
    """
    length = len(body).to_bytes(_LENGTH_SIZE, "little")
    hasher = blake3(header + object_id + length)
    checksum = hasher.update(body).digest()
    return b"".join((header, checksum, length, body))


def split_frame(data: Buffer, *, encrypted: bool) -> FrameParts:
    """Take a frame apart without copying what is large.

    Args:
        data: a stored object.
        encrypted: whether the vault is; a plain frame in an encrypted vault is a forgery.

    Raises:
        FormatError: not a frame, of a size its kind cannot have, or not sealed as the vault is.
        UnsupportedFormatError: a frame of a newer version.
    """
    header = decode_header(data)
    if header.encrypted is not encrypted:
        raise FormatError(
            "it is not sealed, unlike the vault" if encrypted else "it is sealed, unlike the vault"
        )
    view = memoryview(data)
    if len(view) > max_frame_size(header.kind):
        raise FormatError(f"it is larger than a {header.kind.name.lower()} object can be")
    at = HEADER_SIZE
    salt = nonce = checksum = b""
    if header.encrypted:
        if header.kind is Kind.SNAPSHOT:
            salt = bytes(view[at : at + SALT_SIZE])
            at += SALT_SIZE
        nonce = bytes(view[at : at + NONCE_SIZE])
        at += NONCE_SIZE
        least = at + TAG_SIZE + _LENGTH_SIZE
    else:
        checksum = bytes(view[at : at + CHECKSUM_SIZE])
        at += CHECKSUM_SIZE
        least = at + _LENGTH_SIZE
    if len(view) < least:
        raise FormatError("it is too short")
    return FrameParts(header, salt, nonce, checksum, view[at:])


def open_plain_frame(parts: FrameParts, object_id: bytes) -> memoryview:
    """The body of a plain frame whose checksum holds.

    Args:
        parts: a plain frame taken apart.
        object_id: the blob's id, empty for a snapshot.

    Raises:
        FormatError: the frame was altered, or stands under another's name.
    """
    hasher = blake3(encode_header(parts.header.kind, encrypted=parts.header.encrypted))
    hasher.update(object_id)
    if hasher.update(parts.content).digest() != parts.checksum:
        raise FormatError("its checksum does not hold")
    return unpack_payload(parts.content, padded=False)
