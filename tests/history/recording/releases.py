"""Record a small log of one release of Kafka, in which each compression of the groups' log is used once.

`python -m tests.history.recording.releases DIRECTORY VERSION...`

Starts a real broker again for each codec of `offsets.topic.compression.codec`. Each time a consumer of each protocol joins, commits, and
leaves, and a transaction commits. DIRECTORY gets the segments of each release, packed with gzip.
"""

import gzip
import sys
import tempfile
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from groupsdk import GroupConsumer
from groupsdk.testing import LocalKafka
from tests.history.recording.record import keep
from tests.support.topics import create_topic
from tests.support.workers import eventually


CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers, in the setting as in a batch."""
TOPIC: Final = "sales"
PARTITIONS: Final = 2
GROUPS: Final = {"orders": "classic", "modern": "consumer"}
"""The groups, with their protocols."""
PAYING: Final = "paying"
"""A group that commits in a transaction, and has no members."""


def record(version: str, data: Path) -> Path:
    """Let a broker of this release write the log below `data`; returns its data directory."""
    directory = data / "kafka"
    for codec in range(len(CODECS)):
        properties = {
            "offsets.topic.compression.codec": str(codec),
            "offsets.topic.num.partitions": "1",
            "log.cleaner.enable": "false",
            # Kafka 3.9 has the newer protocol, and does not offer it by itself
            "group.coordinator.rebalance.protocols": "classic,consumer",
        }
        with LocalKafka(version=version, properties=properties, data_dir=directory) as kafka:
            servers = kafka.bootstrap_servers
            if codec == 0:
                create_topic(servers, TOPIC, PARTITIONS)
            for group, protocol in GROUPS.items():
                _commit(servers, group, protocol, codec)
            _pay(servers, codec)
    return directory


def _commit(servers: str, group: str, protocol: str, offset: int) -> None:
    settings = {"bootstrap.servers": servers, "group.id": group, "group.protocol": protocol}
    with GroupConsumer(settings | {"enable.auto.commit": False}) as consumer:
        consumer.subscribe(TOPIC)
        eventually(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == PARTITIONS)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)


def _pay(servers: str, offset: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": PAYING})
    producer.init_transactions(30)
    producer.begin_transaction()
    group = Consumer({"bootstrap.servers": servers, "group.id": PAYING})
    metadata = group.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], metadata, 30)
    producer.commit_transaction(30)
    group.close()


def main() -> None:
    """Take the arguments."""
    out, *versions = sys.argv[1:]
    for version in versions:
        with tempfile.TemporaryDirectory() as scratch:
            keep(record(version, Path(scratch)), Path(scratch) / "segments")
            for file in sorted((Path(scratch) / "segments").glob("*/*.log")):
                packed = Path(out) / version / file.parent.name / f"{file.name}.gz"
                packed.parent.mkdir(parents=True, exist_ok=True)
                # the same bytes each time
                packed.write_bytes(gzip.compress(file.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
