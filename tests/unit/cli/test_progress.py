"""Progress: a bar on terminals only, and nothing at all for short runs."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest
from rich.console import Console

from chunkvault.cli.bar import RichBar
from chunkvault.cli.output import Messages
from chunkvault.cli.progress import ProgressDisplay, Style, choose_style, progress_line
from chunkvault.operations.events import Progress


@pytest.mark.parametrize(
    ("quiet", "terminal", "plain", "columns", "style"),
    [
        (True, True, False, 80, Style.NONE),
        (False, False, False, 80, Style.LINES),
        (False, True, True, 80, Style.LINES),
        (False, True, False, 0, Style.LINES),
        (False, True, False, 80, Style.BAR),
    ],
)
def test_only_a_capable_terminal_gets_a_bar(
    quiet: bool, terminal: bool, plain: bool, columns: int, style: Style
) -> None:
    assert choose_style(quiet=quiet, terminal=terminal, plain=plain, columns=columns) is style


def test_a_line_tells_how_much_of_how_much() -> None:
    progress = Progress(phase="reading", files=1200, size=4_800_000)
    assert progress_line(progress) == "reading: 1,200 files, 4.8 MB"
    progress.total_files, progress.total_size = 50_000, 201_300_000
    assert progress_line(progress) == "reading: 1,200 of 50,000 files, 4.8 MB of 201.3 MB"


def test_a_poke_prints_a_plain_line() -> None:
    printed = threading.Event()
    lines: list[str] = []

    class Listening(Messages):
        def note(self, text: str) -> None:  # type: ignore[explicit-override]
            lines.append(text)
            printed.set()

    with ProgressDisplay(Progress(phase="reading"), Listening(), Style.LINES) as display:
        display.poke()
        assert printed.wait(30)
    assert lines[0] == "chunkvault: reading: 0 files, 0 B"
    assert "\r" not in lines[0]


def test_a_short_run_does_not_load_rich() -> None:
    """The first half second draws nothing."""
    code = """
import sys
from chunkvault.cli.output import Messages
from chunkvault.cli.progress import ProgressDisplay, Style
from chunkvault.operations.events import Progress
with ProgressDisplay(Progress(), Messages(), Style.BAR):
    pass
sys.exit("rich" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_the_bar_takes_names_literally() -> None:
    """Neither markup nor terminal escapes in a path are acted upon."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200, color_system=None)
    progress = Progress(phase="reading", current=b"[red]x\x1b]0;pwn\x07", total_files=2, files=1)
    with RichBar(console) as bar:
        bar.draw(progress)
        bar.print_above("[bold]literal[/bold]")
    assert "[red]x\\x1b]0;pwn\\x07" in screen.getvalue()
    assert "[bold]literal[/bold]" in screen.getvalue()
    assert "\x1b]0;" not in screen.getvalue()
