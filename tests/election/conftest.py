"""Brokers for the tests of elections: the embedded one, and a real Kafka."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a broker, of each kind."""
    if request.param == "kafka":
        yield request.getfixturevalue("kafka").bootstrap_servers
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers
