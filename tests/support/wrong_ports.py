"""Clients on ports of another security protocol: what a member, a consumer and the tools raise."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from groupsdk.admin.cluster import ClusterClient
from groupsdk.consumer import GroupConsumer
from groupsdk.errors import AuthenticationError, TlsError
from groupsdk.history.sources.topic_reader import TopicReader
from tests.support.workers import RecordingMember


USER: Final = "alice"
PASSWORD: Final = "alice-secret"

_NO_TLS: Final = (TlsError, r"does not speak TLS \(set security_protocol to PLAINTEXT")
_NO_SASL: Final = "does not use SASL on this port: set security.protocol to "
_WANTS_SASL: Final = r"the port wants SASL \(set security.protocol to "
# Kafka sends a TLS alert, which says more than the end of the connection, and does not always arrive.
_WANTS_TLS: Final = "set security.protocol to (SSL or )?"

WRONG: Final[dict[tuple[str, str], tuple[type[AuthenticationError], str]]] = {
    ("SSL", "PLAINTEXT"): _NO_TLS,
    ("SASL_SSL", "PLAINTEXT"): _NO_TLS,
    ("SSL", "SASL_PLAINTEXT"): _NO_TLS,
    ("SASL_SSL", "SASL_PLAINTEXT"): _NO_TLS,
    ("SASL_PLAINTEXT", "PLAINTEXT"): (AuthenticationError, _NO_SASL + "PLAINTEXT"),
    ("SASL_SSL", "SSL"): (AuthenticationError, _NO_SASL + "SSL"),
    ("PLAINTEXT", "SASL_PLAINTEXT"): (AuthenticationError, _WANTS_SASL + "SASL_PLAINTEXT"),
    ("SSL", "SASL_SSL"): (AuthenticationError, _WANTS_SASL + "SASL_SSL"),
    ("PLAINTEXT", "SSL"): (AuthenticationError, "set security.protocol to SSL"),
    ("PLAINTEXT", "SASL_SSL"): (AuthenticationError, "set security.protocol to SSL"),
    ("SASL_PLAINTEXT", "SSL"): (AuthenticationError, _WANTS_TLS + "SASL_SSL"),
    ("SASL_PLAINTEXT", "SASL_SSL"): (AuthenticationError, _WANTS_TLS + "SASL_SSL"),
}
"""By the protocols of client and port: the error, and what its message says."""
LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def check_wrong_port(protocol: str, listener: str, address: str, ca_file: Path) -> None:
    """Check what every kind of client raises that speaks `protocol` to a port of `listener`."""
    settings: dict[str, Any] = {"bootstrap.servers": address, "security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl.ca.location"] = str(ca_file)
    if protocol.startswith("SASL"):
        credentials = {"sasl.username": USER, "sasl.password": PASSWORD}
        settings |= {"sasl.mechanism": "PLAIN"} | credentials
    kind, text = WRONG[protocol, listener]
    clients: list[Callable[[dict[str, Any]], None]] = [_member, _consumer, _tool, _history]
    for client in clients:
        with pytest.raises(AuthenticationError, match=text) as raised:
            client(settings)
        assert isinstance(raised.value, TlsError) is (kind is TlsError), client
        assert address in str(raised.value)


def _member(settings: dict[str, Any]) -> None:
    keywords = {key.replace(".", "_"): value for key, value in settings.items()}
    with RecordingMember(group_id="wrong", **keywords) as member:
        _poll_until_it_raises(lambda: member.poll(1_000))


def _consumer(settings: dict[str, Any]) -> None:
    quiet = logging.getLogger("librdkafka")
    consumer = GroupConsumer(settings | {"group.id": "wrong-consumer"}, logger=quiet)
    try:
        consumer.subscribe("orders")
        _poll_until_it_raises(lambda: consumer.consume(1, 1.0))
    finally:
        consumer.close(1.0)


def _poll_until_it_raises(poll: Callable[[], object]) -> None:
    while True:  # the time limit of the test ends it
        poll()


def _tool(settings: dict[str, Any]) -> None:
    async def ask() -> None:
        async with ClusterClient(settings, timeout_s=0.2) as client:
            await client.metadata()

    asyncio.run(ask())


def _history(settings: dict[str, Any]) -> None:
    with TopicReader(settings, timeout_s=0.2) as reader:
        reader.partitions("orders")
