"""Starting is cheap because only what is needed is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Cli

CODE = """
import json, sys
from chunkvault.__main__ import main
try:
    main()
except SystemExit:
    pass
print("\\n" + json.dumps(sorted(sys.modules)))
"""


def modules(cli: Cli, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        env=cli.environment,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_version_needs_next_to_nothing(cli: Cli) -> None:
    loaded = modules(cli, "--version")
    assert not loaded & {"typer", "asyncio", "rich", "chunkvault.cli", "chunkvault.errors"}


@pytest.mark.parametrize("verb", ["backup", "snapshots", "restore"])
def test_a_command_brings_only_its_own_module(cli: Cli, verb: str) -> None:
    loaded = modules(cli, verb, "--help")
    commands = {name for name in loaded if name.startswith("chunkvault.cli.commands.")}
    assert commands == {f"chunkvault.cli.commands.{verb}"}
    assert not loaded & {"rich", "pydantic", "pathspec"}


def test_every_command_has_help_with_two_examples(cli: Cli) -> None:
    for words in (
        "init", "backup", "snapshots", "ls", "restore", "dump", "stats", "check",
        "key list", "key add", "key remove", "key change",
    ):  # fmt: skip
        text = cli.run(*words.split(), "--help").stdout.decode()
        examples = text.partition("Examples:")[2].strip().splitlines()
        assert len(examples) >= 2, words
        assert all(f"chunkvault {words}" in line for line in examples), words
