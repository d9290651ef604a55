"""The comparison: every kind of damage a restore could do is seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.compare import compare_single, compare_trees


def _make_pair(tmp_path: Path) -> tuple[Path, Path]:
    source, restored = tmp_path / "source", tmp_path / "restored"
    (source / "folder").mkdir(parents=True)
    (source / "folder" / "file").write_bytes(b"x" * (3 << 20))
    (source / "other").write_bytes(b"other")
    os.utime(source / "other", ns=(1, 1_500_000_000_123_456_789))
    shutil.copytree(source, restored)
    return source, restored


def _flip(root: Path) -> None:
    path = root / "folder" / "file"
    state = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"y")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _nudge(root: Path) -> None:
    state = (root / "other").stat()
    os.utime(root / "other", ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def _truncate(root: Path) -> None:
    path = root / "other"
    state = path.stat()
    os.truncate(path, 4)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _replace_by_link(root: Path) -> None:
    (root / "other").rename(root.parent / "elsewhere")
    (root / "other").symlink_to(root.parent / "elsewhere")


_DAMAGE: dict[str, Callable[[Path], object]] = {
    "other bytes": _flip,
    "time": _nudge,
    "bytes became": _truncate,
    "mode": lambda root: (root / "other").chmod(0o600),
    "folder: mode": lambda root: (root / "folder").chmod(0o700),
    "missing": lambda root: (root / "other").unlink(),
    "folder: missing": lambda root: shutil.rmtree(root / "folder"),
    "not in the source": lambda root: (root / "extra").touch(),
    "other: mode": _replace_by_link,
    "No such file": shutil.rmtree,
}


def test_equal_trees_have_no_differences(tmp_path: Path) -> None:
    """A faithful copy passes."""
    assert compare_trees(*_make_pair(tmp_path)) == []


@pytest.mark.parametrize("kind", list(_DAMAGE))
def test_every_damage_is_seen(tmp_path: Path, kind: str) -> None:
    """One byte, one nanosecond, one mode bit or one name more or less is one difference."""
    source, restored = _make_pair(tmp_path)
    _DAMAGE[kind](restored)
    found = compare_trees(source, restored)
    assert len(found) == 1
    assert kind in found[0]


def test_a_single_file_must_come_back_alone_and_whole(tmp_path: Path) -> None:
    """One restored file is compared, and company is a difference."""
    source = tmp_path / "file"
    source.write_bytes(b"content")
    root = tmp_path / "restored"
    copy = root / "deep" / "file"
    copy.parent.mkdir(parents=True)
    assert compare_single(source, copy, root) != []
    shutil.copy2(source, copy)
    assert compare_single(source, copy, root) == []
    (root / "second").touch()
    assert compare_single(source, copy, root) != []
    (root / "second").unlink()
    copy.write_bytes(b"Content")
    assert compare_single(source, copy, root) != []
