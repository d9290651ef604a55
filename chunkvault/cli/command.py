"""How a function becomes a command: the common options added, the session passed in.

What lives here: the decorator and the layout of help. What may not: any option, any work.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import typer

from chunkvault.cli.options import Common
from chunkvault.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable


def add_command(
    app: typer.Typer, name: str, work: Callable[..., int], *, examples: tuple[str, ...]
) -> None:
    """Add a command whose help is its docstring and two or more examples."""
    app.command(name, epilog=_layout(examples))(with_common_options(work))


def _layout(examples: tuple[str, ...]) -> str:
    # \b keeps the help formatter from filling these lines.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)


def with_common_options(work: Callable[..., int]) -> Callable[..., int]:
    """A command that takes a `Session` first and its own options by keyword, as typer sees it.

    The common options are added to its signature and go into the session.
    """

    @functools.wraps(work)
    def command(ctx: typer.Context, **options: Any) -> int:  # noqa: ANN401 - each of its own type
        common = Common(**{one.name: options.pop(one.name) for one in fields(Common)})
        session = ctx.find_object(Session)
        if session is None:
            raise RuntimeError("the application was started without a session")
        session.configure(common)
        return work(session, **options)

    own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
    common = inspect.signature(Common, eval_str=True).parameters.values()
    context = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    parameters = [context, *own, *common]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
