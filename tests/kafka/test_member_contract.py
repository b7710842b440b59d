"""The contract of a member, on a real broker: join, lead, stay, rebalance, leave."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from groupsdk import AbstractCoordinator, GroupMembershipOperation, MemberState
from groupsdk.clock import Deadline, SystemClock
from groupsdk.errors import (
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    MemberClosedError,
)
from groupsdk.testing import LocalKafka
from tests.support.groups import describe_group
from tests.support.workers import (
    TIMEOUT_S,
    Callback,
    Driven,
    RecordingMember,
    await_stable,
    eventually,
    stable_generation,
)


NewMember = Callable[..., RecordingMember]
StartKafka = Callable[..., LocalKafka]


class TestOneMember:
    def test_joins_leads_stays_and_leaves(
        self, kafka: LocalKafka, new_member: NewMember, group_id: str
    ) -> None:
        member = new_member(protocols=[("v0", b"hello")])
        assert member.ensure_active_group(TIMEOUT_S)
        generation = member.generation_if_stable()
        assert generation is not None
        assert generation == member.generation()
        assert generation.generation_id == 1
        assert generation.protocol_name == "v0"
        assert member.member_id().startswith("groupsdk-")
        snapshot = member.snapshot()
        assert snapshot.state is MemberState.STABLE
        assert snapshot.is_leader
        assert snapshot.assignment_epoch == 1
        assert not snapshot.rejoin_pending
        assert [callback.name for callback in member.callbacks] == [
            "on_join_prepare",
            "perform_assignment",
            "on_join_complete",
        ]
        assert member.callbacks[0] == Callback("on_join_prepare", -1, "")
        assert member.assignment["told"] == "hello"

        seen = describe_group(kafka.bootstrap_servers, group_id)
        assert seen.state == "Stable"
        assert (seen.protocol_type, seen.protocol_name) == ("work", "v0")
        assert seen.assignments == {
            member.member_id(): member.named("on_join_complete")[0].assignment
        }

        # It stays, and is called no more: ten heartbeats later nothing has changed.
        def beats() -> bool:
            member.poll(0.05)
            return member.metrics()["heartbeat-total"] >= 10

        eventually(beats)
        assert member.generation_if_stable() == generation
        assert len(member.callbacks) == 3

        member.close()
        assert member.callbacks[-1].name == "on_leave_prepare"
        assert member.generation_if_stable() is None
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"

    def test_ensure_active_group_returns_at_once_when_it_is_active(
        self, new_member: NewMember
    ) -> None:
        member = new_member()
        assert member.ensure_active_group(TIMEOUT_S)
        assert member.ensure_active_group(0)
        assert member.poll()
        assert len(member.named("on_join_complete")) == 1

    def test_leaves_and_joins_again_with_another_member_id(self, new_member: NewMember) -> None:
        member = new_member()
        assert member.ensure_active_group(TIMEOUT_S)
        first = member.member_id()
        member.leave_group("a pause")
        assert member.generation_if_stable() is None
        assert member.ensure_active_group(TIMEOUT_S)
        assert member.member_id() != first
        prepared = member.named("on_join_prepare")
        assert [(each.generation, each.member_id) for each in prepared] == [(-1, ""), (-1, "")]
        assert len(member.named("on_leave_prepare")) == 1

    def test_after_close_every_call_says_so(self, new_member: NewMember) -> None:
        member = new_member()
        assert member.ensure_active_group(TIMEOUT_S)
        member.close()
        member.close()
        for call in (member.poll, member.ensure_active_group):
            with pytest.raises(MemberClosedError):
                call()
        assert len(member.named("on_leave_prepare")) == 1

    def test_rejoins_for_a_reason_that_its_events_tell(self, new_member: NewMember) -> None:
        member = new_member()
        assert member.ensure_active_group(TIMEOUT_S)
        member.protocols = [("v0", b"changed")]
        member.request_rejoin("the metadata changed")
        assert member.ensure_active_group(TIMEOUT_S)
        assert member.generation().generation_id == 2
        assert member.assignment["told"] == "changed"
        event = member.events()[-1]
        assert event.reason == "the metadata changed"
        assert (event.generation_before, event.generation_after) == (1, 2)
        assert event.leader
        assert event.member_count == 1
        assert event.outcome == "completed"
        assert [phase for phase, _ in event.phases] == [
            "prepare",
            "join",
            "assign",
            "sync",
            "complete",
        ]

    def test_without_work_it_stays_a_member(self, kafka: LocalKafka, group_id: str) -> None:
        class Idle(AbstractCoordinator):
            protocol_type = "idle"
            assignments: list[bytes]

            @override
            def metadata(self) -> list[tuple[str, bytes]]:
                return [("v0", b"")]

            @override
            def perform_assignment(self, *_: object) -> dict[str, bytes]:
                return {}

            @override
            def on_join_complete(self, *arguments: object) -> None:
                assert isinstance(arguments[3], bytes)
                self.assignments = [arguments[3]]

        with Idle(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group_id,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=100,
        ) as member:
            assert member.ensure_active_group(TIMEOUT_S)
            generation = member.generation()
            passed = Deadline(SystemClock(), 7_000)

            def session_has_passed() -> bool:
                member.poll(0.05)
                return passed.expired and member.metrics()["heartbeat-total"] >= 12

            eventually(session_has_passed)
            assert member.generation_if_stable() == generation
            assert member.assignments == [b""]


class TestSeveralMembers:
    @pytest.mark.parametrize("count", [2, 5])
    def test_share_one_generation_under_one_leader(
        self, kafka: LocalKafka, new_member: NewMember, group_id: str, count: int
    ) -> None:
        with contextlib.ExitStack() as stack:
            driven = [stack.enter_context(Driven(new_member())) for _ in range(count)]
            await_stable(*driven)
            members = [each.member for each in driven]
            assert sum(member.snapshot().is_leader for member in members) == 1
            assert len({member.assignment["leader"] for member in members}) == 1
            assert {member.assignment["index"] for member in members} == set(range(count))
            seen = describe_group(kafka.bootstrap_servers, group_id)
            assert seen.state == "Stable"
            assert seen.member_ids == {member.member_id() for member in members}
            for each in driven:
                each.close()
                assert not each.errors
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"

    def test_follower_leads_when_the_leader_leaves(self, new_member: NewMember) -> None:
        with Driven(new_member()) as first, Driven(new_member()) as second:
            before = await_stable(first, second)
            leader, follower = first, second
            if second.member.snapshot().is_leader:
                leader, follower = second, first
            leader.close()
            after = await_stable(follower)
            assert after > before
            assert follower.member.snapshot().is_leader
            assert follower.member.assignment["leader"] == follower.member.member_id()
            prepared = follower.member.named("on_join_prepare")[-1]
            assert (prepared.generation, prepared.member_id) == (
                before,
                follower.member.member_id(),
            )
            assert not follower.errors

    def test_callbacks_alternate_and_generations_only_grow(self, new_member: NewMember) -> None:
        with Driven(new_member()) as stays:
            for size in (2, 3):
                with contextlib.ExitStack() as stack:
                    others = [stack.enter_context(Driven(new_member())) for _ in range(size - 1)]
                    await_stable(stays, *others)
                await_stable(stays)
            names = [
                each.name for each in stays.member.callbacks if each.name != "perform_assignment"
            ]
            assert names == ["on_join_prepare", "on_join_complete"] * (len(names) // 2)
            completed = [each.generation for each in stays.member.named("on_join_complete")]
            assert completed == sorted(set(completed))

    def test_two_groups_live_in_one_process(self, new_member: NewMember, group_id: str) -> None:
        other_id = f"{group_id}-other"
        with contextlib.ExitStack() as stack:
            one = [stack.enter_context(Driven(new_member())) for _ in range(2)]
            two = [stack.enter_context(Driven(new_member(group_id=other_id))) for _ in range(2)]
            await_stable(*one)
            generation = await_stable(*two)
            for each in one:
                each.close()
            for other in two:
                assert other.member.generation_if_stable() is not None
            assert await_stable(*two) == generation

    def test_200_members_in_one_process_form_one_generation_and_leave(
        self, kafka: LocalKafka, new_member: NewMember, group_id: str
    ) -> None:
        # As fast as they can be driven, so that nobody's loop is late.
        quick = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000}
        members = [new_member(heartbeat_interval_ms=1_000, **quick) for _ in range(200)]

        def drive() -> int | None:
            for member in members:
                member.poll()
            return stable_generation(members)

        eventually(drive, lambda: describe_group(kafka.bootstrap_servers, group_id).state, 60)
        seen = describe_group(kafka.bootstrap_servers, group_id)
        assert seen.state == "Stable"
        assert seen.member_ids == {member.member_id() for member in members}
        assert len(seen.member_ids) == 200
        assert {member.assignment["index"] for member in members} == set(range(200))
        for member in members:
            member.close()
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"
        assert not [name for name in _thread_names() if group_id in name]


def _thread_names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


class TestClose:
    @pytest.mark.parametrize(
        ("instance_id", "operation", "stays"),
        [
            (None, GroupMembershipOperation.DEFAULT, False),
            (None, GroupMembershipOperation.LEAVE_GROUP, False),
            (None, GroupMembershipOperation.REMAIN_IN_GROUP, True),
            ("i", GroupMembershipOperation.DEFAULT, True),
            ("i", GroupMembershipOperation.LEAVE_GROUP, False),
            ("i", GroupMembershipOperation.REMAIN_IN_GROUP, True),
        ],
    )
    def test_leaves_or_remains_as_told(
        self,
        kafka: LocalKafka,
        new_member: NewMember,
        group_id: str,
        instance_id: str | None,
        operation: GroupMembershipOperation,
        stays: bool,
    ) -> None:
        member = new_member(group_instance_id=instance_id)
        assert member.ensure_active_group(TIMEOUT_S)
        member_id = member.member_id()
        member.close(operation=operation)
        seen = describe_group(kafka.bootstrap_servers, group_id)
        assert seen.member_ids == ({member_id} if stays else set())
        assert seen.state == ("Stable" if stays else "Empty")

    def test_member_that_remained_is_expelled_after_its_session(
        self, new_member: NewMember
    ) -> None:
        with Driven(new_member()) as stays:
            with Driven(new_member(session_timeout_ms=1_000)) as goes:
                await_stable(stays, goes)
                goes.crash()
            await_stable(stays)


class TestRefusals:
    def test_members_that_share_no_protocol(self, new_member: NewMember) -> None:
        with Driven(new_member(protocols=[("v0", b"")])) as first:
            generation = await_stable(first)
            with pytest.raises(InconsistentGroupProtocolError) as raised:
                new_member(protocols=[("v9", b"")]).ensure_active_group(TIMEOUT_S)
            assert "protocol" in str(raised.value)
            assert await_stable(first) == generation

    def test_members_of_another_protocol_type(self, new_member: NewMember) -> None:
        with Driven(new_member(protocol_type="work")) as first:
            await_stable(first)
            with pytest.raises(InconsistentGroupProtocolError):
                new_member(protocol_type="play").ensure_active_group(TIMEOUT_S)

    def test_the_group_agrees_on_a_protocol_that_all_offer(self, new_member: NewMember) -> None:
        both = new_member(protocols=[("v1", b"one"), ("v0", b"zero")])
        old = new_member(protocols=[("v0", b"old")])
        with Driven(both) as new, Driven(old) as other:
            await_stable(new, other)
            assert {m.assignment["protocol"] for m in (both, old)} == {"v0"}
            assert both.assignment["told"] == "zero"
            other.close()
            await_stable(new)
            assert both.assignment["protocol"] == "v1"

    def test_session_timeout_out_of_the_brokers_bounds(self, new_member: NewMember) -> None:
        member = new_member(session_timeout_ms=1_800_001)
        with pytest.raises(InvalidSessionTimeoutError) as raised:
            member.ensure_active_group(TIMEOUT_S)
        assert "session.timeout.ms" in str(raised.value)
        assert member.generation_if_stable() is None


class TestBrokerOfItsOwn:
    def test_refuses_more_members_than_the_group_may_have(
        self, own_kafka: StartKafka, group_id: str
    ) -> None:
        kafka = own_kafka(properties={"group.max.size": "1"}, log=True)
        settings: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group_id,
        }
        with Driven(RecordingMember(**settings)) as first:
            generation = await_stable(first)
            with (
                RecordingMember(**settings) as second,
                pytest.raises(GroupMaxSizeReachedError),
            ):
                second.ensure_active_group(TIMEOUT_S)
            assert await_stable(first) == generation
            # The same broker writes its coordinator's log: the reason of a rejoin arrives (KIP-800).
            first.member.request_rejoin("because a test wants it so")
            eventually(lambda: first.member.generation().generation_id > generation)
            log = kafka.nodes[0].log_file
            eventually(lambda: "because a test wants it so" in log.read_text(), log.read_text)
        eventually(lambda: "the member is being closed" in log.read_text(), log.read_text)

    def test_kafka_4_1_0_has_the_same_contract(self, own_kafka: StartKafka, group_id: str) -> None:
        kafka = own_kafka(version="4.1.0")
        settings: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group_id,
        }
        with (
            Driven(RecordingMember(**settings)) as first,
            Driven(RecordingMember(**settings)) as second,
        ):
            before = await_stable(first, second)
            assert describe_group(kafka.bootstrap_servers, group_id).state == "Stable"
            first.close()
            assert await_stable(second) > before
            second.close()
            assert not first.errors
            assert not second.errors
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"
