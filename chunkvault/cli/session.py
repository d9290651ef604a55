"""One run of one command: from its options to an exit code.

What lives here: what all commands do alike: the vault opened, signals heard, progress and notices
shown, the result written. What may not: anything one command alone does.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from typing import TYPE_CHECKING, Final

from chunkvault.cli import render
from chunkvault.cli.context import text
from chunkvault.cli.memory import keep_freed_memory
from chunkvault.cli.passphrase import (
    PassphraseSource,
    Terminal,
    find_new_passphrase,
    find_passphrase,
)
from chunkvault.cli.progress import ProgressDisplay, choose_style
from chunkvault.cli.signals import INTERRUPTED, Signals
from chunkvault.errors import ChunkvaultError, Interrupted
from chunkvault.operations.events import Events, Level, Notice

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from chunkvault.cli.context import Context
    from chunkvault.cli.options import Common
    from chunkvault.cli.output import Messages, Output
    from chunkvault.cli.report import Report
    from chunkvault.store.base import Store
    from chunkvault.vault.vault import Vault

SOME_SKIPPED: Final = 3
ANY_HOST: Final = "*"
_SHOWN_OF_A_KIND: Final = 20
_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")


class ShownEvents(Events):
    """Events whose notices appear on stderr as they come, the first few of each kind."""

    def __init__(self, messages: Messages) -> None:
        super().__init__()
        self.show_all = False
        self._messages = messages

    # typing.override needs Python 3.12
    def notice(self, notice: Notice) -> None:  # type: ignore[explicit-override]
        """Keep it, count it, show it."""
        super().notice(notice)
        if self.show_all or self.counts[notice.level, notice.kind] <= _SHOWN_OF_A_KIND:
            if notice.level is Level.WARNING:
                self._messages.warning(notice.message)
            else:
                self._messages.note(f"chunkvault: {notice.message}")

    def show_rest(self) -> None:
        """Say how many were not shown."""
        if self.show_all:
            return
        for (level, kind), number in self.counts.items():
            if number > _SHOWN_OF_A_KIND:
                rest = f"{number - _SHOWN_OF_A_KIND:,} more of this kind ({kind}); -v shows all"
                if level is Level.WARNING:
                    self._messages.warning(rest)
                else:
                    self._messages.note(f"chunkvault: {rest}")

    def as_json(self, level: Level) -> list[dict[str, object]]:
        """The notices of one level."""
        return [render.notice_json(one) for one in self.notices if one.level is level]


class Session:
    """What a command gets to work with.

    Attributes:
        context: the world outside.
        output: stdout.
        messages: stderr.
        terminal: for questions.
        events: the operation's sink.
        stop: set when the run should end early.
        verbose: show all there is.
        command: the command's name, once it is known.
    """

    def __init__(self, context: Context, output: Output, messages: Messages) -> None:
        self.context = context
        self.output = output
        self.messages = messages
        self.events = ShownEvents(messages)
        self.stop = threading.Event()
        self.verbose = False
        self.command = ""
        self.terminal = Terminal(present=_is_terminal(sys.stdin) or _is_terminal(sys.stderr))
        self._common: Common | None = None

    def configure(self, common: Common) -> None:
        """Take the options that all commands have."""
        self._common = common
        self.output.json = common.json
        self.messages.quiet = common.quiet
        self.verbose = self.events.show_all = common.verbose

    @property
    def common(self) -> Common:
        """The options that all commands have."""
        if self._common is None:
            raise RuntimeError("the session was not configured")
        return self._common

    # What commands ask for

    @property
    def location(self) -> str:
        """The vault that was named.

        Raises:
            UsageError: none was.
        """
        return self.context.vault_location(self.common.vault)

    @property
    def passphrase_source(self) -> PassphraseSource:
        """Where the options say the passphrase is."""
        return PassphraseSource(self.common.passphrase_file, self.common.passphrase_command)

    def passphrase(self, *, twice: bool = False) -> str:
        """The vault's passphrase; asks a person where there is no other way."""
        return find_passphrase(
            self.passphrase_source, self.context, terminal=self.terminal, twice=twice
        )

    def new_passphrase(self, source: PassphraseSource) -> str:
        """A further passphrase for the vault."""
        return find_new_passphrase(source, terminal=self.terminal)

    def host(self, option: str | None) -> str | None:
        """The host whose snapshots are meant; None for any."""
        if option == ANY_HOST:
            return None
        return self.context.hostname if option is None else text(option)

    def store(self) -> Store:
        """The location that was named; not necessarily a vault yet."""
        from chunkvault.store.location import (  # noqa: PLC0415 - parsing errors need none of it
            open_store,
            parse_location,
        )

        return open_store(parse_location(self.location), notice=self._vault_notice)

    async def open_vault(self, *, read_only: bool = False) -> Vault:
        """Open the vault that was named.

        Raises:
            ChunkvaultError: it cannot be opened.
        """
        from chunkvault.vault.vault import open_vault  # noqa: PLC0415 - likewise

        _ = self.passphrase_source  # a contradiction shows before anything is touched
        store = self.store()
        try:
            return await open_vault(
                store,
                passphrase=self.passphrase,
                cache_dir=self.context.cache_dir(self.common.cache_dir),
                notice=self._vault_notice,
                read_only=read_only,
            )
        except BaseException:
            await store.close()
            raise

    def _vault_notice(self, message: str) -> None:
        self.events.note("vault", message)

    # The run

    def execute(
        self,
        command: str,
        work: Callable[[], Coroutine[Any, Any, Report]],
        *,
        watches_stop: bool = False,
    ) -> int:
        """Run a command's work and write what it has to say.

        Args:
            command: its name, for --json.
            work: the coroutine function.
            watches_stop: it ends by itself when ``stop`` is set; otherwise it is cancelled.

        Returns:
            The exit code.
        """
        self.command = command
        keep_freed_memory()
        style = choose_style(
            quiet=self.messages.quiet,
            terminal=_is_terminal(sys.stderr),
            plain=self.context.plain_terminal,
            columns=_columns(),
        )
        display = ProgressDisplay(self.events.progress, self.messages, style)
        signals = Signals(self.terminal, self.stop, abort=self._abort, poke=display.poke)
        with signals, display:
            report = asyncio.run(self._guarded(work, signals, watches_stop=watches_stop))
        self.events.show_rest()
        return self._finish(report)

    async def _guarded(
        self,
        work: Callable[[], Coroutine[Any, Any, Report]],
        signals: Signals,
        *,
        watches_stop: bool,
    ) -> Report:
        task = asyncio.current_task()
        if not watches_stop and task is not None:
            loop = asyncio.get_running_loop()
            signals.on_stop = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            return await work()
        except asyncio.CancelledError:
            if self.stop.is_set():
                raise Interrupted("stopped by a signal") from None
            raise

    def _finish(self, report: Report) -> int:
        code = report.exit_code
        if code is None:
            code = SOME_SKIPPED if self.events.warnings else 0
        if self.output.json:
            verdict = self._verdict(code) | dict(report.fields)
            if report.error is not None:
                verdict["error"] = _error_json(error_kind(report.error), str(report.error))
            self.output.finish(verdict)
        elif report.asked_for or not self.messages.quiet:
            for line in report.lines:
                self.output.line(line)
        self.output.flush()
        if report.error is not None:
            self.messages.error(str(report.error))
        return code

    def fail(self, kind: str, message: str, exit_code: int) -> int:
        """Say why the run failed.

        Args:
            kind: a stable word for programs.
            message: one line for a person.
            exit_code: what the process will end with.

        Returns:
            The exit code.
        """
        self.events.show_rest()
        self.messages.error(message)
        self.output.finish(self._verdict(exit_code) | {"error": _error_json(kind, message)})
        return exit_code

    def _verdict(self, code: int) -> dict[str, object]:
        return {
            "command": self.command,
            "ok": code in {0, SOME_SKIPPED},
            "exit_code": code,
            "warnings": self.events.as_json(Level.WARNING),
            "notes": self.events.as_json(Level.NOTE),
        }

    def _abort(self) -> None:
        """The last words of a run that is cut short; called in a signal handler."""
        message = "aborted at once by a signal"
        self.messages.last_words(message)
        error = {"error": _error_json("interrupted", message)}
        self.output.last_words(self._verdict(INTERRUPTED) | error)


def error_kind(error: ChunkvaultError) -> str:
    """The word for an error in --json: its class in lower case, ``not-a-vault``, ``passphrase``."""
    name = type(error).__name__.removesuffix("Error")
    return _WORDS.sub("-", name).lower() or "error"


def _error_json(kind: str, message: str) -> dict[str, str]:
    return {"kind": kind, "message": render.clean(message)}


def _is_terminal(stream: object) -> bool:
    try:
        return stream is not None and os.isatty(stream.fileno())  # type: ignore[attr-defined]
    except (OSError, ValueError):
        return False


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 0
