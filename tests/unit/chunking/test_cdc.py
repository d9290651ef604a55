"""Cutting large files: parameters, buffers, and cuts that are part of the format."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyfastcdc.py import FastCDC as PythonFastCDC

from chunkvault.chunking import cdc
from chunkvault.chunking.cdc import Chunker, ChunkerParams, is_compiled
from chunkvault.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = ChunkerParams(64, 256, 1024)


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)  # noqa: S311


def reader(data: bytes) -> Callable[[int], bytes]:
    position = 0

    def read(limit: int) -> bytes:
        nonlocal position
        piece = data[position : position + limit]
        position += len(piece)
        return piece

    return read


def test_no_input_gives_no_chunk() -> None:
    """An empty file has no chunks, not an empty one."""
    assert list(Chunker(SMALL).split(reader(b""))) == []


def test_defaults_are_those_of_the_design() -> None:
    """256 KiB, 1 MiB, 4 MiB."""
    params = ChunkerParams()
    assert (params.min_size, params.avg_size, params.max_size) == (1 << 18, 1 << 20, 1 << 22)


@pytest.mark.parametrize(
    ("low", "middle", "high"),
    [
        (62, 256, 1024),
        (64, 254, 1024),
        (64, 256, 1022),
        (65, 256, 1024),
        (512, 256, 1024),
        (64, 2048, 1024),
        (768, 1024, 1024),
        (1 << 21, 1 << 22, 1 << 24),
        (64, 1 << 23, 1 << 24),
        (64, 256, 1 << 25),
        (0, 0, 0),
        (-64, 256, 1024),
    ],
)
def test_sizes_that_make_no_sense_are_refused(low: int, middle: int, high: int) -> None:
    """Sizes out of bounds or order are an error on one line, before anything is cut."""
    with pytest.raises(UsageError) as caught:
        ChunkerParams(low, middle, high)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", [-1, 1 << 63])
def test_seeds_the_library_cannot_take_are_refused(seed: int) -> None:
    """The seed is in 63 bits."""
    with pytest.raises(ValueError, match="seed"):
        Chunker(SMALL, seed)


def test_the_compiled_library_is_used_here() -> None:
    """Tests and benchmarks run on the fast half of the library."""
    assert is_compiled()


def test_the_slow_library_is_noticed_quietly() -> None:
    """Where only the pure Python half is installed, callers can tell, and nothing is printed."""
    code = (
        "import sys; sys.modules['pyfastcdc.cy'] = None; "
        "from chunkvault.chunking.cdc import is_compiled; print(is_compiled())"
    )
    done = subprocess.run(  # noqa: S603 - a fixed command
        [sys.executable, "-W", "error", "-c", code],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize("seed", [0, 12345, (1 << 63) - 1])
def test_both_halves_of_the_library_cut_alike(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A machine without the compiled half makes the same chunks."""
    data = noise(100_000)
    fast = [bytes(chunk) for chunk in Chunker(SMALL, seed).split(reader(data))]
    monkeypatch.setattr(cdc, "FastCDC", PythonFastCDC)
    slow = [bytes(chunk) for chunk in Chunker(SMALL, seed).split(reader(data))]
    assert slow == fast


@pytest.mark.parametrize(
    ("params", "seed", "expected"),
    [
        (SMALL, 0, [386, 403, 439, 377, 449, 469, 342, 135]),
        (SMALL, 0x0123456789ABCDEF, [423, 270, 308, 371, 384, 344, 517, 383]),
        (ChunkerParams(), 0x0123456789ABCDEF, [821238, 823551, 746396, 1503061, 970292, 1135462]),
    ],
)
def test_cuts_never_change(params: ChunkerParams, seed: int, expected: list[int]) -> None:
    """A new version of the library that cuts elsewhere would store every vault's files again."""
    data = noise(6_000_000 if params.max_size > 1024 else 3000)
    assert [len(chunk) for chunk in Chunker(params, seed).split(reader(data))] == expected


def test_a_kept_chunk_stays_as_it_is() -> None:
    """Chunks that wait in other threads are not overwritten, however many are kept."""
    data = noise(40 * SMALL.max_size)
    chunks = list(Chunker(SMALL).split(reader(data)))
    assert b"".join(chunks) == data


def test_a_chunk_cannot_be_written_to() -> None:
    """What is handed to several threads is read-only."""
    for chunk in Chunker(SMALL).split(reader(noise(5000))):
        assert memoryview(chunk).readonly


def test_memory_is_bounded_when_every_chunk_is_kept() -> None:
    """Beyond its few buffers a chunker copies chunks out, so that one kept chunk keeps no more."""
    chunker = Chunker(SMALL)
    kept = list(chunker.split(reader(noise(100 * SMALL.max_size))))
    assert {type(chunk) for chunk in kept[-20:]} == {bytes}
    lent = {id(chunk.obj) for chunk in kept if isinstance(chunk, memoryview)}
    assert len(lent) == 4


def test_buffers_are_used_again() -> None:
    """A chunker whose chunks are given up does its work in two buffers, over many files."""
    chunker = Chunker(SMALL)
    owners = set()
    for _ in range(20):
        for chunk in chunker.split(reader(noise(10 * SMALL.max_size))):
            assert isinstance(chunk, memoryview)
            owners.add(id(chunk.obj))
    assert len(owners) <= 3


def test_small_files_share_a_buffer() -> None:
    """Many files of one chunk each, all kept, do not take a buffer each."""
    chunker = Chunker(SMALL)
    kept = [list(chunker.split(reader(noise(100)))) for _ in range(60)]
    lent = {id(chunk.obj) for chunks in kept for chunk in chunks if isinstance(chunk, memoryview)}
    assert len(lent) <= 3
    assert all(b"".join(chunks) == noise(100) for chunks in kept)


def test_a_file_given_up_half_way_leaves_no_trace() -> None:
    """After an error of the reader the next file is cut as ever, and earlier chunks stay."""
    chunker = Chunker(SMALL)
    data = noise(10 * SMALL.max_size)
    calls = iter([data[: 5 * SMALL.max_size]])

    def failing(limit: int) -> bytes:
        piece = next(calls, b"")[:limit]
        if not piece:
            raise OSError("gone")
        return piece

    kept: list[memoryview | bytes | bytearray] = []
    with pytest.raises(OSError, match="gone"):
        kept.extend(chunker.split(failing))
    first = next(iter(chunker.split(reader(data))))
    assert b"".join(chunker.split(reader(data))) == data
    assert data.startswith(bytes(first))


@pytest.mark.parametrize("kept_before", [0, 40])
def test_two_files_at_once_do_not_mix(kept_before: int) -> None:
    """A generator that is left standing while another file is cut keeps its own buffer."""
    chunker = Chunker(SMALL)
    kept = list(chunker.split(reader(noise(kept_before * SMALL.max_size))))
    one, two = noise(9000), noise(9000)[::-1]
    first, second = chunker.split(reader(one)), chunker.split(reader(two))
    chunks: tuple[list[bytes], list[bytes]] = ([], [])
    for _ in range(200):
        chunks[0].extend(bytes(chunk) for chunk in [next(first, b"")])
        chunks[1].extend(bytes(chunk) for chunk in [next(second, b"")])
    assert b"".join(chunks[0]) == one
    assert b"".join(chunks[1]) == two
    assert b"".join(kept) == noise(kept_before * SMALL.max_size)
