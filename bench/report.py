#!/usr/bin/env python3
"""A result file as a Markdown table, and as a chart on request.

What lives here: the table and the command line, ``bench/report.py RESULTS.json [--chart
docs/benchmarks.svg]``. What may not: judging, which is ``judge``'s. Losses stand in the table like
gains.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import BenchError
from bench.chart import draw
from bench.judge import OWN, Figure, Row, load, rows, span, value

_NOTHING: Final = "\u2013"
_TIMES: Final = "\u00d7"


def table(results: dict[str, Any]) -> str:
    """The Markdown table, with what is needed to judge it above."""
    tools = list(results["versions"])
    rivals = [tool for tool in tools if tool != OWN]
    head = ["work", "asked", *tools, "ratio to the better rival", "met?"]
    lines = [_line(head), _line(["---", "---", *["---:"] * len(tools), "---:", "---"])]
    lines += [_line(_cells(row, tools, rivals)) for row in rows(results)]
    return "\n".join([*_preface(results), "", *lines])


def _preface(results: dict[str, Any]) -> list[str]:
    facts = results["machine"]
    lines = [
        f"{facts['cores']} cores ({facts['processor']}), "
        f"{facts['memory_bytes'] / (1 << 30):.0f} GiB of memory, {facts['kernel']}, "
        f"{facts['file_system']}; {results['date']}. Medians of {results['rounds']}, least and "
        "greatest in brackets. " + "; ".join(results["versions"].values()) + "."
    ]
    if cost := results.get("file_creation_us"):
        lines[0] += f" Creating an empty file took {cost['before']:.0f} us before the run"
        lines[0] += f" and {cost['after']:.0f} us after it." if "after" in cost else "."
    if results["quick"]:
        lines.insert(0, "**A quick run on little data: these figures say nothing about speed.**\n")
    return lines


def _cells(row: Row, tools: list[str], rivals: list[str]) -> list[str]:
    ratio = _NOTHING if row.ratio is None or not rivals else f"{row.ratio:.2f} {_TIMES}"
    met = {None: _NOTHING, True: "yes", False: "**no**"}[row.met]
    cells = [_figure(row.figures.get(tool), row.metric) for tool in tools]
    return [row.title, _asked(row), *cells, ratio, met]


def _asked(row: Row) -> str:
    if row.asked is None:
        return _NOTHING
    kind, most = row.asked
    return f"≤ {most:g} {_TIMES}" if kind == "ratio" else f"≤ {value(most, row.metric)}"


def _figure(figure: Figure | None, metric: str) -> str:
    if figure is None:
        return _NOTHING
    if figure.median is None or figure.low is None or figure.high is None:
        return f"{figure.failed} failed"
    text = span(figure.low, figure.median, figure.high, metric)
    return f"{text}, {figure.failed} failed" if figure.failed else text


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main(argv: list[str] | None = None) -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="bench/report.py", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="needs matplotlib")
    options = parser.parse_args(argv)
    try:
        results = load(options.results)
        print(table(results))
        if options.chart:
            draw(results, options.chart)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
