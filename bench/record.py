"""The result file: every sample, and what is needed to judge it.

What lives here: collecting samples and writing them as JSON. What may not: opinions; whether a
target is met is worked out by ``report`` from the file alone.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.items import Item
from bench.measure import Sample

FORMAT: Final = 1


@dataclass
class Recorder:
    """Samples by item and tool, in the order they came.

    Attributes:
        items: what this run may record, in table order.
        wanted: keys of the items to keep; samples of others are dropped.
        facts: whatever else belongs into the file.
    """

    items: tuple[Item, ...]
    wanted: Collection[str]
    facts: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    _samples: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    _commands: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, key: str, tool: str, command: str, sample: Sample) -> None:
        """Keep the sample of one timed command; a failed one is shouted about."""
        self._keep(key, tool, asdict(sample))
        commands = self._commands.setdefault(key, {}).setdefault(tool, [])
        if command not in commands:
            commands.append(command)
        state = f"{sample.seconds:8.3f} s {sample.peak_rss / 1e6:8.1f} MB"
        if sample.failed:
            state = f"FAILED: {sample.failed}"
        if sample.failed or key in self.wanted:
            print(f"{key:18} {tool:11} {state}", file=sys.stderr, flush=True)
        if sample.failed:
            self.failures.append(f"{key}, {tool}: {sample.failed}")

    def add_size(self, key: str, tool: str, vault: Path) -> None:
        """Keep the size of a vault: bytes in files, and bytes of disk they occupy."""
        states = [os.lstat(Path(base, name)) for base, _, names in os.walk(vault) for name in names]
        size = sum(state.st_size for state in states)
        disk = sum(state.st_blocks * 512 for state in states)
        facts = {"bytes": size, "disk_bytes": disk, "files": len(states), "failed": None}
        self._keep(key, tool, facts)

    def fail_last(self, key: str, tool: str, why: str) -> None:
        """What the tool's newest sample of ``key`` made did not survive the comparison."""
        samples = self._samples.get(key, {}).get(tool, [])
        if samples:
            samples[-1]["failed"] = why
        self.failures.append(f"{key}, {tool}: {why}")
        print(f"{key:18} {tool:11} FAILED: {why}", file=sys.stderr, flush=True)

    def write(self, path: Path) -> None:
        """Write the file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {**self.facts, "format": FORMAT, "items": self.item_facts()}
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps(body, indent=1) + "\n")
        temporary.replace(path)

    def _keep(self, key: str, tool: str, sample: dict[str, Any]) -> None:
        if key in self.wanted:
            self._samples.setdefault(key, {}).setdefault(tool, []).append(sample)

    def item_facts(self) -> dict[str, Any]:
        """Every item with a sample, as it goes into the file."""
        return {
            item.key: {
                "title": item.title.format(**self.facts["data"]),
                "metric": item.metric,
                "asked": asdict(item.asked) if item.asked else None,
                "tools": {
                    tool: {
                        **summary(samples, item.metric),
                        "commands": self._commands.get(item.key, {}).get(tool, []),
                        "samples": samples,
                    }
                    for tool, samples in self._samples[item.key].items()
                },
            }
            for item in self.items
            if item.key in self._samples
        }


def summary(samples: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """Median and extremes of the good samples, and how many were bad."""
    good = [float(sample[metric]) for sample in samples if sample["failed"] is None]
    failed = len(samples) - len(good)
    if not good:
        return {"median": None, "min": None, "max": None, "failed": failed}
    return {
        "median": statistics.median(good),
        "min": min(good),
        "max": max(good),
        "failed": failed,
    }


def machine(work: Path) -> dict[str, Any]:
    """What the figures depend on; nothing that tells which machine it was."""
    return {
        "cores": os.cpu_count(),
        "processor": _first_value("/proc/cpuinfo", "model name") or platform.machine(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": _file_system(work),
        "python": platform.python_version(),
    }


def _first_value(path: str, key: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _file_system(folder: Path) -> str:
    """The type of the file system ``folder`` is on, by its device number."""
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    for line in lines:
        fields, _, rest = line.partition(" - ")
        if fields.split()[2] == wanted:
            return rest.split()[0]
    return "unknown"
