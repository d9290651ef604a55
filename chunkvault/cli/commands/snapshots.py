"""The command snapshots."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from chunkvault.cli import render
from chunkvault.cli.command import add_command
from chunkvault.cli.context import text
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.operations.select import Listed, covers, list_snapshots


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "snapshots",
        _snapshots,
        examples=(
            "chunkvault snapshots",
            "chunkvault snapshots --host laptop --path ~/photos --json",
        ),
    )


def _snapshots(
    session: Session,
    *,
    host: Annotated[
        str | None, typer.Option("--host", metavar="NAME", help="Only those of this host.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TEXT", help="Only those that have all of these tags."),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option("--path", metavar="PATH", help="Only those that may hold it."),
    ] = None,
) -> int:
    """List the snapshots of all hosts, oldest first; times are UTC."""
    wanted_host = None if host is None else session.host(host)
    wanted_tags = {text(one) for one in tag or ()}
    wanted_path = None if path is None else os.path.abspath(os.fsencode(path)).strip(b"/")  # noqa: PTH100 - bytes

    def is_wanted(listed: Listed) -> bool:
        snapshot = listed.snapshot
        return (
            (wanted_host is None or snapshot.hostname == wanted_host)
            and wanted_tags <= set(snapshot.tags)
            and (wanted_path is None or covers(snapshot.roots, wanted_path))
        )

    async def work() -> Report:
        async with await session.open_vault(read_only=True) as vault:
            listed = [
                one for one in await list_snapshots(vault, events=session.events) if is_wanted(one)
            ]
        fields = {"snapshots": [render.snapshot_json(one.id, one.snapshot) for one in listed]}
        return Report(fields, _table(listed), asked_for=True)

    return session.execute("snapshots", work)


def _table(snapshots: list[Listed]) -> list[str]:
    if not snapshots:
        return ["no snapshots"]
    rows = [("ID", "TIME (UTC)", "HOST", "FILES", "SIZE", "TAGS", "PATHS"), *map(_row, snapshots)]
    return render.table(rows, right=frozenset({3, 4}))


def _row(listed: Listed) -> tuple[str, ...]:
    snapshot = listed.snapshot
    tags = [*snapshot.tags, *(["(partial)"] if snapshot.partial else [])]
    return (
        render.short_id(listed.id),
        render.moment(snapshot.started_ns),
        render.clean(snapshot.hostname),
        f"{snapshot.totals.files:,}",
        render.size(snapshot.totals.size),
        render.clean(" ".join(tags)),
        " ".join(render.path_text(root) for root in snapshot.roots),
    )
