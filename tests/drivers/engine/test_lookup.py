"""Test finding the coordinator: dead servers, wrong answers, slow lists of brokers."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from random import Random
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.lookup import CoordinatorLookup, Found
from groupsdk.errors import (
    AuthenticationError,
    BootstrapError,
    CoordinatorNotAvailableError,
    GroupAuthorizationError,
    GroupSdkError,
    InvalidGroupIdError,
    ResolveError,
    TlsError,
    UnsupportedVersionError,
    WireError,
)
from groupsdk.wire.messages.metadata import (
    Coordinator,
    FindCoordinatorResponse,
    MetadataResponse,
    MetadataResponseBroker,
)
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import STRANGER, USER, USERS, WAIT_S, config, run
from tests.support.scripted_broker import ScriptedBroker, full_port, mute_port, refusing_port
from tests.support.scripted_steps import (
    KAFKA_1_0,
    KAFKA_4_3,
    Step,
    Versions,
    cut,
    fail,
    hang_up,
    oversized,
    raw,
    shortened,
)


class Desk:
    """A lookup, and the errors of its attempts."""

    def __init__(self, servers: str, **settings: Any) -> None:
        self.settings = config(servers, **settings)
        self.connector = Connector(self.settings)
        self.errors: list[GroupSdkError] = []
        self._failed = asyncio.Event()
        self.lookup = CoordinatorLookup(self.settings, self.connector, Random(7), self._on_delay)

    def _on_delay(self, error: GroupSdkError) -> None:
        self.errors.append(error)
        self._failed.set()

    async def failed(self, attempts: int) -> None:
        """Look the coordinator up until so many attempts have failed."""
        task = asyncio.create_task(self.lookup.run())
        while len(self.errors) < attempts:
            self._failed.clear()
            await asyncio.wait_for(self._failed.wait(), WAIT_S)
        task.cancel()


@asynccontextmanager
async def desk(servers: str, **settings: Any) -> AsyncIterator[Desk]:
    made = Desk(servers, **settings)
    try:
        yield made
    finally:
        await made.connector.close()


def finds(broker: ScriptedBroker, *, handed_over: bool = True, **settings: Any) -> Desk:
    """Look the coordinator up; it is the broker."""
    servers = settings.pop("servers", broker.address)
    made: list[Desk] = []

    async def work() -> None:
        async with desk(servers, **settings) as it:
            made.append(it)
            found = await it.lookup.run()
            assert (found.node.host, found.node.port) == (broker.host, broker.port)
            assert (found.connection is not None) is handed_over
            if found.connection is not None:
                assert found.connection.usable
                assert found.connection.idle

    run(work())
    return made[0]


def fails(error: type[GroupSdkError], text: str, servers: str, **settings: Any) -> None:
    async def work() -> None:
        async with desk(servers, **settings) as it:
            with pytest.raises(error, match=text):
                await it.lookup.run()

    run(work())


@pytest.mark.parametrize("versions", [KAFKA_1_0, KAFKA_4_3])
def test_finds_the_coordinator_and_hands_the_connection_over(versions: Versions) -> None:
    with ScriptedBroker(versions=versions) as broker:
        assert finds(broker).errors == []
        assert broker.accepted == 1
        assert [each.api for each in broker.seen()][-2:] == [
            ApiKey.FIND_COORDINATOR,
            ApiKey.METADATA,
        ]


def test_coordinator_on_another_node_gets_its_own_connection(broker: ScriptedBroker) -> None:
    async def work() -> None:
        broker.coordinator = ("other", 9_000)
        async with desk(broker.address) as it:
            found = await it.lookup.run()
            assert str(found.node) == "other:9000 (node 1)"
            assert found.connection is None

    run(work())
    broker.wait_for(lambda: broker.connected == 0)


# The list of brokers is a precaution only.


@pytest.mark.parametrize(
    ("step", "handed_over"),
    [
        (hang_up(), False),
        (cut(5), False),
        (shortened(1), False),
        (raw(b"\0\0\0\5hello"), False),
        (Step(silent=True), False),
        (Step(held=True), False),
        (fail(41), True),
    ],
    ids=["closes", "cut", "short", "garbage", "silent", "slow", "error"],
)
def test_without_the_list_of_brokers_the_lookup_goes_on(
    step: Step, handed_over: bool, broker: ScriptedBroker
) -> None:
    broker.script(ApiKey.METADATA, step)
    it = finds(broker, handed_over=handed_over, request_timeout_ms=60_000)
    assert it.errors == []
    assert it.lookup._learned == []
    broker.release()


def test_a_broker_without_metadata_is_good_enough() -> None:
    versions: Versions = {k: v for k, v in KAFKA_4_3.items() if k is not ApiKey.METADATA}
    with ScriptedBroker(versions=versions) as broker:
        assert finds(broker).errors == []


async def test_learned_brokers_are_asked_when_no_bootstrap_server_is_left(
    broker: ScriptedBroker,
) -> None:
    with ScriptedBroker() as second:
        broker.brokers = ((broker.host, broker.port), (second.host, second.port))
        second.coordinator = broker.coordinator = (second.host, second.port)
        async with desk(broker.address) as it:
            await it.lookup.run()
            broker.stop()
            found = await it.lookup.run()
            assert found.node.port == second.port
            assert it.lookup._learned == [(second.host, second.port)]


def test_a_cluster_that_moved_is_found_by_its_bootstrap_servers_at_once(
    broker: ScriptedBroker,
) -> None:
    """Not after every broker of the old one has taken its time not to answer (KIP-1102)."""

    async def work(dead: list[int]) -> None:
        broker.brokers = tuple(("127.0.0.1", port) for port in dead)
        async with desk(broker.address, socket_connection_setup_timeout_ms=100) as it:
            await it.lookup.run()
            assert len(it.lookup._learned) == 5
            tried = it.lookup._candidates()
            assert len(tried) == 6
            assert tried[1] == (broker.host, broker.port)
            assert (await it.lookup.run()).node.port == broker.port

    with ExitStack() as stack:
        run(work([stack.enter_context(full_port()) for _ in range(5)]))


def test_learned_brokers_are_checked_and_bounded(broker: ScriptedBroker) -> None:
    brokers = [("", 1), ("a", 0), ("b", 65_536), ("c", -1), *((f"h{n}", 9) for n in range(500))]
    broker.brokers = tuple(brokers)
    it = finds(broker)
    assert len(it.lookup._learned) == 100
    assert all(host.startswith("h") for host, _ in it.lookup._learned)


async def test_an_empty_list_of_brokers_forgets_none(broker: ScriptedBroker) -> None:
    answer = MetadataResponse(brokers=(MetadataResponseBroker(host=broker.host, port=broker.port),))
    broker.script(ApiKey.METADATA, Step(answer=answer), Step(answer=MetadataResponse()))
    async with desk(broker.address) as it:
        await it.lookup.run()
        await it.lookup.run()
        assert it.lookup._learned == [(broker.host, broker.port)]


# Answers that are none.


@pytest.mark.parametrize(("host", "port"), [("", 9092), ("h", 0), ("h", -1), ("h", 70_000)])
@pytest.mark.parametrize("versions", [KAFKA_1_0, KAFKA_4_3], ids=["1.0", "4.3"])
def test_an_answer_without_an_address_is_no_coordinator(
    host: str, port: int, versions: Versions
) -> None:
    answer = FindCoordinatorResponse(node_id=1, host=host, port=port)
    if versions is KAFKA_4_3:
        named = Coordinator(key="g", node_id=1, host=host, port=port)
        answer = FindCoordinatorResponse(coordinators=(named,))
    with ScriptedBroker(versions=versions) as broker:
        broker.script(ApiKey.FIND_COORDINATOR, Step(answer=answer))
        (error,) = finds(broker).errors
        assert isinstance(error, CoordinatorNotAvailableError)
        assert "names no address" in str(error)


def test_an_answer_about_another_group_is_no_coordinator(broker: ScriptedBroker) -> None:
    other = Coordinator(key="other", node_id=1, host="h", port=1)
    for answer in (
        FindCoordinatorResponse(coordinators=(other,)),
        FindCoordinatorResponse(coordinators=()),
    ):
        broker.script(ApiKey.FIND_COORDINATOR, Step(answer=answer))
        (error,) = finds(broker).errors
        assert isinstance(error, CoordinatorNotAvailableError)


@pytest.mark.parametrize(
    "step", [cut(3), hang_up(), cut(30)], ids=["in the length", "at once", "in the answer"]
)
def test_a_connection_that_breaks_is_tried_again(step: Step, broker: ScriptedBroker) -> None:
    broker.script(ApiKey.FIND_COORDINATOR, step)
    (error,) = finds(broker).errors
    assert isinstance(error, BootstrapError)
    assert "on the first request: it went down, or the port wants SASL" in str(error)


def test_a_silent_broker_is_tried_again_after_the_request_timeout(broker: ScriptedBroker) -> None:
    for api in (ApiKey.FIND_COORDINATOR, ApiKey.METADATA):
        broker.script(api, Step(silent=True))
    error = finds(broker, request_timeout_ms=200).errors[0]
    assert "did not answer within 200 ms" in str(error)
    assert error.retriable


def test_bytes_that_are_not_kafkas_are_told(broker: ScriptedBroker) -> None:
    for step in (raw(b"\0\0\0\5hello"), oversized(2**30), shortened(1)):
        broker.script(ApiKey.FIND_COORDINATOR, step)
        fails(WireError, f"127.0.0.1:{broker.port}", broker.address)


@pytest.mark.parametrize(
    ("code", "error"), [(30, GroupAuthorizationError), (24, InvalidGroupIdError)]
)
def test_an_error_that_repeating_does_not_mend(
    code: int, error: type[GroupSdkError], broker: ScriptedBroker
) -> None:
    broker.script(ApiKey.FIND_COORDINATOR, fail(code))
    fails(error, "FindCoordinator of group 'g'", broker.address)
    assert len(broker.seen(ApiKey.FIND_COORDINATOR)) == 1


# Several servers.


def test_one_dead_server_among_two(broker: ScriptedBroker) -> None:
    with refusing_port() as port:
        for servers in (f"127.0.0.1:{port},{broker.address}", f"{broker.address},127.0.0.1:{port}"):
            assert finds(broker, servers=servers).errors == []


def test_one_wrong_server_among_two(broker: ScriptedBroker, server_tls: ssl.SSLContext) -> None:
    """One that does not speak the protocol, is too old or lies: the other is asked all the same."""
    with (
        ScriptedBroker(tls=server_tls) as tls,
        ScriptedBroker(versions={ApiKey.API_VERSIONS: (0, 4)}) as old,
        ScriptedBroker() as liar,
    ):
        liar.script(ApiKey.FIND_COORDINATOR, raw(b"\0\0\0\5hello"), forever=True)
        for wrong in (tls, old, liar):
            assert finds(broker, servers=f"{wrong.address},{broker.address}").errors == []


def test_error_that_needs_the_user_is_raised_before_a_passing_one(broker: ScriptedBroker) -> None:
    with ScriptedBroker(versions={ApiKey.API_VERSIONS: (0, 4)}) as old, refusing_port() as port:
        servers = f"127.0.0.1:{port},{old.address}"
        fails(UnsupportedVersionError, "cannot serve a group member", servers)


@pytest.mark.usefixtures("patient")
def test_refused_credentials_are_not_tried_at_the_next_server() -> None:
    with ScriptedBroker(passwords=USERS) as one, ScriptedBroker(passwords=USERS) as two:
        fails(AuthenticationError, "refused PLAIN", f"{one.address},{two.address}", **STRANGER)
        assert one.accepted + two.accepted == 1


def test_a_certificate_that_is_not_trusted_is_told(server_tls: ssl.SSLContext) -> None:
    with ScriptedBroker(tls=server_tls) as broker:
        fails(TlsError, "not trusted", broker.address, security_protocol="SSL")


async def test_servers_that_are_not_there_are_tried_until_one_is() -> None:
    with refusing_port() as port:
        async with desk(f"127.0.0.1:{port}") as it:
            await it.failed(3)
            assert {type(each) for each in it.errors} == {BootstrapError}
            text = f"no broker could be reached: 127.0.0.1:{port}: cannot connect to"
            assert str(it.errors[0]).startswith(text)
            assert "Connection refused" in str(it.errors[0])


def test_a_silent_server_is_given_up_after_the_setup_timeout(broker: ScriptedBroker) -> None:
    with mute_port() as port:
        it = finds(
            broker,
            servers=f"127.0.0.1:{port},{broker.address}",
            socket_connection_setup_timeout_ms=2_000,
        )
        assert it.errors == []


def test_a_server_that_is_slow_to_answer_is_told_of_meanwhile(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupsdk.drivers.engine.lookup._SLOW_S", 0.05)

    async def work() -> None:
        with mute_port() as port:
            async with desk(f"127.0.0.1:{port}") as it:
                await it.failed(1)
                assert str(it.errors[0]) == f"127.0.0.1:{port} has not answered for 0.05 s"

    run(work())
    monkeypatch.undo()
    assert finds(broker).errors == []


# A server that hangs.

FOR_EVER = {"socket_connection_setup_timeout_ms": 600_000, "request_timeout_ms": 600_000}
"""What waits for a timeout does not end within a test."""


def test_a_server_that_hangs_does_not_hold_up_the_others(broker: ScriptedBroker) -> None:
    """Whatever it hangs in: the connection, the first answer, or the question itself."""
    with full_port() as full, mute_port() as mute, ScriptedBroker() as silent:
        for api in (ApiKey.FIND_COORDINATOR, ApiKey.METADATA):
            silent.script(api, Step(silent=True), forever=True)
        hung = [("127.0.0.1", port) for port in (full, mute, silent.port)]

        async def work() -> None:
            async with desk(f"{broker.address},127.0.0.1:{mute}", **FOR_EVER) as it:
                it.lookup._bootstrap = [*hung, (broker.host, broker.port)]
                assert (await it.lookup.run()).node.port == broker.port
                assert it.lookup._silent == set(hung)
                # what hung is asked last from then on, until it answers
                candidates = it.lookup._candidates()
                assert candidates[0] == (broker.host, broker.port)
                assert set(candidates[1:]) == set(hung)

        run(work())
        silent.wait_for(lambda: silent.connected == 0, what="the connections of the losers closed")


def test_of_two_answers_the_first_one_counts_and_the_other_connection_is_closed(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupsdk.drivers.engine.lookup._NEXT_AFTER_S", 0.01)
    with ScriptedBroker() as slow:
        slow.script(ApiKey.FIND_COORDINATOR, Step(held=True))

        async def work() -> None:
            async with desk(f"{slow.address},{broker.address}", **FOR_EVER) as it:
                it.lookup._bootstrap = [(slow.host, slow.port), (broker.host, broker.port)]
                found = await it.lookup.run()
                assert found.node.port == broker.port
                slow.release()
                await asyncio.to_thread(slow.wait_for, lambda: slow.connected == 0)
                assert found.connection is not None
                assert found.connection.usable

        run(work())


async def test_slow_imports_are_loaded_before_the_first_server_is_timed(
    mocker: MockerFixture,
) -> None:
    """Else each start on a slow machine would set up a second connection."""
    order: list[str] = []
    mocker.patch(
        "groupsdk.drivers.engine.connect.preload", lambda mechanism: order.append(mechanism)
    )
    ask = CoordinatorLookup._ask

    async def asked(lookup: CoordinatorLookup, host: str, port: int) -> Found:
        order.append("asked")
        return await ask(lookup, host, port)

    mocker.patch.object(CoordinatorLookup, "_ask", asked)
    with ScriptedBroker(passwords=USERS) as broker:
        async with desk(broker.address, **USER) as it:
            await it.lookup.run()
            await it.lookup.run()
    assert order == ["PLAIN", "asked", "asked"]


def test_credentials_that_a_slow_server_refuses_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupsdk.drivers.engine.lookup._NEXT_AFTER_S", 0.01)
    with ScriptedBroker(passwords=USERS) as one, mute_port() as port:
        servers = f"127.0.0.1:{port},{one.address}"
        fails(AuthenticationError, "refused PLAIN", servers, **FOR_EVER, **STRANGER)
        assert one.accepted == 1


# An outage: the coordinator is named, and not to be had.


async def test_the_connection_of_the_one_that_was_asked_is_kept_for_an_outage(
    broker: ScriptedBroker,
) -> None:
    """Setting TLS and SASL up for a single question costs more than all the rest of an outage."""
    broker.coordinator = ("127.0.0.1", 1)
    async with desk(broker.address) as it:
        for _ in range(6):
            assert (await it.lookup.run()).connection is None
        assert len(broker.seen(ApiKey.FIND_COORDINATOR)) == 6
        assert broker.accepted == 2, "that of the first lookup, and that of the outage"
        broker.coordinator = None
        found = await it.lookup.run()
        assert found.connection is not None, "the coordinator's own is handed over"
        assert broker.accepted == 2


@pytest.mark.usefixtures("patient")
async def test_connection_is_kept_without_a_coordinator_and_another_broker_is_asked_soon(
    broker: ScriptedBroker,
) -> None:
    with ScriptedBroker() as other:
        for each in (broker, other):
            each.script(ApiKey.FIND_COORDINATOR, fail(15), forever=True)
        async with desk(f"{broker.address},{other.address}") as it:
            await it.failed(12)
            assert broker.accepted + other.accepted <= 4
            assert min(len(each.seen(ApiKey.FIND_COORDINATOR)) for each in (broker, other)) >= 3


async def test_kept_connection_is_closed_after_a_while_and_when_it_breaks(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.coordinator = ("127.0.0.1", 1)
    async with desk(broker.address) as it:
        await it.lookup.run()
        await it.lookup.run()
        broker.drop_connections()
        await it.lookup.run()
        assert it.errors == []
        assert broker.accepted == 3
        monkeypatch.setattr("groupsdk.drivers.engine.lookup._KEEP_S", 0.01)
        await it.lookup.run()
        await asyncio.to_thread(broker.wait_for, lambda: broker.connected == 0)
        assert it.lookup._kept.addresses == []


# Names.


def test_names_that_do_not_resolve_are_told_at_once() -> None:
    fails(
        ResolveError,
        "no bootstrap server has an address: .*'a.invalid'.*'b.invalid'|.*'b.invalid'.*'a.invalid'",
        "a.invalid:9092,b.invalid:9092",
    )


async def test_a_name_that_stops_resolving_is_a_passing_failure(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that fails for a while must not end a member that has worked before."""
    answers = [True, False, False, True]
    original = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, **options: Any) -> Any:
        if answers.pop(0):
            return original("127.0.0.1", port, **options)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    broker.script(ApiKey.METADATA, *[Step(answer=MetadataResponse())] * 2)
    async with desk(f"kafka:{broker.port}") as it:
        await it.lookup.run()
        assert it.errors == []
        await it.lookup.run()
        assert [type(each) for each in it.errors] == [BootstrapError, BootstrapError]
        assert "Temporary failure" in str(it.errors[0])
    assert answers == []


# Pace and noise.


def test_throttled_lookups_wait(broker: ScriptedBroker) -> None:
    """ApiVersions v2 and newer: the client keeps quiet for the time that the answer names (KIP-219)."""
    broker.throttle_ms = 150
    finds(broker)
    first, second = broker.seen()[:2]
    assert (first.api, second.api) == (ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR)
    assert second.at_ms - first.at_ms >= 100


def test_a_throttle_of_weeks_lasts_no_longer_than_the_request_timeout(
    broker: ScriptedBroker,
) -> None:
    broker.throttle_ms = 2**31 - 1
    assert finds(broker, request_timeout_ms=2_000).errors == []
    first, second = broker.seen()[:2]
    assert second.at_ms - first.at_ms >= 1_600


def test_an_outage_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="groupsdk")

    async def work() -> None:
        with refusing_port() as port:
            async with desk(f"127.0.0.1:{port}", retry_backoff_ms=1, retry_backoff_max_ms=1) as it:
                await it.failed(64)

    run(work())
    lines = [
        each for each in caplog.records if "finding the group coordinator" in each.getMessage()
    ]
    assert 1 <= len(lines) <= 8
    assert "group=g" in lines[0].getMessage()
