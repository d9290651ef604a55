"""The main job, command by command, through the real command line."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.conftest import Cli, Variables


ROOT = Path(__file__).parents[2]


def listing(folder: Path) -> dict[bytes, tuple[int, int, bytes]]:
    """Mode, mtime and content of all below a folder, by name."""
    found: dict[bytes, tuple[int, int, bytes]] = {}
    top = os.fsencode(folder)
    for parent, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            content = b""
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            found[path[len(top) :]] = (status.st_mode, status.st_mtime_ns, content)
    return found


def test_what_went_in_comes_out(cli: Cli, backed_up: Path) -> None:
    cli.run("restore", f"latest:{backed_up}", "--target", "out")
    assert listing(cli.home / "out") == listing(backed_up)


def test_without_a_path_the_absolute_paths_reappear(cli: Cli, backed_up: Path) -> None:
    cli.run("restore", "latest", "--target", "out")
    below = cli.home / "out" / str(backed_up).lstrip("/")
    assert listing(below) == listing(backed_up)


def test_a_file_keeps_its_name(cli: Cli, backed_up: Path) -> None:
    cli.run("restore", f"latest:{backed_up}/sub/b.bin", "-t", "out")
    assert os.listdir(cli.home / "out") == ["b.bin"]


def test_a_dry_run_writes_nothing(cli: Cli, tree: Path) -> None:
    cli.run("init")
    assert "dry run" in cli.lines("backup", "-n", tree)[0]
    assert cli.json("snapshots")["snapshots"] == []
    cli.run("backup", tree)
    assert "dry run" in cli.lines("restore", f"latest:{tree}", "-t", "out", "-n")[0]
    assert not (cli.home / "out").exists()


def test_the_summary_tells_what_was_new(cli: Cli, backed_up: Path) -> None:
    (backed_up / "new").write_text("new")
    (backed_up / "a.txt").write_text("changed, and longer")
    (line,) = cli.lines("backup", backed_up)
    assert "4 files" in line
    assert "1 new, 1 changed" in line


def test_snapshots_can_be_chosen_by_host_tag_and_path(cli: Cli, backed_up: Path) -> None:
    cli.run("backup", backed_up / "sub", "--host", "other", "--tag", "x", "--tag", "y")

    def found(*options: str | Path) -> int:
        return len(cli.json("snapshots", *options)["snapshots"])

    assert found() == 2
    assert found("--host", "other") == 1
    assert found("--tag", "x", "--tag", "y") == 1
    assert found("--tag", "x", "--tag", "z") == 0
    assert found("--path", backed_up / "a.txt") == 1
    assert found("--path", backed_up / "sub") == 2


def test_latest_is_of_this_host_unless_told_otherwise(cli: Cli, tree: Path) -> None:
    cli.run("init")
    cli.run("backup", tree, "--host", "other")
    done = cli.run("ls", "latest", expect=1)
    assert b"other" in done.stderr
    assert b"latest is" in cli.run("ls", "latest", "--host", "other").stderr
    cli.run("ls", "latest", "--host", "*")


def test_ls_lists_one_level_or_all(cli: Cli, backed_up: Path) -> None:
    flat = cli.lines("ls", f"latest:{backed_up}")
    assert flat == [f"{backed_up}/{name}" for name in ("a.txt", "link", "sub", "zero")]
    deep = cli.lines("ls", "-R", f"latest:{backed_up}")
    assert f"{backed_up}/sub/b.bin" in deep
    (line,) = [one for one in cli.lines("ls", "-l", f"latest:{backed_up}") if "link" in one]
    assert line.startswith("lrwx")
    assert line.endswith("link -> a.txt")


def test_dump_writes_exactly_the_file(cli: Cli, backed_up: Path) -> None:
    content = (backed_up / "sub" / "b.bin").read_bytes()
    assert cli.run("dump", f"latest:{backed_up}/sub/b.bin").stdout == content
    cli.run("dump", f"latest:{backed_up}/sub/b.bin", "--output", "copy")
    assert (cli.home / "copy").read_bytes() == content


def test_a_dump_that_fails_leaves_the_old_file(cli: Cli, backed_up: Path) -> None:
    (cli.home / "copy").write_text("old")
    cli.run("dump", f"latest:{backed_up}/nothing", "-o", "copy", expect=1)
    assert (cli.home / "copy").read_text() == "old"
    assert not list(cli.home.glob(".chunkvault*"))


def test_a_stream_is_stored_under_its_name(cli: Cli) -> None:
    cli.run("init")
    cli.run("backup", "--stdin", "--stdin-name", "db.sql", stdin=b"data" * 100_000)
    assert cli.run("dump", "latest:db.sql").stdout == b"data" * 100_000


def test_excludes_come_by_option_and_by_file(cli: Cli, tree: Path) -> None:
    (cli.home / "patterns").write_bytes(b"*.txt\r\n# a comment\r\n")
    cli.run("init")
    cli.run("backup", tree, "-e", "zero", "--exclude-file", "patterns")
    names = cli.lines("ls", f"latest:{tree}")
    assert names == [f"{tree}/link", f"{tree}/sub"]


def test_damage_is_named_and_everything_else_comes_back(cli: Cli, tree: Path) -> None:
    """Check exits 3 and names the path; restore brings back the rest, and exits 3 too."""
    (tree / "large").write_bytes(os.urandom(600_000))
    cli.run("init")
    cli.run("backup", tree)
    blobs = sorted((cli.vault / "blobs").glob("*/*"), key=lambda path: path.stat().st_size)
    data = bytearray(blobs[-1].read_bytes())
    data[len(data) // 2] ^= 1
    blobs[-1].write_bytes(data)
    value = cli.json("check", "--read-data", expect=3)
    (damage,) = value["damaged"]
    assert [one["path"] for one in damage["paths"]] == [f"{tree}/large"]
    assert str(tree / "large") in cli.run("check", "--read-data", expect=3).stdout.decode()
    done = cli.run("restore", f"latest:{tree}", "-t", "out", expect=3)
    assert b"large" in done.stderr
    whole = listing(tree)
    del whole[b"/large"]
    assert listing(cli.home / "out") == whole


def test_check_says_what_it_did_not_verify(cli: Cli, backed_up: Path) -> None:
    assert any("not verified" in line for line in cli.lines("check"))
    assert not any("not verified" in line for line in cli.lines("check", "--read-data"))
    cli.run("check", "--read-data-subset", "1/2")
    cli.run("check", "--read-data-subset", "some", expect=2)


def test_stats_count_the_vault(cli: Cli, backed_up: Path) -> None:
    cli.run("backup", backed_up)
    value = cli.json("stats")["stats"]
    assert value["snapshots"] == 2
    assert value["logical_size"] > value["unique_size"]
    assert any(line.startswith("deduplication:") for line in cli.lines("stats"))


def test_keys_come_and_go(cli: Cli, backed_up: Path) -> None:
    (cli.home / "second").write_text("second\n")
    second: Variables = {"CHUNKVAULT_PASSPHRASE_FILE": str(cli.home / "second")}
    cli.run("snapshots", expect=1, env=second)
    (first,) = cli.json("key", "list")["keys"]
    cli.run("key", "remove", first["id"], expect=2)
    cli.run("key", "add", "--label", "office", "--new-passphrase-file", "second")
    keys = cli.json("key", "list", env=second)["keys"]
    assert [(key["label"], key["current"]) for key in keys] == [("", False), ("office", True)]
    cli.run("key", "remove", first["id"][:8], env=second)
    assert b"passphrase" in cli.run("snapshots", expect=1).stderr
    (cli.home / "third").write_text("third\n")
    cli.run("key", "change", "--new-passphrase-file", "third", env=second)
    cli.run("snapshots", expect=1, env=second)
    cli.run("snapshots", env={"CHUNKVAULT_PASSPHRASE": "third"})


def test_a_vault_without_encryption_is_made_only_when_asked_for(cli: Cli, tree: Path) -> None:
    nothing: Variables = {"CHUNKVAULT_PASSPHRASE_FILE": None}
    cli.run("init", expect=1, env=nothing)
    assert not cli.vault.exists() or not list(cli.vault.rglob("config"))
    assert b"NOT encrypted" in cli.run("init", "--no-encryption", env=nothing).stdout
    cli.run("backup", tree, env=nothing)
    cli.run("restore", f"latest:{tree}", "-t", "out", env=nothing)
    assert listing(cli.home / "out") == listing(tree)


def test_all_of_a_failure_is_one_line(cli: Cli, tree: Path) -> None:
    """For each kind of failure: one line on stderr, nothing on stdout, the right code."""
    elsewhere = str(cli.home / "nothing-here")
    (cli.home / "full").mkdir()
    (cli.home / "full" / "file").touch()

    def fails(*arguments: str | Path, code: int, env: Variables | None = None) -> bytes:
        done = cli.run(*arguments, expect=code, env=env)
        assert done.stdout == b""
        assert done.stderr.count(b"\n") == 1, done.stderr
        assert done.stderr.startswith(b"chunkvault: error: ")
        return done.stderr

    fails("snapshots", code=1)
    fails("snapshots", "-V", elsewhere, code=1)
    fails("init", "-V", cli.home / "full", code=1)
    fails("snapshots", code=2, env={"CHUNKVAULT_VAULT": None})
    fails("snapshots", "-V", "sftp://host/path", code=2)
    cli.run("init")
    fails("init", code=1)
    fails("backup", code=2)
    fails("backup", "--nonsense", code=2)
    fails("nonsense", code=2)
    fails("backup", "--stdin", tree, code=2)
    fails("backup", "--files-from", elsewhere, code=2)
    fails("ls", "nosuchid", code=1)
    fails("ls", "abcdef", code=1)
    fails("restore", "latest", code=2)
    fails("snapshots", code=1, env={"CHUNKVAULT_PASSPHRASE": "wrong"})
    fails("check", "--read-data", "--read-data-subset", "5%", code=2)
    fails("init", "--compression", "20", code=2)


def test_sources_that_are_missing_are_never_success(cli: Cli, tree: Path) -> None:
    cli.run("init")
    done = cli.run("backup", tree, "missing", expect=3)
    assert b"missing" in done.stderr
    cli.run("backup", "missing", expect=1)


def test_the_same_command_is_there_as_a_script(cli: Cli) -> None:
    """pyproject's entry point leads to the same main."""
    code = (
        "import sys, tomllib, importlib\n"
        "table = tomllib.load(open(sys.argv[1], 'rb'))['project']['scripts']\n"
        "module, _, name = table['chunkvault'].partition(':')\n"
        "sys.argv[1:] = ['--version']\n"
        "getattr(importlib.import_module(module), name)()\n"
    )
    command = [cli.command()[0], "-c", code, ROOT / "pyproject.toml"]
    done = subprocess.run(command, capture_output=True, check=True, env=cli.environment)
    assert done.stdout.startswith(b"chunkvault ")
