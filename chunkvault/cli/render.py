"""How values look: text for a terminal, and the same values for ``--json``.

What lives here: pure functions from values to strings and plain dicts. What may not: any writing.
Names come from file systems and may hold anything; whatever leaves ``clean`` or ``path_text`` is
one line without control characters. JSON is always valid UTF-8 and always reversible.
"""

from __future__ import annotations

import base64
import os
import stat
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from chunkvault.format.entry import FileType
from chunkvault.fs.metadata import printable
from chunkvault.ids import id_to_hex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chunkvault.format.entry import Entry
    from chunkvault.format.snapshot import Snapshot, Totals
    from chunkvault.ids import SnapshotId
    from chunkvault.operations.events import Notice

_ESCAPED_BYTES: Final = range(0xDC80, 0xDD00)
"""What surrogateescape makes of the bytes 0x80 to 0xff that are not UTF-8."""
_SHORT: Final = 8

TYPE_NAMES: Final = {
    FileType.FILE: "file",
    FileType.DIRECTORY: "directory",
    FileType.SYMLINK: "symlink",
    FileType.FIFO: "fifo",
    FileType.SOCKET: "socket",
    FileType.CHARACTER_DEVICE: "character-device",
    FileType.BLOCK_DEVICE: "block-device",
}
_MODE_BITS: Final = {
    FileType.FILE: stat.S_IFREG,
    FileType.DIRECTORY: stat.S_IFDIR,
    FileType.SYMLINK: stat.S_IFLNK,
    FileType.FIFO: stat.S_IFIFO,
    FileType.SOCKET: stat.S_IFSOCK,
    FileType.CHARACTER_DEVICE: stat.S_IFCHR,
    FileType.BLOCK_DEVICE: stat.S_IFBLK,
}


# Text


def clean(text: str) -> str:
    """One printable line: control characters, newlines and stray bytes become escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    number = ord(character)
    if number in _ESCAPED_BYTES:
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def path_text(path: bytes) -> str:
    """A path as one printable line, whatever bytes it holds."""
    return printable(path)


def absolute_text(path: bytes) -> str:
    """An entry's path as it was on the machine it came from: with its leading slash."""
    return path_text(b"/" + path)


def short_id(snapshot: SnapshotId) -> str:
    """The first digits of a snapshot's id, enough to name it by."""
    return id_to_hex(snapshot)[:_SHORT]


def count(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun: ``1 file``, ``50,000 files``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def size(number: int) -> str:
    """Bytes in decimal units, three digits or so: ``0 B``, ``4.1 kB``, ``201.3 MB``."""
    if number < 1000:
        return f"{number} B"
    value = float(number)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if value < 999.95:
            return f"{value:,.1f} {unit}"
    return f"{value / 1000:,.1f} EB"


def duration(seconds: float) -> str:
    """Seconds as people say them: ``0.6 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(nanoseconds: int) -> str:
    """A point in time, UTC, to the second; ``@seconds`` where no calendar reaches."""
    seconds = nanoseconds // 1_000_000_000
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"@{seconds}"


def table(rows: Iterable[Sequence[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """Lines of aligned columns; those numbered in ``right`` are set flush right."""
    cells = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def long_entry(entry: Entry) -> Sequence[str]:
    """Mode, owner, group, size, time and path of an entry, as ``ls -l`` has them."""
    mode = stat.filemode(_MODE_BITS[FileType(entry.type)] | entry.mode)
    name = absolute_text(entry.path)
    if entry.type == FileType.SYMLINK:
        name += f" -> {path_text(entry.target)}"
    return (mode, str(entry.uid), str(entry.gid), str(entry.size), moment(entry.mtime_ns), name)


# JSON


def text_json(text: str) -> str:
    """Text that any JSON reader takes: stray bytes are shown by their hex digits."""
    data = text.encode("utf-8", "surrogateescape" if _has_bytes_only(text) else "replace")
    return data.decode("utf-8", "backslashreplace")


def _has_bytes_only(text: str) -> bool:
    """Whether every surrogate in it stands for a byte."""
    return not any(0xD800 <= ord(c) <= 0xDFFF and ord(c) not in _ESCAPED_BYTES for c in text)


def bytes_json(data: bytes, key: str = "path") -> dict[str, str]:
    """A name as text, and as base64 beside it (``path_bytes``) where the text is not all of it."""
    try:
        return {key: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {
            key: data.decode("utf-8", "backslashreplace"),
            f"{key}_bytes": base64.b64encode(data).decode("ascii"),
        }


def moment_json(nanoseconds: int, key: str) -> dict[str, str | int]:
    """A point in time, both exact and readable."""
    return {key: moment(nanoseconds).replace(" ", "T") + "Z", f"{key}_ns": nanoseconds}


def entry_json(entry: Entry) -> dict[str, object]:
    """All of an entry that means something to its reader."""
    value: dict[str, object] = {
        **bytes_json(b"/" + entry.path),
        "type": TYPE_NAMES[FileType(entry.type)],
        "mode": f"{entry.mode:04o}",
        "uid": entry.uid,
        "gid": entry.gid,
        "size": entry.size,
        **moment_json(entry.mtime_ns, "mtime"),
        "inode": entry.inode,
        "links": entry.links,
    }
    if entry.type == FileType.SYMLINK:
        value |= bytes_json(entry.target, "target")
    if entry.type in {FileType.CHARACTER_DEVICE, FileType.BLOCK_DEVICE}:
        value["device"] = [os.major(entry.rdev), os.minor(entry.rdev)]
    return value


def snapshot_json(snapshot_id: SnapshotId, snapshot: Snapshot) -> dict[str, object]:
    """A snapshot record without its manifest."""
    return {
        "id": id_to_hex(snapshot_id),
        "short_id": short_id(snapshot_id),
        **moment_json(snapshot.started_ns, "started"),
        **moment_json(snapshot.finished_ns, "finished"),
        "hostname": text_json(snapshot.hostname),
        "username": text_json(snapshot.username),
        "roots": [bytes_json(root) for root in snapshot.roots],
        "tags": [text_json(tag) for tag in snapshot.tags],
        "partial": snapshot.partial,
        "parent": None if snapshot.parent is None else id_to_hex(snapshot.parent),
        "program": text_json(snapshot.program),
        "totals": totals_json(snapshot.totals),
    }


def totals_json(totals: Totals) -> dict[str, int]:
    """The counters of a run, by their names in the format."""
    return {one.name: int(getattr(totals, one.name)) for one in fields(totals)}


def notice_json(notice: Notice) -> dict[str, object]:
    """One warning or note."""
    value: dict[str, object] = {"kind": notice.kind, "message": clean(notice.message)}
    if notice.path is not None:
        path = notice.path if notice.path.startswith(b"/") else b"/" + notice.path
        value |= bytes_json(path)
    return value
