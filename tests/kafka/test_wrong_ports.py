"""Clients of each security protocol on Kafka's ports of another one."""

from collections.abc import Iterator

import pytest

from groupsdk.testing import LocalKafka
from tests.support.wrong_ports import LISTENERS, WRONG, check_wrong_port


@pytest.fixture(scope="module")
def broker(kafka_installed: None) -> Iterator[LocalKafka]:
    """A broker with a port of each protocol."""
    with LocalKafka(listeners=LISTENERS) as kafka:
        yield kafka


@pytest.mark.parametrize(("protocol", "listener"), list(WRONG))
def test_wrong_port_of_real_kafka_names_the_setting(
    broker: LocalKafka, protocol: str, listener: str
) -> None:
    check_wrong_port(protocol, listener, broker.bootstrap_servers_of(listener), broker.ca_file)
