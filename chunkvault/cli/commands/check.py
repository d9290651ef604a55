"""The command check."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from chunkvault.cli import render
from chunkvault.cli.command import add_command
from chunkvault.cli.report import Report
from chunkvault.cli.session import SOME_SKIPPED, Session
from chunkvault.errors import UsageError
from chunkvault.ids import id_to_hex
from chunkvault.operations.check import CheckOptions, CheckResult, Damage, check, parse_subset

_PATHS_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "check",
        _check,
        examples=(
            "chunkvault check --read-data",
            "chunkvault check --read-data-subset 2/7",
        ),
    )


def _check(
    session: Session,
    *,
    read_data: Annotated[
        bool, typer.Option("--read-data", help="Read, open and hash all that is stored.")
    ] = False,
    read_data_subset: Annotated[
        str | None,
        typer.Option(
            "--read-data-subset",
            metavar="PART",
            help="Do so with a part: 5% or 500M at random, 2/7 for the second of seven parts.",
        ),
    ] = None,
) -> int:
    """Look for damage, and name the snapshots and paths it hurts.

    Without options all snapshots and their file lists are read, and everything they need must be
    there in a plausible size; contents are not read. The exit code is 3 where damage is found.
    """
    session.command = "check"
    if read_data and read_data_subset is not None:
        raise UsageError("--read-data reads everything; --read-data-subset would be a part of it")
    subset = None if read_data_subset is None else parse_subset(read_data_subset)
    options = CheckOptions(read_data=read_data, subset=subset)

    async def work() -> Report:
        async with await session.open_vault(read_only=True) as vault:
            result = await check(
                vault,
                options,
                events=session.events,
                stop=session.stop,
                random=random.SystemRandom(),
            )
        return _report(result, quiet=session.messages.quiet)

    return session.execute("check", work, watches_stop=True)


def _report(result: CheckResult, *, quiet: bool) -> Report:
    fields = {
        "snapshots": result.snapshots,
        "blobs": result.blobs,
        "blobs_read": result.blobs_read,
        "bytes_read": result.bytes_read,
        "not_verified": result.not_verified,
        "damaged": [_damage_json(one) for one in result.damaged],
        "orphans": result.orphans,
        "orphan_bytes": result.orphan_bytes,
        "seconds": round(result.seconds, 3),
    }
    lines = [line for damage in result.damaged for line in _damage_lines(damage)]
    if not quiet or result.damaged:
        lines += _summary(result)
    code = SOME_SKIPPED if result.damaged else None
    return Report(fields, lines, asked_for=True, exit_code=code)


def _damage_json(damage: Damage) -> dict[str, object]:
    return {
        "name": render.text_json(damage.name),
        "why": render.clean(damage.why),
        "snapshots": [id_to_hex(one) for one in damage.snapshots],
        "paths": [render.bytes_json(b"/" + path) for path in damage.paths],
        "more_paths": damage.more_paths,
    }


def _damage_lines(damage: Damage) -> list[str]:
    snapshots = ", ".join(render.short_id(one) for one in damage.snapshots) or "no snapshot"
    lines = [f"{render.clean(damage.name)}: {render.clean(damage.why)}; hurts {snapshots}"]
    lines += [f"  {render.absolute_text(path)}" for path in damage.paths[:_PATHS_SHOWN]]
    more = len(damage.paths[_PATHS_SHOWN:]) + damage.more_paths
    if more:
        lines.append(f"  and {render.count(more, 'more path')} (--json has the first thousand)")
    return lines


def _summary(result: CheckResult) -> list[str]:
    found = render.count(len(result.damaged), "damaged object") if result.damaged else "no damage"
    lines = [
        f"{found} found in {render.count(result.snapshots, 'snapshot')} and "
        f"{render.count(result.blobs, 'blob')}; {render.size(result.bytes_read)} read"
        f" in {render.duration(result.seconds)}"
    ]
    if result.not_verified:
        lines.append(
            f"the content of {render.count(result.not_verified, 'blob')} was not verified; "
            "--read-data does it"
        )
    if result.orphans:
        lines.append(
            f"{render.count(result.orphans, 'blob')} ({render.size(result.orphan_bytes)}) "
            "belong to no snapshot; they are harmless"
        )
    return lines
