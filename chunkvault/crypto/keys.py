"""The master key and what is derived from it, all by BLAKE3.

What lives here: derivation and keyed hashing. What may not: randomness, passphrases, encryption.
A key in a message or a log is a bug, so ``repr`` of `Subkeys` shows none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NewType, TypeAlias

from blake3 import blake3

MasterKey = NewType("MasterKey", bytes)
"""32 random bytes; all that a vault keeps secret hangs on them."""

Buffer: TypeAlias = bytes | bytearray | memoryview

KEY_SIZE: Final = 32
_CONTEXT: Final = "chunkvault v1 2026-12-01 "
_KIND_CONTEXT: Final = _CONTEXT + "kind id"
_DATA_KIND: Final = 1
_SEED_BITS: Final = 63


@dataclass(frozen=True, slots=True)
class Subkeys:
    """One key per purpose, so that none serves two.

    Attributes:
        chunk_id: keys the hash that names chunks.
        blob: the keys of single blobs come from it.
        snapshot: the keys of single snapshot records come from it.
        digest: keys the digests of small files.
        catalog: keys the checks of catalog rows.
        config: authenticates the vault's config.
        chunker_seed: where large files are cut depends on it; 0 to 2**63 - 1.
    """

    chunk_id: bytes = field(repr=False)
    blob: bytes = field(repr=False)
    snapshot: bytes = field(repr=False)
    digest: bytes = field(repr=False)
    catalog: bytes = field(repr=False)
    config: bytes = field(repr=False)
    chunker_seed: int = field(repr=False)


def new_master_key(random_bytes: Callable[[int], bytes]) -> MasterKey:
    """A fresh master key.

    Args:
        random_bytes: the operating system's generator, such as ``os.urandom``.
    """
    return MasterKey(random_bytes(KEY_SIZE))


def derive_subkeys(master: MasterKey) -> Subkeys:
    """The keys of a vault with this master key; BLAKE3 derive_key, one context each.

    Source: O'Connor, Aumasson, Neves and Wilcox-O'Hearn, "BLAKE3: one function, fast
    everywhere", 2020 (the derive_key mode).
    """
    seed = int.from_bytes(_derive(master, "chunker seed")[:8], "little")
    return Subkeys(
        chunk_id=_derive(master, "chunk id"),
        blob=_derive(master, "blob key"),
        snapshot=_derive(master, "snapshot key"),
        digest=_derive(master, "content digest"),
        catalog=_derive(master, "catalog"),
        config=_derive(master, "config"),
        chunker_seed=seed & ((1 << _SEED_BITS) - 1),
    )


def _derive(master: MasterKey, purpose: str) -> bytes:
    if len(master) != KEY_SIZE:
        raise ValueError("a master key has 32 bytes")
    return blake3(master, derive_key_context=_CONTEXT + purpose).digest()


def id_key(chunk_id: bytes | None, kind: int) -> bytes | None:
    """What keys the id of a chunk of this kind.

    Chunks of different kinds never share an id, even with equal plaintext: a file that happens to
    be a copy of a manifest must not be taken for one that is stored already.

    Args:
        chunk_id: the chunk id subkey; None in a vault without encryption.
        kind: a ``format.frame.Kind``.

    Returns:
        For data ``chunk_id`` as it is; for other kinds a key that is derived from it.
    """
    if kind == _DATA_KIND:
        return chunk_id
    material = bytes((kind,)) + (chunk_id or bytes(KEY_SIZE))
    return blake3(material, derive_key_context=_KIND_CONTEXT).digest()


def keyed_hash(key: bytes | None, data: Buffer) -> bytes:
    """BLAKE3 of the data, 32 bytes: keyed, or plain where ``key`` is None."""
    if key is None:
        return blake3(data).digest()
    return blake3(data, key=key).digest()


def hasher(key: bytes | None) -> Callable[[Buffer], bytes]:
    """`keyed_hash` with the key settled, for where it runs once a file."""

    def plain(data: Buffer) -> bytes:
        return blake3(data).digest()

    def keyed(data: Buffer, key: bytes = key or b"") -> bytes:
        return blake3(data, key=key).digest()

    return plain if key is None else keyed


def mac(key: bytes, data: Buffer) -> bytes:
    """A tag of 32 bytes that only who holds the key can make; BLAKE3's keyed mode."""
    return blake3(data, key=key).digest()


def object_key(subkey: bytes, salt: bytes) -> bytes:
    """The AES key of one object.

    Args:
        subkey: the blob or snapshot subkey.
        salt: 32 bytes, a blob's id or a snapshot's random salt.
    """
    return blake3(salt, key=subkey).digest()
