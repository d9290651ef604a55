"""--json: stdout is exactly one object, for every command, on success and on failure."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from chunkvault.cli.app import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Cli, Variables

RUNS = {
    "init": ["init", "-V", "second"],
    "backup": ["backup", "src"],
    "snapshots": ["snapshots"],
    "ls": ["ls", "-R", "latest"],
    "restore": ["restore", "latest", "-t", "out"],
    "dump": ["dump", "latest:{home}/src/a.txt", "-o", "copy"],
    "stats": ["stats"],
    "check": ["check", "--read-data"],
    "key": ["key", "list"],
    "key add": ["key", "add", "--new-passphrase-file", "passphrase"],
    "key change": ["key", "change", "--new-passphrase-file", "passphrase"],
}


def arguments(cli: Cli, name: str) -> list[str]:
    return [word.format(home=cli.home) for word in RUNS[name]]


def test_every_command_is_tried() -> None:
    assert {name.split()[0] for name in RUNS} == set(COMMANDS)


@pytest.mark.parametrize("name", RUNS)
def test_success_is_one_object(cli: Cli, backed_up: Path, name: str) -> None:
    value = cli.json(*arguments(cli, name), "-v")
    assert value["warnings"] == []
    assert value["command"].startswith(name.split()[0])


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({"CHUNKVAULT_PASSPHRASE_FILE": "/nonexistent"}, "passphrase"),
        ({"CHUNKVAULT_PASSPHRASE_FILE": None, "HOME": None}, "passphrase"),
    ],
    ids=["unreadable-passphrase", "nobody-to-ask"],
)
def test_failure_is_one_object(shared: Cli, name: str, variables: Variables, kind: str) -> None:
    value = shared.json(*arguments(shared, name), expect=1, env=variables)
    assert value["error"]["kind"] == kind
    assert value["error"]["message"]


@pytest.mark.parametrize("name", RUNS)
def test_wrong_usage_is_one_object(cli: Cli, name: str) -> None:
    value = cli.json(*arguments(cli, name), "--nonsense", expect=2)
    assert value["error"]["kind"] == "usage"


def test_no_vault_is_told_by_its_kind(cli: Cli) -> None:
    assert cli.json("snapshots", expect=1)["error"]["kind"] == "not-a-vault"


def test_dump_cannot_have_stdout_for_both(cli: Cli, backed_up: Path) -> None:
    cli.json("dump", f"latest:{backed_up}/a.txt", expect=2)


def test_warnings_are_in_the_object(cli: Cli, backed_up: Path) -> None:
    value = cli.json("backup", backed_up, "missing", expect=3)
    (warning,) = value["warnings"]
    assert warning["kind"] == "missing"
    assert warning["path"] == str(cli.home / "missing")
    assert value["snapshot"]


def test_a_backup_tells_what_it_made(cli: Cli, backed_up: Path) -> None:
    value = cli.json("backup", backed_up)
    assert value["totals"]["unchanged_files"] == 3
    listed = cli.json("snapshots")["snapshots"]
    assert value["snapshot"] in {one["id"] for one in listed}
    assert value["parent"] == listed[0]["id"]


def test_a_listing_cut_short_by_damage_is_still_one_object(cli: Cli, backed_up: Path) -> None:
    for blob in (cli.vault / "blobs").glob("*/*"):
        blob.write_bytes(b"")
    value = cli.json("ls", "-R", "latest", expect=3)
    assert value["entries"] == []
    assert value["warnings"]


def test_a_reader_that_leaves_ends_the_run_quietly(cli: Cli, backed_up: Path) -> None:
    for options in (["ls", "-R", "latest"], ["ls", "-R", "latest", "--json"], ["stats"]):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as stdout:
            done = subprocess.run(
                cli.command(*options, "-q"),
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=cli.environment,
                check=False,
            )
        assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_stdout_is_an_error(cli: Cli, backed_up: Path) -> None:
    with open("/dev/full", "wb") as stdout:
        done = subprocess.run(
            cli.command("snapshots"),
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=cli.environment,
            check=False,
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr


def test_closed_streams_harm_nothing(cli: Cli, backed_up: Path) -> None:
    """With stdout and stderr closed, no file of the vault takes their numbers."""
    script = '"$@" >&- 2>&- <&-'
    words = ["sh", "-c", script, "sh", *cli.command("backup", backed_up)]
    done = subprocess.run(words, env=cli.environment, check=False)
    assert done.returncode == 0
    cli.run("check", "--read-data")
    assert json.loads(cli.run("snapshots", "--json").stdout)["ok"]
