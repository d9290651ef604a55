"""Writes entries below a target folder, and nowhere else.

What lives here: creating and replacing things by one name in one open folder. What may not:
deciding what to restore, fetching content. Below the target no path of more than one component is
looked up, no link is followed, and each folder is reached from the descriptor of the one above, so
that a link planted before or during a restore, or a hostile path, leads nowhere.

New folders are private (0700) until they are left; then they get their owner, mode, attributes and
times, the deepest first. For a small file this comes to four to six system calls.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, Final

from chunkvault.errors import TargetError
from chunkvault.fs.metadata import (
    ACL_DEFAULT,
    Policy,
    apply_metadata,
    apply_metadata_at,
    apply_owner,
    apply_times,
    node_format,
    printable,
    process_umask,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from chunkvault.format.entry import Entry
    from chunkvault.fs.metadata import Report

    Buffer: TypeAlias = bytes | bytearray | memoryview
    Identity: TypeAlias = tuple[int, int]

_MAX_OPEN: Final = 64
"""Folders held open at once besides the target; upper ones are closed and come back through
``..``, checked by identity."""
_ATTEMPTS: Final = 4
"""How often to try where another process keeps changing what stands at a name."""
_O_PATH: Final = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSAFE: Final = frozenset({b"", b".", b".."})
_NO_MODE: Final = -1
_UNKNOWN: Final = -1
_RWX: Final = 0o700
_CANNOT_MAKE: Final = frozenset({errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What mknod(2) answers where this user or system makes no such node."""

_NEXT: Final = {
    errno.EACCES: "check who may write to the target",
    errno.EPERM: "check who may write to the target",
    errno.EROFS: "choose a target that can be written to",
    errno.EFBIG: "the target's file system takes no file that large",
    errno.EINVAL: "the target's file system may not take such a name",
    errno.EILSEQ: "the target's file system may not take such a name",
    errno.ENAMETOOLONG: "the target's file system takes no name that long",
    errno.ENOTEMPTY: "a folder that is not empty stands in its place; move it away",
    errno.EEXIST: "something else stands in its place; move it away",
    errno.ESTALE: "a folder of the target was moved meanwhile; restore again",
}


class _Folder:
    """A folder on the current path.

    Attributes:
        fd: its descriptor; -1 while closed to save descriptors, or lost.
        path: relative to the target.
        identity: (device, inode).
        made: this restore created it.
        hands_down: it has a default ACL that new things in it inherit.
        uid: owner that new things in it surely get; -1 if that is not certain.
        gid: group, likewise.
        entry: what to apply when it is left; None leaves it as it was found.
        mode_before: what to set back when it is left without an entry; -1 if nothing.
    """

    __slots__ = (
        "entry",
        "fd",
        "gid",
        "hands_down",
        "identity",
        "made",
        "mode_before",
        "path",
        "uid",
    )

    def __init__(self, fd: int, path: bytes, status: os.stat_result, *, made: bool) -> None:
        self.fd = fd
        self.path = path
        self.identity = (status.st_dev, status.st_ino)
        self.made = made
        self.hands_down = False
        self.uid = self.gid = _UNKNOWN
        self.entry: Entry | None = None
        self.mode_before = _NO_MODE


class TreeWriter:
    """Writes a tree below a target folder.

    Calls come from one thread at a time, in manifest order, folders before their contents; paths
    are relative to the target. Every method raises `TargetError` where the entry, and it alone,
    cannot be written; the next may be tried. What already exists is treated so: a folder where a
    folder belongs is kept with its contents; an empty folder gives way to anything, one with
    contents to nothing; a file, link or node is replaced by a rename, so that it stands there
    whole until the new one does, and gives way to a folder.

    Args:
        target: the folder to fill, reached as a shell would; where it does not exist it is made,
            private (0700), and so are those above it, as open to others as the umask allows.
        owners: give everything its numeric owner; only root may.
        report: hears of metadata that could not be applied (owner, mode, xattr, acl, times) and of
            pipes, sockets and devices that could not be made (node); the run goes on.
        entropy: gives that many random bytes, for temporary names.

    Raises:
        TargetError: the target cannot be made or opened.
    """

    def __init__(
        self,
        target: bytes | str | Path,
        *,
        owners: bool,
        report: Report,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._policy = Policy(owners=owners, report=report)
        self._owners = owners
        self._report = report
        self._entropy = entropy
        self._uid = os.geteuid()
        self._gid = os.getegid()
        self._umask = process_umask()
        self._plain: dict[int, bool] = {}
        self._first: dict[bytes, Identity] = {}
        self._top = self._open_target(os.fsencode(target))
        self._stack: list[_Folder] = [self._top]

    # What can be written

    def directory(self, path: bytes, entry: Entry) -> None:
        """Make a folder, or enter the one that is there; its metadata comes when it is left.

        The empty path is the target itself: it gets the entry's metadata only where this writer
        made it, because an existing one may be a home or ``/tmp``.
        """
        if not path:
            root = self._stack[0]
            if root.made:
                root.entry = entry
            return
        folder, name = self._locate(path)
        self._enter(folder, name, path, entry)

    def file(self, path: bytes, entry: Entry, data: Buffer) -> None:
        """Write a regular file whose whole content is at hand."""
        folder, name = self._locate(path)
        try:
            self._write_new(folder, name, path, entry, data)
        except FileExistsError:
            temporary = self._temporary_name()
            try:
                self._write_new(folder, temporary, path, entry, data)
                _put_in_place(folder.fd, temporary, name)
            except OSError as error:
                raise _refusal(path, error, folder.fd) from error

    def open_file(self, path: bytes, entry: Entry) -> FileWriter:
        """Begin a regular file that is written piece by piece; what is not written is a hole."""
        folder, name = self._locate(path)
        try:
            return FileWriter(folder, name, path, entry, self)
        except OSError as error:
            raise _refusal(path, error, folder.fd) from error

    def symlink(self, path: bytes, entry: Entry) -> None:
        """Make a symbolic link."""
        folder, name = self._locate(path)
        target = entry.target
        if not target or b"\0" in target:
            raise TargetError(f"{printable(path)} is not restored: its link target is invalid")
        fd = folder.fd
        try:
            self._make(folder, name, lambda new: os.symlink(target, new, dir_fd=fd))
            if entry.links > 1:
                self._remember(path, os.stat(name, dir_fd=fd, follow_symlinks=False))
        except OSError as error:
            raise _refusal(path, error, fd) from error
        apply_metadata_at(fd, name, path, entry, self._policy)

    def node(self, path: bytes, entry: Entry) -> None:
        """Make a pipe, socket or device; one that this user or system cannot make is reported."""
        folder, name = self._locate(path)
        fd, kind = folder.fd, node_format(entry.type)
        if not kind:
            raise TargetError(f"{printable(path)} is not restored: it is of no known type")
        # Private until it has its owner.
        mode = kind | 0o600
        try:
            self._make(folder, name, lambda new: os.mknod(new, mode, entry.rdev, dir_fd=fd))
            if entry.links > 1:
                self._remember(path, os.stat(name, dir_fd=fd, follow_symlinks=False))
        except OverflowError:
            self._report("node", path, OSError(errno.EINVAL, "its device number is too large"))
            return
        except OSError as error:
            if error.errno not in _CANNOT_MAKE:
                raise _refusal(path, error, fd) from error
            self._report("node", path, error)
            return
        apply_metadata_at(fd, name, path, entry, self._policy, fresh=not folder.hands_down)

    def hard_link(self, path: bytes, entry: Entry, first: bytes) -> None:
        """Make another name of what this writer wrote at ``first``, whose entry has ``links`` > 1.

        Raises:
            TargetError: also where ``first`` was not written, or is not what was written any more.
        """
        del entry  # the metadata is that of ``first``
        identity = self._first.get(first)
        if identity is None:
            raise TargetError(
                f"{printable(path)} is not restored: {printable(first)}, which is the same file, "
                "was not restored"
            )
        folder, name = self._locate(path)
        try:
            self._link(folder, name, first, identity)
        except OSError as error:
            raise _refusal(path, error, folder.fd) from error

    def finish(self) -> None:
        """Leave all folders, the deepest first, and let go of them; may be called twice."""
        while len(self._stack) > 1:
            self._leave()
        if self._top.fd >= 0:
            self._complete(self._top)
            os.close(self._top.fd)
            self._top.fd = -1

    # Files

    def _write_new(
        self, folder: _Folder, name: bytes, path: bytes, entry: Entry, data: Buffer
    ) -> None:
        """Write a file under a name that is free.

        Raises:
            FileExistsError: it is not.
            TargetError: all else; the name is free again.
        """
        mode = entry.mode
        plain = self._plain.get(mode)
        if plain is None:
            plain = self._plain[mode] = self._is_plain(mode)
        plain = plain and not folder.hands_down
        try:
            fd = os.open(name, _CREATE, mode if plain else 0o600, dir_fd=folder.fd)
        except FileExistsError:
            raise
        except OSError as error:
            raise _refusal(path, error, folder.fd) from error
        try:
            try:
                written = os.write(fd, data)
                if written != len(data):
                    _write_all(fd, memoryview(data)[written:], written)
                if plain and not entry.xattrs:
                    if self._owners and (entry.uid != folder.uid or entry.gid != folder.gid):
                        apply_owner(fd, path, entry, self._report)
                    apply_times(fd, path, entry, self._report)
                else:
                    fresh = not folder.hands_down
                    apply_metadata(fd, path, entry, self._policy, fresh=fresh)
                if entry.links > 1:
                    self._remember(path, os.fstat(fd))
            finally:
                os.close(fd)
        except OSError as error:
            _discard(folder.fd, name)
            raise _refusal(path, error, folder.fd) from error
        except BaseException:
            _discard(folder.fd, name)
            raise

    def _is_plain(self, mode: int) -> bool:
        """Whether open(2) can give a new file this mode at once, for good and without harm.

        Not if the umask or a later chown would take bits away, nor if, before the chown, our group
        could do what strangers may not.
        """
        if mode & (self._umask | 0o7000):
            return False
        return not self._owners or not (mode >> 3 & 0o7) & ~mode

    def _remember(self, path: bytes, status: os.stat_result) -> None:
        self._first[path] = (status.st_dev, status.st_ino)

    def _temporary_name(self) -> bytes:
        return b".chunkvault-%s.tmp" % self._entropy(8).hex().encode()

    # Links and nodes

    def _make(self, folder: _Folder, name: bytes, make: Callable[[bytes], None]) -> None:
        """Make something under a name, replacing what is there."""
        try:
            make(name)
        except FileExistsError:
            temporary = self._temporary_name()
            make(temporary)
            _put_in_place(folder.fd, temporary, name)

    def _link(self, folder: _Folder, name: bytes, first: bytes, identity: Identity) -> None:
        above, _, source = first.rpartition(b"/")
        with self._reached(above) as source_fd:

            def make(new: bytes) -> None:
                os.link(
                    source, new, src_dir_fd=source_fd, dst_dir_fd=folder.fd, follow_symlinks=False
                )
                if _identity(folder.fd, new) != identity:
                    _discard(folder.fd, new)
                    raise OSError(errno.ESTALE, "what it is linked to was replaced meanwhile")

            try:
                make(name)
            except FileExistsError:
                # Renaming one of two names of a file to the other would leave both.
                if _identity(folder.fd, name) != identity:
                    temporary = self._temporary_name()
                    make(temporary)
                    _put_in_place(folder.fd, temporary, name)

    @contextlib.contextmanager
    def _reached(self, path: bytes) -> Iterator[int]:
        """A descriptor of a folder that was written before, wherever it is."""
        base = next(f for f in reversed(self._stack) if f.fd >= 0 and _is_below(path, f.path))
        fd = base.fd
        rest = path[len(base.path) :].strip(b"/")
        try:
            for name in rest.split(b"/") if rest else ():
                inner = os.open(name, _O_PATH | _FOLDER, dir_fd=fd)
                if fd != base.fd:
                    os.close(fd)
                fd = inner
            yield fd
        finally:
            if fd != base.fd:
                os.close(fd)

    # Folders

    def _open_target(self, target: bytes) -> _Folder:
        made = False
        try:
            try:
                fd = os.open(target, os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                os.makedirs(target, mode=_RWX)
                made = True
                fd = os.open(target, _FOLDER)
            folder = _Folder(fd, b"", os.fstat(fd), made=made)
            self._prepare(folder, os.fstat(fd), inherits=True)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not a valid path"
            raise TargetError(
                f"cannot restore into {printable(target)}: {why}; choose another target"
            ) from error
        return folder

    def _locate(self, path: bytes) -> tuple[_Folder, bytes]:
        """The open folder that holds ``path``, and the last component."""
        slash = path.rfind(b"/")
        if slash > 0:
            above, name = path[:slash], path[slash + 1 :]
        else:
            above, name = b"", path  # with a leading slash the name is found unsafe below
        if name in _UNSAFE or slash == 0 or b"\0" in name:
            raise _unsafe(path)
        if above != self._top.path:
            self._go(above, path)
        folder = self._top
        if folder.fd < 0:
            raise _refusal(path, OSError(errno.ESTALE, os.strerror(errno.ESTALE)), -1)
        return folder, name

    def _go(self, above: bytes, path: bytes) -> None:
        """Make ``above`` the current folder, leaving and entering what lies between."""
        while not _is_below(above, self._top.path):
            self._leave()
        at = len(self._top.path)
        names = above[at + 1 if at else 0 :].split(b"/") if len(above) > at else []
        if any(name in _UNSAFE or b"\0" in name for name in names):
            raise _unsafe(path)
        for name in names:
            inner = self._top.path + b"/" + name if self._top.path else name
            self._enter(self._top, name, inner, None)

    def _enter(self, above: _Folder, name: bytes, path: bytes, entry: Entry | None) -> None:
        """Make or open a folder, replacing a file or link there, and make it the current one."""
        if above.fd < 0:
            raise _refusal(path, OSError(errno.ESTALE, os.strerror(errno.ESTALE)), -1)
        try:
            fd, made, before = self._make_folder(above.fd, name)
            try:
                status = os.fstat(fd)
                folder = _Folder(fd, path, status, made=made)
                folder.entry = entry
                folder.mode_before = before
                self._prepare(folder, status, inherits=above.hands_down or not made)
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            raise _refusal(path, error, above.fd) from error
        self._stack.append(folder)
        self._top = folder
        if len(self._stack) > _MAX_OPEN + 1:
            upper = self._stack[-_MAX_OPEN - 1]
            if upper.fd >= 0:
                os.close(upper.fd)
                upper.fd = -1

    def _make_folder(self, above: int, name: bytes) -> tuple[int, bool, int]:
        """Returns: descriptor, whether it is new, and its mode before it was unlocked or -1."""
        for _ in range(_ATTEMPTS):
            made = False
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, _RWX, dir_fd=above)
                made = True
            try:
                return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=above), made, _NO_MODE
            except PermissionError:
                fd, before = _unlock(above, name)
                return fd, made, _NO_MODE if made else before
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
                    raise
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=above)
        raise OSError(errno.EBUSY, "another process keeps replacing it")

    def _prepare(self, folder: _Folder, status: os.stat_result, *, inherits: bool) -> None:
        """See to it that we can write into a folder, and know what its new contents inherit."""
        if status.st_uid == self._uid:
            if status.st_mode & _RWX != _RWX:
                with contextlib.suppress(OSError):  # then what goes into it fails, by name
                    os.chmod(folder.fd, stat.S_IMODE(status.st_mode) | _RWX)
                    folder.mode_before = stat.S_IMODE(status.st_mode)
            # New things get our group or the folder's: sure only where both are the same.
            if status.st_gid == self._gid:
                folder.uid, folder.gid = self._uid, self._gid
        folder.hands_down = inherits and _has_default_acl(folder.fd)

    def _leave(self) -> None:
        """Complete the current folder and go back to the one above."""
        folder = self._stack.pop()
        above = self._top = self._stack[-1]
        # First of all, for ``..`` can be looked up only while we may search the folder.
        if above.fd < 0 and folder.fd >= 0:
            _reopen(above, folder.fd)
        if folder.fd >= 0:
            self._complete(folder)
            os.close(folder.fd)
        elif folder.entry is not None:
            why = "the folder was moved meanwhile"
            self._report("mode", folder.path, OSError(errno.ESTALE, why))

    def _complete(self, folder: _Folder) -> None:
        if folder.entry is not None:
            fresh = folder.made and not folder.hands_down
            apply_metadata(folder.fd, folder.path, folder.entry, self._policy, fresh=fresh)
        elif folder.mode_before != _NO_MODE:
            try:
                os.chmod(folder.fd, folder.mode_before)
            except OSError as error:
                self._report("mode", folder.path, error)


class FileWriter:
    """A regular file under way, under a temporary name until `commit`.

    Made by `TreeWriter.open_file`. ``write_at`` may be called from several threads at once;
    ``commit`` or ``abort`` comes after the last of them has returned, and before the writer's next
    entry.
    """

    def __init__(
        self, folder: _Folder, name: bytes, path: bytes, entry: Entry, writer: TreeWriter
    ) -> None:
        self._name = name
        self._path = path
        self._entry = entry
        self._writer = writer
        self._inherits = folder.hands_down
        self._temporary = writer._temporary_name()
        self._fd = self._folder_fd = -1
        # A descriptor of its own: the writer may leave the folder while this file is open.
        self._folder_fd = os.dup(folder.fd)
        try:
            self._fd = os.open(self._temporary, _CREATE, 0o600, dir_fd=self._folder_fd)
            os.truncate(self._fd, entry.size)
        except OverflowError as error:
            self.abort()
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG)) from error
        except BaseException:
            self.abort()
            raise

    def write_at(self, offset: int, data: Buffer) -> None:
        """Write a piece at ``offset`` bytes from the start.

        Raises:
            TargetError: it cannot be written, or lies beyond the file's size.
        """
        if offset < 0 or offset + len(data) > self._entry.size:
            raise TargetError(f"{printable(self._path)} is not restored: content beyond its size")
        try:
            _write_all(self._fd, memoryview(data), offset)
        except OSError as error:
            raise _refusal(self._path, error, self._folder_fd) from error

    def commit(self) -> None:
        """Apply metadata and put the file in its place.

        Raises:
            TargetError: it cannot be; what stood there stands there still, and nothing is left.
        """
        writer = self._writer
        try:
            apply_metadata(
                self._fd,
                self._path,
                self._entry,
                writer._policy,
                fresh=not self._inherits,
            )
            status = os.fstat(self._fd)
            self._close_file()  # some file systems tell only now that they are full
            _put_in_place(self._folder_fd, self._temporary, self._name)
        except OSError as error:
            refusal = _refusal(self._path, error, self._folder_fd)
            self.abort()
            raise refusal from error
        os.close(self._folder_fd)
        self._folder_fd = -1
        if self._entry.links > 1:
            writer._remember(self._path, status)

    def abort(self) -> None:
        """Remove what was written; nothing happens after `commit` or another `abort`."""
        with contextlib.suppress(OSError):
            self._close_file()
        if self._folder_fd >= 0:
            _discard(self._folder_fd, self._temporary)
            os.close(self._folder_fd)
            self._folder_fd = -1

    def _close_file(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _is_below(path: bytes, folder: bytes) -> bool:
    """Whether ``path`` is the folder or lies in it."""
    return not folder or path == folder or path.startswith(folder + b"/")


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    data = data.cast("B")
    while data:
        written = os.pwrite(fd, data, offset)
        offset += written
        data = data[written:]


def _put_in_place(folder: int, temporary: bytes, name: bytes) -> None:
    """Rename over whatever is there but a folder with contents; on failure remove the new thing."""
    try:
        try:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except IsADirectoryError:
            os.rmdir(name, dir_fd=folder)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _discard(folder, temporary)
        raise


def _discard(folder: int, name: bytes) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _identity(folder: int, name: bytes) -> Identity:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return status.st_dev, status.st_ino


def _unlock(above: int, name: bytes) -> tuple[int, int]:
    """Open a folder of ours that we have no right to read, by giving us that right.

    Returns:
        Its descriptor, and the mode it had.
    """
    if sys.platform != "linux":
        before = stat.S_IMODE(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
        os.chmod(name, before | _RWX, dir_fd=above, follow_symlinks=False)
        return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=above), before
    # Linux cannot change a mode by name without following links, but of what is pinned.
    pinned = os.open(name, _O_PATH | _FOLDER, dir_fd=above)
    try:
        before = stat.S_IMODE(os.fstat(pinned).st_mode)
        os.chmod(f"/proc/self/fd/{pinned}", before | _RWX)
        return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=above), before
    finally:
        os.close(pinned)


def _reopen(above: _Folder, inner: int) -> None:
    """Get a closed folder back as the parent of one below; not if that has another parent now."""
    with contextlib.suppress(OSError):
        fd = os.open(b"..", os.O_RDONLY | _FOLDER, dir_fd=inner)
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) == above.identity:
            above.fd = fd
        else:
            os.close(fd)


def _has_default_acl(fd: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        os.getxattr(fd, ACL_DEFAULT)
    except OSError:
        return False
    return True


def _unsafe(path: bytes) -> TargetError:
    return TargetError(
        f"{printable(path)} is not restored: such a path could lead out of the target; "
        "check the vault with 'chunkvault check'"
    )


def _refusal(path: bytes, error: OSError, fd: int) -> TargetError:
    """The error for one entry, in a line that says what to do."""
    shown = printable(path)
    if error.errno == errno.ENOSPC:
        what = "no inodes are" if _out_of_inodes(fd) else "no space is"
        return TargetError(
            f"{shown} is not restored: the disk of the target is full ({what} left); "
            "make room and restore again"
        )
    if error.errno == errno.EDQUOT:
        return TargetError(
            f"{shown} is not restored: the target's disk quota is full; make room and restore again"
        )
    why = error.strerror or str(error)
    advice = _NEXT.get(error.errno or 0)
    return TargetError(f"{shown} is not restored: {why}" + (f"; {advice}" if advice else ""))


def _out_of_inodes(fd: int) -> bool:
    try:
        status = os.fstatvfs(fd)
    except OSError:
        return False
    return status.f_files > 0 and status.f_favail == 0
