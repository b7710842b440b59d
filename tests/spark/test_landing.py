"""A log read at once, held against the same log read kind by kind."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.history import job
from groupsdk.history.job import Inputs, Options, _Run, _silent, run
from groupsdk.history.schemas import TABLES
from groupsdk.history.sources.broker_log import read_broker_log
from groupsdk.history.sources.segments import land_segments
from groupsdk.history.tables.commits import commit_spans
from groupsdk.history.tables.following import GENERATION, events, of_kind
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch
from tests.history.sample import BROKER_LOG, SEGMENTS
from tests.spark.reading import plain, read_segments, topic_names


START_MS = 1_790_899_200_000
DAY_MS = 86_400_000


def write_log(root: Path) -> None:
    """Write commits of two groups over three days, with and without transactions, and a clock astray."""
    with LogWriter(root, 4, batch_records=7, segment_bytes=3000) as log:
        for number in range(60):
            now = START_MS + number * DAY_MS // 20
            group = f"g{number % 2}"
            if number % 10 in (0, 1):
                seats = {f"m{number}": Seat("c", {"t": [0, 1, 2]})}
                log.append(now, generation(group, number // 10 + 1, seats, ts_ms=now))
            log.append(now, *(commit(group, "t", n, 10 * number + n, now) for n in range(3)))
            log.append(now, (commit(group, "t", 0, 0)[0], None))
        log.append(-1, commit("g0", "t", 1, 7, -1))
        log.flush()
        offset = log.offset
        with (log.folder / f"{offset:020}.log").open("wb") as file:
            for producer, committed in ((5, True), (6, False), (7, None)):
                pairs = [commit("tx", "t", n, producer, START_MS) for n in range(2)]
                records = [Record(offset + n, START_MS, *pair) for n, pair in enumerate(pairs)]
                file.write(build_batch(records, offset, 0, producer, 0, transactional=True))
                offset += 2
                if committed is not None:
                    file.write(
                        build_marker(
                            producer,
                            0,
                            committed=committed,
                            coordinator_epoch=0,
                            timestamp_ms=START_MS,
                            base_offset=offset,
                        )
                    )
                    offset += 1


def read(spark: Any, root: Path, out: Path, *, at_once: bool) -> dict[str, Any]:
    """Read a log one way; gives the tables that are made of its commits."""
    inputs = Inputs(
        read_segments(spark, root, "commits"),
        read_segments(spark, root, "rest"),
        land=land_segments(spark, str(root)) if at_once else None,
    )
    found = _Run(spark, str(out), Options(), _silent).read(inputs)
    counted = events(found.rest).transform(of_kind(GENERATION))
    return {
        "offset_commits": found.commits,
        "commit_spans": found.parts.transform(commit_spans(counted)),
        "rest": found.rest,
    }


@pytest.fixture(scope="module")
def both(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    """The same log read both ways, the first time in the place of an earlier run."""
    base = tmp_path_factory.mktemp("landing")
    write_log(base / "log")
    leftover = base / "at-once" / "offset_commits" / "day=2000-01-01"
    leftover.mkdir(parents=True)
    (leftover / "part-0.parquet").write_bytes(b"of a former run")
    first = read(spark, base / "log", base / "at-once", at_once=True)
    second = read(spark, base / "log", base / "by-kind", at_once=False)
    return first, second, base / "at-once"


@pytest.mark.parametrize("name", ["offset_commits", "commit_spans", "rest"])
def test_it_comes_to_the_same(both: tuple[Any, Any, Path], name: str) -> None:
    first, second, _ = both
    assert first[name].schema == second[name].schema
    found = plain(first[name], *first[name].columns)
    assert found == plain(second[name], *second[name].columns)
    assert len(found) == {"offset_commits": 247, "commit_spans": 38, "rest": 14}[name]


def test_what_was_committed_in_transactions_has_the_state_that_it_came_to(
    both: tuple[Any, Any, Path],
) -> None:
    rows = both[0]["offset_commits"].filter(f.col("group_id") == "tx")
    assert plain(rows, "committed_offset", "state") == [
        *[(5, "committed")] * 2,
        *[(6, "aborted")] * 2,
        *[(7, "pending")] * 2,
    ]


def test_days_have_their_folders_and_nothing_unfinished_is_left(
    both: tuple[Any, Any, Path],
) -> None:
    folder = both[2] / "offset_commits"
    days = {each.name for each in folder.glob("day=*")}
    assert days == {
        *("day=2026-10-02", "day=2026-10-03", "day=2026-10-04"),
        "day=__HIVE_DEFAULT_PARTITION__",
    }
    assert not [each for each in folder.rglob(".part*") if not each.name.endswith(".crc")]


def sample(spark: Any, out: Path, *, land: bool) -> dict[str, Any]:
    """Make every table of the sample."""
    inputs = Inputs(
        read_segments(spark, SEGMENTS, "commits"),
        read_segments(spark, SEGMENTS, "rest"),
        topics=topic_names(spark),
        reasons=read_broker_log(spark, str(BROKER_LOG)),
        land=land_segments(spark, str(SEGMENTS)) if land else None,
    )
    return dict(run(spark, inputs, str(out)))


@pytest.fixture(scope="module")
def other_ways(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The tables as the command makes them, which reads at once; and where pyarrow cannot write to the place."""
    base = tmp_path_factory.mktemp("ways")
    at_once = sample(spark, base / "at-once", land=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "made_empty", lambda *_: None)
        return [at_once, sample(spark, base / "by-spark", land=True)]


@pytest.mark.parametrize("name", [name for name in TABLES if name != "raw_records"])
def test_the_whole_job_makes_the_same_tables_whoever_writes_them(
    name: str, other_ways: list[dict[str, Any]], sample_tables: dict[str, Any]
) -> None:
    expected = sample_tables[name]
    rows = plain(expected, *expected.columns)
    assert bool(rows) == (name not in ("rejects", "storms"))
    for tables in other_ways:
        assert tables[name].schema == expected.schema
        assert plain(tables[name], *expected.columns) == rows
