"""Static members (KIP-345, KIP-814) on a real broker: restarts without a rebalance, and fencing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupsdk import GroupMembershipOperation, MemberState
from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.errors import CommitFailedError, FencedInstanceIdError
from groupsdk.testing import LocalKafka
from groupsdk.types import OffsetAndMetadata
from tests.support.groups import describe_group
from tests.support.workers import (
    TIMEOUT_S,
    Driven,
    Gate,
    RecordingMember,
    WorkerProcess,
    await_active,
    await_stable,
    eventually,
)


NewStatic = Callable[..., RecordingMember]


@pytest.fixture
def real(kafka: LocalKafka) -> LocalKafka:
    """Return the real broker, by the name that the tests for both have for it."""
    return kafka


@pytest.fixture
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def new_static(kafka: LocalKafka, group_id: str) -> NewStatic:
    """Make a member of the test's group under an instance id."""

    def make(instance_id: str, **settings: Any) -> RecordingMember:
        return RecordingMember(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group_id,
            group_instance_id=instance_id,
            **settings,
        )

    return make


class TestRestart:
    @pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
    def test_keeps_its_assignment_and_nobody_rebalances(
        self, kafka: LocalKafka, new_static: NewStatic, group_id: str, leads: bool
    ) -> None:
        with Driven(new_static("one")) as one, Driven(new_static("two")) as two:
            generation = await_stable(one, two)
            goes, stays = (one, two) if one.member.snapshot().is_leader is leads else (two, one)
            instance_id = goes.member.snapshot().group_instance_id
            assert instance_id is not None
            assignment = goes.member.named("on_join_complete")[-1].assignment
            callbacks_before = list(stays.member.callbacks)
            old_id = goes.member.member_id()
            goes.close()
            assert describe_group(kafka.bootstrap_servers, group_id).state == "Stable"

            with Driven(new_static(instance_id)) as again:
                assert await_active(again) == generation
                assert again.member.member_id() != old_id
                # As the leader too, it does not assign anew: the group keeps what it has (KIP-814).
                assert [callback.name for callback in again.member.callbacks] == [
                    "on_join_prepare",
                    "on_join_complete",
                ]
                assert again.member.named("on_join_complete")[0].assignment == assignment
                assert again.member.snapshot().is_leader is leads
                beats = stays.member.metrics()["heartbeat-total"]
                eventually(lambda: stays.member.metrics()["heartbeat-total"] >= beats + 3)
                assert stays.member.callbacks == callbacks_before
                assert stays.member.generation().generation_id == generation
                assert not again.errors
                again.close(operation=GroupMembershipOperation.LEAVE_GROUP)
            stays.close(operation=GroupMembershipOperation.LEAVE_GROUP)
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"

    def test_other_metadata_of_a_restarted_leader_waits_for_the_next_rebalance(
        self, new_static: NewStatic
    ) -> None:
        with Driven(new_static("one", protocols=[("v0", b"old")])) as one:
            generation = await_stable(one)
        with Driven(new_static("one", protocols=[("v0", b"new")])) as again:
            assert await_active(again) == generation
            assert again.member.assignment["told"] == "old"
            again.member.request_rejoin("the metadata changed")
            eventually(lambda: again.member.assignment["told"] == "new")
            assert again.member.generation().generation_id > generation
            again.close(operation=GroupMembershipOperation.LEAVE_GROUP)

    def test_after_its_session_the_group_goes_on_without_it(self, new_static: NewStatic) -> None:
        with (
            Driven(new_static("one")) as stays,
            Driven(new_static("two", session_timeout_ms=1_000)) as goes,
        ):
            await_stable(stays, goes)
            goes.close()
            await_stable(stays)
            stays.close(operation=GroupMembershipOperation.LEAVE_GROUP)


class TestStall:
    @pytest.mark.parametrize("where", ["real", "embedded"])
    def test_static_member_stalled_through_a_rebalance_is_told_its_loss_before_the_next_join(
        self, request: pytest.FixtureRequest, group_id: str, where: str
    ) -> None:
        """The coordinator keeps a static member that did not join, and takes it back without a word."""

        def member(instance_id: str) -> RecordingMember:
            return RecordingMember(
                bootstrap_servers=request.getfixturevalue(where).bootstrap_servers,
                group_id=group_id,
                group_instance_id=instance_id,
                rebalance_timeout_ms=4_000,
                max_poll_interval_ms=60_000,
                heartbeat_interval_ms=2_000,
            )

        with member("one") as stalled, member("two") as goes_on:
            assert stalled.ensure_active_group(TIMEOUT_S)
            before, member_id = stalled.snapshot().generation, stalled.member_id()
            with Driven(goes_on) as other:
                assert await_active(other) > before.generation_id
                with pytest.raises(CommitFailedError):
                    stalled.commit_offsets({TopicPartition("t", 0): OffsetAndMetadata(1)})
                assert not stalled.snapshot().holds
                assert stalled.ensure_active_group(TIMEOUT_S)
                told = stalled.named("on_join_prepare")[1]
                assert (told.generation, told.member_id) == (-1, member_id)
                assert stalled.member_id() == member_id
                assert stalled.snapshot().holds
                other.close(operation=GroupMembershipOperation.LEAVE_GROUP)
            stalled.close(operation=GroupMembershipOperation.LEAVE_GROUP)


def _assert_fenced_for_good(member: RecordingMember) -> None:
    assert member.generation_if_stable() is None
    assert not member.generation().has_member_id
    assert member.snapshot().state is MemberState.UNJOINED
    for call in (member.poll, member.ensure_active_group, member.poll):
        with pytest.raises(FencedInstanceIdError) as raised:
            call()
        assert raised.value.fatal


class TestFencing:
    def test_the_older_of_two_is_fenced_and_every_call_says_so(self, new_static: NewStatic) -> None:
        older = new_static("one")
        assert older.ensure_active_group(TIMEOUT_S)
        with Driven(new_static("one")) as newer:
            await_active(newer)
            # It learns by its next heartbeat, without a call of its own.
            eventually(lambda: older.generation_if_stable() is None)
            eventually(lambda: older.snapshot().state is MemberState.UNJOINED)
            _assert_fenced_for_good(older)
            older.close(operation=GroupMembershipOperation.LEAVE_GROUP)
            # Closing the fenced one takes nothing from the one that is served.
            beats = newer.member.metrics()["heartbeat-total"]
            eventually(lambda: newer.member.metrics()["heartbeat-total"] >= beats + 3)
            assert newer.member.generation_if_stable() is not None
            assert not newer.errors
            newer.close(operation=GroupMembershipOperation.LEAVE_GROUP)

    def test_a_process_learns_that_another_took_its_instance_id(
        self, kafka: LocalKafka, new_static: NewStatic, group_id: str, tmp_path: Path
    ) -> None:
        with WorkerProcess(
            tmp_path / "ledger",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group_id,
            group_instance_id="one",
        ) as worker:
            eventually(worker.acts, worker.ledger)
            newer = new_static("one")
            assert newer.ensure_active_group(TIMEOUT_S)
            eventually(lambda: any(each.kind == "error" for each in worker.ledger()))
            first = next(i for i, each in enumerate(worker.ledger()) if each.kind == "error")
            eventually(lambda: len(worker.ledger()) > first + 10)
            after = worker.ledger()[first:]
            assert {each.kind for each in after} == {"error", "idle"}
            errors = [each.text for each in after if each.kind == "error"]
            assert len(errors) > 1
            assert all(text.startswith("FencedInstanceIdError") for text in errors)
            assert worker.terminate() == 0
            assert newer.poll()
            newer.close(operation=GroupMembershipOperation.LEAVE_GROUP)

    def test_fenced_while_its_join_is_parked(self, new_static: NewStatic) -> None:
        # The third member holds the rebalance up: it does not rejoin until the test lets it.
        with Driven(new_static("slow"), poll_s=0.05) as slow:
            await_stable(slow)
            with Gate() as gate:
                slow.member.hooks["on_join_prepare"] = gate.wait
                with Driven(new_static("one")) as older:
                    eventually(
                        lambda: older.member.snapshot().state is MemberState.PREPARING_REBALANCE
                    )
                    with Driven(new_static("one")) as newer:
                        eventually(lambda: older.errors)
                        assert isinstance(older.errors[0], FencedInstanceIdError)
                        assert older.member.generation_if_stable() is None
                        slow.member.hooks.clear()
                        gate.open()
                        await_stable(slow, newer)
                        newer.close(operation=GroupMembershipOperation.LEAVE_GROUP)
            slow.close(operation=GroupMembershipOperation.LEAVE_GROUP)
