"""Small text files of two lines: JSON that a person can read, and hex that vouches for it.

What lives here: how the lines are joined, taken apart and bounded. What may not: what they mean.
The bytes of the first line as they stand are what is authenticated, so there is no canonical JSON
to agree on.
"""

from __future__ import annotations

import hmac
import json
import re
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from blake3 import blake3

from chunkvault.errors import FormatError, UnsupportedFormatError
from chunkvault.format.limits import FORMAT_VERSION, MAX_TEXT_FILE_SIZE

Fields: TypeAlias = dict[str, Any]

_HEX: Final = re.compile(rb"(?:[0-9a-f]{2})+")
_MAX_TIME: Final = (1 << 63) - 1


def to_line(fields: Fields) -> bytes:
    """The first line: compact JSON in ASCII, without its newline."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def join_lines(line: bytes, second: bytes) -> bytes:
    """The file: the first line, and hex of ``second`` as the second one."""
    return b"%s\n%s\n" % (line, second.hex().encode("ascii"))


class Lines(NamedTuple):
    """A file taken apart; nothing of it is verified yet but version and form.

    Attributes:
        line: the first line as it stands, without its newline.
        fields: what it says.
        second: the bytes behind the second line's hex.
    """

    line: bytes
    fields: Fields
    second: bytes


def split_lines(data: bytes, what: str) -> Lines:
    """Take a file apart; the version is looked at before anything else.

    Raises:
        UnsupportedFormatError: of a newer version.
        FormatError: not two lines, each with its newline: a JSON object that has a version and
            names no key twice, and lower-case hex.
    """
    if len(data) > MAX_TEXT_FILE_SIZE:
        raise FormatError(f"{what} is larger than {MAX_TEXT_FILE_SIZE} bytes")
    lines = data.split(b"\n")
    fields = _from_line(lines[0], what)
    if len(lines) != 3 or lines[2] or not _HEX.fullmatch(lines[1]):
        raise FormatError(f"{what} is not two lines, JSON and hex")
    return Lines(lines[0], fields, bytes.fromhex(lines[1].decode("ascii")))


def _from_line(line: bytes, what: str) -> Fields:
    try:
        fields = json.loads(
            line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what} is not valid JSON: {str(error)[:200]}") from error
    if type(fields) is not dict:
        raise FormatError(f"{what} is not a JSON object")
    version = integer(fields, "format", 1, _MAX_TIME, what)
    if version > FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{what} is of format version {version}, this program knows {FORMAT_VERSION}: "
            "update chunkvault"
        )
    return fields


def tag(line: bytes, key: bytes | None) -> bytes:
    """What vouches for a line: its BLAKE3, keyed where there is a key."""
    return blake3(line).digest() if key is None else blake3(line, key=key).digest()


def same(one: bytes, other: bytes) -> bool:
    """Whether two tags are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)


def _unique(pairs: list[tuple[str, Any]]) -> Fields:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key appears twice")
    return fields


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


# Checked fields


def integer(fields: Fields, key: str, least: int, most: int, what: str) -> int:
    """A whole number within bounds, or FormatError."""
    value = fields.get(key)
    if type(value) is not int or not least <= value <= most:
        raise FormatError(f"{what} has no valid {key!r}: a whole number, {least} to {most}")
    return value


def time_ns(fields: Fields, key: str, what: str) -> int:
    """Nanoseconds since the epoch, or FormatError."""
    return integer(fields, key, 0, _MAX_TIME, what)


def text(fields: Fields, key: str, most: int, what: str) -> str:
    """Text of at most so many characters, or FormatError."""
    value = fields.get(key)
    if type(value) is not str or len(value) > most:
        raise FormatError(f"{what} has no valid {key!r}: text of at most {most} characters")
    return value


def hex_bytes(fields: Fields, key: str, size: int, what: str) -> bytes:
    """So many bytes in lower-case hex, or FormatError."""
    value = text(fields, key, 2 * size, what).encode("utf-8", "replace")
    if len(value) != 2 * size or not _HEX.fullmatch(value):
        raise FormatError(f"{what} has no valid {key!r}: {size} bytes in hex")
    return bytes.fromhex(value.decode("ascii"))


def flag(fields: Fields, key: str, what: str) -> bool:
    """True or false, or FormatError."""
    value = fields.get(key)
    if type(value) is not bool:
        raise FormatError(f"{what} has no valid {key!r}: true or false")
    return value


def mapping(fields: Fields, key: str, what: str) -> Fields:
    """An object within, or FormatError."""
    value = fields.get(key)
    if type(value) is not dict:
        raise FormatError(f"{what} has no valid {key!r}: an object")
    return value


def word(fields: Fields, key: str, known: str, what: str) -> None:
    """Refuse any other word than the one that version 1 knows."""
    if fields.get(key) != known:
        raise FormatError(f"{what} has no valid {key!r}: this program knows {known!r}")
