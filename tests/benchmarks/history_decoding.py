"""Measure what reading a log costs, beside Kafka's own tool: `python -m tests.benchmarks.history_decoding [RECORDS]`.

Everything reads the same segment files. Figures are records a CPU second of all processes together (the
JVM's and Python's), and the wall time on this machine; Spark is warmed up with a small log first.

- kernel: the files to columns, in one process without Spark;
- to Parquet: the files through Spark to the tables of committed offsets and of all other records;
- every table: the whole of `groupsdk history run`, without the report;
- DumpLogSegments: Kafka's tool with its offsets decoder, printing, and without what it prints of records.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from groupsdk.history.kernel.commits import read_commits
from groupsdk.history.kernel.segments import Chunk, read_segment
from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_java
from tests.benchmarks.history_log import write_log


RECORDS: Final = 2_000_000
RELEASE: Final = "4.1.0"
WARM: Final = 100_000
ROUNDS: Final = 3
_TICKS: Final = os.sysconf("SC_CLK_TCK")


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
            most = max(
                most, *(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
            )
    return most / 1024


def measured(work: Callable[[], int]) -> tuple[float, float]:
    """Return records a CPU second, and the wall time."""
    before, start = cpu_s(os.getpid()), time.perf_counter()
    records = work()
    wall_s = time.perf_counter() - start
    return records / (cpu_s(os.getpid()) - before), wall_s


def kernel(root: Path) -> int:
    """Read the files with the kernel alone."""
    records = 0
    for path in sorted(root.glob("*/*.log")):
        with path.open("rb") as file:
            for found in read_segment(file):
                assert isinstance(found, Chunk)
                read_commits(found.records)
                records += len(found.records)
    return records


def dump(root: Path, *options: str) -> tuple[float, float, int]:
    """Let Kafka's tool print the files; returns CPU seconds, wall time and bytes printed."""
    jars = fetch([f"org.apache.kafka:kafka_2.13:{RELEASE}"])
    files = ",".join(str(path) for path in sorted(root.glob("*/*.log")))
    command = [
        *(str(find_java().java), "-Xmx512m", "-cp", ":".join(map(str, jars))),
        *("kafka.tools.DumpLogSegments", "--offsets-decoder", *options, "--files", files),
    ]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    printed = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 20):
            printed += len(piece)
    if process.returncode:
        raise SystemExit(f"DumpLogSegments failed with {process.returncode}")
    wall_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, wall_s, printed


def spark_session() -> Any:
    """Start Spark on two cores."""
    from groupsdk.history.session import build_session

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
    }
    return build_session(master="local[2]", settings=settings)


def to_parquet(spark: Any, root: Path, out: Path) -> None:
    """Write committed offsets and all other records as Parquet."""
    from groupsdk.history.sources.segments import FORMAT, SegmentsDataSource
    from groupsdk.history.tables.commits import offset_commits
    from groupsdk.history.tables.transactions import outcomes

    spark.dataSource.register(SegmentsDataSource)
    reader = spark.read.format(FORMAT)
    rest_path = f"{out}/rest"
    reader.option("kind", "rest").load(str(root)).write.mode("overwrite").parquet(rest_path)
    ends = outcomes(spark.read.parquet(rest_path))
    commits = reader.option("kind", "commits").load(str(root)).transform(offset_commits(ends))
    commits.write.mode("overwrite").partitionBy("day").parquet(f"{out}/offset_commits")


def every_table(spark: Any, root: Path, out: Path) -> None:
    """Make every table."""
    from groupsdk.history.job import Inputs, run
    from groupsdk.history.sources.segments import FORMAT

    reader = spark.read.format(FORMAT)
    commits = reader.option("kind", "commits").load(str(root))
    rest = reader.option("kind", "rest").load(str(root))
    run(spark, Inputs(commits, rest), str(out))


def main(records: int) -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory(prefix="history-bench-") as scratch:
        base = Path(scratch)
        root, small = base / "log", base / "small"
        count = write_log(root, records)
        write_log(small, WARM)
        size = sum(path.stat().st_size for path in root.glob("*/*.log"))
        print(f"{count:,} records, {size / 1e6:.0f} MB", flush=True)
        kernel(small)
        rates = [measured(lambda: kernel(root)) for _ in range(ROUNDS)]
        show("kernel", statistics.median(rate for rate, _ in rates), min(wall for _, wall in rates))
        spark = spark_session()
        to_parquet(spark, small, base / "warm")

        def parquet() -> int:
            to_parquet(spark, root, base / "out")
            return count

        rates = [measured(parquet) for _ in range(ROUNDS)]
        show("to Parquet", statistics.median(rate for rate, _ in rates), min(w for _, w in rates))
        every_table(spark, small, base / "tables-small")

        def tables() -> int:
            every_table(spark, root, base / "tables")
            return count

        show("every table", *measured(tables))
        print(f"largest Python worker: {peak_worker_mb(os.getpid()):.0f} MB", flush=True)
        spark.stop()
        for name, options in (
            ("DumpLogSegments", ()),
            ("without records", ("--skip-record-metadata",)),
        ):
            used, wall_s, printed = dump(root, *options)
            show(f"{name} ({printed / 1e6:.0f} MB)", count / used, wall_s)


def show(name: str, rate: float, wall_s: float) -> None:
    """Print a line."""
    print(f"{name:32} {rate / 1000:8.0f} k/cpu-s {wall_s:8.1f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
