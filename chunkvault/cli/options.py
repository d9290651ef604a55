"""Options that several commands share, each in one place.

What lives here: what an option is called and says. What may not: what it does. Names in annotations
are read by typer at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer

Host: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="NAME", help="Host that 'latest' is of, '*' for any. [default: this one]"
    ),
]
SnapshotPath: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOT[:PATH]",
        help="'latest' or the first digits of an id; a path in it after a colon, taken literally.",
        show_default=False,
    ),
]
NewPassphraseFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--new-passphrase-file", metavar="FILE", help="Read the new passphrase from it."),
]
NewPassphraseCommand: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--new-passphrase-command",
        metavar="COMMAND",
        help="Read the new passphrase from its output.",
    ),
]
Label: TypeAlias = Annotated[
    str, typer.Option("--label", metavar="TEXT", help="What to call the key slot.")
]


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options that every command has; the fields are the options."""

    vault: Annotated[
        str | None,
        typer.Option(
            "--vault", "-V", metavar="LOCATION", help="The vault. [env: CHUNKVAULT_VAULT]"
        ),
    ] = None
    passphrase_file: Annotated[
        str | None,
        typer.Option(
            "--passphrase-file",
            metavar="FILE",
            help="Read the passphrase from it. [env: CHUNKVAULT_PASSPHRASE_FILE]",
        ),
    ] = None
    passphrase_command: Annotated[
        str | None,
        typer.Option(
            "--passphrase-command",
            metavar="COMMAND",
            help="Read it from the output of a command, split into words like a shell would.",
        ),
    ] = None
    cache_dir: Annotated[
        str | None,
        typer.Option(
            "--cache-dir", metavar="DIR", help="Where the index lives. [env: CHUNKVAULT_CACHE_DIR]"
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, on failure too.")] = (
        False
    )
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only warnings, errors and what was asked for.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="All warnings, and tracebacks of bugs.")
    ] = False
