"""Test opening a connection: addresses, TLS and plain text, old brokers, silent ones."""

import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from groupsdk.drivers.engine import connect
from groupsdk.drivers.engine.connect import Connector, SocketAddress, WrongProtocolError, refusal
from groupsdk.drivers.engine.refusals import FirstRequestRefusedError, TlsRefusedError
from groupsdk.errors import (
    AuthenticationError,
    BrokerError,
    CoordinatorNotAvailableError,
    DisconnectedError,
    FencedInstanceIdError,
    GroupSdkError,
    RequestTimeoutError,
    ResolveError,
    TlsError,
    UnsupportedVersionError,
)
from groupsdk.wire.messages.connection import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import config, run
from tests.support.scripted_broker import ScriptedBroker, full_port, mute_port, refusing_port
from tests.support.scripted_steps import (
    KAFKA_0_10,
    KAFKA_1_0,
    KAFKA_2_3,
    KAFKA_4_3,
    Step,
    Versions,
    cut,
    hang_up,
    raw,
)
from tests.support.workers import eventually


@asynccontextmanager
async def connector(**settings: Any) -> AsyncIterator[Connector]:
    made = Connector(config("unused:1", **settings))
    try:
        yield made
    finally:
        await made.close()


def fails(
    error: type[GroupSdkError], text: str, port: int, host: str = "127.0.0.1", **settings: Any
) -> GroupSdkError:
    """Open a connection, which fails like that; return the error."""
    caught: list[GroupSdkError] = []

    async def work() -> None:
        async with connector(**settings) as made:
            with pytest.raises(error, match=text) as info:
                await made.open(host, port)
            caught.append(info.value)

    run(work())
    return caught[0]


def opens(port: int, host: str = "127.0.0.1", **settings: Any) -> None:
    async def work() -> None:
        async with connector(**settings) as made:
            connection = await made.open(host, port)
            assert connection.usable
            assert ApiKey.JOIN_GROUP in connection.versions

    run(work())


# Addresses.


def test_a_name_with_a_dead_address_connects_to_the_other(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing_port() as refused, full_port() as dead:
        for port in (refused, dead):
            addresses = [("127.0.0.1", port), ("127.0.0.1", broker.port)]
            monkeypatch.setattr(connect, "resolve_host", resolves_to(*addresses))
            opens(9092, "kafka", socket_connection_setup_timeout_ms=1_000)


def resolves_to(*addresses: tuple[str, int]) -> Any:
    async def resolve(*_: object) -> list[SocketAddress]:
        return [SocketAddress(socket.AF_INET, each) for each in addresses]

    return resolve


def test_an_address_that_connects_and_is_silent_is_not_tried_first_again(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(mute: int) -> None:
        monkeypatch.setattr(
            connect, "resolve_host", resolves_to(("127.0.0.1", mute), ("127.0.0.1", broker.port))
        )
        async with connector(socket_connection_setup_timeout_ms=3_000) as made:
            with pytest.raises(RequestTimeoutError, match="connected, but no answer"):
                await made.open("kafka", 9092)
            assert (await made.open("kafka", 9092)).usable

    with mute_port() as port:
        run(work(port))


def test_a_cancelled_attempt_is_no_failure_of_its_address() -> None:
    async def work() -> None:
        async with connector() as made:
            task = asyncio.create_task(made.open("127.0.0.1", port))
            await asyncio.wait([task], timeout=0.01)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert made._failures == {}

    with mute_port() as port:
        run(work())


def test_of_failed_hosts_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_: object) -> list[SocketAddress]:
        raise ResolveError("no such host")

    async def work() -> None:
        async with connector() as made:
            for number in (*range(100), 0, *range(100, 150)):
                with pytest.raises(ResolveError):
                    await made.open(f"host-{number}", 9092)
            assert len(made._failures) == 100
            assert made._failures["host-0"] == 2
            assert "host-1" not in made._failures

    monkeypatch.setattr(connect, "resolve_host", resolve)
    run(work())


def test_failed_connect_names_the_error_of_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing_port() as refused:
        addresses = [("127.0.0.1", refused), ("127.0.0.1", refused), ("127.0.0.1", 0)]
        monkeypatch.setattr(connect, "resolve_host", resolves_to(*addresses))
        error = fails(DisconnectedError, "cannot connect to kafka:9092: ", 9092, "kafka")
        assert str(error).count("Connection refused") == 1


def test_an_unreachable_network_is_no_tls_error(
    monkeypatch: pytest.MonkeyPatch, ca_pem: str
) -> None:
    async def connect_socket(_: SocketAddress) -> socket.socket:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(connect, "connect_socket", connect_socket)
    error = fails(
        DisconnectedError,
        "Network is unreachable",
        1,
        security_protocol="SSL",
        ssl_ca_pem=ca_pem,
    )
    assert "TLS" not in str(error)


def test_an_ipv6_address() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with ScriptedBroker(host="::1") as broker:
        assert broker.address.startswith("[::1]:")
        opens(broker.port, "::1")
        port = broker.port
    fails(DisconnectedError, rf"cannot connect to \[::1\]:{port}: ", port, "::1")


def test_a_name_that_does_not_resolve() -> None:
    fails(ResolveError, "'no-such-host.invalid' does not resolve", 9092, "no-such-host.invalid")


def test_a_name_server_that_hangs_holds_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, asked = threading.Event(), []

    def getaddrinfo(*_: object, **__: object) -> list[Any]:
        asked.append(threading.current_thread())
        gate.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def work() -> None:
        async with connector(socket_connection_setup_timeout_ms=10) as made:
            for _ in range(5):
                with pytest.raises(RequestTimeoutError, match="still connecting"):
                    await made.open("kafka", 9092)
            # its thread may run later than all of these
            await asyncio.to_thread(eventually, lambda: asked)
            assert len(asked) == 1

    run(work())
    gate.set()
    asked[0].join(60)


def test_a_refused_connection() -> None:
    with refusing_port() as port:
        fails(DisconnectedError, f"127.0.0.1:{port}: Connection refused", port)


def test_a_host_that_does_not_answer() -> None:
    with full_port() as port:
        fails(
            GroupSdkError,
            r"127\.0\.0\.1.*within 0\.0[0-9]+ s",
            port,
            socket_connection_setup_timeout_ms=50,
        )


def test_a_broker_that_takes_connections_and_is_silent() -> None:
    with mute_port() as port:
        error = fails(
            RequestTimeoutError,
            r"within 0\.5 s \(connected, but no answer\)",
            port,
            socket_connection_setup_timeout_ms=500,
        )
        assert error.retriable


# What speaks on the port.


def test_tls_connection_is_opened_by_address_and_name(
    server_tls: ssl.SSLContext, ca_pem: str
) -> None:
    with ScriptedBroker(tls=server_tls) as broker:
        for host in ("127.0.0.1", "localhost"):
            opens(broker.port, host, security_protocol="SSL", ssl_ca_pem=ca_pem)


def test_a_certificate_that_is_not_trusted(server_tls: ssl.SSLContext) -> None:
    with ScriptedBroker(tls=server_tls) as broker:
        fails(TlsError, "not trusted", broker.port, security_protocol="SSL")


def test_tls_to_a_plain_port(broker: ScriptedBroker, ca_pem: str) -> None:
    fails(
        TlsRefusedError,
        "does not speak TLS",
        broker.port,
        security_protocol="SSL",
        ssl_ca_pem=ca_pem,
    )


def test_tls_to_a_port_that_is_silent(ca_pem: str) -> None:
    with mute_port() as port:
        fails(
            RequestTimeoutError,
            "not ready for requests",
            port,
            security_protocol="SSL",
            ssl_ca_pem=ca_pem,
            socket_connection_setup_timeout_ms=50,
        )


def test_plain_text_to_a_tls_port(server_tls: ssl.SSLContext) -> None:
    with ScriptedBroker(tls=server_tls) as broker:
        # what it sees is an alert, or no more than the end of the connection
        error = fails(GroupSdkError, "security.protocol", broker.port)
        assert isinstance(error, WrongProtocolError | FirstRequestRefusedError)


@pytest.mark.parametrize("security", [{}, {"security_protocol": "SSL"}], ids=["plain text", "TLS"])
def test_an_http_server(security: dict[str, str]) -> None:
    with http_server() as port:
        error = fails(GroupSdkError, "HTTP|does not speak TLS", port, **security)
        assert isinstance(error, AuthenticationError)


@contextmanager
def http_server() -> Iterator[int]:
    """Answer every connection as a web server does, whatever comes in."""

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                sock.recv(1_000)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)


# Versions.


@pytest.mark.parametrize("versions", [KAFKA_0_10, KAFKA_1_0, KAFKA_2_3, KAFKA_4_3])
@pytest.mark.parametrize("lists", [True, False], ids=["lists its versions", "lists none"])
def test_agrees_on_a_version_of_apiversions(versions: Versions, lists: bool) -> None:
    with ScriptedBroker(versions=versions, lists_versions=lists) as broker:
        opens(broker.port)
        newest = versions[ApiKey.API_VERSIONS][1]
        asked = [each.version for each in broker.seen(ApiKey.API_VERSIONS)]
        expected = [4] if newest == 4 else [4, newest if lists else 0]
        assert asked == expected


def test_says_who_is_asking(broker: ScriptedBroker) -> None:
    opens(broker.port, client_id="worker-7")
    (seen,) = broker.seen()
    assert isinstance(seen.request, ApiVersionsRequest)
    assert seen.client_id == "worker-7"
    assert seen.request.client_software_name == "groupsdk-python"
    assert seen.request.client_software_version


def test_a_broker_that_refuses_every_version_of_apiversions(broker: ScriptedBroker) -> None:
    listed = ApiVersion(api_key=18, min_version=9, max_version=12)
    answer = ApiVersionsResponse(error_code=35, api_keys=(listed,))
    broker.script(ApiKey.API_VERSIONS, Step(answer=answer), forever=True)
    fails(UnsupportedVersionError, "offers 9 to 12", broker.port)
    assert len(broker.seen()) <= 4


def test_a_broker_that_refuses_and_refuses_is_not_asked_for_ever(broker: ScriptedBroker) -> None:
    listed = ApiVersion(api_key=18, min_version=0, max_version=4)
    answer = ApiVersionsResponse(error_code=35, api_keys=(listed,))
    broker.script(ApiKey.API_VERSIONS, Step(answer=answer), forever=True)
    fails(UnsupportedVersionError, "refused ApiVersions v0", broker.port)
    assert [each.version for each in broker.seen()] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("step", [hang_up(), cut(0), cut(3), cut(20)])
def test_a_broker_that_closes_the_connection_on_apiversions(
    step: Step, broker: ScriptedBroker
) -> None:
    broker.script(ApiKey.API_VERSIONS, step)
    text = "closed the connection on the first request: .* .set security.protocol to SSL"
    fails(FirstRequestRefusedError, text, broker.port)


def test_random_bytes_for_an_answer(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.API_VERSIONS, raw(b"\x7fELF" * 10))
    fails(WrongProtocolError, "over the limit", broker.port)


@pytest.mark.parametrize(
    "missing",
    [ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT],
)
def test_a_broker_that_lacks_something_is_named_with_what_it_lacks(missing: ApiKey) -> None:
    versions = {api: both for api, both in KAFKA_4_3.items() if api is not missing}
    with ScriptedBroker(versions=versions) as broker:
        name = f"{missing.name.title().replace('_', '')}Request"
        error = fails(
            UnsupportedVersionError,
            f"127.0.0.1:{broker.port} cannot serve a group member: {name} .* does not have it",
            broker.port,
        )
        assert str(error).count("is needed") == 1


def test_all_that_a_broker_lacks_is_named_at_once() -> None:
    versions: Versions = {
        **KAFKA_4_3,
        ApiKey.JOIN_GROUP: (90, 95),
        ApiKey.HEARTBEAT: (7, 5),
    }
    with ScriptedBroker(versions=versions) as broker:
        error = fails(UnsupportedVersionError, "has 90 to 95", broker.port)
        assert "JoinGroupRequest" in str(error)
        assert "HeartbeatRequest" in str(error)


def test_a_static_member_needs_a_broker_that_knows_static_members() -> None:
    with ScriptedBroker(versions=KAFKA_1_0) as broker:
        fails(
            UnsupportedVersionError,
            r"group\.instance\.id: JoinGroupRequest is needed in a version from 5 to 9, .* 2\.3",
            broker.port,
            group_instance_id="one",
        )
        opens(broker.port)


# The end.


def test_close_closes_what_is_open(broker: ScriptedBroker) -> None:
    async def work() -> None:
        async with connector() as made:
            connections = [await made.open("127.0.0.1", broker.port) for _ in range(5)]
            assert len(made._open) == 5
            await made.close()
            assert not any(each.usable for each in connections)
            assert not made._open

    run(work())
    broker.wait_for(lambda: broker.connected == 0)


def test_a_cancelled_attempt_leaves_nothing_open(server_tls: ssl.SSLContext, ca_pem: str) -> None:
    async def work(port: int, security: dict[str, str]) -> None:
        async with connector(**security) as made:
            for delay_s in (0, 0.001, 0.003, 0.01, 0.02):
                task = asyncio.create_task(made.open("127.0.0.1", port))
                await asyncio.wait([task], timeout=delay_s)
                task.cancel()
                await asyncio.wait([task])

    with ScriptedBroker(tls=server_tls) as broker:
        run(work(broker.port, {"security_protocol": "SSL", "ssl_ca_pem": ca_pem}))
        broker.wait_for(lambda: broker.connected == 0)
    with mute_port() as port:
        run(work(port, {}))


def test_only_the_answer_to_a_member_can_fence_it() -> None:
    assert type(refusal(82, "FindCoordinator")) is BrokerError
    assert not isinstance(refusal(82, ""), FencedInstanceIdError)
    assert isinstance(refusal(15, ""), CoordinatorNotAvailableError)
