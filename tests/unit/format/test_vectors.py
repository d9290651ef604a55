"""The test vectors of docs/format.md, read from the page and computed anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard
from blake3 import blake3

from chunkvault.crypto import aead, keys, passphrase
from chunkvault.format import config, frame, manifest, slot, snapshot
from chunkvault.format.frame import Kind
from chunkvault.format.packing import pack

PAGE = Path(__file__).parents[3] / "docs" / "format.md"
_HEX = re.compile("(?:[0-9a-f]{2})+")
_BLOCK = re.compile(r"```text\nvector: ([^\n]+)\n(.*?)\n```", re.DOTALL)

Vector = dict[str, str]


def read_page() -> dict[str, Vector]:
    """Every vector by name, its values as text."""
    found: dict[str, Vector] = {}
    for name, lines in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        assert name not in found
        pairs = (line.split(" = ", 1) for line in lines.split("\n"))
        found[name] = {key.strip(): value for key, value in pairs}
    return found


VECTORS = read_page()
MASTER = keys.MasterKey(bytes.fromhex(VECTORS["subkeys"]["master"]))
SUBKEYS = keys.derive_subkeys(MASTER)


def vector(name: str) -> dict[str, bytes]:
    """The hex values of one vector."""
    return {k: bytes.fromhex(v) for k, v in VECTORS[name].items() if _HEX.fullmatch(v)}


def from_json(value: Any) -> Any:
    """JSON as the page writes it, to what MessagePack packs."""
    if isinstance(value, str) and value.startswith("0x"):
        return bytes.fromhex(value[2:])
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, dict):
        return {int(k) if k.isdecimal() else k: from_json(v) for k, v in value.items()}
    return value


def decompress(body: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(body)


def test_the_page_has_all_vectors() -> None:
    """None is lost by an edit of the page."""
    assert set(VECTORS) == {
        "subkeys", "ids", "passphrase", "slot", "config encrypted", "config plain", "padme",
        "manifest", "extents", "sealed data", "sealed extents", "plain data", "plain manifest",
        "snapshot record", "sealed snapshot", "plain snapshot",
    }  # fmt: skip


def test_subkeys() -> None:
    """Each derived key, and the chunker's seed."""
    expected = vector("subkeys")
    for name in ("chunk_id", "blob", "snapshot", "digest", "catalog", "config"):
        assert getattr(SUBKEYS, name) == expected[name]
    assert SUBKEYS.chunker_seed == int(VECTORS["subkeys"]["chunker_seed"])


@pytest.mark.parametrize("mode", ["encrypted", "plain"])
def test_ids(mode: str) -> None:
    """Ids of each kind and digests, with and without encryption."""
    expected = vector("ids")
    chunk_id, digest = (SUBKEYS.chunk_id, SUBKEYS.digest) if mode == "encrypted" else (None, None)
    plaintext = expected["plaintext"]
    for kind in (Kind.DATA, Kind.MANIFEST, Kind.EXTENTS):
        key = keys.id_key(chunk_id, kind)
        name = kind.name.lower()
        assert keys.keyed_hash(key, plaintext) == expected[f"{mode}.{name}"]
        assert kind is Kind.DATA or key == expected[f"{mode}.id_key.{name}"]
    assert keys.keyed_hash(digest, plaintext) == expected[f"{mode}.digest"]


def test_passphrase() -> None:
    """From code points that are not in NFC to the wrapping key."""
    text, expected = VECTORS["passphrase"], vector("passphrase")
    typed = "".join(chr(int(point, 16)) for point in text["code_points"].split())
    parameters = passphrase.KdfParameters(
        expected["salt"],
        memory_kib=int(text["memory_kib"]),
        iterations=int(text["iterations"]),
        lanes=int(text["lanes"]),
    )
    assert passphrase.passphrase_bytes(typed) == expected["bytes"]
    derived = passphrase.derive_wrapping_key(expected["bytes"], parameters)
    assert derived == expected["wrapping_key"]


def two_lines(name: str) -> bytes:
    return (VECTORS[name]["line_1"] + "\n" + VECTORS[name]["line_2"] + "\n").encode()


def test_slot() -> None:
    """A stored slot opens under the wrapping key, and is what the encoder makes."""
    expected = vector("slot")
    data = two_lines("slot")
    one = slot.decode_slot(data, json.loads(VECTORS["slot"]["line_1"])["slot"])
    assert (one.nonce, one.wrapped) == (expected["nonce"], expected["wrapped"])
    aad = slot.slot_associated_data(one.line, expected["vault"])
    assert aead.decrypt(expected["wrapping_key"], one.nonce, one.wrapped, aad) == MASTER
    assert slot.encode_slot(slot.slot_line(one), one.nonce, one.wrapped) == data


@pytest.mark.parametrize(
    ("name", "key"), [("config encrypted", SUBKEYS.config), ("config plain", None)]
)
def test_config(name: str, key: bytes | None) -> None:
    """A stored config decodes, verifies, and is what the encoder makes."""
    data = two_lines(name)
    one = config.decode_config(data)
    assert one.encrypted is (key is not None)
    assert config.encode_config(one, key) == data
    if key is not None:
        config.verify_config(data, key)


def test_padme() -> None:
    """Sizes and what they are padded to."""
    sizes, padded = (list(map(int, VECTORS["padme"][k].split())) for k in ("sizes", "padded"))
    assert list(map(frame.padme, sizes)) == padded


def test_manifest() -> None:
    """Rows as listed make the chunk; the chunk decodes to entries that make the rows."""
    rows = [
        pack(from_json(json.loads(value)))
        for key, value in VECTORS["manifest"].items()
        if key.startswith("row.")
    ]
    chunk = vector("manifest")["chunk"]
    assert b"".join(rows) == chunk
    entries = manifest.decode_manifest(chunk)
    assert [manifest.encode_entry(entry) for entry in entries] == rows
    assert {entry.type for entry in entries} >= {1, 2, 3, 4, 5, 6}


def test_extents() -> None:
    """A list of extents as listed makes the chunk, and comes back."""
    listed = from_json(json.loads(VECTORS["extents"]["extents"]))
    chunk = vector("extents")["chunk"]
    extents = manifest.decode_extents(chunk)
    assert [list(extent) for extent in extents] == listed
    assert manifest.encode_extents(extents) == chunk


@pytest.mark.parametrize("kind", [Kind.DATA, Kind.EXTENTS])
def test_sealed_blobs(kind: Kind) -> None:
    """From plaintext to frame and back, each step as listed."""
    v = vector(f"sealed {kind.name.lower()}")
    assert decompress(v["body"]) == v["plaintext"]
    assert keys.keyed_hash(keys.id_key(SUBKEYS.chunk_id, kind), v["plaintext"]) == v["id"]
    assert keys.object_key(SUBKEYS.blob, v["id"]) == v["key"]
    header = frame.encode_header(kind, encrypted=True)
    assert frame.pack_payload(v["body"], padded=True) == v["payload"]
    assert frame.associated_data(header, v["id"]) == v["associated_data"]
    sealed = aead.encrypt(v["key"], v["nonce"], v["payload"], v["associated_data"])
    assert frame.build_sealed_frame(header, v["nonce"], sealed) == v["frame"]
    parts = frame.split_frame(v["frame"], encrypted=True)
    assert parts.header.kind is kind
    payload = aead.decrypt(v["key"], parts.nonce, parts.content, v["associated_data"])
    assert frame.unpack_payload(payload, padded=True) == v["body"]
    assert frame.plausible_size(len(v["frame"]), padded=True)


@pytest.mark.parametrize("kind", [Kind.DATA, Kind.MANIFEST])
def test_plain_blobs(kind: Kind) -> None:
    """From plaintext to frame and back, without encryption."""
    v = vector(f"plain {kind.name.lower()}")
    assert decompress(v["body"]) == v["plaintext"]
    assert keys.keyed_hash(keys.id_key(None, kind), v["plaintext"]) == v["id"]
    header = frame.encode_header(kind, encrypted=False)
    assert frame.build_plain_frame(header, v["id"], v["body"]) == v["frame"]
    parts = frame.split_frame(v["frame"], encrypted=False)
    assert frame.open_plain_frame(parts, v["id"]) == v["body"]


def test_snapshot_record() -> None:
    """The record as listed makes the plaintext, and decodes to what it says."""
    listed = json.loads(VECTORS["snapshot record"]["record"])
    plaintext = vector("snapshot record")["plaintext"]
    assert pack(from_json(listed)) == plaintext
    one = snapshot.decode_snapshot(plaintext)
    assert (one.hostname, one.users[1000]) == (listed["hostname"], listed["users"]["1000"])
    assert snapshot.encode_snapshot(one) == plaintext


def test_sealed_snapshot() -> None:
    """A snapshot's salt gives its key; its stored bytes give its name."""
    v = vector("sealed snapshot")
    assert decompress(v["body"]) == vector("snapshot record")["plaintext"]
    assert keys.object_key(SUBKEYS.snapshot, v["salt"]) == v["key"]
    header = frame.encode_header(Kind.SNAPSHOT, encrypted=True)
    assert frame.associated_data(header, v["salt"]) == v["associated_data"]
    payload = frame.pack_payload(v["body"], padded=True)
    sealed = aead.encrypt(v["key"], v["nonce"], payload, v["associated_data"])
    assert frame.build_sealed_frame(header, v["nonce"], sealed, salt=v["salt"]) == v["frame"]
    assert frame.split_frame(v["frame"], encrypted=True).salt == v["salt"]
    assert blake3(v["frame"]).digest() == v["id"]


def test_plain_snapshot() -> None:
    """No id goes into a plain snapshot's checksum."""
    v = vector("plain snapshot")
    header = frame.encode_header(Kind.SNAPSHOT, encrypted=False)
    assert frame.build_plain_frame(header, b"", v["body"]) == v["frame"]
    parts = frame.split_frame(v["frame"], encrypted=False)
    assert (
        decompress(bytes(frame.open_plain_frame(parts, b"")))
        == (vector("snapshot record")["plaintext"])
    )
    assert blake3(v["frame"]).digest() == v["id"]


def test_the_pages_table_of_sizes_is_the_programs() -> None:
    """Limits by kind in section 7 are those that the program keeps."""
    page = PAGE.read_text(encoding="utf-8")
    for kind in Kind:
        row = (
            f"| {kind} {kind.name.lower()} | 1 to {frame.max_plaintext_size(kind):,} bytes "
            f"| {frame.max_body_size(kind):,} | {frame.max_frame_size(kind):,} |"
        )
        assert row in page
