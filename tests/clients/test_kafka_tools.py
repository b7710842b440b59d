"""Run Kafka's own command line tools on the embedded broker: what they say, and that none of them hangs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.main import main
from tests.support.java import JavaProgram


_SOURCE = Path(__file__).parent / "java" / "Tools.java"
_RELEASE = "4.3.1"
_JARS = [f"org.apache.kafka:{name}:{_RELEASE}" for name in ("kafka-tools", "kafka_2.13")]
_TIMEOUT_MS = 40_000  # the program gives a tool 30 s
_PACKAGE = "org.apache.kafka.tools"
TOPICS = f"{_PACKAGE}.TopicCommand"
GROUPS = f"{_PACKAGE}.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSUMER = f"{_PACKAGE}.consumer.ConsoleConsumer"
PRODUCER = f"{_PACKAGE}.ConsoleProducer"
OFFSETS = f"{_PACKAGE}.GetOffsetShell"
TRANSACTIONS = f"{_PACKAGE}.TransactionsCommand"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def program(kafka_installed: None) -> Iterator[JavaProgram]:
    """One Java process that runs one tool after the other."""
    with JavaProgram(_SOURCE, _JARS) as running:
        yield running


Run = Callable[..., str]


@pytest.fixture
def run(program: JavaProgram, broker: EmbeddedBroker) -> Run:
    """Runs a tool and returns what it wrote; `status` is its exit status, `text` its input."""

    def tool(name: str, *arguments: str, status: str = "0", text: str = "") -> str:
        words = [name, text, "--bootstrap-server", broker.bootstrap_servers, *arguments]
        assert not any("\t" in word or "\f" in word for word in words)
        answer = program.ask("\t".join(words).replace("\n", "\f"), _TIMEOUT_MS)
        found, _, written = answer.partition("\t")
        written = written.replace("\f", "\n")
        assert found == status, written
        return written

    return tool


def commit_in_a_transaction(servers: str, topic: str, group_id: str) -> None:
    """Reads in a group, commits, and commits once more in a transaction."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group_id})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    offsets = [TopicPartition(topic, 0, 1)]
    consumer.commit(offsets=offsets, asynchronous=False)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"tx-{group_id}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 20)
    producer.commit_transaction(60)
    consumer.close()


def rows(written: str, first: str) -> list[list[str]]:
    """Reads the rows of a table that begin with a word."""
    return [words for line in written.splitlines() if (words := line.split())[:1] == [first]]


def test_kafka_topics_creates_and_changes_topics(run: Run, group_id: str) -> None:
    made = ("--topic", group_id, "--partitions", "3", "--config", "retention.ms=5000")
    assert "Created topic" in run(TOPICS, "--create", *made)
    assert "already exists" in run(TOPICS, "--create", "--topic", group_id, status="1")
    assert group_id in run(TOPICS, "--list").splitlines()
    shown = run(TOPICS, "--describe", "--topic", group_id)
    assert "PartitionCount: 3" in shown
    assert "retention.ms=5000" in shown
    run(TOPICS, "--alter", "--topic", group_id, "--partitions", "4")
    refused = run(TOPICS, "--alter", "--topic", group_id, "--partitions", "2", status="1")
    assert "currently has 4 partition(s)" in refused
    sizes = run(f"{_PACKAGE}.LogDirsCommand", "--describe", "--topic-list", group_id)
    found = json.loads(sizes.splitlines()[-1])["brokers"]
    names = [
        each["partition"]
        for broker in found
        for directory in broker["logDirs"]
        for each in directory["partitions"]
    ]
    assert sorted(names) == [f"{group_id}-{number}" for number in range(4)]
    run(TOPICS, "--delete", "--topic", group_id)
    assert "does not exist" in run(TOPICS, "--describe", "--topic", group_id, status="1")


def test_kafka_configs_alters_and_describes_settings(run: Run, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    added = "max.message.bytes=2000,cleanup.policy=[compact,delete]"
    run(CONFIGS, "--alter", *of_topic, "--add-config", added)
    shown = run(CONFIGS, "--describe", *of_topic)
    assert "max.message.bytes=2000" in shown
    assert "cleanup.policy=compact,delete" in shown
    run(CONFIGS, "--alter", *of_topic, "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in run(CONFIGS, "--describe", *of_topic)
    wrong = run(CONFIGS, "--alter", *of_topic, "--add-config", "no.such=1", status="1")
    assert "unknown topic configuration 'no.such'" in wrong
    assert "group.max.size=" in run(CONFIGS, "--describe", "--broker", "1", "--all")
    changed = ("--alter", "--broker", "1", "--add-config", "group.max.size=2")
    assert "Cannot update these configs dynamically" in run(CONFIGS, *changed, status="1")
    of_group = ("--entity-type", "groups", "--entity-name", "g")
    setting = "consumer.session.timeout.ms=50000"
    run(CONFIGS, "--alter", *of_group, "--add-config", setting)
    assert setting in run(CONFIGS, "--describe", *of_group)
    run(CONFIGS, "--alter", *of_group, "--delete-config", "consumer.session.timeout.ms")


def test_kafka_configs_manages_scram_users(run: Run, group_id: str) -> None:
    of_user = ("--entity-type", "users", "--entity-name", group_id)
    credential = "SCRAM-SHA-256=[iterations=8192,password=hush]"
    run(CONFIGS, "--alter", *of_user, "--add-config", credential)
    assert "SCRAM-SHA-256=iterations=8192" in run(CONFIGS, "--describe", *of_user)
    run(CONFIGS, "--alter", *of_user, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in run(CONFIGS, "--describe", *of_user)


def test_records_from_a_console_to_a_console(run: Run, topic: str, group_id: str) -> None:
    text = "".join(f"key-{number}:value-{number}\n" for number in range(20))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run(PRODUCER, "--topic", topic, "--compression-codec", "zstd", *keyed, text=text)
    with_keys = ("--formatter-property", "print.key=true")
    read = run(
        *(CONSUMER, "--topic", topic, "--group", group_id, "--from-beginning"),
        *("--max-messages", "20", "--timeout-ms", "20000", *with_keys),
    )
    for number in range(20):
        assert f"key-{number}" in read
        assert f"value-{number}" in read
    ends = [line.split(":") for line in run(OFFSETS, "--topic", topic).splitlines()]
    assert sum(int(end) for name, _, end in ends if name == topic) == 20


@pytest.mark.parametrize(
    ("topic_name", "formatter", "kind"),
    [
        ("__consumer_offsets", "OffsetsMessageFormatter", "--offsets"),
        ("__consumer_offsets", "GroupMetadataMessageFormatter", "--groups"),
        ("__transaction_state", "TransactionLogMessageFormatter", "--transactions"),
    ],
)
def test_the_log_is_printed_as_by_kafkas_message_formatters(
    run: Run,
    broker: EmbeddedBroker,
    topic: str,
    group_id: str,
    capsys: pytest.CaptureFixture[str],
    *,
    topic_name: str,
    formatter: str,
    kind: str,
) -> None:
    commit_in_a_transaction(broker.bootstrap_servers, topic, group_id)
    capsys.readouterr()
    assert main(["log", "--kafka", kind, "--bootstrap-servers", broker.bootstrap_servers]) == 0
    ours = capsys.readouterr().out.splitlines()
    printed = run(
        *(CONSUMER, "--topic", topic_name, "--from-beginning", "--timeout-ms", "8000"),
        *("--formatter", f"{_PACKAGE}.consumer.{formatter}"),
    )
    assert any(group_id in line for line in ours)
    # Kafka's print no line feeds, and the console's own group writes to the log while it reads
    assert [line for line in ours if line not in printed] == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_describes_and_resets_groups(
    run: Run, broker: EmbeddedBroker, topic: str, group_id: str, protocol: str
) -> None:
    run(PRODUCER, "--topic", topic, text="one\ntwo\n")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
        }
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(2, 20)) == 2
    consumer.commit(asynchronous=False)
    of_group = ("--group", group_id)
    assert group_id in run(GROUPS, "--list").splitlines()
    assert rows(run(GROUPS, "--list", "--type"), group_id)[0][1].lower() == protocol
    (state,) = rows(run(GROUPS, "--describe", *of_group, "--state"), group_id)
    assert state[-2:] == ["Stable", "1"]
    (member,) = rows(run(GROUPS, "--describe", *of_group, "--members"), group_id)
    assert member[-1] == "4"
    reset = ("--reset-offsets", *of_group, "--topic", topic)
    # of what Kafka refuses, this tool only writes
    assert "is inactive, but" in run(GROUPS, *reset, "--to-earliest", "--execute")
    assert "GroupNotEmptyException" in run(GROUPS, "--delete", *of_group)
    consumer.close()
    lines = rows(run(GROUPS, "--describe", *of_group), group_id)
    assert {line[5] for line in lines} <= {"0", "-"}
    run(GROUPS, *reset, "--to-earliest", "--execute")
    lines = rows(run(GROUPS, "--describe", *of_group), group_id)
    assert sum(int(line[5]) for line in lines) == 2
    run(GROUPS, "--delete-offsets", *of_group, "--topic", topic)
    run(GROUPS, "--delete", *of_group)
    assert group_id not in run(GROUPS, "--list").splitlines()


def test_kafka_transactions_lists_and_describes(run: Run, topic: str, group_id: str) -> None:
    run(
        *(f"{_PACKAGE}.ProducerPerformance", "--topic", topic, "--num-records", "50"),
        *("--record-size", "100", "--throughput", "-1", "--transactional-id", group_id),
    )
    (listed,) = rows(run(TRANSACTIONS, "list"), group_id)
    assert listed[-1] == "CompleteCommit"
    described = run(TRANSACTIONS, "describe", "--transactional-id", group_id)
    assert "CompleteCommit" in described
    assert "ProducerId" in run(
        TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0"
    )
    run(TRANSACTIONS, "find-hanging", "--broker-id", "1")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("FeatureCommand", "upgrade", "--feature", "group.version=7"), "UPDATE_FEATURES"),
        (("reassign.ReassignPartitionsCommand", "--list"), "LIST_PARTITION_REASSIGNMENTS"),
        (("MetadataQuorumCommand", "describe", "--status"), "DESCRIBE_QUORUM"),
        (("AclCommand", "--list"), "No Authorizer is configured"),
    ],
)
def test_kafkas_tools_report_what_the_broker_does_not_have(
    run: Run, words: tuple[str, ...], refusal: str
) -> None:
    assert refusal in run(f"{_PACKAGE}.{words[0]}", *words[1:], status="1")


def test_kafka_cluster_tools_describe_features_and_versions(run: Run) -> None:
    assert "transaction.version" in run(f"{_PACKAGE}.FeatureCommand", "describe")
    assert "JoinGroup(11): 0 to 9" in run(f"{_PACKAGE}.BrokerApiVersionsCommand")


def test_settings_of_brokers(run: Run) -> None:
    def configs(*words: str) -> str:
        return run(CONFIGS, *words)

    name = ("--entity-type", "brokers", "--entity-name", "1")
    configs("--alter", *name, "--add-config", "log.retention.bytes=123456")
    assert "log.retention.bytes=123456" in configs("--describe", *name)
    configs("--alter", *name, "--delete-config", "log.retention.bytes")
    assert "log.retention.bytes=123456" not in configs("--describe", *name)
