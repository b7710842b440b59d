"""Brokers for the tests of the consumer: the embedded one, and a real Kafka."""

from collections.abc import Iterator

import pytest

from tests.support.brokers import KINDS, servers_of


@pytest.fixture(scope="module", params=KINDS)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a broker, of each kind."""
    with servers_of(request) as servers:
        yield servers
