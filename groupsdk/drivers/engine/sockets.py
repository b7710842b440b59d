"""Find the addresses of a host, and connect sockets that notice a dead peer."""

import asyncio
import socket
from typing import Any, Final

from groupsdk.drivers.engine.blocking import BlockingCalls
from groupsdk.errors import ResolveError
from groupsdk.lazy_dataclasses import dataclass


KEEPALIVE_IDLE_S: Final = 15
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_COUNT: Final = 3
USER_TIMEOUT_MS: Final = 1_000 * (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_COUNT)
"""A peer that vanished is noticed after 30 s, whether or not a response is outstanding."""


@dataclass(frozen=True, slots=True)
class SocketAddress:
    """One address of a host."""

    family: socket.AddressFamily
    """IPv4 or IPv6."""
    sockaddr: Any
    """What `socket.connect` takes for this family."""


async def resolve(host: str, port: int, blocking: BlockingCalls) -> list[SocketAddress]:
    """Return the addresses of a host, at least one or a ResolveError, in the system's order of preference."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return [SocketAddress(family, (host, port))]
    try:
        found = await blocking.run(
            ("resolve", host), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except (OSError, ValueError) as error:  # UnicodeError is a ValueError
        raise ResolveError(f"{host!r} does not resolve to an address: {error}") from error
    addresses = [
        # with the port put in: a lookup for another port of the same host may have been joined
        SocketAddress(family, (sockaddr[0], port, *sockaddr[2:]))
        for family, _, _, _, sockaddr in found
    ]
    if not addresses:
        raise ResolveError(f"{host!r} has no IP address")
    return list(dict.fromkeys(addresses))


async def connect_socket(address: SocketAddress) -> socket.socket:
    """Return a connected non-blocking socket, tuned by `tune`, which the caller owns."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        tune(sock)
        await loop.sock_connect(sock, address.sockaddr)
    except BaseException:
        # The loop would forget the socket only in its next turn, and take a new one with the same number,
        # opened meanwhile, for this one.
        loop.remove_writer(sock)
        sock.close()
        raise
    return sock


def tune(sock: socket.socket) -> None:
    """Disable Nagle's algorithm, and make the system detect peers that vanish silently.

    The group coordinator may hold a join for minutes, during which nothing is sent: without probes the
    loss of its machine would go unnoticed for as long.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), KEEPALIVE_IDLE_S),  # the second is macOS's name
        (("TCP_KEEPINTVL",), KEEPALIVE_INTERVAL_S),
        (("TCP_KEEPCNT",), KEEPALIVE_COUNT),
        (("TCP_USER_TIMEOUT",), USER_TIMEOUT_MS),
    ):
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
