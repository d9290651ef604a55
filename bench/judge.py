"""What a result file says: figures, the ratio to the better rival, the target met or not.

What lives here: reading and judging, from the file alone. What may not: a figure that is not in
the file, and any presentation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import BenchError
from bench.record import FORMAT

OWN: Final = "chunkvault"


@dataclass(frozen=True)
class Figure:
    """One tool's result for one item.

    Attributes:
        median: seconds or bytes; None if no sample was good.
        low: the least of the good samples.
        high: the greatest.
        failed: how many samples do not count.
    """

    median: float | None
    low: float | None
    high: float | None
    failed: int


@dataclass(frozen=True)
class Row:
    """One item, judged.

    Attributes:
        key: of the item.
        title: in words.
        metric: ``seconds``, ``peak_rss`` or ``bytes``.
        asked: ``ratio`` or ``absolute`` and the most that is allowed; None if nothing was asked.
        figures: by tool.
    """

    key: str
    title: str
    metric: str
    asked: tuple[str, float] | None
    figures: dict[str, Figure]

    @property
    def best_rival(self) -> float | None:
        """The least median of the others."""
        medians = [
            figure.median
            for tool, figure in self.figures.items()
            if tool != OWN and figure.median is not None
        ]
        return min(medians, default=None)

    @property
    def own(self) -> float | None:
        """chunkvault's median."""
        figure = self.figures.get(OWN)
        return figure.median if figure else None

    @property
    def ratio(self) -> float | None:
        """chunkvault's median over the best rival's."""
        if self.own is None or not self.best_rival:
            return None
        return self.own / self.best_rival

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is no target or nothing to judge by."""
        if self.asked is None or OWN not in self.figures:
            return None
        if self.figures[OWN].failed or self.own is None:
            return False
        kind, most = self.asked
        value = self.ratio if kind == "ratio" else self.own
        return None if value is None else value <= most


def load(path: Path) -> dict[str, Any]:
    """A result file.

    Raises:
        BenchError: it cannot be read, or is none.
    """
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BenchError(f"cannot read {path}: {error}") from error
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise BenchError(f"{path} is not a result file of format {FORMAT}; run bench/run.py again")
    return results


def rows(results: dict[str, Any]) -> list[Row]:
    """The items of a result file in their order."""
    return [
        Row(
            key=key,
            title=item["title"],
            metric=item["metric"],
            asked=(item["asked"]["kind"], item["asked"]["value"]) if item["asked"] else None,
            figures={
                tool: Figure(facts["median"], facts["min"], facts["max"], facts["failed"])
                for tool, facts in item["tools"].items()
            },
        )
        for key, item in results["items"].items()
    ]


def value(amount: float, metric: str) -> str:
    """A figure with its unit: three digits of a time, four of a size."""
    number, unit = _scaled(amount, amount, metric)
    return f"{number} {unit}"


def span(low: float, middle: float, high: float, metric: str) -> str:
    """A median and its extremes, all in the median's unit."""
    number, unit = _scaled(middle, middle, metric)
    if low == high:
        return f"{number} {unit}"
    return (
        f"{number} {unit} ({_scaled(low, middle, metric)[0]} to {_scaled(high, middle, metric)[0]})"
    )


def _scaled(amount: float, like: float, metric: str) -> tuple[str, str]:
    """``amount`` in the unit that suits ``like``."""
    if metric == "seconds":
        return (f"{amount * 1e3:.0f}", "ms") if like < 1 else (f"{amount:.2f}", "s")
    return (f"{amount / 1e9:.4g}", "GB") if like >= 1e9 else (f"{amount / 1e6:.4g}", "MB")
