"""Prompts where somebody sits, errors at once elsewhere, and an end when a signal asks for it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Cli, Variables

LAUNCH = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A command on a pseudo terminal of its own."""

    def __init__(self, cli: Cli, *arguments: str | Path, env: Variables | None = None) -> None:
        self._leader, follower = pty.openpty()
        self._follower = follower
        self.screen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *cli.command(*arguments)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            cwd=cli.home,
            env=cli.variables({"CHUNKVAULT_PASSPHRASE_FILE": None, **(env or {})}),
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._leader)
        os.close(self._follower)

    def wait_for(self, text: bytes) -> None:
        seen = b""
        while text not in seen:
            seen += os.read(self._leader, 4096)
        self.screen += seen

    def type(self, data: bytes) -> None:
        os.write(self._leader, data)

    def end(self) -> int:
        code = self.process.wait(60)
        os.set_blocking(self._leader, False)
        try:
            while data := os.read(self._leader, 65536):
                self.screen += data
        except BlockingIOError:
            pass
        return code

    @property
    def echo(self) -> bool:
        return bool(termios.tcgetattr(self._follower)[3] & termios.ECHO)


def test_a_person_is_asked_without_echo(cli: Cli) -> None:
    with Terminal(cli, "init") as terminal:
        terminal.wait_for(b"passphrase: ")
        terminal.type(cli.passphrase + b"\n")
        terminal.wait_for(b"again: ")
        terminal.type(cli.passphrase + b"\n")
        assert terminal.end() == 0
        assert cli.passphrase not in terminal.screen
        assert terminal.echo
    cli.run("snapshots")


def test_passphrases_that_differ_make_no_vault(cli: Cli) -> None:
    with Terminal(cli, "init") as terminal:
        terminal.wait_for(b"passphrase: ")
        terminal.type(b"one\n")
        terminal.wait_for(b"again: ")
        terminal.type(b"other\n")
        assert terminal.end() == 1
        assert b"differ" in terminal.screen
    assert not (cli.vault / "config").exists()


def test_an_interrupt_at_the_prompt_leaves_the_terminal_as_it_was(cli: Cli) -> None:
    with Terminal(cli, "init") as terminal:
        terminal.wait_for(b"passphrase: ")
        assert not terminal.echo
        terminal.type(b"\x03")
        assert terminal.end() == 130
        assert terminal.echo


def test_no_escape_from_a_name_reaches_the_terminal(cli: Cli) -> None:
    folder = cli.home / "src"
    folder.mkdir()
    (folder / "x\x1b]0;pwn\x07").touch()
    cli.run("init")
    cli.run("backup", folder)
    file = str(cli.home / "passphrase")
    options = ("ls", f"latest:{folder}", "--passphrase-file", file)
    with Terminal(cli, *options, env={"TERM": "xterm"}) as terminal:
        assert terminal.end() == 0
        assert b"pwn" in terminal.screen
        assert b"\x1b" not in terminal.screen


def test_without_a_terminal_a_missing_passphrase_is_an_error_at_once(
    cli: Cli, backed_up: Path
) -> None:
    """Piped data is not eaten as the passphrase."""
    for arguments in (["snapshots"], ["backup", "--stdin"]):
        done = cli.run(*arguments, expect=1, stdin=b"x\n", env={"CHUNKVAULT_PASSPHRASE_FILE": None})
        assert b"--passphrase-file" in done.stderr
        assert done.stderr.count(b"\n") == 1


def test_a_passphrase_command_works_and_its_failure_is_fatal(cli: Cli, backed_up: Path) -> None:
    nothing: Variables = {"CHUNKVAULT_PASSPHRASE_FILE": None}
    cli.run("snapshots", "--passphrase-command", "cat passphrase", env=nothing)
    cli.run("snapshots", "--passphrase-command", "false", expect=1, env=nothing)
    data = b"the data"
    cli.run("backup", "--stdin", "--passphrase-command", "sh -c 'cat; cat passphrase'", stdin=data)
    assert cli.run("dump", "latest:stdin").stdout == data


def test_off_a_terminal_there_is_neither_bar_nor_carriage_return(cli: Cli, backed_up: Path) -> None:
    done = cli.run("backup", backed_up, env={"TERM": "xterm-256color"})
    assert done.stderr == b""
    assert b"\r" not in done.stdout
    assert b"\x1b" not in done.stdout


def test_quiet_says_nothing_but_problems(cli: Cli, backed_up: Path) -> None:
    done = cli.run("backup", "-q", backed_up)
    assert (done.stdout, done.stderr) == (b"", b"")
    done = cli.run("backup", "-q", backed_up, "missing", expect=3)
    assert b"warning" in done.stderr


class Held:
    """A command that waits for its passphrase until it is let go; its handlers are in place."""

    def __init__(self, cli: Cli, *arguments: str | Path) -> None:
        self._ready, self._go = cli.home / "ready", cli.home / "go"
        os.mkfifo(self._ready)
        os.mkfifo(self._go)
        script = cli.home / "ask"
        script.write_text("echo > ready; cat go > /dev/null; cat passphrase\n")
        self.process = subprocess.Popen(
            cli.command(*arguments, "--passphrase-command", "sh ask"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cli.home,
            env=cli.environment,
            start_new_session=True,
        )
        self._ready.read_bytes()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def let_go(self) -> None:
        self._go.write_bytes(b"")

    def end(self, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        out, err = self.process.communicate(stdin, timeout=60)
        return self.process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_backup_exits_130_and_a_rerun_completes(
    cli: Cli, backed_up: Path, number: signal.Signals
) -> None:
    (backed_up / "more").write_text("more")
    held = Held(cli, "backup", backed_up, "--json")
    held.signal(number)
    held.let_go()
    code, out, err = held.end()
    value = json.loads(out)
    assert code == value["exit_code"] == 130
    assert value["error"]["kind"] == "interrupted"
    assert b"stopped" in err
    cli.run("backup", backed_up)
    cli.run("restore", f"latest:{backed_up}/more", "-t", "out")


@pytest.mark.parametrize("arguments", [["snapshots"], ["ls", "latest"], ["check"], ["stats"]])
def test_any_command_ends_when_it_is_told_to(
    cli: Cli, backed_up: Path, arguments: list[str]
) -> None:
    held = Held(cli, *arguments, "--json")
    held.signal(signal.SIGTERM)
    held.let_go()
    code, out, _ = held.end()
    assert code == 130
    assert json.loads(out)["error"]["kind"] == "interrupted"


def test_the_second_interrupt_does_not_wait(cli: Cli, backed_up: Path) -> None:
    """While stdin stays open and the operation waits for it."""
    held = Held(cli, "backup", "--stdin", "--json")
    held.signal(signal.SIGINT)
    held.signal(signal.SIGUSR1)  # harmless
    while held.process.poll() is None:  # two signals sent in a row may arrive as one
        held.signal(signal.SIGINT)
    assert held.process.stdout is not None
    assert json.loads(held.process.stdout.read())["error"]["kind"] == "interrupted"
    held.let_go()
    assert held.end()[0] == 130
    cli.run("check")


def test_a_poke_shows_progress(cli: Cli, backed_up: Path) -> None:
    held = Held(cli, "snapshots")
    held.signal(signal.SIGUSR1)
    assert held.process.stderr is not None
    assert held.process.stderr.readline() == b"chunkvault: working: 0 files, 0 B\n"
    held.let_go()
    assert held.end()[0] == 0
