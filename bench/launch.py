"""Runs one command and tells how long it took and how much memory it held.

What lives here: a program of its own, with next to no imports. The kernel's peak-memory figure of a
process starts at what its parent held when it was born, so the parent must be small: this one is
about 10 MB, which is the least that can be measured.

Use: ``launch.py REPORT SECONDS_LIMIT PROGRAM [ARGUMENT…]``. REPORT becomes one line: seconds, user
seconds, system seconds, peak bytes, exit code (negative: a signal), 1 if the limit was reached.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

SAMPLE_MS = 50
PAGE = os.sysconf("SC_PAGE_SIZE")
# Linux counts in KiB, macOS in bytes.
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def descendants(pid: int) -> list[int]:
    """The processes below ``pid`` that live now; empty where the kernel does not list them."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - pathlib would cost megabytes
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123 - as above
                children = [int(word) for word in file.read().split()]
        except OSError:
            continue
        for child in children:
            found.append(child)
            found.extend(descendants(child))
    return found


def resident(pid: int) -> int:
    """Bytes a process holds in memory now, 0 once it has gone."""
    try:
        with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 - as above
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def wait(pid: int, limit: float) -> tuple[int, bool]:
    """Until ``pid`` ends or the limit kills it; returns the peak of its tree, and whether killed.

    The peak is 0 for a command that starts no other processes: wait4 is exact there.
    """
    if not hasattr(os, "pidfd_open"):
        return 0, False
    handle = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    deadline = time.monotonic() + limit
    peak = 0
    killed = False
    while not poller.poll(SAMPLE_MS):
        below = descendants(pid)
        if below:
            peak = max(peak, resident(pid) + sum(map(resident, below)))
        if not killed and time.monotonic() > deadline:
            killed = True
            os.kill(pid, signal.SIGKILL)
    os.close(handle)
    return peak, killed


def main(arguments: list[str]) -> None:
    report, limit, argv = arguments[0], float(arguments[1]), arguments[2:]
    begin = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, os.environ)
    tree_peak, killed = wait(pid, limit)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - begin
    peak = max(tree_peak, usage.ru_maxrss * RSS_UNIT)
    code = os.waitstatus_to_exitcode(status)
    with open(report, "w") as file:  # noqa: PTH123 - as above
        file.write(
            f"{seconds:.6f} {usage.ru_utime:.6f} {usage.ru_stime:.6f} {peak} {code} {killed:d}\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
