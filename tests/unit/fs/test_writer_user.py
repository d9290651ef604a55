"""As a plain user: what only root can do is reported, and all else is restored."""

import os
import shutil
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chunkvault.errors import TargetError
from chunkvault.format.entry import Entry, FileType
from chunkvault.fs.writer import TreeWriter

MTIME = 1_500_000_000_123_456_789
NOBODY = 65534


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
def target() -> Iterator[Path]:
    """A folder of a plain user's, reachable for that user."""
    place = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    yield place
    shutil.rmtree(place)


def as_plain_user(work: Callable[[], None]) -> None:
    """Run the work in a child without root's rights; fail as it fails."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the child must end here, whatever happens
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_whole_tree_twice_into_read_only_folders(target: Path) -> None:
    def work() -> None:
        for _ in range(2):
            reports = Reports()
            writer = TreeWriter(target, owners=False, report=reports)
            writer.directory(b"d", folder_entry(mode=0o555))
            writer.file(b"d/f", make_entry(mode=0o444, links=2), b"x")
            writer.hard_link(b"d/g", make_entry(links=2), b"d/f")
            writer.directory(b"d/none", folder_entry(mode=0))
            writer.file(b"d/none/f", make_entry(mode=0), b"x")
            writer.symlink(b"d/none/l", make_entry(type=FileType.SYMLINK, target=b"t"))
            writer.directory(b"d/write-only", folder_entry(mode=0o300))
            writer.node(b"d/write-only/p", make_entry(type=FileType.FIFO, mode=0o444))
            writer.finish()
            assert reports == []
            assert mode_of(target / "d") == 0o555
            assert mode_of(target / "d/none") == 0
            assert mode_of(target / "d/write-only") == 0o300
            assert (target / "d/none").stat().st_mtime_ns == MTIME
            assert (target / "d/f").samefile(target / "d/g")

    as_plain_user(work)
    assert mode_of(target / "d/none/f") == 0
    assert (target / "d/none/l").is_symlink()
    assert (target / "d/write-only/p").is_fifo()


def test_a_read_only_folder_on_the_way_gets_its_mode_back(target: Path) -> None:
    def work() -> None:
        for name, mode in (("a", 0o555), ("b", 0)):
            (target / name).mkdir()
            (target / name).chmod(mode)
        target.chmod(0o500)
        writer = TreeWriter(target, owners=False, report=Reports())
        writer.file(b"a/f", make_entry(), b"x")
        writer.file(b"b/f", make_entry(), b"x")
        writer.finish()

    as_plain_user(work)
    assert [mode_of(target / name) for name in ("", "a", "b")] == [0o500, 0o555, 0]
    assert (target / "a/f").exists()
    assert (target / "b/f").exists()


def test_devices_are_reported_and_the_rest_of_their_folder_restored(target: Path) -> None:
    def work() -> None:
        reports = Reports()
        writer = TreeWriter(target, owners=False, report=reports)
        (target / "null").write_bytes(b"old")
        writer.directory(b"d", folder_entry())
        writer.node(b"d/disk", make_entry(type=FileType.BLOCK_DEVICE, rdev=os.makedev(8, 1)))
        writer.node(b"d/null", make_entry(type=FileType.CHARACTER_DEVICE, rdev=os.makedev(1, 3)))
        writer.node(b"d/socket", make_entry(type=FileType.SOCKET, mode=0o600))
        writer.file(b"d/z", make_entry(), b"x")
        writer.node(b"null", make_entry(type=FileType.CHARACTER_DEVICE, rdev=os.makedev(1, 3)))
        writer.finish()
        assert reports == [("node", b"d/disk"), ("node", b"d/null"), ("node", b"null")]

    as_plain_user(work)
    assert sorted(path.name for path in (target / "d").iterdir()) == ["socket", "z"]
    assert (target / "null").read_bytes() == b"old"


def test_rights_of_other_owners_are_not_given_away(target: Path) -> None:
    def work() -> None:
        reports = Reports()
        writer = TreeWriter(target, owners=False, report=reports)
        writer.file(b"root's", make_entry(mode=0o6755, uid=0, gid=0), b"x")
        writer.file(b"mine", make_entry(mode=0o6755), b"x")
        writer.finish()
        assert reports == [("mode", b"root's")]

    as_plain_user(work)
    assert mode_of(target / "root's") == 0o755
    assert mode_of(target / "mine") == 0o6755


def test_what_only_root_may_set_is_reported_by_kind(target: Path) -> None:
    def work() -> None:
        reports = Reports()
        writer = TreeWriter(target, owners=True, report=reports)
        capability = (b"security.capability", bytes.fromhex("0100000200200000" + "00" * 12))
        entry = make_entry(uid=0, gid=0, xattrs=(capability, (b"user.x", b"1")))
        writer.file(b"f", entry, b"x")
        writer.finish()
        assert reports == [("owner", b"f"), ("xattr", b"f")]

    as_plain_user(work)
    assert os.getxattr(target / "f", "user.x") == b"1"
    assert (target / "f").stat().st_mtime_ns == MTIME


def test_a_folder_of_another_user_is_an_error_for_what_goes_into_it(target: Path) -> None:
    if os.geteuid():
        pytest.fail("only root can make a folder of another user's")
    (target / "roots").mkdir(0o755)
    (target / "closed").mkdir(0o700)

    def work() -> None:
        reports = Reports()
        writer = TreeWriter(target, owners=False, report=reports)
        with pytest.raises(TargetError, match=r"closed is not restored: .*who may write"):
            writer.directory(b"closed", folder_entry())
        writer.directory(b"roots", folder_entry())
        with pytest.raises(TargetError, match="roots/f is not restored: Permission denied"):
            writer.file(b"roots/f", make_entry(), b"x")
        with pytest.raises(TargetError, match="roots/f is not restored: Permission denied"):
            writer.open_file(b"roots/f", make_entry())
        writer.file(b"z", make_entry(), b"x")
        writer.finish()
        assert reports == [("mode", b"roots"), ("times", b"roots")]

    as_plain_user(work)
    assert (target / "z").exists()
