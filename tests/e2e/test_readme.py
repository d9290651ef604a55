"""The README's commands work as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from chunkvault.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def test_the_five_minutes_work(tmp_path: Path) -> None:
    """One shell, one home, the commands in order; the first that fails ends it."""
    for name in ("photos", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "todo.txt").write_text(f"{name}\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "chunkvault").write_text(f'#!/bin/sh\nexec {sys.executable} -m chunkvault "$@"\n')
    (programs / "chunkvault").chmod(0o755)
    script = "set -euo pipefail\n" + "\n".join(commands())
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", script],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": f"{programs}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "buy milk" in done.stdout
    assert (tmp_path / "restored" / "todo.txt").read_text() == "notes\nbuy milk\n"


def test_every_command_is_used_or_named_in_the_readme() -> None:
    used = "\n".join(commands())
    for verb in COMMANDS:
        assert f"chunkvault {verb}" in used
        assert f"| `{verb}" in README


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
