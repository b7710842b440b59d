"""Test the connection to the coordinator: when it is made, when it breaks, when it waits."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.engine import CoordinatorConnection
from groupsdk.errors import (
    DecodeError,
    DisconnectedError,
    EncodeError,
    FrameError,
    RequestTimeoutError,
    UnsupportedVersionError,
    WireError,
)
from groupsdk.member.actions import Node
from groupsdk.member.events import (
    Disconnected,
    NetworkEvent,
    RequestRefused,
    ResponseReceived,
)
from groupsdk.wire.messages.groups import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import WAIT_S, config, run
from tests.support.scripted_broker import ScriptedBroker, mute_port, refusing_port
from tests.support.scripted_steps import (
    KAFKA_2_3,
    Step,
    cut,
    hang_up,
    oversized,
    raw,
    twice,
    wrong_correlation_id,
)


HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Bench:
    """A link, and what it reports."""

    def __init__(self, host: str, port: int, **settings: Any) -> None:
        self.connector = Connector(config("unused:1", **settings))
        self.tasks: set[asyncio.Task[None]] = set()
        self.events: asyncio.Queue[NetworkEvent] = asyncio.Queue()
        self.link = CoordinatorConnection(
            Node(1, host, port), self.connector, self.events.put_nowait, self.spawn
        )

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self.tasks.add(task)
        return task

    async def next(self) -> NetworkEvent:
        return await asyncio.wait_for(self.events.get(), WAIT_S)

    async def disconnected(self) -> Disconnected:
        """Expect the end of the link: one report, whatever was outstanding."""
        event = await self.next()
        assert isinstance(event, Disconnected), event
        assert self.link.closed
        for _ in range(5):
            await asyncio.sleep(0)
        assert self.events.empty()
        return event


@asynccontextmanager
async def bench(host: str, port: int, **settings: Any) -> AsyncIterator[Bench]:
    made = Bench(host, port, **settings)
    try:
        yield made
    finally:
        made.link.close()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await made.connector.close()


def answers(event: NetworkEvent) -> int:
    assert isinstance(event, ResponseReceived), event
    assert isinstance(event.response, HeartbeatResponse)
    return event.request_id


async def test_a_link_that_is_closed_does_not_say_any_more_that_it_broke(
    broker: ScriptedBroker,
) -> None:
    """The machine, which has let go of it, would take that for the end of its next link."""
    async with bench(broker.host, broker.port) as it:
        it.link.send(1, HEARTBEAT)
        assert answers(await it.next()) == 1
        it.link._lost(DisconnectedError("it broke"))
        it.link.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert it.events.empty()


async def test_connects_for_the_first_request_and_keeps_the_connection(
    broker: ScriptedBroker,
) -> None:
    async with bench(broker.host, broker.port) as it:
        for request_id in (1, 2, 3):
            it.link.send(request_id, HEARTBEAT)
        assert [answers(await it.next()) for _ in range(3)] == [1, 2, 3]
        it.link.send(4, HEARTBEAT)
        assert answers(await it.next()) == 4
    assert broker.accepted == 1
    assert len(broker.seen(ApiKey.API_VERSIONS)) == 1


async def test_a_connection_that_was_closed_while_idle_is_made_anew(broker: ScriptedBroker) -> None:
    """As brokers do after connections.max.idle.ms: no reason to look for the coordinator again."""
    async with bench(broker.host, broker.port) as it:
        it.link.send(1, HEARTBEAT)
        assert answers(await it.next()) == 1
        connection = it.link._connection
        assert connection is not None
        broker.drop_connections()
        await asyncio.wait_for(connection.wait_closed(), WAIT_S)
        it.link.send(2, HEARTBEAT)
        assert answers(await it.next()) == 2
    assert broker.accepted == 2


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (hang_up(), DisconnectedError),
        (cut(1), DisconnectedError),
        (raw(b"\0\0\0\5hello"), DecodeError),
        (oversized(2**31 - 1), FrameError),
        (wrong_correlation_id(), DecodeError),
    ],
    ids=["closes", "cut", "garbage", "oversized", "wrong id"],
)
async def test_broken_connection_is_reported_once(
    step: Step, error: type[Exception], broker: ScriptedBroker
) -> None:
    broker.script(ApiKey.HEARTBEAT, step)
    async with bench(broker.host, broker.port) as it:
        for request_id in (1, 2, 3):
            it.link.send(request_id, HEARTBEAT)
        event = await it.disconnected()
        assert isinstance(event.error, error)
        assert event.connected


async def test_a_second_answer_does_not_disturb_what_follows(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.HEARTBEAT, twice())
    async with bench(broker.host, broker.port) as it:
        it.link.send(1, HEARTBEAT)
        assert answers(await it.next()) == 1
        connection = it.link._connection
        assert connection is not None
        await asyncio.wait_for(connection.wait_closed(), WAIT_S)
        it.link.send(2, HEARTBEAT)
        assert answers(await it.next()) == 2


def test_a_refused_connection_is_reported() -> None:
    async def work(port: int) -> None:
        async with bench("127.0.0.1", port) as it:
            it.link.send(1, HEARTBEAT)
            it.link.send(2, HEARTBEAT)
            event = await it.disconnected()
            assert isinstance(event.error, DisconnectedError)
            assert not event.connected, "so that no request is called lost that was never sent"
            assert str(event.error) == (
                f"the group coordinator 127.0.0.1:{port} (node 1) cannot be reached at the address that the"
                " brokers name for it (advertised.listeners): cannot connect to"
                f" 127.0.0.1:{port}: Connection refused"
            )

    with refusing_port() as port:
        run(work(port))


def test_a_silent_coordinator_is_reported() -> None:
    async def work(port: int) -> None:
        async with bench("127.0.0.1", port, socket_connection_setup_timeout_ms=50) as it:
            it.link.send(1, HEARTBEAT)
            assert isinstance((await it.disconnected()).error, RequestTimeoutError)

    with mute_port() as port:
        run(work(port))


async def test_a_name_that_does_not_resolve_is_a_passing_failure_with_a_hint() -> None:
    async with bench("broker-1.internal.invalid", 9092) as it:
        it.link.send(1, HEARTBEAT)
        error = (await it.disconnected()).error
        assert error.retriable
        assert "broker-1.internal.invalid:9092 (node 1) has no address here" in str(error)
        assert "advertised.listeners" in str(error)


def test_a_request_that_the_broker_is_too_old_for_is_refused_alone() -> None:
    versions = {**KAFKA_2_3, ApiKey.JOIN_GROUP: (0, 4)}
    static = JoinGroupRequest(group_id="g", group_instance_id="one")

    async def work(broker: ScriptedBroker) -> None:
        async with bench(broker.host, broker.port) as it:
            it.link.send(1, static)
            it.link.send(2, HEARTBEAT)
            events = [await it.next(), await it.next()]
            (refused,) = [each for each in events if isinstance(each, RequestRefused)]
            assert refused.request_id == 1
            assert isinstance(refused.error, UnsupportedVersionError)
            assert [answers(e) for e in events if e is not refused] == [2]

    with ScriptedBroker(versions=versions) as broker:
        run(work(broker))


async def test_a_request_that_cannot_be_written_is_refused_alone(broker: ScriptedBroker) -> None:
    async with bench(broker.host, broker.port) as it:
        it.link.send(1, HeartbeatRequest(group_id="\udc80"))
        it.link.send(2, HEARTBEAT)
        events = [await it.next(), await it.next()]
        (refused,) = [each for each in events if isinstance(each, RequestRefused)]
        assert isinstance(refused.error, EncodeError)


async def test_nothing_is_reported_after_close(broker: ScriptedBroker) -> None:
    for turns in range(12):
        async with bench(broker.host, broker.port) as it:
            it.link.send(1, HEARTBEAT)
            it.link.send(2, HeartbeatRequest(group_id="\udc80"))
            for _ in range(turns):
                await asyncio.sleep(0)
            it.link.close()
            while not it.events.empty():
                it.events.get_nowait()
            for _ in range(20):
                await asyncio.sleep(0)
            assert it.events.empty()


def test_a_throttled_connection_sends_nothing_until_the_time_is_over(
    broker: ScriptedBroker,
) -> None:
    """KIP-219: from Heartbeat v2 on the client keeps quiet for the time that the answer names."""

    async def work() -> None:
        async with bench(broker.host, broker.port) as it:
            it.link.send(1, HEARTBEAT)
            await it.next()
            broker.throttle_ms = 200
            it.link.send(2, HEARTBEAT)
            await it.next()
            broker.throttle_ms = 0
            it.link.send(3, HEARTBEAT)
            it.link.send(4, HEARTBEAT)
            assert [answers(await it.next()) for _ in range(2)] == [3, 4]

    run(work())
    _, second, third, fourth = [each.at_ms for each in broker.seen(ApiKey.HEARTBEAT)]
    assert third - second >= 150
    assert fourth - third < third - second


async def test_closing_ends_the_wait_of_a_throttled_connection(broker: ScriptedBroker) -> None:
    broker.throttle_ms = 2**31 - 1
    async with bench(broker.host, broker.port) as it:
        it.link.send(1, HEARTBEAT)
        await asyncio.gather(*it.tasks)
        assert it.link._throttle is not None
        it.link.close()
        assert it.link._throttle.cancelled()
    assert broker.seen(ApiKey.HEARTBEAT) == []


async def test_garbage_is_never_taken_for_an_answer(broker: ScriptedBroker) -> None:
    for step in (
        raw(b"\0\0\0\x04\0\0\0\x02"),
        raw(b"\0\0\0\x0a\0\0\0\x02\xff\xff\xff\xff\xff\xff"),
    ):
        broker.script(ApiKey.HEARTBEAT, step)
        async with bench(broker.host, broker.port) as it:
            it.link.send(1, HEARTBEAT)
            event = await it.disconnected()
            assert isinstance(event.error, WireError)
            assert str(broker.port) in str(event.error)
