"""Gives the broker's tests a broker."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from tests.broker.clients import Client, connect


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with a topic `t` of three partitions."""
    with EmbeddedBroker(topics={"t": 3}) as running:
        yield running


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[Client]:
    with connect(broker) as connected:
        yield connected
