"""The local bench: which command is run when, on which data.

What lives here: the order of things. In every round all tools take their turn at one step before
any of them goes on to the next, and the order of the tools rotates from round to round. What may
not: command lines (``tools``), figures (``measure``), data (``data``).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import BenchError, data
from bench.attic import Attic
from bench.compare import compare_single, compare_trees
from bench.data import LargeFiles, SmallFiles, TinyFiles
from bench.measure import Command, Sample, run, run_untimed
from bench.record import Recorder
from bench.tools import Tool

_WARM_MEMORY: Final = 8 << 30
_SETTLED_US: Final = 60.0
_SETTLE_SECONDS: Final = 30
_SETTLE_TRIES: Final = 15


@dataclass(frozen=True)
class Sizes:
    """How large the data sets are.

    Attributes:
        small: the tree of small files.
        large: the two large files.
        million: the tree for the memory of an unchanged run.
        disk: bytes the work folder must have free.
        turn_disk: and on top for every tool in every round, whose restores are kept to the end.
        million_disk: and on top for million.
    """

    small: SmallFiles
    large: LargeFiles
    million: TinyFiles
    disk: int
    turn_disk: int
    million_disk: int

    def titles(self) -> dict[str, str]:
        """The data sets in words."""
        return {
            "small": f"{self.small.files:,} files of about 4 KB",
            "large": f"{_binary(2 * self.large.size)} (half random, half text)",
            "million": f"{self.million.folders * self.million.per_folder:,} files",
        }


FULL: Final = Sizes(
    small=SmallFiles(files=50_000, tops=20, subs=25),
    large=LargeFiles(size=1 << 30),
    million=TinyFiles(folders=1000, per_folder=1000),
    disk=10 << 30,
    turn_disk=700 << 20,
    million_disk=6 << 30,
)
QUICK: Final = Sizes(
    small=SmallFiles(files=2_000, tops=4, subs=5),
    large=LargeFiles(size=32 << 20),
    million=TinyFiles(folders=20, per_folder=1000),
    disk=1 << 30,
    turn_disk=50 << 20,
    million_disk=1 << 30,
)


@dataclass(frozen=True)
class Bench:
    """One run of the bench.

    Attributes:
        work: the folder everything happens in.
        tools: in the order of the first round.
        attic: where finished trees go.
        sizes: of the data.
        seed: of the data.
        rounds: how often every tool takes its turn.
        recorder: where samples go.
        save: writes down what there is so far; called after every round.
    """

    work: Path
    tools: list[Tool]
    attic: Attic
    sizes: Sizes
    seed: int
    rounds: int
    recorder: Recorder
    save: Callable[[], None]

    def wants(self, *keys: str) -> bool:
        """Whether any of these items was asked for."""
        return any(key in self.recorder.wanted for key in keys)

    def wants_set(self, name: str) -> bool:
        """Whether any item on this data set was asked for."""
        return any(key.startswith(f"{name}.") for key in self.recorder.wanted)

    def turns(self) -> Iterator[list[Tool]]:
        """The order of the tools, round by round."""
        for turn in range(self.rounds):
            start = turn % len(self.tools)
            yield self.tools[start:] + self.tools[:start]

    def timed(self, key: str, tool: Tool, command: Command) -> Sample:
        """Run a command and record it under ``key``."""
        sample = run(command, self.work)
        self.recorder.add(key, tool.name, command.shown(self.work), sample)
        return sample


def run_local(bench: Bench) -> None:
    """All that was asked for, data set by data set.

    Raises:
        BenchError: the bench itself cannot go on. A tool that fails is recorded as that.
    """
    _require_space(bench)
    _settle(bench)
    _warm_up(bench)
    if bench.wants("version"):
        _versions(bench)
    if bench.wants_set("small"):
        _small(bench)
    if bench.wants_set("large"):
        _large(bench)
    if bench.wants_set("million"):
        _million(bench)
    after = bench.attic.creation_cost()
    bench.recorder.facts["file_creation_us"]["after"] = round(after, 1)
    _note("deleting what is no longer needed")
    for name in ("tools", "restored"):
        bench.attic.take(bench.work / name)
    bench.attic.clear()


def _require_space(bench: Bench) -> None:
    """Restores of small files are kept to the end, so rounds cost space and inodes."""
    sizes, turns = bench.sizes, bench.rounds * len(bench.tools)
    many = bench.wants_set("million")
    needed = sizes.disk + sizes.turn_disk * turns + sizes.million_disk * many
    files = sizes.small.files * (3 + 2 * turns)
    files += sizes.million.folders * sizes.million.per_folder * many
    state = os.statvfs(bench.work)
    free = state.f_bavail * state.f_frsize
    if free < needed:
        raise BenchError(
            f"{bench.work} has {_binary(free)} free and {_binary(needed)} are needed: "
            "choose another folder with --work, or fewer --runs"
        )
    if state.f_files and state.f_favail < files:  # 0 where inodes are made as needed
        raise BenchError(
            f"{bench.work} has room for {state.f_favail:,} files and {files:,} are needed: "
            "choose another folder with --work, or fewer --runs"
        )


def _settle(bench: Bench) -> None:
    """Wait until earlier deletions no longer slow down the creation of files; see ``attic``."""
    cost = bench.attic.creation_cost()
    if bench.sizes is FULL:
        for _ in range(_SETTLE_TRIES):
            if cost < _SETTLED_US:
                break
            _note(f"a new file takes {cost:.0f} us: waiting for earlier deletions to age")
            time.sleep(_SETTLE_SECONDS)
            cost = bench.attic.creation_cost()
    bench.recorder.facts["file_creation_us"] = {"before": round(cost, 1)}


def _warm_up(bench: Bench) -> None:
    """One untimed turn per tool, and memory touched once.

    A fresh virtual machine is given its memory at first touch, which is slow, and whoever came
    first would pay for it.
    """
    _note("warming up")
    if bench.sizes is FULL:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        size = min(_WARM_MEMORY, free // 2)
        subprocess.run([sys.executable, "-c", f"b'x' * {size}"], check=False)  # noqa: S603
    source = bench.work / "data" / "warm"
    data.make(SmallFiles(files=500, tops=2, subs=5), bench.attic.renew(source), bench.seed)
    for tool in bench.tools:
        tool.home.reset()
        run_untimed(tool.init(), bench.work)
        for _ in range(2):
            run_untimed(tool.backup(source), bench.work)
        target = bench.attic.renew(bench.work / "restored")
        run_untimed(tool.restore_all(source, target), bench.work)


def _versions(bench: Bench) -> None:
    for tools in bench.turns():
        for tool in tools:
            bench.timed("version", tool, tool.version())
    bench.save()


def _small(bench: Bench) -> None:
    source = bench.work / "data" / "small"
    _note("making small files")
    data.make(
        bench.sizes.small, bench.attic.renew(source), bench.seed
    )  # afresh: every round changes some
    file = source / data.pick_one(source, seed=bench.seed)
    for turn, tools in enumerate(bench.turns(), start=1):
        _note(f"small files, round {turn} of {bench.rounds}")
        _first(bench, tools, source, "small")
        if bench.wants("small.unchanged"):
            for tool in tools:
                bench.timed("small.unchanged", tool, tool.backup(source))
        if bench.wants("small.first", "small.unchanged", "small.restore"):
            _restore_all(bench, tools, source, "small")
        if bench.wants("small.restore-one"):
            _restore_one(bench, tools, file)
        if bench.wants("small.changed"):
            data.change_some(source, seed=bench.seed, turn=turn)
            _changed(bench, tools, source)
        bench.save()


def _large(bench: Bench) -> None:
    source = bench.work / "data" / "large"
    _note("making large files")
    data.make_once(bench.sizes.large, source, bench.seed, bench.attic)
    for turn, tools in enumerate(bench.turns(), start=1):
        _note(f"large files, round {turn} of {bench.rounds}")
        _first(bench, tools, source, "large")
        if bench.wants("large.first", "large.restore"):
            _restore_all(bench, tools, source, "large")
        bench.save()


def _million(bench: Bench) -> None:
    """Once, and chunkvault only: it is about memory, and making room for rivals takes an hour."""
    own = [tool for tool in bench.tools if tool.name == "chunkvault"]
    source = bench.work / "data" / "million"
    if own:
        _note("making many tiny files")
        data.make_once(bench.sizes.million, source, bench.seed, bench.attic)
    for tool in own:
        tool.home.reset()
        run_untimed(tool.init(), bench.work)
        bench.timed("million.first", tool, tool.backup(source))
        command = tool.backup(source)
        sample = bench.timed("million.unchanged", tool, command)
        bench.recorder.add("million.memory", tool.name, command.shown(bench.work), sample)
    bench.save()


def _first(bench: Bench, tools: list[Tool], source: Path, name: str) -> None:
    """The first backup into a new vault: time, peak memory and size."""
    data.read_all(source)
    for tool in tools:
        tool.home.reset()
        run_untimed(tool.init(), bench.work)
        command = tool.backup(source)
        sample = bench.timed(f"{name}.first", tool, command)
        bench.recorder.add_size(f"{name}.size", tool.name, tool.home.vault)
        if bench.wants(f"{name}.memory"):
            bench.recorder.add(f"{name}.memory", tool.name, command.shown(bench.work), sample)


def _restore_all(bench: Bench, tools: list[Tool], source: Path, name: str) -> None:
    """Timed restores; each is compared, and so are the backups it stands for."""
    for tool in tools:
        target = bench.attic.renew(bench.work / "restored")
        key = f"{name}.restore"
        sample = bench.timed(key, tool, tool.restore_all(source, target))
        if sample.failed is None:
            _judge(bench, key, tool, compare_trees(source, tool.restored_tree(source, target)))
    bench.attic.renew(bench.work / "restored")


def _restore_one(bench: Bench, tools: list[Tool], file: Path) -> None:
    for tool in tools:
        target = bench.attic.renew(bench.work / "restored")
        key = "small.restore-one"
        sample = bench.timed(key, tool, tool.restore_one(file, target))
        if sample.failed is None:
            found = compare_single(file, tool.restored_file(file, target), target)
            _judge(bench, key, tool, found)


def _changed(bench: Bench, tools: list[Tool], source: Path) -> None:
    """Backups of the changed tree, each proved by a restore that is not timed."""
    for tool in tools:
        bench.timed("small.changed", tool, tool.backup(source))
    for tool in tools:
        target = bench.attic.renew(bench.work / "restored")
        sample = run(tool.restore_all(source, target), bench.work)
        found = [sample.failed] if sample.failed else []
        found += compare_trees(source, tool.restored_tree(source, target))
        _judge(bench, "small.changed", tool, found)
    bench.attic.renew(bench.work / "restored")


def _judge(bench: Bench, key: str, tool: Tool, differences: list[str]) -> None:
    if differences:
        bench.recorder.fail_last(key, tool.name, "not as in the source: " + differences[0])


def _binary(size: int) -> str:
    if size >= 1 << 30:
        return f"{size / (1 << 30):.3g} GiB"
    return f"{size / (1 << 20):.3g} MiB"


def _note(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)
