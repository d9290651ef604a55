"""Derivation of subkeys, ids and object keys."""

from __future__ import annotations

import dataclasses

import pytest
from blake3 import blake3

from chunkvault.crypto.keys import (
    MasterKey,
    derive_subkeys,
    hasher,
    id_key,
    keyed_hash,
    mac,
    new_master_key,
    object_key,
)

MASTER = MasterKey(bytes(range(32)))


def test_every_subkey_is_a_key_of_its_own() -> None:
    """No two purposes share a key, and none is the master key."""
    keys = [value for value in dataclasses.astuple(derive_subkeys(MASTER)) if type(value) is bytes]
    assert len(keys) == 6
    assert len({*keys, bytes(MASTER)}) == 7
    assert {len(key) for key in keys} == {32}


def test_subkeys_depend_on_every_byte_of_the_master_key() -> None:
    """One flipped bit gives other keys throughout."""
    other = derive_subkeys(MasterKey(bytes([*range(31), 0x1E])))
    for one, two in zip(
        dataclasses.astuple(derive_subkeys(MASTER)), dataclasses.astuple(other), strict=True
    ):
        assert one != two


def test_the_chunker_seed_fits_the_chunker() -> None:
    """The seed is below 2**63 for any master key."""
    seeds = [derive_subkeys(MasterKey(bytes([n]) * 32)).chunker_seed for n in range(64)]
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert max(seeds) >= 1 << 60


def test_repr_shows_no_key() -> None:
    """Subkeys in a log or a traceback give nothing away."""
    subkeys = derive_subkeys(MASTER)
    assert repr(subkeys) == "Subkeys()"
    assert str(subkeys.chunker_seed) not in repr(subkeys)


def test_a_master_key_of_another_size_is_refused() -> None:
    """A short key never becomes subkeys."""
    with pytest.raises(ValueError, match="32 bytes"):
        derive_subkeys(MasterKey(b"short"))


def test_a_new_master_key_is_what_the_generator_gives() -> None:
    """Randomness comes from the caller, 32 bytes of it."""
    asked: list[int] = []

    def random_bytes(size: int) -> bytes:
        asked.append(size)
        return b"r" * size

    assert new_master_key(random_bytes) == b"r" * 32
    assert asked == [32]


@pytest.mark.parametrize("chunk_id", [None, bytes(range(32))])
def test_kinds_never_share_an_id(chunk_id: bytes | None) -> None:
    """A file that equals a manifest chunk is another chunk, with and without encryption."""
    ids = {keyed_hash(id_key(chunk_id, kind), b"same plaintext") for kind in (1, 2, 3)}
    assert len(ids) == 3


def test_data_ids_use_the_subkey_itself() -> None:
    """A data chunk's id is BLAKE3 keyed by chunk_id, and plain BLAKE3 without encryption."""
    assert id_key(None, 1) is None
    assert id_key(b"k" * 32, 1) == b"k" * 32


def test_keyed_hash_is_blake3() -> None:
    """Keyed with a key, plain without; memoryviews hash like bytes."""
    key = b"k" * 32
    assert keyed_hash(None, b"data") == blake3(b"data").digest()
    assert keyed_hash(key, memoryview(b"data")) == blake3(b"data", key=key).digest()
    assert hasher(None)(b"data") == keyed_hash(None, b"data")
    assert hasher(key)(memoryview(b"data")) == keyed_hash(key, b"data")
    assert mac(key, b"data") == blake3(b"data", key=key).digest()
    assert object_key(key, b"s" * 32) == blake3(b"s" * 32, key=key).digest()
