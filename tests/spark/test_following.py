"""Tables that a structured stream keeps up to date, held against those of one run over the same log."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pytest_mock import MockerFixture

from groupsdk.cli import history_following
from groupsdk.cli.main import main
from groupsdk.history import local
from groupsdk.history.follow.archive import read_stream
from groupsdk.history.follow.stream import catch_up, follow, in_tasks
from groupsdk.history.follow.updater import Updater
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.broker_log_lines import read_log_files
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.sources.topic_reader import TopicReader
from groupsdk.testing import LocalKafka
from tests.history.expected_tables import LOGS, digests, rows_of
from tests.history.follow.log_parts import RawTask, pieces, raw_of
from tests.spark.following_kills import LOCAL, add, survive


FEW = Options(assignors=("sticky",))


def updater(spark: Any, out: Path, names: Sequence[tuple[str, str]] = ()) -> Updater:
    """Open the tables, as a process that starts does."""
    each = in_tasks(spark)
    return Updater(str(out), "the archive", FEW, each=each, names=lambda: names, buckets=2)


def test_a_run_over_an_archive_goes_on_where_the_one_before_ended(
    spark: Any, tmp_path: Path
) -> None:
    raw = raw_of(LOGS["protocols"](tmp_path / "log"))
    archive, out = tmp_path / "archive", tmp_path / "out"
    parts = pieces(raw, 3, 1)
    updates = []
    for number, rows in enumerate(parts[:2]):
        add(archive, number, rows)
        found = updater(spark, out)
        catch_up(spark, str(archive), found)
        updates.append(found.state.update)
        found.close()
    local.run([RawTask(pa.concat_tables(parts[:2]))], str(tmp_path / "two"), FEW)
    assert digests(out) == digests(tmp_path / "two")
    # nothing new, nothing done
    idle = updater(spark, out)
    catch_up(spark, str(archive), idle)
    idle.close()
    assert [*updates, idle.state.update] == [1, 2, 2]
    add(archive, 2, parts[2])
    catch_up(spark, str(archive), updater(spark, out))
    local.run([RawTask(raw)], str(tmp_path / "all"), FEW)
    assert digests(out) == digests(tmp_path / "all")


def test_transactions_whose_files_come_in_the_wrong_order_are_read_again(
    spark: Any, tmp_path: Path
) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    archive, out = tmp_path / "archive", tmp_path / "out"
    late = raw.filter(raw.column("transactional"))
    add(archive, 0, late.slice(2))
    with closing(updater(spark, out)) as first:
        catch_up(spark, str(archive), first)
    add(archive, 1, raw.filter(pa.compute.invert(raw.column("transactional"))))
    add(archive, 2, late.slice(0, 2))
    with closing(updater(spark, out)) as second:
        catch_up(spark, str(archive), second)
    local.run([RawTask(raw)], str(tmp_path / "once"), FEW)
    assert digests(out) == digests(tmp_path / "once")


@pytest.fixture(scope="module")
def broker(kafka_installed: None) -> Any:
    """A broker of a few partitions."""
    properties = {"offsets.topic.num.partitions": "3", "log.cleaner.enable": "false"}
    with LocalKafka(properties=properties, log=True) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic("jobs", 2, 1)])["jobs"].result(30)
        yield kafka


def options_of(kafka: LocalKafka) -> dict[str, str]:
    """Name the broker."""
    return {"bootstrap.servers": kafka.bootstrap_servers}


def work(kafka: LocalKafka, group: str) -> None:
    """Let a consumer come, commit and go."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["jobs"])
    while not consumer.assignment():
        consumer.poll(0.1)
    for number in range(3):
        consumer.commit(offsets=[TopicPartition("jobs", 0, number)], asynchronous=False)
    consumer.close()


def test_a_live_topic_is_followed_by_spark_and_without_it(
    spark: Any, broker: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**options_of(broker), "max_offsets": "7"}
    streamed, alone = tmp_path / "streamed", tmp_path / "alone"
    words = ("--bootstrap-servers", broker.bootstrap_servers, "--once", "--quiet", "--max-offsets")
    for group in ("one", "two"):
        work(broker, group)
        with TopicReader(options_of(broker)) as live:
            names = sorted(live.topic_ids().items())
        found = updater(spark, streamed, names)
        follow(read_stream(spark, options), found).awaitTermination()
        found.close()
        command = ("history", "follow", "--engine", "local", "--out", str(alone), *words, "20")
        assert main([*command, "--assignors", "sticky"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"{alone}/report.html"
        once = tmp_path / f"once-{group}"
        local.run(segment_tasks(str(broker.directory)), str(once), FEW, names=names)
        assert digests(streamed) == digests(alone) == digests(once)
    # the consumers are gone, and it is said once
    capsys.readouterr()
    for expected in (["one", "two"], []):
        alert = ("history", "alert", "--out", str(alone), *words, "20", "--assignors", "sticky")
        assert main(list(alert)) == 0
        alerts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        found_without = [each["group_id"] for each in alerts if each["rule"] == "no_owner"]
        # the broker has the groups of other tests as well
        assert [each for each in found_without if each in ("one", "two")] == expected


def test_spark_reads_what_a_broker_logs_as_it_follows(
    spark: Any,
    broker: LocalKafka,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mocker: MockerFixture,
) -> None:
    # the command would stop the session, which other tests share
    mocker.patch.object(history_following, "start_session", return_value=spark)
    stopped = mocker.patch.object(spark, "stop")
    log = broker.nodes[0].log_file
    out, once = tmp_path / "out", tmp_path / "once"
    words = ("--engine", "spark", "--bootstrap-servers", broker.bootstrap_servers, "--once")
    options = (*words, "--out", str(out), "--broker-log", str(log), "--assignors", "sticky")
    for number, command in enumerate(("follow", "alert", "alert")):
        if number < 2:
            work(broker, f"logged-{number}")
        more = ("--no-report", "--max-offsets", "7", "--quiet")
        assert main(["history", command, *options, *more]) == 0
        with TopicReader(options_of(broker)) as live:
            names = sorted(live.topic_ids().items())
        local.run(
            segment_tasks(str(broker.directory)),
            str(once),
            FEW,
            names=names,
            broker_logs=read_log_files(str(log)),
        )
        assert digests(out) == digests(once), number
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        groups = {each["group_id"] for each in told if each["rule"] == "no_owner"}
        assert groups >= ({"logged-0", "logged-1"} if number == 1 else set()), number
        assert number == 1 or not told
    assert stopped.call_count == 3
    generations = [dict(each) for each in rows_of(out / "generations")]
    found = [each for each in generations if each["group_id"] == "logged-1" and each["n_members"]]
    assert [each["evidence"] for each in found] == ["broker_log"]
    assert all(each["reason"] for each in found)


def test_the_tables_are_the_same_after_kills(tmp_path: Path) -> None:
    # `make history-kills` goes on with more seeds, and with executors of their own
    told = survive(tmp_path, 1, 2, log="transactions", master=LOCAL)
    assert len(told) == 2
