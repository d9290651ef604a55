"""The command ls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chunkvault.cli import render
from chunkvault.cli.command import add_command
from chunkvault.cli.options import Host, SnapshotPath
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.errors import UsageError
from chunkvault.operations.browse import list_entries
from chunkvault.operations.select import parse_selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from chunkvault.format.entry import Entry


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "ls",
        _ls,
        examples=(
            "chunkvault ls latest:/home/ada/photos",
            "chunkvault ls -l -R 3f2a91bc",
        ),
    )


def _ls(
    session: Session,
    *,
    selection: SnapshotPath,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Mode, owner, group, size and time (UTC) too.")
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Folders below folders too.")
    ] = False,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Exact names, each ended by a NUL character.")
    ] = False,
    host: Host = None,
) -> int:
    """List what a snapshot holds at a path.

    One entry is one line; characters that cannot be printed are escaped. -0 and --json are exact.
    """
    session.command = "ls"
    if null and (long or session.output.json):
        raise UsageError("--null goes with neither --long nor --json")
    chosen = parse_selection(selection)
    show = _printer(session, long=long, null=null)

    async def work() -> Report:
        async with await session.open_vault(read_only=True) as vault:
            entries = list_entries(
                vault,
                chosen,
                hostname=session.host(host),
                events=session.events,
                recursive=recursive,
            )
            started = False
            async for entry in entries:
                if not started and session.output.json:
                    session.output.begin_list("ls", "entries")
                started = True
                show(entry)
        return Report({} if started else {"entries": []}, asked_for=True)

    return session.execute("ls", work)


def _printer(session: Session, *, long: bool, null: bool) -> Callable[[Entry], object]:
    output = session.output
    if output.json:
        return lambda entry: output.item(render.entry_json(entry))
    if null:
        write = output.binary.write
        return lambda entry: write(b"/" + entry.path + b"\0")
    if long:
        return lambda entry: output.line(_long(entry))
    return lambda entry: output.line(render.absolute_text(entry.path))


def _long(entry: Entry) -> str:
    mode, user, group, size, time, name = render.long_entry(entry)
    return f"{mode} {user:>5} {group:>5} {size:>12} {time} {name}"
