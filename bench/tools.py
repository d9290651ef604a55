"""The tools under comparison: one class each, and the list of them.

What lives here: which command lines do the same work in each tool, with matched settings. All
encrypt, all compress with zstd at level 3 or what the tool calls its default next to it, all keep
vault and caches in a folder of their own. What may not: running or timing anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.attic import Attic
from bench.measure import Command

PASSPHRASE: Final = "seven wrens over a frozen weir"  # noqa: S105 - guards made-up data only


@dataclass(frozen=True)
class Settings:
    """What the person running the bench may choose.

    Attributes:
        programs: tool name → program, where it is not the one to be found by itself.
        borg_encryption: borg's mode; the one its manual calls faster on this processor.
    """

    programs: Mapping[str, str]
    borg_encryption: str


class Home:
    """A tool's own folder: vault, caches and passphrase, and nothing shared with another tool.

    Attributes:
        snapshots: how many were made since the last reset.
    """

    def __init__(self, folder: Path, attic: Attic) -> None:
        self.folder = folder
        self._attic = attic
        self.vault = folder / "vault"
        self.passphrase_file = folder / "passphrase"
        self.snapshots = 0

    def reset(self) -> None:
        """Nothing of earlier runs is left, neither vault nor cache."""
        self._attic.renew(self.folder)
        handle = os.open(self.passphrase_file, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(handle, PASSPHRASE.encode() + b"\n")
        os.close(handle)
        self.snapshots = 0


class Tool(Protocol):
    """Which commands do one piece of work in one tool; they are only described, never run."""

    @property
    def name(self) -> str:
        """As in the tables."""
        ...

    @property
    def settings(self) -> str:
        """Encryption and compression in words, for the result file."""
        ...

    @property
    def home(self) -> Home:
        """Where the tool keeps everything."""
        ...

    def version(self) -> Command:
        """Print the version and do nothing else."""
        ...

    def init(self) -> Command:
        """Make an empty encrypted vault."""
        ...

    def backup(self, source: Path) -> Command:
        """One more snapshot of ``source``."""
        ...

    def restore_all(self, source: Path, target: Path) -> Command:
        """All of the newest snapshot, into the empty folder ``target``."""
        ...

    def restore_one(self, file: Path, target: Path) -> Command:
        """One file of the newest snapshot, into the empty folder ``target``."""
        ...

    def restored_tree(self, source: Path, target: Path) -> Path:
        """Where `restore_all` puts the contents of ``source``."""
        ...

    def restored_file(self, file: Path, target: Path) -> Path:
        """Where `restore_one` puts ``file``."""
        ...


class Chunkvault:
    """The tool this bench is for, with its defaults."""

    name = "chunkvault"
    settings = "AES-256-GCM, zstd level 3 (defaults)"

    def __init__(self, program: str, home: Home) -> None:
        self.home = home
        self._program = program

    def version(self) -> Command:
        return self._command("--version")

    def init(self) -> Command:
        return self._command("init")

    def backup(self, source: Path) -> Command:
        return self._command("backup", str(source))

    def restore_all(self, source: Path, target: Path) -> Command:
        return self._command("restore", f"latest:{source}", "--target", str(target))

    def restore_one(self, file: Path, target: Path) -> Command:
        return self._command("restore", f"latest:{file}", "--target", str(target))

    def restored_tree(self, source: Path, target: Path) -> Path:  # noqa: ARG002 - the contract's
        return target

    def restored_file(self, file: Path, target: Path) -> Path:
        return target / file.name

    def _command(self, *arguments: str) -> Command:
        folder = self.home.folder
        environment = {
            "CHUNKVAULT_VAULT": str(self.home.vault),
            "CHUNKVAULT_PASSPHRASE_FILE": str(self.home.passphrase_file),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        return Command((self._program, *arguments), environment)


class Restic:
    """restic; repository version 2 is the first that compresses."""

    name = "restic"
    settings = "repository version 2, AES-256-CTR with Poly1305, --compression auto (zstd default)"

    def __init__(self, program: str, home: Home) -> None:
        self.home = home
        self._program = program

    def version(self) -> Command:
        return self._command("version")

    def init(self) -> Command:
        return self._command("init", "--repository-version", "2")

    def backup(self, source: Path) -> Command:
        return self._command("backup", "--quiet", "--compression", "auto", str(source))

    def restore_all(self, source: Path, target: Path) -> Command:  # noqa: ARG002 - the contract's
        return self._command("restore", "--quiet", "latest", "--target", str(target))

    def restore_one(self, file: Path, target: Path) -> Command:
        return self._command(
            "restore", "--quiet", "latest", "--target", str(target), "--include", str(file)
        )

    def restored_tree(self, source: Path, target: Path) -> Path:
        return target / source.relative_to("/")

    def restored_file(self, file: Path, target: Path) -> Path:
        return target / file.relative_to("/")

    def _command(self, *arguments: str) -> Command:
        environment = {
            "RESTIC_REPOSITORY": str(self.home.vault),
            "RESTIC_PASSWORD_FILE": str(self.home.passphrase_file),
            "RESTIC_CACHE_DIR": str(self.home.folder / "cache"),
        }
        return Command((self._program, *arguments), environment)


class Borg:
    """borg 1.4; it has no word for the newest archive, so they are counted here."""

    name = "borg"

    def __init__(self, program: str, home: Home, encryption: str) -> None:
        self.home = home
        self.settings = f"--compression zstd,3, --encryption {encryption}"
        self._program = program
        self._encryption = encryption

    def version(self) -> Command:
        return self._command("--version")

    def init(self) -> Command:
        return self._command("init", "--encryption", self._encryption)

    def backup(self, source: Path) -> Command:
        self.home.snapshots += 1
        return self._command("create", "--compression", "zstd,3", self._newest(), str(source))

    def restore_all(self, source: Path, target: Path) -> Command:  # noqa: ARG002 - the contract's
        return self._command("extract", self._newest(), cwd=target)

    def restore_one(self, file: Path, target: Path) -> Command:
        return self._command("extract", self._newest(), str(file.relative_to("/")), cwd=target)

    def restored_tree(self, source: Path, target: Path) -> Path:
        return target / source.relative_to("/")

    def restored_file(self, file: Path, target: Path) -> Path:
        return target / file.relative_to("/")

    def _newest(self) -> str:
        return f"::archive{self.home.snapshots}"

    def _command(self, *arguments: str, cwd: Path = Path("/")) -> Command:
        # In the environment rather than by BORG_PASSCOMMAND, which would cost it a process.
        environment = {
            "BORG_REPO": str(self.home.vault),
            "BORG_PASSPHRASE": PASSPHRASE,
            "BORG_BASE_DIR": str(self.home.folder),
        }
        secret = frozenset({"BORG_PASSPHRASE"})
        return Command((self._program, *arguments), environment, cwd, secret)


TOOLS: Final[Mapping[str, Callable[[str, Home, Settings], Tool]]] = {
    "chunkvault": lambda program, home, _: Chunkvault(program, home),
    "restic": lambda program, home, _: Restic(program, home),
    "borg": lambda program, home, settings: Borg(program, home, settings.borg_encryption),
}
"""Every tool the bench knows, in the order of the tables."""
