"""What is measured, and what chunkvault was asked to reach.

What lives here: the list, as data. How each item comes about is in ``local``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Metric = Literal["seconds", "peak_rss", "bytes"]


@dataclass(frozen=True)
class Asked:
    """A target.

    Attributes:
        kind: ``ratio``: at most ``value`` times the best rival's median; ``absolute``: at most
            ``value`` seconds or bytes.
    """

    kind: Literal["ratio", "absolute"]
    value: float


@dataclass(frozen=True)
class Item:
    """One row of the table; ``title`` may name the size of the data set as ``{files}``."""

    key: str
    title: str
    metric: Metric
    asked: Asked | None = None


def _ratio(value: float) -> Asked:
    return Asked("ratio", value)


def _absolute(value: float) -> Asked:
    return Asked("absolute", value)


LOCAL: Final = (
    Item("small.first", "first backup, {small}", "seconds", _ratio(0.5)),
    Item("large.first", "first backup, {large}", "seconds", _ratio(0.65)),
    Item("small.unchanged", "unchanged second run, {small}", "seconds", _ratio(0.35)),
    Item("small.changed", "second run, 1 % changed, {small}", "seconds"),
    Item("small.restore", "restore of {small}", "seconds", _ratio(0.45)),
    Item("large.restore", "restore of {large}", "seconds", _ratio(0.75)),
    Item("small.restore-one", "restore of one 4 KB file from {small}", "seconds", _ratio(0.5)),
    Item("small.size", "vault size, {small}", "bytes", _ratio(1.03)),
    Item("large.size", "vault size, {large}", "bytes", _ratio(1.03)),
    Item("large.memory", "peak memory, first backup of {large}", "peak_rss", _absolute(300e6)),
    Item("million.first", "first backup, {million}", "seconds"),
    Item("million.unchanged", "unchanged run, {million}", "seconds"),
    Item(
        "million.memory", "peak memory, unchanged run over {million}", "peak_rss", _absolute(300e6)
    ),
    Item("version", "print the version", "seconds", _absolute(0.150)),
)
"""The rows of the local bench, in the order of its table."""
