"""Bundles of small files: where they end."""

from __future__ import annotations

import random

import pytest

from chunkvault.chunking.bundle import Bundler
from chunkvault.chunking.cdc import ChunkerParams
from chunkvault.ids import ContentDigest

PARAMS = ChunkerParams(256, 1024, 4096)
LOW, HIGH = ContentDigest(bytes(32)), ContentDigest(b"\xff" * 32)


def test_offsets_are_where_contents_begin() -> None:
    """What add returns is where take has the content."""
    bundler = Bundler(PARAMS)
    assert [bundler.add(content, HIGH) for content in (b"abc", b"", b"de")] == [0, 3, 3]
    assert bundler.take() == b"abcde"
    assert bundler.add(b"f", HIGH) == 0


def test_nothing_added_is_an_empty_bundle() -> None:
    """The caller, who knows whether it added, may take at any time."""
    assert Bundler(PARAMS).take() == b""


def test_no_bundle_ends_below_the_minimum() -> None:
    """Even a digest that ends every bundle does not end a small one."""
    bundler = Bundler(PARAMS)
    bundler.add(bytes(PARAMS.min_size - 1), LOW)
    assert not bundler.full
    bundler.add(b"x", LOW)
    assert bundler.full


def test_a_bundle_ends_before_it_is_too_large() -> None:
    """Even digests that end no bundle do not let one grow beyond the maximum."""
    bundler = Bundler(PARAMS)
    while not bundler.full:
        bundler.add(bytes(PARAMS.min_size - 1), HIGH)
    size = len(bundler.take())
    assert PARAMS.max_size - 2 * PARAMS.min_size < size <= PARAMS.max_size


def test_the_next_bundle_begins_anew() -> None:
    """After take nothing of the old bundle counts."""
    bundler = Bundler(PARAMS)
    bundler.add(bytes(255), LOW)
    bundler.add(bytes(255), LOW)
    assert (bundler.full, len(bundler.take())) == (True, 510)
    assert (bundler.full, bundler.size) == (False, 0)


def test_a_bundle_never_exceeds_the_maximum_whatever_the_caller_does() -> None:
    """A chunk that no reader would accept is refused, and what was in the bundle stays."""
    bundler = Bundler(PARAMS)
    bundler.add(bytes(PARAMS.max_size - 1), HIGH)
    with pytest.raises(ValueError, match="full"):
        bundler.add(b"xx", HIGH)
    assert bundler.size == PARAMS.max_size - 1
    assert bundler.take() == bytes(PARAMS.max_size - 1)


@pytest.mark.parametrize(("low", "high"), [(1, 40), (100, 101), (1, 255)])
def test_bundles_are_of_the_average_size(low: int, high: int) -> None:
    """The mean of many bundles is the target, within the size of a file and 5 %."""
    source = random.Random(5)  # noqa: S311
    bundler = Bundler(PARAMS)
    sizes: list[int] = []
    while len(sizes) < 2000:
        digest = ContentDigest(source.randbytes(32))
        bundler.add(bytes(source.randrange(low, high)), digest)
        if bundler.full:
            sizes.append(len(bundler.take()))
    mean = sum(sizes) / len(sizes)
    assert abs(mean - PARAMS.avg_size) < (low + high) / 2 + 0.05 * PARAMS.avg_size


def test_an_average_equal_to_the_minimum_ends_every_bundle_there() -> None:
    """Parameters at their bounds make bundles too."""
    bundler = Bundler(ChunkerParams(256, 256, 1024))
    bundler.add(bytes(200), HIGH)
    bundler.add(bytes(56), HIGH)
    assert bundler.full
