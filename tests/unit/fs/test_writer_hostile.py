"""Against a manifest or a neighbour who wants something outside the target to be touched."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chunkvault.errors import TargetError
from chunkvault.format.entry import Entry, FileType
from chunkvault.fs.writer import TreeWriter

MTIME = 1_500_000_000_123_456_789
OTHER = 4711


def make_entry(**fields: object) -> Entry:
    plain = Entry(b"x", FileType.FILE, 0o666, os.geteuid(), os.getegid(), MTIME, 0, 0, 1, 1, 1)
    return plain._replace(**fields)  # type: ignore[arg-type]


def folder_entry(**fields: object) -> Entry:
    return make_entry(**{"type": FileType.DIRECTORY, "mode": 0o777, **fields})


class Reports(list[tuple[str, bytes]]):
    def __call__(self, kind: str, path: bytes, error: OSError) -> None:
        assert error.errno
        self.append((kind, path))


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    victim = tmp_path / "victim"
    victim.mkdir(0o700)
    (victim / "file").write_bytes(b"untouched")
    (victim / "file").chmod(0o600)
    return victim


@pytest.fixture
def target(tmp_path: Path, victim: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


@pytest.fixture
def writer(target: Path, reports: Reports) -> Iterator[TreeWriter]:
    writer = TreeWriter(target, owners=os.geteuid() == 0, report=reports)
    yield writer
    writer.finish()


@pytest.fixture
def unharmed(victim: Path) -> Callable[[], bool]:
    def look() -> list[tuple[int, ...]]:
        return [
            (s.st_mode, s.st_uid, s.st_gid, s.st_nlink, s.st_mtime_ns, s.st_ctime_ns, s.st_size)
            for s in (victim.stat(), (victim / "file").stat())
        ]

    before = look()
    return lambda: look() == before and [path.name for path in victim.iterdir()] == ["file"]


PATHS = [
    b"", b"/", b".", b"..", b"a/..", b"a/.", b"../evil", b"/tmp/evil", b"/evil", b"//evil",
    b"a/../evil", b"a/../../evil", b"a//evil", b"a/", b"./evil", b"a/./evil", b"a\0b", b"a\0/b",
    b"\0", b"..//evil",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_could_lead_out_is_refused_before_anything_is_made(
    target: Path, tmp_path: Path, writer: TreeWriter, path: bytes
) -> None:
    writer.file(b"first", make_entry(links=2), b"x")
    before = sorted(tmp_path.rglob("*"))
    link = make_entry(type=FileType.SYMLINK, target=b"t")
    attempts: list[Callable[[], object]] = [
        lambda: writer.file(path, make_entry(), b"x"),
        lambda: writer.open_file(path, make_entry()),
        lambda: writer.symlink(path, link),
        lambda: writer.node(path, make_entry(type=FileType.FIFO)),
        lambda: writer.hard_link(path, make_entry(links=2), b"first"),
    ]
    if path:
        attempts.append(lambda: writer.directory(path, folder_entry()))
    for attempt in attempts:
        with pytest.raises(TargetError, match="could lead out of the target"):
            attempt()
    writer.finish()
    assert sorted(tmp_path.rglob("*")) == before


def test_hostile_names_below_an_open_folder_are_refused(
    tmp_path: Path, target: Path, writer: TreeWriter
) -> None:
    writer.directory(b"a", folder_entry())
    for path in (b"a/..", b"a/../x", b"a//x", b"a/b/../x"):
        with pytest.raises(TargetError, match="could lead out"):
            writer.file(path, make_entry(), b"x")
    writer.file(b"a/fine", make_entry(), b"x")
    writer.finish()
    assert [path.name for path in (target / "a").iterdir()] == ["fine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target", "victim"]


@pytest.mark.parametrize("destination", [b"", b"a\0b"])
def test_a_link_to_nothing_possible_is_refused(writer: TreeWriter, destination: bytes) -> None:
    with pytest.raises(TargetError, match="link target is invalid"):
        writer.symlink(b"l", make_entry(type=FileType.SYMLINK, target=destination))


def test_an_entry_of_no_known_type_is_refused(writer: TreeWriter) -> None:
    with pytest.raises(TargetError, match="of no known type"):
        writer.node(b"l", make_entry(type=99))


def test_a_link_from_the_same_snapshot_is_not_followed(
    target: Path, writer: TreeWriter, victim: Path, unharmed: Callable[[], bool]
) -> None:
    link = make_entry(type=FileType.SYMLINK, target=bytes(victim), uid=OTHER, gid=OTHER)
    writer.symlink(b"l", link)
    writer.file(b"l/evil", make_entry(), b"x")
    writer.symlink(b"m", link)
    writer.directory(b"m", folder_entry())
    writer.symlink(b"n", link._replace(target=bytes(victim / "file")))
    writer.file(b"n", make_entry(), b"x")
    writer.finish()
    assert unharmed()
    assert (target / "l/evil").read_bytes() == b"x"
    assert not any((target / name).is_symlink() for name in "lmn")


def test_a_folder_swapped_for_a_link_while_it_is_filled_leads_nowhere(
    target: Path, writer: TreeWriter, victim: Path, unharmed: Callable[[], bool]
) -> None:
    writer.directory(b"sub", folder_entry())
    (target / "sub").rename(target / "moved")
    (target / "sub").symlink_to(victim)
    writer.file(b"sub/file", make_entry(), b"x")
    writer.directory(b"sub/in", folder_entry())
    writer.file(b"sub/in/file", make_entry(), b"x")
    writer.finish()
    assert unharmed()
    assert (target / "moved/file").read_bytes() == b"x"


def test_a_folder_swapped_for_a_link_between_making_and_opening_it_leads_nowhere(
    target: Path,
    writer: TreeWriter,
    victim: Path,
    unharmed: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, swaps = os.mkdir, 2

    def mkdir(name: bytes, mode: int, *, dir_fd: int) -> None:
        nonlocal swaps
        real(name, mode, dir_fd=dir_fd)
        if swaps:
            swaps -= 1
            (target / "sub").rmdir()
            (target / "sub").symlink_to(victim)

    monkeypatch.setattr(os, "mkdir", mkdir)
    writer.directory(b"sub", folder_entry())
    writer.file(b"sub/file", make_entry(), b"x")
    writer.finish()
    assert unharmed()
    assert (target / "sub/file").read_bytes() == b"x"


def test_who_swaps_for_ever_gets_an_error_for_that_entry(
    target: Path,
    writer: TreeWriter,
    victim: Path,
    unharmed: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mkdir(name: bytes, mode: int, *, dir_fd: int) -> None:
        (target / "sub").symlink_to(victim)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(TargetError, match="another process keeps replacing it"):
        writer.directory(b"sub", folder_entry())
    writer.finish()
    assert unharmed()


def test_a_link_planted_where_a_file_is_about_to_be_made_is_not_written_through(
    target: Path,
    writer: TreeWriter,
    victim: Path,
    unharmed: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = os.open

    def plant(name: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == b"x":
            (target / "x").symlink_to(victim / "file")
        return real(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", plant)
    writer.file(b"x", make_entry(), b"new")
    assert unharmed()
    assert (target / "x").read_bytes() == b"new"
    assert not (target / "x").is_symlink()


def test_a_pipe_swapped_for_a_link_passes_nothing_on(
    target: Path,
    writer: TreeWriter,
    victim: Path,
    reports: Reports,
    unharmed: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = os.mknod

    def mknod(name: bytes, mode: int, device: int, *, dir_fd: int) -> None:
        real(name, mode, device, dir_fd=dir_fd)
        (target / "p").unlink()
        (target / "p").symlink_to(victim / "file")

    monkeypatch.setattr(os, "mknod", mknod)
    writer.node(b"p", make_entry(type=FileType.FIFO, uid=OTHER, gid=OTHER))
    assert unharmed()
    assert reports == [("mode", b"p")]


def test_a_link_swapped_for_another_passes_nothing_on(
    target: Path,
    writer: TreeWriter,
    victim: Path,
    unharmed: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = os.symlink

    def symlink(destination: bytes, name: bytes, *, dir_fd: int) -> None:
        real(bytes(victim / "file"), name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "symlink", symlink)
    writer.symlink(b"l", make_entry(type=FileType.SYMLINK, target=b"t", uid=OTHER, gid=OTHER))
    assert unharmed()


def test_a_deep_folder_moved_away_takes_the_restore_nowhere_else(
    target: Path,
    writer: TreeWriter,
    victim: Path,
    reports: Reports,
    unharmed: Callable[[], bool],
) -> None:
    """Folders closed to save descriptors come back by identity, not by where ``..`` leads now."""
    depth = 200
    for level in range(1, depth + 1):
        writer.directory(b"d/" * (level - 1) + b"d", folder_entry(mode=0o711))
    # Now the parent of level 101, which is closed by then, is another. It lies so deep that a
    # writer that trusted ``..`` would do its harm, 100 levels up, among these folders only: the
    # test runs as root, and above them is the system.
    elsewhere = victim.parent.joinpath(*["e"] * 150)
    elsewhere.mkdir(parents=True)
    above = [elsewhere, *list(elsewhere.parents)[:149]]
    before = [path.stat().st_mode for path in above]
    target.joinpath(*["d"] * 101).rename(elsewhere / "d")
    with pytest.raises(TargetError, match="moved meanwhile; restore again"):
        writer.file(b"d/" * 100 + b"file", make_entry(), b"x")
    writer.file(b"top", make_entry(), b"x")
    writer.finish()
    assert unharmed()
    assert [path.name for path in elsewhere.iterdir()] == ["d"]
    assert [path.stat().st_mode for path in above] == before
    assert (target / "top").read_bytes() == b"x"
    assert {kind for kind, _ in reports} == {"mode"}


def test_a_hard_link_is_made_to_what_was_written_only(
    target: Path, writer: TreeWriter, victim: Path, unharmed: Callable[[], bool]
) -> None:
    writer.directory(b"a", folder_entry())
    writer.file(b"a/file", make_entry(links=2), b"x")
    writer.directory(b"b", folder_entry())
    (target / "a").rename(target / "moved")
    (target / "a").symlink_to(victim)
    with pytest.raises(TargetError, match="b/l is not restored"):
        writer.hard_link(b"b/l", make_entry(links=2), b"a/file")
    (target / "a").unlink()
    (target / "a").mkdir()
    (target / "a/file").symlink_to(victim / "file")
    with pytest.raises(TargetError, match="replaced meanwhile"):
        writer.hard_link(b"b/l", make_entry(links=2), b"a/file")
    writer.finish()
    assert unharmed()
    assert list((target / "b").iterdir()) == []
