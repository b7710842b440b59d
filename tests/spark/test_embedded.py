"""The data directory of the embedded broker: the tables say what was done to its groups, move by move."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition as NativePartition

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import Deadline, SystemClock
from groupsdk.consumer import GroupConsumer
from groupsdk.history.job import Inputs, read_tables, run
from groupsdk.history.sources.spark_segments import read_segments
from groupsdk.types import GroupMembershipOperation
from tests.examples.process import ExampleProcess
from tests.spark.reading import plain


TOPIC = "orders"
PARTITIONS = 6
SESSION_MS = 10_000
_WAIT_MS = 120_000

Owned = dict[str, tuple[int, ...]]
"""Partitions by the client that owns them."""


@dataclass
class Story:
    """Drives the members of one group, and writes down what it saw of it from outside."""

    broker: EmbeddedBroker
    members: dict[str, GroupConsumer] = field(default_factory=dict)
    generations: list[tuple[int, Owned]] = field(default_factory=list)
    member_ids: list[tuple[str, str]] = field(default_factory=list)
    commits: list[tuple[str, int, int]] = field(default_factory=list)

    def join(self, client_id: str, *, session_ms: int = 45_000) -> None:
        """Let a member come, and wait until the group is settled."""
        consumer = GroupConsumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "workers",
                "client.id": client_id,
                "partition.assignment.strategy": "range",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
                "session.timeout.ms": session_ms,
            }
        )
        consumer.subscribe(TOPIC)
        self.members[client_id] = consumer
        self.settle()
        self.member_ids.append((client_id, consumer.generation().member_id))

    def leave(self, client_id: str, how: GroupMembershipOperation) -> None:
        """Let a member go, with its word or without."""
        self.members.pop(client_id).close(operation=how)
        if self.members:
            self.settle()

    def settle(self) -> None:
        """Poll until all members are in the same new generation and share every partition out."""
        last = self.generations[-1][0] if self.generations else 0
        deadline = Deadline(SystemClock(), _WAIT_MS)
        while not deadline.expired:
            for consumer in self.members.values():
                consumer.poll(0.02)
            stable = [each.generation_if_stable() for each in self.members.values()]
            numbers = {None if each is None else each.generation_id for each in stable}
            owned = {
                client_id: tuple(each.partition for each in consumer.assignment())
                for client_id, consumer in self.members.items()
            }
            if len(numbers) == 1 and sum(map(len, owned.values())) == PARTITIONS:
                (number,) = numbers
                if number is not None and number > last:
                    self.generations.append((number, owned))
                    return
        raise AssertionError(f"the group did not settle after generation {last}")

    def commit(self, offset: int) -> None:
        """Let each member commit all that it owns."""
        for consumer in self.members.values():
            offsets = [
                NativePartition(TOPIC, each.partition, offset) for each in consumer.assignment()
            ]
            consumer.commit(offsets=offsets, asynchronous=False)
            self.commits += [("workers", each.partition, offset) for each in offsets]


def produce(broker: EmbeddedBroker) -> None:
    """Write as many records as are committed later."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(PARTITIONS):
        for number in range(50):
            producer.produce(TOPIC, str(number), partition=partition)
    assert producer.flush(30) == 0


def read_alone(broker: EmbeddedBroker) -> None:
    """Let one consumer of librdkafka's come, commit twice and go."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
            "client.id": "reader",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        deadline = Deadline(SystemClock(), _WAIT_MS)
        while not consumer.assignment():
            assert not deadline.expired, "the reader got no partitions"
            consumer.poll(0.05)
        for offset in (7, 11):
            consumer.commit(offsets=[NativePartition(TOPIC, 2, offset)], asynchronous=False)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the broker keeps what it is told."""
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def story(data_dir: Path) -> Story:
    """What was done: two come, one leaves, a third comes and dies, and the first closes up."""
    broker = EmbeddedBroker(
        data_dir=data_dir, topics={TOPIC: PARTITIONS}, offsets_topic_num_partitions=3
    )
    with broker:
        produce(broker)
        told = Story(broker)
        try:
            told.join("a")
            told.commit(10)
            told.join("b")
            told.commit(20)
            told.leave("b", GroupMembershipOperation.LEAVE_GROUP)
            told.commit(30)
            told.join("c", session_ms=SESSION_MS)
            told.commit(40)
            told.leave("c", GroupMembershipOperation.REMAIN_IN_GROUP)
            told.commit(50)
            told.leave("a", GroupMembershipOperation.LEAVE_GROUP)
        finally:
            for consumer in told.members.values():
                consumer.close()
        read_alone(broker)
    return told


@pytest.fixture(scope="module")
def tables(
    spark: Any, story: Story, data_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The tables that the job makes of the directory once the broker has stopped."""
    inputs = Inputs(read_segments(spark, str(data_dir)))
    return dict(run(spark, inputs, str(tmp_path_factory.mktemp("history") / "tables")))


def test_each_generation_and_who_had_what_in_it_is_found(
    tables: dict[str, Any], story: Story
) -> None:
    owned: dict[int, dict[str, list[int]]] = {}
    for row in tables["assignments"].filter("group_id = 'workers'").collect():
        assert row.topic == TOPIC
        of_client = owned.setdefault(row.generation, {})
        of_client.setdefault(row.client_id, []).append(row.partition)
    found = {
        number: {client: tuple(sorted(each)) for client, each in of_client.items()}
        for number, of_client in owned.items()
    }
    assert found == dict(story.generations)
    assert len(found) == 5


def test_the_causes_are_what_was_done(tables: dict[str, Any], story: Story) -> None:
    rows = tables["generations"].filter("group_id = 'workers'").orderBy("seq").collect()
    assert [(row.primary_cause, row.n_members) for row in rows] == [
        ("created", 0),
        ("join", 1),
        ("join", 2),
        ("leave", 1),
        ("join", 2),
        ("expiry", 1),
        ("leave", 0),
    ]
    assert [row.generation for row in rows[1:-1]] == [number for number, _ in story.generations]
    assert {row.assignor for row in rows[1:-1]} == {"range"}
    assert rows[-1].is_empty


def test_the_stays_have_the_member_ids_and_ends_of_who_was_there(
    tables: dict[str, Any], story: Story
) -> None:
    stays = tables["memberships"].filter("group_id = 'workers'")
    assert plain(stays, "client_id", "member_id") == story.member_ids
    assert plain(stays, "client_id", "end_reason") == [
        ("a", "leave"),
        ("b", "leave"),
        ("c", "expiry"),
    ]
    timeouts = dict(plain(stays, "client_id", "session_timeout_ms"))
    assert timeouts["c"] == SESSION_MS < timeouts["a"]


def test_every_commit_is_there_once(tables: dict[str, Any], story: Story) -> None:
    kept = tables["offset_commits"].filter("committed_offset is not null")
    expected = [*story.commits, ("readers", 2, 7), ("readers", 2, 11)]
    assert plain(kept, "group_id", "partition", "committed_offset") == sorted(expected, key=str)
    assert {row.state for row in kept.collect()} == {"committed"}


def test_a_consumer_of_librdkafka_is_in_it_as_well(tables: dict[str, Any]) -> None:
    (stay,) = tables["memberships"].filter("group_id = 'readers'").collect()
    assert (stay.client_id, stay.end_reason) == ("reader", "leave")


def test_nothing_of_the_log_was_refused_or_is_missing(tables: dict[str, Any]) -> None:
    assert tables["rejects"].count() == 0
    rows = tables["quality"].collect()
    assert rows
    for row in rows:
        assert (row.offset_gaps, row.bad_batches, row.undecodable, row.unknown_types) == (
            *(0, 0, 0),
            {},
        )
        assert row.missing_generations == 0


def test_the_example_explains_the_history_that_it_makes(spark: Any, tmp_path: Path) -> None:
    with ExampleProcess("-m", "examples.history_embedded", str(tmp_path)) as process:
        process.wait_for("generation 7: shop-0 has 8 partitions")
        process.wait_for("report.html$")
        assert process.end() == 0
    made = read_tables(spark, str(tmp_path / "tables"))["generations"].orderBy("seq")
    assert [(row.primary_cause, row.n_members) for row in made.collect()] == [
        *(("created", 0), ("join", 1), ("join", 2), ("join", 3)),
        *(("leave", 2), ("join", 3), ("expiry", 2)),
        *(("leave", 1), ("leave", 0)),
    ]
    report = (tmp_path / "tables" / "report.html").read_text(encoding="utf-8")
    assert "Group checkout" in report
    assert "shop-2" in report
