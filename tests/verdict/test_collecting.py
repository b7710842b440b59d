"""Plants faults in real groups, on the embedded broker and on Kafka, and checks that each is found by its rule."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka


pytestmark = pytest.mark.timeout(600)

LATER_MS = 120_000
"""How much later than they happened things are looked at: members that have been the same for a minute are judged."""


@pytest.fixture(scope="module")
def _embedded() -> Iterator[EmbeddedBroker]:
    settings = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
    with EmbeddedBroker(settings, nodes=2) as broker:
        yield broker


@pytest.fixture(scope="module")
def _own_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(properties={"group.initial.rebalance.delay.ms": "0"}) as started:
        yield started


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> str:
    """Where the broker answers."""
    fixture = {"embedded": "_embedded", "kafka": "_own_kafka"}[request.param]
    found: str = request.getfixturevalue(fixture).bootstrap_servers
    return found
