"""What the tests of Connect are held against: brokers, the embedded one and a real Kafka, and Connect's own classes."""

import os
from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing.errors import MissingToolError
from groupsdk.testing.jvm import find_javac
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
def kafka_class() -> Iterator[KafkaAssignors]:
    """Connect's own assignors."""
    try:
        find_javac()
    except MissingToolError as error:
        if os.environ.get("GROUPSDK_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(str(error))
    with kafka_assignors() as assignors:
        yield assignors
