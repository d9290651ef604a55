"""The walk finds everything, in manifest order, and stays inside its sources."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from chunkvault.format.entry import order_key
from chunkvault.fs.scan import Found, Scanner, relative

Report = list[tuple[str, bytes]]


def walk(*sources: Path, report: Report | None = None, **options: object) -> list[bytes]:
    """Paths found, with the sources' own ancestors left out."""
    said = report if report is not None else []
    scanner = Scanner(
        [os.fsencode(source) for source in sources],
        report=lambda kind, path, _: said.append((kind, path)),
        **options,  # type: ignore[arg-type]
    )
    return [found.path for found in scanner]


def below(paths: list[bytes], root: Path) -> list[bytes]:
    prefix = relative(os.fsencode(root)) + b"/"
    return [path[len(prefix) :] for path in paths if path.startswith(prefix)]


def test_order_is_folder_first_then_names_by_bytes(tmp_path: Path) -> None:
    """``a/x`` comes before ``a-b`` although ``-`` sorts before ``/``."""
    for name in ("a/x", "a-b", "a.txt", "ab/y", "A", "z/z/z"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = walk(tmp_path)
    assert found == sorted(found, key=order_key)
    assert below(found, tmp_path) == [
        b"A", b"a", b"a/x", b"a-b", b"a.txt", b"ab", b"ab/y", b"z", b"z/z", b"z/z/z",
    ]  # fmt: skip


def test_random_trees_equal_an_independent_walk(tmp_path: Path) -> None:
    """Whatever the tree, the walk finds what os.walk finds, each once."""
    rng = random.Random(7)  # noqa: S311 - seeded on purpose
    for _ in range(300):
        parts = [rng.choice("abc-.äZ") * rng.randint(1, 3) for _ in range(rng.randint(1, 5))]
        parts = [part if part.strip(".") else "dot" + part for part in parts]
        path = tmp_path.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError:
            continue
    expected: set[bytes] = set()
    for folder, folders, files in os.walk(os.fsencode(tmp_path)):
        expected.update(relative(os.path.join(folder, name)) for name in folders + files)  # noqa: PTH118
    found = walk(tmp_path)
    inside = [p for p in found if p.startswith(relative(os.fsencode(tmp_path)) + b"/")]
    assert len(inside) == len(set(inside))
    assert set(inside) == expected
    assert found == sorted(found, key=order_key)


def test_ancestors_of_a_source_are_found_and_not_entered(tmp_path: Path) -> None:
    """Folders on the way keep their metadata in the snapshot, their other contents stay out."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/other").touch()
    assert below(walk(tmp_path / "a/b"), tmp_path) == [b"a", b"a/b"]


def test_nested_and_repeated_sources_are_walked_once(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/f").touch()
    found = walk(tmp_path / "a", tmp_path / "a/b", tmp_path / "a")
    assert below(found, tmp_path) == [b"a", b"a/b", b"a/b/f"]


def test_missing_sources_are_named_and_the_rest_is_found(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    said: Report = []
    found = walk(tmp_path / "gone/deep", tmp_path / "there", tmp_path / "there/x", report=said)
    assert below(found, tmp_path) == [b"there"]
    assert said == [
        ("missing", relative(os.fsencode(tmp_path / "gone/deep"))),
        ("missing", relative(os.fsencode(tmp_path / "there/x"))),
    ]


def test_links_are_found_as_links_and_followed_only_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/f").touch()
    (tmp_path / "link").symlink_to("real")
    assert below(walk(tmp_path / "link"), tmp_path) == [b"link"]
    assert below(walk(tmp_path / "link/f"), tmp_path) == [b"link", b"link/f"]


def test_the_vault_itself_is_left_out_by_identity(tmp_path: Path) -> None:
    """By device and inode, so that another path to it makes no difference."""
    (tmp_path / "vault/blobs").mkdir(parents=True)
    (tmp_path / "f").touch()
    status = (tmp_path / "vault").stat()
    said: Report = []
    found = walk(tmp_path, report=said, own=frozenset({(status.st_dev, status.st_ino)}))
    assert below(found, tmp_path) == [b"f"]
    assert [kind for kind, _ in said] == ["own-vault"]


def test_excluded_folders_are_not_entered_and_sources_are_never_excluded(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/keep").touch()
    asked: list[bytes] = []

    def excluded(path: bytes, is_directory: bool) -> bool:
        asked.append(path)
        return path == b"b" and is_directory

    assert below(walk(tmp_path / "a", excluded=excluded), tmp_path) == [b"a", b"a/keep"]
    assert b"b/c" not in asked
    found = walk(tmp_path / "a", tmp_path / "a/b/c", excluded=lambda *_: True)
    assert below(found, tmp_path) == [b"a", b"a/b", b"a/b/c"]


def test_two_thousand_levels_need_few_descriptors(tmp_path: Path) -> None:
    """Depth is bounded by neither Python's stack nor the limit on open files."""
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(os.open("z", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    (tmp_path / "last").touch()
    most = 0
    found: list[bytes] = []
    for one in Scanner([os.fsencode(tmp_path)], report=lambda *_: None):
        found.append(one.path)
        if len(found) % 100 == 0:
            most = max(most, len(list(Path("/proc/self/fd").iterdir())))
    inside = below(found, tmp_path)
    assert len(inside) == 2002
    assert inside[-1] == b"last"
    assert most < 260
    _remove_deep(tmp_path)


def _remove_deep(top: Path) -> None:
    # Pull the chain apart a hundred levels at a time: shutil.rmtree recurses.
    while True:
        fd = os.open(top, os.O_RDONLY)
        for _ in range(100):
            try:
                deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
            except FileNotFoundError:
                os.close(fd)
                shutil.rmtree(top)
                return
            os.close(fd)
            fd = deeper
        try:
            os.rename("d", top / "rest", src_dir_fd=fd)
        except FileNotFoundError:
            os.close(fd)
            shutil.rmtree(top)
            return
        os.close(fd)
        shutil.rmtree(top / "d")
        (top / "rest").rename(top / "d")


def test_a_folder_moved_while_below_it_ends_there(tmp_path: Path) -> None:
    """The walk never goes on in a folder that has become another one's child."""
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=fd)
        os.close(os.open("z", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    elsewhere = tmp_path.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "zz-secret").touch()
    said: Report = []
    scanner = Scanner(
        [os.fsencode(tmp_path)], report=lambda kind, path, _: said.append((kind, path))
    )
    found: list[Found] = []
    for one in scanner:
        found.append(one)
        if one.path.count(b"/d") == 395 and not (elsewhere / "moved").exists():
            tmp_path.joinpath(*["d"] * 100).rename(elsewhere / "moved")
    assert not [one.path for one in found if b"secret" in one.path]
    assert "unreadable" in {kind for kind, _ in said}
    shutil.rmtree(elsewhere)
    shutil.rmtree(tmp_path)


def test_a_folder_that_cannot_be_opened_is_named_and_kept() -> None:
    """Its own entry stays in the snapshot, what is in it cannot."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        closed = top / "closed"
        closed.mkdir()
        (closed / "f").touch()
        closed.chmod(0)
        (top / "z").touch()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if os.geteuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                said: Report = []
                ok = below(walk(top, report=said), top) == [b"closed", b"z"]
                status = 0 if ok and [kind for kind, _ in said] == ["unreadable"] else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    ("path", "expected"), [(b"/", b""), (b"//", b""), (b"/a//b/", b"a/b"), (b"/a/b", b"a/b")]
)
def test_relative_paths_have_no_empty_parts(path: bytes, expected: bytes) -> None:
    assert relative(path) == expected
