"""The command stats."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from chunkvault.cli import render
from chunkvault.cli.command import add_command
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.operations.stats import stats

if TYPE_CHECKING:
    import typer

_RATIOS = ("deduplication", "compression")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "stats",
        _stats,
        examples=("chunkvault stats", "chunkvault stats --vault /mnt/disk/vault --json"),
    )


def _stats(session: Session) -> int:
    """Show how much the vault holds, and what it takes."""

    async def work() -> Report:
        async with await session.open_vault(read_only=True) as vault:
            result = await stats(vault, events=session.events)
        counts = {one.name: int(getattr(result, one.name)) for one in fields(result)}
        ratios = {name: float(getattr(result, name)) for name in _RATIOS}
        rows = [(_title(name), _shown(name, number)) for name, number in counts.items()]
        rows += [(_title(name), f"{ratio:.2f}") for name, ratio in ratios.items()]
        rounded = {name: round(ratio, 4) for name, ratio in ratios.items()}
        return Report({"stats": counts | rounded}, render.table(rows), asked_for=True)

    return session.execute("stats", work)


def _title(name: str) -> str:
    return name.replace("_", " ") + ":"


def _shown(name: str, number: int) -> str:
    return render.size(number) if name.endswith("_size") else f"{number:,}"
