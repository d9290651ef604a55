"""The bar on a terminal; imported only when one is drawn, because rich takes its time to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from chunkvault.cli import render
from chunkvault.cli.progress import progress_line

if TYPE_CHECKING:
    from types import TracebackType

    from chunkvault.operations.events import Progress as Counters


class RichBar:
    """One line that is redrawn: counters, a bar, the time left, the path being worked on."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(compact=True),
            TextColumn(
                "{task.fields[current]}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            expand=True,
        )
        self._task = self._progress.add_task("", total=None, current="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def draw(self, counters: Counters) -> None:
        """Redraw from the counters as they are now."""
        total = counters.total_size or counters.total_files
        done = counters.size if counters.total_size else counters.files
        self._progress.update(
            self._task,
            description=progress_line(counters),
            total=total,
            completed=done if total else 0,
            current=render.path_text(counters.current),
        )
        self._progress.refresh()

    def print_above(self, text: str) -> None:
        """Print a line above the bar, its characters taken literally."""
        self._console.print(Text(text), soft_wrap=True)
