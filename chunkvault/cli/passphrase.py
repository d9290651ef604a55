"""Where a passphrase comes from: a file, a command, the environment, or a person at a terminal.

Never from the command line, where every user of the machine could read it, and never from stdin,
which may be the data. Without a terminal a missing passphrase is an error at once. A passphrase is
UTF-8 text of one line; no message here quotes any of it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import termios
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from chunkvault.cli.context import PASSPHRASE, PASSPHRASE_FILE
from chunkvault.errors import PassphraseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chunkvault.cli.context import Context

MAX_SIZE: Final = 64 * 1024
"""Bytes; more than this is some other file."""
_TERMINAL: Final = "/dev/tty"
_HOW: Final = (
    "use --passphrase-file or --passphrase-command, or set CHUNKVAULT_PASSPHRASE or "
    "CHUNKVAULT_PASSPHRASE_FILE"
)


@dataclass(frozen=True)
class PassphraseSource:
    """Which options were given; at most one of the two.

    Attributes:
        file: path of a file that holds it.
        command: a command line that prints it, split like a shell would, run without one.
    """

    file: str | None = None
    command: str | None = None

    def __post_init__(self) -> None:
        if self.file is not None and self.command is not None:
            raise UsageError("give the passphrase by a file or by a command, not by both")

    @property
    def given(self) -> bool:
        """Whether an option names it."""
        return self.file is not None or self.command is not None

    def read(self) -> str:
        """The passphrase that the options name.

        Raises:
            PassphraseError: it cannot be had that way.
        """
        if self.command is not None:
            return from_command(self.command)
        return from_file(self.file or "")


def find_passphrase(
    source: PassphraseSource,
    context: Context,
    *,
    terminal: Terminal,
    twice: bool = False,
) -> str:
    """The vault's passphrase: by option, else by environment, else asked for.

    Raises:
        PassphraseError: there is none, or what was named did not give one.
    """
    if source.given:
        return source.read()
    direct = context.variable(PASSPHRASE)
    if direct is not None:
        return check(os.fsencode(direct), PASSPHRASE)
    path = context.variable(PASSPHRASE_FILE)
    if path is not None:
        return from_file(path)
    return ask(terminal, "vault passphrase", twice=twice, how=_HOW)


def find_new_passphrase(source: PassphraseSource, *, terminal: Terminal) -> str:
    """A further passphrase: by option, else asked for twice.

    Raises:
        PassphraseError: there is none, or what was named did not give one.
    """
    if source.given:
        return source.read()
    how = "use --new-passphrase-file or --new-passphrase-command"
    return ask(terminal, "new passphrase", twice=True, how=how)


def check(data: bytes, origin: str) -> str:
    """Bytes as a passphrase, without the one newline that ends a file.

    Raises:
        PassphraseError: empty, longer than a line, or not text.
    """
    if len(data) > MAX_SIZE:
        raise PassphraseError(f"{origin} gives more than 64 KiB: that is no passphrase")
    if data.endswith(b"\n"):
        data = data[:-1].removesuffix(b"\r")
    if not data:
        raise PassphraseError(f"{origin} gives an empty passphrase")
    if b"\n" in data:
        raise PassphraseError(f"{origin} gives more than one line: a passphrase is a single one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise PassphraseError(f"{origin} gives bytes that are not UTF-8 text") from None


def from_file(path: str) -> str:
    """The passphrase a file holds.

    Raises:
        PassphraseError: it cannot be read, or holds none.
    """
    origin = f"passphrase file {path!r}"
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise PassphraseError(f"{origin} cannot be read: {why}") from error
    return check(data, origin)


def from_command(line: str) -> str:
    """The passphrase a command prints.

    The line is split into words like a shell would, and run without one; it gets no stdin, which
    may be the data to back up.

    Raises:
        PassphraseError: it cannot be run, fails, or prints none.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--passphrase-command cannot be split into words: {error}") from error
    if not words:
        raise UsageError("--passphrase-command is empty")
    origin = f"passphrase command {words[0]!r}"  # its arguments may be secret
    try:
        with subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as process:
            data = _read_bounded(process)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise PassphraseError(f"{origin} cannot be run: {why}") from error
    if len(data) <= MAX_SIZE and process.returncode != 0:
        raise PassphraseError(f"{origin} failed with exit code {process.returncode}")
    return check(data, origin)


def _read_bounded(process: subprocess.Popen[bytes]) -> bytes:
    pipe: IO[bytes] | None = process.stdout
    data = pipe.read(MAX_SIZE + 1) if pipe is not None else b""
    if len(data) > MAX_SIZE:
        process.kill()
    return data


class Terminal:
    """The person at the controlling terminal, if there is one.

    Attributes:
        present: stdin or stderr is a terminal, so that somebody can be assumed to sit there.
        restore: set while a question is open: puts the terminal right before a sudden end.
    """

    def __init__(self, *, present: bool, path: str = _TERMINAL) -> None:
        self.present = present
        self.restore: Callable[[], None] | None = None
        self._path = path

    def ask(self, prompt: str) -> bytes:
        """One line typed without echo.

        Raises:
            OSError: there is no terminal after all.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            with self._without_echo(descriptor):
                os.write(descriptor, prompt.encode("ascii", "backslashreplace"))
                return _read_line(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _without_echo(self, descriptor: int) -> Iterator[None]:
        before = termios.tcgetattr(descriptor)
        silent = termios.tcgetattr(descriptor)
        silent[3] &= ~termios.ECHO

        def restore() -> None:
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
            os.write(descriptor, b"\n")

        self.restore = restore
        try:
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, silent)
            yield
        finally:
            self.restore = None
            restore()


def _read_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) <= MAX_SIZE:
        data = os.read(descriptor, 4096)
        if not data:
            break
        line += data
    return line


def ask(terminal: Terminal, what: str, *, twice: bool, how: str) -> str:
    """Ask a person.

    Raises:
        PassphraseError: nobody is there to ask, nothing was typed, or the two differ.
    """
    if not terminal.present:
        raise PassphraseError(f"no {what} given, and no terminal to ask at: {how}")
    try:
        first = terminal.ask(f"{what}: ")
        second = terminal.ask(f"{what}, again: ") if twice else first
    except (OSError, termios.error) as error:
        raise PassphraseError(f"no {what} given, and no terminal to ask at: {how}") from error
    if first != second:
        raise PassphraseError("the two passphrases differ; nothing was changed")
    return check(first, "the terminal")
