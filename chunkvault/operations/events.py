"""What a running operation tells whoever started it: notices, and a progress that can be polled.

What lives here: the values and the sink. What may not: any rendering; that is the command line's.
Progress is a plain object that the operation writes and a renderer reads when it likes, because a
call for each of a million files would cost more than the files do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """How much a notice matters."""

    NOTE = "note"
    """Worth knowing; the result is complete."""

    WARNING = "warning"
    """Something was skipped, changed underway or is damaged; the run ends with exit code 3."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened.

    Attributes:
        level: NOTE or WARNING.
        kind: a short stable word for grouping: ``unreadable``, ``vanished``, ``owner``…
        message: one line for a person; names in it are already printable.
        path: the path concerned, as bytes, where there is one.
    """

    level: Level
    kind: str
    message: str
    path: bytes | None = None


@dataclass(slots=True)
class Progress:
    """Counters that only grow, written by the operation.

    Attributes:
        phase: what is going on, in a word or two.
        files: entries done.
        size: bytes of content done.
        total_files: entries in all, None while unknown.
        total_size: bytes in all, None while unknown.
        current: path being worked on.
    """

    phase: str = ""
    files: int = 0
    size: int = 0
    total_files: int | None = None
    total_size: int | None = None
    current: bytes = b""


@dataclass(slots=True)
class Events:
    """The sink of one run; subclass it to hear of notices as they come.

    Attributes:
        notices: the first ``keep`` notices; ``counts`` knows of all.
        counts: notices by (level, kind).
    """

    progress: Progress = field(default_factory=Progress)
    notices: list[Notice] = field(default_factory=list)
    counts: dict[tuple[Level, str], int] = field(default_factory=dict)
    keep: int = 10_000

    def notice(self, notice: Notice) -> None:
        """Take a notice; called from any thread of the operation."""
        key = (notice.level, notice.kind)
        self.counts[key] = self.counts.get(key, 0) + 1
        if len(self.notices) < self.keep:
            self.notices.append(notice)

    def note(self, kind: str, message: str, path: bytes | None = None) -> None:
        """Tell something that leaves the result complete."""
        self.notice(Notice(Level.NOTE, kind, message, path))

    def warn(self, kind: str, message: str, path: bytes | None = None) -> None:
        """Tell something that was skipped or is damaged."""
        self.notice(Notice(Level.WARNING, kind, message, path))

    @property
    def warnings(self) -> int:
        """How many warnings there were."""
        return sum(n for (level, _), n in self.counts.items() if level is Level.WARNING)
