"""Cutting large files: what holds for every content, every seed and every way of reading."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from chunkvault.chunking.cdc import Chunker, ChunkerParams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARAMS = ChunkerParams(64, 256, 1024)
SEEDS = st.integers(0, 2**63 - 1)
BUFFER = 4 * PARAMS.max_size
CONTENTS = st.builds(
    lambda number, size, repeat: random.Random(number).randbytes(size) * repeat,  # noqa: S311
    st.integers(0, 2**32),
    st.sampled_from([0, 1, 63, 64, 65, 1023, 1024, 1025, BUFFER - 1, BUFFER, BUFFER + 1, 9000]),
    st.integers(1, 3),
)


def reader(data: bytes, sizes: Iterator[int] | None = None) -> Callable[[int], bytes]:
    """Give out ``data`` in pieces of the given sizes, or as large as asked for."""
    position = 0

    def read(limit: int) -> bytes:
        nonlocal position
        size = limit if sizes is None else min(limit, next(sizes, limit))
        piece = data[position : position + size]
        position += len(piece)
        return piece

    return read


def cut(data: bytes, seed: int = 0) -> list[bytes]:
    return [bytes(chunk) for chunk in Chunker(PARAMS, seed).split(reader(data))]


@given(CONTENTS, SEEDS)
def test_chunks_joined_are_the_input(data: bytes, seed: int) -> None:
    """Nothing is lost, doubled or moved, and no chunk is empty or outside its bounds."""
    chunks = cut(data, seed)
    assert b"".join(chunks) == data
    assert all(PARAMS.min_size <= len(chunk) <= PARAMS.max_size for chunk in chunks[:-1])
    assert all(1 <= len(chunk) <= PARAMS.max_size for chunk in chunks)


@given(CONTENTS, SEEDS, st.lists(st.integers(1, 3000), max_size=200))
def test_cuts_do_not_depend_on_read_sizes(data: bytes, seed: int, sizes: list[int]) -> None:
    """A slow pipe and a fast disk give the same chunks."""
    chunks = [bytes(c) for c in Chunker(PARAMS, seed).split(reader(data, iter(sizes)))]
    assert chunks == cut(data, seed)


@given(st.lists(CONTENTS, max_size=8), SEEDS)
def test_cuts_do_not_depend_on_what_was_cut_before(files: list[bytes], seed: int) -> None:
    """One chunker for many files cuts each as if it were the only one, and no chunk changes later,
    whether it is kept or given up."""
    chunker = Chunker(PARAMS, seed)
    kept = [list(chunker.split(reader(data))) for data in files]
    again = [[bytes(chunk) for chunk in chunker.split(reader(data))] for data in files]
    assert again == [cut(data, seed) for data in files]
    assert [[bytes(chunk) for chunk in chunks] for chunks in kept] == again


@given(
    st.integers(0, 2**32),
    SEEDS,
    st.integers(0, 30_000),
    st.integers(0, 40),
    st.binary(max_size=40),
)
def test_cuts_synchronise_again_after_an_edit(
    number: int, seed: int, at: int, removed: int, inserted: bytes
) -> None:
    """An edit changes chunks near it; those before it and those well behind it stay."""
    data = random.Random(number).randbytes(60_000)  # noqa: S311
    edited = data[:at] + inserted + data[at + removed :]
    old, new = cut(data, seed), cut(edited, seed)
    before = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
    assert sum(map(len, old[:before])) > at - 2 * PARAMS.max_size
    behind = 0
    for a, b in zip(reversed(old), reversed(new), strict=False):
        if a != b:
            break
        behind += len(a)
    # Each chunk has its chance of meeting a cut of the other side's; 30,000 bytes hold some 90.
    assert behind > 8_000


@given(CONTENTS.filter(lambda data: len(data) > 20 * 256), st.integers(1, 2**63 - 1))
def test_another_seed_cuts_elsewhere(data: bytes, seed: int) -> None:
    """Who does not know the seed does not know the cuts."""
    assert cut(data, seed) != cut(data, seed ^ (1 << 40))
