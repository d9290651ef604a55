"""The chart for the docs: one small panel per piece of work, one bar per tool.

What lives here: drawing with matplotlib, which nothing else here needs: it is loaded when a chart
is asked for, and its types stay unknown to the type checker. What may not: judging, which is
``judge``'s.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

from bench import BenchError
from bench.judge import OWN, Row, rows, value

_COLOURS: Final = {OWN: "#1f6f8b", "restic": "#c9a66b", "borg": "#a3b18a"}
_OTHER: Final = "#bbbbbb"
_INK: Final = "#222222"
_SOFT: Final = "#666666"
_COLUMNS: Final = 2
_STYLE: Final = {
    "font.size": 9.0,
    "svg.fonttype": "none",  # text stays text: searchable, and small
    "svg.hashsalt": "chunkvault",  # the same file for the same figures
}


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the chart as SVG: what more than one tool was timed at.

    Raises:
        BenchError: matplotlib is not installed.
    """
    try:
        mpl = importlib.import_module("matplotlib")
        figure = importlib.import_module("matplotlib.figure")
    except ModuleNotFoundError as error:
        raise BenchError(f"the chart needs {error.name}: pip install matplotlib") from error
    shown = [row for row in rows(results) if row.metric == "seconds" and len(row.figures) > 1]
    height = (len(shown) + _COLUMNS - 1) // _COLUMNS
    with mpl.rc_context(_STYLE):
        canvas = figure.Figure(figsize=(9, 0.6 + 1.25 * max(1, height)), layout="constrained")
        canvas.set_facecolor("white")
        canvas.suptitle(_title(results), fontsize=10, color=_INK)
        panels = canvas.subplots(max(1, height), _COLUMNS, squeeze=False)
        for number, axes in enumerate(panels.flat):
            if number < len(shown):
                _panel(axes, shown[number], list(results["versions"]))
            else:
                axes.set_axis_off()
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, format="svg", metadata={"Date": None})


def _title(results: dict[str, Any]) -> str:
    text = f"Median of {results['rounds']}, shorter is better; the line is what was asked"
    return f"QUICK RUN, NO MEANING. {text}" if results["quick"] else text


def _panel(axes: Any, row: Row, tools: list[str]) -> None:  # noqa: ANN401 - matplotlib's
    names = [tool for tool in tools if tool in row.figures]
    medians = [row.figures[tool].median or 0.0 for tool in names]
    places = list(range(len(names)))
    axes.barh(places, medians, color=[_COLOURS.get(tool, _OTHER) for tool in names], height=0.7)
    axes.set_yticks(places, names, color=_INK)
    axes.invert_yaxis()
    axes.set_title(row.title, loc="left", fontsize=9, color=_INK)
    axes.set_xlim(0, (max(medians) or 1.0) * 1.22)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color(_SOFT)
    for place, tool, median in zip(places, names, medians, strict=True):
        label = value(median, row.metric) if row.figures[tool].median else "failed"
        axes.annotate(
            label, (median, place), xytext=(4, 0), textcoords="offset points", va="center",
            color=_INK, zorder=3, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    _asked_line(axes, row)


def _asked_line(axes: Any, row: Row) -> None:  # noqa: ANN401 - matplotlib's
    """Where chunkvault's bar should end at the latest."""
    if row.asked is None or OWN not in row.figures:
        return
    kind, most = row.asked
    limit = most * row.best_rival if kind == "ratio" and row.best_rival else None
    limit = most if kind == "absolute" else limit
    if limit is not None:
        own = list(row.figures).index(OWN)
        axes.plot([limit, limit], [own - 0.5, own + 0.5], color=_INK, linewidth=1.5)
