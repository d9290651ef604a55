"""The inventory: a set of ids with sizes, in little memory."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkvault.ids import ChunkId
from chunkvault.vault import inventory
from chunkvault.vault.inventory import Inventory

if TYPE_CHECKING:
    from collections.abc import Iterator

# Few distinct ids, many of them neighbours, so that steps meet the same ones again.
IDS = st.builds(
    lambda first, second, last: ChunkId(bytes((first, second)) + bytes(29) + bytes((last,))),
    st.sampled_from([0, 1, 255]),
    st.sampled_from([0, 1, 254, 255]),
    st.integers(0, 5),
)
ROWS = st.lists(st.tuples(IDS, st.integers(0, 2**63)))
STEPS = st.lists(st.tuples(st.booleans(), IDS, st.integers(0, 2**40)))


def made_id(number: int) -> ChunkId:
    return ChunkId(random.Random(number).randbytes(32))  # noqa: S311


@given(st.lists(ROWS), STEPS, st.integers(0, 3))
def test_it_is_what_a_dict_would_be(
    pages: list[list[tuple[ChunkId, int]]], steps: list[tuple[bool, ChunkId, int]], loose: int
) -> None:
    """Whatever is listed, added and discarded, all answers are those of a dict."""
    expected = {chunk: size for page in pages for chunk, size in page}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inventory, "_LOOSE", loose)
        found = Inventory.from_pages(pages)
        for is_added, chunk, size in steps:
            if is_added:
                expected[chunk] = size
                found.add(chunk, size)
            else:
                expected.pop(chunk, None)
                found.discard(chunk)
            assert found.size_of(chunk) == expected.get(chunk)
    assert dict(found.items()) == expected
    assert len(found) == len(expected) == len(list(found.items()))
    for chunk in [*expected, made_id(1), ChunkId(bytes(32)), ChunkId(b"\xff" * 32)]:
        assert found.size_of(chunk) == expected.get(chunk)
        assert (chunk in found) == (chunk in expected)


def test_an_id_across_two_ids_is_not_found() -> None:
    """Bytes that happen to lie across the border of two ids are no id."""
    one, two = ChunkId(b"ab" + b"ab" * 15), ChunkId(b"ab" + b"ab" * 14 + b"zz")
    across = ChunkId((one + two)[2:34])
    found = Inventory.from_pages([[(one, 1), (two, 2)]])
    assert across == one
    hidden = ChunkId((two + two)[30:62])
    assert found.size_of(one) == 1
    assert found.size_of(two) == 2
    assert found.size_of(hidden) is None
    neighbours = [ChunkId(b"aa" + bytes(28) + b"aa"), ChunkId(b"aa" + bytes(27) + b"\1aa")]
    crossing = ChunkId((neighbours[0] + neighbours[1])[30:62])
    assert crossing[:2] == b"aa"
    assert Inventory.from_pages([[(chunk, 0) for chunk in neighbours]]).size_of(crossing) is None


@pytest.mark.parametrize("chunk", [b"", b"short", bytes(33)])
def test_an_id_of_another_length_is_refused(chunk: bytes) -> None:
    """It would shift all ids behind it."""
    with pytest.raises(ValueError, match="32"):
        Inventory.from_pages([[(chunk, 1)]])
    with pytest.raises(ValueError, match="32"):
        Inventory().add(ChunkId(chunk), 1)


def test_many_ids_take_little_memory() -> None:
    """100,000 ids take below 6 MB, while a dict of them takes 15."""

    def pages() -> Iterator[list[tuple[bytes, int]]]:
        source = random.Random(3)  # noqa: S311
        for _ in range(100):
            yield [(source.randbytes(32), 1) for _ in range(1000)]

    tracemalloc.start()
    try:
        found = Inventory.from_pages(pages())
        used, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 100_000
    assert used < 6_000_000
    assert peak < 12_000_000


def test_recent_ids_are_packed_in_time() -> None:
    """A long backup's new ids do not stay in a dict."""
    found = Inventory()
    for number in range(inventory._LOOSE + 1):
        found.add(made_id(number), number)
    assert not found._recent
    assert len(found) == inventory._LOOSE + 1
    assert found.size_of(made_id(77)) == 77
