"""Hold the law of possession: what has lapsed counts as held by nobody, and is told as lost before a join."""

from collections.abc import Callable

import pytest

from groupsdk.error_code import ErrorCode as E
from groupsdk.errors import CoordinatorNotAvailableError
from groupsdk.member.actions import PrepareJoin
from groupsdk.member.events import CallerRequest, JoinPrepared, RejoinRequested
from groupsdk.member.possession import Possession
from groupsdk.types import Generation, ProtocolMetadata
from groupsdk.wire.messages.groups import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.member.driving import (
    MEMBER_ID,
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    Driver,
    beaten,
    joined,
    synced,
)


LOST = Generation(-1, MEMBER_ID, None)
KEPT = Generation(1, MEMBER_ID, PROTOCOL_NAME)


@pytest.fixture
def member() -> Driver:
    """A static member of generation 1, which the others may replace in 5 s if it does not join again."""
    driver = Driver(group_instance_id="i", rebalance_timeout_ms=5_000, max_poll_interval_ms=60_000)
    driver.join()
    return driver


def told_to_rejoin(member: Driver) -> None:
    """Let the caller be away while the member hears of a rebalance, and until the others have done without it."""
    member.advance(50)
    member.answer(beaten(E.REBALANCE_IN_PROGRESS))
    assert member.call(PrepareJoin) == PrepareJoin(3, KEPT, run_callback=True)


def until_ms(member: Driver) -> int:
    held_ms = member.view.valid_until_ms
    assert held_ms is not None
    return held_ms


# The law.


def test_possession_lasts_for_the_shorter_of_both_timeouts_from_sending() -> None:
    possession = Possession(10_000, 60_000)
    assert possession.until_ms is None
    assert not possession.lapsed(10**9), "nothing is held"
    possession.accepted(1_000)
    assert (possession.lapsed(10_999), possession.lapsed(11_000)) == (False, True)
    for sent_ms in range(2_000, 60_000, 2_000):
        possession.accepted(sent_ms, rebalancing=True)
    assert possession.until_ms == 61_000


def test_an_accepted_heartbeat_ends_a_lapse() -> None:
    """Had the coordinator gone on without the member, it would have refused the generation."""
    possession = Possession(10_000, 60_000)
    possession.accepted(0)
    assert possession.lapsed(20_000)
    possession.accepted(19_000)
    assert not possession.lapsed(20_000)


@pytest.mark.parametrize(
    ("now_ms", "generation", "led", "kept"),
    [
        (9_999, 4, True, True),
        (9_999, 9, False, True),  # the coordinator counts epochs as it likes
        (10_000, 4, True, True),
        (10_000, 5, True, False),
        (10_000, 4, False, False),
    ],
)
def test_a_join_that_lapsed_meanwhile_keeps_possession_in_the_next_generation_alone(
    now_ms: int, generation: int, led: bool, kept: bool
) -> None:
    possession = Possession(10_000, 60_000)
    possession.accepted(0)
    assert possession.outlasts_join(now_ms, 3, generation, led=led) is kept


# A member.


def test_a_caller_that_comes_back_after_the_lapse_hears_of_a_loss_before_the_join(
    member: Driver,
) -> None:
    told_to_rejoin(member)
    member.advance(until_ms(member) - member.now_ms)
    call = member.call(PrepareJoin)
    assert (call.generation, call.run_callback) == (LOST, True)
    assert member.view.valid_until_ms is None, "it holds nothing"
    member.prepare()
    assert member.sent(JoinGroupRequest)[-1].member_id == MEMBER_ID, "it is still the member"
    member.answer(joined(3))
    member.answer(synced())
    assert member.view.believes_at(member.now_ms)


@pytest.mark.parametrize("timer_is_late", [False, True])
def test_a_caller_that_kept_partitions_over_the_lapse_does_not_join_with_them(
    member: Driver, timer_is_late: bool
) -> None:
    """`on_join_prepare` took too long; the others may have its partitions though no heartbeat has said so."""
    told_to_rejoin(member)
    call, joins = member.call(PrepareJoin), len(member.sent(JoinGroupRequest))
    if timer_is_late:
        member.now_ms = until_ms(member)
    else:
        member.advance(until_ms(member) - member.now_ms)
    offer = (ProtocolMetadata(PROTOCOL_NAME, b"owns t-0"),)
    member.handle(JoinPrepared(call.call_id, PROTOCOL_TYPE, offer))
    assert len(member.sent(JoinGroupRequest)) == joins
    assert member.call(PrepareJoin).generation == LOST


@pytest.mark.parametrize(
    ("generation", "member_id", "joins_again"),
    [(1, MEMBER_ID, True), (2, MEMBER_ID, False), (2, "i-2", True)],
)
def test_rebalance_that_was_due_before_the_loss_is_due_still(
    member: Driver, generation: int, member_id: str, joins_again: bool
) -> None:
    """A static member gets its place back without a rebalance, and what it gave up before would stay with nobody.

    So it does in a later generation, which was formed without it, unless it has kept its id.
    """
    member.handle(RejoinRequested("partitions were given up"))
    member.prepare()
    member.disconnect()
    member.advance(6_000)
    member.found()
    member.prepare()
    member.answer(joined(generation, member_id))
    member.complete()
    assert member.view.joining == joins_again
    if joins_again:
        member.prepare()
        member.answer(joined(generation, member_id))
        member.complete()
        assert not member.view.joining, "once"


def test_a_rejoin_after_the_lapse_begins_with_the_loss(member: Driver) -> None:
    member.handle(RejoinRequested("other topics"))
    member.prepare()
    member.disconnect()  # with the join
    member.advance(6_000)
    member.found()
    assert member.call(PrepareJoin).generation == LOST


@pytest.mark.parametrize(("generation", "is_lost"), [(2, False), (3, True)])
def test_a_join_held_back_beyond_the_session_is_a_loss_if_a_generation_was_missed(
    member: Driver, generation: int, is_lost: bool
) -> None:
    told_to_rejoin(member)
    member.prepare()
    member.now_ms = until_ms(member) + 3_000
    member.answer(joined(generation))
    if is_lost:
        assert member.call(PrepareJoin).generation == LOST
    else:
        member.answer(synced())
        assert member.view.believes_at(member.now_ms)


def test_lapsed_member_commits_nothing_until_the_coordinator_knows_it(member: Driver) -> None:
    def commit(number: int) -> object:
        request = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=1, member_id=MEMBER_ID
        )
        member.handle(CallerRequest(number, request))
        return member.told.get(number)

    member.advance(50)
    assert member.pending(HeartbeatRequest)
    member.now_ms = until_ms(member)
    assert isinstance(commit(1), CoordinatorNotAvailableError)
    member.answer(beaten())
    assert isinstance(commit(2), CoordinatorNotAvailableError)
    member.answer(synced())
    assert commit(3) is None
    assert len(member.sent(OffsetCommitRequest)) == 1


@pytest.fixture
def doubtful() -> Driver:
    """A dynamic member whose possession has lapsed, and whose next heartbeat was accepted."""
    driver = Driver()
    driver.join()
    driver.disconnect()
    driver.advance(10_000)
    driver.found()
    driver.answer(beaten())
    assert not driver.active
    return driver


def test_heartbeat_of_a_loading_coordinator_ends_no_lapse(doubtful: Driver) -> None:
    """Kafka answers it without an error before it has read the group, which may have gone on without the member."""
    asked = doubtful.sent(SyncGroupRequest)[-1]
    assert (asked.generation_id, asked.member_id, asked.assignments) == (1, MEMBER_ID, ())
    for _ in range(3):
        doubtful.answer(synced(error=E.COORDINATOR_LOAD_IN_PROGRESS))
        doubtful.advance(1_000)
        doubtful.answer(beaten())
        assert not doubtful.active
    doubtful.answer(synced(error=E.UNKNOWN_MEMBER_ID))
    assert doubtful.call(PrepareJoin).generation.generation_id == -1


def test_lapse_ends_where_the_coordinator_knows_the_member(doubtful: Driver) -> None:
    sent_ms = doubtful.now_ms
    doubtful.advance(2_000)
    doubtful.answer(synced())
    assert doubtful.active
    assert until_ms(doubtful) == sent_ms + 10_000, "a SyncGroup renews no session"
    doubtful.advance(1_000)
    assert doubtful.pending(HeartbeatRequest)
    assert len(doubtful.sent(JoinGroupRequest)) == 1


def test_lapsed_member_joins_when_it_hears_of_a_rebalance(doubtful: Driver) -> None:
    """Kafka before 4.0 says so while it loads the group as well."""
    doubtful.answer(synced(error=E.REBALANCE_IN_PROGRESS))
    assert doubtful.call(PrepareJoin).generation.generation_id == -1


def test_question_is_forgotten_with_the_coordinator_it_was_put_to(doubtful: Driver) -> None:
    doubtful.disconnect()
    doubtful.found()
    assert doubtful.pending(HeartbeatRequest)
    assert not doubtful.pending(SyncGroupRequest)


def test_leader_that_lapses_before_it_has_synced_asks_nothing(driver: Driver) -> None:
    """Its SyncGroup would hand out a plan without any assignment."""
    driver.lead()
    driver.disconnect()
    driver.advance(10_000)
    driver.found()
    driver.answer(beaten())
    assert driver.sent(SyncGroupRequest) == []


def _poll(member: Driver) -> None:
    member.poll()


def _prepared(member: Driver) -> None:
    member.handle(JoinPrepared(99, PROTOCOL_TYPE, ()))


@pytest.mark.parametrize("comes_back", [_poll, _prepared])
def test_caller_back_before_the_late_poll_timer_has_left(
    comes_back: Callable[[Driver], None],
) -> None:
    """The process slept: its poll deadline was over by its own clock, and no poll revives it."""
    member = Driver(max_poll_interval_ms=5_000)
    member.join()
    member.now_ms = member.view.poll_until_ms
    comes_back(member)
    assert member.view.generation.is_reset
    assert member.call(PrepareJoin).run_callback
