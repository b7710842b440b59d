"""User code that raises, hangs, is slow, is interrupted or closes its member, on a real broker."""

from collections.abc import Callable

import pytest

from groupsdk.clock import Deadline, SystemClock
from groupsdk.errors import ConcurrentUseError, MemberClosedError
from groupsdk.testing import LocalKafka
from tests.support.groups import describe_group
from tests.support.workers import (
    TIMEOUT_S,
    Driven,
    Gate,
    RecordingMember,
    Witness,
    await_active,
    await_stable,
    eventually,
)


CALLBACKS = ["on_join_prepare", "metadata", "perform_assignment", "on_join_complete"]

NewMember = Callable[..., RecordingMember]


class _BoomError(Exception):
    """What the user's code raises."""


def _once(error: BaseException) -> Callable[[], None]:
    """Return a hook that raises the first time only."""
    left = [error]

    def hook() -> None:
        if left:
            raise left.pop()

    return hook


class TestRaises:
    @pytest.mark.parametrize(
        "error", [_BoomError("boom"), KeyboardInterrupt(), SystemExit(3)], ids=repr
    )
    @pytest.mark.parametrize("callback", CALLBACKS)
    def test_the_caller_gets_it_as_it_is_and_the_next_call_goes_on(
        self, new_member: NewMember, callback: str, error: BaseException
    ) -> None:
        member = new_member()
        member.hooks[callback] = _once(error)
        with pytest.raises(type(error)) as raised:
            member.ensure_active_group(TIMEOUT_S)
        assert raised.value is error
        assert member.ensure_active_group(TIMEOUT_S)
        # Once per rebalance, not per attempt; and what could not be taken up comes again, the same bytes.
        assert len(member.named("on_join_prepare")) == 1
        completed = member.named("on_join_complete")
        assert len(completed) == (2 if callback == "on_join_complete" else 1)
        assert len({(each.generation, each.assignment) for each in completed}) == 1

    def test_on_join_complete_is_called_until_it_returns(self, new_member: NewMember) -> None:
        member = new_member()

        def boom() -> None:
            if len(member.named("on_join_complete")) < 4:
                raise _BoomError

        member.hooks["on_join_complete"] = boom
        for _ in range(3):
            with pytest.raises(_BoomError):
                member.ensure_active_group(TIMEOUT_S)
            assert member.snapshot().rejoin_pending
        assert member.ensure_active_group(TIMEOUT_S)
        assert len({each.assignment for each in member.named("on_join_complete")}) == 1
        assert member.snapshot().assignment_epoch == 1

    def test_an_assignment_that_was_never_taken_up_gives_way_to_a_newer_one(
        self, new_member: NewMember
    ) -> None:
        # The group waits for a member that cannot take up its assignment, as it does in Kafka's client.
        raises = Driven(new_member(rebalance_timeout_ms=1_000), poll_s=0.05)
        raises.member.hooks["on_join_complete"] = _raise_while_alone(raises.member)
        with raises:
            eventually(lambda: raises.errors)
            with Driven(new_member(rebalance_timeout_ms=1_000)) as other:
                await_stable(raises, other)
                generations = [each.generation for each in raises.member.named("on_join_complete")]
                assert generations == sorted(generations)
                assert len(set(generations)) > 1
                assert all(isinstance(error, _BoomError) for error in raises.errors)

    def test_on_leave_prepare_that_raises_still_closes(
        self, kafka: LocalKafka, new_member: NewMember, group_id: str
    ) -> None:
        member = new_member()
        assert member.ensure_active_group(TIMEOUT_S)
        member.hooks["on_leave_prepare"] = _once(_BoomError())
        with pytest.raises(_BoomError):
            member.close()
        with pytest.raises(MemberClosedError):
            member.poll()
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"


def _raise_while_alone(member: RecordingMember) -> Callable[[], None]:
    def hook() -> None:
        if member.assignment["size"] == 1:
            raise _BoomError

    return hook


class TestCloses:
    @pytest.mark.parametrize("callback", [*CALLBACKS, "on_leave_prepare"])
    def test_from_within_a_callback(
        self, kafka: LocalKafka, new_member: NewMember, group_id: str, callback: str
    ) -> None:
        member = new_member()
        if callback == "on_leave_prepare":
            assert member.ensure_active_group(TIMEOUT_S)
            member.hooks[callback] = member.close
            member.close()
        else:
            member.hooks[callback] = member.close
            assert not member.ensure_active_group(TIMEOUT_S)
        assert member.generation_if_stable() is None
        assert len(member.named("on_leave_prepare")) == 1
        with pytest.raises(MemberClosedError):
            member.poll()
        # Kafka forgets a member id that was given and not yet joined with after its session.
        assert not describe_group(kafka.bootstrap_servers, group_id).member_ids

    @pytest.mark.parametrize("call", ["poll", "ensure_active_group"])
    def test_but_a_callback_may_not_drive_its_member(
        self, new_member: NewMember, call: str
    ) -> None:
        member = new_member()
        member.hooks["on_join_complete"] = getattr(member, call)
        with pytest.raises(ConcurrentUseError):
            member.ensure_active_group(TIMEOUT_S)


class TestSlow:
    @pytest.mark.parametrize("callback", CALLBACKS)
    def test_longer_than_the_session_timeout_keeps_the_membership(
        self, new_member: NewMember, callback: str
    ) -> None:
        session_ms = 6_000  # longer than a machine may stall
        slow = Driven(new_member(session_timeout_ms=session_ms))
        with slow, Driven(new_member()) as other:
            await_stable(slow, other)
            member_id = slow.member.member_id()
            if not slow.member.snapshot().is_leader and callback == "perform_assignment":
                other.close()
                before = await_stable(slow)
            else:
                before = slow.member.generation().generation_id
            with Gate() as gate:
                slow.member.hooks[callback] = gate.wait
                # A follower that joins with what it joined with before would cause no rebalance.
                slow.member.protocols = [("v0", b"changed")]
                slow.member.request_rejoin("to be slow in it")
                assert gate.reached.wait(TIMEOUT_S)
                # The heartbeat goes on for longer than the session.
                beats = slow.member.metrics()["heartbeat-total"]
                until = Deadline(SystemClock(), session_ms + 1_000)
                eventually(
                    lambda: until.expired and slow.member.metrics()["heartbeat-total"] >= beats + 15
                )
            eventually(lambda: slow.member.generation().generation_id > before)
            await_active(slow)
            assert slow.member.member_id() == member_id
            prepared = slow.member.named("on_join_prepare")[1:]
            assert all(each.generation >= 1 for each in prepared)
            assert not slow.errors

    @pytest.mark.parametrize(
        "limits",
        [
            # It is the member that leaves: the group would wait for it for longer than the test does.
            {"max_poll_interval_ms": 1_000, "rebalance_timeout_ms": 60_000},
            # It is the group that goes on without it.
            {"max_poll_interval_ms": 60_000, "rebalance_timeout_ms": 1_000},
        ],
        ids=["poll-interval", "rebalance-timeout"],
    )
    @pytest.mark.parametrize("callback", CALLBACKS)
    def test_longer_than_a_limit_loses_it_and_the_others_go_on(
        self, new_member: NewMember, callback: str, limits: dict[str, int]
    ) -> None:
        stuck = Driven(new_member(**limits))
        with stuck, Gate() as gate:
            await_stable(stuck)
            first_id = stuck.member.member_id()
            stuck.member.hooks[callback] = gate.wait
            if callback != "on_join_prepare":
                # Alone, or this rejoin and the other's join might be one rebalance, and no other follow.
                stuck.member.request_rejoin("to get stuck in it")
                assert gate.reached.wait(TIMEOUT_S)
            with (
                Driven(new_member(**limits)) as other,
                Witness(stuck.member, other.member) as witness,
            ):
                assert gate.reached.wait(TIMEOUT_S)
                # The other one works alone.
                await_stable(other)
                assert stuck.member.generation_if_stable() is None
                eventually(lambda: stuck.member.generation().is_reset)
                alone = other.member.generation().generation_id
                callbacks_before = len(stuck.member.callbacks)
                stuck.member.hooks.clear()
                gate.open()
                assert await_stable(stuck, other) > alone
                after = stuck.member.callbacks[callbacks_before:]
                # What the callback answered is of no use any more; that all is lost is said first.
                assert (after[0].name, after[0].generation) == ("on_join_prepare", -1)
                assert stuck.member.member_id() != first_id
                assert not stuck.errors
                assert not other.errors
            witness.check()

    def test_a_caller_that_does_not_poll_loses_it_too(
        self, kafka: LocalKafka, new_member: NewMember, group_id: str
    ) -> None:
        away = new_member(max_poll_interval_ms=1_000, session_timeout_ms=60_000)
        assert away.ensure_active_group(TIMEOUT_S)
        # Nobody polls; the member leaves, which its reader sees and its group, too.
        eventually(lambda: away.generation_if_stable() is None)
        eventually(lambda: describe_group(kafka.bootstrap_servers, group_id).state == "Empty")
        assert away.ensure_active_group(TIMEOUT_S)
        assert [each.generation for each in away.named("on_join_prepare")] == [-1, -1]
