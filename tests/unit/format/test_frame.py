"""Frames: headers, payloads, Padmé, and taking apart."""

from __future__ import annotations

import math

import pytest

from chunkvault.errors import FormatError, UnsupportedFormatError
from chunkvault.format import frame
from chunkvault.format.frame import Header, Kind

ID = bytes(range(32))
BODY = b"the body of a frame, which is a zstd frame in real life"


def sealed_frame(kind: Kind = Kind.DATA, size: int = 64) -> bytes:
    salt = b"s" * 32 if kind is Kind.SNAPSHOT else b""
    header = frame.encode_header(kind, encrypted=True)
    return frame.build_sealed_frame(header, b"n" * 12, b"c" * size, salt=salt)


def plain_frame(kind: Kind = Kind.DATA, object_id: bytes = ID) -> bytes:
    return frame.build_plain_frame(frame.encode_header(kind, encrypted=False), object_id, BODY)


# Headers


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("encrypted", [False, True])
def test_headers_come_back(kind: Kind, encrypted: bool) -> None:
    """All kinds, sealed and plain, in eight bytes."""
    raw = frame.encode_header(kind, encrypted=encrypted)
    assert len(raw) == 8
    assert raw[:5] == b"CVLT\x01"
    assert frame.decode_header(raw + b"more") == Header(kind, encrypted)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"CVLT",
        b"XVLT\x01\x01\x01\0",
        b"CVLT\0\x01\x01\0",
        b"CVLT\x01\0\x01\0",
        b"CVLT\x01\x05\x01\0",
        b"CVLT\x01\x01\x02\0",
        b"CVLT\x01\x01\x03\0",
        b"CVLT\x01\x01\x01\x01",
    ],
)
def test_headers_with_anything_undefined_are_refused(raw: bytes) -> None:
    """Magic, version, kind, flags and the reserved byte are all checked."""
    with pytest.raises(FormatError) as caught:
        frame.decode_header(raw)
    assert not isinstance(caught.value, UnsupportedFormatError)


def test_a_newer_version_is_refused_by_name() -> None:
    """The message names both versions, whatever follows the version byte."""
    with pytest.raises(UnsupportedFormatError, match=r"version 2.* knows 1"):
        frame.decode_header(b"CVLT\x02\xff\xff\xff")


# Padmé


@pytest.mark.parametrize(
    ("size", "padded"),
    [(0, 0), (1, 1), (2, 2), (8, 8), (9, 10), (17, 18), (33, 36), (1025, 1088), (1 << 20, 1 << 20)],
)
def test_padme_of_known_sizes(size: int, padded: int) -> None:
    """Values computed by hand from the paper's algorithm."""
    assert frame.padme(size) == padded


def test_padme_follows_the_paper() -> None:
    """The shortcut with bit lengths equals the logarithms of algorithm 1."""
    for size in [*range(2, 5000), *(3**n for n in range(1, 30))]:
        exponent = math.floor(math.log2(size))
        bits = exponent - (math.floor(math.log2(exponent)) + 1 if exponent else 0)
        step = 1 << max(bits, 0)
        assert frame.padme(size) == -(-size // step) * step


def test_padme_costs_little_and_padding_twice_changes_nothing() -> None:
    """At most 12 %, and 3.2 % from 64 KiB on."""
    for size in range(1, 70_000, 7):
        padded = frame.padme(size)
        assert size <= padded <= size * 1.12 + 1
        assert frame.padme(padded) == padded
    for size in range(1 << 16, 1 << 18, 101):
        assert frame.padme(size) <= size * 1.032 + 1


# Payloads


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("size", [1, 5, 300, 70_000])
def test_payloads_come_back(padded: bool, size: int) -> None:
    """The body, whatever padding is around it, without a copy."""
    payload = frame.pack_payload(b"b" * size, padded=padded)
    assert len(payload) == (frame.padme(size + 4) if padded else size + 4)
    body = frame.unpack_payload(payload, padded=padded)
    assert bytes(body) == b"b" * size
    assert body.obj is payload


@pytest.mark.parametrize("size", [1, 5, 301, 70_000])
def test_a_payload_laid_into_used_memory_is_the_same(size: int) -> None:
    """Whatever was there before is overwritten, padding included."""
    room = bytearray(b"x" * frame.payload_size(size))
    frame.lay_payload(b"b" * size, memoryview(room))
    assert room == frame.pack_payload(b"b" * size, padded=True)


def test_payloads_of_another_size_are_refused() -> None:
    """Neither more nor less padding than Padmé, and no length beyond the end."""
    good = frame.pack_payload(b"b" * 301, padded=True)
    bad = [good + b"\0", good[:-1], b"", b"\0\0\0", b"\xff\xff\xff\xff" + good[4:]]
    bad.append((300).to_bytes(4, "little") + good[4:-1])
    for payload in bad:
        with pytest.raises(FormatError):
            frame.unpack_payload(payload, padded=True)


def test_padding_must_be_zero() -> None:
    """Nothing can be hidden in the padding."""
    good = bytearray(frame.pack_payload(b"b" * 301, padded=True))
    assert len(good) > 305
    good[-1] = 1
    with pytest.raises(FormatError, match="padding"):
        frame.unpack_payload(good, padded=True)


# Whole frames


def test_a_sealed_blob_comes_apart() -> None:
    """Nonce and ciphertext at their places, no salt."""
    parts = frame.split_frame(sealed_frame(), encrypted=True)
    assert parts.header == Header(Kind.DATA, encrypted=True)
    assert (parts.salt, parts.nonce, parts.checksum) == (b"", b"n" * 12, b"")
    assert parts.content == b"c" * 64


def test_a_sealed_snapshot_comes_apart() -> None:
    """The salt is found before the nonce."""
    parts = frame.split_frame(sealed_frame(Kind.SNAPSHOT), encrypted=True)
    assert (parts.salt, parts.nonce, parts.checksum) == (b"s" * 32, b"n" * 12, b"")
    assert parts.content == b"c" * 64


@pytest.mark.parametrize(("kind", "object_id"), [(Kind.DATA, ID), (Kind.SNAPSHOT, b"")])
def test_a_plain_frame_opens(kind: Kind, object_id: bytes) -> None:
    """The body comes back if the checksum holds."""
    parts = frame.split_frame(plain_frame(kind, object_id), encrypted=False)
    assert parts.header == Header(kind, encrypted=False)
    assert frame.open_plain_frame(parts, object_id) == BODY


def test_any_flipped_bit_of_a_plain_frame_is_noticed() -> None:
    """Header, checksum and payload are covered."""
    good = plain_frame()
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(FormatError):
            frame.open_plain_frame(frame.split_frame(bad, encrypted=False), ID)


def test_a_plain_blob_under_anothers_name_is_noticed() -> None:
    """The id is part of the checksum."""
    parts = frame.split_frame(plain_frame(), encrypted=False)
    with pytest.raises(FormatError, match="checksum"):
        frame.open_plain_frame(parts, b"x" * 32)


def test_any_truncation_is_noticed() -> None:
    """A cut frame is refused, wherever it is cut."""
    good = plain_frame()
    for size in range(len(good)):
        with pytest.raises(FormatError):
            frame.open_plain_frame(frame.split_frame(good[:size], encrypted=False), ID)


@pytest.mark.parametrize("kind", [Kind.DATA, Kind.SNAPSHOT])
def test_sealed_frames_too_short_for_a_tag_are_refused(kind: Kind) -> None:
    """What cannot hold a tag and a length is never handed to the cipher."""
    good = sealed_frame(kind, 20)
    assert len(frame.split_frame(good, encrypted=True).content) == 20
    for size in range(len(good)):
        with pytest.raises(FormatError):
            frame.split_frame(good[:size], encrypted=True)


def test_frames_must_be_sealed_as_the_vault_is() -> None:
    """A plain frame slipped into an encrypted vault is refused, and the other way round."""
    with pytest.raises(FormatError, match="not sealed"):
        frame.split_frame(plain_frame(), encrypted=True)
    with pytest.raises(FormatError, match="sealed"):
        frame.split_frame(sealed_frame(), encrypted=False)


@pytest.mark.parametrize("kind", Kind)
def test_frames_larger_than_their_kind_allows_are_refused(kind: Kind) -> None:
    """The limit is exact."""
    limit = frame.max_frame_size(kind)
    header = frame.encode_header(kind, encrypted=True)
    assert frame.split_frame(header + bytes(limit - 8), encrypted=True)
    with pytest.raises(FormatError, match="larger"):
        frame.split_frame(header + bytes(limit - 7), encrypted=True)


def test_the_largest_body_fits_the_largest_frame() -> None:
    """Limits of body and frame agree for sealed frames; plain ones are smaller."""
    for kind in Kind:
        payload = frame.padme(4 + frame.max_body_size(kind))
        salt = 32 if kind is Kind.SNAPSHOT else 0
        assert frame.max_frame_size(kind) == 8 + salt + 12 + payload + 16
        assert 40 + 4 + frame.max_body_size(kind) <= frame.max_frame_size(kind)


def test_associated_data_binds_header_and_name() -> None:
    """Kind and id are part of what is authenticated."""
    header = frame.encode_header(Kind.MANIFEST, encrypted=True)
    assert frame.associated_data(header, ID) == header + ID


# Sizes in listings


def test_sizes_of_real_blobs_are_plausible() -> None:
    """No blob that this program writes is doubted."""
    for size in [1, 9, 100, 4096, 1 << 20, frame.max_body_size(Kind.DATA)]:
        payload = frame.pack_payload(bytes(size), padded=True)
        assert frame.plausible_size(8 + 12 + len(payload) + 16, padded=True)
        assert frame.plausible_size(8 + 32 + 4 + size, padded=False)


def test_sizes_that_no_blob_has_are_not_plausible() -> None:
    """Empty, cut and oversized blobs are doubted by their size alone."""
    whole = 8 + 12 + len(frame.pack_payload(bytes(1 << 20), padded=True)) + 16
    for size in (0, 1, 40, whole - 1, whole // 2 + 1, frame.MAX_BLOB_SIZE + 1):
        assert not frame.plausible_size(size, padded=True)
    for size in (0, 44, frame.MAX_BLOB_SIZE + 1):
        assert not frame.plausible_size(size, padded=False)
