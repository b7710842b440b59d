"""A real Kafka and we take turns with one data directory."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from groupsdk.broker.log.directory import LogDirectory
from groupsdk.broker.log.files import DiskFiles
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.clock import WallClock
from groupsdk.testing import LocalKafka
from tests.broker.log.logs import batch, pairs, read_all
from tests.support.brokers import STEADY
from tests.support.topics import create_topic


TOPIC = "turns"
ROLL = {"segment.bytes": str(1024 * 1024)}
_TIMEOUT_S = 60.0


def written(kafka: LocalKafka) -> list[bytes]:
    """Writes committed and aborted transactions of several segments; returns what is committed."""
    random = Random(0)
    create_topic(kafka.bootstrap_servers, TOPIC, config=ROLL)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": "x",
            "compression.type": "lz4",
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    committed = []
    for number in range(8):
        producer.begin_transaction()
        values = [b"%d-%d-" % (number, each) + random.randbytes(200_000) for each in range(2)]
        for value in values:
            producer.produce(TOPIC, value, key=b"%d" % number)
            producer.flush(_TIMEOUT_S)
        if number % 2:
            producer.abort_transaction(_TIMEOUT_S)
        else:
            producer.commit_transaction(_TIMEOUT_S)
            committed += values
    return committed


def consumed(kafka: LocalKafka, isolation: str, count: int) -> Iterator[tuple[int, bytes]]:
    """Reads so many records from the start, as clients see them."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "g",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    for _ in range(count):
        message = consumer.poll(_TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        yield offset, value
    consumer.close()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("kafka_installed")
def test_each_goes_on_where_the_other_stopped(tmp_path: Path) -> None:
    with LocalKafka(
        data_dir=tmp_path, properties={"controlled.shutdown.enable": "true", **STEADY}
    ) as kafka:
        committed = written(kafka)
        kafka.stop()
        (meta,) = tmp_path.rglob("meta.properties")
        properties = dict(
            line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line
        )
        now_ms = WallClock().now_ms()

        directory = LogDirectory.open(
            DiskFiles(),
            str(meta.parent),
            cluster_id=properties["cluster.id"],
            node_id=int(properties["node.id"]),
        )
        assert directory.was_clean
        assert (TOPIC, 0) in directory.found
        assert directory.found[TOPIC, 0] is not None
        assert ("__cluster_metadata", 0) not in directory.found
        log = directory.log(TOPIC, 0, LogConfig.parse(ROLL), now_ms)
        theirs = read_all(log, committed=True, max_bytes=500_000)
        assert [value for _, value in pairs(theirs)] == committed
        assert len(log.segments) > 2
        assert len(log.aborted_transactions(0, log.log_end_offset)) == 4
        (entry,) = log.producers.entries.values()
        assert entry.txn_first_offset is None

        # what we add: records, a transaction of ours, and one that is aborted
        epoch = log.leader_epoch
        log.append(batch(b"ours", timestamp=now_ms), now_ms=now_ms, leader_epoch=epoch)
        for value, keep in ((b"kept", True), (b"dropped", False)):
            log.append_records(
                [(b"k", value)], now_ms, producer_id=90, producer_epoch=0, leader_epoch=epoch
            )
            log.append_marker(
                *(90, 0), committed=keep, coordinator_epoch=0, now_ms=now_ms, leader_epoch=epoch
            )
        for name in directory.found:
            directory.log(*name, LogConfig(), now_ms)
        directory.close()

        kafka.start()
        expected = [*committed, b"ours", b"kept"]
        found = list(consumed(kafka, "read_committed", len(expected)))
        assert [value for _, value in found] == expected
        whole = list(consumed(kafka, "read_uncommitted", 16 + 3))
        assert [value for _, value in whole][-3:] == [b"ours", b"kept", b"dropped"]
