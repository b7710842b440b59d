"""Compare the logs that all clients leave behind with Kafka's tool, and take turns with Kafka on one directory."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_java
from groupsdk.wire.coordinator_records import offsets_log, transaction_log
from groupsdk.wire.coordinator_records.declaration import KeyClasses
from groupsdk.wire.coordinator_records.dump import dump_segment
from tests.clients import test_aiokafka, test_confluent_kafka, test_kafka_python
from tests.clients.confluent import TIMEOUT_S, Served, consumer_of, producer_of, taken, values
from tests.clients.test_java import RELEASES, SOURCE
from tests.support.java import JavaProgram
from tests.support.topics import create_topic
from tests.support.workers import eventually


# the last that has the tool without a jar of its own
RELEASE = "4.1.0"
_JAVA = ("cooperative-sticky", "static", "transactions", "fencing", "groups")


@pytest.fixture(scope="module")
def directory(kafka_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left behind that all clients have used."""
    path = tmp_path_factory.mktemp("data")
    with EmbeddedBroker(data_dir=path, nodes=3) as broker:
        for transaction in (
            test_confluent_kafka.test_confluent_transaction_carries_records_and_offsets_or_nothing,
            test_kafka_python.test_kafka_python_transaction_carries_records_and_offsets_or_nothing,
            test_aiokafka.test_aiokafka_transaction_carries_records_and_offsets_or_nothing,
        ):
            name = transaction.__name__
            broker.create_topic(name, 4)
            running = transaction(broker, name, name)
            if running is not None:
                asyncio.run(running)
        broker.create_topic("shared", 4)
        test_confluent_kafka.test_a_static_member_comes_back_without_a_rebalance_and_fences_its_double(
            broker, "shared", "static"
        )
        jars = [f"org.apache.kafka:kafka-clients:{RELEASES[-1]}"]
        with JavaProgram(SOURCE, jars, arguments=[broker.bootstrap_servers]) as java:
            for scenario in _JAVA:
                assert java.ask(f"{scenario} java-{scenario}", 150_000) == "ok"
    return path


def dumped(paths: list[Path], decoder: str) -> str:
    """Runs Kafka's DumpLogSegments."""
    jars = fetch([f"org.apache.kafka:kafka_2.13:{RELEASE}"])
    done = subprocess.run(
        [
            *(str(find_java().java), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"),
            *("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8"),
            *("-cp", ":".join(map(str, jars)), "kafka.tools.DumpLogSegments"),
            *(decoder, "--files", ",".join(map(str, paths))),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("topic", "keys", "decoder", "least"),
    [
        ("__consumer_offsets", offsets_log.KEYS, "--offsets-decoder", 30),
        ("__transaction_state", transaction_log.KEYS, "--transaction-log-decoder", 30),
    ],
)
def test_kafkas_tool_reads_in_them_what_we_read(
    directory: Path, topic: str, keys: KeyClasses, decoder: str, least: int
) -> None:
    paths = [each for each in sorted(directory.glob(f"{topic}-*/*.log")) if each.stat().st_size]
    lines = []
    for path in paths:
        lines += [f"Dumping {path}", "Log starting offset: 0"]
        lines += dump_segment(path.read_bytes(), keys)
    assert sum(line.startswith("| offset") for line in lines) > least
    assert not [line for line in lines if "skipping" in line or "isvalid: false" in line]
    assert dumped(paths, decoder).splitlines() == lines


def worked(broker: Served, topic: str, name: str) -> None:
    """Commits offsets of a group, simply and in transactions, one of which is aborted."""
    with consumer_of(broker, name) as consumer:
        consumer.subscribe([topic])

        def has_all() -> bool:
            consumer.poll(0.05)
            return len(consumer.assignment()) == 2

        eventually(has_all)
        offset = TopicPartition(topic, 0, 3, metadata=f"by {name}")
        consumer.commit(offsets=[offset], asynchronous=False)
        producer = producer_of(broker, transactional_id=name)
        producer.init_transactions(TIMEOUT_S)
        for number, keep in ((5, True), (9, False)):
            producer.begin_transaction()
            producer.produce(topic, f"{name}-{keep}", partition=0)
            producer.flush(TIMEOUT_S)
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 1, number)], consumer.consumer_group_metadata(), TIMEOUT_S
            )
            if keep:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)


def found(broker: Served, name: str) -> tuple[str, list[tuple[int, int, str]]]:
    """Describes a group: its state, and its offsets."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    described = admin.describe_consumer_groups([name])[name].result(TIMEOUT_S)
    asked = ConsumerGroupTopicPartitions(name)
    offsets = admin.list_consumer_group_offsets([asked])[name].result(TIMEOUT_S)
    return described.state.name, sorted(
        (each.partition, each.offset, each.metadata or "") for each in offsets.topic_partitions
    )


def committed_records(broker: Served, topic: str, count: int) -> list[bytes]:
    """Reads the committed records of a topic's partition 0."""
    with consumer_of(broker, "reader", isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        return values(taken(reader, count))


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("kafka_installed")
def test_kafka_and_we_take_turns_as_coordinators_of_one_directory(tmp_path: Path) -> None:
    def offsets(name: str) -> tuple[str, list[tuple[int, int, str]]]:
        return "EMPTY", [(0, 3, f"by {name}"), (1, 5, "")]

    properties = {"controlled.shutdown.enable": "true"}
    with LocalKafka(data_dir=tmp_path, properties=properties) as kafka:
        create_topic(kafka.bootstrap_servers, "t", 2)
        worked(kafka, "t", "theirs")
        assert found(kafka, "theirs") == offsets("theirs")
        kafka.stop()
        (meta,) = tmp_path.rglob("meta.properties")

        with EmbeddedBroker(data_dir=meta.parent) as ours:
            assert found(ours, "theirs") == offsets("theirs")
            assert committed_records(ours, "t", 1) == [b"theirs-True"]
            worked(ours, "t", "ours")
            # their transactional id goes on with us
            worked(ours, "t", "theirs")
            assert found(ours, "ours") == offsets("ours")

        kafka.start()
        for name in ("ours", "theirs"):
            assert found(kafka, name) == offsets(name)
        assert committed_records(kafka, "t", 3) == [b"ours-True", b"theirs-True", b"theirs-True"]
        # ours goes on with them, and a new one gets a producer id that nobody has
        for name in ("ours", "new"):
            worked(kafka, "t", name)
            assert found(kafka, name) == offsets(name)
