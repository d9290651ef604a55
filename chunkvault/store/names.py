"""Which names a store takes, checked at its door.

What lives here: the rules for names, the same for every back end. What may not: any I/O, and any
knowledge of which objects a vault has.
"""

from __future__ import annotations

import re
from typing import Final

INCOMING: Final = "incoming"
"""The folder of temporary names; no object is ever called so."""

_COMPONENT: Final = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]{1,255}"
_NAME: Final = re.compile(rf"(?!{INCOMING}(?:/|\Z)){_COMPONENT}(?:/{_COMPONENT})*")
_match_name: Final = _NAME.fullmatch


def is_name(text: str) -> bool:
    """Whether an object may be called so."""
    return _match_name(text) is not None


def check_name(name: str) -> None:
    """Refuse what cannot name an object.

    Raises:
        ValueError: absolute, empty, ``.``, ``..``, odd characters, or below ``incoming/``. Names
            come from this program, not from users, so that this is a defect of the caller.
    """
    if _match_name(name) is None:
        raise ValueError(f"not the name of an object: {name[:300]!r}")


def check_prefix(prefix: str) -> None:
    """Refuse what cannot be listed.

    Raises:
        ValueError: neither ``""`` nor a name followed by ``/``.
    """
    if prefix and not (prefix.endswith("/") and _match_name(prefix[:-1])):
        raise ValueError(f"not a folder to list: {prefix[:300]!r}")


def printable(text: str) -> str:
    """A path for messages: control characters and undecodable bytes as escapes, on one line."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
