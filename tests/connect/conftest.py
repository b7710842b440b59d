"""What the tests of Connect are held against: brokers, the embedded one and a real Kafka, and Connect's own classes."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from tests.connect.kafka_assignor import KafkaAssignors, kafka_assignors


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a broker, of each kind."""
    if request.param == "kafka":
        yield request.getfixturevalue("kafka").bootstrap_servers
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def kafka_class(_java: None) -> Iterator[KafkaAssignors]:
    """Connect's own assignors."""
    with kafka_assignors() as assignors:
        yield assignors
