"""A live `__consumer_offsets` of a real broker, read without a group: as a batch, as a stream, and as files."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk.errors import BrokerError, ConfigError
from groupsdk.history.follow.archive import archive, read_archive, read_raw, read_stream
from groupsdk.history.job import Inputs, Options, run
from groupsdk.history.sources.spark_segments import read_segments
from groupsdk.history.sources.spark_topic import FORMAT, TopicDataSource, read_topic
from groupsdk.history.sources.topic_reader import DataLossError, TopicReader
from groupsdk.testing import LocalKafka
from tests.spark.reading import read_raw_segments
from tests.support.workers import eventually


PARTITIONS = 3
_PROPERTIES = {"offsets.topic.num.partitions": str(PARTITIONS), "log.cleaner.enable": "false"}


@pytest.fixture(scope="module")
def broker(kafka_installed: None) -> Any:
    """A broker of a few partitions with two groups, one of them transactional."""
    with LocalKafka(properties=_PROPERTIES) as kafka:
        make_history(kafka.bootstrap_servers)
        yield kafka


def make_history(bootstrap_servers: str) -> None:
    """Let a consumer come, commit and go, and a producer commit and abort offsets in transactions."""
    servers: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("jobs", 4, 1)])["jobs"].result(30)
    consumer = Consumer({**servers, "group.id": "workers", "enable.auto.commit": False})
    consumer.subscribe(["jobs"])
    while not consumer.assignment():
        consumer.poll(0.1)
    for number in range(5):
        offsets = [TopicPartition("jobs", each, number) for each in range(4)]
        consumer.commit(offsets=offsets, asynchronous=False)
    metadata = consumer.consumer_group_metadata()
    producer = Producer({**servers, "transactional.id": "etl"})
    producer.init_transactions(30)
    for number, finish in ((100, producer.commit_transaction), (200, producer.abort_transaction)):
        producer.begin_transaction()
        offsets = [TopicPartition("jobs", 0, number)]
        producer.send_offsets_to_transaction(offsets, metadata, 30)
        finish(30)
    consumer.close()
    _await_quiet(admin, servers)


def _await_quiet(admin: AdminClient, servers: dict[str, Any]) -> None:
    """Wait until no record follows by itself: tests compare two readings of the log.

    The brokers write the markers of a transaction after they have answered its end, and a group's last record
    after the member that left.
    """
    # refused until the markers of the last transaction are written
    Producer({**servers, "transactional.id": "etl"}).init_transactions(30)
    eventually(
        lambda: (
            admin.describe_consumer_groups(["workers"])["workers"].result(30).state
            is ConsumerGroupState.EMPTY
        )
    )


def options(kafka: LocalKafka, **more: str) -> dict[str, str]:
    """Name the broker, and what else is asked for."""
    return {"bootstrap.servers": kafka.bootstrap_servers, **more}


def batch(spark: Any, kafka: LocalKafka, **more: str) -> Any:
    """Read the topic once."""
    spark.dataSource.register(TopicDataSource)
    return spark.read.format(FORMAT).options(**options(kafka, **more)).load()


def ends(kafka: LocalKafka) -> dict[int, int]:
    """Look up where the partitions end."""
    with TopicReader(options(kafka)) as reader:
        there = reader.partitions("__consumer_offsets")
        spans = reader.spans("__consumer_offsets", there)
        return {each: span.end for each, span in spans.items()}


def rows(frame: Any) -> set[tuple[Any, ...]]:
    """Collect what tells records apart, and what is in them."""
    names = ("src_partition", "src_offset", "ts", "producer_id", "control", "key", "value")
    return {tuple(map(plain, row)) for row in frame.select(*names).collect()}


def plain(value: Any) -> Any:
    """Make bytes of what Spark gives for them."""
    return bytes(value) if isinstance(value, bytearray) else value


def test_a_topic_is_read_whole_and_nothing_is_written_to_it(spark: Any, broker: LocalKafka) -> None:
    before = ends(broker)
    assert len(before) == PARTITIONS
    found = rows(batch(spark, broker))
    assert ends(broker) == before
    assert len(found) == sum(before.values())
    assert {partition for partition, *_ in found} == {p for p, end in before.items() if end}


def test_the_files_of_the_broker_hold_the_same(spark: Any, broker: LocalKafka) -> None:
    files = read_raw_segments(spark, Path(broker.directory))
    assert rows(batch(spark, broker)) == rows(files)


def test_a_live_topic_its_archive_and_its_files_make_the_same_tables(
    spark: Any, broker: LocalKafka, tmp_path: Path
) -> None:
    ways = {
        "live": read_topic(spark, options(broker)),
        "raw": read_raw(batch(spark, broker)),
        "files": read_segments(spark, str(broker.directory)),
    }
    made = {
        name: run(spark, Inputs(records), str(tmp_path / name), Options(assignors=("range",)))
        for name, records in ways.items()
    }
    for name in ("offset_commits", "generations", "memberships", "commit_spans"):
        live, raw, files = (sorted(map(str, each[name].collect())) for each in made.values())
        assert live
        assert raw == files == live
    commits = made["live"]["offset_commits"].filter("committed_offset >= 100").collect()
    states = {row.committed_offset: row.state for row in commits}
    assert states == {100: "committed", 200: "aborted"}


def test_some_offsets_of_some_partitions_are_read(spark: Any, broker: LocalKafka) -> None:
    partition, end = max(ends(broker).items(), key=lambda each: each[1])
    chosen = batch(
        spark,
        broker,
        partitions=str(partition),
        startingOffsets=f'{{"{partition}": 3}}',
        endingOffsets=f'{{"{partition}": {end - 2}}}',
    )
    offsets = sorted(row.src_offset for row in chosen.select("src_offset").collect())
    assert offsets == list(range(3, end - 2))
    assert batch(spark, broker, startingOffsets="latest").count() == 0


def test_an_archive_has_each_record_once_however_often_it_is_started(
    spark: Any, broker: LocalKafka, tmp_path: Path
) -> None:
    out = str(tmp_path / "archive")
    archive(read_stream(spark, options(broker, max_offsets="5")), out, once=True).awaitTermination()
    expected = rows(batch(spark, broker))
    assert rows(read_archive(spark, out)) == expected
    make_more(broker)
    archive(read_stream(spark, options(broker)), out, once=True).awaitTermination()
    again = read_archive(spark, out)
    assert rows(again) == rows(batch(spark, broker)) > expected
    assert again.count() == len(rows(again))


def make_more(kafka: LocalKafka) -> None:
    """Commit a little more."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "late"})
    consumer.commit(offsets=[TopicPartition("jobs", 1, 7)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"partitions": "0,99"}, "no partitions"),
        ({"partitions": "first"}, "partitions must be numbers"),
        ({"startingOffsets": "yesterday"}, "earliest"),
        ({"kind": "cooked"}, "raw, read"),
        ({"kafka.sesion.timeout.ms": "5"}, "session.timeout.ms"),
    ],
)
def test_an_option_that_is_wrong_says_so(
    spark: Any, broker: LocalKafka, more: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        batch(spark, broker, **more).count()


def test_unknown_topic_or_partition_is_refused(broker: LocalKafka) -> None:
    with TopicReader(options(broker)) as reader:
        with pytest.raises(BrokerError, match="no-such-topic"):
            reader.partitions("no-such-topic")
        with pytest.raises(ConfigError, match="has no partition 9"):
            list(reader.read("__consumer_offsets", 9, 0, 1))
        with pytest.raises(DataLossError, match="deleted"):
            list(reader.read("__consumer_offsets", 0, 10**9, 10**9 + 1))
        assert "jobs" in reader.topic_ids().values()
