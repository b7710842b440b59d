"""What the tests of Connect are held against: brokers, the embedded one and a real Kafka, and Connect's own classes."""

from collections.abc import Iterator

import pytest

from tests.connect.kafka_assignor import KafkaAssignors, kafka_assignors
from tests.support.brokers import KINDS, servers_of


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a broker, of each kind."""
    with servers_of(request) as servers:
        yield servers


@pytest.fixture(scope="module")
def kafka_class(_java: None) -> Iterator[KafkaAssignors]:
    """Connect's own assignors."""
    with kafka_assignors() as assignors:
        yield assignors
