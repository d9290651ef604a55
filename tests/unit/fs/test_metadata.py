"""Metadata of one thing: read whole, applied in the right order, reported where it cannot be."""

import errno
import grp
import os
import pwd
import re
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkvault.format.entry import Entry, FileType
from chunkvault.fs.metadata import (
    ACL_ACCESS,
    OwnerNames,
    Policy,
    apply_metadata,
    apply_metadata_at,
    printable,
    process_umask,
    read_xattrs,
    read_xattrs_at,
)

MTIME = 1_500_000_000_123_456_789
# version 2; then (tag, permissions, id): owner rwx, user 4711 r, group r, mask r, others nothing
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, number)
    for tag, rights, number in [
        (0x01, 7, 2**32 - 1),
        (0x02, 4, 4711),
        (0x04, 4, 2**32 - 1),
        (0x10, 4, 2**32 - 1),
        (0x20, 0, 2**32 - 1),
    ]
)
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)  # cap_net_raw+ep


def make_entry(**fields: object) -> Entry:
    plain = Entry(b"x", FileType.FILE, 0o644, os.geteuid(), os.getegid(), MTIME, 0, 0, 1, 1, 1)
    return plain._replace(**fields)  # type: ignore[arg-type]


class Reports(list[tuple[str, bytes]]):
    def __call__(self, kind: str, path: bytes, error: OSError) -> None:
        assert error.errno
        self.append((kind, path))


@pytest.fixture
def root() -> None:
    if os.geteuid():
        pytest.fail("owners and capabilities can only be tested by root")


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT, 0o600)
    yield fd
    os.close(fd)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def back_to_bytes(text: str) -> bytes:
    short = {"\\\\": b"\\", "\\n": b"\n", "\\r": b"\r", "\\t": b"\t"}
    parts = re.findall(r"\\x[0-9a-f]{2}|\\.|[^\\]", text)
    assert "".join(parts) == text
    return b"".join(
        short.get(part) or (bytes.fromhex(part[2:]) if part[0] == "\\" else part.encode())
        for part in parts
    )


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_a_printed_path_is_one_harmless_line_and_gives_its_bytes_back(path: bytes) -> None:
    shown = printable(path)
    assert shown.isprintable()
    shown.encode()
    assert back_to_bytes(shown) == path


def test_a_printed_path_stays_readable() -> None:
    assert printable("home/ada/für Ähren.txt".encode()) == "home/ada/für Ähren.txt"
    assert printable(b"a\nb\x1b]0;x\x07\xfe\\") == r"a\nb\x1b]0;x\x07\xfe\\"


def test_owner_names_are_asked_once_and_a_missing_one_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    real = pwd.getpwuid

    def look_up(uid: int) -> pwd.struct_passwd:
        asked.append(uid)
        return real(uid)

    monkeypatch.setattr(pwd, "getpwuid", look_up)
    names = OwnerNames()
    assert names.user(0) == names.user(0) == pwd.getpwuid(0).pw_name
    assert names.user(2**32 - 2) is names.user(2**32 - 2) is None
    assert names.user(2**40) is None
    assert names.group(0) == grp.getgrgid(0).gr_name
    assert names.group(4_123_456_789) is None
    assert names.users == {0: real(0).pw_name}
    assert names.groups == {0: grp.getgrgid(0).gr_name}
    assert asked == [0, 0, 2**32 - 2, 2**40]  # the second 0 is this test's


def test_attributes_are_read_whole_and_in_order(opened: int) -> None:
    assert read_xattrs(opened) == ()
    os.setxattr(opened, b"user.b\xff", b"\0two")
    os.setxattr(opened, b"user.a", b"")
    os.setxattr(opened, ACL_ACCESS, ACL)
    assert read_xattrs(opened) == ((ACL_ACCESS, ACL), (b"user.a", b""), (b"user.b\xff", b"\0two"))


@pytest.mark.parametrize(
    ("code", "expected"), [(errno.ENODATA, []), (errno.EACCES, [(b"user.a", errno.EACCES)])]
)
def test_an_attribute_that_goes_away_or_is_refused_hides_no_other(
    opened: int, monkeypatch: pytest.MonkeyPatch, code: int, expected: list[tuple[bytes, int]]
) -> None:
    os.setxattr(opened, b"user.a", b"1")
    os.setxattr(opened, b"user.b", b"2")
    real = os.getxattr

    def get(place: int, name: bytes, *, follow_symlinks: bool) -> bytes:
        if name == b"user.a":
            raise OSError(code, "no")
        return real(place, name, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "getxattr", get)
    seen: list[tuple[bytes, int | None]] = []
    found = read_xattrs(opened, lambda name, error: seen.append((name, error.errno)))
    assert found == ((b"user.b", b"2"),)
    assert seen == expected


def test_no_attributes_where_none_are_supported(
    opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, "no")

    monkeypatch.setattr(os, "listxattr", refuse)
    assert read_xattrs(opened, lambda *_: pytest.fail("reported")) == ()


def test_attributes_of_a_link_are_not_those_of_what_it_points_to(
    root: None, tmp_path: Path, folder: int
) -> None:
    (tmp_path / "file").touch()
    os.setxattr(tmp_path / "file", b"user.mine", b"x")
    (tmp_path / "link").symlink_to("file")
    os.setxattr(tmp_path / "link", b"trusted.link", b"y", follow_symlinks=False)
    assert read_xattrs_at(folder, b"link") == ((b"trusted.link", b"y"),)
    assert read_xattrs_at(folder, b"file") == ((b"user.mine", b"x"),)
    assert read_xattrs_at(folder, b"gone") == ()


def test_the_umask_is_told_without_changing_it() -> None:
    before = os.umask(0o027)
    try:
        assert process_umask() == 0o027
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_setuid_and_capabilities_survive_the_change_of_owner(
    root: None, opened: int, reports: Reports
) -> None:
    xattrs = ((b"security.capability", CAPABILITY), (b"user.x", b"1"))
    entry = make_entry(mode=0o6755, uid=1234, gid=2345, xattrs=xattrs)
    apply_metadata(opened, b"x", entry, Policy(owners=True, report=reports))
    status = os.fstat(opened)
    assert (status.st_uid, status.st_gid) == (1234, 2345)
    assert stat.S_IMODE(status.st_mode) == 0o6755
    assert status.st_mtime_ns == MTIME
    assert read_xattrs(opened) == xattrs
    assert reports == []


@pytest.mark.parametrize("number", [0, 65534, 2**31, 2**32 - 2])
def test_every_id_a_file_can_have_is_applied(
    root: None, opened: int, reports: Reports, number: int
) -> None:
    entry = make_entry(uid=number, gid=number)
    apply_metadata(opened, b"x", entry, Policy(owners=True, report=reports))
    assert (os.fstat(opened).st_uid, os.fstat(opened).st_gid) == (number, number)
    assert reports == []


def test_the_id_no_file_can_have_is_reported_and_the_rest_applied(
    root: None, opened: int, reports: Reports
) -> None:
    entry = make_entry(uid=2**32 - 1, gid=77, mode=0o4640)
    apply_metadata(opened, b"x", entry, Policy(owners=True, report=reports))
    status = os.fstat(opened)
    assert (status.st_uid, status.st_gid, status.st_mtime_ns) == (0, 77, MTIME)
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert reports == [("owner", b"x"), ("mode", b"x")]


def test_setuid_is_withheld_from_a_file_of_another_owner(opened: int, reports: Reports) -> None:
    entry = make_entry(uid=os.geteuid() + 1, gid=os.getegid() + 1, mode=0o6755)
    apply_metadata(opened, b"x", entry, Policy(owners=False, report=reports))
    assert stat.S_IMODE(os.fstat(opened).st_mode) == 0o755
    assert reports == [("mode", b"x")]


def test_acl_and_mode_agree(opened: int, reports: Reports) -> None:
    entry = make_entry(mode=0o740, xattrs=((ACL_ACCESS, ACL),))
    apply_metadata(opened, b"x", entry, Policy(owners=False, report=reports))
    assert os.getxattr(opened, ACL_ACCESS) == ACL
    assert stat.S_IMODE(os.fstat(opened).st_mode) == 0o740
    assert reports == []


def test_what_was_there_before_goes_unless_the_entry_has_it(opened: int, reports: Reports) -> None:
    os.setxattr(opened, ACL_ACCESS, ACL)
    os.setxattr(opened, b"user.old", b"1")
    os.setxattr(opened, b"user.kept", b"1")
    entry = make_entry(mode=0o640, xattrs=((b"user.kept", b"2"),))
    apply_metadata(opened, b"x", entry, Policy(owners=False, report=reports), fresh=False)
    assert read_xattrs(opened) == ((b"user.kept", b"2"),)
    assert stat.S_IMODE(os.fstat(opened).st_mode) == 0o640


def test_failures_are_named_by_kind_and_stop_nothing(opened: int, reports: Reports) -> None:
    xattrs = ((ACL_ACCESS, b"junk"), (b"nonsense", b"1"), (b"user.\0", b""), (b"user.ok", b"1"))
    apply_metadata(opened, b"x", make_entry(xattrs=xattrs), Policy(owners=False, report=reports))
    assert reports == [("acl", b"x"), ("xattr", b"x"), ("xattr", b"x")]
    assert read_xattrs(opened) == ((b"user.ok", b"1"),)
    assert os.fstat(opened).st_mtime_ns == MTIME


@pytest.mark.parametrize("when", [-1, -1_500_000_000_000_000_001, 4_000_000_000_000_000_007])
def test_times_before_1970_and_after_2038_are_exact(
    opened: int, reports: Reports, when: int
) -> None:
    apply_metadata(opened, b"x", make_entry(mtime_ns=when), Policy(owners=False, report=reports))
    assert os.fstat(opened).st_mtime_ns == when
    assert reports == []


def test_a_time_no_system_knows_is_reported(opened: int, reports: Reports) -> None:
    entry = make_entry(mtime_ns=10**40, mode=0o604)
    apply_metadata(opened, b"x", entry, Policy(owners=False, report=reports))
    assert reports == [("times", b"x")]
    assert stat.S_IMODE(os.fstat(opened).st_mode) == 0o604


def test_a_time_that_the_file_system_changes_is_reported(
    opened: int, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.utime
    monkeypatch.setattr(os, "utime", lambda place, ns: real(place, ns=(10**9, 10**9)))
    apply_metadata(opened, b"x", make_entry(mtime_ns=-5), Policy(owners=False, report=reports))
    assert reports == [("times", b"x")]


def test_a_link_gets_owner_and_time_and_what_it_points_to_nothing(
    root: None, tmp_path: Path, folder: int, reports: Reports
) -> None:
    (tmp_path / "victim").touch()
    before = (tmp_path / "victim").stat()
    (tmp_path / "link").symlink_to("victim")
    entry = make_entry(type=FileType.SYMLINK, uid=5, gid=6, xattrs=((b"trusted.l", b"1"),))
    apply_metadata_at(folder, b"link", b"link", entry, Policy(owners=True, report=reports))
    status = (tmp_path / "link").lstat()
    assert (status.st_uid, status.st_gid, status.st_mtime_ns) == (5, 6, MTIME)
    assert read_xattrs_at(folder, b"link") == ((b"trusted.l", b"1"),)
    assert (tmp_path / "victim").stat() == before
    assert reports == []


@pytest.mark.parametrize("kind", [FileType.FIFO, FileType.SOCKET])
def test_nodes_get_all_without_being_opened(
    root: None, tmp_path: Path, folder: int, reports: Reports, kind: FileType
) -> None:
    if kind == FileType.FIFO:
        os.mkfifo(tmp_path / "node", 0o600)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{folder}/node")
    entry = make_entry(type=kind, mode=0o1727, uid=5, gid=6, xattrs=((b"trusted.n", b"1"),))
    apply_metadata_at(folder, b"node", b"node", entry, Policy(owners=True, report=reports))
    status = (tmp_path / "node").lstat()
    assert (status.st_uid, status.st_gid, status.st_mtime_ns) == (5, 6, MTIME)
    assert stat.S_IMODE(status.st_mode) == 0o1727
    assert read_xattrs_at(folder, b"node") == ((b"trusted.n", b"1"),)
    assert reports == []


@pytest.mark.parametrize("swapped_for", ["link to a file", "link to a pipe", "file"])
def test_a_node_that_became_something_else_is_reported_and_left_alone(
    tmp_path: Path, folder: int, reports: Reports, swapped_for: str
) -> None:
    victim = tmp_path / "victim"
    if "pipe" in swapped_for:
        os.mkfifo(victim, 0o600)
    else:
        victim.touch(0o600)
    if swapped_for == "file":
        (tmp_path / "node").hardlink_to(victim)
    else:
        (tmp_path / "node").symlink_to("victim")
    before = victim.stat()
    entry = make_entry(type=FileType.FIFO, mode=0o777)
    apply_metadata_at(folder, b"node", b"node", entry, Policy(owners=False, report=reports))
    assert victim.stat() == before
    assert reports == [("mode", b"node")]
