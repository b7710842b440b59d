"""For the tests of the consumer: one in virtual time, and brokers, the embedded one and a real Kafka."""

from collections.abc import Iterator

import pytest

from tests.consumer.rig import Bench
from tests.support.brokers import KINDS, servers_of


@pytest.fixture(scope="module", params=KINDS)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a broker, of each kind."""
    with servers_of(request) as servers:
        yield servers


@pytest.fixture
def bench() -> Bench:
    """A consumer that takes part in its group, alone."""
    return Bench().joined()
