"""How far a run has got, on stderr: a bar on a terminal, a line a minute elsewhere, or nothing.

A small thread looks at the operation's counters when it likes; the operation knows nothing of it. A
run that is over within half a second draws nothing and never imports rich.
"""

from __future__ import annotations

import threading
import time
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from chunkvault.cli import render

if TYPE_CHECKING:
    from types import TracebackType

    from chunkvault.cli.output import Messages
    from chunkvault.operations.events import Progress

FIRST_DRAW: Final = 0.5
_REDRAW: Final = 0.2
_LINE_EVERY: Final = 60.0


class Style(Enum):
    """How progress is shown."""

    NONE = "none"
    LINES = "lines"
    BAR = "bar"


def choose_style(*, quiet: bool, terminal: bool, plain: bool, columns: int) -> Style:
    """The style for a stderr that is, or is not, a terminal of so many columns."""
    if quiet:
        return Style.NONE
    return Style.BAR if terminal and not plain and columns > 0 else Style.LINES


def progress_line(progress: Progress) -> str:
    """Progress as one line: ``reading: 1,200 of 50,000 files, 4.8 MB of 201.3 MB``."""
    files = f"{progress.files:,}"
    if progress.total_files is not None:
        files += f" of {progress.total_files:,}"
    amount = render.size(progress.size)
    if progress.total_size is not None:
        amount += f" of {render.size(progress.total_size)}"
    return f"{progress.phase or 'working'}: {files} files, {amount}"


class ProgressDisplay:
    """Shows a `Progress` while it is entered."""

    def __init__(self, progress: Progress, messages: Messages, style: Style) -> None:
        self._progress = progress
        self._messages = messages
        self._style = style
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._style is not Style.NONE:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def poke(self) -> None:
        """Show a line now; safe in a signal handler."""
        self._wake.set()

    def _run(self) -> None:
        if self._style is Style.LINES:
            self._lines()
            return
        self._wake.wait(FIRST_DRAW)
        if not self._ended:
            self._bar()

    def _lines(self) -> None:
        while True:
            self._wake.wait(_LINE_EVERY)
            if self._ended:
                return
            self._wake.clear()
            self._messages.note(f"chunkvault: {progress_line(self._progress)}")

    def _bar(self) -> None:
        from chunkvault.cli.bar import RichBar  # noqa: PLC0415 - 40 ms that short runs never pay

        with RichBar() as bar:
            with self._messages.lock:
                self._messages.bar = bar
            try:
                while not self._ended:
                    with self._messages.lock:
                        bar.draw(self._progress)
                    time.sleep(_REDRAW) if self._wake.is_set() else self._wake.wait(_REDRAW)
            finally:
                with self._messages.lock:
                    self._messages.bar = None
