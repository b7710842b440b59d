"""`group.protocol=auto` where brokers lack the consumer protocol, gain it, lose it or refuse a right."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, and not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka import KafkaAdminClient

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from groupsdk.errors import GroupAuthorizationError
from groupsdk.testing import LocalKafka
from tests.kafka.migrating_group import look
from tests.support.consumers import (
    PACED_BY_TESTS,
    DrivenConsumer,
    OwnerWitness,
    await_beats,
    await_shared,
    tell,
)
from tests.support.topics import create_topic
from tests.support.workers import eventually


PARTITIONS = 4
_PROPERTIES = PACED_BY_TESTS | {"group.consumer.session.timeout.ms": "6000"}
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def paced_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    """A broker of Kafka whose members heartbeat often."""
    with LocalKafka(properties=_PROPERTIES) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    """One of ours."""
    with EmbeddedBroker({key: int(value) for key, value in _PROPERTIES.items()}) as broker:
        yield broker


@pytest.fixture(params=["paced_kafka", "embedded"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a broker of each kind, which serves the consumer protocol again after the test."""
    servers = str(request.getfixturevalue(request.param).bootstrap_servers)
    yield servers
    enable_consumer_protocol(servers, True)


def enable_consumer_protocol(address: str, enabled: bool) -> None:
    """Switch the consumer protocol on or off: by Kafka's feature, or the embedded broker's setting."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        if "metadata.version" in admin.describe_features():
            kind, level = ("UPGRADE", 1) if enabled else ("SAFE_DOWNGRADE", 0)
            answer = admin.update_features({"group.version": (kind, level)})
            assert answer == {"group.version": "OK"}
            return
    finally:
        admin.close()
    protocols = "classic,consumer" if enabled else "classic"
    entry = ConfigEntry(
        "group.coordinator.rebalance.protocols",
        protocols,
        incremental_operation=AlterConfigOpType.SET,
    )
    node = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": address})
    client.incremental_alter_configs([node])[node].result(60)


def settings_of(address: str, group_id: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a consumer that chooses its protocol itself."""
    given = {
        "bootstrap.servers": address,
        "group.id": group_id,
        "group.protocol": "auto",
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 30_000,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    return given | more


@pytest.fixture
def topic(group_id: str) -> str:
    return f"t-{group_id}"


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged of the choice."""
    return [
        each.getMessage() for each in caplog.records if "group.protocol=auto" in each.getMessage()
    ]


def test_a_switch_that_is_off_is_named_and_the_classic_protocol_used(
    address: str, group_id: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(address, topic, PARTITIONS)
    enable_consumer_protocol(address, False)
    with (
        caplog.at_level(logging.INFO, "groupsdk.consumer"),
        DrivenConsumer(topic, settings_of(address, group_id)) as driven,
    ):
        await_shared(PARTITIONS, driven)
        assert driven.consumer.group_protocol == "classic"
        assert look(address, group_id).type == "classic"
    assert not driven.errors
    # Kafka's coordinator may follow the switch a moment after it was answered: the last choice counts
    line = said(caplog)[-1]
    assert "uses the classic protocol" in line
    assert "group.version" in line


def test_a_service_follows_the_switch_one_restart_after_the_other(
    address: str, group_id: str, topic: str
) -> None:
    create_topic(address, topic, PARTITIONS)
    enable_consumer_protocol(address, False)
    settings = settings_of(address, group_id)
    with ExitStack() as stack:

        def join() -> DrivenConsumer:
            return stack.enter_context(DrivenConsumer(topic, settings))

        members = [join(), join()]
        await_shared(PARTITIONS, *members)
        enable_consumer_protocol(address, True)
        await_beats(*members)
        assert {each.consumer.group_protocol for each in members} == {"classic"}
        # the first one that is restarted takes the group along
        members.pop(0).stop()
        members.append(join())
        await_shared(PARTITIONS, *members)
        assert [each.consumer.group_protocol for each in members] == ["classic", "consumer"]
        eventually(lambda: look(address, group_id).type == "consumer")
        members.pop(0).stop()
        members.append(join())
        await_shared(PARTITIONS, *members)
        assert {each.consumer.group_protocol for each in members} == {"consumer"}
        assert not [error for each in members for error in each.errors]


def test_a_switch_that_is_turned_off_takes_a_running_service_back(
    address: str, group_id: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(address, topic, PARTITIONS)
    settings = settings_of(address, group_id)
    with (
        caplog.at_level(logging.INFO, "groupsdk.consumer"),
        DrivenConsumer(topic, settings) as one,
        DrivenConsumer(topic, settings) as two,
        OwnerWitness(one, two) as witness,
    ):
        await_shared(PARTITIONS, one, two)
        assert [each.consumer.group_protocol for each in (one, two)] == ["consumer"] * 2
        held = [each.owned for each in (one, two)]
        enable_consumer_protocol(address, False)
        eventually(lambda: {each.consumer.group_protocol for each in (one, two)} == {"classic"})
        await_shared(PARTITIONS, one, two)
        assert [each.heard("lost") for each in (one, two)] == [[each] for each in held]
        witness.check()
        assert not [*one.errors, *two.errors]
    assert len([line for line in said(caplog) if "uses the classic protocol" in line]) == 2


@pytest.fixture
def readable_topic(secure_kafka: LocalKafka, may_read: Callable[..., None], topic: str) -> str:
    """A topic that mallory may read."""
    create_topic(secure_kafka.bootstrap_servers_of("PLAINTEXT"), topic, PARTITIONS)
    may_read(ResourceType.TOPIC, topic, True)
    return topic


def test_a_right_that_is_lacking_is_told_and_no_reason_for_the_classic_protocol(
    secure_kafka: LocalKafka,
    rights: Callable[[bool], None],
    group_id: str,
    readable_topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT")
    settings = settings_of(address, group_id) | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mallory",
        "sasl.password": "mallory-secret",
    }
    with caplog.at_level(logging.INFO, "groupsdk.consumer"):
        with GroupConsumer(settings) as refused:
            refused.subscribe(readable_topic)
            with pytest.raises(GroupAuthorizationError, match="GROUP_AUTHORIZATION_FAILED"):
                refused.poll(60)
            assert refused.group_protocol == "consumer"
        assert not said(caplog)
        rights(True)
        # it may not describe the group's configuration, so the session timeout is not known
        with DrivenConsumer(readable_topic, settings) as driven:
            await_shared(PARTITIONS, driven)
            assert driven.consumer.group_protocol == "consumer"
        assert not driven.errors
        assert "uses the consumer protocol: the broker serves it" in said(caplog)[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_right_that_is_taken_away_and_given_back_costs_no_restart(
    secure_kafka: LocalKafka,
    rights: Callable[[bool], None],
    group_id: str,
    readable_topic: str,
    protocol: str,
) -> None:
    """In both protocols the refusal is raised by polls, and a consumer that polls on reads on once it may."""
    settings = settings_of(secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT"), group_id) | {
        "group.protocol": protocol,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mallory",
        "sasl.password": "mallory-secret",
    }
    if protocol == "consumer":
        for name in (
            "heartbeat.interval.ms",
            "session.timeout.ms",
            "partition.assignment.strategy",
        ):
            del settings[name]

    def refused() -> bool:
        return any(isinstance(each, GroupAuthorizationError) for each in driven.errors)

    with DrivenConsumer(readable_topic, settings) as driven:
        eventually(refused, lambda: tell(driven))  # the join
        rights(True)
        await_shared(PARTITIONS, driven)
        driven.errors.clear()
        rights(False)
        eventually(refused, lambda: tell(driven))  # a heartbeat
        rights(True)
        await_shared(PARTITIONS, driven)
        await_beats(driven)
        assert {type(each) for each in driven.errors} == {GroupAuthorizationError}


def test_a_group_that_cannot_change_its_protocol_is_joined_by_the_one_that_it_has(
    group_id: str, topic: str, caplog: pytest.LogCaptureFixture, kafka_installed: None
) -> None:
    policy = {"group.consumer.migration.policy": "disabled"}
    with LocalKafka(properties=_PROPERTIES | policy) as kafka:
        address = kafka.bootstrap_servers
        create_topic(address, topic, PARTITIONS)
        classic = settings_of(address, group_id) | {"group.protocol": "classic"}
        with DrivenConsumer(topic, classic) as old:
            await_shared(PARTITIONS, old)
            with (
                caplog.at_level(logging.INFO, "groupsdk.consumer"),
                DrivenConsumer(topic, settings_of(address, group_id)) as new,
            ):
                await_shared(PARTITIONS, old, new)
                assert new.consumer.group_protocol == "classic"
                (line,) = said(caplog)
                assert "GROUP_ID_NOT_FOUND" in line
        assert not [*old.errors, *new.errors]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9.1", "3.6.2"])
def test_a_release_without_the_protocol_is_joined_by_the_classic_one(
    group_id: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    kafka_installed: None,
    version: str,
) -> None:
    with LocalKafka(version=version) as kafka:
        address = kafka.bootstrap_servers
        create_topic(address, topic, PARTITIONS)
        with (
            caplog.at_level(logging.INFO, "groupsdk.consumer"),
            DrivenConsumer(topic, settings_of(address, group_id)) as driven,
        ):
            await_shared(PARTITIONS, driven)
            assert driven.consumer.group_protocol == "classic"
        assert not driven.errors
        (line,) = said(caplog)
        assert "Apache Kafka 4.0" in line
