"""Data directories of real brokers, with each compression of the log: what they hold is read from the files alone."""

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk import GroupConsumer
from groupsdk.history.local import run
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.testing import LocalKafka
from tests.support.workers import eventually


pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
@pytest.mark.parametrize("codec", range(len(CODECS)), ids=CODECS)
def test_the_files_of_a_release_tell_generations_and_commits(
    version: str, codec: int, tmp_path: Path
) -> None:
    properties = {
        "offsets.topic.compression.codec": str(codec),
        "offsets.topic.num.partitions": "1",
        "auto.create.topics.enable": "true",
    }
    data = tmp_path / "kafka"
    with (
        LocalKafka(version=version, properties=properties, data_dir=data) as kafka,
        GroupConsumer(
            {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "orders"}
        ) as consumer,
    ):
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic("sales", 1)])["sales"].result()
        consumer.subscribe("sales")
        eventually(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
        consumer.commit(offsets=[TopicPartition("sales", 0, 7)], asynchronous=False)
    run(segment_tasks(str(data)), str(tmp_path / "out"), Options(assignors=("range",)))
    rows = {
        name: ds.dataset(str(tmp_path / "out" / name)).to_table().to_pylist()
        for name in ("generations", "offset_commits", "rejects", "quality")
    }
    assert rows["rejects"] == []
    assert {row["group_id"] for row in rows["generations"]} == {"orders"}
    assert max(row["n_members"] for row in rows["generations"]) == 1
    assert [row["committed_offset"] for row in rows["offset_commits"]][-1] == 7
    assert sum(row["bad_batches"] for row in rows["quality"]) == 0
