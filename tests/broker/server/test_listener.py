"""Tests where a node listens, and how many it lets in."""

from typing import cast

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.connection import Connection
from groupsdk.broker.server.listener import Limits, is_loopback, node_addresses, parse_listeners
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.errors import ConfigError
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, connect


def test_listeners_are_read() -> None:
    assert parse_listeners("listeners", "A://127.0.0.1:9092, b://[::1]:0") == [
        ("A", "127.0.0.1", 9092),
        ("B", "::1", 0),
    ]


@pytest.mark.parametrize(
    "text", ["127.0.0.1:9092", "A://", "A://h", "A://h:x", "A://h:70000", "://h:1"]
)
def test_text_that_is_not_a_listener_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME://host:port"):
        parse_listeners("listeners", text)


def addresses(listeners: str, **settings: str) -> list[tuple[str, str]]:
    """Returns the names and protocols of listeners."""
    config = BrokerConfig.of(settings, listeners=listeners)
    return [(each.name, each.protocol) for each in node_addresses(config).listeners]


def test_names_have_protocols() -> None:
    assert addresses("PLAINTEXT://localhost:0,SASL_SSL://0.0.0.0:0") == [
        ("PLAINTEXT", "PLAINTEXT"),
        ("SASL_SSL", "SASL_SSL"),
    ]
    mapped = {"listener_security_protocol_map": "INSIDE:SASL_PLAINTEXT"}
    assert addresses("INSIDE://127.0.0.1:0", **mapped) == [("INSIDE", "SASL_PLAINTEXT")]


@pytest.mark.parametrize(
    ("listeners", "text"),
    [
        ("", "must name at least one address"),
        ("PLAINTEXT://0.0.0.0:0", "open to the network"),
        ("PLAINTEXT://:0", "open to the network"),
        ("SSL://192.0.2.1:0", "open to the network"),
        ("SASL_PLAINTEXT://example.com:0", "open to the network"),
        ("PLAINTEXT://::0", "open to the network"),
        ("MINE://127.0.0.1:0", "no security protocol"),
        ("PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:1", "2 times for 1 node"),
    ],
)
def test_listeners_that_are_refused(listeners: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        addresses(listeners)


def test_loopback_addresses_are_recognized() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "10.0.0.1", "example.com")))


def test_several_listeners_each_name_their_own_address() -> None:
    settings = {
        "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
        "advertised.listeners": "TWO://proxy.invalid:1234",
    }
    with EmbeddedBroker(settings) as broker, connect(broker) as one:
        (seen,) = one.ask(MetadataRequest(()), 12).brokers
        assert f"{seen.host}:{seen.port}" == broker.bootstrap_servers
        assert broker.bootstrap_servers_of("TWO") == "proxy.invalid:1234"
        port = broker._running().nodes[1].ports["TWO"]
        with Client(("127.0.0.1", port)) as two:
            (seen,) = two.ask(MetadataRequest(()), 12).brokers
            assert (seen.host, seen.port) == ("proxy.invalid", 1234)


def test_connection_beyond_the_limit_is_closed() -> None:
    for settings in ({"max.connections": 2}, {"max.connections.per.ip": 2}):
        with EmbeddedBroker(settings) as broker:
            with connect(broker) as one, connect(broker) as two:
                for each in (one, two):
                    assert each.ask(MetadataRequest(()), 12).brokers
                with connect(broker) as third:
                    assert third.is_closed()
                assert one.ask(MetadataRequest(()), 12).brokers
            while broker._on_loop(lambda: broker._running().limits._total):
                pass
            with connect(broker) as again:
                assert again.ask(MetadataRequest(()), 12).brokers


def test_memory_is_given_while_there_is_some_and_then_to_one_at_a_time() -> None:
    class Waiting:
        """Stands in for a connection that takes what it waited for."""

        freed = 0

        def memory_free(self) -> None:
            self.freed += 1
            assert limits.reserve(cast("Connection", self), 10)

    def reserve(each: Waiting, size: int) -> bool:
        return limits.reserve(cast("Connection", each), size)

    def release(each: Waiting, size: int) -> None:
        limits.release(cast("Connection", each), size)

    limits = Limits(BrokerConfig.of(queued_max_request_bytes=100))
    one, two, three, four = (Waiting() for _ in range(4))
    assert reserve(one, 60)
    assert reserve(two, 60)
    # all is taken: the first to ask goes on, and may have what it needs
    assert reserve(two, 500)
    for waiting in (one, three, four, three):
        assert not reserve(waiting, 10)
    release(two, 560)
    # one and three fit in by now; the last of them takes what was left
    assert (one.freed, three.freed, four.freed, limits._bytes) == (1, 1, 1, 90)
    release(one, 90)
    assert limits._bytes == 0


def test_memory_of_unknown_clients_is_counted_apart() -> None:
    limits = Limits(BrokerConfig.of(queued_max_request_bytes=100))
    assert limits.reserve_unknown(16 * 2**20)
    assert not limits.reserve_unknown(1)
    other = cast("Connection", object())
    assert limits.reserve(other, 100)
    limits.release(other, 100)
    limits.release_unknown(2**20)
    assert limits.reserve_unknown(2**20)
