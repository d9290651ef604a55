"""The commands there are, and the application made of them.

This is the one place where command modules are imported, and only the one that was asked for: each
brings its operation along, and nobody should wait for the others. Help needs all of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated, Final

import typer

from chunkvault import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = (
    "init",
    "backup",
    "snapshots",
    "ls",
    "restore",
    "dump",
    "stats",
    "check",
    "key",
)
"""In the order of help; each is a module of `chunkvault.cli.commands` with ``register(app)``."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application, with the command that the arguments name, or with all of them."""
    app = typer.Typer(
        name="chunkvault",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,  # they print local variables, secrets among them
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main)
    asked = arguments[0] if arguments else ""
    for name in [asked] if asked in COMMANDS else COMMANDS:
        importlib.import_module(f"chunkvault.cli.commands.{name}").register(app)
    return app


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"chunkvault {__version__}")
        raise typer.Exit


def _main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Deduplicated, encrypted snapshots of files.

    A vault is a folder of encrypted, content-addressed pieces. Every backup makes a snapshot; what
    is in the vault already is not stored again.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but something was skipped or damaged (each
    named), 130 interrupted.
    """
