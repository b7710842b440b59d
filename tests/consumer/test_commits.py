"""Test that offsets are stored under the right generation, and what is said when they are not."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition as NativePartition

from groupsdk.assignment import Assignment
from groupsdk.assignment.subscriptions import encode_assignments
from groupsdk.clock import ManualClock, SystemClock
from groupsdk.consumer.commits import Committer
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    CommitFailedError,
    CoordinatorNotAvailableError,
    DisconnectedError,
    FencedInstanceIdError,
    GroupSdkError,
    RebalanceInProgressError,
    RetriableBrokerError,
)
from groupsdk.member.events import RejoinRequested
from groupsdk.member.state import MemberState
from groupsdk.offsets import check_commit
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import NO_GENERATION, Generation, OffsetAndMetadata
from groupsdk.wire.messages.groups import JoinGroupRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.consumer.rig import MEMBER_ID, Bench, partitions


T0, T1 = partitions("t-0", "t-1")
OFFSETS = {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(6)}


@pytest.fixture
def bench() -> Bench:
    return Bench(enable_auto_commit=False).joined()


def commit(bench: Bench, timeout_ms: int = 1_000) -> None:
    bench.session.committer.commit(OFFSETS, timeout_ms)


def later(bench: Bench) -> list[GroupSdkError | None]:
    """Commit in the background; returns the list that the outcome will be in."""
    told: list[GroupSdkError | None] = []
    bench.session.committer.commit_async(OFFSETS, lambda error, _: told.append(error))
    return told


def test_a_commit_carries_generation_and_member(bench: Bench) -> None:
    commit(bench)
    (request,) = bench.group.commits
    assert request.generation_id_or_member_epoch == 1
    assert request.member_id == "consumer-1"
    assert bench.group.committed() == [{"t-0": 5, "t-1": 6}]
    bench.session.committer.commit({}, 0)
    assert len(bench.group.commits) == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_commit_is_retried_after_a_passing_error(bench: Bench, code: ErrorCode) -> None:
    bench.group.codes[OffsetCommitRequest].extend([code, code])
    commit(bench)
    assert len(bench.group.commits) == 3


def test_a_coordinator_that_moved_is_found_and_asked_again(bench: Bench) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.NOT_COORDINATOR)
    commit(bench)
    assert len(bench.group.commits) == 2


def test_a_broken_connection_is_repeated_until_time_is_over(bench: Bench) -> None:
    bench.group.scripts[OffsetCommitRequest].append(DisconnectedError("gone"))
    commit(bench)
    assert len(bench.group.commits) == 1
    bench.group.scripts[OffsetCommitRequest].extend([DisconnectedError("gone")] * 100)
    with pytest.raises(GroupSdkError) as caught:
        commit(bench)
    assert caught.value.retriable


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceIdError),
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgressError),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, BrokerError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_commit_raises_a_lasting_error(
    bench: Bench, code: ErrorCode, error: type[GroupSdkError]
) -> None:
    bench.group.codes[OffsetCommitRequest].append(code)
    with pytest.raises(error):
        commit(bench)
    assert len(bench.group.commits) == 1


def test_a_commit_that_is_refused_makes_the_member_join_again(bench: Bench) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.ILLEGAL_GENERATION)
    with pytest.raises(CommitFailedError, match="rebalanced without this member"):
        commit(bench)
    bench.read(timeout=0.3)
    assert bench.consumer.generation().generation_id == 2


def test_during_a_rebalance_nothing_is_sent() -> None:
    bench = Bench(
        enable_auto_commit=False, partition_assignment_strategy="cooperative-sticky"
    ).joined()
    bench.group.scripts[JoinGroupRequest].append(None)
    bench.group.post(RejoinRequested("test"))
    bench.session.member._groupsdk_handle._side.posted()  # as the event was handed over by hand
    bench.read(timeout=0)
    for attempt in (commit, later):
        with pytest.raises(RebalanceInProgressError, match="poll first"):
            attempt(bench)
    assert not bench.group.commits


def test_in_the_background_a_callback_tells_how_it_ended(bench: Bench) -> None:
    told = later(bench)
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    refused = later(bench)
    assert (told, refused) == ([], [])
    assert bench.session.committer.busy
    bench.session.committer.settle()
    assert told == [None]
    assert isinstance(refused[0], BrokerError)
    assert not bench.session.committer.busy


def test_in_the_background_what_passes_is_repeated_unless_it_is_out_of_date(bench: Bench) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told = later(bench)
    bench.session.committer.settle()
    assert told == []
    bench.advance(200)
    bench.session.committer.settle()
    assert told == [None]
    assert len(bench.group.commits) == 2
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    first, second = later(bench), later(bench)
    bench.session.committer.settle()
    assert isinstance(first[0], GroupSdkError)
    assert second == [None]


@pytest.mark.parametrize("step", ["before it is seen to fail", "while it waits", "once it is due"])
def test_a_commit_that_failed_is_not_made_again_after_a_newer_one(bench: Bench, step: str) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told = later(bench)
    if step != "before it is seen to fail":
        bench.session.committer.settle()
        assert told == []
    if step == "once it is due":
        bench.advance(5_000)
    bench.session.committer.commit({T0: OffsetAndMetadata(90)}, 1_000)
    for _ in range(3):
        bench.session.committer.settle()
        bench.advance(5_000)
    assert isinstance(told[0], CoordinatorNotAvailableError)
    assert bench.group.offsets == {T0: 90}
    assert not bench.session.committer.busy


def test_a_commit_that_failed_is_not_made_again_under_another_assignment_of_its_generation() -> (
    None
):
    bench = Bench(enable_auto_commit=False, partition_assignment_strategy="cooperative-sticky")
    bench.group.answers.broker_assigns = True
    share = {MEMBER_ID: Assignment({"t": (0, 1)})}
    bench.group.answers.given = encode_assignments(share)
    bench.consumer.subscribe("t")
    bench.read(timeout=0.3)
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told = later(bench)
    bench.session.committer.settle()
    bench.group.answers.given = encode_assignments({MEMBER_ID: Assignment({"t": (1,)})})
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=5)
    assert bench.consumer.assignment() == [T1]
    assert bench.consumer.generation().generation_id == 1
    assert isinstance(told[0], CoordinatorNotAvailableError)
    assert len(bench.group.commits) == 1, "the partition may have another owner, who has committed"


def test_an_older_commit_that_is_heard_of_later_is_not_taken_for_the_last(bench: Bench) -> None:
    bench.session.commit_async({T0: OffsetAndMetadata(10)})
    newer = {T0: OffsetAndMetadata(90)}
    bench.session.committer.commit(newer, 1_000)
    bench.session.note_committed(newer)
    bench.session.committer.settle()
    bench.consumer.seek(NativePartition("t", 0, 10))
    assert bench.session.processed([T0]) == {T0: OffsetAndMetadata(10)}


def test_in_the_background_it_is_given_up_at_some_point(bench: Bench) -> None:
    bench.group.codes[OffsetCommitRequest].extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 50)
    told = later(bench)
    for _ in range(30):
        bench.session.committer.settle()
        bench.advance(2_000)
        bench.consumer.consume(1, 0)
    assert isinstance(told[0], GroupSdkError)
    assert len(bench.group.commits) == 11


def test_in_the_background_each_repetition_waits_for_longer(bench: Bench) -> None:
    bench.group.codes[OffsetCommitRequest].extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 4)
    later(bench)
    bench.session.committer.settle()
    waits = []
    for attempt in range(2, 5):
        waited_ms = 0
        while len(bench.group.commits) < attempt and waited_ms < 10_000:
            bench.advance(10)
            waited_ms += 10
            bench.session.committer.settle()
        waits.append(waited_ms)
    assert waits[0] < waits[1] < waits[2]


def test_in_the_background_a_stale_generation_is_a_failed_commit(bench: Bench) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.UNKNOWN_MEMBER_ID)
    told = later(bench)
    bench.session.committer.settle()
    assert isinstance(told[0], CommitFailedError)
    with pytest.raises(CommitFailedError):
        commit(bench)


def test_without_a_callback_a_failure_is_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    bench.session.committer.commit_async(OFFSETS)
    bench.session.committer.settle()
    assert "group=g member=consumer-1 generation=1: a commit of 2 offsets failed" in caplog.text


def test_the_gravest_error_is_the_one_that_is_raised() -> None:
    def answer(*codes: int) -> Any:
        found = tuple(OffsetCommitResponsePartition(n, code) for n, code in enumerate(codes))
        return OffsetCommitResponse(topics=(OffsetCommitResponseTopic("t", partitions=found),))

    check_commit(answer(0, 0), OFFSETS)
    with pytest.raises(RetriableBrokerError, match="OffsetCommit of t-0"):
        check_commit(answer(3, 0), OFFSETS)
    with pytest.raises(BrokerError, match="OffsetCommit of t-1: TOPIC_AUTHORIZATION_FAILED"):
        check_commit(answer(3, 29), OFFSETS)


@pytest.mark.parametrize("waited_ms", [0, 200])
def test_a_commit_that_was_to_be_repeated_has_failed_once_the_consumer_is_closed(
    bench: Bench, waited_ms: int
) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.value)
    told = later(bench)
    bench.session.committer.settle()
    assert told == []
    bench.advance(waited_ms)
    bench.consumer.close()
    (error,) = told
    (error,) = told
    assert isinstance(error, CoordinatorNotAvailableError)


class _Member:
    """A member in one state, and how often it was told to give a join up."""

    def __init__(self, **state: Any) -> None:
        self.shown = MemberSnapshot(
            **{
                "group_id": "g",
                "group_instance_id": None,
                "generation": Generation(1, MEMBER_ID, "range"),
                "state": MemberState.PREPARING_REBALANCE,
                "stable": False,
                "is_leader": False,
                "assignment_epoch": 1,
                "rejoin_pending": True,
                "coordinator": None,
                "trouble": None,
                **state,
            }
        )
        self.given_up = 0

    def snapshot(self) -> MemberSnapshot:
        return self.shown

    def give_up_join(self) -> None:
        self.given_up += 1


def _last_commit(bench: Bench, **state: Any) -> _Member:
    """Commit as a member that is about to leave."""
    member = _Member(**state)
    committer = Committer(bench.session.calls, member, SystemClock(), lambda: True)
    committer.commit(OFFSETS, 1_000)
    return member


def test_a_member_that_leaves_gives_its_join_up_for_what_it_still_holds(bench: Bench) -> None:
    assert _last_commit(bench, holds=True).given_up == 1
    (request,) = bench.group.commits
    assert (request.generation_id_or_member_epoch, request.member_id) == (1, MEMBER_ID)


def test_last_commit_of_a_member_without_the_partition_is_refused(bench: Bench) -> None:
    with pytest.raises(RebalanceInProgressError):
        _last_commit(bench, holds=False)
    assert not bench.group.commits


def test_a_member_that_joins_again_without_its_generation_has_lost_its_partitions(
    bench: Bench,
) -> None:
    """It was expelled: no poll brings back what it had, so "poll first" would be no help."""
    for holds in (False, True):
        with pytest.raises(CommitFailedError, match="rebalanced without this member"):
            _last_commit(bench, generation=NO_GENERATION, holds=holds)
    assert not bench.group.commits


def test_at_the_end_no_commit_is_repeated(bench: Bench) -> None:
    bench.group.codes[OffsetCommitRequest].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told = later(bench)
    bench.session.committer.settle(last=True)
    (error,) = told
    assert error is not None
    assert error.retriable, "it would have been repeated"
    assert not bench.session.committer.busy
    assert len(bench.group.commits) == 1


def test_a_commit_without_time_waits_for_no_assignment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member that leaves has sent SyncGroup; a commit in the background must not hold its caller up."""
    clock = ManualClock()
    pauses: list[int] = []

    def pause(delay_ms: int) -> None:
        pauses.append(delay_ms)
        clock.advance(delay_ms)

    monkeypatch.setattr(bench.session.calls, "pause", pause)
    member = _Member(state=MemberState.COMPLETING_REBALANCE, holds=True)
    committer = Committer(bench.session.calls, member, clock, lambda: True)
    committer.commit_async(OFFSETS)
    assert (member.given_up, pauses) == (1, [])
