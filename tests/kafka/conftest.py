"""Brokers that tests share."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from tests.support.consumers import PACED_BY_TESTS
from tests.support.proxy import FaultProxy


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    """A broker of ours."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(params=["kafka", "embedded"])
def servers(request: pytest.FixtureRequest) -> str:
    """The address of a broker of each kind."""
    return str(request.getfixturevalue(request.param).bootstrap_servers)


@pytest.fixture(scope="module")
def paced_proxy() -> Iterator[FaultProxy]:
    """The proxy before the listener PROXIED of `paced_kafka`."""
    with FaultProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def paced_kafka(kafka_installed: None, paced_proxy: FaultProxy) -> Iterator[LocalKafka]:
    """A broker whose groups may have short sessions, with a listener behind a proxy; nobody kills it."""
    with LocalKafka(
        listeners={"PLAINTEXT": "PLAINTEXT", "PROXIED": "PLAINTEXT"},
        advertised={"PROXIED": [paced_proxy.address]},
        properties=PACED_BY_TESTS,
    ) as kafka:
        paced_proxy.connect_to(kafka.nodes[0].address("PROXIED"))
        yield kafka


@pytest.fixture
def way(paced_kafka: LocalKafka, paced_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """The way to `paced_kafka` that can fail."""
    paced_proxy.reset()
    yield paced_proxy
    paced_proxy.reset()
