"""The proxy stands between a real client and the real broker, also where the broker names its own address."""

import contextlib

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from groupsdk.testing import LocalKafka
from tests.support.proxy import Action, Fault, FaultProxy, Side


_API_VERSIONS, _METADATA = 18, 3


def _client(proxy: FaultProxy) -> AdminClient:
    return AdminClient({"bootstrap.servers": proxy.bootstrap_servers, "log_level": 0})


def test_broker_advertises_the_proxy(kafka: LocalKafka, proxy: FaultProxy) -> None:
    (broker,) = _client(proxy).list_topics(timeout=10).brokers.values()
    assert f"{broker.host}:{broker.port}" == proxy.bootstrap_servers
    assert proxy.bootstrap_servers == kafka.bootstrap_servers_of("PROXIED")
    assert proxy.seen(_API_VERSIONS)
    assert proxy.seen(_METADATA)


def test_client_gets_over_a_cut_answer(kafka: LocalKafka, proxy: FaultProxy) -> None:
    cut = Fault(action=Action.CUT, api_key=_METADATA, side=Side.ANSWER, after_bytes=20)
    proxy.add(cut)
    client = _client(proxy)
    # librdkafka repeats a cut request by itself or says _TRANSPORT, whichever of its threads comes first
    with contextlib.suppress(KafkaException):
        client.list_topics(timeout=10)
    assert set(client.list_topics(timeout=10).brokers) == {1}
    assert proxy.happened() == [cut]
    assert proxy.connections >= 2


def test_client_sees_a_refused_connection(kafka: LocalKafka, proxy: FaultProxy) -> None:
    proxy.refuse()
    with pytest.raises(KafkaException):
        _client(proxy).list_topics(timeout=1)
    proxy.refuse(False)
    assert set(_client(proxy).list_topics(timeout=10).brokers) == {1}
