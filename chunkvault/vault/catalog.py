"""A local index of one vault, in SQLite: a cache, never the only copy of anything.

What lives here: snapshot records as stored, sizes of blobs, and where the content of small files
lies. What may not: anything that cannot be had from the vault again, and any error. A catalog that
is missing, damaged, another vault's, locked or unwritable costs time, never an answer.

What can be believed. Whoever can write the file must not be able to decide what a restore gives
back. Digests, snapshot records and notes therefore carry a 16-byte BLAKE3, keyed by the vault;
a row that fails it counts as absent. Sizes of blobs carry none: they are hints, and that an id is
listed is no proof that its blob exists.

Two processes may use one file. It is in WAL mode without fsync: after a power cut it may be
damaged, which is then found as any other damage is.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import quote

from blake3 import blake3

from chunkvault.format.entry import Extent
from chunkvault.ids import ID_SIZE, ChunkId, ContentDigest, SnapshotId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

_Row: TypeAlias = tuple[Any, ...]
"""What a damaged or hostile file says may be of any type, whatever its columns declare."""

SCHEMA_VERSION: Final = 1
_TABLES: Final = (
    "CREATE TABLE chunks (id BLOB PRIMARY KEY, stored_size INTEGER NOT NULL) WITHOUT ROWID",
    # place: chunk, offset, length and MAC, packed; a column each would take a third longer.
    "CREATE TABLE digests (digest BLOB PRIMARY KEY, place BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE notes (key TEXT PRIMARY KEY, value BLOB NOT NULL, mac BLOB NOT NULL)"
    " WITHOUT ROWID",
    "CREATE TABLE snapshots (id BLOB PRIMARY KEY, sealed BLOB NOT NULL, mac BLOB NOT NULL)",
)
_PLACE: Final = Struct("<32sII")
_DIGEST_AND_PLACE: Final = Struct("<32s32sII")
_PLACE_LIMIT: Final = (1 << 32) - 1
_MAC_SIZE: Final = 16
_ROW_SIZE: Final = _PLACE.size + _MAC_SIZE
_PACKED_SIZE: Final = ID_SIZE + _ROW_SIZE
_PAGE: Final = 10_000
_ASK_AT_ONCE: Final = 500
_ADD_AT_ONCE: Final = 5000
_OWNER_NOTE: Final = "vault"
_WAIT_S: Final = 10.0
_ATTEMPTS: Final = 3
_SIDECARS: Final = ("-wal", "-shm", "-journal", "")

_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
    }
)
"""Failures that say nothing against the file; the one operation is given up."""

_FIND: Final = "SELECT place FROM digests WHERE digest = ?"
# SQLite takes many packed rows apart by itself: half the time of a call for each, and Python's lock
# is given back once, not 50,000 times while other threads want it.
_ADD_PACKED: Final = f"""
    WITH RECURSIVE at(byte) AS (
        SELECT 1 UNION ALL SELECT byte + {_PACKED_SIZE} FROM at
        WHERE byte + {_PACKED_SIZE} < length(?1)
    )
    INSERT OR REPLACE INTO digests
    SELECT substr(?1, byte, {ID_SIZE}), substr(?1, byte + {ID_SIZE}, {_ROW_SIZE}) FROM at
"""  # noqa: S608 - constants


class _UnusableError(Exception):
    """The file is no catalog of this vault and this version."""


class _Keys(NamedTuple):
    digests: bytes
    snapshots: bytes
    notes: bytes


class Catalog:
    """What is known of one vault. One thread at a time; not the one that opened it, if need be."""

    def __init__(
        self,
        db: sqlite3.Connection,
        *,
        keys: _Keys,
        path: Path | None,
        inode: tuple[int, int] | None,
        problem: Callable[[str], None] | None,
    ) -> None:
        self._db = db
        self._keys = keys
        self._path = path
        self._inode = inode
        self._problem = problem

    @classmethod
    def open(
        cls,
        path: Path | None,
        *,
        mac_key: bytes,
        vault_id: bytes,
        problem: Callable[[str], None] | None = None,
        wait_s: float = _WAIT_S,
    ) -> Self:
        """Open the catalog at ``path``, or make it; never fails.

        A file that cannot be used is removed, anything else in its place is moved aside. Where that
        does not help, and where another process keeps the file locked, the catalog is in memory.

        Args:
            path: the file, 0600; its folder is made, 0700. None keeps the catalog in memory.
            mac_key: 32 secret bytes of the vault; in a vault without encryption, any.
            vault_id: whose catalog it is.
            problem: hears in one line what was wrong; nobody needs to act on it.
            wait_s: seconds to wait for another process, here and in every later call.
        """
        keys = _Keys(*(_derive(mac_key, vault_id, use) for use in _Keys._fields))
        if path is None:
            return cls(_in_memory(), keys=keys, path=None, inode=None, problem=problem)
        for _ in range(_ATTEMPTS):
            seen = _inode(path)
            try:
                db = _open_file(path, keys, vault_id, wait_s)
            except (OSError, sqlite3.Error, _UnusableError) as error:
                _tell(problem, f"the catalog {path} cannot be used ({error})")
                if not _is_to_blame(error) or not _clear(path, seen):
                    break
            else:
                return cls(db, keys=keys, path=path, inode=_inode(path), problem=problem)
        _tell(problem, f"the catalog {path} cannot be made anew; this run keeps its own in memory")
        return cls(_in_memory(), keys=keys, path=None, inode=None, problem=problem)

    @property
    def in_memory(self) -> bool:
        """Whether what is added is gone after this run."""
        return self._path is None

    # Content of small files

    @property
    def is_empty(self) -> bool:
        """Whether no digest is known; asking for one is then in vain."""
        return not self._read("SELECT 1 FROM digests LIMIT 1")

    def find_digest(self, digest: ContentDigest) -> Extent | None:
        """Where a file of this content lies. The caller checks that the chunk exists; 8 µs."""
        try:
            row = self._db.execute(_FIND, (digest,)).fetchone()
        except sqlite3.DatabaseError as error:
            self._failed(error)
            return None
        return None if row is None else self._believed(digest, row[0])

    def find_digests(self, digests: Iterable[ContentDigest]) -> dict[ContentDigest, Extent]:
        """Of many contents, where those lie that are known; 5 µs each."""
        found: dict[ContentDigest, Extent] = {}
        rest = iter(digests)
        while some := list(islice(rest, _ASK_AT_ONCE)):
            marks = ",".join("?" * len(some))
            query = f"SELECT digest, place FROM digests WHERE digest IN ({marks})"  # noqa: S608 - marks only
            for digest, place in self._read(query, some):
                extent = self._believed(digest, place)
                if extent is not None:
                    found[digest] = extent
        return found

    def add_digests(self, rows: Iterable[tuple[ContentDigest, Extent]]) -> None:
        """Remember where contents lie, in one transaction; what was known of them is replaced.

        Holes, and extents beyond 4 GiB, which no chunk has, are left out.
        """
        key, pack = self._keys.digests, _DIGEST_AND_PLACE.pack
        packed = [
            pack(digest, chunk, offset, length)
            for digest, (chunk, offset, length) in rows
            if chunk is not None and offset <= _PLACE_LIMIT and length <= _PLACE_LIMIT
        ]
        packed.sort()  # a B-tree takes rows in order a page at a time
        sealed = [row + blake3(row, key=key).digest(_MAC_SIZE) for row in packed]

        def add(db: sqlite3.Connection) -> None:
            for first in range(0, len(sealed), _ADD_AT_ONCE):
                db.execute(_ADD_PACKED, (b"".join(sealed[first : first + _ADD_AT_ONCE]),))

        if sealed:
            self._transact(add)

    def _believed(self, digest: object, place: object) -> Extent | None:
        if not isinstance(digest, bytes) or not isinstance(place, bytes) or len(place) != _ROW_SIZE:
            return None
        where = place[:-_MAC_SIZE]
        if blake3(digest + where, key=self._keys.digests).digest(_MAC_SIZE) != place[-_MAC_SIZE:]:
            return None
        chunk, offset, length = _PLACE.unpack(where)
        return Extent(ChunkId(chunk), offset, length)

    # Blobs

    def add_chunks(self, rows: Iterable[tuple[ChunkId, int]]) -> None:
        """Remember the sizes of blobs, in bytes as stored."""
        self._write("INSERT OR REPLACE INTO chunks VALUES (?, ?)", rows)

    def chunk_size(self, chunk: ChunkId) -> int | None:
        """A blob's size as it was when it was made durable, None where it is not known; 5 µs."""
        rows = self._read("SELECT stored_size FROM chunks WHERE id = ?", (chunk,))
        size: object = rows[0][0] if rows else None
        return size if isinstance(size, int) and size >= 0 else None

    def chunk_sizes(self) -> Iterator[list[tuple[ChunkId, int]]]:
        """All sizes of blobs, in pages, in order of id; hints only.

        Nothing stays locked between pages; rows added meanwhile may or may not appear.
        """
        last = b""
        query = f"SELECT id, stored_size FROM chunks WHERE id > ? ORDER BY id LIMIT {_PAGE}"  # noqa: S608 - a constant
        while rows := self._read(query, (last,)):
            yield [row for row in rows if _is_chunk_size(*row)]
            highest = rows[-1][0]
            if not isinstance(highest, bytes) or highest <= last:
                break  # only a damaged file is out of order; it must not make this endless
            last = highest

    def forget_chunks(self, ids: Iterable[ChunkId]) -> None:
        """Forget blobs and all contents said to lie in them; reads through all digests."""
        gone = [(chunk,) for chunk in ids]

        def forget(db: sqlite3.Connection) -> None:
            db.execute("CREATE TEMP TABLE IF NOT EXISTS gone (id BLOB PRIMARY KEY) WITHOUT ROWID")
            db.execute("DELETE FROM temp.gone")
            db.executemany("INSERT OR IGNORE INTO temp.gone VALUES (?)", gone)
            db.execute("DELETE FROM chunks WHERE id IN (SELECT id FROM temp.gone)")
            db.execute(
                f"DELETE FROM digests WHERE substr(place, 1, {ID_SIZE}) IN"  # noqa: S608 - a constant
                " (SELECT id FROM temp.gone)"
            )

        if gone:
            self._transact(forget)

    # Snapshots

    def snapshot_sealed(self, snapshot: SnapshotId) -> bytes | None:
        """A snapshot record as it is stored in the vault, None where it is not known."""
        query = "SELECT sealed, mac FROM snapshots WHERE id = ?"
        return self._authentic(self._keys.snapshots, snapshot, self._read(query, (snapshot,)))

    def add_snapshot(self, snapshot: SnapshotId, sealed: bytes) -> None:
        """Remember a snapshot record as it is stored in the vault."""
        row = (snapshot, sealed, _mac(self._keys.snapshots, snapshot, sealed))
        self._write("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", [row])

    def drop_snapshots_except(self, ids: Collection[SnapshotId]) -> None:
        """Forget all snapshot records but these."""
        kept = set(ids)
        known = self._read("SELECT id FROM snapshots")
        gone = [row for row in known if row[0] not in kept]
        if gone:
            self._write("DELETE FROM snapshots WHERE id = ?", gone)

    # Notes

    def meta_get(self, key: str) -> bytes | None:
        """A note that an earlier run left, None where there is none."""
        query = "SELECT value, mac FROM notes WHERE key = ?"
        return self._authentic(self._keys.notes, key.encode(), self._read(query, (key,)))

    def meta_set(self, key: str, value: bytes) -> None:
        """Leave a note for later runs; it may be lost."""
        row = (key, value, _mac(self._keys.notes, key.encode(), value))
        self._write("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", [row])

    def close(self) -> None:
        """Release the file; may be called twice."""
        with suppress(sqlite3.Error):
            self._db.close()

    # The one place where SQLite is asked, and the one where its failures end

    def _read(self, query: str, values: Collection[object] = ()) -> list[_Row]:
        """All rows at once, so that no lock outlives the call."""
        try:
            return self._db.execute(query, tuple(values)).fetchall()
        except sqlite3.DatabaseError as error:
            self._failed(error)
            return []

    def _write(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._transact(lambda db: db.executemany(statement, rows))

    def _transact(self, action: Callable[[sqlite3.Connection], object]) -> None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            action(db)
            db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._failed(error)
        finally:
            if db is self._db and db.in_transaction:
                with suppress(sqlite3.DatabaseError):
                    db.execute("ROLLBACK")

    def _failed(self, error: sqlite3.DatabaseError) -> None:
        """Give up the operation; where the file is to blame, the file too."""
        if isinstance(error, sqlite3.ProgrammingError):
            raise error
        if _is_passing(error):
            _tell(self._problem, f"the catalog could not be used ({error}); trying goes on")
            return
        _tell(self._problem, f"the catalog is damaged ({error}); it is made anew next time")
        self.close()
        if self._path is not None:
            _clear(self._path, self._inode)
        self._db, self._path = _in_memory(), None

    @staticmethod
    def _authentic(key: bytes, name: bytes, rows: list[_Row]) -> bytes | None:
        for value, mac in rows:
            if isinstance(value, bytes) and _mac(key, name, value) == mac:
                return value
        return None


def _tell(problem: Callable[[str], None] | None, message: str) -> None:
    if problem is not None:
        problem(message)


def _derive(mac_key: bytes, vault_id: bytes, use: str) -> bytes:
    """A key of its own for each table of each vault, so that no row passes for another's."""
    return blake3(f"chunkvault catalog v1 {use}\0".encode() + vault_id, key=mac_key).digest()


def _mac(key: bytes, name: bytes, value: bytes) -> bytes:
    size = len(name).to_bytes(8, "little")
    return blake3(size, key=key).update(name).update(value).digest(_MAC_SIZE)


def _is_chunk_size(chunk: object, size: object) -> bool:
    return (
        isinstance(chunk, bytes) and len(chunk) == ID_SIZE and isinstance(size, int) and size >= 0
    )


def _is_passing(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in _PASSING  # the low byte is the kind of error


def _is_to_blame(error: Exception) -> bool:
    """Whether taking the file away may help."""
    if isinstance(error, OSError):  # others, such as too many open files, lie elsewhere
        return isinstance(error, PermissionError | FileNotFoundError)
    return not _is_passing(error)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _in_memory() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for table in _TABLES:
        db.execute(table)
    return db


def _open_file(path: Path, keys: _Keys, vault_id: bytes, wait_s: float) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _make_private(path)
    # mode=rw: SQLite itself makes no file, or its rights would depend on the umask.
    db = sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?mode=rw",
        timeout=wait_s,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    try:
        _prepare(db, keys, vault_id)
    except BaseException:
        with closing(db):
            raise
    return db


def _make_private(path: Path) -> None:
    """See to it that there is a regular file that only its owner can read.

    SQLite gives its side files the rights of the main one. No descriptor of an existing file is
    opened and closed: that would drop the locks this process holds on it (POSIX).
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _UnusableError("it is no file") from None
        if status.st_mode & 0o777 != 0o600:
            path.chmod(0o600)
    else:
        try:
            os.fchmod(fd, 0o600)
        finally:
            os.close(fd)


def _prepare(db: sqlite3.Connection, keys: _Keys, vault_id: bytes) -> None:
    """Make the tables where there are none; refuse others' tables.

    Raises:
        _UnusableError: not a catalog of this version and this vault.
        sqlite3.Error: not a database, damaged, or locked.
    """
    # A file is not to be trusted: no functions in its schema, no cell beyond its page.
    for setting in ("trusted_schema=OFF", "cell_size_check=ON", "synchronous=OFF"):
        db.execute(f"PRAGMA {setting}")
    db.execute("PRAGMA temp_store=MEMORY")
    owner = (_OWNER_NOTE, vault_id, _mac(keys.notes, _OWNER_NOTE.encode(), vault_id))
    if not _schema(db)[1]:
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not _is_passing(error):  # another process is at it this very moment
                raise
        db.execute("BEGIN IMMEDIATE")
        if not _schema(db)[1]:
            for table in _TABLES:
                db.execute(table)
            db.execute("INSERT INTO notes VALUES (?, ?, ?)", owner)
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        db.execute("COMMIT")
    if _schema(db) != (SCHEMA_VERSION, _TABLES):
        raise _UnusableError("another version made it")
    if db.execute("SELECT * FROM notes WHERE key = ?", owner[:1]).fetchone() != owner:
        raise _UnusableError("it is another vault's")


def _schema(db: sqlite3.Connection) -> tuple[int, tuple[str, ...]]:
    """The version, and all that was ever created, triggers and views too."""
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
    version = db.execute("PRAGMA user_version").fetchone()[0]
    return version, tuple(row[0] for row in db.execute(query).fetchall())


def _clear(path: Path, expected: tuple[int, int] | None) -> bool:
    """Take away an unusable catalog; False where that cannot be done.

    Only what was looked at: another process may have made a good one in its place meanwhile.
    """
    if _inode(path) != expected:
        return True
    try:
        for suffix in _SIDECARS:
            _take_away(path.with_name(path.name + suffix))
    except OSError:
        return False
    return True


def _take_away(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        path.unlink(missing_ok=True)
        return
    # Somebody's folder, or a device: not ours to delete.
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.aside-{number}")):
        number += 1
    path.rename(aside)
