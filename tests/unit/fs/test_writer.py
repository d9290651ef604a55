"""A new tree: every type with all that belongs to it, at any depth, under any name."""

import errno
import os
import resource
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chunkvault.errors import TargetError
from chunkvault.format.entry import Entry, FileType
from chunkvault.fs.metadata import ACL_DEFAULT, read_xattrs
from chunkvault.fs.writer import TreeWriter

MTIME = 1_500_000_000_123_456_789
DEFAULT_ACL = bytes.fromhex(
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
def root() -> None:
    if os.geteuid():
        pytest.fail("owners and devices can only be tested by root")


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


@pytest.fixture
def writer(target: Path, reports: Reports) -> Iterator[TreeWriter]:
    writer = TreeWriter(target, owners=os.geteuid() == 0, report=reports)
    yield writer
    writer.finish()


@pytest.fixture
def with_umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    yield lambda umask: (os.umask(umask), None)[1]
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_file_has_content_mode_and_time(
    writer: TreeWriter, target: Path, reports: Reports
) -> None:
    writer.file(b"x", make_entry(mode=0o640), b"content")
    writer.file(b"empty", make_entry(), b"")
    writer.file(b"view", make_entry(), memoryview(b"a view")[2:])
    assert (target / "x").read_bytes() == b"content"
    assert mode_of(target / "x") == 0o640
    assert (target / "x").stat().st_mtime_ns == MTIME
    assert (target / "empty").read_bytes() == b""
    assert (target / "view").read_bytes() == b"view"
    assert reports == []


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("owners", [False, True])
def test_every_mode_is_exact_whatever_the_umask(
    tmp_path: Path,
    reports: Reports,
    with_umask: Callable[[int], None],
    umask: int,
    owners: bool,
) -> None:
    with_umask(umask)
    writer = TreeWriter(tmp_path / "target", owners=owners, report=reports)
    modes = [0, 0o400, 0o444, 0o600, 0o640, 0o644, 0o664, 0o666, 0o755, 0o777, 0o1644, 0o6755]
    for mode in modes:
        writer.file(b"f%o" % mode, make_entry(mode=mode), b"x")
        writer.directory(b"d%o" % mode, folder_entry(mode=mode))
        writer.file(b"d%o/inside" % mode, make_entry(), b"x")
        big = writer.open_file(b"g%o" % mode, make_entry(mode=mode, size=1))
        big.write_at(0, b"x")
        big.commit()
    writer.finish()
    for kind in "dfg":
        assert [mode_of(tmp_path / "target" / f"{kind}{mode:o}") for mode in modes] == modes
    assert reports == []


def test_owners_are_those_recorded(
    root: None, writer: TreeWriter, target: Path, reports: Reports
) -> None:
    writer.directory(b"d", folder_entry(uid=1, gid=2))
    writer.file(b"d/small", make_entry(uid=3, gid=4, mode=0o4755), b"x")
    writer.file(b"d/root's", make_entry(uid=0, gid=0), b"x")
    writer.open_file(b"d/big", make_entry(uid=5, gid=2**32 - 2)).commit()
    writer.symlink(b"d/link", make_entry(type=FileType.SYMLINK, uid=7, gid=8, target=b"/etc"))
    writer.node(b"d/pipe", make_entry(type=FileType.FIFO, uid=9, gid=10, mode=0o620))
    writer.finish()
    names = ("", "small", "root's", "big", "link", "pipe")
    found = [(target / "d" / name).lstat() for name in names]
    assert [(s.st_uid, s.st_gid) for s in found] == [
        (1, 2), (3, 4), (0, 0), (5, 2**32 - 2), (7, 8), (9, 10),
    ]  # fmt: skip
    assert mode_of(target / "d/small") == 0o4755
    assert reports == []


def test_owners_hold_in_a_folder_that_passes_its_group_on(
    root: None, target: Path, reports: Reports
) -> None:
    target.mkdir()
    os.chown(target, 0, 1234)
    target.chmod(0o2777)
    writer = TreeWriter(target, owners=True, report=reports)
    writer.file(b"x", make_entry(uid=0, gid=0), b"x")
    writer.directory(b"d", folder_entry(uid=0, gid=0))
    writer.file(b"d/y", make_entry(uid=0, gid=0), b"x")
    writer.finish()
    for name in ("x", "d", "d/y"):
        assert (target / name).stat().st_gid == 0
    assert mode_of(target / "d") == 0o755
    assert mode_of(target) == 0o2777


def test_links_pipes_sockets_and_devices(
    root: None, writer: TreeWriter, target: Path, reports: Reports
) -> None:
    writer.symlink(b"link", make_entry(type=FileType.SYMLINK, mode=0o777, target=b"no\xffwhere"))
    for name, kind, rdev in [
        (b"pipe", FileType.FIFO, 0),
        (b"socket", FileType.SOCKET, 0),
        (b"null", FileType.CHARACTER_DEVICE, os.makedev(1, 3)),
        (b"whiteout", FileType.CHARACTER_DEVICE, 0),
        (b"disk", FileType.BLOCK_DEVICE, os.makedev(260, 70_000)),
    ]:
        writer.node(name, make_entry(type=kind, mode=0o642, rdev=rdev))
        status = (target / os.fsdecode(name)).lstat()
        assert status.st_rdev == rdev
        assert stat.S_IMODE(status.st_mode) == 0o642
        assert status.st_mtime_ns == MTIME
    assert os.fsencode((target / "link").readlink()) == b"no\xffwhere"
    assert (target / "link").lstat().st_mtime_ns == MTIME
    assert (target / "pipe").is_fifo()
    assert (target / "socket").is_socket()
    assert (target / "null").is_char_device()
    assert (target / "disk").is_block_device()
    assert reports == []


def test_a_device_number_no_system_has_is_reported(writer: TreeWriter, reports: Reports) -> None:
    writer.node(b"n", make_entry(type=FileType.CHARACTER_DEVICE, rdev=2**70))
    assert reports == [("node", b"n")]


def test_hard_links_are_one_file_and_equal_files_are_not(writer: TreeWriter, target: Path) -> None:
    entry = make_entry(links=2)
    writer.directory(b"d", folder_entry(mode=0o555))
    writer.directory(b"d/e", folder_entry(mode=0o555))
    writer.file(b"d/e/A", entry, b"1")
    writer.file(b"d/e/B", entry, b"1")
    writer.hard_link(b"d/e/a", entry, b"d/e/A")
    writer.hard_link(b"d/b", entry, b"d/e/B")
    writer.directory(b"z", folder_entry())
    writer.hard_link(b"z/a", entry, b"d/e/A")
    big = writer.open_file(b"z/big", make_entry(links=2))
    big.commit()
    writer.hard_link(b"z/big2", entry, b"z/big")
    writer.symlink(b"z/l", make_entry(type=FileType.SYMLINK, links=2, target=b"t"))
    writer.hard_link(b"z/l2", entry, b"z/l")
    writer.node(b"z/p", make_entry(type=FileType.FIFO, links=2))
    writer.hard_link(b"z/p2", entry, b"z/p")
    inodes = {
        name: (target / name).lstat().st_ino
        for name in (
            "d/e/A",
            "d/e/a",
            "z/a",
            "d/e/B",
            "d/b",
            "z/big",
            "z/big2",
            "z/l",
            "z/l2",
            "z/p",
            "z/p2",
        )
    }
    assert inodes["d/e/A"] == inodes["d/e/a"] == inodes["z/a"]
    assert inodes["d/e/B"] == inodes["d/b"] != inodes["d/e/A"]
    assert inodes["z/big"] == inodes["z/big2"]
    assert inodes["z/l"] == inodes["z/l2"]
    assert inodes["z/p"] == inodes["z/p2"]


def test_no_link_is_made_to_what_was_not_restored(writer: TreeWriter, target: Path) -> None:
    (target / "old").write_bytes(b"stale content")
    with pytest.raises(TargetError, match="old, which is the same file, was not restored"):
        writer.hard_link(b"new", make_entry(links=2), b"old")
    writer.file(b"first", make_entry(links=2), b"x")
    (target / "first").unlink()
    (target / "old").rename(target / "first")
    with pytest.raises(TargetError, match="replaced meanwhile"):
        writer.hard_link(b"new", make_entry(links=2), b"first")
    assert not (target / "new").exists()


def test_holes_take_no_room(writer: TreeWriter, target: Path) -> None:
    size = 10 << 30
    file = writer.open_file(b"s", make_entry(size=size))
    file.write_at(5 << 30, b"x")
    file.commit()
    status = (target / "s").stat()
    assert (status.st_size, status.st_mtime_ns) == (size, MTIME)
    assert status.st_blocks * 512 < 1 << 20
    with (target / "s").open("rb") as restored:
        restored.seek((5 << 30) - 1)
        assert restored.read(3) == b"\0x\0"


def test_pieces_may_be_written_by_many_threads_in_any_order(
    writer: TreeWriter, target: Path
) -> None:
    piece = 1 << 16
    file = writer.open_file(b"big", make_entry(size=16 * piece, mode=0o400))
    threads = [
        threading.Thread(target=file.write_at, args=(n * piece, bytes([n]) * piece))
        for n in reversed(range(16))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not (target / "big").exists()
    file.commit()
    file.abort()  # after commit, nothing
    assert (target / "big").read_bytes() == b"".join(bytes([n]) * piece for n in range(16))
    assert mode_of(target / "big") == 0o400


def test_an_aborted_file_leaves_nothing(writer: TreeWriter, target: Path) -> None:
    (target / "big").write_bytes(b"old")
    file = writer.open_file(b"big", make_entry(size=10))
    file.write_at(0, b"new")
    file.abort()
    file.abort()
    assert [path.name for path in target.iterdir()] == ["big"]
    assert (target / "big").read_bytes() == b"old"


@pytest.mark.parametrize(("offset", "size"), [(8, 3), (-1, 1), (11, 0)])
def test_nothing_is_written_beyond_a_files_size(writer: TreeWriter, offset: int, size: int) -> None:
    file = writer.open_file(b"big", make_entry(size=10))
    with pytest.raises(TargetError, match="beyond its size"):
        file.write_at(offset, bytes(size))
    file.abort()


@pytest.mark.parametrize("size", [2**63, 2**80])
def test_a_size_no_file_can_have_is_refused(writer: TreeWriter, target: Path, size: int) -> None:
    with pytest.raises(TargetError, match="no file that large"):
        writer.open_file(b"big", make_entry(size=size))
    assert list(target.iterdir()) == []


def test_folders_get_mode_time_and_attributes_when_they_are_left(
    writer: TreeWriter, target: Path, reports: Reports
) -> None:
    xattrs = ((ACL_DEFAULT, DEFAULT_ACL), (b"user.x", b"1"))
    writer.directory(b"d", folder_entry(mode=0o2555, mtime_ns=1, xattrs=xattrs))
    writer.directory(b"d/e", folder_entry(mode=0o500, mtime_ns=2))
    writer.file(b"d/e/f", make_entry(), b"x")
    assert mode_of(target / "d/e") == 0o700
    writer.file(b"d/z", make_entry(), b"x")
    assert mode_of(target / "d/e") == 0o500
    assert mode_of(target / "d") == 0o700
    writer.directory(b"empty", folder_entry(mtime_ns=3))
    writer.finish()
    writer.finish()
    times = [(target / name).stat().st_mtime_ns for name in ("d", "d/e", "empty")]
    assert times == [1, 2, 3]
    fd = os.open(target / "d", os.O_RDONLY)
    assert read_xattrs(fd) == xattrs
    os.close(fd)
    assert mode_of(target / "d") == 0o2555
    assert not os.listxattr(target / "d/e")
    assert not os.listxattr(target / "d/z")
    assert reports == []


@pytest.mark.parametrize("target_acl", [False, True])
def test_nothing_inherits_an_acl_that_its_entry_does_not_have(
    target: Path, reports: Reports, target_acl: bool
) -> None:
    (target / "d").mkdir(parents=True)
    os.setxattr(target if target_acl else target / "d", ACL_DEFAULT, DEFAULT_ACL)
    writer = TreeWriter(target, owners=False, report=reports)
    writer.directory(b"d", folder_entry(mode=0o750))
    writer.directory(b"d/new", folder_entry(mode=0o750))
    writer.file(b"d/new/f", make_entry(mode=0o640), b"x")
    writer.node(b"d/pipe", make_entry(type=FileType.FIFO, mode=0o640))
    writer.directory(b"e", folder_entry(mode=0o750))
    writer.file(b"f", make_entry(mode=0o640), b"x")
    big = writer.open_file(b"g", make_entry(mode=0o640))
    big.commit()
    writer.node(b"pipe", make_entry(type=FileType.FIFO, mode=0o640))
    writer.finish()
    for name in ("d", "d/new", "d/new/f", "d/pipe", "e", "f", "g", "pipe"):
        assert os.listxattr(target / name) == [], name
        assert mode_of(target / name) == (0o750 if (target / name).is_dir() else 0o640), name
    # The target is nobody's entry, so it keeps what it had.
    assert bool(os.listxattr(target)) == target_acl
    assert reports == []


def test_files_carry_their_attributes(writer: TreeWriter, target: Path) -> None:
    writer.file(b"x", make_entry(xattrs=((b"user.a", b"\0"),)), b"x")
    file = writer.open_file(b"y", make_entry(xattrs=((b"user.b", b"2"),)))
    file.commit()
    assert os.getxattr(target / "x", "user.a") == b"\0"
    assert os.getxattr(target / "y", "user.b") == b"2"
    assert (target / "x").stat().st_mtime_ns == MTIME


def test_names_are_bytes(writer: TreeWriter, target: Path) -> None:
    names = [
        b"\xfe",
        b"\xff",
        b"\xef\xbf\xbd",
        b"a\nb",
        b"\x1b]0;x\x07",
        b"-rf",
        b" ",
        b"back\\slash",
    ]
    names += [b"l" * 255, b".chunkvault-x.tmp", b"...", "ä".encode()]
    for name in names:
        writer.file(name, make_entry(), name)
        writer.file(name, make_entry(), name)  # and again, through a temporary name
        writer.directory(b"d" + name[1:] + b".", folder_entry()) if len(name) < 255 else None
        writer.symlink(b"s" + name[1:], make_entry(type=FileType.SYMLINK, target=name))
    found = {os.fsencode(path.name): path for path in target.iterdir()}
    assert {name: found[name].read_bytes() for name in names} == {name: name for name in names}


def test_a_name_too_long_is_refused_and_the_next_entry_written(
    writer: TreeWriter, target: Path
) -> None:
    name = b"l" * 256
    attempts: list[Callable[[], object]] = [
        lambda: writer.file(name, make_entry(), b"x"),
        lambda: writer.directory(name, folder_entry()),
        lambda: writer.node(name, make_entry(type=FileType.FIFO)),
        lambda: writer.symlink(name, make_entry(type=FileType.SYMLINK, target=b"t")),
    ]
    for attempt in attempts:
        with pytest.raises(TargetError, match="takes no name that long"):
            attempt()
    writer.file(b"next", make_entry(), b"x")
    assert [path.name for path in target.iterdir()] == ["next"]


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def climb(target: Path) -> Iterator[tuple[int, os.stat_result]]:
    """Walk down ``d/d/d…`` and up again, removing; yields (descriptor, status found) then."""
    fd = os.open(target, os.O_RDONLY)
    found = [os.fstat(fd)]
    while True:
        try:
            inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        except FileNotFoundError:
            break
        os.close(fd)
        fd = inner
        found.append(os.fstat(fd))
    while True:
        yield fd, found.pop()
        if not found:
            break
        above = os.open("..", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = above
        os.rmdir("d", dir_fd=fd)
    os.close(fd)


def test_2000_levels_with_few_descriptors(
    few_descriptors: None, target: Path, writer: TreeWriter, reports: Reports
) -> None:
    path = b"d"
    for level in range(2000):
        writer.directory(path, folder_entry(mode=0o555, mtime_ns=level))
        path += b"/d"
    writer.file(path[:-1] + b"f", make_entry(links=2), b"deep")
    for level in (1990, 1500, 7):
        writer.file(b"d/" * level + b"g", make_entry(), b"x")
        writer.hard_link(b"d/" * level + b"h", make_entry(links=2), path[:-1] + b"f")
    writer.finish()
    left = {2000: {"f"}, 1990: {"g", "h"}, 1500: {"g", "h"}, 7: {"g", "h"}}
    seen = []
    for level, (fd, status) in zip(range(2000, -1, -1), climb(target), strict=True):
        names = set(os.listdir(fd)) - {"d"}  # noqa: PTH208 - by descriptor
        assert names == left.get(level, set())
        for name in names:
            os.unlink(name, dir_fd=fd)
        if level:
            seen.append((stat.S_IMODE(status.st_mode), status.st_mtime_ns))
    assert seen == [(0o555, level) for level in range(1999, -1, -1)]
    assert reports == []


def test_folders_without_an_entry_are_private_and_existing_ones_untouched(
    target: Path, reports: Reports
) -> None:
    (target / "there").mkdir(parents=True)
    (target / "there").chmod(0o751)
    writer = TreeWriter(target, owners=False, report=reports)
    writer.file(b"new/deeper/f", make_entry(), b"x")
    writer.file(b"there/f", make_entry(), b"x")
    writer.finish()
    assert mode_of(target / "new") == mode_of(target / "new/deeper") == 0o700
    assert mode_of(target / "there") == 0o751


def test_a_new_target_takes_the_metadata_of_its_entry_and_an_existing_one_does_not(
    tmp_path: Path, reports: Reports
) -> None:
    for number in range(2):
        writer = TreeWriter(tmp_path / "a/b", owners=False, report=reports)
        writer.directory(b"", folder_entry(mode=0o711 if number == 0 else 0o777))
        writer.file(b"f", make_entry(), b"x")
        writer.finish()
        assert mode_of(tmp_path / "a/b") == 0o711
        if number == 0:
            assert (tmp_path / "a/b").stat().st_mtime_ns == MTIME


@pytest.mark.parametrize("kind", ["file", "below a file", "dangling"])
def test_a_target_that_is_no_folder_is_refused(tmp_path: Path, reports: Reports, kind: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("gone")
    place = {"file": "file", "below a file": "file/x", "dangling": "dangling"}[kind]
    with pytest.raises(TargetError, match="choose another target"):
        TreeWriter(tmp_path / place, owners=False, report=reports)


# Faults


def test_a_short_write_is_completed(
    writer: TreeWriter, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write, real_pwrite = os.write, os.pwrite
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:3]))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_pwrite(fd, data[:2], at))
    writer.file(b"x", make_entry(), b"0123456789")
    file = writer.open_file(b"y", make_entry(size=10))
    file.write_at(1, b"123456789")
    file.commit()
    assert (target / "x").read_bytes() == b"0123456789"
    assert (target / "y").read_bytes() == b"\x00123456789"


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """A limit of 1,000 bytes a file, so that the kernel itself refuses the rest."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_a_failed_write_leaves_no_part_and_the_old_file_whole(
    target: Path, writer: TreeWriter, small_files_only: None
) -> None:
    (target / "old").write_bytes(b"old")
    for name in (b"old", b"new"):
        with pytest.raises(TargetError, match=rf"^{name.decode()} is not restored: File too large"):
            writer.file(name, make_entry(), bytes(4096))
    with pytest.raises(TargetError, match="File too large"):
        writer.open_file(b"big", make_entry(size=4096))
    writer.file(b"small", make_entry(), b"x")
    assert sorted(path.name for path in target.iterdir()) == ["old", "small"]
    assert (target / "old").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk of the target is full"), (errno.EDQUOT, "quota")]
)
def test_a_full_disk_is_called_that(
    target: Path, writer: TreeWriter, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    file = writer.open_file(b"big", make_entry(size=10))

    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", fail)
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(TargetError, match=words):
        writer.file(b"new", make_entry(), b"x")
    with pytest.raises(TargetError, match=words):
        file.write_at(0, b"x")
    file.abort()
    assert list(target.iterdir()) == []


def test_an_interrupt_leaves_no_part(
    target: Path, writer: TreeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        writer.file(b"x", make_entry(), b"x")
    assert list(target.iterdir()) == []


def test_no_descriptor_is_left_open(target: Path, reports: Reports) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    writer = TreeWriter(target, owners=False, report=reports)
    writer.directory(b"d", folder_entry())
    writer.file(b"d/f", make_entry(links=2), b"x")
    writer.file(b"d/f", make_entry(links=2), b"y")
    writer.directory(b"e", folder_entry())
    writer.hard_link(b"e/g", make_entry(links=2), b"d/f")
    writer.node(b"e/p", make_entry(type=FileType.FIFO))
    writer.open_file(b"e/a", make_entry()).commit()
    writer.open_file(b"e/b", make_entry()).abort()
    for bad in (b"../x", b"d/f/x" + b"l" * 300, b"e/a\0"):
        with pytest.raises(TargetError):
            writer.file(bad, make_entry(), b"x")
    with pytest.raises(TargetError):
        writer.open_file(b"e/c", make_entry(size=2**80))
    with pytest.raises(TargetError):
        writer.open_file(b"d", make_entry()).commit()
    writer.finish()
    assert count() == before
