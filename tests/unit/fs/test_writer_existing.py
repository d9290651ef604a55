"""Into a folder that is not empty: what is replaced, what is kept, and what becomes of the old."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chunkvault.errors import TargetError
from chunkvault.format.entry import Entry, FileType
from chunkvault.fs.metadata import ACL_ACCESS
from chunkvault.fs.writer import TreeWriter

MTIME = 1_500_000_000_123_456_789
ACL = bytes.fromhex(
    "02000000 01000700ffffffff 0200070067120000 04000700ffffffff 10000700ffffffff 20000500ffffffff"
)


def make_entry(**fields: object) -> Entry:
    plain = Entry(b"x", FileType.FILE, 0o644, os.geteuid(), os.getegid(), MTIME, 0, 0, 1, 1, 1)
    return plain._replace(**fields)  # type: ignore[arg-type]


def folder_entry(**fields: object) -> Entry:
    return make_entry(**{"type": FileType.DIRECTORY, "mode": 0o755, **fields})


class Reports(list[tuple[str, bytes]]):
    def __call__(self, kind: str, path: bytes, error: OSError) -> None:
        assert error.errno
        self.append((kind, path))


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_bytes(b"untouched")
    return tmp_path / "target"


@pytest.fixture
def writer(target: Path, reports: Reports) -> Iterator[TreeWriter]:
    writer = TreeWriter(target, owners=os.geteuid() == 0, report=reports)
    yield writer
    writer.finish()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


OBSTACLES: dict[str, Callable[[Path], object]] = {
    "file": lambda path: path.write_bytes(b"old"),
    "read-only file": lambda path: os.close(os.open(path, os.O_CREAT, 0o444)),
    "link to a file": lambda path: path.symlink_to("../victim/file"),
    "link to a folder": lambda path: path.symlink_to("../victim"),
    "dangling link": lambda path: path.symlink_to("gone"),
    "pipe": os.mkfifo,
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "empty folder": Path.mkdir,
    "empty read-only folder": lambda path: path.mkdir(0o555),
}


def put_file(writer: TreeWriter) -> None:
    writer.file(b"x", make_entry(), b"new")


def put_large_file(writer: TreeWriter) -> None:
    file = writer.open_file(b"x", make_entry(size=3))
    file.write_at(0, b"new")
    file.commit()


def put_symlink(writer: TreeWriter) -> None:
    writer.symlink(b"x", make_entry(type=FileType.SYMLINK, target=b"new"))


def put_pipe(writer: TreeWriter) -> None:
    writer.node(b"x", make_entry(type=FileType.FIFO))


def put_hard_link(writer: TreeWriter) -> None:
    writer.file(b"first", make_entry(links=2), b"new")
    writer.hard_link(b"x", make_entry(links=2), b"first")


def put_folder(writer: TreeWriter) -> None:
    writer.directory(b"x", folder_entry())
    writer.file(b"x/y", make_entry(), b"new")


PUT: dict[str, tuple[Callable[[TreeWriter], None], Callable[[Path], bool]]] = {
    "file": (put_file, lambda path: path.read_bytes() == b"new"),
    "large file": (put_large_file, lambda path: path.read_bytes() == b"new"),
    "symlink": (put_symlink, lambda path: str(path.readlink()) == "new"),
    "pipe": (put_pipe, Path.is_fifo),
    "hard link": (put_hard_link, lambda path: path.samefile(path.parent / "first")),
    "folder": (put_folder, lambda path: (path / "y").read_bytes() == b"new"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("kind", PUT)
def test_whatever_stands_in_the_place_is_replaced_and_no_link_followed(
    target: Path, writer: TreeWriter, reports: Reports, kind: str, obstacle: str
) -> None:
    put, arrived = PUT[kind]
    OBSTACLES[obstacle](target / "x")
    for _ in range(2):  # and what this very restore put there
        put(writer)
        assert (target / "x").is_symlink() == (kind == "symlink")
        assert arrived(target / "x")
    writer.finish()
    assert {path.name for path in target.iterdir()} <= {"x", "first"}
    assert [path.name for path in (target.parent / "victim").iterdir()] == ["file"]
    assert (target.parent / "victim/file").read_bytes() == b"untouched"
    assert reports == []


@pytest.mark.parametrize("kind", [kind for kind in PUT if kind != "folder"])
def test_a_folder_with_contents_is_never_removed(
    target: Path, writer: TreeWriter, kind: str
) -> None:
    (target / "x").mkdir()
    (target / "x/precious").write_bytes(b"kept")
    with pytest.raises(TargetError, match=r"^x is not restored: .*move it away"):
        PUT[kind][0](writer)
    writer.file(b"y", make_entry(), b"next")
    writer.finish()
    assert (target / "x/precious").read_bytes() == b"kept"
    assert {path.name for path in target.iterdir()} - {"first"} == {"x", "y"}


def test_an_existing_folder_keeps_its_contents_and_gets_the_metadata(
    target: Path, writer: TreeWriter, reports: Reports
) -> None:
    (target / "d").mkdir()
    (target / "d/other").write_bytes(b"kept")
    os.setxattr(target / "d", ACL_ACCESS, ACL)
    os.setxattr(target / "d", b"user.old", b"1")
    writer.directory(b"d", folder_entry(mode=0o750, xattrs=((b"user.new", b"2"),)))
    writer.file(b"d/f", make_entry(), b"x")
    writer.finish()
    assert (target / "d/other").read_bytes() == b"kept"
    assert mode_of(target / "d") == 0o750
    assert (target / "d").stat().st_mtime_ns == MTIME
    assert os.listxattr(target / "d") == ["user.new"]
    assert reports == []


def test_other_names_of_a_replaced_file_keep_the_old_content(
    target: Path, writer: TreeWriter
) -> None:
    (target / "x").write_bytes(b"old")
    (target / "other").hardlink_to(target / "x")
    writer.file(b"x", make_entry(), b"new")
    assert (target / "other").read_bytes() == b"old"
    assert (target / "x").read_bytes() == b"new"


def test_the_same_tree_twice_ends_the_same(target: Path, reports: Reports) -> None:
    def look() -> dict[str, tuple[int, int, int, int]]:
        found = {str(path.relative_to(target)): path.lstat() for path in target.rglob("*")}
        return {
            name: (s.st_mode, s.st_nlink, s.st_mtime_ns, s.st_size) for name, s in found.items()
        }

    seen = []
    for _ in range(2):
        writer = TreeWriter(target, owners=False, report=reports)
        writer.directory(b"d", folder_entry(mode=0o555))
        writer.file(b"d/A", make_entry(links=2, mode=0o444), b"1")
        writer.file(b"d/B", make_entry(links=2, mode=0o444), b"1")
        writer.hard_link(b"d/a", make_entry(links=2), b"d/A")
        writer.hard_link(b"d/b", make_entry(links=2), b"d/B")
        writer.directory(b"d/e", folder_entry(mode=0o500))
        writer.symlink(b"d/e/l", make_entry(type=FileType.SYMLINK, target=b"t"))
        writer.node(b"d/e/p", make_entry(type=FileType.FIFO, mode=0o400))
        writer.finish()
        seen.append(look())
    assert seen[0] == seen[1]
    assert (target / "d/A").samefile(target / "d/a")
    assert (target / "d/B").samefile(target / "d/b")
    assert not (target / "d/A").samefile(target / "d/B")
    assert reports == []


def test_a_link_already_there_stays(target: Path, writer: TreeWriter) -> None:
    writer.file(b"A", make_entry(links=2), b"1")
    for _ in range(3):
        writer.hard_link(b"a", make_entry(links=2), b"A")
    assert sorted(path.name for path in target.iterdir()) == ["A", "a"]
    assert (target / "A").stat().st_nlink == 2


def test_until_the_end_the_old_file_stands_in_its_place(
    target: Path, writer: TreeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (target / "x").write_bytes(b"old")
    real = os.rename
    seen = []

    def rename(*names: bytes, src_dir_fd: int, dst_dir_fd: int) -> None:
        seen.append((target / "x").read_bytes())
        temporary = target / os.fsdecode(names[0])
        assert temporary.read_bytes() == b"new"
        assert temporary.stat().st_mtime_ns == MTIME
        real(*names, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", rename)
    put_file(writer)
    (target / "x").write_bytes(b"old")
    put_large_file(writer)
    assert seen == [b"old", b"old"]
