"""The two streams: results on stdout, everything else on stderr.

What lives here: the only writing to either. With ``--json``, stdout holds exactly one object,
whatever happens; a long list in it is written as it comes, and the verdict (``ok``, ``exit_code``)
stands at its end, so that a listing that fails half-way is still one object.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from chunkvault.cli.render import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM: Final = "chunkvault"


def _dumps(value: object) -> str:
    # ASCII only: the stream's encoding cannot spoil it, and it is valid UTF-8 all the same.
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


class Output:
    """stdout, as lines for people or as one JSON object.

    Attributes:
        json: one JSON object instead of lines.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.json = as_json
        self._list_open = False
        self._items = 0
        self._finished = False
        if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")

    @property
    def binary(self) -> BinaryIO:
        """Stdout for bytes; what was written as text goes first."""
        sys.stdout.flush()
        return sys.stdout.buffer

    def line(self, text: str) -> None:
        """A line for people; cleaned by whoever made it."""
        sys.stdout.write(text + "\n")

    def begin_list(self, command: str, name: str) -> None:
        """Open the object with a list of its own, whose items follow one by one."""
        self._list_open = True
        sys.stdout.write(f'{{"command": {_dumps(command)}, {_dumps(name)}: [')

    def item(self, value: Mapping[str, object]) -> None:
        """One item of the open list."""
        sys.stdout.write(("\n" if not self._items else ",\n") + _dumps(value))
        self._items += 1

    def finish(self, value: Mapping[str, object]) -> None:
        """Write the object, or the rest of it; later calls write nothing, so one object is all."""
        if not self.json or self._finished:
            return
        self._finished = True
        text = _dumps(value)
        if self._list_open:
            rest = {key: item for key, item in value.items() if key != "command"}
            text = "]" + (", " + _dumps(rest)[1:] if rest else "}")
        sys.stdout.write(text + "\n")
        self.flush()

    def last_words(self, value: Mapping[str, object]) -> None:
        """Like ``finish``, past the stream's buffer, which a signal handler must not enter.

        Where part of the object is out already, it stays a part.
        """
        if self.json and not self._finished and not self._list_open:
            self._finished = True
            os.write(sys.stdout.fileno(), (_dumps(value) + "\n").encode("ascii"))

    def flush(self) -> None:
        """Hand everything to the system, so that errors show here and not at exit."""
        sys.stdout.flush()


class Bar(Protocol):
    """Something drawn at the bottom of the terminal, above which lines are printed."""

    def print_above(self, text: str) -> None:
        """Print a line without spoiling the bar."""
        ...


class Messages:
    """stderr: lines from any thread, one at a time, never a control character in them.

    Attributes:
        quiet: notes are dropped; warnings and errors are not.
        bar: what is drawn there at the moment.
    """

    def __init__(self) -> None:
        self.quiet = False
        self.bar: Bar | None = None
        self.lock = threading.RLock()

    def note(self, text: str) -> None:
        """Worth knowing, but not with --quiet."""
        if not self.quiet:
            self._write(text)

    def warning(self, text: str) -> None:
        """Something was skipped or is damaged."""
        self._write(f"{PROGRAM}: warning: {text}")

    def error(self, text: str) -> None:
        """Why the run failed."""
        self._write(f"{PROGRAM}: error: {text}")

    def last_words(self, text: str) -> None:
        """An error, past the stream's buffer and its lock; for signal handlers."""
        cursor = "\x1b[?25h\n" if self.bar is not None else ""
        line = f"{cursor}{PROGRAM}: error: {clean(text)}\n"
        with contextlib.suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), line.encode("ascii", "backslashreplace"))

    def raw(self, text: str) -> None:
        """Several lines as they are; for tracebacks that were asked for."""
        for line in text.splitlines():
            self._write(line)

    def _write(self, text: str) -> None:
        line = clean(text)
        with self.lock:
            if self.bar is not None:
                self.bar.print_above(line)
            elif sys.stderr is not None:
                try:
                    sys.stderr.write(line + "\n")
                    sys.stderr.flush()
                except (OSError, ValueError):  # nobody listens; the exit code still tells
                    pass
