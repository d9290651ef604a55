"""Frames, snapshot records, configs and key slots: round trips, and one error for garbage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkvault.errors import FormatError
from chunkvault.format.config import ChunkerSettings, VaultConfig, decode_config, encode_config
from chunkvault.format.frame import (
    Kind,
    build_plain_frame,
    encode_header,
    open_plain_frame,
    pack_payload,
    padme,
    split_frame,
    unpack_payload,
)
from chunkvault.format.slot import SlotHeader, decode_slot, encode_slot, slot_line
from chunkvault.format.snapshot import (
    ManifestRef,
    Snapshot,
    Totals,
    decode_snapshot,
    encode_snapshot,
)
from chunkvault.ids import ChunkId, SnapshotId

IDS = st.binary(min_size=32, max_size=32)
U64 = st.integers(0, (1 << 64) - 1)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.one_of(
    st.text(max_size=12),
    st.binary(max_size=6).map(lambda data: data.decode("utf-8", "surrogateescape")),
)
NAMES = st.dictionaries(st.integers(0, (1 << 32) - 1), TEXT, max_size=3)
REFS = st.lists(
    st.tuples(st.sampled_from([b"a", b"a/b", b"a.b", b"b"]), IDS, st.integers(1, 9)),
    unique_by=lambda ref: ref[0],
).map(
    lambda refs: tuple(
        ManifestRef(path, ChunkId(chunk), count)
        for path, chunk, count in sorted(refs, key=lambda ref: ref[0].replace(b"/", b"\0"))
    )
)
SNAPSHOTS = st.builds(
    Snapshot,
    started_ns=TIMES,
    finished_ns=TIMES,
    hostname=TEXT,
    username=TEXT,
    program=TEXT,
    roots=st.lists(st.sampled_from([b"/", b"/a", b"/a/\xff"]), max_size=2).map(tuple),
    tags=st.lists(TEXT, max_size=2).map(tuple),
    excludes=st.lists(TEXT, max_size=2).map(tuple),
    parent=st.one_of(st.none(), IDS.map(SnapshotId)),
    partial=st.booleans(),
    manifest=REFS,
    users=NAMES,
    groups=NAMES,
    totals=st.builds(Totals, *[U64] * 12),
)


@given(SNAPSHOTS)
def test_snapshot_records_come_back(one: Snapshot) -> None:
    """Every field is exactly what it was."""
    assert decode_snapshot(encode_snapshot(one)) == one


@given(SNAPSHOTS, st.integers(0), st.integers(0, 255))
def test_mutated_snapshot_records_raise_format_error_or_follow_the_rules(
    one: Snapshot, at: int, value: int
) -> None:
    """What still decodes after a byte was changed can be encoded, and decodes to the same."""
    data = bytearray(encode_snapshot(one))
    data[at % len(data)] = value
    with contextlib.suppress(FormatError):
        decoded = decode_snapshot(bytes(data))
        assert decode_snapshot(encode_snapshot(decoded)) == decoded


@given(st.integers(64, 1 << 23), st.integers(256, 1 << 23), st.integers(256, 1 << 23), IDS)
def test_configs_come_back(one: int, two: int, three: int, key: bytes) -> None:
    """Any allowed settings."""
    least, average, most = sorted((one, two, three))
    if average < 256:
        average = most = max(256, most)
    config = VaultConfig(
        vault_id=key[:16],
        created_ns=one,
        encrypted=True,
        chunker=ChunkerSettings(least, average, most),
    )
    assert decode_config(encode_config(config, key)) == config


@given(st.text(max_size=200), IDS, st.binary(min_size=60, max_size=60))
def test_slots_come_back(label: str, random: bytes, sealed: bytes) -> None:
    """Any label, any key material."""
    header = SlotHeader(
        slot_id=random[:16].hex(), label=label, created_ns=1, memory_kib=8, iterations=1, lanes=1,
        salt=random[16:],
    )  # fmt: skip
    slot = decode_slot(encode_slot(slot_line(header), sealed[:12], sealed[12:]), header.slot_id)
    assert (slot.label, slot.salt, slot.nonce + slot.wrapped) == (label, random[16:], sealed)


@given(st.binary(max_size=3000), st.booleans())
def test_payloads_come_back(body: bytes, padded: bool) -> None:
    """Padding hides the size and loses nothing."""
    payload = pack_payload(body, padded=padded)
    assert unpack_payload(payload, padded=padded) == body
    assert len(payload) == (padme(len(body) + 4) if padded else len(body) + 4)


@given(st.sampled_from(Kind), st.binary(max_size=100), IDS, st.integers(0), st.integers(1, 255))
def test_plain_frames_come_back_and_no_changed_byte_goes_unnoticed(
    kind: Kind, body: bytes, object_id: bytes, at: int, change: int
) -> None:
    """The checksum covers all of the frame."""
    data = build_plain_frame(encode_header(kind, encrypted=False), object_id, body)
    assert open_plain_frame(split_frame(data, encrypted=False), object_id) == body
    bad = bytearray(data)
    bad[at % len(bad)] ^= change
    with pytest.raises(FormatError):
        open_plain_frame(split_frame(bad, encrypted=False), object_id)


DECODERS: list[Callable[[bytes], object]] = [
    decode_snapshot,
    decode_config,
    lambda data: decode_slot(data, "00" * 16),
    lambda data: split_frame(data, encrypted=True),
    lambda data: open_plain_frame(split_frame(data, encrypted=False), b""),
    lambda data: unpack_payload(data, padded=True),
]
JSON_LIKE = st.text('{}[]":,0123456789.-+eEtrufalsnN \\u', max_size=60).map(
    lambda text: text.encode() + b"\n00\n"
)
GARBAGE = st.one_of(
    st.binary(max_size=120),
    JSON_LIKE,
    st.binary(max_size=80).map(lambda data: b"CVLT\x01\x01\x01\0" + data),
    st.binary(max_size=80).map(lambda data: b"CVLT\x01\x04\0\0" + data),
    st.binary(max_size=80).map(lambda data: b"\x81\xa1v\x01" + data),
)


@pytest.mark.parametrize("decode", DECODERS, ids=range(len(DECODERS)))
@given(data=GARBAGE)
def test_garbage_raises_format_error_only(decode: Callable[[bytes], object], data: bytes) -> None:
    """No bytes bring up another exception, and no message has two lines."""
    message = ""
    try:
        decode(data)
    except FormatError as error:
        message = str(error)
    assert "\n" not in message
