"""Test addresses, and the options that make a dead peer known."""

import asyncio
import socket
from typing import Any

import pytest

from groupsdk.drivers.engine import connect as sockets
from groupsdk.drivers.engine.blocking import BlockingCalls
from groupsdk.drivers.engine.connect import SocketAddress, connect_socket, resolve_host
from groupsdk.errors import ResolveError
from tests.drivers.engine.rig import run
from tests.support.scripted_broker import full_port, mute_port, refusing_port


async def test_a_peer_that_is_gone_without_a_word_is_noticed() -> None:
    """A join may be parked for minutes: nothing is sent then, and nothing would tell."""
    with mute_port() as port:
        sock = await connect_socket(SocketAddress(socket.AF_INET, ("127.0.0.1", port)))
    with sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        for name, value in (
            ("TCP_KEEPIDLE", 15),
            ("TCP_KEEPINTVL", 5),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 30_000),
        ):
            if hasattr(socket, name):  # Linux has them all
                assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value


def test_a_platform_without_the_options_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "TCP_KEEPIDLE",
        "TCP_KEEPALIVE",
        "TCP_KEEPINTVL",
        "TCP_KEEPCNT",
        "TCP_USER_TIMEOUT",
    ):
        monkeypatch.delattr(socket, name, raising=False)
    with socket.socket() as sock:
        sockets.tune(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_a_literal_address_needs_no_name_server(
    host: str, family: socket.AddressFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    run(expect(host, [SocketAddress(family, (host, 9092))]))


async def expect(host: str, addresses: list[SocketAddress]) -> None:
    assert await resolve_host(host, 9092, BlockingCalls()) == addresses


def test_a_name_gives_each_of_its_addresses_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        v4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port))
        v6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", port, 0, 2))
        return [v6, v4, v4]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    v6 = SocketAddress(socket.AF_INET6, ("fe80::1", 9092, 0, 2))
    run(expect("kafka", [v6, SocketAddress(socket.AF_INET, ("10.0.0.1", 9092))]))


@pytest.mark.parametrize(
    "host", ["no-such-host.invalid", "x..y", "a" * 64 + ".org", "\udc80", "a\0b.invalid"]
)
async def test_invalid_host_name_does_not_resolve(host: str) -> None:
    with pytest.raises(ResolveError, match="does not resolve"):
        await resolve_host(host, 9092, BlockingCalls())


async def test_a_name_without_addresses_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    with pytest.raises(ResolveError, match="no IP address"):
        await resolve_host("kafka", 9092, BlockingCalls())


async def test_a_connection_given_up_leaves_nothing_for_the_next_socket() -> None:
    """The next socket has the same number: what the loop knows of the old one must be gone by then."""
    with full_port() as full, mute_port() as free:
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.002):
                    await connect_socket(SocketAddress(socket.AF_INET, ("127.0.0.1", full)))
            address = SocketAddress(socket.AF_INET, ("127.0.0.1", free))
            (await connect_socket(address)).close()


async def test_a_refused_connection_closes_its_socket() -> None:
    with refusing_port() as port, pytest.raises(ConnectionRefusedError):
        await connect_socket(SocketAddress(socket.AF_INET, ("127.0.0.1", port)))
