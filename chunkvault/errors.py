"""Every error chunkvault raises on purpose.

    ChunkvaultError                exit code 1
    ├── UsageError                 exit code 2: the request makes no sense as given
    ├── Interrupted                exit code 130: a signal ended the run early
    ├── FormatError                bytes that are not what the format page promises
    │   ├── AuthenticationError    sealed bytes that do not open under this key
    │   └── UnsupportedFormatError written by a newer version: refused by name, never guessed at
    ├── VaultError                 the vault as a whole cannot be used
    │   ├── NotAVaultError         nothing there that looks like a vault
    │   ├── VaultExistsError       something there that init must not touch
    │   └── PassphraseError        missing or wrong passphrase
    ├── DamagedError               one stored object is not what its name promises
    ├── SelectionError             a snapshot or path that matches nothing, or too much
    ├── SourceError                a file to back up cannot be read
    ├── TargetError                a restore target cannot take an entry
    └── StoreError                 a location did not do as asked
        ├── NotFoundError          no object of that name
        ├── OversizeError          an object larger than the caller is ready to believe
        ├── RefusedError           permission denied, read-only, not allowed
        ├── FullError              no space, no inodes, quota or cap reached
        └── UnreachableError       the location does not answer

Rules: a message is one line that says what failed, on what, and what to do next. It never holds a
secret. Foreign errors (OSError, library errors) become one of these at the layer that meets them.
Pure decoders raise FormatError and nothing else, whatever bytes they are given.
"""

from __future__ import annotations


class ChunkvaultError(Exception):
    """Root of the tree; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class UsageError(ChunkvaultError):
    """The request makes no sense as given."""

    exit_code = 2


class Interrupted(ChunkvaultError):  # noqa: N818 - a request, not a fault
    """A signal ended the run early; what was finished is kept."""

    exit_code = 130


class FormatError(ChunkvaultError):
    """Bytes that do not follow the format; the one error of every decoder."""


class AuthenticationError(FormatError):
    """Sealed bytes that do not open: altered, truncated, misplaced, or another key's."""


class UnsupportedFormatError(FormatError):
    """A format version this program does not know."""


class VaultError(ChunkvaultError):
    """The vault as a whole cannot be used."""


class NotAVaultError(VaultError):
    """The location holds no vault."""


class VaultExistsError(VaultError):
    """The location already holds a vault, or something else that must not be overwritten."""


class PassphraseError(VaultError):
    """The passphrase is missing, or opens none of the vault's key slots."""


class DamagedError(ChunkvaultError):
    """A stored object is missing a part, altered, or not what its name promises.

    Attributes:
        name: the object's name in the vault.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} is damaged: {why}")
        self.name = name


class SelectionError(ChunkvaultError):
    """A snapshot or a path that matches nothing, or is ambiguous."""


class SourceError(ChunkvaultError):
    """A file to back up cannot be read."""


class TargetError(ChunkvaultError):
    """A restore target cannot take an entry."""


class StoreError(ChunkvaultError):
    """A location did not do as asked.

    Attributes:
        name: the object concerned, "" where it is the location as a whole.
    """

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class NotFoundError(StoreError):
    """No object of that name; the location answered."""


class OversizeError(StoreError):
    """An object is larger than the caller's limit; nothing of it was kept."""


class RefusedError(StoreError):
    """Permission denied, read-only, or not allowed by the location."""


class FullError(StoreError):
    """No space, no inodes, or a quota or cap reached."""


class UnreachableError(StoreError):
    """The location does not answer, or the link broke; trying again may help."""
