"""Is what came back what went in?

What lives here: a comparison that shares nothing with any tool under test. Names, types, bytes,
modes, and modification times of files to the nanosecond are compared; owners, extended attributes
and the times of folders are left to the test suite.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 20
_ENOUGH: Final = 10  # differences worth naming


def compare_trees(source: Path, restored: Path) -> list[str]:
    """The first differences between two folders, one line each; empty if there are none."""
    found: list[str] = []
    for line in _differences(source, restored, Path()):
        found.append(line)
        if len(found) == _ENOUGH:
            break
    return found


def compare_single(source: Path, restored: Path, root: Path) -> list[str]:
    """Differences between one file and its copy, which must be the only file below ``root``."""
    found = _file_differences(source, restored, source.name) if restored.exists() else []
    others = [Path(base, name) for base, _, names in os.walk(root) for name in names]
    if others != [restored]:
        found.append(f"{len(others)} files came back where one was asked for")
    return found


def _differences(source: Path, restored: Path, below: Path) -> Iterator[str]:
    try:
        theirs = _listing(restored / below)
    except OSError as error:
        yield f"{below}/: {error.strerror}"
        return
    ours = _listing(source / below)
    yield from (f"{below / name}: missing" for name in sorted(ours.keys() - theirs.keys()))
    yield from (f"{below / name}: not in the source" for name in sorted(theirs.keys() - ours))
    for name in sorted(ours.keys() & theirs.keys()):
        yield from _entry_differences(ours[name], theirs[name], below / name)
        if ours[name].is_dir(follow_symlinks=False) and theirs[name].is_dir(follow_symlinks=False):
            yield from _differences(source, restored, below / name)


def _listing(folder: Path) -> dict[str, os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return {entry.name: entry for entry in entries}


def _entry_differences(
    ours: os.DirEntry[str], theirs: os.DirEntry[str], shown: Path
) -> Iterator[str]:
    want, got = ours.stat(follow_symlinks=False), theirs.stat(follow_symlinks=False)
    if want.st_mode != got.st_mode:
        yield f"{shown}: mode {want.st_mode:o} became {got.st_mode:o}"
    if stat.S_ISREG(want.st_mode) and stat.S_ISREG(got.st_mode):
        if want.st_mtime_ns != got.st_mtime_ns:
            yield f"{shown}: time {want.st_mtime_ns} became {got.st_mtime_ns}"
        if want.st_size != got.st_size:
            yield f"{shown}: {want.st_size} bytes became {got.st_size}"
        elif not _same_bytes(ours.path, theirs.path):
            yield f"{shown}: other bytes"


def _file_differences(source: Path, restored: Path, shown: str) -> list[str]:
    want, got = source.lstat(), restored.lstat()
    found: list[str] = []
    if (want.st_mode, want.st_mtime_ns) != (got.st_mode, got.st_mtime_ns):
        found.append(f"{shown}: mode or time differ")
    if not _same_bytes(str(source), str(restored)):
        found.append(f"{shown}: other bytes")
    return found


def _same_bytes(first: str, second: str) -> bool:
    # Plain descriptors: 50,000 pairs of buffered files would cost seconds more.
    one = os.open(first, os.O_RDONLY)
    try:
        two = os.open(second, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            return _same_streams(one, two)
        finally:
            os.close(two)
    finally:
        os.close(one)


def _same_streams(one: int, two: int) -> bool:
    while True:
        ours, theirs = os.read(one, _PIECE), os.read(two, _PIECE)
        if ours != theirs:
            return False
        if not ours:
            return True
