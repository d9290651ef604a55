"""The table: ratios, targets, and losses shown as losses."""

from __future__ import annotations

from typing import Any

from bench.items import LOCAL
from bench.judge import rows, span, value
from bench.measure import Sample
from bench.record import FORMAT, Recorder
from bench.report import table


def _sample(seconds: float, failed: str | None = None) -> Sample:
    return Sample(seconds, seconds, 0.0, 50_000_000, failed)


def _results(own: list[Sample], rival: list[Sample], key: str = "small.first") -> dict[str, Any]:
    facts: dict[str, Any] = {
        "data": {"small": "S", "large": "L", "million": "M"},
        "machine": {
            "cores": 2, "processor": "P", "memory_bytes": 1 << 34, "kernel": "K",
            "file_system": "ext4",
        },
        "date": "2026-01-01",
        "rounds": 3,
        "quick": False,
        "versions": {"chunkvault": "chunkvault 1", "restic": "restic 1"},
    }  # fmt: skip
    recorder = Recorder(LOCAL, {key}, facts)
    for tool, samples in (("chunkvault", own), ("restic", rival)):
        for sample in samples:
            recorder.add(key, tool, "command", sample)
    return {**facts, "format": FORMAT, "items": recorder.item_facts()}


def test_the_median_counts() -> None:
    """The ratio is one of medians, so that one slow sample moves nothing."""
    row = rows(_results([_sample(1), _sample(9), _sample(1)], [_sample(4), _sample(4)]))[0]
    assert row.ratio == 0.25
    assert row.met is True


def test_a_loss_is_shown_in_bold() -> None:
    """A missed target stands in the table as a bold no."""
    text = table(_results([_sample(3)], [_sample(4)]))
    assert "0.75 \u00d7 | **no** |" in text


def test_a_failed_sample_spoils_the_target() -> None:
    """A fast sample that restored wrong bytes is left out of the median and misses the target."""
    row = rows(_results([_sample(1), _sample(0.1, "other bytes")], [_sample(4)]))[0]
    assert row.own == 1
    assert row.met is False


def test_a_failed_rival_is_not_a_rival() -> None:
    """Without a good sample of any rival a ratio is neither met nor missed."""
    row = rows(_results([_sample(1)], [_sample(0.1, "exit code 1")]))[0]
    assert row.ratio is None
    assert row.met is None


def test_an_absolute_target_needs_no_rival() -> None:
    """Memory and start-up time are judged on their own."""
    assert rows(_results([_sample(0.149)], [], "version"))[0].met is True
    assert rows(_results([_sample(0.151)], [], "version"))[0].met is False


def test_a_quick_run_says_so() -> None:
    """Figures from little data never pass for real ones."""
    results = _results([_sample(1)], [_sample(4)])
    assert "quick run" in table({**results, "quick": True})
    assert "quick run" not in table(results)


def test_figures_have_sensible_digits() -> None:
    """Times have three digits, sizes four, and extremes share the median's unit."""
    assert value(0.15, "seconds") == "150 ms"
    assert value(300e6, "peak_rss") == "300 MB"
    assert span(0.9, 1.234, 2, "seconds") == "1.23 s (0.90 to 2.00)"
    assert span(1e9, 1e9, 1e9, "bytes") == "1 GB"
