"""The order of things, on a tool that copies folders: who goes when, and what counts as failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import BenchError
from bench.attic import Attic
from bench.data import LargeFiles, SmallFiles, TinyFiles
from bench.items import LOCAL
from bench.local import Bench, Sizes, run_local
from bench.measure import Command
from bench.record import Recorder
from bench.tools import Home, Tool

_SIZES = Sizes(
    small=SmallFiles(files=120, tops=2, subs=2),
    large=LargeFiles(size=5000),
    million=TinyFiles(folders=2, per_folder=3),
    disk=1 << 20,
    turn_disk=0,
    million_disk=0,
)


class Copier:
    """A backup tool of one line; ``damage`` is a shell command run in what it restores."""

    settings = "none"

    def __init__(self, name: str, folder: Path, damage: str = ":") -> None:
        self.name = name
        self.home = Home(folder / name, Attic(folder / "attic"))
        self._damage = damage

    def version(self) -> Command:
        return Command(("true",))

    def init(self) -> Command:
        return Command(("mkdir", str(self.home.vault)))

    def backup(self, source: Path) -> Command:
        return _shell(f"rm -rf {self.home.vault}/copy && cp -a {source} {self.home.vault}/copy")

    def restore_all(self, source: Path, target: Path) -> Command:  # noqa: ARG002
        return _shell(f"cp -a {self.home.vault}/copy/. {target} && cd {target} && {self._damage}")

    def restore_one(self, file: Path, target: Path) -> Command:
        return _shell(f"cp -a {file} {target} && cd {target} && {self._damage}")

    def restored_tree(self, source: Path, target: Path) -> Path:  # noqa: ARG002
        return target

    def restored_file(self, file: Path, target: Path) -> Path:
        return target / file.name


def _attic(folder: Path) -> Attic:
    return Attic(folder / "attic")


def _shell(line: str) -> Command:
    return Command(("sh", "-c", line))


def _run(tmp_path: Path, tools: list[Tool], *, wanted: set[str] | None = None) -> Recorder:
    (tmp_path / "data").mkdir()
    keys = wanted or {item.key for item in LOCAL}
    recorder = Recorder(LOCAL, keys, {"data": _SIZES.titles()})
    run_local(Bench(tmp_path, tools, _attic(tmp_path), _SIZES, 1, 2, recorder, lambda: None))
    return recorder


def _counts(facts: dict[str, Any], tool: str) -> dict[str, int]:
    return {key: len(item["tools"][tool]["samples"]) for key, item in facts.items()}


def test_every_item_gets_a_sample_per_round(tmp_path: Path) -> None:
    """Two rounds give two good samples of every item; the million files run once."""
    recorder = _run(tmp_path, [Copier("chunkvault", tmp_path / "tools")])
    counts = _counts(recorder.item_facts(), "chunkvault")
    assert recorder.failures == []
    assert not (tmp_path / "attic").exists()
    assert set(counts) == {item.key for item in LOCAL}
    assert {key for key, count in counts.items() if count == 1} == {
        "million.first", "million.unchanged", "million.memory",
    }  # fmt: skip


def test_only_what_was_asked_for_is_recorded(tmp_path: Path) -> None:
    """A choice of items leaves out the others, and the data sets nobody needs."""
    recorder = _run(tmp_path, [Copier("restic", tmp_path / "tools")], wanted={"small.unchanged"})
    assert set(recorder.item_facts()) == {"small.unchanged"}
    assert not (tmp_path / "data" / "large").exists()


@pytest.mark.parametrize("damage", ["rm -r top00", "touch extra", "chmod 700 top01/sub00/*"])
def test_a_wrong_restore_fails_its_sample(tmp_path: Path, damage: str) -> None:
    """A tool that brings back something else gets no figure for it, and its rival keeps one."""
    folder = tmp_path / "tools"
    tools: list[Tool] = [Copier("good", folder), Copier("bad", folder)]
    wanted = {"small.restore", "small.changed"}
    tools[1] = Copier("bad", folder, f"if [ -d top00 ]; then {damage}; fi")
    items = _run(tmp_path, tools, wanted=wanted).item_facts()
    for key in wanted:
        assert items[key]["tools"]["good"]["failed"] == 0
        assert items[key]["tools"]["bad"]["median"] is None


def test_a_wrong_single_file_fails_its_sample(tmp_path: Path) -> None:
    """The one file brought back is compared as well."""
    tool = Copier("bad", tmp_path / "tools", "if [ ! -d top00 ]; then echo x >> file*; fi || :")
    items = _run(tmp_path, [tool], wanted={"small.restore-one"}).item_facts()
    assert items["small.restore-one"]["tools"]["bad"]["failed"] == 2


def test_the_first_turn_rotates(tmp_path: Path) -> None:
    """Nobody is always first, and nobody always follows the same tool's writes."""
    tools: list[Tool] = [Copier(name, tmp_path) for name in ("a", "b", "c")]
    recorder = Recorder(LOCAL, set(), {})
    bench = Bench(tmp_path, tools, _attic(tmp_path), _SIZES, 1, 4, recorder, lambda: None)
    assert ["".join(tool.name for tool in turn) for turn in bench.turns()] == [
        "abc", "bca", "cab", "abc",
    ]  # fmt: skip


def test_a_full_disk_is_told_before_anything_starts(tmp_path: Path) -> None:
    """Too little room stops the bench with a line that says how much is needed."""
    sizes = Sizes(_SIZES.small, _SIZES.large, _SIZES.million, 1 << 60, 0, 0)
    bench = Bench(
        tmp_path, [], _attic(tmp_path), sizes, 1, 1, Recorder(LOCAL, set(), {}), lambda: None
    )
    with pytest.raises(BenchError, match="are needed"):
        run_local(bench)


def test_nothing_is_deleted_while_anything_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted inodes slow down every later creation, so files are moved away until the end."""
    kept: list[int] = []

    def count_instead(attic: Attic) -> None:
        kept.extend(_files_below(tree) for tree in attic.folder.glob("*/restored"))

    monkeypatch.setattr(Attic, "clear", count_instead)
    _run(tmp_path, [Copier("restic", tmp_path / "tools")], wanted={"small.restore"})
    assert kept.count(_SIZES.small.files) == 2  # one a round


def test_large_files_in_the_attic_take_no_space(tmp_path: Path) -> None:
    """What was moved away keeps its inodes and gives its bytes back."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "large").write_bytes(b"x" * (1 << 20))
    (tree / "large").chmod(0o400)
    (tmp_path / "attic").mkdir()
    _attic(tmp_path).take(tree)
    (moved,) = (tmp_path / "attic").rglob("large")
    assert moved.stat().st_size == 0
    assert not tree.exists()


def _files_below(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))
