"""Tests the answer that there are no quotas, with a real Kafka beside it."""

from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.security import ClientQuotaFilter, DescribeClientQuotasRequest
from tests.broker.clients import Client, connect


EXACT, DEFAULT, ANY = 0, 1, 2
FILTERS = [
    ((), 0),
    ((ClientQuotaFilter("user", EXACT, "nobody"),), 0),
    ((ClientQuotaFilter("user", ANY, None), ClientQuotaFilter("client-id", DEFAULT, None)), 0),
    ((ClientQuotaFilter("ip", ANY, None),), 0),
    ((ClientQuotaFilter("", ANY, None),), 42),
    ((ClientQuotaFilter("user", ANY, None), ClientQuotaFilter("user", ANY, None)), 42),
    ((ClientQuotaFilter("planet", ANY, None),), 35),
    ((ClientQuotaFilter("user", EXACT, None),), 42),
    ((ClientQuotaFilter("user", DEFAULT, "bob"),), 42),
    ((ClientQuotaFilter("user", ANY, "bob"),), 42),
    ((ClientQuotaFilter("user", 3, None),), 42),
    ((ClientQuotaFilter("user", ANY, None), ClientQuotaFilter("ip", ANY, None)), 42),
]


def check_filters(client: Client) -> None:
    """Asks for quotas where none are set."""
    for components, code in FILTERS:
        for version in (0, 1):
            answer = client.ask(DescribeClientQuotasRequest(components), version)
            assert answer.error_code == code, components
            assert (answer.error_message == "") == (code == 0)
            assert answer.entries == (None if code else ())


def test_a_filter_of_quotas_finds_none_or_is_refused(client: Client) -> None:
    check_filters(client)


def test_kafka_without_quotas_answers_the_same(kafka: LocalKafka) -> None:
    with connect(kafka) as client:
        check_filters(client)
