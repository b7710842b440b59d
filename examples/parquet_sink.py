"""Copies the records of Kafka topics into Parquet files, each record exactly once: a task for each partition.

    pip install groupsdk[examples]
    python -m groupsdk worker examples.parquet_sink:app --group demo --bootstrap-servers localhost:9092 --rest :8083

    curl -X PUT localhost:8083/connectors/archive/config -H 'Content-Type: application/json' \\
         -d '{"connector.class": "ParquetSink", "bootstrap.servers": "localhost:9092", "topics": "orders",
              "directory": "/tmp/archive", "records.per.file": "10000", "seconds.per.file": "60"}'

A file is called TOPIC/TOPIC-PARTITION-FROM-TO.parquet by the first and the last offset in it. It appears whole, under a
lock, by an owner that nobody has followed: files of a partition never overlap, whoever was killed or paused when.
"""

import fcntl
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from typing_extensions import override

from examples.connectors import seconds
from groupsdk.clock import SystemClock
from groupsdk.connect import (
    Connector,
    ConnectorConfigError,
    Task,
    TaskContext,
    TaskFencedError,
    Worker,
)


app = Worker(plan_interval_ms=30_000)  # topics get more partitions
_TIMEOUT_S = 10.0
_MAX_BYTES = 64_000_000
arrow: Any = pyarrow  # ships no types
_SCHEMA = arrow.schema(
    [
        ("offset", arrow.int64()),
        ("timestamp", arrow.timestamp("ms", "UTC")),
        ("key", arrow.binary()),
        ("value", arrow.binary()),
        ("headers", arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())]))),
    ]
)  # fmt: skip


@app.connector
class ParquetSink(Connector):
    """Files by number of records or by age, whichever comes first; what is not in a file yet is read again."""

    kind = "sink"
    required = ("bootstrap.servers", "topics", "directory")

    @override
    @classmethod
    def validate(cls, config: Mapping[str, str]) -> None:
        super().validate(config)
        seconds(config, "seconds.per.file", 60.0)
        count = config.get("records.per.file", "10000")
        if not count.isdecimal() or not 0 < int(count) <= 10_000_000:
            raise ConnectorConfigError("records.per.file", f"must be 1 to 10000000, not {count!r}")

    @override
    def plan(self) -> list[Task]:
        admin = AdminClient({"bootstrap.servers": self.config["bootstrap.servers"]})
        tasks: list[Task] = []
        for name in map(str.strip, self.config["topics"].split(",")):
            topic = admin.list_topics(name, _TIMEOUT_S).topics[name]
            if topic.error is not None:
                raise KafkaException(topic.error)
            tasks += [
                Task(f"{name}-{n}", {"topic": name, "partition": n}) for n in topic.partitions
            ]
        return tasks

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        topic, partition = task.payload["topic"], task.payload["partition"]
        files = PartitionFiles(Path(self.config["directory"]), topic, partition)
        begin = files.take_over(context.generation, (context.state or {"next": 0})["next"])
        consumer = Consumer(
            {
                "bootstrap.servers": self.config["bootstrap.servers"],
                "group.id": "parquet-sink",  # needed, and not used: partitions are assigned here
                "enable.auto.commit": False,
                # records that went before they were read are an error, and nothing to pass over
                "auto.offset.reset": "error",
            }
        )
        try:
            if begin == 0:
                # the oldest that there is: not an error for a topic that is new to us
                begin, _ = consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), _TIMEOUT_S
                )
            consumer.assign([TopicPartition(topic, partition, begin)])
            context.uses_topic(topic)
            while (batch := self._read(consumer, context)) is not None:
                if batch:
                    after = files.publish(context.generation, batch)
                    context.commit({"next": after})
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, context: TaskContext) -> list[Message] | None:
        """Collect what goes into one file; None: the task is to end."""
        most = int(self.config.get("records.per.file", "10000"))
        age_ms = 1_000 * seconds(self.config, "seconds.per.file", 60.0)
        batch: list[Message] = []
        size, clock = 0, SystemClock()
        begun_ms = clock.now_ms()
        while len(batch) < most and size < _MAX_BYTES and clock.now_ms() - begun_ms < age_ms:
            if context.stop.is_set():
                return None
            for message in consumer.consume(min(500, most - len(batch)), 0.1):
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                batch.append(message)
                size += len(message.key() or b"") + len(message.value() or b"")
        return batch


class PartitionFiles:
    """The files of one partition, and a hidden one that says who writes them and how far they go.

    Args:
        directory: where those of all topics are; the same for all workers, on a file system that has locks.
        topic: the topic, which has a directory in it.
        partition: the partition.
    """

    def __init__(self, directory: Path, topic: str, partition: int) -> None:
        self._directory = directory / topic
        self._name = f"{topic}-{partition}"
        self._note = self._directory / f".{self._name}.fence"
        self._directory.mkdir(parents=True, exist_ok=True)

    def take_over(self, token: int, committed: int) -> int:
        """Shut out former owners; returns the offset to go on from.

        Raises:
            TaskFencedError: someone else has taken over from this one already.
        """
        with self._fence(token) as fence:
            # where an owner ended between a file and the note of it, the file's name says it
            ends = [int(each.stem.rpartition("-")[2]) + 1 for each in self.files()]
            fence["next"] = max([fence["next"], committed, *ends])
            for left in self._directory.glob(f".{self._name}-*.tmp"):
                left.unlink()
            return fence["next"]

    def publish(self, token: int, batch: list[Message]) -> int:
        """Write a file, and have it appear if this is still the owner; returns the offset after it.

        Raises:
            TaskFencedError: it is not.
        """
        first, last = batch[0].offset() or 0, batch[-1].offset() or 0
        temporary = self._directory / f".{self._name}-{first}-{token}.tmp"
        try:
            with temporary.open("wb") as file:
                pyarrow.parquet.write_table(_table(batch), file)
                file.flush()
                os.fsync(file.fileno())
            with self._fence(token) as fence:
                if first < fence["next"]:
                    raise TaskFencedError(f"{self._name}: offset {first} is in a file already")
                temporary.rename(self._directory / f"{self._name}-{first}-{last}.parquet")
                fence["next"] = last + 1
        finally:
            temporary.unlink(missing_ok=True)
        return last + 1

    def files(self) -> list[Path]:
        """Return the files, by their first offsets."""
        found = self._directory.glob(f"{self._name}-*-*.parquet")
        return sorted(found, key=lambda each: int(each.stem.rsplit("-", 2)[1]))

    @contextmanager
    def _fence(self, token: int) -> Generator[dict[str, int], None, None]:
        """Hold the partition's lock, and keep what the block changes."""
        with (self._directory / f".{self._name}.lock").open("w") as lock:
            # for no longer than a rename takes; who is paused in here holds others up, and lets none pass
            fcntl.flock(lock, fcntl.LOCK_EX)
            fence = {"token": -1, "next": 0}
            if self._note.exists():
                fence = json.loads(self._note.read_text())
            if fence["token"] > token:
                raise TaskFencedError(
                    f"{self._name} was taken over under {fence['token']}, after {token}"
                )
            fence["token"] = token
            yield fence
            whole = self._note.with_suffix(".new")
            whole.write_text(json.dumps(fence))
            whole.rename(self._note)


def _table(batch: list[Message]) -> Any:
    rows = [
        {
            "offset": each.offset(),
            "timestamp": each.timestamp()[1],
            "key": each.key(),
            "value": each.value(),
            "headers": [{"key": pair[0], "value": pair[1]} for pair in each.headers() or ()],
        }
        for each in batch
    ]
    return arrow.Table.from_pylist(rows, _SCHEMA)
