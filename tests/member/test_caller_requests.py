"""Test what the caller asks of the coordinator beside the membership."""

from typing import Any

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    DisconnectedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    MemberClosedError,
    NetworkError,
    RebalanceInProgressError,
    UnsupportedVersionError,
)
from groupsdk.member.events import (
    CallerRequest,
    CloseRequested,
    JoinGivenUp,
    LeaveRequested,
    RejoinRequested,
    RequestRefused,
)
from groupsdk.member.membership import error_codes
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.member.state import MemberState
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.groups import LeaveGroupRequest
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataResponse
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.member.driving import MEMBER_ID, Driver


def commit(generation: int = 1, member_id: str = MEMBER_ID) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=generation, member_id=member_id
    )


def committed(*codes: int) -> OffsetCommitResponse:
    partitions = tuple(OffsetCommitResponsePartition(n, code) for n, code in enumerate(codes))
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic("t", partitions=partitions),))


def ask(driver: Driver, request: CoordinatorRequest, caller_request_id: int = 7) -> Any:
    """Ask, and return what it was told at once; None where it has to wait."""
    driver.handle(CallerRequest(caller_request_id, request))
    return driver.told.get(caller_request_id)


def test_an_answer_is_told_as_it_is(member: Driver) -> None:
    assert ask(member, MetadataRequest()) is None
    answer = MetadataResponse(cluster_id="c")
    member.answer(answer)
    assert member.told == {7: answer}
    assert member.active


def test_without_a_coordinator_there_is_nobody_to_ask(driver: Driver) -> None:
    driver.poll()
    assert isinstance(ask(driver, MetadataRequest()), CoordinatorNotAvailableError)


def test_behind_a_parked_join_nothing_is_asked(member: Driver) -> None:
    member.handle(RejoinRequested("test"))
    member.start_join()
    assert isinstance(ask(member, commit()), RebalanceInProgressError)


def test_a_join_is_given_up_for_what_a_member_asks_before_it_leaves(member: Driver) -> None:
    member.handle(RejoinRequested("test"))
    member.start_join()
    member.handle(JoinGivenUp())
    assert ask(member, commit()) is None
    member.answer(committed(0))
    assert member.told == {7: committed(0)}
    assert member.state() is MemberState.PREPARING_REBALANCE
    member.handle(LeaveRequested("enough"))
    assert member.pending(LeaveGroupRequest)


def test_the_leader_may_ask_before_it_assigns(driver: Driver) -> None:
    driver.lead()
    assert ask(driver, MetadataRequest()) is None
    driver.answer(MetadataResponse())
    assert 7 in driver.told
    assert driver.state() is MemberState.COMPLETING_REBALANCE


@pytest.mark.parametrize(
    "stale", [commit(generation=0), commit(member_id="other"), commit(generation=-1, member_id="")]
)
def test_a_commit_of_another_generation_is_not_even_sent(
    member: Driver, stale: OffsetCommitRequest
) -> None:
    assert isinstance(ask(member, stale), IllegalGenerationError)
    assert not member.sent(OffsetCommitRequest)


def test_a_member_without_a_generation_commits_nothing(driver: Driver) -> None:
    driver.poll()
    driver.found()
    assert isinstance(ask(driver, commit(-1, "")), IllegalGenerationError)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_for(member: Driver, code: ErrorCode) -> None:
    ask(member, commit())
    member.answer(committed(code))
    assert member.told == {7: committed(code)}
    assert member.looking
    assert member.view.generation.generation_id == 1


def test_a_commit_during_a_rebalance_makes_the_member_join(member: Driver) -> None:
    ask(member, commit())
    member.answer(committed(0, ErrorCode.REBALANCE_IN_PROGRESS))
    assert member.view.joining
    assert member.view.generation.generation_id == 1


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, MEMBER_ID)],
)
def test_a_member_hears_from_a_commit_that_it_is_out(
    member: Driver, code: ErrorCode, member_id: str
) -> None:
    ask(member, commit())
    member.answer(committed(code))
    assert member.state() is MemberState.UNJOINED
    assert member.view.generation.is_reset
    assert member.view.generation.member_id == member_id


def test_a_fenced_commit_fences_the_member_for_good(member: Driver) -> None:
    ask(member, commit())
    member.answer(committed(ErrorCode.FENCED_INSTANCE_ID))
    assert isinstance(member.failure(), FencedInstanceIdError)


def test_an_error_about_an_older_generation_changes_nothing(member: Driver) -> None:
    ask(member, commit())
    member.handle(RejoinRequested("test"))
    member.start_join()  # the commit is on its way still: answers come in order
    member.answer(committed(ErrorCode.ILLEGAL_GENERATION))
    # the join itself tells what is the case
    assert 7 in member.told


@pytest.mark.parametrize(
    "code",
    [
        *(
            ErrorCode.NONE,
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
        *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_other_errors_are_the_callers_alone(member: Driver, code: ErrorCode) -> None:
    ask(member, commit())
    member.answer(committed(code))
    assert member.told == {7: committed(code)}
    assert member.active
    assert member.failure() is None


def test_a_broken_connection_is_told(member: Driver) -> None:
    ask(member, commit())
    error = DisconnectedError("broken")
    member.disconnect(error)
    assert member.told == {7: error}


def test_no_answer_loses_the_coordinator(member: Driver) -> None:
    ask(member, commit())
    member.advance(member.config.request_timeout_ms)
    assert isinstance(member.told[7], NetworkError)
    assert member.looking


def test_a_request_that_the_broker_is_too_old_for(member: Driver) -> None:
    ask(member, commit())
    error = UnsupportedVersionError("too old")
    member.handle(RequestRefused(member.outstanding[-1].request_id, error))
    assert member.told == {7: error}
    assert member.failure() is None


def test_a_connection_that_is_given_up_is_told_too(member: Driver) -> None:
    ask(member, MetadataRequest())
    member.handle(RejoinRequested("test"))
    member.start_join()
    member.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 1_000, "test"))
    assert isinstance(member.told[7], DisconnectedError)
    assert isinstance(ask(member, MetadataRequest(), 8), MemberClosedError)


def test_the_codes_of_a_group_in_all_shapes() -> None:
    assert list(error_codes(committed(0, 3, 0, 27))) == [3, 27]
    assert list(error_codes(OffsetFetchResponse(error_code=16))) == [16]
    groups = (OffsetFetchResponseGroup(error_code=30), OffsetFetchResponseGroup())
    assert list(error_codes(OffsetFetchResponse(groups=groups))) == [30]
    assert list(error_codes(MetadataResponse(error_code=1))) == []


def test_offsets_may_be_asked_for_without_a_generation(driver: Driver) -> None:
    driver.poll()
    driver.found()
    assert ask(driver, OffsetFetchRequest()) is None
    driver.answer(OffsetFetchResponse(error_code=ErrorCode.NOT_COORDINATOR))
    assert driver.looking
