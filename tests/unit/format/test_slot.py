"""Key slots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chunkvault.errors import FormatError, UnsupportedFormatError
from chunkvault.format.slot import (
    KeySlot,
    SlotHeader,
    decode_slot,
    encode_slot,
    slot_associated_data,
    slot_line,
)

SLOT_ID = bytes(range(16)).hex()
NONCE, WRAPPED = b"n" * 12, b"w" * 48


def header(**changes: Any) -> SlotHeader:
    values: dict[str, Any] = {
        "slot_id": SLOT_ID,
        "label": "büro\nlaptop",
        "created_ns": 5,
        "memory_kib": 65_536,
        "iterations": 3,
        "lanes": 4,
        "salt": b"s" * 16,
        **changes,
    }
    return SlotHeader(**values)


FIELDS: dict[str, Any] = json.loads(slot_line(header()))


def stored(**changes: Any) -> bytes:
    return encode_slot(json.dumps({**FIELDS, **changes}).encode(), NONCE, WRAPPED)


def test_slots_come_back() -> None:
    """All fields, and the first line byte for byte."""
    line = slot_line(header())
    slot = decode_slot(encode_slot(line, NONCE, WRAPPED), SLOT_ID)
    assert slot == KeySlot(
        slot_id=SLOT_ID, label="büro\nlaptop", created_ns=5, memory_kib=65_536, iterations=3,
        lanes=4, salt=b"s" * 16, line=line, nonce=NONCE, wrapped=WRAPPED,
    )  # fmt: skip


def test_the_line_is_authenticated_as_it_stands() -> None:
    """Another writer's blanks and order survive; nothing is written anew."""
    line = json.dumps(dict(reversed(FIELDS.items())), indent=None).encode()
    slot = decode_slot(encode_slot(line, NONCE, WRAPPED), SLOT_ID)
    assert slot.line == line
    assert slot_associated_data(slot.line, b"v" * 16) == line + b"v" * 16


def test_repr_shows_no_key_material() -> None:
    """A slot in a log gives away neither salt nor wrapped key."""
    slot = decode_slot(stored(), SLOT_ID)
    shown = repr(slot)
    for secret in (slot.salt, slot.nonce, slot.wrapped, slot.line):
        assert repr(secret) not in shown
        assert secret.hex() not in shown


def test_a_slot_under_anothers_name_is_refused() -> None:
    """Name and content must agree."""
    with pytest.raises(FormatError, match="name"):
        decode_slot(stored(), "ff" * 16)


def test_a_newer_slot_is_refused_by_name() -> None:
    """The message names both versions, whatever follows."""
    for data in (stored(format=2), b'{"format":2}\n'):
        with pytest.raises(UnsupportedFormatError, match=r"version 2.* knows 1"):
            decode_slot(data, SLOT_ID)


KDF: dict[str, Any] = FIELDS["kdf"]
BAD: list[dict[str, Any]] = [
    {"format": 0},
    {"slot": SLOT_ID[:-2]},
    {"slot": SLOT_ID.upper()},
    {"slot": None},
    {"label": "x" * 201},
    {"label": 7},
    {"created_ns": -1},
    {"created_ns": 1 << 63},
    {"kdf": None},
    {"kdf": {**KDF, "name": "scrypt"}},
    {"kdf": {**KDF, "memory_kib": 0}},
    {"kdf": {**KDF, "memory_kib": 1 << 32}},
    {"kdf": {**KDF, "iterations": 1.0}},
    {"kdf": {**KDF, "lanes": True}},
    {"kdf": {**KDF, "salt": "00"}},
    {"kdf": {k: v for k, v in KDF.items() if k != "salt"}},
]


@pytest.mark.parametrize("changes", BAD, ids=[f"case {n}" for n in range(len(BAD))])
def test_bad_fields_are_refused(changes: dict[str, Any]) -> None:
    """Type and bounds of everything."""
    with pytest.raises(FormatError, match="key slot"):
        decode_slot(stored(**changes), SLOT_ID)


def test_every_truncation_is_refused() -> None:
    """A slot that was cut never looks like a whole one."""
    good = encode_slot(slot_line(header()), NONCE, WRAPPED)
    for size in range(len(good)):
        with pytest.raises(FormatError):
            decode_slot(good[:size], SLOT_ID)


@pytest.mark.parametrize("size", [0, 47, 49])
def test_a_wrapped_key_of_another_size_is_refused(size: int) -> None:
    """The master key and its tag, no more and no less."""
    with pytest.raises(FormatError):
        decode_slot(encode_slot(slot_line(header()), NONCE, bytes(size)), SLOT_ID)


@pytest.mark.parametrize("changes", [{"slot_id": "xyz"}, {"label": "x" * 201}, {"salt": b"short"}])
def test_a_slot_that_could_not_be_read_again_cannot_be_made(changes: dict[str, Any]) -> None:
    """Bounds hold on construction."""
    with pytest.raises(FormatError):
        header(**changes)
