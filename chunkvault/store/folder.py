"""Files below a folder descriptor: the plain system calls under the local store.

What lives here: reading, writing, walking and tidying by (descriptor, name), following no symbolic
link in the last component. What may not: the meaning of errors; an OSError leaves as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final, TypeAlias

from chunkvault.errors import StoreError
from chunkvault.store.base import Buffer, Listed
from chunkvault.store.durability import sync_descriptor
from chunkvault.store.names import is_name

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

Page: TypeAlias = list[Listed]

FOLDER_MODE: Final = 0o700
OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_REAL_FOLDER: Final = OPEN_FOLDER | os.O_NOFOLLOW
_PAGE: Final = 1000

NO_OBJECT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""What opening a name says when no regular file is there."""


def walk(root: int, prefix: str, *, where: str) -> Generator[Page]:
    """Regular files below a folder, in pages; one page is in memory, however large the folder.

    Names that no object can have are passed over, and so is ``incoming/``.

    Args:
        root: descriptor of the store's root.
        prefix: "" or a folder ending in "/"; one that is not there is empty.
        where: the store, for messages.

    Raises:
        StoreError: a symbolic link stands for a folder. What reads a listing must not take it for
            complete when it is not, or prune would act on it.
    """
    page: Page = []
    folders = [prefix]
    while folders:
        for listed in _scan(root, folders.pop(), folders, where):
            page.append(listed)
            if len(page) == _PAGE:
                yield page
                page = []
    if page:
        yield page


def _scan(root: int, folder: str, folders: list[str], where: str) -> Iterator[Listed]:
    """Files directly in a folder ("" or ending in "/"); adds its folders to ``folders``."""
    try:
        # without the slash, which would follow a link
        descriptor = os.open(folder.rstrip("/") or ".", _OPEN_REAL_FOLDER, dir_fd=root)
    except OSError as error:
        if error.errno not in NO_OBJECT:
            raise
        _refuse_link(root, folder.rstrip("/"), where)
        return
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = folder + entry.name
                if not is_name(name):
                    continue
                if entry.is_file(follow_symlinks=False):
                    try:
                        size = entry.stat(follow_symlinks=False).st_size
                    except FileNotFoundError:  # gone since
                        continue
                    yield Listed(name, size)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(f"{name}/")
                elif entry.is_symlink():
                    _refuse_link(root, name, where)
    finally:
        os.close(descriptor)


def _refuse_link(root: int, name: str, where: str) -> None:
    try:
        link = stat.S_ISLNK(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode)
        folder = link and stat.S_ISDIR(os.stat(name, dir_fd=root).st_mode)
    except OSError:
        return  # leads nowhere: no folder
    if folder:
        raise StoreError(
            f"{where}/{name} is a symbolic link to a folder: put the folder itself there, "
            "or mount it",
            name=name,
        )


def is_folder(root: int, name: str) -> bool:
    """Whether a real folder is there."""
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode)
    except OSError:
        return False


def write_all(descriptor: int, data: Buffer) -> int:
    """Write all of it; returns the size in bytes."""
    view = memoryview(data)
    size = view.nbytes
    written = os.write(descriptor, view) if size else 0
    if written < size:
        view = view.cast("B")
        while written < size:
            written += os.write(descriptor, view[written:])
    return size


def read_all(descriptor: int, size: int) -> bytes:
    """At most ``size`` bytes; fewer where the file has shrunk."""
    data = os.read(descriptor, size)
    if len(data) == size:
        return data
    parts = [data]
    left = size - len(data)
    while left and (data := os.read(descriptor, left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def discard(root: int, temporary: str) -> None:
    """Remove a temporary on the way out of a failure, which is what gets reported."""
    with contextlib.suppress(OSError):
        os.unlink(temporary, dir_fd=root)


def names_in(root: int, folder: str) -> list[str]:
    """All names in a folder, which may be missing."""
    try:
        descriptor = os.open(folder, _OPEN_REAL_FOLDER, dir_fd=root)
    except OSError as error:
        if error.errno in NO_OBJECT:
            return []
        raise
    try:
        return os.listdir(descriptor)  # noqa: PTH208 - pathlib takes no descriptor
    finally:
        os.close(descriptor)


def remove_if_older(root: int, name: str, oldest_ns: int) -> bool:
    """Remove what is no folder and was last changed at that time or before."""
    try:
        status = os.stat(name, dir_fd=root, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) or status.st_mtime_ns > oldest_ns:
            return False
        os.unlink(name, dir_fd=root)
    except FileNotFoundError:  # its put has ended, or another process sweeps too
        return False
    return True


def make_private(folder: str | Path, root: int | None = None) -> None:
    """Undo a umask that takes even the owner's rights from a folder just made."""
    status = os.stat(folder, dir_fd=root, follow_symlinks=False)
    if stat.S_IMODE(status.st_mode) & 0o777 != FOLDER_MODE:
        with contextlib.suppress(OSError):  # some mounts have modes of their own
            os.chmod(folder, FOLDER_MODE, dir_fd=root)


def try_chmod(descriptor: int, mode: int) -> bool:
    """Set a mode; False where the file system does not let us."""
    try:
        os.fchmod(descriptor, mode)
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make a folder's names durable, if it can be opened (a parent may be closed to us)."""
    try:
        descriptor = os.open(folder, OPEN_FOLDER)
    except OSError:
        return
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)
