"""The command dump."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from chunkvault.cli.command import add_command
from chunkvault.cli.options import Host, SnapshotPath
from chunkvault.cli.render import bytes_json
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.errors import TargetError, UsageError
from chunkvault.operations.browse import dump
from chunkvault.operations.select import parse_selection

if TYPE_CHECKING:
    from collections.abc import Iterator


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "dump",
        _dump,
        examples=(
            "chunkvault dump latest:/home/ada/notes.txt | less",
            "chunkvault dump 3f2a91bc:/shop.sql --output shop.sql",
        ),
    )


def _dump(
    session: Session,
    *,
    selection: SnapshotPath,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there. [default: stdout]"),
    ] = None,
    host: Host = None,
) -> int:
    """Write one file's content to stdout, or to a file.

    --json needs --output, because stdout then holds the JSON object.
    """
    session.command = "dump"
    if session.output.json and output is None:
        raise UsageError("--json needs --output: stdout cannot hold both")
    chosen = parse_selection(selection)

    async def work() -> Report:
        async with await session.open_vault(read_only=True) as vault:
            with _destination(session, output) as out:
                size = await dump(
                    vault, chosen, hostname=session.host(host), events=session.events, out=out
                )
        fields: dict[str, object] = {"size": size}
        if output is not None:
            fields |= bytes_json(os.fsencode(output), "output")
        return Report(fields)

    return session.execute("dump", work)


@contextmanager
def _destination(session: Session, output: str | None) -> Iterator[BinaryIO]:
    """Where the content goes; a file appears under its name only when it is whole."""
    if output is None:
        yield session.output.binary
        return
    path = Path(output)
    if _is_special(path):  # a pipe or device: there is nothing to rename
        with path.open("wb") as out:
            yield out
        return
    part = path.with_name(f".chunkvault-{secrets.token_hex(8)}.tmp")
    try:
        with part.open("xb") as out:
            yield out
        part.replace(path)
    except OSError as error:
        raise TargetError(f"{output!r} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise UsageError(f"--output {str(path)!r} is a folder; name a file")
    return not stat.S_ISREG(mode)
