"""Measure what importing the library costs, beside the peers."""

import re
import subprocess
import sys
from typing import Final

from tests.benchmarks.processes import ROOT, compiled_environment
from tests.benchmarks.report import Result, options_of, spread


STATEMENTS: Final = {
    "groupsdk": "import groupsdk",
    "groupsdk's member, with its engine": "from groupsdk import GroupMember",
    "kafka-python": "import kafka",
    "aiokafka": "import aiokafka",
    "confluent-kafka": "import confluent_kafka",
}
_LIMIT_MS = 100.0
_DEAREST = 8
_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| +(\S+)")
# What the interpreter itself needs to start is taken off.
_PROGRAM = "import time; t = time.process_time(); {}; print((time.process_time() - t) * 1000)"


def cpu_ms(statement: str) -> float:
    """Return the CPU milliseconds of one statement in a new interpreter."""
    return float(_python("-c", _PROGRAM.format(statement)).stdout)


def dearest(statement: str) -> list[tuple[str, float]]:
    """Return the modules that cost most by themselves, with milliseconds."""
    lines = _python("-X", "importtime", "-c", statement).stderr.splitlines()
    found = [(m[2], int(m[1]) / 1000) for line in lines if (m := _LINE.match(line))]
    return sorted(found, key=lambda each: -each[1])[:_DEAREST]


def _python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=compiled_environment(),
        check=True,
        capture_output=True,
        text=True,
    )


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of("import_cost", arguments, repetitions=5 if quick else 15)
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for repetition in range(options.repetitions + 1):
        for name, statement in STATEMENTS.items():
            taken_ms = cpu_ms(statement)
            if repetition:  # the first one compiles
                times[name].append(taken_ms)
    result = Result(
        "import_cost",
        "CPU ms of the import: median (least to most)",
        list(STATEMENTS),
        rows=[[spread(values, 0) for values in times.values()]],
        raw=times,
    )
    ours = sorted(times["groupsdk"])[len(times["groupsdk"]) // 2]
    if ours > _LIMIT_MS:
        result.behind.append(f"import groupsdk: {ours:.0f} ms is over {_LIMIT_MS:.0f} ms")
    top = ", ".join(f"{name} {ms:.1f}" for name, ms in dearest(STATEMENTS["groupsdk"]))
    result.notes = [
        (
            f"{options.repetitions} new interpreters each, modules compiled. The engine is loaded with the"
            f" class of a member, not when one starts. The dearest modules of `import groupsdk`, in ms: {top}."
        )
    ]
    return result
