"""Patterns that leave files out of a backup, by the rules of gitignore(5).

What lives here: turning patterns into one question. A folder that is left out is not entered, so
nothing below it can be brought back by a later pattern, as with git.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chunkvault.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def compile_excludes(patterns: Sequence[str]) -> Callable[[bytes, bool], bool] | None:
    """A function of (path below its source, is a directory) that tells what to leave out.

    Returns:
        None where there are no patterns, so that a walk without them pays nothing.

    Raises:
        UsageError: a pattern that cannot be read.
    """
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - 15 ms that only users of patterns pay

    try:
        spec = GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise UsageError(f"exclude pattern cannot be read: {error}") from error

    def excluded(path: bytes, is_directory: bool) -> bool:  # noqa: FBT001 - the walk's signature
        text = os.fsdecode(path)
        return spec.match_file(text + "/" if is_directory else text)

    return excluded
