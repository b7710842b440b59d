"""Connections that are cut, silent or slow, between members of every kind and a real broker."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition as NativePartition

from groupsdk.errors import NetworkError
from groupsdk.testing import LocalKafka
from groupsdk.wire.schema import ApiKey
from tests.kafka.driven_groups import AnyGroup, ConsumerGroup, MemberGroup, driven_group
from tests.support.consumers import PROTOCOLS, tell
from tests.support.proxy import Action, Fault, FaultProxy, Side
from tests.support.workers import TIMEOUT_S, await_stable, eventually


NewGroup = Callable[[int], AnyGroup]
"""Make the group of the test, with sessions of so many milliseconds."""

LONG_MS = 30_000
"""A session longer than a machine may stall."""

pytestmark = pytest.mark.timeout(180)

with_sides = pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
with_ends = pytest.mark.parametrize("action", [Action.CUT, Action.CLOSE], ids=["RST", "FIN"])
of_members = pytest.mark.parametrize("new_group", ["member"], indirect=True)
of_the_consumer_protocol = pytest.mark.parametrize("new_group", ["consumer"], indirect=True)


@pytest.fixture(params=["member", *PROTOCOLS])
def new_group(request: pytest.FixtureRequest, paced_kafka: LocalKafka, group_id: str) -> NewGroup:
    return lambda session_ms: driven_group(request.param, paced_kafka, group_id, session_ms)


def cut(api: ApiKey, side: Side, action: Action = Action.CUT, occurrence: int = 1) -> Fault:
    """Return a fault that ends the connection in the middle of a frame."""
    return Fault(action=action, api_key=api, side=side, occurrence=occurrence, after_bytes=9)


WAY_IN = [
    *(("member", api, 1) for api in (ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR)),
    *(("member", ApiKey.METADATA, 1), ("member", ApiKey.SYNC_GROUP, 1)),
    *(("member", ApiKey.JOIN_GROUP, 1), ("member", ApiKey.JOIN_GROUP, 2)),
    *(("consumer", api, 1) for api in (ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR)),
    *(("consumer", api, 1) for api in (ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS)),
    *(("consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT, number) for number in (1, 2, 3)),
    ("consumer", ApiKey.OFFSET_FETCH, 1),
]


@with_ends
@with_sides
@pytest.mark.parametrize(
    ("new_group", "api", "occurrence"),
    WAY_IN,
    ids=[f"{kind}-{api.name}-{number}" for kind, api, number in WAY_IN],
    indirect=["new_group"],
)
def test_connection_cut_on_the_way_in_costs_no_second_join(
    new_group: NewGroup, way: FaultProxy, api: ApiKey, occurrence: int, side: Side, action: Action
) -> None:
    # what the broker holds for a join that was lost goes with this session; longer than a machine may stall
    group = new_group(6_000 if api in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) else LONG_MS)
    fault = cut(api, side, action, occurrence)
    way.add(fault)
    with group.member(way) as driven:
        group.await_shared(driven)
        way.wait_for(fault)
        group.await_beats(driven)
        group.await_shared(driven)
        assert way.happened() == [fault]
        group.check_joined_once(driven)
        group.check_contract(driven)
    assert not driven.errors


@with_ends
@with_sides
def test_connection_cut_in_a_heartbeat_disturbs_nobody(
    new_group: NewGroup, way: FaultProxy, side: Side, action: Action
) -> None:
    group = new_group(LONG_MS)
    with group.member(way) as driven:
        group.await_shared(driven)
        with group.undisturbed(driven):
            fault = cut(group.heartbeat, side, action)
            way.add(fault)
            way.wait_for(fault)
    assert not driven.errors


@with_sides
def test_connection_cut_in_a_leave_has_the_group_go_on_without_the_member(
    new_group: NewGroup, way: FaultProxy, side: Side
) -> None:
    group = new_group(6_000)
    with group.member(way) as driven:
        group.await_shared(driven)
        # a heartbeat that leaves may follow one that is still an ordinary one
        way.add(*(cut(group.leaving, side, occurrence=number) for number in (1, 2)))
    assert way.happened()
    assert not driven.errors
    # Told or not: after its session at the latest.
    eventually(group.is_empty)


@of_members
@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
@with_sides
def test_connection_cut_while_two_members_rebalance_completes_the_rebalance(
    new_group: NewGroup, way: FaultProxy, api: ApiKey, side: Side
) -> None:
    group = new_group(1_500)
    assert isinstance(group, MemberGroup)
    with group.pair(way) as (near, far):
        before = await_stable(near, far)
        fault = cut(api, side)
        way.add(fault)
        far.member.protocols = [("v0", b"changed")]
        far.member.request_rejoin("to be cut")
        way.wait_for(fault)
        eventually(lambda: far.member.assignment.get("told") == "changed")
        assert await_stable(near, far) > before
        group.check_contract(near)
        group.check_contract(far)


@of_the_consumer_protocol
@with_sides
def test_connection_cut_while_partitions_move_completes_the_move(
    new_group: NewGroup, way: FaultProxy, side: Side
) -> None:
    group = new_group(3_000)
    far = group.member(way)
    with far, group.witness(far) as witness:
        group.await_shared(far)
        for occurrence in (1, 2, 3):
            way.add(fault := cut(ApiKey.CONSUMER_GROUP_HEARTBEAT, side, occurrence=occurrence))
            with group.member() as near, group.witness(near, far) as both:
                way.wait_for(fault)
                group.await_shared(near, far)
                both.check()
            assert not near.errors
            group.await_shared(far)
        witness.check()
    assert not far.errors


@of_the_consumer_protocol
@with_sides
def test_connection_cut_in_a_commit_has_it_made_over_another(
    new_group: NewGroup, way: FaultProxy, side: Side
) -> None:
    group = new_group(LONG_MS)
    assert isinstance(group, ConsumerGroup)
    fault = Fault(action=Action.CUT, api_key=ApiKey.OFFSET_COMMIT, side=side)
    with group.member(way) as driven:
        group.await_shared(driven)
        way.add(fault)
        committed = threading.Event()

        def commit() -> None:
            place = driven.consumer.assignment()[0]
            offsets = [NativePartition(place.topic, place.partition, 0)]
            driven.consumer.commit(offsets=offsets, asynchronous=False)
            committed.set()

        driven.away = commit
        eventually(committed.is_set, lambda: tell(driven))
        assert way.happened() == [fault]
        group.await_shared(driven)
    assert not driven.errors


@of_members
def test_broker_that_refuses_connections_is_waited_for(
    new_group: NewGroup, way: FaultProxy
) -> None:
    group = new_group(1_500)
    way.refuse()
    with group.member(way) as driven:
        trouble = eventually(lambda: group.subject(driven).snapshot().trouble)
        assert way.bootstrap_servers in trouble
        assert "Connection refused" in trouble
        way.refuse(False)
        group.await_shared(driven)
        assert group.subject(driven).snapshot().trouble is None
    assert not driven.errors


@of_members
def test_ensure_active_group_returns_in_time_when_nobody_answers(
    new_group: NewGroup, way: FaultProxy
) -> None:
    way.black_hole()
    member = new_group(1_500).member(way).member
    assert not member.ensure_active_group(0.3)
    member.close(0.5)


@of_members
def test_close_returns_in_time_when_nobody_answers(new_group: NewGroup, way: FaultProxy) -> None:
    group = new_group(1_500)
    with group.member(way) as driven:
        group.await_shared(driven)
        way.black_hole()
        driven.close(timeout_s=0.3)
    assert not driven.errors


@with_sides
def test_silent_connection_takes_the_belief_away_and_another_brings_it_back(
    new_group: NewGroup, way: FaultProxy, side: Side
) -> None:
    group = new_group(1_500)
    with group.member(way) as driven, group.witness(driven) as witness:
        group.await_shared(driven)
        connections = way.connections
        fault = Fault(action=Action.BLACK_HOLE, api_key=group.heartbeat, side=side)
        way.add(fault)
        way.wait_for(fault)
        # No other one until it is seen: the doubt would be over within milliseconds.
        way.black_hole()
        # Its own clock takes its belief away, without a word from anyone ...
        group.await_doubt(driven)
        way.black_hole(False)
        # ... and another connection brings the membership, or a new one.
        eventually(lambda: way.connections > connections)
        group.await_shared(driven)
        group.check_contract(driven)
        witness.check()
    assert not driven.errors


def test_network_gone_for_longer_than_the_session_moves_the_work_and_brings_it_back(
    new_group: NewGroup, way: FaultProxy
) -> None:
    group = new_group(1_500)
    with group.pair(way) as (near, far):
        way.black_hole()
        group.await_shared(near)
        assert not group.acts_under(far)
        way.black_hole(False)
        group.await_shared(near, far)
        assert group.was_lost(far)


def test_slow_answers_within_the_session_disturb_nobody(
    new_group: NewGroup, way: FaultProxy
) -> None:
    group = new_group(8_000)
    with group.member(way) as driven:
        group.await_shared(driven)
        with group.undisturbed(driven):
            slow = [
                Fault(
                    action=Action.DELAY,
                    api_key=group.heartbeat,
                    side=Side.ANSWER,
                    occurrence=occurrence,
                    delay_ms=2_000,
                )
                for occurrence in (1, 2, 3)
            ]
            way.add(*slow)
            way.wait_for(slow[-1], int(TIMEOUT_S * 1000))
    assert not driven.errors


@of_members
def test_answer_that_never_comes_is_given_up_after_the_request_timeout(
    new_group: NewGroup, way: FaultProxy
) -> None:
    group = new_group(1_500)
    api = ApiKey.FIND_COORDINATOR
    way.add(Fault(action=Action.BLACK_HOLE, api_key=api, side=Side.ANSWER))
    with group.member(way, request_timeout_ms=300) as driven:
        group.await_shared(driven)
    assert not driven.errors


COMMON = (ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR, ApiKey.METADATA)
ANSWERS = [
    *(("member", each) for each in COMMON),
    *(("member", each) for each in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT)),
    *(("consumer", each) for each in COMMON),
    *(("consumer", each) for each in (ApiKey.DESCRIBE_CONFIGS, ApiKey.OFFSET_FETCH)),
    ("consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT),
]


@pytest.mark.parametrize("action", [Action.GARBLE, Action.TRUNCATE], ids=lambda each: each.value)
@pytest.mark.parametrize(
    ("new_group", "api"),
    ANSWERS,
    ids=[f"{kind}-{api.name}" for kind, api in ANSWERS],
    indirect=["new_group"],
)
def test_hostile_answer_does_not_end_the_member(
    new_group: NewGroup, way: FaultProxy, api: ApiKey, action: Action
) -> None:
    group = new_group(1_500 if api in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) else LONG_MS)
    # From byte 4 on: the correlation id is right and what follows is not.
    fault = Fault(action=action, api_key=api, side=Side.ANSWER, after_bytes=5)
    way.add(fault)
    with group.member(way) as driven:
        way.wait_for(fault, int(TIMEOUT_S * 1000))
        group.await_shared(driven)
        group.check_contract(driven)
        # Whatever the caller is told about it is an error of the library's own.
        assert not [error for error in driven.errors if isinstance(error, NetworkError)]
        assert len(driven.errors) <= 1, driven.errors
