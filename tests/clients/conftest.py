"""Gives the tests of real clients a broker of three nodes to be clients of."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Three nodes that share the partitions and the coordinators."""
    with EmbeddedBroker(nodes=3) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker, group_id: str) -> str:
    """A topic of four partitions that no other test uses."""
    name = f"t-{group_id}"
    broker.create_topic(name, 4)
    return name
