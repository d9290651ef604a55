"""Rendering: one line without control characters for people, reversible UTF-8 for programs."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkvault.cli import render
from chunkvault.format.entry import Entry, FileType

NASTY = [b"a\nb", b"x\x1b]0;pwn\x07", b"\r ok", b"\xfe", b"\xff", b"\xc3\xa4", b"\xe2\x80\xaegnp"]


def entry(path: bytes, **fields: object) -> Entry:
    base = Entry(path, FileType.FILE, 0o640, 1, 2, 1_700_000_000_000_000_000, 3, 0, 5, 6, 1)
    return base._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_one_printable_line(name: bytes) -> None:
    assert render.path_text(name).isprintable()


@given(st.binary())
def test_any_path_is_one_printable_line(path: bytes) -> None:
    assert render.path_text(path).isprintable()


@given(st.text(st.characters(codec=None)))
def test_clean_leaves_no_control_character_in_any_text(text: str) -> None:
    assert render.clean(text).isprintable()


def test_clean_leaves_printable_text_alone() -> None:
    assert render.clean("ä ß 漢 \\x") == "ä ß 漢 \\x"


def test_clean_shows_the_bytes_behind_surrogates() -> None:
    assert render.clean("\udcfe\n") == "\\xfe\\n"


@given(st.binary())
def test_a_path_can_be_had_back_from_its_json(path: bytes) -> None:
    value = json.loads(json.dumps(render.bytes_json(path)).encode("utf-8"))
    if "path_bytes" in value:
        assert base64.b64decode(value["path_bytes"]) == path
    else:
        assert value["path"].encode("utf-8") == path
    value["path"].encode("utf-8")  # no lone surrogates


def test_a_utf8_path_needs_no_second_form() -> None:
    assert render.bytes_json("ä".encode()) == {"path": "ä"}


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_valid_utf8_in_json(text: str) -> None:
    render.text_json(text).encode("utf-8")


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (201_300_000, "201.3 MB"),
        (999_960, "1.0 MB"),
        (5 * 10**18, "5.0 EB"),
    ],
)
def test_sizes_are_decimal_and_short(number: int, shown: str) -> None:
    assert render.size(number) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (59.97, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations_read_as_people_say_them(seconds: float, shown: str) -> None:
    assert render.duration(seconds) == shown


def test_counts_agree_with_their_nouns() -> None:
    assert render.count(1, "file") == "1 file"
    assert render.count(50_000, "file") == "50,000 files"


@pytest.mark.parametrize("nanoseconds", [10**27, -(10**27)])
def test_a_time_beyond_the_calendar_is_shown_all_the_same(nanoseconds: int) -> None:
    assert render.moment(nanoseconds) == f"@{nanoseconds // 10**9}"


def test_a_table_is_aligned_and_has_no_trailing_blanks() -> None:
    lines = render.table([("a", "1", "x"), ("bbb", "22", "")], right=frozenset({1}))
    assert lines == ["a     1  x", "bbb  22"]


def test_a_long_line_tells_type_mode_and_link_target() -> None:
    link = entry(b"l\n", type=FileType.SYMLINK, mode=0o777, target=b"\x1b[0m")
    mode, user, group, size, when, name = render.long_entry(link)
    assert (mode, user, group, size) == ("lrwxrwxrwx", "1", "2", "3")
    assert when == "2023-11-14 22:13:20"
    assert name == "/l\\n -> \\x1b[0m"


def test_an_entrys_json_has_its_exact_target() -> None:
    value = render.entry_json(entry(b"l", type=FileType.SYMLINK, target=b"\xff"))
    assert value["path"] == "/l"
    assert value["type"] == "symlink"
    assert base64.b64decode(str(value["target_bytes"])) == b"\xff"
    assert value["mtime_ns"] == 1_700_000_000_000_000_000
