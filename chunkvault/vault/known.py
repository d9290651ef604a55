"""What this machine remembers of the vaults it has opened, against one being swapped for another.

Whoever holds the storage could replace an encrypted vault's config by that of a plain one and wait
for the next backup. A vault that was encrypted once is expected to be so for ever. Losing this
memory
costs nothing but the check.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from chunkvault.crypto.keys import keyed_hash
from chunkvault.errors import VaultError

if TYPE_CHECKING:
    from pathlib import Path

    from chunkvault.format.config import VaultConfig


def remember(cache_dir: Path | None, location: str, config: VaultConfig) -> None:
    """Note what a vault is; where that cannot be written, nothing is lost."""
    if cache_dir is None:
        return
    path = _path(cache_dir, location)
    text = json.dumps({"vault": config.vault_id.hex(), "encrypted": config.encrypted})
    with contextlib.suppress(OSError):
        if path.exists() and path.read_text() == text:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.replace(path)


def check_known(cache_dir: Path | None, location: str, config: VaultConfig) -> None:
    """Refuse a plain vault where there was an encrypted one.

    Raises:
        VaultError: the vault here used to be encrypted.
    """
    if cache_dir is None or config.encrypted:
        return
    path = _path(cache_dir, location)
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        return
    if isinstance(before, dict) and before.get("encrypted") is True:
        raise VaultError(
            f"{location} was encrypted and is not any more: somebody may have replaced it; if you "
            f"made a new vault there on purpose, remove {path}"
        )


def _path(cache_dir: Path, location: str) -> Path:
    return cache_dir / "known" / keyed_hash(None, location.encode("utf-8", "surrogateescape")).hex()
