"""Hold what AdminClients are told of groups of both kinds beside what a real Kafka tells them."""

import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    TopicPartition,
)

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from tests.clients.confluent import Served
from tests.support.java import JavaProgram
from tests.support.workers import eventually


# what is typed of it is wrong in places
api: Any = confluent_kafka.admin

_SOURCE = Path(__file__).parent / "java" / "GroupAdmin.java"
_RELEASES = (pytest.param("4.3.1", marks=pytest.mark.slow), "4.4.0")
_KINDS = ("classic", "consumer")
_TIMEOUT_MS = 280_000
# an embedded broker is quicker unless it is told otherwise
_KAFKAS_DEFAULTS = {
    "group.consumer.heartbeat.interval.ms": 5_000,
    "group.consumer.assignment.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 5_000,
}


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    """An embedded broker with Kafka's defaults, where its own differ."""
    with EmbeddedBroker(_KAFKAS_DEFAULTS) as broker:
        yield broker


@pytest.fixture(scope="module", params=_RELEASES)
def admin(request: pytest.FixtureRequest, kafka_installed: None) -> Iterator[JavaProgram]:
    """Kafka's AdminClient of one release."""
    with JavaProgram(_SOURCE, [f"org.apache.kafka:kafka-clients:{request.param}"]) as program:
        yield program


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", _KINDS)
def test_javas_admin_client_is_told_the_same(
    admin: JavaProgram, embedded: EmbeddedBroker, kafka: LocalKafka, group_id: str, kind: str
) -> None:
    ours, theirs = (
        admin.ask(f"{each.bootstrap_servers} {kind} {group_id}", _TIMEOUT_MS).split("\t")
        for each in (embedded, kafka)
    )
    assert ours == theirs
    assert len(ours) > 90


class Transcript:
    """All that librdkafka's AdminClient asks of groups, and the answers, without what differs from run to run."""

    def __init__(self, broker: Served, kind: str, name: str) -> None:
        self.broker = broker
        self.kind = kind
        self.name = name
        self.admin: Any = api.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        self.answers: list[str] = []

    def ask(self, what: str, future: "Future[Any]") -> Any:
        """Adds an answer, or the error that came in its place; returns the answer."""
        try:
            found = future.result(60)
        except KafkaException as error:
            self.answers.append(f"{what}: {error.args[0].name()}")
            return None
        self.answers.append(f"{what}: {shown(found, self.name)}")
        return found

    def join(self, client_id: str, topic: str) -> Consumer:
        """Returns a consumer of the group; to be closed."""
        settings = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "group.id": f"{self.name}-g",
            "client.id": client_id,
            "group.protocol": self.kind,
            "enable.auto.commit": False,
        }
        if self.kind == "classic":
            settings |= {"heartbeat.interval.ms": 200, "session.timeout.ms": 30_000}
        consumer = Consumer(settings)
        self.stack.callback(consumer.close)
        consumer.subscribe([topic])
        return consumer

    def list_groups(self, moment: str) -> None:
        """Asks for groups by their types and states."""
        filters: list[dict[str, Any]] = [{}]
        filters += [
            {"types": {each}} for each in (ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER)
        ]
        filters += [
            {"states": {each}}
            for each in (
                ConsumerGroupState.STABLE,
                ConsumerGroupState.EMPTY,
                ConsumerGroupState.COMPLETING_REBALANCING,
                ConsumerGroupState.PREPARING_REBALANCING,
            )
        ]
        filters.append(
            {"types": {ConsumerGroupType.CONSUMER}, "states": {ConsumerGroupState.EMPTY}}
        )
        for each in filters:
            self.ask(f"{moment}, listed {each}", self.admin.list_consumer_groups(**each))

    def describe(self, moment: str) -> None:
        """Asks for the group as it is."""
        asked = [f"{self.name}-g", f"{self.name}-none"]
        found = self.admin.describe_consumer_groups(asked, include_authorized_operations=True)
        for each in asked:
            self.ask(f"{moment}, described {each}", found[each])

    def offsets(self, moment: str, partitions: list[TopicPartition]) -> None:
        asked = ConsumerGroupTopicPartitions(f"{self.name}-g", partitions)
        found = self.admin.list_consumer_group_offsets([asked], require_stable=True)
        self.ask(f"{moment}, offsets", found[f"{self.name}-g"])

    def alter(self, moment: str, *offsets: TopicPartition) -> None:
        asked = ConsumerGroupTopicPartitions(f"{self.name}-g", list(offsets))
        altered = self.admin.alter_consumer_group_offsets([asked])
        self.ask(f"{moment}, altered", altered[f"{self.name}-g"])

    def change(self, key: str, value: str | None) -> None:
        """Sets or deletes a setting of the group."""
        types = api.AlterConfigOpType
        entry = api.ConfigEntry(
            key, value, incremental_operation=types.DELETE if value is None else types.SET
        )
        group = api.ResourceType.GROUP
        resource = api.ConfigResource(group, f"{self.name}-g", incremental_configs=[entry])
        self.ask(f"{key}={value}", self.admin.incremental_alter_configs([resource])[resource])

    def settings(self, moment: str, session_timeout_ms: str) -> None:
        """Asks for the settings of the group, once they have this session timeout: Kafka's broker answers before it follows."""
        resource = api.ConfigResource(api.ResourceType.GROUP, f"{self.name}-g")

        def told() -> "Future[Any]":
            answers: dict[Any, Future[Any]] = self.admin.describe_configs([resource])
            return answers[resource]

        def followed() -> bool:
            found: str = told().result(60)["consumer.session.timeout.ms"].value
            return found == session_timeout_ms

        eventually(followed, lambda: "not followed")
        self.ask(f"{moment}, settings", told())

    def run(self) -> list[str]:
        """Goes through all states of a group."""
        with ExitStack() as self.stack:
            self._course()
        return self.answers

    def _course(self) -> None:
        topic, other, group_id = f"{self.name}-t", f"{self.name}-o", f"{self.name}-g"
        for each, count in ((topic, 4), (other, 2)):
            self.admin.create_topics([api.NewTopic(each, count, 1)])[each].result(60)
        self.describe("none yet")
        self.offsets("none yet", [TopicPartition(topic, 0)])
        self.ask("deleted none", self.admin.delete_consumer_groups([group_id])[group_id])
        with ExitStack() as self.stack:
            one, two = self.join("a", topic), self.join("b", topic)

            def shared() -> bool:
                sizes = []
                for each in (one, two):
                    each.poll(0.02)
                    sizes.append(len(each.assignment()))
                return sizes == [2, 2]

            eventually(shared, lambda: "not two and two", 90.0)
            eventually(lambda: shared() and self._is_stable(), lambda: "not stable", 90.0)
            self.list_groups("two members")
            self.describe("two members")
            one.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
            self.offsets("two members", [TopicPartition(topic, 0)])
            self.alter("two members", TopicPartition(topic, 0, 1))
            self.ask("deleted", self.admin.delete_consumer_groups([group_id])[group_id])
            self.settings("the broker's", "45000")
            for value in ("50000", "1", "999999", "many"):
                for key in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"):
                    self.change(key, value)
            self.change("no.such", "1")
            self.settings("its own", "50000")
            self.change("consumer.session.timeout.ms", None)
            self.settings("the broker's again", "45000")
        self.list_groups("empty")
        self.describe("empty")
        gone, nowhere = TopicPartition(topic, 9, 1), TopicPartition(f"{self.name}-nowhere", 0, 1)
        self.alter("empty", TopicPartition(topic, 0, 1), TopicPartition(other, 1, 2), gone, nowhere)
        self.offsets("empty", [TopicPartition(topic, 0), TopicPartition(other, 1)])
        for moment in ("deleted", "deleted again"):
            self.ask(moment, self.admin.delete_consumer_groups([group_id])[group_id])
        self.describe("deleted")
        self.list_groups("deleted")

    def _is_stable(self) -> bool:
        described = self.admin.describe_consumer_groups([f"{self.name}-g"])[f"{self.name}-g"]
        return bool(described.result(60).state is ConsumerGroupState.STABLE)


def shown(found: Any, name: str) -> str:
    """Writes an answer of librdkafka, without ids, hosts and coordinators."""
    if isinstance(found, dict):
        entries = {
            (key, each.value, each.source, each.is_read_only, each.is_default)
            for key, each in found.items()
            if key.startswith("consumer.")
        }
        return str(sorted(entries))
    if isinstance(found, ConsumerGroupTopicPartitions):
        each_offset = (
            (each.topic, each.partition, each.offset, each.error and each.error.name())
            for each in found.topic_partitions or ()
        )
        return str(sorted(each_offset))
    if isinstance(found, api.ListConsumerGroupsResult):
        listed = (
            (each.group_id, each.is_simple_consumer_group, each.state, each.type)
            for each in found.valid
            if each.group_id.startswith(name)
        )
        return f"{sorted(listed, key=str)} {found.errors}"
    if isinstance(found, api.ConsumerGroupDescription):
        members = []
        for each in found.members:
            target = each.target_assignment
            parts = [
                None
                if given is None
                else sorted((p.topic, p.partition) for p in given.topic_partitions)
                for given in (each.assignment, target)
            ]
            host = re.sub(r"[0-9.]+", "host", each.host)
            members.append(
                (each.client_id, bool(each.member_id), each.group_instance_id, host, parts)
            )
        operations = sorted(each.name for each in found.authorized_operations)
        return (
            f"{found.state} {found.type} {found.partition_assignor} {found.is_simple_consumer_group} {operations}"
            f" {_without_order(members)}"
        )
    return str(found)


def _without_order(members: list[Any]) -> list[Any]:
    """Returns members in the order of their clients; which of two gets which half is chance: by ids that are drawn."""
    ordered = sorted(members, key=str)
    sizes = [[None if each is None else len(each) for each in member[-1]] for member in ordered]
    return [(*member[:-1], counts) for member, counts in zip(ordered, sizes, strict=True)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", _KINDS)
def test_librdkafkas_admin_client_is_told_the_same(
    embedded: EmbeddedBroker, kafka: LocalKafka, group_id: str, kind: str
) -> None:
    ours, theirs = (Transcript(each, kind, f"l-{group_id}").run() for each in (embedded, kafka))
    assert ours == theirs
    assert len(ours) > 45
