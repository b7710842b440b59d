"""What the local engine reads besides segment files: a live topic, an archive, brokers' logs."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from pyarrow import parquet

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.main import main
from groupsdk.clock import Deadline, SystemClock
from groupsdk.consumer import GroupConsumer
from groupsdk.errors import ConfigError
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.local import run
from groupsdk.history.sources.archive_files import SINK_LOG, archive_tasks
from groupsdk.history.sources.broker_log_lines import read_log_files
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.sources.topic_ranges import topic_tasks
from groupsdk.history.tables.delta_tables import opened
from tests.history.expected_tables import LOGS, digests, rows_of
from tests.history.lakes import delta_rows, parquet_rows
from tests.history.sample import BROKER_LOG, expected_generations


def archived(root: Path, log: Path, *, sink_log: bool = True) -> Path:
    """Write an archive of a log as Spark's sink does: several files a day, and one that was never completed."""
    folder = root / "an archive" / "raw_records"
    added = []
    for number, task in enumerate(segment_tasks(str(log))):
        batches = [piece for batch in task.raw() for piece in halves(batch)]
        for piece, batch in enumerate(batches):
            day = folder / "day=2026-11-21"
            day.mkdir(parents=True, exist_ok=True)
            path = day / f"part-{number:05}-{piece}.zstd.parquet"
            plain = batch.remove_column(batch.schema.get_field_index("day"))
            parquet.write_table(pa.Table.from_batches([plain]), path)
            added.append(path)
    if sink_log:
        write_sink_log(folder, added)
        stray = folder / "day=2026-11-21" / "part-99999-stray.zstd.parquet"
        stray.write_bytes(added[0].read_bytes())
    return folder.parent


def halves(batch: Any) -> Iterator[Any]:
    """Cut a batch in two, out of order."""
    middle = batch.num_rows // 2
    yield from (each for each in (batch.slice(middle), batch.slice(0, middle)) if each.num_rows)


def write_sink_log(folder: Path, files: list[Path]) -> None:
    """Write what Spark's sink keeps of the files that are complete: a summary, and what came after it."""
    log = folder / SINK_LOG
    log.mkdir()
    lines = [
        json.dumps({"path": f"file://{quote(str(each))}", "size": 1, "action": "add"})
        for each in files
    ]
    (log / "9.compact").write_text("\n".join(["v1", *lines[:1]]), encoding="utf-8")
    (log / "8").write_text("v1\nthat was summed up", encoding="utf-8")
    for number, line in enumerate(lines[1:], 10):
        (log / str(number)).write_text(f"v1\n{line}", encoding="utf-8")


@pytest.mark.parametrize("name", ["transactions", "protocols"])
def test_an_archive_makes_the_tables_of_its_segments(name: str, tmp_path: Path) -> None:
    log = LOGS[name](tmp_path / "log")
    run(segment_tasks(str(log)), str(tmp_path / "of segments"))
    run(archive_tasks(str(archived(tmp_path, log))), str(tmp_path / "of archive"))
    assert digests(tmp_path / "of archive") == digests(tmp_path / "of segments")


def test_files_are_an_archive_without_a_sinks_log_as_well(tmp_path: Path) -> None:
    archive = archived(tmp_path, LOGS["transactions"](tmp_path / "log"), sink_log=False)
    assert archive_tasks(str(archive))


def test_an_archive_that_is_none_or_has_lost_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no archive"):
        archive_tasks(str(tmp_path))
    archive = archived(tmp_path, LOGS["transactions"](tmp_path / "log"))
    next(archive.rglob("part-00000-0.*")).unlink()
    with pytest.raises(ConfigError, match="has lost"):
        archive_tasks(str(archive))


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker with something in its log, and where that is."""

    bootstrap_servers: str
    data_dir: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One whose group had two members, which committed."""
    data_dir = tmp_path_factory.mktemp("broker")
    with EmbeddedBroker(data_dir=data_dir, topics={"orders": 4}) as broker:
        for offset in (1, 2):
            consumer = GroupConsumer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "group.id": "workers",
                    "client.id": f"client-{offset}",
                    "enable.auto.commit": False,
                }
            )
            consumer.subscribe("orders")
            deadline = Deadline(SystemClock(), 120_000)
            while not consumer.assignment():
                assert not deadline.expired, "the member got no partitions"
                consumer.poll(0.05)
            consumer.commit(offsets=[TopicPartition("orders", 1, offset)], asynchronous=False)
            consumer.close()
        yield Cluster(broker.bootstrap_servers, data_dir)


def test_a_live_topic_makes_the_tables_of_its_segments(cluster: Cluster, tmp_path: Path) -> None:
    tasks = topic_tasks({"bootstrap.servers": cluster.bootstrap_servers})
    assert tasks
    assert all(task.size > 0 for task in tasks)
    run(tasks, str(tmp_path / "live"), processes=2)
    run(segment_tasks(str(cluster.data_dir)), str(tmp_path / "segments"))
    assert digests(tmp_path / "live") == digests(tmp_path / "segments")
    assert {dict(row)["client_id"] for row in rows_of(tmp_path / "live" / "memberships")} == {
        "client-1",
        "client-2",
    }


def test_a_live_topic_is_archived_and_followed_in_delta_tables(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = str(tmp_path / "lake")
    name = ["--cluster", "prod-eu"]
    live = [*("--bootstrap-servers", cluster.bootstrap_servers, "--once", "--quiet"), *name]
    delta = ["--out", lake, "--format", "delta", "--engine", "local"]
    for _ in range(2):
        assert main(["history", "archive", *live, *delta, "--max-offsets", "5"]) == 0
    raw = opened(lake, "raw_records")
    # of the second time there is nothing
    tasks = topic_tasks({"bootstrap.servers": cluster.bootstrap_servers})
    assert raw.version() <= -(-max(task.range.end for task in tasks) // 5)
    words = ["--archive", lake, "--engine", "local", "--quiet", "--no-report", *name]
    for out in ("read", "segments"):
        source = words if out == "read" else ["--segments", str(cluster.data_dir), *words[2:]]
        assert main(["history", "run", *source, "--out", str(tmp_path / out)]) == 0
    assert digests(tmp_path / "read") == digests(tmp_path / "segments")
    capsys.readouterr()
    for expected in (["workers"], []):
        assert main(["history", "alert", *live, *delta]) == 0
        alerts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [each["group_id"] for each in alerts] == expected
    # there is nothing new
    assert main(["history", "follow", *live, *delta]) == 0
    assert main(["history", "report", "--out", lake, "--quiet"]) == 0
    assert "workers" in (tmp_path / "lake/report.html").read_text(encoding="utf-8")
    followed, once = delta_rows(tmp_path / "lake", "prod-eu"), parquet_rows(tmp_path / "segments")
    # a live cluster names all of its topics
    assert {*followed.pop("topics")} > {*once.pop("topics")}
    assert followed == once


def test_the_command_follows_what_brokers_write(cluster: Cluster, tmp_path: Path) -> None:
    run(topic_tasks({"bootstrap.servers": cluster.bootstrap_servers}), str(tmp_path / "once"))
    rows = [dict(row) for row in rows_of(tmp_path / "once" / "generations")]
    # Kafka writes whole milliseconds into both, and the reason first
    lines = [
        f"[{row['ts']:%Y-%m-%d %H:%M:%S},{row['ts'].microsecond // 1000:03}] Preparing to rebalance group"
        f" {row['group_id']} in state Empty with old generation {row['generation'] - 1} (reason: for the test)."
        for row in rows
    ]
    log = tmp_path / "server.log"
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = ["--bootstrap-servers", cluster.bootstrap_servers, "--out", str(tmp_path / "out")]
    more = ["--engine", "local", "--once", "--quiet", "--broker-log", str(log)]
    assert main(["history", "follow", *words, *more]) == 0
    told = {
        dict(row)["generation"]: dict(row)["reason"]
        for row in rows_of(tmp_path / "out" / "generations")
    }
    # no rebalance makes the empty group
    assert told.pop(0, None) is None
    assert set(told.values()) == {"for the test"}


def test_reasons_of_the_sample_are_read_from_log_files() -> None:
    found = {
        (each.group_id, each.generation): each.reason
        for each in read_log_files(str(BROKER_LOG))
        if isinstance(each, LoggedReason)
    }
    expected = {
        (row["group_id"], row["generation"]): row["reason"]
        for row in expected_generations()
        if row.get("reason") is not None
    }
    assert expected.items() <= found.items()


def test_broker_log_entries_are_added_to_the_tables(tmp_path: Path) -> None:
    log = LOGS["sample"](tmp_path / "log")
    run(segment_tasks(str(log)), str(tmp_path / "out"), broker_logs=read_log_files(str(BROKER_LOG)))
    rows = [dict(row) for row in rows_of(tmp_path / "out" / "generations")]
    of_broker = [row for row in rows if row["evidence"] == "broker_log"]
    assert len(of_broker) > len(rows) / 2
    assert all(row["reason"] for row in of_broker)


def test_a_line_counts_once_and_in_its_time_zone(tmp_path: Path) -> None:
    line = (
        "[2026-07-01 12:00:00,007] [GroupCoordinator id=1] Preparing to rebalance group g in state Stable"
        " with old generation 6 (reason: Adding new member m with group instance id null)."
    )
    with gzip.open(tmp_path / "server.log.gz", "wt", encoding="utf-8") as file:
        file.write(f"{line}\n")
    (tmp_path / "server.log").write_text(f"{line}\nno line of a group\n", encoding="utf-8")
    logs = str(tmp_path / "server.log*")
    (reason,) = read_log_files(logs, zone="Europe/Berlin")
    assert isinstance(reason, LoggedReason)
    assert (reason.group_id, reason.generation, reason.cause) == ("g", 7, "join")
    assert reason.ts_ms == 1_782_900_000_007
    assert read_log_files(logs, zone="UTC")[0].ts_ms == 1_782_907_200_007


@pytest.mark.parametrize(
    ("path", "zone", "message"),
    [("nowhere/*.log", "UTC", "no broker log"), (".", "Mars/North", "no time zone")],
)
def test_missing_broker_log_or_zone_is_refused(path: str, zone: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_log_files(path, zone=zone)
