"""The behaviours of Kafka's `CommitRequestManager` that are the machine's."""

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    MemberClosedError,
    UnsupportedVersionError,
)
from groupsdk.member.events import CallerRequest, CloseRequested, RequestRefused
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.member.consumer.driving import Member, beaten, in_group, refused
from tests.support.cases import each_case


def commit(member: Member, epoch: int, member_id: str | None = None) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member.member_id if member_id is None else member_id,
    )


def answered(code: ErrorCode) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(error_code=code)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic("t", partitions=(partition,)),))


def test_a_commit_carries_the_epoch_of_the_moment_of_sending(member: Member) -> None:
    """As `testOffsetCommit...WithStaleMemberEpoch...UsesLatestMemberEpoch`."""
    member.hear(beaten(5))
    member.handle(CallerRequest(1, commit(member, 2)))
    assert member.sent(OffsetCommitRequest)[-1].generation_id_or_member_epoch == 5


@each_case("epoch", (-1, 0, 1, 7))
def test_a_commit_of_no_epoch_of_this_membership_is_not_sent(epoch: int) -> None:
    member = in_group()
    member.handle(CallerRequest(1, commit(member, epoch)))
    assert isinstance(member.told[1], IllegalGenerationError)
    assert member.sent(OffsetCommitRequest) == []


def test_a_commit_from_before_a_loss_is_not_sent_after_it(member: Member) -> None:
    old = commit(member, 2)
    member.hear(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    member.handle(CallerRequest(1, old))
    member.prepare()
    member.assigned(3, t=(0,))
    member.handle(CallerRequest(2, old))
    assert isinstance(member.told[1], IllegalGenerationError)
    assert isinstance(member.told[2], IllegalGenerationError)
    assert member.sent(OffsetCommitRequest) == []


def test_a_commit_of_another_member_is_not_sent(member: Member) -> None:
    member.handle(CallerRequest(1, commit(member, 2, "other")))
    assert isinstance(member.told[1], IllegalGenerationError)


@each_case(
    "code",
    (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND),
)
def test_a_refused_commit_is_told_and_a_heartbeat_asks_what_became_of_the_member(
    code: ErrorCode,
) -> None:
    member = in_group()
    beats = len(member.heartbeats)
    member.handle(CallerRequest(1, commit(member, 2)))
    member.answer(answered(code))
    assert isinstance(member.told[1], OffsetCommitResponse)
    assert len(member.heartbeats) == beats + 1
    assert member.epoch == 2


@each_case("code", (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
def test_a_commit_that_finds_another_coordinator_has_it_looked_up(code: ErrorCode) -> None:
    member = in_group()
    member.handle(CallerRequest(1, commit(member, 2)))
    member.answer(answered(code))
    assert member.looking


def test_a_fetch_of_offsets_carries_member_id_and_epoch() -> None:
    """As `testOffsetFetchRequest...`: a member that is not one any more is told so."""
    member = Member()
    member.join(4, t=(0,))
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g"),))
    member.handle(CallerRequest(1, request))
    fetch = member.outstanding[-1].request
    assert isinstance(fetch, OffsetFetchRequest)
    (group,) = fetch.groups
    assert (group.member_id, group.member_epoch) == (member.member_id, 4)


def test_before_it_joins_a_member_fetches_as_nobody() -> None:
    member = Member()
    member.poll()
    member.found()
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g"),))
    member.handle(CallerRequest(1, request))
    assert member.outstanding[-1].request == request


def test_without_a_coordinator_and_after_the_close_requests_are_refused() -> None:
    member = Member()
    member.handle(CallerRequest(1, MetadataRequest()))
    assert isinstance(member.told[1], CoordinatorNotAvailableError)
    member.join(2, t=(0,))
    member.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 500, "done"))
    member.handle(CallerRequest(2, MetadataRequest()))
    assert isinstance(member.told[2], MemberClosedError)


def test_request_that_the_broker_cannot_serve_fails_its_caller(member: Member) -> None:
    member.handle(CallerRequest(1, commit(member, 2)))
    error = UnsupportedVersionError("too old")
    member.handle(RequestRefused(member.outstanding[-1].request_id, error))
    assert member.told[1] is error
