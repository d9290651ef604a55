"""What comes from outside: environment variables, the host, the user, the clock.

The only reader of the environment; everything below gets what it needs passed in. Streams are
``output``'s.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from chunkvault.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VAULT: Final = "CHUNKVAULT_VAULT"
CACHE_DIR: Final = "CHUNKVAULT_CACHE_DIR"
PASSPHRASE: Final = "CHUNKVAULT_PASSPHRASE"  # noqa: S105 - a variable's name
PASSPHRASE_FILE: Final = "CHUNKVAULT_PASSPHRASE_FILE"  # noqa: S105 - a variable's name


@dataclass(frozen=True)
class Context:
    """The world around one run.

    Attributes:
        environment: the environment variables; not in the repr, a passphrase may be among them.
        hostname: of this machine, recorded in snapshots.
        username: who runs this, recorded in snapshots.
        clock_ns: nanoseconds since the epoch.
    """

    environment: Mapping[str, str] = field(repr=False)
    hostname: str
    username: str
    clock_ns: Callable[[], int]

    @classmethod
    def of_process(cls) -> Self:
        """The real world."""
        return cls(
            environment=dict(os.environ),  # noqa: TID251 - the one place
            hostname=text(os.uname().nodename) or "localhost",
            username=_username(),
            clock_ns=time.time_ns,
        )

    def variable(self, name: str) -> str | None:
        """An environment variable; an empty one counts as not set."""
        return self.environment.get(name) or None

    def vault_location(self, option: str | None) -> str:
        """The vault to work on.

        Raises:
            UsageError: none was named.
        """
        location = option or self.variable(VAULT)
        if location is None:
            raise UsageError(f"no vault named: use --vault LOCATION or set {VAULT}")
        return location

    def cache_dir(self, option: str | None) -> Path | None:
        """Where the catalog may live; None where this user has no home for it."""
        chosen = option or self.variable(CACHE_DIR)
        if chosen is not None:
            return Path(os.path.abspath(chosen))  # noqa: PTH100 - resolve() would follow links
        from platformdirs import user_cache_path  # noqa: PLC0415 - not paid where a cache is named

        path = user_cache_path("chunkvault", appauthor=False)
        return path if path.is_absolute() else None

    @property
    def plain_terminal(self) -> bool:
        """A terminal that can only print lines."""
        return self.environment.get("TERM", "dumb") in {"", "dumb", "unknown"}


def text(value: str) -> str:
    """An argument or name from the system as proper text, whatever the locale made of it.

    Raises:
        UsageError: its bytes are not UTF-8.
    """
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{value!r} is not valid UTF-8 text") from error


def _username() -> str:
    number = os.geteuid()
    try:
        import pwd  # noqa: PLC0415 - absent on some platforms

        return text(pwd.getpwuid(number).pw_name)
    except (ImportError, KeyError, UsageError):
        return str(number)
