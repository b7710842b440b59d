"""Sum up measurements, and write them as tables and as JSON."""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import groupsdk
from groupsdk.testing.local_kafka import DEFAULT_VERSION


DIRECTORY = Path(tempfile.gettempdir()) / "groupsdk-benchmarks"


@dataclass(slots=True)
class Result:
    """One benchmark's table, what it was measured with, and where groupsdk is behind."""

    name: str
    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    raw: Any = None

    def markdown(self) -> str:
        """Return the table, its notes, and where groupsdk is behind."""
        lines = [f"**{self.title}**", "", _line(self.header), _line(["---"] * len(self.header))]
        lines += [_line(row) for row in self.rows]
        lines += ["", *self.notes]
        lines += ["", "Behind: " + "; ".join(self.behind) + "."] if self.behind else []
        return "\n".join(lines) + "\n"

    def finish(self) -> "Result":
        """Print the result and keep the raw figures in the temporary directory."""
        DIRECTORY.mkdir(exist_ok=True)
        path = DIRECTORY / f"{self.name}.json"
        path.write_text(json.dumps({"markdown": self.markdown(), "raw": self.raw}, indent=1))
        print(f"\n{self.markdown()}\n(raw figures: {path})", flush=True)
        return self


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Return "median (least to most)"; "-" for nothing."""
    ordered = sorted(values)
    if not ordered:
        return "-"
    middle = statistics.median(ordered)
    if len(ordered) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({ordered[0]:.{digits}f} to {ordered[-1]:.{digits}f})"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def options_of(
    name: str, arguments: list[str], **defaults: float | str | bool
) -> argparse.Namespace:
    """Return the options of a benchmark, with these names and defaults; one that is False is a flag."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks --only {name} --")
    for option, default in defaults.items():
        flag = f"--{option.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(default), default=default)
    return parser.parse_args(arguments)


def load() -> str:
    """Return the load average of the last minute, and on how many cores that is."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def environment() -> str:
    """Say what was measured with, without a date."""
    peers = ("kafka-python", "aiokafka", "confluent-kafka")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in peers]
    return (
        f"groupsdk {groupsdk.__version__}, {', '.join(versions)}; CPython {platform.python_version()};"
        f" Apache Kafka {DEFAULT_VERSION}, one broker on the same machine; {os.cpu_count()} cores,"
        f" {platform.system()} {platform.machine()}."
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
