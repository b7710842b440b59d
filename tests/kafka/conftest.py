"""Brokers shared by the tests of consumers under faults."""

from collections.abc import Iterator

import pytest

from groupsdk.testing import LocalKafka
from tests.support.consumers import PACED_BY_TESTS
from tests.support.proxy import FaultProxy


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
