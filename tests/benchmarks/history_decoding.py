"""Measure what reading a log costs, beside Kafka's own tool: `python -m tests.benchmarks --only history_decoding`.

Everything reads the same segment files. Figures are records a CPU second of all processes together (the
JVM's and Python's), and the wall time on this machine; Spark is warmed up with a small log first, as a JVM
that compiles its code takes more CPU than what it runs.

- kernel: the files to columns, in one process without Spark;
- to Parquet: the files through Spark to the tables of committed offsets and of all other records;
- every table: the whole of `groupsdk history run`, without the report; with and without replaying assignors;
- the command: `groupsdk history run` of a small log, from its start to the report, with each engine;
- DumpLogSegments: Kafka's tool with its offsets decoder, printing, and without what it prints of records.
"""

import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from groupsdk.history.pipeline import Options
from groupsdk.history.read.batches import Chunk, read_segment
from groupsdk.history.read.commits import read_commits
from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_java
from groupsdk.testing.local_kafka import DEFAULT_VERSION
from tests.benchmarks.history_log import write_log
from tests.benchmarks.report import Result, load


QUICK: Final = 1_000_000
FULL: Final = 5_000_000
WARM: Final = 100_000
ROUNDS: Final = 3
KERNEL_AIM: Final = 6.0
PARQUET_AIM: Final = 2.5
TABLES_AIM: Final = 100_000
"""Records a CPU second of every table, with four assignors."""
BARE_TABLES_AIM: Final = 150_000
"""The same without assignors."""
COMMAND: Final = 12_000
"""How many records the command is measured with."""
COMMAND_AIMS_S: Final = {"spark": 20.0, "local": 2.0}
"""CPU seconds of the command, by engine."""
WORKER_AIM_MB: Final = 400.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER: Final = 36


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work took."""

    records: int
    cpu_s: float
    wall_s: float

    @property
    def rate(self) -> float:
        """Records a CPU second."""
        return self.records / self.cpu_s


def descendants(pid: int) -> Iterator[int]:
    """List a process and all that it has started, as far as they still run."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in children:
            yield from descendants(int(child))


def adopt_orphans() -> None:
    """Keep the CPU time of processes whose parent has ended.

    Spark ends Python daemons that have been idle for a minute. Their workers would go to init, and `cpu_s` would fall.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_s(pid: int) -> float:
    """Sum up the CPU seconds of a process, of what it has started, and of what of that has ended."""
    total = 0
    for each in descendants(pid):
        try:
            text = Path(f"/proc/{each}/stat").read_text(encoding="ascii")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


def peak_worker_mb(pid: int) -> float:
    """Find the Python worker that took most memory; the driver itself does not count."""
    most = 0
    for each in descendants(pid):
        try:
            status = Path(f"/proc/{each}/status").read_text(encoding="ascii")
        except OSError:
            continue
        if each != pid and "python" in status.partition("\n")[0]:
            # a process that has ended and waits for its parent has no such line
            peaks = (int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
            most = max(most, next(peaks, 0))
    return most / 1024


def measured(work: Callable[[], object], records: int) -> Cost:
    """Do some work, and tell what it took."""
    before, start = cpu_s(os.getpid()), time.perf_counter()
    work()
    wall_s = time.perf_counter() - start
    return Cost(records, cpu_s(os.getpid()) - before, wall_s)


def middle(costs: list[Cost]) -> Cost:
    """Take the one of the median rate."""
    rate = statistics.median_low(cost.rate for cost in costs)
    return next(cost for cost in costs if cost.rate == rate)


def kernel(root: Path) -> None:
    """Read the files with the kernel alone."""
    for path in sorted(root.glob("*/*.log")):
        with path.open("rb") as file:
            for found in read_segment(file):
                assert isinstance(found, Chunk)
                read_commits(found.records)


def dump(root: Path, records: int, *options: str) -> tuple[Cost, int]:
    """Let Kafka's tool print the files; returns what it took and the bytes printed."""
    jars = fetch(
        [
            f"org.apache.kafka:kafka_2.13:{DEFAULT_VERSION}",
            f"org.apache.kafka:kafka-tools:{DEFAULT_VERSION}",
        ]
    )
    files = ",".join(str(path) for path in sorted(root.glob("*/*.log")))
    command = [
        *(str(find_java().java), "-Xmx512m", "-cp", ":".join(map(str, jars))),
        *("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", *options),
        *("--files", files),
    ]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    printed = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 20):
            printed += len(piece)
    if process.returncode:
        raise SystemExit(f"DumpLogSegments failed with {process.returncode}")
    wall_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(records, used, wall_s), printed


def spark_session(
    master: str = "local[2]", more: Mapping[str, str] | None = None, *, brief: bool = False
) -> Any:
    """Start Spark, on two cores unless it is said otherwise; `brief`: as the command does for a small log."""
    from groupsdk.history.session import build_session

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        **(more or {}),
    }
    return build_session(master=master, brief=brief, settings=settings)


def to_parquet(spark: Any, root: Path, out: Path) -> None:
    """Write committed offsets and all other records as Parquet."""
    from groupsdk.history.sources.segment_files import segment_tasks
    from groupsdk.history.sources.spark_rows import read_tasks
    from groupsdk.history.sources.spark_writer import write_tables

    shutil.rmtree(out, ignore_errors=True)
    write_tables(read_tasks(spark, segment_tasks(str(root)), 1), str(out), "part", cluster_id="one")


def every_table(spark: Any, root: Path, out: Path, options: Any = None) -> None:
    from groupsdk.history.job import Inputs, run as run_job
    from groupsdk.history.sources.spark_segments import read_segments

    run_job(spark, Inputs(read_segments(spark, str(root))), str(out), options)


def command_cost(root: Path, out: Path, engine: str, records: int) -> Cost:
    """Run the command in a process of its own, and tell what it and all that it started took."""
    # Python does not wait for the JVM that it started, so a process in between has to: it takes over orphans
    words = ("--segments", str(root), "--out", str(out), "--engine", engine, "--quiet")
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _SUBREAPER, sys.executable, "-m", "groupsdk.history", "run", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return Cost(records, float(done.stdout.split()[-1]), time.perf_counter() - start)


_SUBREAPER: Final = """
import ctypes, os, resource, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(sys.argv[1:], check=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""
"""Runs a command and prints its CPU seconds. PR_SET_CHILD_SUBREAPER is 36."""


def run(options: list[str], *, quick: bool) -> Result:
    """Measure everything on one log; returns the table.

    Args:
        options: how many records, in the place of the usual number.
        quick: a million records; five otherwise.
    """
    adopt_orphans()
    wanted = int(options[0]) if options else QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="history-bench-") as scratch:
        base = Path(scratch)
        root, small, tiny = base / "log", base / "small", base / "tiny"
        count = write_log(root, wanted)
        write_log(small, WARM)
        few = write_log(tiny, COMMAND)
        size = sum(path.stat().st_size for path in root.glob("*/*.log"))
        print(f"{count:,} records, {size / 1e6:.0f} MB", flush=True)
        full_dump, full_bytes = dump(root, count)
        bare, bare_bytes = dump(root, count, "--skip-record-metadata")
        kernel(small)
        alone = middle([measured(lambda: kernel(root), count) for _ in range(ROUNDS)])
        commands = {
            engine: command_cost(tiny, base / engine, engine, few) for engine in COMMAND_AIMS_S
        }
        spark = spark_session(brief=True)
        every_table(spark, small, base / "warm")
        written = middle(
            [measured(lambda: to_parquet(spark, root, base / "out"), count) for _ in range(ROUNDS)]
        )
        parquet_mb = peak_worker_mb(os.getpid())
        tables = measured(lambda: every_table(spark, root, base / "tables"), count)
        none = Options(assignors=())
        bare_tables = measured(lambda: every_table(spark, root, base / "bare", none), count)
        worker_mb = max(parquet_mb, peak_worker_mb(os.getpid()))
        spark.stop()
    result = Result(
        "history_decoding",
        f"History: reading {count:,} records of `__consumer_offsets` ({size / 1e6:.0f} MB)",
        ["", "records a CPU second", "DumpLogSegments' bare printing", "seconds"],
    )
    for name, cost in (
        ("the kernel alone, one process without Spark", alone),
        ("to Parquet: committed offsets, their sums, all other records", written),
        ("every table, four assignors replayed", tables),
        ("every table, without replay", bare_tables),
        (f"DumpLogSegments, bare printing ({bare_bytes / 1e6:.0f} MB)", bare),
        (f"DumpLogSegments, with each record's place ({full_bytes / 1e6:.0f} MB)", full_dump),
    ):
        times = f"{cost.rate / bare.rate:.1f} times"
        result.rows.append((name, f"{cost.rate:,.0f}", times, f"{cost.wall_s:.1f}"))
    for engine, cost in commands.items():
        result.rows.append(
            (
                f"`history run --engine {engine}` of {few:,} records, start to report",
                *(f"{cost.rate:,.0f} ({cost.cpu_s:.1f} CPU s)", "", f"{cost.wall_s:.1f}"),
            )
        )
    result.notes.append(
        f"One record in a hundred is a generation of eight members and forty partitions. CPU of all"
        f" processes, the median of {ROUNDS} rounds for the kernel and to Parquet, Spark with two"
        f" tasks at a time and warmed up; DumpLogSegments of Kafka {DEFAULT_VERSION} with its"
        f" start. The largest Python worker took {worker_mb:.0f} MB. The load average was"
        f" {load()} at the end: compare CPU rather than"
        " seconds."
    )
    result.behind += _behind(alone, written, tables, bare, worker_mb)
    if bare_tables.rate < BARE_TABLES_AIM:
        result.behind.append(
            f"every table without replay: {bare_tables.rate:,.0f}, the aim is {BARE_TABLES_AIM:,}"
        )
    result.behind += [
        f"the command with --engine {engine}: {commands[engine].cpu_s:.1f} CPU s, the aim is {aim:.0f}"
        for engine, aim in COMMAND_AIMS_S.items()
        if commands[engine].cpu_s > aim
    ]
    result.raw = {
        "records": count,
        "worker_mb": worker_mb,
        **{
            name: [cost.cpu_s, cost.wall_s]
            for name, cost in (
                *(("kernel", alone), ("parquet", written), ("tables", tables)),
                *(("bare_tables", bare_tables), ("bare", bare), ("dump", full_dump)),
                *commands.items(),
            )
        },
    }
    return result


def _behind(
    alone: Cost, written: Cost, tables: Cost, bare: Cost, worker_mb: float
) -> Iterator[str]:
    for name, cost, aim in (
        ("the kernel", alone, KERNEL_AIM),
        ("to Parquet", written, PARQUET_AIM),
    ):
        if cost.rate < aim * bare.rate:
            yield f"{name}: {cost.rate / bare.rate:.1f} times, the aim is {aim:g}"
    if tables.rate < TABLES_AIM:
        yield (
            f"every table: {1_000_000 / tables.rate:.1f} CPU seconds for a million records, the aim is"
            f" {1_000_000 / TABLES_AIM:.0f}"
        )
    if worker_mb > WORKER_AIM_MB:
        yield f"a worker takes {worker_mb:.0f} MB, the aim is {WORKER_AIM_MB:.0f}"
