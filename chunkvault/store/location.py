"""From what a user writes to the store behind it.

What lives here: the syntax of locations, and the one place that names back ends. What may not: any
knowledge of how they work.

A location is a local path, or a URL: ``file:///path``; ``sftp://`` and ``b2://`` are recognised and
not offered by this version. What could be read in two ways is refused, so that nobody's data ends
up in a folder called ``host:``.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from chunkvault.errors import UsageError
from chunkvault.store.names import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from chunkvault.store.base import Store

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST_COLON: Final = re.compile(r"[^/]*:")
_LATER: Final = frozenset({"sftp", "b2"})


class LocationKind(enum.Enum):
    """What kind of place it is."""

    LOCAL = "local"


@dataclass(frozen=True)
class Location:
    """A place for a vault, parsed.

    Attributes:
        kind: which back end serves it.
        path: the folder, as given; a relative one is meant from where the program was started.
        display: for messages and lists: one line, no secrets.
    """

    kind: LocationKind
    path: Path
    display: str


def parse_location(text: str) -> Location:
    """Parse a location.

    Raises:
        UsageError: it is empty, ambiguous, or of a kind that this version does not offer. A URL is
            not repeated in the message, for it may hold a password.
    """
    if not text.strip():
        raise UsageError("the location is empty: give a path such as /srv/backup/vault")
    if "\0" in text:
        raise UsageError("a location cannot contain a NUL character")
    if match := _SCHEME.match(text):
        return _parse_url(match[1].lower(), text[match.end() :])
    shown = printable(text)
    if text.startswith("~"):
        raise UsageError(
            f"{shown}: '~' was not expanded; leave it outside quotes, write $HOME, "
            f"or for a folder of that name ./{shown}"
        )
    if _HOST_COLON.match(text):
        raise UsageError(
            f"{shown} could be a host or a drive: for a local folder write ./{shown} "
            "or its absolute path"
        )
    return Location(LocationKind.LOCAL, Path(text), shown)


def _parse_url(scheme: str, rest: str) -> Location:
    if scheme in _LATER:
        raise UsageError(f"{scheme}:// locations are not in this version: give a local path")
    if scheme != "file":
        raise UsageError(f"unknown kind of location {scheme}://: give a local path or file:///path")
    host, slash, path = rest.partition("/")
    if host.lower() not in {"", "localhost"} or not slash:
        raise UsageError("a file URL has three slashes and an absolute path: file:///srv/vault")
    if "?" in path or "#" in path:
        raise UsageError("a file URL takes no '?' or '#': write them as %3F and %23")
    raw = unquote_to_bytes(path.encode("utf-8", "surrogateescape"))
    if b"\0" in raw:
        raise UsageError("a location cannot contain a NUL character")
    decoded = "/" + raw.decode("utf-8", "surrogateescape").lstrip("/")
    return Location(LocationKind.LOCAL, Path(decoded), printable(decoded))


def open_store(location: Location, *, notice: Callable[[str], None] | None = None) -> Store:
    """The store at a location; nothing is touched or connected yet.

    Args:
        location: where.
        notice: hears, once each, of promises that the place cannot keep.
    """
    from chunkvault.store.local import LocalStore  # noqa: PLC0415 - only what is used is loaded

    return LocalStore(location.path, location=location.display, notice=notice)
