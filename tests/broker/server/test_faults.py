"""Tests what is scripted to go wrong, as a client sees it."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import ManualClock
from groupsdk.error_code import ErrorCode
from groupsdk.errors import ConfigError
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, batch, connect, end_offset, produce


BEAT = HeartbeatRequest("g", 1, "m")


def test_an_error_is_answered_as_often_as_asked(broker: EmbeddedBroker, client: Client) -> None:
    fault = broker.faults.answer("Heartbeat", ErrorCode.NOT_COORDINATOR, times=2)
    assert [client.ask(BEAT).error_code for _ in range(3)] == [16, 16, 25]
    assert fault.hits == 2
    assert len(broker.faults) == 0


def test_a_fault_may_last_until_it_is_cleared(broker: EmbeddedBroker, client: Client) -> None:
    fault = broker.faults.answer("HEARTBEAT", 15, times=None)
    assert [client.ask(BEAT).error_code for _ in range(5)] == [15] * 5
    fault.remove()
    assert client.ask(BEAT).error_code == 25
    broker.faults.answer("heartbeat", 15, times=None)
    broker.faults.clear()
    assert client.ask(BEAT).error_code == 25


def test_an_error_of_partitions_is_put_on_each(broker: EmbeddedBroker, client: Client) -> None:
    broker.faults.answer("Produce", ErrorCode.NOT_ENOUGH_REPLICAS)
    refused = produce(client, "t", batch(b"v"))
    assert (refused.error_code, refused.base_offset) == (19, -1)
    assert end_offset(client, "t") == 0


def test_a_fault_may_be_for_some_requests_only(broker: EmbeddedBroker, client: Client) -> None:
    broker.faults.answer("Heartbeat", 15, match=lambda request: request.group_id == "h")
    assert client.ask(BEAT).error_code == 25
    assert client.ask(HeartbeatRequest("h", 1, "m")).error_code == 15


def test_a_fault_may_be_for_one_node_only() -> None:
    with EmbeddedBroker(nodes=2) as broker:
        broker.faults.disconnect("Metadata", node=2)
        with connect(broker, 1) as one, connect(broker, 2) as two:
            assert one.ask(MetadataRequest(()), 12).brokers
            two.send(MetadataRequest(()), 12)
            assert two.is_closed()


def test_a_delayed_request_is_handled_later() -> None:
    clock = ManualClock(1_000)
    with EmbeddedBroker(clock=clock) as broker, connect(broker) as client:
        broker.faults.delay("Heartbeat", 500)
        sent = client.send(BEAT)
        client.socket.settimeout(0.1)
        broker.advance(499)
        with pytest.raises(TimeoutError):
            client.frame()
        # until the request has arrived and waited its time
        client.socket.settimeout(20)
        while len(broker.faults):
            broker.advance(0)
        broker.advance(500)
        assert client.answer(BEAT, sent).error_code == 25


def test_a_dropped_request_is_never_answered(broker: EmbeddedBroker, client: Client) -> None:
    broker.faults.drop("Heartbeat")
    client.send(BEAT)
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.frame()
    with connect(broker) as other:
        assert other.ask(BEAT).error_code == 25


@pytest.mark.parametrize("handle", [True, False])
def test_a_connection_may_be_cut_before_or_after_the_deed(
    broker: EmbeddedBroker, client: Client, handle: bool
) -> None:
    broker.faults.disconnect("Produce", handle=handle)
    with pytest.raises(ConnectionError):
        produce(client, "t", batch(b"v"))
    with connect(broker) as other:
        assert end_offset(other, "t") == (1 if handle else 0)


def test_wrong_faults_are_named(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="not the name of an API that the broker serves"):
        broker.faults.answer("HeartBeats", 15)
    with pytest.raises(ConfigError, match="times must be at least 1, or None for always, not 0"):
        broker.faults.answer("Heartbeat", 15, times=0)
