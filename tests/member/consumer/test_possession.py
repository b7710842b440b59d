"""Hold the law of possession in the consumer protocol: what has lapsed is told as lost, or confirmed, before it counts."""

from groupsdk.error_code import ErrorCode
from groupsdk.errors import CoordinatorNotAvailableError
from groupsdk.member.actions import PrepareJoin
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.member.events import CallerRequest
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.member.consumer.driving import Member, beaten, in_group, owned, refused


def commit(member: Member, number: int) -> object:
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=2, member_id=member.member_id
    )
    member.handle(CallerRequest(number, request))
    return member.told.get(number)


def test_lapsed_consumer_commits_nothing_until_the_revocation_is_acknowledged() -> None:
    """The coordinator may have removed a member that did not revoke in time, and heartbeats cannot tell when."""
    member = Member(max_poll_interval_ms=8_000, rebalance_timeout_ms=8_000)
    member.join(2, t=(0, 1))
    member.hear(beaten(2, t=(0,)))
    until_ms = member.view.valid_until_ms or 0
    while member.now_ms < until_ms:
        member.poll()
        member.advance(1_000)
        if member.outstanding:
            member.answer(beaten(2))
    assert not member.view.holds_at(member.now_ms)
    assert isinstance(commit(member, 1), CoordinatorNotAvailableError)
    member.take_up()
    assert not member.view.holds_at(member.now_ms)
    member.answer(beaten(3))
    assert member.view.holds_at(member.now_ms)
    assert commit(member, 2) is None


def test_a_list_of_what_is_owned_ends_the_wait_for_what_was_never_handed_over() -> None:
    """The coordinator takes it as the acknowledgement: it expels nobody, and the possession must not lapse."""
    member = in_group(topics=("t", "u"), max_poll_interval_ms=8_000, rebalance_timeout_ms=8_000)
    member.hear(beaten(3, t=(0,), u=(0,)))  # of which no broker tells the name
    member.poll()
    member.hear(beaten(3, t=(0,)))
    assert member.state() is ConsumerMemberState.RECONCILING
    member.disconnect()
    member.found()
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
    until_ms = member.now_ms + 60_000
    while member.now_ms < until_ms:
        if member.outstanding:
            member.answer(beaten(4))
        member.poll()
        member.advance(1_000)
        assert member.view.holds_at(member.now_ms)
    member.take_up()
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
    assert member.state() is ConsumerMemberState.STABLE


def test_a_member_that_was_removed_meanwhile_tells_the_loss_before_it_joins(member: Member) -> None:
    member.beat()
    member.now_ms = member.view.valid_until_ms or 0
    joins = len(member.heartbeats)
    member.answer(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    assert member.call(PrepareJoin).run_callback
    assert len(member.heartbeats) == joins
    member.prepare()
    assert (member.lost, member.heartbeats[-1].member_epoch) == (2, 0)
    assert not member.view.holds_at(member.now_ms), "until an assignment is delivered"


def test_consumer_caller_back_before_the_late_poll_timer_has_left() -> None:
    """The process slept: its poll deadline was over by its own clock, and no poll revives it."""
    member = in_group(max_poll_interval_ms=5_000, rebalance_timeout_ms=5_000)
    member.now_ms = member.view.poll_until_ms
    member.poll()
    assert member.heartbeats[-1].member_epoch == -1
    assert member.state() is ConsumerMemberState.STALE
    assert member.call(PrepareJoin).run_callback
