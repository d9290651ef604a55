"""The launcher: exit codes, memory and secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import BenchError
from bench.launch import descendants, resident
from bench.measure import Command, run

_MIB = 1 << 20


def _python(code: str) -> Command:
    return Command((sys.executable, "-c", code))


def test_peak_memory_is_the_commands_own(tmp_path: Path) -> None:
    """What a command holds shows in its peak; what the bench itself holds does not."""
    ballast = b"x" * (200 * _MIB)
    small = run(_python("pass"), tmp_path).peak_rss
    large = run(_python("b'x' * (100 << 20)"), tmp_path).peak_rss
    assert len(ballast) > small
    assert small < 60 * _MIB
    assert 95 * _MIB < large - small < 110 * _MIB


def test_a_tree_of_processes_is_summed() -> None:
    """Children count with their parent, grandchildren too, so that no tool hides memory in them."""
    hold = "import sys; block = b'x' * (50 << 20); print('ready', flush=True); sys.stdin.read()"
    parent = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', {hold!r}])"
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", parent],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        below = descendants(os.getpid())
        held = sum(map(resident, below))
        child.stdin.close()
    assert len(below) == 2
    assert held > 50 * _MIB


def test_a_failing_command_is_a_failed_sample(tmp_path: Path) -> None:
    """A non-zero exit fails the sample and says what the command said last."""
    sample = run(
        _python("import sys; print('first', file=sys.stderr); sys.exit('no room')"), tmp_path
    )
    assert sample.failed == "exit code 1: no room"


def test_a_killed_command_is_a_failed_sample(tmp_path: Path) -> None:
    """A signal fails the sample."""
    sample = run(_python("import os; os.kill(os.getpid(), 9)"), tmp_path)
    assert sample.failed == "exit code -9: no output"


def test_a_program_that_is_not_there_stops_the_bench(tmp_path: Path) -> None:
    """A missing program is an error of the bench, not a fast sample."""
    with pytest.raises(BenchError, match="no-such-program"):
        run(Command(("no-such-program",)), tmp_path)


def test_shown_commands_hold_no_secret_and_no_folder_of_this_machine() -> None:
    """The recorded command names the work folder $WORK and masks the passphrase."""
    command = Command(
        ("/opt/tools/borg", "extract", "::archive1"),
        {"BORG_REPO": "/scratch/vault", "BORG_PASSPHRASE": "hush"},
        Path("/scratch/out"),
        frozenset({"BORG_PASSPHRASE"}),
    )
    assert command.shown(Path("/scratch")) == (
        "cd $WORK/out && BORG_PASSPHRASE='***' BORG_REPO=$WORK/vault borg extract ::archive1"
    )
