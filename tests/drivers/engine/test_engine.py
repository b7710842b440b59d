"""Test whole engines over real sockets: old brokers, cut connections, hostile bytes, bugs, the end."""

import asyncio
import gc
import queue
import random
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from groupsdk.clock import SystemClock
from groupsdk.drivers.engine.connection import Connection
from groupsdk.drivers.engine.engine import Engine
from groupsdk.drivers.engine.lookup import CoordinatorLookup
from groupsdk.errors import (
    AuthenticationError,
    DecodeError,
    DisconnectedError,
    GroupSdkError,
    TlsError,
    UnsupportedVersionError,
    WireError,
)
from groupsdk.member.events import CloseRequested, LeaveRequested, Polled, RejoinRequested
from groupsdk.member.machine import MembershipMachine
from groupsdk.member.view import MemberView
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.schema import ApiKey
from tests.drivers.engine.rig import WAIT_S, Rig, config, run
from tests.support.scripted_broker import ScriptedBroker, full_port, mute_port, refusing_port
from tests.support.scripted_steps import (
    KAFKA_0_10,
    KAFKA_1_0,
    KAFKA_2_3,
    KAFKA_4_3,
    Step,
    Versions,
    cut,
    fail,
    hang_up,
    raw,
    shortened,
)


MEMBER_APIS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
)


def each_at_once(
    broker: ScriptedBroker,
    cases: list[tuple[ApiKey, Step]],
    check: Callable[[Rig], Awaitable[None]],
    **settings: Any,
) -> None:
    """Run one member per case, each in a group of its own, at the same time."""

    async def one(number: int, api: ApiKey, step: Step) -> None:
        name = f"{number} {api.name}"
        broker.script(api, step, client_id=name)
        async with Rig(config(broker.address, client_id=name, group_id=name, **settings)) as rig:
            await check(rig)

    async def all_of_them() -> None:
        work = [one(number, api, step) for number, (api, step) in enumerate(cases)]
        found = await asyncio.gather(*work, return_exceptions=True)
        wrong = {str(case): each for case, each in zip(cases, found, strict=True) if each}
        assert not wrong

    run(all_of_them())


async def lives_and_leaves(rig: Rig) -> None:
    await rig.active()
    await rig.wait(lambda _: rig.heartbeats >= 2)
    await rig.active()
    assert rig.failures == []
    await rig.leave()


# Every broker.


@pytest.mark.parametrize("versions", [KAFKA_0_10, KAFKA_1_0, KAFKA_2_3, KAFKA_4_3])
def test_two_members_share_a_group_on_every_release(versions: Versions) -> None:
    async def work(broker: ScriptedBroker) -> None:
        async with Rig(config(broker.address)) as one, Rig(config(broker.address)) as two:
            await one.wait(lambda view: view.generation.generation_id == 2)
            await two.active()
            await one.active()
            assert one.assignments[-1] == one_id(one)
            assert two.assignments[-1] == one_id(two)
            await two.leave()
            # version 0 to 2 of LeaveGroup has another shape
            assert broker.seen(ApiKey.LEAVE_GROUP)[0].version == versions[ApiKey.LEAVE_GROUP][1]
            one.post(RejoinRequested("alone"))
            view = await one.wait(lambda view: view.generation.generation_id == 3)
            await one.active()
            assert one.failures == two.failures == []
            assert view.is_leader

    with ScriptedBroker(versions=versions) as broker:
        run(work(broker))
        assert {s.api: s.version for s in broker.seen()}[ApiKey.JOIN_GROUP] == versions[
            ApiKey.JOIN_GROUP
        ][1]


def one_id(rig: Rig) -> bytes:
    assert rig.view is not None
    return rig.view.generation.member_id.encode()


def test_a_broker_that_lacks_something_is_told_and_asked_again() -> None:
    versions: Versions = {k: v for k, v in KAFKA_4_3.items() if k is not ApiKey.HEARTBEAT}

    async def work(broker: ScriptedBroker) -> None:
        async with Rig(config(broker.address)) as rig:
            assert isinstance(await rig.failed(), UnsupportedVersionError)
            broker.versions[ApiKey.HEARTBEAT] = (0, 4)  # it was upgraded
            await rig.active()

    with ScriptedBroker(versions=versions) as broker:
        run(work(broker))


# Connections that break.


def test_a_connection_cut_at_every_byte_of_every_answer(broker: ScriptedBroker) -> None:
    lengths: dict[ApiKey, int] = {}

    def measured(api: ApiKey) -> Step:
        def note(frame: bytes) -> bytes:
            lengths.setdefault(api, len(frame))
            return frame

        return Step(garble=note)

    each_at_once(broker, [(api, measured(api)) for api in MEMBER_APIS], lives_and_leaves)
    cases = [(api, cut(position)) for api in MEMBER_APIS for position in range(lengths[api])]
    assert len(cases) > 100
    each_at_once(broker, cases, lives_and_leaves)
    assert broker.errors == []


def test_a_connection_closed_under_every_request(broker: ScriptedBroker) -> None:
    cases = [(api, hang_up()) for api in (*MEMBER_APIS, ApiKey.API_VERSIONS, ApiKey.METADATA)]
    each_at_once(broker, cases, lives_and_leaves)


async def test_a_broken_connection_costs_no_membership(broker: ScriptedBroker) -> None:
    async with Rig(config(broker.address)) as rig:
        before = (await rig.active()).generation
        for _ in range(5):
            beats = rig.heartbeats
            broker.drop_connections()
            view = await rig.wait(lambda _, beats=beats: rig.heartbeats >= beats + 2)  # type: ignore[misc]  # mypy does not see the default
            assert view.generation == before
        assert len(rig.assignments) == 1


async def test_a_member_finds_the_brokers_that_replaced_all_those_it_knew(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other moved to another address while the member had no reason to look for its coordinator."""
    monkeypatch.setattr("groupsdk.drivers.engine.engine.REFRESH_S", 0.02)
    with ScriptedBroker() as second:
        async with Rig(config(broker.address)) as rig:
            await rig.active()
            broker.brokers = ((second.host, second.port),)
            asked = len(broker.seen(ApiKey.METADATA))
            # that it asks once more shows that it has the answer to what it asked before
            await rig.wait(lambda _: len(broker.seen(ApiKey.METADATA)) >= asked + 2)
            broker.stop()
            await rig.wait(lambda _: second.seen(ApiKey.SYNC_GROUP) != [])
            view = await rig.active()
            assert view.coordinator is not None
            assert view.coordinator.port == second.port
            assert rig.failures == []


async def test_the_brokers_are_not_asked_for_while_a_request_is_parked(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker reads nothing more of a connection before it has answered, so the next request would wait behind."""
    monkeypatch.setattr("groupsdk.drivers.engine.engine.REFRESH_S", 0.01)
    refreshed: asyncio.Queue[None] = asyncio.Queue()
    refresh = CoordinatorLookup.refresh

    def refreshing(lookup: CoordinatorLookup, connection: Connection) -> None:
        refresh(lookup, connection)
        refreshed.put_nowait(None)

    monkeypatch.setattr(CoordinatorLookup, "refresh", refreshing)
    broker.script(ApiKey.SYNC_GROUP, Step(held=True))
    async with Rig(config(broker.address)) as rig:
        await asyncio.to_thread(broker.wait_for, lambda: broker.seen(ApiKey.SYNC_GROUP) != [])
        asked = len(broker.seen(ApiKey.METADATA))
        for _ in range(refreshed.qsize() + 3):
            await refreshed.get()
        assert len(broker.seen(ApiKey.METADATA)) == asked
        broker.release()
        await rig.active()
        await rig.wait(lambda _: len(broker.seen(ApiKey.METADATA)) > asked)


def test_answers_byte_by_byte(broker: ScriptedBroker) -> None:
    for api in (*MEMBER_APIS, ApiKey.API_VERSIONS, ApiKey.METADATA):
        broker.script(api, Step(trickled=True), forever=True)
    each_at_once(broker, [(ApiKey.METADATA, Step(trickled=True))], lives_and_leaves)


@pytest.mark.parametrize(
    "api",
    [ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT, ApiKey.METADATA],
    ids=lambda api: api.name,
)
def test_a_broker_that_falls_silent(api: ApiKey, broker: ScriptedBroker) -> None:
    each_at_once(
        broker,
        [(api, Step(silent=True, held=True))],
        lives_and_leaves,
        request_timeout_ms=100,
        socket_connection_setup_timeout_ms=100,
    )
    broker.release()


async def test_a_leave_that_is_not_answered_ends_with_the_timeout(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.LEAVE_GROUP, Step(silent=True))
    async with Rig(config(broker.address)) as rig:
        await rig.active()
        rig.post(CloseRequested(GroupMembershipOperation.LEAVE_GROUP, 50, "test"))
        assert rig.task is not None
        await asyncio.wait_for(rig.task, WAIT_S)


# Bytes that are none of Kafka's.


@pytest.mark.parametrize("api", MEMBER_APIS[:4], ids=lambda api: api.name)
def test_bytes_that_are_no_answer_are_told_and_survived(
    api: ApiKey, broker: ScriptedBroker
) -> None:
    async def told(rig: Rig) -> None:
        error = await rig.failed()
        assert isinstance(error, WireError), error
        assert str(broker.port) in str(error)
        await rig.active()
        beats = rig.heartbeats
        await rig.wait(lambda _: rig.heartbeats > beats)
        assert len(rig.failures) == 1

    each_at_once(
        broker,
        [
            (api, raw(b"\0\0\0\5hello")),
            (api, shortened(1)),
            (api, raw(random.Random(1).randbytes(500))),
            (api, raw(b"\x7f\xff\xff\xff")),
        ],
        told,
    )


async def test_mutated_answers_raise_nothing_but_our_errors() -> None:
    """Every third of the first answers has bytes changed, whatever it is; after them all is well."""
    apis = (*MEMBER_APIS, ApiKey.API_VERSIONS, ApiKey.METADATA)

    def mutation(rng: random.Random) -> Step:
        def garble(frame: bytes) -> bytes:
            data = bytearray(frame)
            for _ in range(rng.randint(1, 6)):
                data[rng.randrange(8, len(data))] = rng.randrange(256)
            return bytes(data)

        return Step(garble=garble) if rng.random() < 0.33 else Step()

    async def one(broker: ScriptedBroker, seed: int) -> str:
        rng = random.Random(seed)
        name = f"seed {seed}"
        for api in apis:
            broker.script(api, *[mutation(rng) for _ in range(12)], client_id=name)
        settings = config(
            broker.address,
            client_id=name,
            group_id=name,
            request_timeout_ms=300,
            socket_connection_setup_timeout_ms=500,
        )
        async with Rig(settings) as rig:
            view = await rig.wait(
                lambda view: (
                    rig.heartbeats >= 20 or (view.failure is not None and view.failure.error.fatal)
                )
            )
            assert all(isinstance(error, GroupSdkError) for error in rig.failures)
            assert rig.task is not None
            assert not rig.task.done()
            return "fatal" if view.failure is not None and view.failure.error.fatal else "alive"

    with ScriptedBroker(alone=True) as broker:
        found = await asyncio.gather(
            *(one(broker, seed) for seed in range(60)), return_exceptions=True
        )
    assert not {seed: each for seed, each in enumerate(found) if not isinstance(each, str)}
    # "fenced" is what a changed error code may say
    assert found.count("alive") > 50


# A coordinator that is not where it is said to be.


def test_a_coordinator_that_refuses_connections_makes_nobody_spin(broker: ScriptedBroker) -> None:
    async def work(port: int) -> None:
        broker.coordinator = ("127.0.0.1", port)
        settings = config(broker.address, retry_backoff_ms=50, retry_backoff_max_ms=50)
        async with Rig(settings) as rig:
            await asyncio.to_thread(
                broker.wait_for, lambda: len(broker.seen(ApiKey.FIND_COORDINATOR)) >= 12
            )
            assert rig.failures == []
            await rig.wait(lambda view: view.trouble is not None)
            assert f"127.0.0.1:{port}: Connection refused" in " ".join(rig.troubles)
            broker.coordinator = None
            await rig.active()
            assert rig.view is not None
            assert rig.view.trouble is None

    with refusing_port() as port:
        run(work(port))
    seen = broker.seen(ApiKey.FIND_COORDINATOR)
    assert seen[11].at_ms - seen[0].at_ms >= 8 * 50 * 3 // 4


def test_a_coordinator_that_we_cannot_agree_with_is_told(
    broker: ScriptedBroker, server_tls: ssl.SSLContext, ca_pem: str
) -> None:
    """The lookup works, the coordinator does not: without a word the caller would wait for ever."""

    async def work(servers: str) -> None:
        settings = config(servers, security_protocol="SSL", ssl_ca_pem=ca_pem)
        async with Rig(settings) as rig:
            assert isinstance(await rig.failed(), TlsError)

    foreign = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme_ca().issue_cert("127.0.0.1").configure_cert(foreign)
    with ScriptedBroker(tls=server_tls) as good, ScriptedBroker(tls=foreign) as bad:
        good.coordinator = (bad.host, bad.port)
        run(work(good.address))

    async def old() -> None:
        with ScriptedBroker(versions={ApiKey.API_VERSIONS: (0, 4)}) as other:
            broker.coordinator = (other.host, other.port)
            async with Rig(config(broker.address)) as rig:
                assert isinstance(await rig.failed(), UnsupportedVersionError)
                assert str(other.port) in str(rig.failures[0])

    run(old())


def trustme_ca() -> Any:
    import trustme

    return trustme.CA()


# Bugs.


class BugError(Exception):
    """Nothing that the library raises on its own account."""


async def ends_with_the_bug(rig: Rig) -> None:
    assert rig.task is not None
    with pytest.raises(BugError):
        await asyncio.wait_for(asyncio.shield(rig.task), WAIT_S)


async def test_a_bug_in_the_machine_ends_the_engine(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig(config(broker.address)) as rig:
        await rig.active()
        monkeypatch.setattr(MembershipMachine, "handle", raises)
        await ends_with_the_bug(rig)
        assert rig.view is not None
        rig.post(Polled())  # too late, and harmless


def raises(*_: object, **__: object) -> Any:
    raise BugError


@pytest.mark.parametrize(
    "place",
    [
        "groupsdk.drivers.engine.connect.check_versions",
        "groupsdk.drivers.engine.connect.connect_socket",
        "groupsdk.drivers.engine.lookup.CoordinatorLookup._candidates",
        "groupsdk.drivers.engine.lookup.CoordinatorLookup._learn",
        "groupsdk.drivers.engine.engine.CoordinatorConnection._flush",
        "groupsdk.drivers.engine.engine.send_request",
        "groupsdk.drivers.engine.connection.correlation_id_of",
        "groupsdk.drivers.engine.connection.Connection.connection_made",
    ],
)
async def test_a_bug_anywhere_in_the_engine_ends_it(
    place: str, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, raises)
    async with Rig(config(broker.address)) as rig:
        await ends_with_the_bug(rig)


async def test_a_bug_in_a_link_made_anew_ends_the_engine(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig(config(broker.address)) as rig:
        await rig.active()
        monkeypatch.setattr("groupsdk.drivers.engine.connect.check_versions", raises)
        broker.drop_connections()
        await ends_with_the_bug(rig)


def test_unretrieved_future_is_not_reported_as_a_bug(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with Rig(config(broker.address)) as rig:
            await rig.active()
            forgotten = asyncio.get_running_loop().create_future()
            forgotten.set_exception(DisconnectedError("nobody asked"))
            del forgotten
            gc.collect()
            await rig.wait(lambda _: rig.heartbeats >= 2)
            assert rig.task is not None
            assert not rig.task.done()
            await rig.leave()

    run(work())
    assert "never retrieved" in caplog.text
    caplog.clear()  # which is what the other tests are checked for


# A lookup that nobody wants.


def test_a_lookup_ends_with_the_wish_to_be_in_the_group() -> None:
    async def work(port: int) -> None:
        async with Rig(config(f"127.0.0.1:{port}")) as rig:
            await rig.wait(lambda view: view.trouble is not None)
            engine = rig._engine
            rig.post(LeaveRequested("enough"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert engine._tasks == set()
            rig.post(Polled())
            assert engine._tasks != set()

    with refusing_port() as port:
        run(work(port))


async def test_the_failure_of_a_lookup_that_was_given_up_meanwhile_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(lookup: CoordinatorLookup) -> Any:
        lookup._on_delay(DisconnectedError("the last attempt"))
        raise AuthenticationError("too late")

    monkeypatch.setattr(CoordinatorLookup, "run", fails)
    rig = Rig(config("unused:1"))
    shown = rig._engine._publish

    def leave_when_delayed(view: MemberView) -> None:
        shown(view)
        if view.trouble == "the last attempt" and view.handled == 1:
            rig.post(LeaveRequested("enough"))

    rig._engine._publish = leave_when_delayed
    async with rig:
        for _ in range(20):
            await asyncio.sleep(0)
        assert rig.troubles == ["the last attempt"]
        assert rig.failures == []


# The beginning and the end.


async def test_event_posted_before_the_engine_runs_is_not_lost(broker: ScriptedBroker) -> None:
    """The thread that posts may be faster than the one that runs the engine."""
    views: asyncio.Queue[MemberView] = asyncio.Queue()
    engine = Engine(config(broker.address), SystemClock(), views.put_nowait)
    engine.post(Polled())
    engine.post(RejoinRequested("why not"))
    assert views.empty()
    task = asyncio.create_task(engine.run())
    view = await asyncio.wait_for(views.get(), WAIT_S)
    assert view.handled == 2
    await asyncio.to_thread(broker.wait_for, lambda: broker.accepted == 1)
    engine.abort()
    await task


async def test_events_that_were_lost_on_the_way_count_from_the_next_sign_of_life_on(
    broker: ScriptedBroker,
) -> None:
    handled: list[int] = []
    engine = Engine(
        config(broker.address), SystemClock(), lambda view: handled.append(view.handled)
    )
    task = asyncio.create_task(engine.run())
    await asyncio.sleep(0)
    engine.post(Polled(posted_count=1))
    engine.post(RejoinRequested("the third, but the second was lost"))
    engine.post(Polled(posted_count=4))
    assert handled[-3:] == [1, 2, 4]
    engine.abort()
    await task


async def test_an_engine_aborted_before_it_runs_ends_at_once(broker: ScriptedBroker) -> None:
    engine = Engine(config(broker.address), SystemClock(), lambda *_: None)
    engine.post(Polled())
    engine.abort()
    await asyncio.wait_for(engine.run(), WAIT_S)
    assert broker.accepted == 0


async def test_a_token_provider_that_fails_after_it_was_given_up_is_no_bug(
    broker: ScriptedBroker,
) -> None:
    gate = threading.Event()
    asked: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()

    def provider() -> str:
        asked.put(threading.current_thread())
        gate.wait(WAIT_S)
        raise ConnectionError("too late")

    settings = config(
        broker.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=provider,
        socket_connection_setup_timeout_ms=20,
        retry_backoff_ms=20,
        retry_backoff_max_ms=20,
    )
    async with Rig(settings) as rig:
        late = await asyncio.to_thread(asked.get, timeout=WAIT_S)
        # the connection for which it was asked was given up
        await rig.wait(lambda view: "still authenticating" in (view.trouble or ""))
        gate.set()
        await asyncio.to_thread(late.join)
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        assert rig.task is not None
        assert not rig.task.done()


@pytest.mark.parametrize("moment", range(0, 60, 4))
def test_the_end_leaves_no_task_behind_whenever_it_comes(
    moment: int, server_tls: ssl.SSLContext, ca_pem: str
) -> None:
    """Every task of the loop, and with asyncio's own every socket, is gone when `run` has returned."""

    async def work(broker: ScriptedBroker) -> None:
        settings = config(broker.address, security_protocol="SSL", ssl_ca_pem=ca_pem)
        async with Rig(settings) as rig:
            assert rig.task is not None
            for _ in range(moment):
                await asyncio.sleep(0.0005)
            rig._engine.abort()
            await rig.task
            assert asyncio.all_tasks() - {asyncio.current_task(), *this_test()} == set()
            assert not rig._engine._connector._open
        gc.collect()

    with ScriptedBroker(tls=server_tls) as broker:
        run(work(broker))
        broker.wait_for(lambda: broker.connected == 0)


def this_test() -> set[asyncio.Task[Any]]:
    """The task in which `asyncio.wait_for` runs the test."""
    return {each for each in asyncio.all_tasks() if "wait_for" in repr(each.get_coro())}


def test_an_end_while_a_server_does_not_answer_is_at_once() -> None:
    async def work(port: int) -> None:
        async with Rig(config(f"127.0.0.1:{port}")) as rig:
            await asyncio.sleep(0.01)  # it connects by now, or has not begun: neither may wait
            rig.post(CloseRequested(GroupMembershipOperation.LEAVE_GROUP, 600_000, "test"))
            assert rig.task is not None
            await asyncio.wait_for(rig.task, WAIT_S)

    for port_of in (mute_port, full_port):
        with port_of() as port:
            run(work(port))


async def test_two_members_of_one_process_are_independent(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.HEARTBEAT, fail(82), client_id="one", forever=True)
    first = config(broker.address, client_id="one", group_id="one")
    second = config(broker.address, client_id="two", group_id="two")
    async with Rig(second) as two:
        await two.active()
        async with Rig(first) as one:
            assert (await one.failed()).fatal
        beats = two.heartbeats
        await two.wait(lambda _: two.heartbeats >= beats + 3)
        assert two.failures == []
        assert two.troubles == []


def test_garbage_at_every_answer_ends_in_an_error_each_time_and_never_in_a_spin(
    broker: ScriptedBroker,
) -> None:
    async def work() -> None:
        broker.script(ApiKey.HEARTBEAT, raw(b"\0\0\0\5hello"), forever=True)
        settings = config(
            broker.address, heartbeat_interval_ms=50, retry_backoff_ms=50, retry_backoff_max_ms=50
        )
        async with Rig(settings) as rig:
            await rig.failed(6)
            assert {type(error) for error in rig.failures} == {DecodeError}

    run(work())
    seen = broker.seen(ApiKey.HEARTBEAT)
    assert seen[5].at_ms - seen[0].at_ms >= 3 * 50 * 3 // 4
