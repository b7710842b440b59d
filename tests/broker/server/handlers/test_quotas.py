"""Tests the quotas, of which there are none, and the checks of what asks for them, with a real Kafka beside it."""

import pytest

from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.describe_client_quotas import (
    ANY,
    DEFAULT,
    EXACT,
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.broker.clients import Client


ASKED = [
    ((), 0),
    ((ComponentData("user", EXACT, "bob"),), 0),
    ((ComponentData("user", ANY, None), ComponentData("client-id", DEFAULT, None)), 0),
    ((ComponentData("ip", ANY, None),), 0),
    ((ComponentData("", ANY, None),), 42),
    ((ComponentData("user", ANY, None), ComponentData("user", ANY, None)), 42),
    ((ComponentData("planet", ANY, None),), 35),
    ((ComponentData("user", EXACT, None),), 42),
    ((ComponentData("user", DEFAULT, "bob"),), 42),
    ((ComponentData("user", ANY, "bob"),), 42),
    ((ComponentData("user", 3, None),), 42),
    ((ComponentData("user", ANY, None), ComponentData("ip", ANY, None)), 42),
]


@pytest.mark.parametrize(("components", "error_code"), ASKED)
def test_there_are_no_quotas(
    client: Client, components: tuple[ComponentData, ...], error_code: int
) -> None:
    for version in (0, 1):
        answer = client.ask(DescribeClientQuotasRequest(components), version)
        assert answer.error_code == error_code
        assert answer.entries == (None if error_code else ())
        assert (answer.error_message is None) == (error_code == 0)


@pytest.mark.parametrize(("components", "error_code"), ASKED)
def test_kafka_checks_the_same(
    kafka: LocalKafka, components: tuple[ComponentData, ...], error_code: int
) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as client:
        answer = client.ask(DescribeClientQuotasRequest(components), 1)
    assert (answer.error_code, answer.entries) == (error_code, None if error_code else ())
