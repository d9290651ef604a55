"""The command line's outermost layer: arguments in, exit code out, and one line for each failure.

What lives here: which error means which exit code. Exit codes: 0 done, 1 failed, 2 usage, 3 done
but something was skipped or damaged, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Final

import typer

from chunkvault.cli.app import build
from chunkvault.cli.context import Context
from chunkvault.cli.output import Messages, Output
from chunkvault.cli.session import Session, error_kind
from chunkvault.cli.signals import INTERRUPTED
from chunkvault.errors import ChunkvaultError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED: Final = 1
USAGE: Final = 2


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        The exit code.
    """
    _open_standard_streams()
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    session = Session(Context.of_process(), Output(as_json="--json" in options), Messages())
    session.verbose = "-v" in options or "--verbose" in options
    try:
        code = _invoke(arguments, session)
        session.output.flush()
    except BrokenPipeError:
        code = _reader_is_gone()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nothing but one line leaves here
        code = _explain(error, session)
    return code


def _invoke(arguments: Sequence[str], session: Session) -> int:
    command = typer.main.get_command(build(arguments))
    result = command.main(
        list(arguments), prog_name="chunkvault", obj=session, standalone_mode=False
    )
    return result if isinstance(result, int) else 0


def _explain(error: BaseException, session: Session) -> int:
    try:
        code = session.fail(*_verdict(error, session))
        session.output.flush()
    except OSError:  # stdout is full or gone; stderr has been told
        code = _reader_is_gone()
    return code


def _verdict(error: BaseException, session: Session) -> tuple[str, str, int]:
    """A word for programs, a line for people, and the exit code."""
    if isinstance(error, ChunkvaultError):
        hint = _hint(session.command) if isinstance(error, UsageError) else ""
        return error_kind(error), f"{error}{hint}", error.exit_code
    if isinstance(error, typer.TyperException):
        return _usage(error)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted", "stopped by a signal", INTERRUPTED
    if session.verbose:
        session.messages.raw("".join(traceback.format_exception(error)))
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fsdecode(error.filename)}" if error.filename else ""
        return "system", f"{error.strerror}{where}", FAILED
    if isinstance(error, MemoryError):
        return "memory", "out of memory", FAILED
    what = f"{type(error).__name__}: {error}"
    hint = "" if session.verbose else "; run with --verbose for the traceback"
    return "internal", f"internal error: {what}{hint}", FAILED


def _usage(error: typer.TyperException) -> tuple[str, str, int]:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "chunkvault"
    message = error.format_message().rstrip().rstrip(".")
    return "usage", f"{message}; see '{path} --help'", USAGE


def _hint(command: str) -> str:
    return f"; see 'chunkvault {command} --help'" if command else ""


def _reader_is_gone() -> int:
    """Whoever read stdout has left: end quietly, and keep Python from trying again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return FAILED


def _open_standard_streams() -> None:
    """Keep descriptors 0 to 2 taken, so that no file of the vault is ever opened as stdout."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, mode in (("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
