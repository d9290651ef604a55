"""Cuts large files at places that their content chooses.

What lives here: FastCDC and the buffers it works in. What may not: any I/O, and any knowledge of
what becomes of a chunk.

The algorithm is FastCDC with normalised chunking level 1 (Xia et al., "The Design of Fast
Content-Defined Chunking for Data Deduplication Based Storage Systems", IEEE TPDS 31(9), 2020), as
the package pyfastcdc implements it. A cut depends on the bytes since the cut before it, on the
parameters and on the seed, and on nothing else.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from chunkvault.errors import UsageError

with warnings.catch_warnings():
    # Without its compiled half the package warns on import; here callers ask `is_compiled`.
    warnings.simplefilter("ignore")
    from pyfastcdc import FastCDC

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

Buffer: TypeAlias = bytes | bytearray | memoryview

KIB: Final = 1 << 10
MIB: Final = 1 << 20
SEED_LIMIT: Final = 1 << 63
"""Seeds are below this; the library doubles them within 64 bits."""

_READ_SIZE: Final = MIB
"""Large enough that a call costs nothing, small enough that the piece is still in the CPU's cache
when it is copied into place."""
_BUFFER_CHUNKS: Final = 4
"""A buffer's size in chunks of the largest size. The unfinished chunk at a buffer's end is moved
and looked at again: about 4 % of the work at 4, 8 % at 2."""
_BUFFERS: Final = 4
"""Buffers that chunks may stay in; beyond them, chunks are copied out of one more."""


@dataclass(frozen=True, slots=True)
class ChunkerParams:
    """Sizes of chunks in bytes; they are settled when a vault is made.

    Attributes:
        min_size: no chunk is smaller, except a file's last one; even, 64 bytes to 1 MiB.
        avg_size: the target, 256 bytes to 4 MiB. FastCDC's mean lies about a fifth above it.
        max_size: no chunk is larger; 1 KiB to 16 MiB, at least twice ``min_size``.
    """

    min_size: int = 256 * KIB
    avg_size: int = MIB
    max_size: int = 4 * MIB

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            UsageError: sizes out of bounds or out of order.
        """
        _check("minimum", self.min_size, 64, MIB)
        _check("average", self.avg_size, 256, 4 * MIB)
        _check("maximum", self.max_size, KIB, 16 * MIB)
        if self.min_size % 2:
            raise UsageError(f"the minimum chunk size {self.min_size} is odd; give an even number")
        if not self.min_size <= self.avg_size <= self.max_size or self.max_size < 2 * self.min_size:
            sizes = f"{self.min_size}, {self.avg_size}, {self.max_size}"
            raise UsageError(
                f"chunk sizes {sizes} do not fit together: "
                "give minimum <= average <= maximum, and a maximum of at least twice the minimum"
            )


def _check(what: str, size: int, low: int, high: int) -> None:
    if not low <= size <= high:
        raise UsageError(f"the {what} chunk size {size} is not between {low} and {high} bytes")


def is_compiled() -> bool:
    """Whether cutting runs in compiled code; the pure Python one is some 500 times slower."""
    return FastCDC.__module__ == "pyfastcdc.cy.fastcdc"


class Chunker:
    """Cuts one file after the other; one for each thread, for it is not thread-safe.

    Args:
        params: sizes of chunks.
        seed: moves the cuts, so that they do not tell what is cut; 0 to 2**63 - 1.
    """

    def __init__(self, params: ChunkerParams, seed: int = 0) -> None:
        if not 0 <= seed < SEED_LIMIT:
            raise ValueError("a chunker's seed is at least 0 and below 2**63")
        self.params = params
        self._fastcdc = FastCDC(
            params.avg_size,
            min_size=params.min_size,
            max_size=params.max_size,
            normalized_chunking=1,
            seed=seed,
        )
        self._buffers = _Buffers(_BUFFER_CHUNKS * params.max_size, _BUFFERS)
        # What the last file left of its buffer, so that a file of one chunk takes no whole one.
        self._rest: memoryview | None = None

    def split(self, read: Callable[[int], Buffer]) -> Iterator[Buffer]:
        """The chunks of what ``read`` gives; joined, they are the input. No input, no chunk.

        A chunk is the caller's to keep and to hand to another thread; it does not change when the
        next one is asked for. Some are read-only views into a buffer that they keep alive.
        Memory stays below 20 times ``max_size``, apart from chunks the caller holds on to.

        Args:
            read: ``read(n)`` returns 1 to n bytes, none at the end. What it raises passes through.
        """
        space, lent = self._space()
        held = 0
        while True:
            held, ended = _fill(space, held, read)
            cut = yield from self._cut(space[:held].toreadonly(), ended=ended, lent=lent)
            if ended:
                break
            # The last chunk may go on: it moves to the front of a buffer with room for more.
            unfinished = space[cut:held]
            held -= cut
            if not lent:
                self._buffers.give_back(space)
            space, lent = self._buffers.take()
            space[:held] = unfinished
            del unfinished  # or its buffer would look taken
        if lent:
            self._rest = space[held:]
        else:
            self._buffers.give_back(space)

    def _space(self) -> tuple[memoryview, bool]:
        rest, self._rest = self._rest, None
        if rest is not None and len(rest) >= self.params.max_size:
            return rest, True
        del rest
        return self._buffers.take()

    # A generator of its own, so that no local of it outlives the buffer it was about.
    def _cut(self, data: memoryview, *, ended: bool, lent: bool) -> Generator[Buffer, None, int]:
        """Yield the finished chunks of ``data``; return how many bytes they are."""
        done, size, longest = 0, len(data), self.params.max_size
        for chunk in self._fastcdc.cut_buf(data):
            length = chunk.length
            # A cut before the end of the data holds whatever comes after.
            if done + length == size and length < longest and not ended:
                break
            done += length
            yield chunk.data if lent else bytes(chunk.data)
        return done


def _fill(space: memoryview, held: int, read: Callable[[int], Buffer]) -> tuple[int, bool]:
    """Read behind the first ``held`` bytes until the space is full or the input has ended."""
    size = len(space)
    while held < size:
        piece = read(min(_READ_SIZE, size - held))
        length = len(piece)
        if not length:
            return held, True
        space[held : held + length] = piece
        held += length
    return held, False


class _Buffers:
    """A few large buffers, each used again once nobody holds a view into it.

    Fresh memory can cost more than the cutting: the kernel clears each page first. And chunks that
    come from malloc and are freed by other threads leave it in pieces.
    """

    def __init__(self, size: int, count: int) -> None:
        self._size = size
        self._count = count
        self._all: list[bytearray] = []
        self._scratch: memoryview | None = None

    def take(self) -> tuple[memoryview, bool]:
        """A buffer, and whether views into it may be given away.

        Where all are taken, it is one whose content must be copied out, and which is given back.
        """
        for buffer in self._all:
            if _is_free(buffer):
                return memoryview(buffer)[: self._size], True
        if len(self._all) < self._count:
            self._all.append(bytearray(self._size + 1))
            return memoryview(self._all[-1])[: self._size], True
        scratch, self._scratch = self._scratch, None
        return scratch or memoryview(bytearray(self._size)), False

    def give_back(self, scratch: memoryview) -> None:
        """Take back a buffer that no views were given into; it may be taken again at once."""
        self._scratch = scratch


def _is_free(buffer: bytearray) -> bool:
    """Whether no view into the buffer is left: Python refuses to resize a bytearray that has one.

    The byte taken off and put back is a spare one at the end. Neither step moves the buffer.
    """
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
