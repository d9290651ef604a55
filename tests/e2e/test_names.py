"""Names that hold anything: stored, restored, chosen and printed without harm."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Cli, Variables

NAMES = [
    b"\xfe", b"\xff", "\ufffd".encode(), "ä.txt".encode(), b"a\nb", b"x\x1b]0;pwn\x07", b"\r ok",
    b"[abc].txt", b"[.txt", b"a*b", b"a?b", b"back\\slash", b"-rf", b"--help", b" lead", b"trail ",
    b"#c", b"!n", b"~x", b"a:b", b"axb", b"a.txt", "\u202egnp.exe".encode(),
]  # fmt: skip
ASCII = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii:strict",
}


@pytest.fixture
def odd(cli: Cli) -> Path:
    """A vault with a snapshot of a folder of odd names."""
    folder = cli.home / "src"
    folder.mkdir()
    for name in NAMES:
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(name)
    cli.run("init")
    cli.run("backup", folder)
    return folder


def restored(folder: Path) -> dict[bytes, bytes]:
    found = {}
    for name in os.listdir(os.fsencode(folder)):
        with open(os.path.join(os.fsencode(folder), name), "rb") as file:
            found[name] = file.read()
    return found


@pytest.mark.parametrize("variables", [{}, ASCII], ids=["utf8", "ascii"])
def test_all_names_come_back_exactly(cli: Cli, odd: Path, variables: Variables) -> None:
    cli.run("backup", "-v", odd, env=variables)
    cli.run("restore", f"latest:{odd}", "-t", "out", env=variables)
    assert restored(cli.home / "out") == {name: name for name in NAMES}


@pytest.mark.parametrize("variables", [{}, ASCII], ids=["utf8", "ascii"])
@pytest.mark.parametrize("options", [(), ("-l",), ("-R",)], ids=["short", "long", "deep"])
def test_one_entry_is_one_line_without_control_characters(
    cli: Cli, odd: Path, variables: Variables, options: tuple[str, ...]
) -> None:
    out = cli.run("ls", *options, f"latest:{odd}", env=variables).stdout
    lines = out.decode("ascii" if variables else "utf-8").splitlines()
    assert len(lines) == len(NAMES)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("variables", [{}, ASCII], ids=["utf8", "ascii"])
def test_json_is_valid_and_gives_the_exact_bytes(cli: Cli, odd: Path, variables: Variables) -> None:
    entries = cli.json("ls", f"latest:{odd}", env=variables)["entries"]
    paths = {
        base64.b64decode(one["path_bytes"]) if "path_bytes" in one else one["path"].encode()
        for one in entries
    }
    assert paths == {os.fsencode(odd) + b"/" + name for name in NAMES}


def test_a_nul_separated_listing_is_exact(cli: Cli, odd: Path) -> None:
    out = cli.run("ls", "-0", f"latest:{odd}").stdout
    assert set(out.split(b"\0")[:-1]) == {os.fsencode(odd) + b"/" + name for name in NAMES}
    assert out.endswith(b"\0")


def test_an_exact_path_selects_exactly_that_file(cli: Cli, odd: Path) -> None:
    """Patterns among the names would also match others, which must not come."""
    chosen = [name for name in NAMES if b"a" in name or name in {b"-rf", b"\xfe", b"#c"}]
    selections = [b"latest:" + os.fsencode(odd) + b"/" + name for name in chosen]
    cli.run("restore", "--target", "out", "--", *selections)
    assert restored(cli.home / "out") == {name: name for name in chosen}
    cli.run("restore", f"latest:{odd}/a*b", "--target", "one")
    assert restored(cli.home / "one") == {b"a*b": b"a*b"}


def test_a_pattern_that_is_no_name_matches_nothing(cli: Cli, odd: Path) -> None:
    cli.run("restore", f"latest:{odd}/a+b", "-t", "out", expect=1)
    cli.run("restore", f"latest:{odd}/*", "-t", "out", expect=1)


def test_each_name_can_be_a_source(cli: Cli, odd: Path) -> None:
    cli.run("backup", "--", *(os.fsencode(odd) + b"/" + name for name in NAMES))
    assert len(cli.json("ls", f"latest:{odd}")["entries"]) == len(NAMES)


def test_names_come_from_a_file_too(cli: Cli, odd: Path) -> None:
    """NUL-separated all of them, by lines those without a newline, relative to the folder."""
    (cli.home / "by-nul").write_bytes(b"".join(b"src/" + name + b"\0" for name in NAMES))
    cli.run("backup", "--files-from", "by-nul", "-0")
    assert len(cli.json("ls", f"latest:{odd}")["entries"]) == len(NAMES)
    plain = [name for name in NAMES if b"\n" not in name]
    listed = b"".join(b"src/" + name + b"\n" for name in plain)
    cli.run("backup", "--files-from", "-", stdin=listed)
    assert len(cli.json("ls", f"latest:{odd}")["entries"]) == len(plain)


def test_odd_names_in_errors_stay_on_their_line(cli: Cli, odd: Path) -> None:
    done = cli.run("ls", f"latest:{odd}/no\x1b[31m\nsuch", expect=1)
    assert done.stderr.decode().rstrip("\n").splitlines()[-1].isprintable()
    assert b"\x1b" not in done.stderr
