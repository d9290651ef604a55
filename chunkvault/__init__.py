"""Deduplicated, encrypted snapshots of files."""

from typing import Final

__version__: Final = "0.1.0"
