"""The rules of a path in a manifest, one path at a time.

What lives here: what makes a path unfit to be joined to a restore target. ``format.manifest``
checks whole manifests at once, and comes here only to say what is wrong.
"""

from __future__ import annotations

from typing import Final

from chunkvault.format.limits import MAX_PATH_SIZE

_SHOWN: Final = 120
_DOTS: Final = frozenset((b".", b".."))


def path_fault(path: object) -> str | None:
    """What is wrong with a path; None for a good one."""
    if type(path) is not bytes:
        return "its path is not a byte string"
    if not 0 < len(path) <= MAX_PATH_SIZE:
        return f"its path is empty or longer than {MAX_PATH_SIZE} bytes"
    if b"\0" in path:
        return "its path holds a NUL"
    components = path.split(b"/")
    if not all(components):
        return "its path begins or ends with a slash, or holds two in a row"
    if not _DOTS.isdisjoint(components):
        return "its path holds '.' or '..'"
    return None


def shown(path: object) -> str:
    """A path for a message: escaped, on one line, cut short."""
    if not isinstance(path, bytes):
        return "without a path"
    return repr(path if len(path) <= _SHOWN else path[:_SHOWN] + b"...")[1:]
