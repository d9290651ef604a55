"""Finds the programs to compare, or says plainly what to install.

What lives here: the search, and the private environment that borg is installed into where there is
no borg 1.4 yet. A tool that cannot be had stops the bench: a table without it would mislead.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from bench import BenchError
from bench.attic import Attic
from bench.tools import TOOLS, Home, Settings, Tool

_BORG_REQUIREMENT: Final = "borgbackup==1.4.*"
_BORG_HEADERS: Final = {
    "libacl1-dev": "sys/acl.h",
    "libssl-dev": "openssl/ssl.h",
    "liblz4-dev": "lz4.h",
    "libzstd-dev": "zstd.h",
    "libxxhash-dev": "xxhash.h",
}
_BORG_PROGRAMS: Final = {"gcc": "gcc", "pkg-config": "pkg-config"}
_SHA_FLAGS: Final = frozenset({"sha_ni", "sha2"})  # as x86 and ARM name them


def find_tools(names: list[str], settings: Settings, work: Path) -> list[Tool]:
    """The tools asked for, each with a program that exists.

    Raises:
        BenchError: one is not here, with what to install.
    """
    attic = Attic(work / "attic")
    return [
        TOOLS[name](_find(name, settings, work), Home(work / "tools" / name, attic), settings)
        for name in names
    ]


def faster_borg_encryption() -> str:
    """The mode borg's manual recommends for speed: HMAC-SHA256 only where the processor has SHA."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        flags = set()
    has_sha = bool(flags & _SHA_FLAGS) or platform.machine() == "arm64"
    return "repokey" if has_sha else "repokey-blake2"


def _find(name: str, settings: Settings, work: Path) -> str:
    asked = settings.programs.get(name)
    if asked:
        path = shutil.which(asked)
        if path is None:
            raise BenchError(f"--{name}: no program {asked!r}")
        return str(Path(path).absolute())
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if name == "borg" and (found is None or not _is_borg_1_4(found)):
        return _install_borg(work)
    if found is None:
        hint = "pip install ." if name == "chunkvault" else f"apt-get install {name}"
        raise BenchError(f"{name} is not installed: {hint}, or give --{name} PATH")
    return str(Path(found).absolute())


def _is_borg_1_4(program: str) -> bool:
    done = subprocess.run(  # noqa: S603 - a program the user named or has on PATH
        [program, "--version"], capture_output=True, text=True, check=False
    )
    return done.stdout.startswith("borg 1.4.")


def _install_borg(work: Path) -> str:
    folder = work / "borg-1.4"
    program = folder / "bin" / "borg"
    if program.exists():
        return str(program)
    missing = _missing_packages()
    if missing:
        raise BenchError(
            f"borg 1.4 is not installed, and cannot be built without {', '.join(missing)}: "
            f"apt-get install {' '.join(missing)}, or give --borg PATH"
        )
    print(f"installing {_BORG_REQUIREMENT}; this takes a minute", file=sys.stderr)
    pip = folder / "bin" / "pip"
    for argv in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(pip), "install", "--quiet", "--disable-pip-version-check", _BORG_REQUIREMENT],
    ):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise BenchError(f"installing borg failed: {''.join(last)}; or give --borg PATH")
    return str(program)


def _missing_packages() -> list[str]:
    folders = [Path("/usr/include"), Path("/usr/local/include")]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        folders.append(Path("/usr/include") / str(multiarch))
    headers = [
        package
        for package, header in _BORG_HEADERS.items()
        if not any((folder / header).exists() for folder in folders)
    ]
    programs = [pkg for pkg, program in _BORG_PROGRAMS.items() if shutil.which(program) is None]
    return headers + programs
