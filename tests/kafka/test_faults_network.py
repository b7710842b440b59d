"""Connections that are cut, silent or slow, between a member and a real broker."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupsdk.errors import NetworkError
from groupsdk.testing import LocalKafka
from groupsdk.wire.schema import ApiKey
from tests.support.groups import describe_group
from tests.support.proxy import Action, Fault, FaultProxy, Side
from tests.support.workers import (
    TIMEOUT_S,
    Driven,
    RecordingMember,
    Witness,
    await_active,
    await_stable,
    eventually,
)


# Sessions that are shorter than a test: what the broker holds for a member that lost its answer has to expire.
_SETTINGS = {
    "session_timeout_ms": 1_500,
    "heartbeat_interval_ms": 100,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
}

NewMember = Callable[..., RecordingMember]


@pytest.fixture
def new_member(proxy: FaultProxy, kafka: LocalKafka, group_id: str) -> Iterator[NewMember]:
    """Make members of the test's group, behind the proxy unless told otherwise."""
    made: list[RecordingMember] = []

    def make(**settings: Any) -> RecordingMember:
        defaults = {"bootstrap_servers": proxy.bootstrap_servers, "group_id": group_id}
        made.append(RecordingMember(**(defaults | _SETTINGS | settings)))
        return made[-1]

    yield make
    for member in made:
        member.close(0.5)


def _check_contract(member: RecordingMember) -> None:
    """Check what the contract says of any history: prepare before each complete, generations that grow."""
    names = [each.name for each in member.callbacks if each.name.startswith("on_join")]
    for earlier, later in itertools.pairwise(names):
        # Two in a row of one kind: what was prepared for never came, but it is lost again.
        assert (earlier, later) != ("on_join_complete", "on_join_complete"), member.callbacks
    completed = [each.generation for each in member.named("on_join_complete")]
    assert completed == sorted(set(completed)), member.callbacks


_ON_THE_WAY_IN = [
    (ApiKey.API_VERSIONS, 1),
    (ApiKey.FIND_COORDINATOR, 1),
    (ApiKey.METADATA, 1),
    (ApiKey.JOIN_GROUP, 1),
    (ApiKey.JOIN_GROUP, 2),
    (ApiKey.SYNC_GROUP, 1),
]


class TestCut:
    @pytest.mark.parametrize("action", [Action.CUT, Action.CLOSE], ids=["RST", "FIN"])
    @pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
    @pytest.mark.parametrize(
        ("api", "occurrence"), _ON_THE_WAY_IN, ids=[f"{api.name}-{n}" for api, n in _ON_THE_WAY_IN]
    )
    def test_on_the_way_in(
        self,
        proxy: FaultProxy,
        new_member: NewMember,
        api: ApiKey,
        occurrence: int,
        side: Side,
        action: Action,
    ) -> None:
        fault = Fault(
            action=action, api_key=api.value, side=side, occurrence=occurrence, after_bytes=9
        )
        proxy.add(fault)
        # what the broker holds for a join that was lost goes with this session; longer than a machine may stall
        with Driven(new_member(session_timeout_ms=6_000)) as driven:
            await_stable(driven)
            assert proxy.happened() == [fault]
            assert not driven.errors
            _check_contract(driven.member)
            assert len(driven.member.named("on_join_complete")) == 1
            assert len(driven.member.named("on_join_prepare")) == 1

    @pytest.mark.parametrize("action", [Action.CUT, Action.CLOSE], ids=["RST", "FIN"])
    @pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
    def test_in_a_heartbeat(
        self, proxy: FaultProxy, new_member: NewMember, side: Side, action: Action
    ) -> None:
        with Driven(new_member(session_timeout_ms=30_000)) as driven:
            generation = await_stable(driven)
            callbacks = list(driven.member.callbacks)
            fault = Fault(action=action, api_key=ApiKey.HEARTBEAT.value, side=side, after_bytes=9)
            proxy.add(fault)
            proxy.wait_for(fault)
            beats = len(proxy.seen(ApiKey.HEARTBEAT.value))
            eventually(lambda: len(proxy.seen(ApiKey.HEARTBEAT.value)) >= beats + 5)
            # Only the way was lost, not the membership: nobody is called, nothing rebalances.
            assert await_active(driven) == generation
            assert driven.member.callbacks == callbacks
            assert not driven.errors

    @pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
    def test_in_a_leave(
        self,
        proxy: FaultProxy,
        new_member: NewMember,
        kafka: LocalKafka,
        group_id: str,
        side: Side,
    ) -> None:
        with Driven(new_member(session_timeout_ms=6_000)) as driven:
            await_stable(driven)
            fault = Fault(
                action=Action.CUT, api_key=ApiKey.LEAVE_GROUP.value, side=side, after_bytes=9
            )
            proxy.add(fault)
            driven.close(timeout_s=10.0)
            assert proxy.happened() == [fault]
            assert not driven.errors
        # Told or not, the group goes on without it: after its session at the latest.
        eventually(lambda: describe_group(kafka.bootstrap_servers, group_id).state == "Empty")

    @pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
    @pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
    def test_while_the_group_of_two_rebalances(
        self,
        proxy: FaultProxy,
        kafka: LocalKafka,
        new_member: NewMember,
        api: ApiKey,
        side: Side,
    ) -> None:
        with (
            Driven(new_member(bootstrap_servers=kafka.bootstrap_servers)) as near,
            Driven(new_member()) as far,
            Witness(near.member, far.member) as witness,
        ):
            before = await_stable(near, far)
            fault = Fault(action=Action.CUT, api_key=api.value, side=side, after_bytes=9)
            proxy.add(fault)
            far.member.protocols = [("v0", b"changed")]
            far.member.request_rejoin("to be cut")
            proxy.wait_for(fault)
            eventually(lambda: far.member.assignment.get("told") == "changed")
            assert await_stable(near, far) > before
            for each in (near, far):
                assert not each.errors
                _check_contract(each.member)
            witness.check()


class TestUnreachable:
    def test_a_member_waits_for_a_broker_that_refuses_connections(
        self, proxy: FaultProxy, new_member: NewMember
    ) -> None:
        proxy.refuse()
        with Driven(new_member()) as driven:
            trouble = eventually(lambda: driven.member.snapshot().trouble)
            assert proxy.bootstrap_servers in trouble
            assert "Connection refused" in trouble
            proxy.refuse(False)
            await_stable(driven)
            assert driven.member.snapshot().trouble is None
            assert not driven.errors

    def test_ensure_active_group_returns_in_time(
        self, proxy: FaultProxy, new_member: NewMember
    ) -> None:
        proxy.black_hole()
        assert not new_member().ensure_active_group(0.3)

    def test_close_returns_in_time_when_nobody_answers(
        self, proxy: FaultProxy, new_member: NewMember
    ) -> None:
        with Driven(new_member()) as driven:
            await_stable(driven)
            proxy.black_hole()
            driven.close(timeout_s=0.3)
            assert not driven.errors


class TestSilence:
    @pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
    def test_a_coordinator_connection_that_went_dumb(
        self, proxy: FaultProxy, new_member: NewMember, side: Side
    ) -> None:
        with Driven(new_member()) as driven, Witness(driven.member) as witness:
            before = await_stable(driven)
            connections = proxy.connections
            fault = Fault(action=Action.BLACK_HOLE, api_key=ApiKey.HEARTBEAT.value, side=side)
            proxy.add(fault)
            proxy.wait_for(fault)
            # No other one until it is seen: the doubt would be over within milliseconds.
            proxy.black_hole()
            # Its own clock takes its belief away, without a word from anyone ...
            eventually(lambda: driven.member.generation_if_stable() is None)
            proxy.black_hole(False)
            # ... and another connection brings the membership, or a new one.
            eventually(lambda: proxy.connections > connections)
            assert await_active(driven) >= before
            assert not driven.errors
            _check_contract(driven.member)
            witness.check()

    def test_a_network_that_is_gone_for_longer_than_the_session(
        self, proxy: FaultProxy, kafka: LocalKafka, new_member: NewMember
    ) -> None:
        with (
            Driven(new_member(bootstrap_servers=kafka.bootstrap_servers)) as near,
            Driven(new_member(socket_connection_setup_timeout_ms=500)) as far,
            Witness(near.member, far.member) as witness,
        ):
            before = await_stable(near, far)
            proxy.black_hole()
            alone = await_stable(near)
            assert alone > before
            assert far.member.generation_if_stable() is None
            proxy.black_hole(False)
            assert await_stable(near, far) > alone
            # That all is lost was said, before the new assignment.
            lost = far.member.named("on_join_prepare")[-1]
            assert (lost.generation, lost.member_id) == (-1, "")
            assert not far.errors
            witness.check()

    def test_a_slow_broker_costs_nothing(self, proxy: FaultProxy, new_member: NewMember) -> None:
        with Driven(new_member(session_timeout_ms=8_000)) as driven:
            generation = await_stable(driven)
            callbacks = list(driven.member.callbacks)
            slow = [
                Fault(
                    action=Action.DELAY,
                    api_key=ApiKey.HEARTBEAT.value,
                    side=Side.ANSWER,
                    occurrence=occurrence,
                    delay_ms=2_000,
                )
                for occurrence in (1, 2, 3)
            ]
            proxy.add(*slow)
            proxy.wait_for(slow[-1])
            beats = len(proxy.seen(ApiKey.HEARTBEAT.value))
            eventually(lambda: len(proxy.seen(ApiKey.HEARTBEAT.value)) > beats + 1)
            assert driven.member.generation_if_stable() is not None
            assert driven.member.generation().generation_id == generation
            assert driven.member.callbacks == callbacks
            assert not driven.errors

    def test_answers_that_come_too_slowly_are_not_waited_for_for_ever(
        self, proxy: FaultProxy, new_member: NewMember
    ) -> None:
        proxy.add(
            Fault(
                action=Action.BLACK_HOLE,
                api_key=ApiKey.FIND_COORDINATOR.value,
                side=Side.ANSWER,
            )
        )
        with Driven(new_member(request_timeout_ms=300)) as driven:
            await_stable(driven)
            assert not driven.errors


class TestGarbage:
    @pytest.mark.parametrize("action", [Action.GARBLE, Action.TRUNCATE], ids=lambda a: a.value)
    @pytest.mark.parametrize(
        "api",
        [
            ApiKey.API_VERSIONS,
            ApiKey.FIND_COORDINATOR,
            ApiKey.METADATA,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
        ],
        ids=lambda api: api.name,
    )
    def test_one_answer_that_is_none_does_not_end_the_member(
        self, proxy: FaultProxy, new_member: NewMember, api: ApiKey, action: Action
    ) -> None:
        # From byte 4 on: the correlation id is right and what follows is not.
        fault = Fault(action=action, api_key=api.value, side=Side.ANSWER, after_bytes=5)
        proxy.add(fault)
        driven = Driven(new_member())
        with driven:
            proxy.wait_for(fault, int(TIMEOUT_S * 1000))
            await_stable(driven)
            _check_contract(driven.member)
            # Whatever the caller is told about it is an error of the library's own.
            assert not [error for error in driven.errors if isinstance(error, NetworkError)]
            assert len(driven.errors) <= 1
