"""Follow an archive while processes of it are killed, and compare the tables with those of one run.

    python -m tests.spark.following_kills --seeds 5           # `make history-kills SEEDS=5`
    python -m tests.spark.following_kills --format delta      # into Delta tables
    python -m tests.spark.following_kills --run ARCHIVE OUT   # what is killed

Whatever the seed chooses dies at a step that the seed chooses: the driver's Python, the JVM, a Python worker or an executor, or all
of them together. What is left of them may go on writing for a while, as on a real cluster. Then the next one starts.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from groupsdk.history import local
from groupsdk.history.pipeline import Options
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stage_files import StageFiles
from groupsdk.testing.watchdog import WATCHDOG
from tests.history.expected_tables import LOGS, digests
from tests.history.follow.log_parts import RawTask, pieces, raw_of
from tests.history.lakes import DELTA, PLAIN, delta_rows, parquet_rows


FORMATS: Final = {"parquet": PLAIN, "delta": DELTA}
LOCAL: Final = "local[2,4]"
"""A task that fails is tried again, as on a cluster."""
EXECUTORS: Final = "local-cluster[2,1,640]"
"""Two executors, each a process of its own."""
VICTIMS: Final = ("driver", "jvm", "worker", "executor", "all")
_STEP: Final = "step "


def add(archive: Path, number: int, rows: Any) -> None:
    """Write raw records as another file of an archive."""
    whole = rows.select(TABLES["raw_records"].arrow_schema.names)
    StageFiles(fs.LocalFileSystem(), str(archive), f"part-{number}").write(
        ("raw_records", batch) for batch in whole.to_batches()
    )


def run(archive: str, out: str, master: str, options: Options) -> None:
    """Follow an archive to its end, a file or so at a time, and tell of each step."""
    from groupsdk.history.follow.stream import catch_up, in_tasks
    from groupsdk.history.follow.updater import Updater
    from groupsdk.history.session import build_session

    settings = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    if master == EXECUTORS:
        settings |= {"spark.executor.memory": "512m", "spark.driver.memory": "512m"}
    spark = build_session(master=master, brief=True, settings=settings)
    spark.sparkContext.setLogLevel("OFF")
    updater = Updater(out, "the archive", options, each=in_tasks(spark), buckets=2)

    def tell(name: str, done: int, steps: int) -> None:
        sys.stdout.write(f"{_STEP}{updater.state.update} {name} {done}/{steps}\n")
        sys.stdout.flush()

    with closing(updater):
        catch_up(spark, archive, updater, at_once=1, progress=tell)
    spark.stop()


def survive(
    root: Path, seed: int, kills: int, *, log: str, master: str, table_format: str = "parquet"
) -> list[str]:
    """Follow an archive through kills; returns what was killed.

    Args:
        seed: chooses the pieces of the log, whom to kill, and when.
        log: one of `expected_tables.LOGS`.
        table_format: one of `FORMATS`.

    Raises:
        AssertionError: the tables are not those of one run.
    """
    random = Random(seed)
    raw = raw_of(LOGS[log](root / "log"))
    archive, out = root / "archive", root / "out"
    parts = pieces(raw, 4, seed)
    for number, rows in enumerate(parts):
        add(archive, number, rows)
        # in the order in which an archive writes them
        for file in archive.rglob(f"part-{number}-*.parquet"):
            os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    told = []
    while True:
        victim = random.choice(VICTIMS) if kills else ""
        steps = random.randrange(10)
        words = [str(archive), str(out), "--master", master, "--format", table_format]
        ended, status = _start(words, victim, steps)
        if victim and ended:
            told.append(f"{victim} at {ended}")
            kills -= 1
        if status == 0:
            break
        assert victim, f"it failed with {status} though nothing was killed"
    local.run([RawTask(pa.concat_tables(parts))], str(root / "once"), FORMATS["parquet"])
    found, expected = _tables(out, root / "once", table_format)
    differing = {name for name in expected if found[name] != expected[name]}
    assert not differing, f"seed {seed}, {told}: {sorted(differing)} differ"
    return told


def _tables(
    out: Path, once: Path, table_format: str
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    if table_format == "delta":
        return delta_rows(out), parquet_rows(once)
    return digests(out), digests(once)


def _start(words: Sequence[str], victim: str, steps: int) -> tuple[str, int]:
    """Follow once; returns where the victim died, "" if nobody did, and the process' status."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.following_kills", "--run", *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "SPARK_SCALA_VERSION": "2.13"},
    )
    WATCHDOG.watch(process.pid)
    died = ""
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if not line.startswith(_STEP):
                continue
            steps -= 1
            if victim and steps < 0 and not died and _kill(process.pid, victim):
                died = line.strip()
        return died, process.wait()
    finally:
        _signal([process.pid, *_below(process.pid)])
        process.wait()
        process.stdout.close()
        WATCHDOG.forget(process.pid)


def _kill(driver: int, victim: str) -> bool:
    below = list(_below(driver))
    names = {pid: _command(pid) for pid in below}
    jvms = [pid for pid, name in names.items() if "SparkSubmit" in name]
    executors = [pid for pid, name in names.items() if "CoarseGrainedExecutorBackend" in name]
    chosen = {
        "driver": [driver],
        "jvm": jvms,
        "worker": [pid for pid, name in names.items() if "pyspark" in name and "java" not in name],
        "executor": executors[:1] or jvms,
        "all": [driver, *below],
    }[victim]
    return _signal(chosen)


def _signal(pids: list[int]) -> bool:
    found = False
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            found = True
        except ProcessLookupError:
            continue
    return found


def _below(pid: int) -> Iterator[int]:
    """List the processes that a process has started, with theirs."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from _below(child)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs=2, metavar=("ARCHIVE", "OUT"))
    parser.add_argument("--master", default=LOCAL)
    parser.add_argument("--format", choices=FORMATS, default="parquet")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    if options.run:
        archive, out = options.run
        run(archive, out, options.master, FORMATS[options.format])
        return
    logs = [name for name in LOGS if name not in ("simulated", "bad input")]
    for seed in range(options.first, options.first + options.seeds):
        master = EXECUTORS if seed % 2 else LOCAL
        with tempfile.TemporaryDirectory() as scratch:
            told = survive(
                Path(scratch),
                seed,
                options.kills,
                log=logs[seed % len(logs)],
                master=master,
                table_format=options.format,
            )
        said = f"seed {seed}, {options.format}, {master}: the same tables after {'; '.join(told)}"
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
