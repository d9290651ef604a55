"""Prints docs/cli.md, made of what every command says with --help.

To renew the page: ``python docs/make_cli.py > docs/cli.md``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

COMMANDS: Final = (
    "init",
    "backup",
    "snapshots",
    "ls",
    "restore",
    "dump",
    "stats",
    "check",
    "key list",
    "key add",
    "key remove",
    "key change",
)
_HEAD: Final = """\
# Command line

<!-- made by docs/make_cli.py; a test compares them -->

`chunkvault COMMAND`; what follows is what `chunkvault COMMAND --help` prints.

- **Which vault**: `--vault` or `CHUNKVAULT_VAULT`, a local path or `file:///path`.
- **Passphrase**: `--passphrase-file`, `--passphrase-command`, `CHUNKVAULT_PASSPHRASE`,
  `CHUNKVAULT_PASSPHRASE_FILE`, in this order; else a question at the terminal, and where there is
  none an error at once. A file or output is UTF-8 text of one line; the newline at its end is not
  part of it. A command is split into words like a shell would and run without a shell and without
  stdin: write `sh -c '…'` where you need one.
- **Snapshots** are named by the first digits of their id, at least four, or `latest`: the newest of
  this host that covers the path. A path after the colon is taken literally; there are no patterns.
- **Names** in listings and messages have control characters and bytes that are not UTF-8 escaped
  as `\\n` or `\\xfe`, and backslashes doubled. `ls -0` prints them exactly. In JSON, `path` is
  text, and where that is not all of it, `path_bytes` beside it is the exact name in base64.
- **`--json`** prints one object: `command`, `ok`, `exit_code`, `warnings`, `notes`, the result; on
  failure `error` with a `kind` for programs (`usage`, `passphrase`, `not-a-vault`, `selection`,
  `full`, `interrupted`, …) and a `message` for people.
- **Signals**: the first SIGINT or SIGTERM ends a run in good order (a backup keeps what it has as a
  partial snapshot), a second SIGINT at once. SIGUSR1 prints a line of progress.
- **Progress** goes to stderr: a bar on a terminal, a line a minute elsewhere, nothing with
  `--quiet`.
- **Exit codes**: 0 done, 1 failed, 2 wrong usage, 3 done but something was skipped or is damaged
  (each named), 130 interrupted.
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_section(command) for command in COMMANDS)


def _section(command: str) -> str:
    done = subprocess.run(  # noqa: S603 - the program itself
        [sys.executable, "-m", "chunkvault", *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},  # noqa: TID251 - a tool beside the program
    )
    return f"\n## {command}\n\n```text\n{done.stdout.strip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(page())
