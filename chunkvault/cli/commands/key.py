"""The commands below key."""

from __future__ import annotations

from typing import Annotated

import typer

from chunkvault.cli import render
from chunkvault.cli.command import add_command
from chunkvault.cli.context import text
from chunkvault.cli.options import Label, NewPassphraseCommand, NewPassphraseFile
from chunkvault.cli.passphrase import PassphraseSource
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.operations.keys import KeyInfo, add_key, change_key, list_keys, remove_key

_SHORT = 12


def register(app: typer.Typer) -> None:
    """Add the commands."""
    keys = typer.Typer(
        name="key", help="Manage the passphrases that open the vault.", rich_markup_mode=None
    )
    add_command(keys, "list", _list, examples=("chunkvault key list", "chunkvault key list --json"))
    add_command(
        keys,
        "add",
        _add,
        examples=(
            "chunkvault key add --label office",
            "chunkvault key add --new-passphrase-file /run/secrets/second",
        ),
    )
    add_command(
        keys,
        "remove",
        _remove,
        examples=("chunkvault key remove 5d41402a", "chunkvault key remove 5d41402a --json"),
    )
    add_command(
        keys,
        "change",
        _change,
        examples=(
            "chunkvault key change",
            "chunkvault key change --new-passphrase-command 'pass show vault/new'",
        ),
    )
    app.add_typer(keys)


def _list(session: Session) -> int:
    """List the key slots; the one in use has a star."""

    async def work() -> Report:
        async with await session.open_vault(read_only=True) as vault:
            keys = await list_keys(vault)
        rows = [("", "ID", "MADE (UTC)", "LABEL"), *map(_row, keys)]
        fields = {"keys": [_key_json(key) for key in keys]}
        return Report(fields, render.table(rows), asked_for=True)

    return session.execute("key list", work)


def _add(
    session: Session,
    *,
    new_passphrase_file: NewPassphraseFile = None,
    new_passphrase_command: NewPassphraseCommand = None,
    label: Label = "",
) -> int:
    """Let a further passphrase open the vault."""
    session.command = "key add"
    source = PassphraseSource(new_passphrase_file, new_passphrase_command)
    title = text(label)

    async def work() -> Report:
        async with await session.open_vault() as vault:
            passphrase = session.new_passphrase(source)
            key = await add_key(vault, passphrase, title, clock_ns=session.context.clock_ns)
        return Report({"key": key}, [f"key {key[:_SHORT]} added; the others go on working"])

    return session.execute("key add", work)


def _remove(
    session: Session,
    *,
    key: Annotated[
        str, typer.Argument(metavar="ID", help="First digits of its id.", show_default=False)
    ],
) -> int:
    """Remove a key slot, so that its passphrase opens the vault no more; the last one stays."""

    async def work() -> Report:
        async with await session.open_vault() as vault:
            removed = await remove_key(vault, key)
        return Report({"key": removed}, [f"key {removed[:_SHORT]} removed"])

    return session.execute("key remove", work)


def _change(
    session: Session,
    *,
    new_passphrase_file: NewPassphraseFile = None,
    new_passphrase_command: NewPassphraseCommand = None,
) -> int:
    """Replace the passphrase that opened the vault by another."""
    session.command = "key change"
    source = PassphraseSource(new_passphrase_file, new_passphrase_command)

    async def work() -> Report:
        async with await session.open_vault() as vault:
            passphrase = session.new_passphrase(source)
            key = await change_key(vault, passphrase, clock_ns=session.context.clock_ns)
        return Report({"key": key}, [f"passphrase changed; its key is {key[:_SHORT]}"])

    return session.execute("key change", work)


def _row(key: KeyInfo) -> tuple[str, ...]:
    star = "*" if key.current else ""
    return star, key.id[:_SHORT], render.moment(key.created_ns), render.clean(key.label)


def _key_json(key: KeyInfo) -> dict[str, object]:
    return {
        "id": key.id,
        "label": render.text_json(key.label),
        **render.moment_json(key.created_ns, "created"),
        "current": key.current,
    }
