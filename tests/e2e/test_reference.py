"""docs/cli.md says what the program says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.conftest import Cli

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_help_prints(cli: Cli) -> None:
    """If this fails: python docs/make_cli.py > docs/cli.md."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_cli.py"],
        capture_output=True,
        check=True,
        env=cli.environment,
    )
    assert done.stdout.decode() == (ROOT / "docs" / "cli.md").read_text("utf-8")
