"""The command backup."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from chunkvault.cli import render
from chunkvault.cli.command import add_command
from chunkvault.cli.context import text
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.errors import Interrupted, UsageError
from chunkvault.ids import id_to_hex
from chunkvault.operations.backup import BackupOptions, BackupResult, backup

_STDIN = "-"


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "backup",
        _backup,
        examples=(
            "chunkvault backup ~/photos ~/notes --exclude '*.tmp'",
            "chunkvault backup --one-file-system --tag nightly /home",
            "pg_dump shop | chunkvault backup --stdin --stdin-name shop.sql",
        ),
    )


def _backup(
    session: Session,
    *,
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE...", help="Files and folders.", show_default=False),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude", "-e", metavar="PATTERN", help="Leave out, by .gitignore's rules."
        ),
    ] = None,
    exclude_file: Annotated[
        list[str] | None,
        typer.Option("--exclude-file", metavar="FILE", help="A file of such patterns."),
    ] = None,
    one_file_system: Annotated[
        bool,
        typer.Option("--one-file-system", "-x", help="Do not enter other file systems."),
    ] = False,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TEXT", help="Recorded with the snapshot.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="Record this host name. [default: this one's]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Read everything, store nothing.")
    ] = False,
    stdin: Annotated[bool, typer.Option("--stdin", help="Store what comes by stdin.")] = False,
    stdin_name: Annotated[
        str | None,
        typer.Option("--stdin-name", metavar="NAME", help="Its file name. [default: stdin]"),
    ] = None,
    files_from: Annotated[
        list[str] | None,
        typer.Option("--files-from", metavar="FILE", help="Sources, one a line; - is stdin."),
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="--files-from is separated by NUL characters.")
    ] = False,
) -> int:
    """Save files and folders as a new snapshot.

    What is unchanged since the last snapshot of the same sources is not read again. A source that
    cannot be read is named, the rest is stored, and the exit code is 3.
    """
    session.command = "backup"
    if stdin and (sources or files_from):
        raise UsageError("--stdin takes the place of sources; name one or the other")
    if stdin_name is not None and not stdin:
        raise UsageError("--stdin-name needs --stdin")
    if null and not files_from:
        raise UsageError("--null needs --files-from")
    paths = [os.fsencode(source) for source in sources or ()]
    for file in files_from or ():
        paths += _read_names(file, null=null)
    if b"" in paths:
        raise UsageError("an empty source name")
    patterns = [*(exclude or ())]
    for file in exclude_file or ():
        patterns += [os.fsdecode(line) for line in _lines(_read(file, "--exclude-file"))]
    options = BackupOptions(
        sources=tuple(os.path.abspath(path) for path in paths),  # noqa: PTH100 - pathlib has no bytes
        hostname=session.context.hostname if host is None else text(host),
        username=session.context.username,
        tags=tuple(text(one) for one in tag or ()),
        excludes=tuple(patterns),
        one_file_system=one_file_system,
        dry_run=dry_run,
        stdin_name=(stdin_name or "stdin") if stdin else None,
    )

    async def work() -> Report:
        async with await session.open_vault() as vault:
            result = await backup(
                vault,
                options,
                events=session.events,
                clock_ns=session.context.clock_ns,
                stop=session.stop,
                stdin=sys.stdin.buffer if stdin else None,
            )
        return _report(result, options)

    return session.execute("backup", work, watches_stop=True)


def _report(result: BackupResult, options: BackupOptions) -> Report:
    fields = {
        "snapshot": None if result.snapshot is None else id_to_hex(result.snapshot),
        "parent": None if result.parent is None else id_to_hex(result.parent),
        "partial": result.partial,
        "dry_run": options.dry_run,
        "totals": render.totals_json(result.totals),
        "seconds": round(result.seconds, 3),
    }
    if not result.partial:
        return Report(fields, [_summary(result, options)])
    if result.snapshot is None:
        error = Interrupted("stopped by a signal before anything was complete; nothing was saved")
        return Report(fields, exit_code=error.exit_code, error=error)
    error = Interrupted("stopped by a signal; run the same command again to complete it")
    return Report(fields, [_summary(result, options)], exit_code=error.exit_code, error=error)


def _summary(result: BackupResult, options: BackupOptions) -> str:
    totals = result.totals
    if result.snapshot is not None:
        partial = "partial snapshot" if result.partial else "snapshot"
        head = f"{partial} {render.short_id(result.snapshot)} saved"
    else:
        head = "dry run, nothing saved" if options.dry_run else "nothing saved"
    parts = [
        f"{render.count(totals.files, 'file')}, {render.size(totals.size)}",
        f"{totals.added_files:,} new, {totals.changed_files:,} changed",
        f"added {render.size(totals.new_bytes)} ({render.size(totals.stored_bytes)} stored)"
        f" in {render.duration(result.seconds)}",
    ]
    if totals.skipped:
        parts.append(f"{totals.skipped:,} skipped")
    return f"{head}: {'; '.join(parts)}"


def _read_names(file: str, *, null: bool) -> list[bytes]:
    """Names to back up, taken literally; empty lines are none."""
    data = _read(file, "--files-from")
    return [name for name in (data.split(b"\0") if null else data.split(b"\n")) if name]


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").split(b"\n")


def _read(file: str, option: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == _STDIN else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{option} {file!r} cannot be read: {why}") from error
