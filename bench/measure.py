"""One command, one sample.

What lives here: running a command through the launcher and reading what it measured. What may not:
knowledge of any tool, or of what is being compared.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import BenchError

LIMIT_SECONDS: Final = 3600.0
"""A command that runs longer is killed and its sample has failed."""

_LAUNCHER: Final = Path(__file__).with_name("launch.py")


@dataclass(frozen=True)
class Command:
    """What to run.

    Attributes:
        argv: program and arguments, exactly.
        env: what is added to the environment.
        cwd: the working folder, which exists by then.
        secret: names in ``env`` whose values are never written down.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path("/")
    secret: frozenset[str] = frozenset()

    def shown(self, work: Path) -> str:
        """The command as a person would type it, the work folder as ``$WORK``, secrets as ``***``.

        The program goes by its name, so that a result file tells nothing of the machine's folders.
        """
        pairs = [f"{name}={self._shown_value(name)}" for name in sorted(self.env)]
        words = [*pairs, Path(self.argv[0]).name, *map(shlex.quote, self.argv[1:])]
        if self.cwd != Path("/"):
            words = ["cd", shlex.quote(str(self.cwd)), "&&", *words]
        return " ".join(words).replace(str(work), "$WORK")

    def _shown_value(self, name: str) -> str:
        return "'***'" if name in self.secret else shlex.quote(self.env[name])


@dataclass(frozen=True)
class Sample:
    """What one run of a command took.

    Attributes:
        seconds: wall clock, from the start of the process to its end.
        user: processor seconds in user mode.
        system: processor seconds in the kernel.
        peak_rss: most bytes held in memory at once, over the whole tree of processes.
        failed: why the sample does not count; None for a good one.
    """

    seconds: float
    user: float
    system: float
    peak_rss: int
    failed: str | None = None


def run(command: Command, scratch: Path) -> Sample:
    """Run a command once, after everything written before it has reached the disk.

    Its output goes to ``scratch/output.log``.

    Raises:
        BenchError: the command could not even be started.
    """
    os.sync()
    report = scratch / "sample"
    output = scratch / "output.log"
    report.unlink(missing_ok=True)
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(report), str(LIMIT_SECONDS)]
    with output.open("wb") as log:
        subprocess.run(  # noqa: S603 - the commands are our own
            [*launcher, *command.argv],
            env={**_inherited(), **command.env},
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not report.exists():
        raise BenchError(f"cannot run {command.argv[0]}: {_last_line(output)}")
    return _read_report(report.read_text(), output)


def run_untimed(command: Command, scratch: Path) -> None:
    """Run a command whose time does not matter.

    Raises:
        BenchError: it failed.
    """
    sample = run(command, scratch)
    if sample.failed:
        raise BenchError(f"{command.shown(scratch)} failed: {sample.failed}")


def output_of(command: Command, scratch: Path) -> str:
    """What a command prints, without the white space around it."""
    run_untimed(command, scratch)
    return (scratch / "output.log").read_text(errors="replace").strip()


def _inherited() -> dict[str, str]:
    """A known environment: no setting of the person who runs the bench reaches a tool."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8"}


def _read_report(text: str, output: Path) -> Sample:
    seconds, user, system, peak, code, killed = text.split()
    failed = None
    if killed == "1":
        failed = f"still running after {LIMIT_SECONDS:.0f} s"
    elif code != "0":
        failed = f"exit code {code}: {_last_line(output)}"
    return Sample(float(seconds), float(user), float(system), int(peak), failed)


def _last_line(output: Path) -> str:
    lines = output.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no output"
