#!/usr/bin/env python3
"""The bench's command line: ``bench/run.py local --out bench/results/local.json``.

What lives here: arguments in, a bench put together, an exit code out (0 done, 1 something failed,
2 usage, 130 interrupted). Needs nothing but Python and the tools under comparison.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import BenchError
from bench.attic import Attic
from bench.data import DATA_VERSION
from bench.find import faster_borg_encryption, find_tools
from bench.items import LOCAL
from bench.local import FULL, QUICK, Bench, run_local
from bench.measure import output_of
from bench.record import Recorder, machine
from bench.tools import TOOLS, Settings, Tool

SEED: Final = 20_240_229
_MARKER: Final = ".chunkvault-bench"


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(argv)
    try:
        failures = _local(options)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bench: {error.strerror}: {error.filename or options.work}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; finished rounds are in the result file", file=sys.stderr)
        return 130
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def _local(options: argparse.Namespace) -> list[str]:
    wanted = _wanted(options.only, million=options.million)
    settings = Settings(
        programs={name: getattr(options, name) for name in TOOLS if getattr(options, name)},
        borg_encryption=options.borg_encryption or faster_borg_encryption(),
    )
    work = _work_folder(options.work)
    tools = find_tools(options.tools, settings, work)
    sizes = QUICK if options.quick else FULL
    facts: dict[str, Any] = {
        "bench": "local",
        "date": datetime.now(UTC).date().isoformat(),
        "quick": options.quick,
        "seed": SEED,
        "data_version": DATA_VERSION,
        "rounds": options.runs,
        "data": sizes.titles(),
        "machine": machine(work),
        "versions": {tool.name: _version(tool, work) for tool in tools},
        "settings": {tool.name: tool.settings for tool in tools},
    }
    recorder = Recorder(LOCAL, wanted, facts)
    save = _Saver(recorder, options.out)
    attic = Attic(work / "attic")
    run_local(Bench(work, tools, attic, sizes, SEED, options.runs, recorder, save))
    save()
    print(f"results are in {options.out}", file=sys.stderr)
    return recorder.failures


class _Saver:
    """Writes the result file, after every round: a stopped run leaves its samples."""

    def __init__(self, recorder: Recorder, path: Path) -> None:
        self._recorder = recorder
        self._path = path

    def __call__(self) -> None:
        self._recorder.write(self._path)


def _version(tool: Tool, work: Path) -> str:
    tool.home.reset()
    return output_of(tool.version(), work).splitlines()[0]


def _wanted(only: set[str] | None, *, million: bool) -> set[str]:
    """The keys to record: those named, or all, the million files only on request."""
    if only is not None:
        return only
    return {item.key for item in LOCAL if million or not item.key.startswith("million.")}


def _work_folder(path: Path) -> Path:
    """The work folder, marked as ours: what lies in it gets deleted.

    Raises:
        BenchError: it holds something else.
    """
    path = path.absolute()
    marker = path / _MARKER
    if path.exists() and not marker.exists() and any(path.iterdir()):
        raise BenchError(f"{path} holds other things; choose an empty or new folder with --work")
    path.mkdir(parents=True, exist_ok=True)
    marker.touch()
    (path / "data").mkdir(exist_ok=True)
    return path.resolve()


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("expected names, separated by commas")
    return names


def _items(text: str) -> set[str]:
    """Keys of items; a bare ``small`` stands for all of ``small....``."""
    keys = [item.key for item in LOCAL]
    wanted: set[str] = set()
    for name in _names(text):
        chosen = {key for key in keys if key == name or key.startswith(f"{name}.")}
        if not chosen:
            raise argparse.ArgumentTypeError(f"no item {name!r}; there are {', '.join(keys)}")
        wanted |= chosen
    return wanted


def _tools(text: str) -> list[str]:
    names = _names(text)
    for name in names:
        if name not in TOOLS:
            raise argparse.ArgumentTypeError(f"no tool {name!r}; there are {', '.join(TOOLS)}")
    return names


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("expected a number of rounds, at least 1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    commands = parser.add_subparsers(dest="bench", required=True)
    local = commands.add_parser("local", help="backup and restore with a vault on the local disk")
    add = local.add_argument
    add("--out", type=Path, required=True, help="result file (JSON)")
    add("--work", type=Path, default=Path(tempfile.gettempdir()) / "chunkvault-bench",
        help="folder for data, vaults and restores; data is kept for the next run")  # fmt: skip
    add("--runs", type=_rounds, default=5, help="rounds (default 5)")
    add("--quick", action="store_true", help="small data: shows that the bench works, no more")
    add("--million", action="store_true", help="also the unchanged run over a million files")
    add("--only", type=_items, metavar="ITEM,…", help="items, or data sets (small, large, …)")
    add("--tools", type=_tools, default=list(TOOLS), metavar="TOOL,…", help="tools to compare")
    for name in TOOLS:
        add(f"--{name}", metavar="PATH", help=f"the {name} program")
    add("--borg-encryption", choices=("repokey", "repokey-blake2"),
        help="default: what is faster on this processor")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
