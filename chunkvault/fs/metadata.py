"""Reads and applies what a file carries besides its content: owner, mode, attributes, times.

What lives here: metadata of one open thing, and how a path is shown to a person. What may not:
walking, creating, or looking up any path of more than one component. Whatever cannot be applied is
reported and never stops a restore: a file with a lost attribute is worth more than no file.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from chunkvault.format.entry import FileType

if TYPE_CHECKING:
    from chunkvault.format.entry import Entry, Xattr

try:
    import grp
    import pwd
except ImportError:  # not a POSIX system: ids then simply have no names
    _find_user: Callable[[int], str] | None = None
    _find_group: Callable[[int], str] | None = None
else:

    def _find_user(number: int) -> str:
        return pwd.getpwuid(number).pw_name

    def _find_group(number: int) -> str:
        return grp.getgrgid(number).gr_name


Report: TypeAlias = Callable[[str, bytes, OSError], None]
"""Hears (kind, path, error) of what was not applied: owner, mode, xattr, acl, times or node."""

XattrReport: TypeAlias = Callable[[bytes, OSError], None]
"""Hears (attribute name, error) of what could not be read; an empty name: the list itself."""

ACL_ACCESS: Final = b"system.posix_acl_access"
ACL_DEFAULT: Final = b"system.posix_acl_default"
_ACLS: Final = (ACL_ACCESS, ACL_DEFAULT)

_NO_ID: Final = 2**32 - 1
"""What chown(2) takes as "leave it"; no file can be given this id."""
_UNSUPPORTED: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_SPECIAL: Final = stat.S_ISUID | stat.S_ISGID
_SAFE_TIMES: Final = range(2**31 * 10**9)
"""Nanoseconds that every file system can hold; beyond, some change a time without a word."""
_PROCESS_FDS: Final = b"/proc/self/fd/%d"
_SHORT: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

Place: TypeAlias = int | bytes
"""An open descriptor, or a path that stands for one."""


def printable(path: bytes) -> str:
    r"""A path as one line that no terminal acts upon, and that can be turned back into its bytes.

    Printable UTF-8 stays; a backslash is doubled; line feed, return and tab become ``\n``, ``\r``,
    ``\t``; every other byte becomes ``\xNN``.
    """
    text = path.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    if letter in _SHORT:
        return _SHORT[letter]
    if letter.isprintable():
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


class OwnerNames:
    """Names behind numeric owners, asked once each.

    Attributes:
        users: every uid asked for that has a name, and the name.
        groups: every gid asked for that has a name, and the name.
    """

    def __init__(self) -> None:
        self.users: dict[int, str] = {}
        self.groups: dict[int, str] = {}
        self._nameless_users: set[int] = set()
        self._nameless_groups: set[int] = set()

    def user(self, uid: int) -> str | None:
        """The user's name; None where the system knows none."""
        return _name(uid, self.users, self._nameless_users, _find_user)

    def group(self, gid: int) -> str | None:
        """The group's name; None where the system knows none."""
        return _name(gid, self.groups, self._nameless_groups, _find_group)


def _name(
    number: int, known: dict[int, str], nameless: set[int], find: Callable[[int], str] | None
) -> str | None:
    name = known.get(number)
    if name is not None or number in nameless:
        return name
    try:
        name = find(number) if find is not None else None
    except (KeyError, OverflowError, OSError):  # unknown, beyond the system's range, or no answer
        name = None
    if name is None:
        nameless.add(number)
    else:
        known[number] = name
    return name


def read_xattrs(fd: int, report: XattrReport | None = None) -> tuple[Xattr, ...]:
    """Extended attributes of an open file or folder, POSIX ACLs among them, in order of name.

    Empty where the file system or the platform has none. One that goes away meanwhile is left out;
    one that cannot be read is left out and reported.
    """
    return _read_xattrs(fd, report)


def read_xattrs_at(
    dir_fd: int, name: bytes, report: XattrReport | None = None
) -> tuple[Xattr, ...]:
    """The same for what cannot be opened: links, pipes, sockets and devices, never followed.

    Needs ``/proc``; empty without it.
    """
    return _read_xattrs(_PROCESS_FDS % dir_fd + b"/" + name, report)


def _read_xattrs(place: Place, report: XattrReport | None) -> tuple[Xattr, ...]:
    if sys.platform != "linux":
        return ()
    follow = isinstance(place, int)
    try:
        names = os.listxattr(place, follow_symlinks=follow)
    except OSError as error:
        if report is not None and error.errno not in {*_UNSUPPORTED, errno.ENOENT}:
            report(b"", error)
        return ()
    if not names:
        return ()
    found: list[Xattr] = []
    for name in sorted(map(os.fsencode, names)):
        try:
            found.append((name, os.getxattr(place, name, follow_symlinks=follow)))
        except OSError as error:
            if report is not None and error.errno not in {errno.ENODATA, errno.ENOENT}:
                report(name, error)
    return tuple(found)


def process_umask() -> int:
    """The mode bits that the kernel takes away from new files; all of them where it does not tell.

    Read from ``/proc``, because the system call can only tell by changing it for all threads.
    """
    try:
        status = Path("/proc/self/status").read_bytes()
    except OSError:
        return 0o777
    for line in status.splitlines():
        if line.startswith(b"Umask:"):
            return int(line.split()[1], 8)
    return 0o777


@dataclass(frozen=True, slots=True)
class Policy:
    """How metadata is applied.

    Attributes:
        owners: set numeric owners; only root may.
        report: hears of what was not applied.
    """

    owners: bool
    report: Report


def apply_metadata(
    place: Place, path: bytes, entry: Entry, policy: Policy, *, fresh: bool = True
) -> None:
    """Give an open file or folder its owner, mode, attributes and times, in this order.

    chown clears set-user-ID bits and capabilities, setting attributes changes no time: hence the
    order. Set-user-ID and set-group-ID are withheld from a file whose owner or group is not the
    recorded one, because there they would grant the wrong user's rights.

    Args:
        place: a descriptor, or a ``/proc`` path that stands for one.
        path: for reports.
        entry: what to apply; anything but a symlink.
        policy: what to apply at all.
        fresh: it was made just now and inherited nothing; otherwise attributes that the entry does
            not have are removed first.
    """
    if not fresh:
        _remove_other_xattrs(place, path, entry, policy.report)
    if policy.owners:
        apply_owner(place, path, entry, policy.report)
    _apply_mode(place, path, entry, policy.report)
    if entry.xattrs:
        _apply_xattrs(place, path, entry, policy.report)
    apply_times(place, path, entry, policy.report)


def apply_metadata_at(
    dir_fd: int, name: bytes, path: bytes, entry: Entry, policy: Policy, *, fresh: bool = True
) -> None:
    """The same for a link, pipe, socket or device by its name in an open folder, never followed.

    A symlink has no mode. Others are pinned by a descriptor first, where the platform can, so that
    what another process puts at the name meanwhile is not touched.
    """
    if entry.type == FileType.SYMLINK:
        _apply_to_link(dir_fd, name, path, entry, policy)
    elif sys.platform == "linux":
        _apply_pinned(dir_fd, name, path, entry, policy, fresh=fresh)
    else:
        _apply_by_name(dir_fd, name, path, entry, policy)


def _apply_to_link(dir_fd: int, name: bytes, path: bytes, entry: Entry, policy: Policy) -> None:
    if policy.owners:
        apply_owner(name, path, entry, policy.report, link_in=dir_fd)
    if entry.xattrs:
        place = _PROCESS_FDS % dir_fd + b"/" + name
        _apply_xattrs(place, path, entry, policy.report, follow=False)
    apply_times(name, path, entry, policy.report, link_in=dir_fd)


def _apply_pinned(
    dir_fd: int, name: bytes, path: bytes, entry: Entry, policy: Policy, *, fresh: bool
) -> None:
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError as error:
        policy.report("mode", path, error)
        return
    try:
        if stat.S_IFMT(os.fstat(fd).st_mode) != node_format(entry.type):
            policy.report("mode", path, OSError(errno.ESTALE, "it was replaced meanwhile"))
            return
        apply_metadata(_PROCESS_FDS % fd, path, entry, policy, fresh=fresh)
    finally:
        os.close(fd)


def _apply_by_name(dir_fd: int, name: bytes, path: bytes, entry: Entry, policy: Policy) -> None:
    if policy.owners:
        apply_owner(name, path, entry, policy.report, link_in=dir_fd)
    try:
        os.chmod(name, entry.mode & 0o1777, dir_fd=dir_fd, follow_symlinks=False)
    except NotImplementedError:
        policy.report("mode", path, OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)))
    except OSError as error:
        policy.report("mode", path, error)
    apply_times(name, path, entry, policy.report, link_in=dir_fd)


def node_format(file_type: int) -> int:
    """The file type bits of ``st_mode`` for a pipe, socket or device; 0 for all others."""
    return _NODE_FORMATS.get(file_type, 0)


_NODE_FORMATS: Final[dict[int, int]] = {
    FileType.FIFO: stat.S_IFIFO,
    FileType.SOCKET: stat.S_IFSOCK,
    FileType.CHARACTER_DEVICE: stat.S_IFCHR,
    FileType.BLOCK_DEVICE: stat.S_IFBLK,
}


def apply_owner(
    place: Place, path: bytes, entry: Entry, report: Report, *, link_in: int | None = None
) -> None:
    """Set numeric owner and group; with ``link_in``, of a name in that folder, not followed."""
    uid, gid = entry.uid, entry.gid
    if not (0 <= uid < _NO_ID and 0 <= gid < _NO_ID):
        report("owner", path, OSError(errno.EINVAL, f"no file can belong to {uid}:{gid}"))
        uid, gid = (number if 0 <= number < _NO_ID else -1 for number in (uid, gid))
    try:
        if link_in is None:
            os.chown(place, uid, gid)
        else:
            os.chown(place, uid, gid, dir_fd=link_in, follow_symlinks=False)
    except OSError as error:
        report("owner", path, error)


def _apply_mode(place: Place, path: bytes, entry: Entry, report: Report) -> None:
    wanted = entry.mode & 0o7777
    try:
        if wanted & _SPECIAL:
            _apply_special_mode(place, path, entry, report)
        else:
            os.chmod(place, wanted)
    except OSError as error:
        report("mode", path, error)


def _apply_special_mode(place: Place, path: bytes, entry: Entry, report: Report) -> None:
    wanted = mode = entry.mode & 0o7777
    if entry.type != FileType.DIRECTORY:
        before = os.stat(place)
        if before.st_uid != entry.uid:
            mode &= ~stat.S_ISUID
        if before.st_gid != entry.gid:
            mode &= ~stat.S_ISGID
    os.chmod(place, mode)
    # The kernel drops set-group-ID silently for someone outside the group.
    if mode != wanted or os.stat(place).st_mode & 0o7777 != wanted:
        why = "set-user-ID or set-group-ID withheld: owner or group differ"
        report("mode", path, OSError(errno.EPERM, why))


def _remove_other_xattrs(place: Place, path: bytes, entry: Entry, report: Report) -> None:
    """Remove ACLs and user attributes that the entry lacks; labels of the system stay."""
    if sys.platform != "linux":
        return
    wanted = {name for name, _ in entry.xattrs}
    try:
        names = [os.fsencode(name) for name in os.listxattr(place)]
    except OSError:  # none supported, or none to be seen: nothing to remove
        return
    for name in names:
        if name not in wanted and (name in _ACLS or name.startswith(b"user.")):
            try:
                os.removexattr(place, name)
            except OSError as error:
                report(_xattr_kind(name), path, error)


def _apply_xattrs(
    place: Place, path: bytes, entry: Entry, report: Report, *, follow: bool = True
) -> None:
    for name, value in entry.xattrs:
        try:
            if sys.platform == "linux":
                os.setxattr(place, name, value, follow_symlinks=follow)
            else:
                _refuse_xattrs()
        except OSError as error:
            report(_xattr_kind(name), path, error)
        except ValueError:  # a NUL in the name: nothing that came from a file system
            report("xattr", path, OSError(errno.EINVAL, "the name of the attribute is invalid"))


def _refuse_xattrs() -> None:
    raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))


def _xattr_kind(name: bytes) -> str:
    return "acl" if name in _ACLS else "xattr"


def apply_times(
    place: Place, path: bytes, entry: Entry, report: Report, *, link_in: int | None = None
) -> None:
    """Set the modification time, and the access time to the same, which no snapshot records."""
    when = entry.mtime_ns
    try:
        if link_in is None:
            os.utime(place, ns=(when, when))
        else:
            os.utime(place, ns=(when, when), dir_fd=link_in, follow_symlinks=False)
        if when not in _SAFE_TIMES:
            _check_time(place, path, entry, report, link_in=link_in)
    except OverflowError:
        report("times", path, OSError(errno.EOVERFLOW, "the time is beyond what systems know"))
    except OSError as error:
        report("times", path, error)


def _check_time(
    place: Place, path: bytes, entry: Entry, report: Report, *, link_in: int | None
) -> None:
    """Report a time that the file system silently replaced by the nearest one it can hold."""
    status = (
        os.stat(place) if link_in is None else os.stat(place, dir_fd=link_in, follow_symlinks=False)
    )
    if status.st_mtime_ns // 10**9 != entry.mtime_ns // 10**9:
        why = "the file system cannot hold the time"
        report("times", path, OSError(errno.ERANGE, why))
