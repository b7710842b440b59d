"""Sum up measurements, and write them as tables and as JSON."""

import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.members import version_of


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


def environment(kafka_version: str) -> str:
    """Say what was measured with, without a date."""
    versions = ", ".join(
        f"{name} {version_of(name)}"
        for name in ("groupsdk", "kafka-python", "aiokafka", "confluent-kafka")
    )
    return (
        f"{versions}; CPython {platform.python_version()}; Apache Kafka {kafka_version}, one broker"
        f" on the same machine; {os.cpu_count()} cores, {platform.system()} {platform.machine()}."
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
