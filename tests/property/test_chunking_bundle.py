"""Bundles of small files: what holds for every sequence of files."""

from __future__ import annotations

import random

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from chunkvault.chunking.bundle import Bundler
from chunkvault.chunking.cdc import ChunkerParams
from chunkvault.ids import ContentDigest

PARAMS = ChunkerParams(256, 1024, 4096)
FILES = st.builds(
    lambda number, count, largest: [
        random.Random(f"{number} {n}").randbytes(1 + number * (n + 7) % largest)  # noqa: S311
        for n in range(count)
    ],
    st.integers(1, 2**32),
    st.integers(0, 400),
    st.integers(1, PARAMS.min_size - 1),
)


def bundle(files: list[bytes]) -> list[bytes]:
    """All bundles, the last one ended by hand; checks where each file is in them."""
    bundler = Bundler(PARAMS)
    bundles: list[bytes] = []
    places: list[tuple[int, int]] = []
    for content in files:
        places.append((len(bundles), bundler.add(content, ContentDigest(blake3(content).digest()))))
        if bundler.full:
            bundles.append(bundler.take())
    bundles.append(bundler.take())
    for content, (number, offset) in zip(files, places, strict=True):
        assert bundles[number][offset : offset + len(content)] == content
    return bundles


@given(FILES)
def test_bundles_hold_all_files_within_bounds(files: list[bytes]) -> None:
    """Joined, bundles are the files in order, and each is at its offset; only the last is small."""
    bundles = bundle(files)
    assert b"".join(bundles) == b"".join(files)
    assert all(PARAMS.min_size <= len(one) <= PARAMS.max_size for one in bundles[:-1])
    assert len(bundles[-1]) <= PARAMS.max_size


@given(FILES)
def test_bundles_depend_on_files_only(files: list[bytes]) -> None:
    """Two machines with the same files make the same bundles."""
    assert bundle(files) == bundle(list(files))


@given(st.integers(0, 2**32), st.integers(0, 199), st.booleans())
def test_bundles_synchronise_again(number: int, at: int, insert: bool) -> None:
    """A file that comes or goes changes bundles near it; those before and well behind stay."""
    source = random.Random(number)  # noqa: S311
    files = [source.randbytes(source.randrange(1, 100)) for _ in range(1200)]
    edited = files[:at] + ([b"new"] if insert else []) + files[at + (not insert) :]
    old, new = bundle(files), bundle(edited)
    # The edit is among the first sixth; half of the bundles at the end are a wide margin.
    half = len(old) // 2
    assert old[-half:] == new[-half:]
    untouched = sum(map(len, files[:at])) // PARAMS.max_size - 1
    assert untouched <= 0 or old[:untouched] == new[:untouched]
