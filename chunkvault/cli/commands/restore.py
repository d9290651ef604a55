"""The command restore."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from chunkvault.cli import render
from chunkvault.cli.command import add_command
from chunkvault.cli.options import Host
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.ids import id_to_hex
from chunkvault.operations.restore import RestoreOptions, RestoreResult, restore
from chunkvault.operations.select import parse_selection


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "restore",
        _restore,
        examples=(
            "chunkvault restore latest:/home/ada/photos --target ~/photos-again",
            "chunkvault restore 3f2a91bc:/home/ada/notes.txt -t /tmp/out",
        ),
    )


def _restore(
    session: Session,
    *,
    selections: Annotated[
        list[str],
        typer.Argument(
            metavar="SNAPSHOT[:PATH]...",
            help="'latest' or the first digits of an id; a path in it, taken literally.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--target", "-t", metavar="DIR", help="The folder to fill.", show_default=False
        ),
    ],
    host: Host = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Check and count, write nothing.")
    ] = False,
    owners: Annotated[
        bool | None,
        typer.Option(
            "--owners/--no-owners", help="Give files their numeric owners. [default: when root]"
        ),
    ] = None,
) -> int:
    """Bring files and folders back.

    A folder's contents fill the target, a file keeps its name, and without a path the absolute
    paths reappear below the target. Damaged files are named and left out, the rest is restored, and
    the exit code is 3.
    """
    session.command = "restore"
    chosen = [parse_selection(one) for one in selections]
    folder = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow links
    options = RestoreOptions(target=folder, owners=owners, dry_run=dry_run)

    async def work() -> Report:
        async with await session.open_vault(read_only=True) as vault:
            result = await restore(
                vault,
                chosen,
                options,
                hostname=session.host(host),
                events=session.events,
                stop=session.stop,
            )
        return _report(result, options)

    return session.execute("restore", work, watches_stop=True)


def _report(result: RestoreResult, options: RestoreOptions) -> Report:
    target = os.fsencode(options.target)
    fields = {
        "snapshots": [id_to_hex(one) for one in result.snapshots],
        **render.bytes_json(target, "target"),
        "dry_run": options.dry_run,
        "files": result.files,
        "directories": result.directories,
        "others": result.others,
        "size": result.size,
        "failed": result.failed,
        "seconds": round(result.seconds, 3),
    }
    head = "dry run, would restore" if options.dry_run else "restored"
    line = (
        f"{head} {render.count(result.files, 'file')}, {render.size(result.size)}, "
        f"{render.count(result.directories, 'folder')} into {render.path_text(target)}"
        f" in {render.duration(result.seconds)}"
    )
    if result.failed:
        line += f"; {result.failed:,} could not be restored"
    return Report(fields, [line])
