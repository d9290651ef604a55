"""The command line as a user runs it: a process of its own, in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping


ROOT = Path(__file__).parents[2]
Variables: TypeAlias = "Mapping[str, str | None]"
PASSPHRASE = "a passphrase with blanks"  # noqa: S105 - of throw-away vaults


@dataclass
class Cli:
    """Runs commands in a temporary home, whose vault is ``home/vault``.

    Attributes:
        home: the folder; also where commands are run.
        environment: all that they see of the environment.
    """

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.home / "passphrase").write_text(PASSPHRASE + "\n")
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CHUNKVAULT_VAULT": str(self.vault),
            "CHUNKVAULT_PASSPHRASE_FILE": str(self.home / "passphrase"),
        }

    @property
    def passphrase(self) -> bytes:
        """Of the vault, for typing it."""
        return PASSPHRASE.encode()

    @property
    def vault(self) -> Path:
        return self.home / "vault"

    def command(self, *arguments: str | bytes | Path) -> list[str | bytes | Path]:
        return [sys.executable, "-m", "chunkvault", *arguments]

    def run(
        self,
        *arguments: str | bytes | Path,
        expect: int = 0,
        stdin: bytes = b"",
        env: Variables | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run to the end; the exit code must be the expected one.

        ``env`` changes environment variables; None removes one.
        """
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            cwd=self.home,
            env=self.variables(env),
            start_new_session=True,  # no controlling terminal, as under cron
            timeout=120,
            check=False,
        )
        assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        assert b"Traceback" not in done.stderr
        assert b"internal error" not in done.stderr, done.stderr
        return done

    def variables(self, changes: Variables | None) -> dict[str, str]:
        merged = {**self.environment, **(changes or {})}
        return {name: value for name, value in merged.items() if value is not None}

    def json(
        self, *arguments: str | bytes | Path, expect: int = 0, env: Variables | None = None
    ) -> dict[str, Any]:
        """Run with --json; stdout must be exactly one object that agrees with the exit code."""
        done = self.run(*arguments, "--json", expect=expect, env=env)
        value = json.loads(done.stdout.decode("utf-8", "strict"))
        assert isinstance(value, dict)
        assert value["exit_code"] == expect
        assert value["ok"] is (expect in {0, 3})
        assert ("error" in value) is not value["ok"]
        return value

    def lines(self, *arguments: str | bytes | Path, expect: int = 0) -> list[str]:
        return self.run(*arguments, expect=expect).stdout.decode().splitlines()


def make_tree(home: Path) -> Path:
    source = home / "src"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "a.txt").write_text("hello\n")
    (source / "sub" / "b.bin").write_bytes(bytes(range(256)) * 40)
    (source / "zero").touch()
    (source / "link").symlink_to("a.txt")
    return source


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A home with the tree and a vault with a snapshot of it, for tests that only look."""
    cli = Cli(tmp_path_factory.mktemp("shared"))
    make_tree(cli.home)
    cli.run("init")
    cli.run("backup", "src")
    return cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A home without a vault."""
    return Cli(tmp_path)


@pytest.fixture
def tree(cli: Cli) -> Path:
    """A small tree in the home."""
    return make_tree(cli.home)


@pytest.fixture
def backed_up(cli: Cli, tree: Path) -> Path:
    """The tree, with one snapshot of it in a vault."""
    cli.run("init")
    cli.run("backup", tree)
    return tree
