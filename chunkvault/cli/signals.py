"""Signals while an operation runs: the first asks it to end, the second SIGINT ends it at once.

SIGUSR1 asks for a line of progress. Handlers only set flags or end the process; what they ask for
happens elsewhere.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final, NoReturn, Self

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from chunkvault.cli.passphrase import Terminal

INTERRUPTED: Final = 130


class Signals:
    """Handlers for as long as it is entered.

    Attributes:
        stop: set by the first SIGINT or SIGTERM.
        on_stop: called once with it, to cancel what does not watch ``stop``.
    """

    def __init__(
        self,
        terminal: Terminal,
        stop: threading.Event,
        *,
        abort: Callable[[], None],
        poke: Callable[[], None],
    ) -> None:
        self.stop = stop
        self.on_stop: Callable[[], object] | None = None
        self._terminal = terminal
        self._abort = abort
        self._poke = poke
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stopped)
        self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, lambda *_: self._poke())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stopped(self, number: int, _frame: FrameType | None) -> None:
        asking = self._terminal.restore
        if asking is not None:  # a question is open: nothing was begun that would need an end
            asking()
            self._end()
        if self.stop.is_set():
            if number == signal.SIGINT:
                self._end()
            return
        self.stop.set()
        if self.on_stop is not None:
            self.on_stop()

    def _end(self) -> NoReturn:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)  # the last words are said once, and whole
        try:
            self._abort()
        finally:
            os._exit(INTERRUPTED)
