"""Holds the rules of groups on the embedded broker, and that they are Kafka's on a real one."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from tests.broker.clients import Client
from tests.broker.coordinator.consumer.conversation import SETTINGS, Conversation
from tests.broker.coordinator.consumer.rules import RULES, follow


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, int]]:
    """The address of an embedded broker with the settings of the real one."""
    with EmbeddedBroker(SETTINGS) as broker:
        yield _address(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def real(kafka_installed: None) -> Iterator[tuple[str, int]]:
    """The address of a Kafka that assigns at once."""
    with LocalKafka(properties=SETTINGS) as kafka:
        yield _address(kafka.bootstrap_servers)


def _address(bootstrap_servers: str) -> tuple[str, int]:
    host, _, port = bootstrap_servers.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("rule", RULES)
def test_the_broker_follows_the_rule(embedded: tuple[str, int], group_id: str, rule: str) -> None:
    with Client(embedded, "c") as client:
        follow(RULES[rule], Conversation(client, group_id))


@pytest.mark.parametrize("rule", RULES)
def test_kafka_follows_the_rule(real: tuple[str, int], group_id: str, rule: str) -> None:
    with Client(real, "c") as client:
        follow(RULES[rule], Conversation(client, group_id))
