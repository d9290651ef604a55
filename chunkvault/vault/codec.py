"""The only place where a chunk becomes a blob and back: compress and seal, open and verify.

What lives here: the composition of format, crypto and zstd. What may not: any I/O.
Safe to use from many threads: each has its own compressor, since one shared by two crashes the
process.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import zstandard

from chunkvault.crypto import aead
from chunkvault.crypto.keys import Subkeys, hasher, id_key, keyed_hash, object_key
from chunkvault.errors import FormatError
from chunkvault.format.frame import (
    HEADER_SIZE,
    NONCE_SIZE,
    SALT_SIZE,
    TAG_SIZE,
    FrameParts,
    Kind,
    associated_data,
    build_plain_frame,
    build_sealed_frame,
    encode_header,
    lay_payload,
    max_body_size,
    max_plaintext_size,
    open_plain_frame,
    pack_payload,
    payload_size,
    split_frame,
    unpack_payload,
)
from chunkvault.ids import ChunkId, ContentDigest, SnapshotId

if TYPE_CHECKING:
    from collections.abc import Callable

    from chunkvault.store.base import Buffer


_T = TypeVar("_T")

_SEALED_START: Final = HEADER_SIZE + NONCE_SIZE
_SEALED_OVERHEAD: Final = _SEALED_START + TAG_SIZE


class _Scratch:
    """Memory that is used again and again, because the kernel clears each fresh page first."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def room(self, size: int) -> memoryview:
        """So many bytes, good until the next call; what is in them means nothing."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size + (size >> 2))
        return memoryview(self._buffer)[:size]


class _PerThread(threading.local):
    """A compressor, a decompressor and scratch memory of each thread's own."""

    def __init__(self, level: int) -> None:
        self.first = _Scratch()
        self.second = _Scratch()
        self.compressor = zstandard.ZstdCompressor(level=level)
        self.decompressor = zstandard.ZstdDecompressor()


class BlobCodec:
    """Seals and opens under one vault's keys.

    Args:
        keys: the vault's; None in a vault without encryption.
        level: zstd's.
        random_bytes: nonces and salts.
    """

    def __init__(
        self,
        keys: Subkeys | None,
        *,
        level: int,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._keys = keys
        self._random_bytes = random_bytes
        self._own = _PerThread(level)
        chunk_id = keys.chunk_id if keys is not None else None
        self._digest = hasher(keys.digest if keys is not None else None)
        self._id_keys = {kind: id_key(chunk_id, kind) for kind in Kind}

    def chunk_id(self, kind: Kind, plaintext: Buffer) -> ChunkId:
        """The name of a chunk of this kind and content."""
        return ChunkId(keyed_hash(self._id_keys[kind], plaintext))

    def content_digest(self, content: Buffer) -> ContentDigest:
        """What tells whether two small files are the same."""
        digest: ContentDigest = self._digest(content)  # type: ignore[assignment]  # one call less
        return digest

    def seal(self, kind: Kind, chunk: ChunkId, plaintext: Buffer) -> bytes:
        """A chunk as stored."""
        return self.seal_for(kind, chunk, plaintext, bytes)

    def seal_for(
        self, kind: Kind, chunk: ChunkId, plaintext: Buffer, use: Callable[[Buffer], _T]
    ) -> _T:
        """Seal a chunk and hand it to ``use``, which must not keep it: the memory is this thread's.

        Returns:
            What ``use`` returns.
        """
        if len(plaintext) > max_plaintext_size(kind):
            raise ValueError(f"a chunk of {len(plaintext)} bytes is larger than the format allows")
        body = self._own.compressor.compress(plaintext)
        if self._keys is None:
            return use(build_plain_frame(encode_header(kind, encrypted=False), chunk, body))
        header = encode_header(kind, encrypted=True)
        nonce = self._random_bytes(NONCE_SIZE)
        size = payload_size(len(body))
        payload = self._own.first.room(size)
        lay_payload(body, payload)
        frame = self._own.second.room(_SEALED_OVERHEAD + size)
        frame[:HEADER_SIZE] = header
        frame[HEADER_SIZE:_SEALED_START] = nonce
        aead.encrypt_into(
            object_key(self._keys.blob, chunk),
            nonce,
            payload,
            associated_data(header, chunk),
            frame[_SEALED_START:],
        )
        return use(frame)

    def open(self, kind: Kind, chunk: ChunkId, data: Buffer) -> bytes:
        """The plaintext of a blob.

        Raises:
            FormatError: it is not the blob of that name and kind, unaltered.
        """
        parts = split_frame(data, encrypted=self._keys is not None)
        if parts.header.kind is not kind:
            raise FormatError(f"it holds {parts.header.kind.name.lower()}, not {kind.name.lower()}")
        return self._open(parts, chunk)

    def verify(self, chunk: ChunkId, data: Buffer) -> Kind:
        """Open a blob of whatever kind and hold its plaintext against its name.

        Raises:
            FormatError: it is not the blob of that name, unaltered.
        """
        parts = split_frame(data, encrypted=self._keys is not None)
        kind = parts.header.kind
        if kind is Kind.SNAPSHOT:
            raise FormatError("it is a snapshot record")
        if self.chunk_id(kind, self._open(parts, chunk)) != chunk:
            raise FormatError("its content has another id")
        return kind

    def _open(self, parts: FrameParts, chunk: ChunkId) -> bytes:
        if self._keys is None:
            body = open_plain_frame(parts, chunk)
        else:
            header = encode_header(parts.header.kind, encrypted=True)
            payload = self._own.first.room(len(parts.content) - TAG_SIZE)
            aead.decrypt_into(
                object_key(self._keys.blob, chunk),
                parts.nonce,
                parts.content,
                associated_data(header, chunk),
                payload,
            )
            body = unpack_payload(payload, padded=True)
        return self._decompress(body, parts.header.kind)

    def _decompress(self, body: memoryview, kind: Kind) -> bytes:
        limit = max_plaintext_size(kind)
        if len(body) > max_body_size(kind):
            raise FormatError("its body is larger than it can be")
        try:
            size = zstandard.frame_content_size(body)
            if not 0 <= size <= limit:
                raise FormatError(f"it claims to hold {size} bytes")
            plaintext = self._own.decompressor.decompress(
                body, max_output_size=max(size, 1), allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise FormatError(f"it cannot be decompressed: {error}") from error
        if len(plaintext) != size:
            raise FormatError("it holds less than it claims")
        return plaintext

    def seal_snapshot(self, plaintext: bytes) -> tuple[SnapshotId, bytes]:
        """A snapshot record as stored, and the name that this gives it."""
        if len(plaintext) > max_plaintext_size(Kind.SNAPSHOT):
            raise FormatError("the snapshot record is larger than the format allows")
        body = self._own.compressor.compress(plaintext)
        if self._keys is None:
            data = build_plain_frame(encode_header(Kind.SNAPSHOT, encrypted=False), b"", body)
        else:
            header = encode_header(Kind.SNAPSHOT, encrypted=True)
            salt, nonce = self._random_bytes(SALT_SIZE), self._random_bytes(NONCE_SIZE)
            sealed = aead.encrypt(
                object_key(self._keys.snapshot, salt),
                nonce,
                pack_payload(body, padded=True),
                associated_data(header, salt),
            )
            data = build_sealed_frame(header, nonce, sealed, salt=salt)
        return SnapshotId(keyed_hash(None, data)), data

    def open_snapshot(self, snapshot: SnapshotId, data: bytes) -> bytes:
        """The plaintext of a snapshot record.

        Raises:
            FormatError: it is not the record of that name, unaltered.
        """
        if keyed_hash(None, data) != snapshot:
            raise FormatError("its bytes do not have the hash it is named by")
        parts = split_frame(data, encrypted=self._keys is not None)
        if parts.header.kind is not Kind.SNAPSHOT:
            raise FormatError("it is no snapshot record")
        if self._keys is None:
            body = open_plain_frame(parts, b"")
        else:
            header = encode_header(Kind.SNAPSHOT, encrypted=True)
            payload = aead.decrypt(
                object_key(self._keys.snapshot, parts.salt),
                parts.nonce,
                parts.content,
                associated_data(header, parts.salt),
            )
            body = unpack_payload(payload, padded=True)
        return self._decompress(body, Kind.SNAPSHOT)
