"""Passphrases: where they may come from, and that a missing one is an error at once."""

from __future__ import annotations

import os
import pty
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from chunkvault.cli.context import Context
from chunkvault.cli.passphrase import (
    MAX_SIZE,
    PassphraseSource,
    Terminal,
    find_new_passphrase,
    find_passphrase,
    from_command,
    from_file,
)
from chunkvault.errors import PassphraseError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = Terminal(present=False)
SECRET = "correct horse"  # noqa: S105


def context(**variables: str) -> Context:
    return Context(environment=variables, hostname="h", username="u", clock_ns=lambda: 0)


def python(code: str) -> str:
    return f"{sys.executable} -c '{code}'"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"secret", "secret"),
        (b"secret\n", "secret"),
        (b"secret\r\n", "secret"),
        (b" secret \n", " secret "),
        ("pässwörd\n".encode(), "pässwörd"),
    ],
)
def test_one_trailing_newline_is_not_part_of_it(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "p"
    path.write_bytes(content)
    assert from_file(str(path)) == expected


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"two\nlines\n", "more than one line"),
        (b"secret\n\n", "more than one line"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * (MAX_SIZE + 1), "64 KiB"),
    ],
)
def test_what_is_no_passphrase_is_refused_without_quoting_it(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "p"
    path.write_bytes(content)
    with pytest.raises(PassphraseError, match=why) as caught:
        from_file(str(path))
    assert "lines" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PassphraseError, match=r"nothing.*No such file"):
        from_file(str(tmp_path / "nothing"))


def test_a_command_is_split_like_a_shell_would_and_run_without_one() -> None:
    assert from_command(f"""{sys.executable} -c 'print("a  $HOME b")'""") == "a  $HOME b"


def test_a_command_gets_no_stdin() -> None:
    """Stdin may be the data to back up."""
    assert from_command(python("import sys; print(len(sys.stdin.read()))")) == "0"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ('print("x"); raise SystemExit(7)', "exit code 7"),
        ("pass", "empty"),
        ('print("one"); print("two")', "more than one line"),
        ('print("x" * 70000)', "64 KiB"),
        ('import sys\nwhile True: sys.stdout.write("x" * 4096)', "64 KiB"),
    ],
)
def test_a_command_that_gives_no_passphrase_is_fatal(code: str, why: str) -> None:
    with pytest.raises(PassphraseError, match=why):
        from_command(python(code))


def test_a_commands_arguments_are_not_repeated_in_messages() -> None:
    with pytest.raises(PassphraseError) as caught:
        from_command(f"false {SECRET}")
    assert "correct" not in str(caught.value)
    assert "'false'" in str(caught.value)


@pytest.mark.parametrize("line", ["", "   ", "echo 'unfinished"])
def test_a_command_line_that_cannot_be_split_is_a_usage_error(line: str) -> None:
    with pytest.raises(UsageError):
        from_command(line)


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(PassphraseError, match=r"no-such-command.*cannot be run"):
        from_command("no-such-command --now")


def test_file_and_command_contradict_each_other() -> None:
    with pytest.raises(UsageError):
        PassphraseSource("f", "c")


def test_an_option_wins_over_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text("from file\n")
    world = context(CHUNKVAULT_PASSPHRASE="from variable")  # noqa: S106
    source = PassphraseSource(file=str(path))
    assert find_passphrase(source, world, terminal=NOBODY) == "from file"
    assert find_passphrase(PassphraseSource(), world, terminal=NOBODY) == "from variable"


def test_the_environment_may_name_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text("from file\n")
    world = context(CHUNKVAULT_PASSPHRASE_FILE=str(path))
    assert find_passphrase(PassphraseSource(), world, terminal=NOBODY) == "from file"


def test_nobody_to_ask_is_an_error_that_names_the_options() -> None:
    with pytest.raises(PassphraseError, match="--passphrase-file") as caught:
        find_passphrase(PassphraseSource(), context(), terminal=NOBODY)
    assert "CHUNKVAULT_PASSPHRASE" in str(caught.value)
    with pytest.raises(PassphraseError, match="--new-passphrase-file"):
        find_new_passphrase(PassphraseSource(), terminal=NOBODY)


def test_a_terminal_that_cannot_be_opened_is_nobody() -> None:
    terminal = Terminal(present=True, path="/nonexistent/tty")
    with pytest.raises(PassphraseError, match="no terminal"):
        find_passphrase(PassphraseSource(), context(), terminal=terminal)


class Person:
    """Types lines at a pseudo terminal once a prompt has appeared, and notes what was on screen."""

    def __init__(self, *lines: bytes) -> None:
        self.leader, follower = pty.openpty()
        self.terminal = Terminal(present=True, path=os.ttyname(follower))
        self._follower = follower
        self._lines = lines
        self.screen = b""
        self._thread = threading.Thread(target=self._type)

    def __enter__(self) -> Person:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        os.close(self.leader)
        os.close(self._follower)

    def _type(self) -> None:
        for line in self._lines:
            while not self.screen.endswith(b": "):
                self.screen += os.read(self.leader, 1024)
            os.write(self.leader, line)
            self.screen += os.read(self.leader, 1024)


def test_what_is_typed_is_not_shown() -> None:
    with Person(b"typed\n") as person:
        found = find_passphrase(PassphraseSource(), context(), terminal=person.terminal)
    assert found == "typed"
    assert b"typed" not in person.screen
    assert person.terminal.restore is None


def test_a_new_passphrase_is_asked_for_twice() -> None:
    with Person(b"one\n", b"one\n") as person:
        assert find_new_passphrase(PassphraseSource(), terminal=person.terminal) == "one"
    with Person(b"one\n", b"other\n") as person, pytest.raises(PassphraseError, match="differ"):
        find_new_passphrase(PassphraseSource(), terminal=person.terminal)


def test_the_environment_is_not_in_a_contexts_repr() -> None:
    assert SECRET not in repr(context(CHUNKVAULT_PASSPHRASE=SECRET))
