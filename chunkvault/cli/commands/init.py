"""The command init."""

from __future__ import annotations

from typing import Annotated

import typer

from chunkvault.cli.command import add_command
from chunkvault.cli.context import text
from chunkvault.cli.options import Label
from chunkvault.cli.render import clean, text_json
from chunkvault.cli.report import Report
from chunkvault.cli.session import Session
from chunkvault.errors import UsageError
from chunkvault.vault.vault import InitOptions, init_vault


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        "init",
        _init,
        examples=(
            "chunkvault init --vault /mnt/disk/vault",
            "chunkvault init -V ~/vault --passphrase-file ~/.vault-passphrase --compression 9",
        ),
    )


def _init(
    session: Session,
    *,
    no_encryption: Annotated[
        bool,
        typer.Option("--no-encryption", help="Store readable by whoever can read the folder."),
    ] = False,
    compression: Annotated[
        int,
        typer.Option(
            "--compression",
            metavar="LEVEL",
            min=1,
            max=19,
            help="zstd level for all that is stored.",
        ),
    ] = 3,
    label: Label = "",
) -> int:
    """Make a vault in a new or empty folder.

    It is encrypted with a passphrase, asked for where no option or variable gives it. Without the
    passphrase nothing can be restored, by anybody.
    """
    if no_encryption and session.passphrase_source.given:
        raise UsageError("--no-encryption and a passphrase contradict each other")
    options = InitOptions(compression_level=compression, label=text(label))

    async def work() -> Report:
        store = session.store()
        try:
            passphrase = None if no_encryption else session.passphrase(twice=True)
            config = await init_vault(
                store, options, passphrase=passphrase, clock_ns=session.context.clock_ns
            )
        finally:
            await store.close()
        how = "encrypted" if config.encrypted else "NOT encrypted"
        lines = [f"vault made at {clean(store.location)}, {how}"]
        if config.encrypted:
            lines.append("keep the passphrase safe: without it nothing can be restored")
        fields = {
            "location": text_json(store.location),
            "vault_id": config.vault_id.hex(),
            "encrypted": config.encrypted,
            "compression": config.compression_level,
        }
        return Report(fields, lines)

    return session.execute("init", work)
