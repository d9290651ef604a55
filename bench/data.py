"""Seeded data: the same seed gives the same bytes, names, modes and times on every machine.

What lives here: the makers of the data sets and the change between two backups. What may not: the
clock or any other source of randomness. Only ``random()`` and ``randbytes()`` are drawn on; Python
keeps their sequences stable between versions, those of ``choice`` and ``shuffle`` not.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from bench.attic import Attic

DATA_VERSION: Final = 1
"""Goes up whenever a maker below gives other bytes for the same seed."""

MIB: Final = 1 << 20
_TABLE: Final = 1 << 16  # one 16-bit draw is one word or phrase
_VOCABULARY: Final = 20_000
_PHRASE_SHARE: Final = 0.15  # brings zstd level 3 to about 3:1, as real prose does
_EPOCH_NS: Final = 1_600_000_000 * 10**9
_YEAR_NS: Final = 365 * 86_400 * 10**9
_ONSETS: Final = "ttttnnnnsssshhhrrrrddddlllcccmmmffppggwwbbvvk"
_VOWELS: Final = "eeeeeeaaaaiiioooouu"
_MODES: Final = (0o644, 0o644, 0o644, 0o600, 0o640, 0o755)


@dataclass(frozen=True)
class SmallFiles:
    """A tree of many small files, two levels of folders deep.

    Attributes:
        files: how many, half of them text, half incompressible.
        tops: folders on the first level.
        subs: folders in each of them.
    """

    files: int
    tops: int
    subs: int


@dataclass(frozen=True)
class LargeFiles:
    """Two large files, one random and one of text, of ``size`` bytes each."""

    size: int


@dataclass(frozen=True)
class TinyFiles:
    """``folders`` times ``per_folder`` files of 16 bytes, no two alike."""

    folders: int
    per_folder: int


Shape = SmallFiles | LargeFiles | TinyFiles


class TextSource:
    """An endless stream of words that compresses like prose and never repeats at length.

    Word frequencies follow Zipf's law (G. K. Zipf, Human Behavior and the Principle of Least
    Effort, 1949): the n-th word is drawn in proportion to 1/n. A share of the draws are short
    phrases, which stand for the order real sentences have.
    """

    def __init__(self, seed: str) -> None:
        self._random = _seeded(f"{seed}/draws")
        self._table = _word_table(_seeded(f"{seed}/words"))

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes of text; costs about 10 ns a byte."""
        parts: list[bytes] = []
        missing = size
        while missing > 0:
            draws = array("H", self._random.randbytes(2 * (missing // 6 + 16)))
            part = b"".join(map(self._table.__getitem__, draws))[:missing]
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def make(shape: Shape, folder: Path, seed: int) -> None:
    """Write the data set below ``folder``, an empty folder or none yet."""
    folder.mkdir(parents=True, exist_ok=True)
    label = f"{seed}/{DATA_VERSION}"
    match shape:
        case SmallFiles():
            _make_small(shape, folder, label)
        case LargeFiles():
            _make_large(shape, folder, label)
        case TinyFiles():
            _make_tiny(shape, folder)


def make_once(shape: Shape, folder: Path, seed: int, attic: Attic) -> None:
    """Like `make`, but keep what an earlier run finished with the same shape and seed."""
    stamp = folder.with_name(folder.name + ".json")
    facts = json.dumps({"version": DATA_VERSION, "seed": seed, **asdict(shape)}, sort_keys=True)
    if stamp.exists() and stamp.read_text() == facts and folder.exists():
        return
    stamp.unlink(missing_ok=True)
    make(shape, attic.renew(folder), seed)
    stamp.write_text(facts)  # last, so that a half-made data set is made again


def change_some(folder: Path, *, seed: int, turn: int, every: int = 100) -> int:
    """Give one file in ``every`` new content of the same size and kind; returns how many.

    The modification time becomes the present, as after an edit.
    """
    random = _seeded(f"{seed}/change/{turn}")
    text = TextSource(f"{seed}/change/{turn}")
    paths = sorted(path for path in _files(folder))
    count = max(1, len(paths) // every)
    for path in _draw(random, paths, count):
        take = text.take if path.suffix == ".txt" else random.randbytes
        with path.open("r+b") as file:
            file.write(take(path.stat().st_size))
    return count


def read_all(folder: Path) -> int:
    """Read every file, so that the page cache holds it; returns the bytes read."""
    total = 0
    buffer = bytearray(MIB)
    for path in _files(folder):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
    return total


def pick_one(folder: Path, *, seed: int) -> Path:
    """One file of the tree, relative to ``folder``: of about 4 KB, the same for the same seed."""
    near = sorted(path for path in _files(folder) if 3_500 <= path.stat().st_size <= 4_700)
    return next(_draw(_seeded(f"{seed}/pick"), near, 1)).relative_to(folder)


def _seeded(label: str) -> Random:
    return Random(label)  # noqa: S311 - made-up data has to come out the same again


def _files(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield Path(base, name)


def _draw(random: Random, items: list[Path], count: int) -> Iterator[Path]:
    """``count`` different items; the list is used up on the way."""
    for _ in range(count):
        place = int(random.random() * len(items))
        items[place], items[-1] = items[-1], items[place]
        yield items.pop()


def _make_small(shape: SmallFiles, folder: Path, label: str) -> None:
    random = _seeded(f"{label}/small")
    text = TextSource(f"{label}/small")
    folders = [
        folder / f"top{top:02}" / f"sub{sub:02}"
        for top in range(shape.tops)
        for sub in range(shape.subs)
    ]
    for path in folders:
        path.mkdir(parents=True)
    for number in range(shape.files):
        size = _small_size(random)
        is_text = random.random() < 0.5
        content = text.take(size) if is_text else random.randbytes(size)
        suffix = "txt" if is_text else "bin"
        path = folders[number % len(folders)] / f"file{number:06}.{suffix}"
        _write(path, content, random)


def _small_size(random: Random) -> int:
    """Log-normal around 4 KB, kept within 1 and 8 KB."""
    # Box and Muller's transform by hand: random.gauss is not promised to be stable.
    angle, radius = random.random(), random.random()
    normal = math.cos(2 * math.pi * angle) * math.sqrt(-2 * math.log(1 - radius))
    return max(1024, min(8192, int(4000 * math.exp(0.45 * normal))))


def _write(path: Path, content: bytes, random: Random) -> None:
    path.write_bytes(content)
    path.chmod(_MODES[int(random.random() * len(_MODES))])
    time_ns = _EPOCH_NS + int(random.random() * 3 * _YEAR_NS)
    os.utime(path, ns=(time_ns, time_ns))


def _make_large(shape: LargeFiles, folder: Path, label: str) -> None:
    noise = _seeded(f"{label}/large/noise")
    text = TextSource(f"{label}/large")
    _write_pieces(folder / "random.bin", shape.size, noise.randbytes)
    _write_pieces(folder / "text.txt", shape.size, text.take)


def _write_pieces(path: Path, size: int, take: Callable[[int], bytes]) -> None:
    with path.open("wb", buffering=0) as file:
        for start in range(0, size, 4 * MIB):
            file.write(take(min(4 * MIB, size - start)))


def _make_tiny(shape: TinyFiles, folder: Path) -> None:
    """Descriptors and bare system calls: a million pathlib writes would take minutes."""
    for number in range(shape.folders):
        path = folder / f"folder{number:04}"
        path.mkdir()
        base = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _fill_tiny(base, number, shape.per_folder)
        finally:
            os.close(base)


def _fill_tiny(base: int, folder: int, count: int) -> None:
    for number in range(count):
        name = f"file{number:04}"
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=base)
        os.write(handle, f"{folder:07}-{number:07}\n".encode())
        os.close(handle)


def _word_table(random: Random) -> list[bytes]:
    """65,536 words and phrases, each with what follows it, as often as Zipf's law wants them."""
    words = list(islice(_new_words(random), _VOCABULARY))
    share = _TABLE * (1 - _PHRASE_SHARE) / sum(1 / rank for rank in range(1, len(words) + 1))
    table: list[bytes] = []
    for rank, word in enumerate(words, start=1):
        wanted = share / rank
        table += [word] * (int(wanted) + (random.random() < wanted % 1))
    singles = len(table)
    room = _TABLE - singles
    rank = 0
    while len(table) < _TABLE:
        rank += 1
        length = 2 + int(random.random() * 3)
        phrase = b" ".join(table[int(random.random() * singles)] for _ in range(length))
        table += [phrase] * max(1, room // (8 * rank))
    return [entry + _separator(random.random()) for entry in table[:_TABLE]]


def _new_words(random: Random) -> Iterator[bytes]:
    """Made-up words, none twice; the early, frequent ones are short."""
    seen: set[str] = set()
    while True:
        syllables = 1 + int(random.random() * 2 + len(seen) ** 0.25 / 6)
        word = "".join(_syllable(random) for _ in range(syllables))
        if word not in seen:
            seen.add(word)
            yield word.encode()


def _syllable(random: Random) -> str:
    onset = _letter(random, _ONSETS) if random.random() < 0.85 else ""
    vowel = _letter(random, _VOWELS)
    coda = _letter(random, _ONSETS) if random.random() < 0.4 else ""
    return onset + vowel + coda


def _letter(random: Random, letters: str) -> str:
    return letters[int(random.random() * len(letters))]


def _separator(draw: float) -> bytes:
    if draw < 0.82:
        return b" "
    if draw < 0.89:
        return b", "
    return b". " if draw < 0.94 else b"\n"
