"""What a command has to say when it is done: a value, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chunkvault.errors import ChunkvaultError


@dataclass(frozen=True)
class Report:
    """The result of a command.

    Attributes:
        fields: what ``--json`` shows.
        lines: what a person sees.
        asked_for: the lines are what the command was run for, so that --quiet keeps them.
        exit_code: None means 0, or 3 where there were warnings.
        error: why it ended early although there is a result.
    """

    fields: Mapping[str, object] = field(default_factory=dict)
    lines: Sequence[str] = ()
    asked_for: bool = False
    exit_code: int | None = None
    error: ChunkvaultError | None = None
