"""Hold our dead letters against those that Kafka Connect's own worker writes (KIP-298)."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect import Connector, ErrantRecord, Task, TaskContext, Worker
from tests.clients.test_connect import worker as java_worker
from tests.connect.workers import eventually
from tests.support.topics import read_records


pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("kafka_installed")]
ERRORS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def refuse(record: ErrantRecord) -> None:
    """Handle nothing."""
    raise ValueError(f"cannot be handled: {record.value!r}")


class Refusing(Connector):
    """A sink that handles no record of the topic `topics`."""

    kind = "sink"
    required = ("topics", "servers")

    @override
    def plan(self) -> Iterable[Task]:
        return [Task("only")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        record = ErrantRecord.of(read_records(self.config["servers"], self.config["topics"], 1)[0])
        context.commit({"handled": context.attempt(record, refuse)})


def test_dead_letters_are_those_of_kafka_connect(
    broker: EmbeddedBroker, group_id: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic("lines", 1)
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("lines", b"{no json", b"key", headers=[("mine", b"1")])
    assert producer.flush(60) == 0
    theirs = {
        **ERRORS,
        "connector.class": "FileStreamSink",
        "file": str(tmp_path / "sink.txt"),
        "topics": "lines",
        "tasks.max": "1",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "consumer.override.auto.offset.reset": "earliest",
        "errors.deadletterqueue.topic.name": "theirs",
    }
    with java_worker(broker, tmp_path) as java:
        java.until("/connectors", {"name": "sink", "config": theirs})
        eventually(lambda: broker.leader("theirs", 0) is not None, java.said, 90)
        expected = read_records(servers, "theirs", 1)[0]
    ours = {
        **ERRORS,
        "connector.class": "Refusing",
        "servers": servers,
        "topics": "lines",
        "errors.deadletterqueue.topic.name": "ours",
    }
    made = Worker(group_id, bootstrap_servers=servers)
    made.connector(Refusing)
    with made:
        worker = made.start()
        worker.admin.put_connector("sink", ours).result(60)
        state = eventually(lambda: worker._store.state(("sink", "only")), worker.admin.statuses)
        assert state == {"handled": False}
    letter = read_records(servers, "ours", 1)[0]
    assert (letter.key(), letter.value()) == (expected.key(), expected.value())
    said, wanted = ErrantRecord.of(letter).headers, ErrantRecord.of(expected).headers
    assert [name for name, _ in said] == [name for name, _ in wanted]
    same = [name for name, _ in wanted if "exception" not in name and "class" not in name]
    stage = "__connect.errors.stage"
    assert [dict(said)[name] for name in same if name != stage] == [
        dict(wanted)[name] for name in same if name != stage
    ]
    # theirs cannot even be converted
    assert (dict(wanted)[stage], dict(said)[stage]) == (b"VALUE_CONVERTER", b"TASK_PUT")
