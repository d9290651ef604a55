"""Puts finished trees out of the way without deleting a single file while anything is timed.

What lives here: the reason and the way. ext4 without a journal does not hand out an inode again
for some minutes after it was freed, and looks through all such inodes whenever a file is created:
after 20,000 deletions a new file took 500 µs instead of 17 here, for every program on that file
system. A bench that deletes the restore before the last one measures its own deletions.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

_WORTH_TRUNCATING: Final = 1 << 16
_PROBE_FOLDERS: Final = 20
_PROBE_FILES: Final = 100


class Attic:
    """A folder that takes what is no longer needed until `clear` is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take(self, path: Path) -> None:
        """Move ``path`` away if it exists; large files give back their space, not their inodes."""
        if not path.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(dir=self.folder)) / path.name
        path.rename(place)
        for base, _, names in os.walk(place):
            for name in names:
                _empty_if_large(Path(base, name))

    def renew(self, path: Path) -> Path:
        """Make ``path`` an empty folder."""
        self.take(path)
        path.mkdir(parents=True)
        return path

    def creation_cost(self) -> float:
        """Microseconds it takes to create a small file now; the files stay in the attic."""
        self.folder.mkdir(parents=True, exist_ok=True)
        root = Path(tempfile.mkdtemp(dir=self.folder))
        begin = time.perf_counter()
        for number in range(_PROBE_FOLDERS):
            folder = root / str(number)
            folder.mkdir()
            for name in range(_PROBE_FILES):
                os.close(os.open(folder / str(name), os.O_WRONLY | os.O_CREAT, 0o600))
        seconds = time.perf_counter() - begin
        return seconds * 1e6 / (_PROBE_FOLDERS * _PROBE_FILES)

    def clear(self) -> None:
        """Delete everything, when nothing is timed any more."""
        if self.folder.exists():
            shutil.rmtree(self.folder)


def _empty_if_large(path: Path) -> None:
    state = path.lstat()
    if path.is_file() and not path.is_symlink() and state.st_size > _WORTH_TRUNCATING:
        path.chmod(0o600)  # read-only vault files too
        os.truncate(path, 0)
