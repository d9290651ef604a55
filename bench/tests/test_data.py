"""The data sets: seeded, of the promised shape, and as compressible as they claim."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import zstandard

from bench.attic import Attic
from bench.data import (
    LargeFiles,
    SmallFiles,
    TextSource,
    TinyFiles,
    change_some,
    make,
    make_once,
    pick_one,
)

_SHAPE = SmallFiles(files=400, tops=2, subs=5)


def _fingerprint(folder: Path) -> str:
    digest = hashlib.blake2b()
    for path in sorted(folder.rglob("*")):
        state = path.stat()
        digest.update(f"{path.relative_to(folder)} {state.st_mode:o}\n".encode())
        if path.is_file():
            digest.update(f"{state.st_mtime_ns}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def test_same_seed_same_tree(tmp_path: Path) -> None:
    """One seed gives the same names, bytes, modes and times; another seed gives others."""
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        make(_SHAPE, tmp_path / name, seed)
    assert _fingerprint(tmp_path / "one") == _fingerprint(tmp_path / "again")
    assert _fingerprint(tmp_path / "one") != _fingerprint(tmp_path / "other")


def test_small_files_have_the_promised_shape(tmp_path: Path) -> None:
    """Small files are 1 to 8 KB, about 4 KB on average, about half text, all folders used."""
    make(_SHAPE, tmp_path / "small", 1)
    files = [path for path in (tmp_path / "small").rglob("*") if path.is_file()]
    sizes = [path.stat().st_size for path in files]
    texts = sum(path.suffix == ".txt" for path in files)
    assert len(files) == 400
    assert len({path.parent for path in files}) == 10
    assert min(sizes) >= 1024
    assert max(sizes) <= 8192
    assert 3800 < sum(sizes) / len(sizes) < 4800
    assert 150 < texts < 250


def test_text_compresses_like_prose() -> None:
    """A mebibyte of text shrinks about 3:1 under zstd level 3, and no mebibyte helps the next."""
    source = TextSource("1")
    first, second = source.take(1 << 20), source.take(1 << 20)
    squeeze = zstandard.ZstdCompressor(level=3, write_content_size=True).compress
    assert 2.6 < (1 << 20) / len(squeeze(first)) < 3.4
    windows = {first[place : place + 256] for place in range(0, 1 << 20, 256)}
    assert all(second[place : place + 256] not in windows for place in range(1 << 16))


def test_large_files_have_the_exact_size(tmp_path: Path) -> None:
    """Both large files are as large as asked, whatever the size of a piece."""
    make(LargeFiles(size=(5 << 20) + 7), tmp_path / "large", 1)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "large").iterdir()}
    assert sizes == {"random.bin": (5 << 20) + 7, "text.txt": (5 << 20) + 7}


def test_tiny_files_are_all_different(tmp_path: Path) -> None:
    """No two tiny files are alike, so that none is saved as a copy of another."""
    make(TinyFiles(folders=3, per_folder=4), tmp_path / "tiny", 1)
    contents = [path.read_bytes() for path in (tmp_path / "tiny").rglob("file*")]
    assert len(contents) == len(set(contents)) == 12
    assert {len(content) for content in contents} == {16}


def test_a_change_touches_one_file_in_a_hundred_and_keeps_sizes(tmp_path: Path) -> None:
    """A change gives 1 % of the files new bytes and times, and leaves the rest alone."""
    make(_SHAPE, tmp_path / "small", 1)
    before = {p: (p.read_bytes(), p.stat()) for p in (tmp_path / "small").rglob("file*")}
    assert change_some(tmp_path / "small", seed=1, turn=1) == 4
    changed = [p for p, (content, _) in before.items() if p.read_bytes() != content]
    moved = [p for p, (_, state) in before.items() if p.stat().st_mtime_ns != state.st_mtime_ns]
    assert len(changed) == 4
    assert sorted(moved) == sorted(changed)
    assert all(p.stat().st_size == state.st_size for p, (_, state) in before.items())


def test_every_turn_changes_other_files(tmp_path: Path) -> None:
    """The second round's change is not the first one's."""
    make(_SHAPE, tmp_path / "small", 1)
    change_some(tmp_path / "small", seed=1, turn=1)
    before = {p: p.read_bytes() for p in (tmp_path / "small").rglob("file*")}
    change_some(tmp_path / "small", seed=1, turn=2)
    assert sum(p.read_bytes() != content for p, content in before.items()) == 4


def test_the_picked_file_is_about_4_kb_and_the_same_again(tmp_path: Path) -> None:
    """The file to bring back alone is of about 4 KB, and every run picks the same one."""
    make(_SHAPE, tmp_path / "small", 1)
    picked = pick_one(tmp_path / "small", seed=1)
    assert picked == pick_one(tmp_path / "small", seed=1)
    assert 3500 <= (tmp_path / "small" / picked).stat().st_size <= 4700


def test_made_once_is_kept_and_a_half_made_one_is_not(tmp_path: Path) -> None:
    """A finished data set is reused; one of another seed, or without its stamp, is made again."""
    folder = tmp_path / "large"
    attic = Attic(tmp_path / "attic")
    make_once(LargeFiles(size=1000), folder, 1, attic)
    (folder / "mark").touch()
    make_once(LargeFiles(size=1000), folder, 1, attic)
    assert (folder / "mark").exists()
    make_once(LargeFiles(size=1000), folder, 2, attic)
    assert not (folder / "mark").exists()
    (folder / "mark").touch()
    (tmp_path / "large.json").unlink()
    make_once(LargeFiles(size=1000), folder, 2, attic)
    assert not (folder / "mark").exists()
    shutil.rmtree(folder)
    make_once(LargeFiles(size=1000), folder, 2, attic)
    assert (folder / "text.txt").exists()
