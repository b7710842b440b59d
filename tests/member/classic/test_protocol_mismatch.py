"""Test what a member is told that shares no protocol with its group."""

import pytest

from groupsdk.error_code import ErrorCode as E
from groupsdk.errors import (
    DisconnectedError,
    InconsistentGroupProtocolError,
    UnsupportedVersionError,
)
from groupsdk.member.actions import Send
from groupsdk.member.events import LeaveRequested, RequestRefused, ResponseReceived
from groupsdk.wire.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    JoinGroupRequest,
)
from tests.member.driving import Driver, join_refused


OURS = r"^JOIN_GROUP of group 'g' as 'work', with 'even' \(.*"


@pytest.fixture
def refused() -> Driver:
    """A member that was refused, and is to learn why."""
    driver = Driver()
    driver.refuse_join(E.INCONSISTENT_GROUP_PROTOCOL)
    return driver


def described(
    clients: tuple[str, ...] = ("java", "java"),
    protocol: str = "range",
    *,
    kind: str = "consumer",
    state: str = "Stable",
    error: int = 0,
    group_id: str = "g",
) -> DescribeGroupsResponse:
    members = tuple(
        DescribedGroupMember(member_id=f"m-{number}", client_id=client)
        for number, client in enumerate(clients)
    )
    return DescribeGroupsResponse(
        groups=(
            DescribedGroup(
                error_code=error,
                group_id=group_id,
                group_state=state,
                protocol_type=kind,
                protocol_data=protocol,
                members=members,
            ),
        )
    )


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            described(),
            (
                r"of type 'consumer', has 2 members \(client.id 'java'\) and uses 'range';"
                r" brokers do not report what else its members offer\): INCONSISTENT_GROUP_PROTOCOL \(23\)"
            ),
        ),
        (
            described(("c",), "", state="PreparingRebalance"),
            "is rebalancing; brokers do not report what its",
        ),
        (
            described((), error=E.GROUP_ID_NOT_FOUND),
            r"not a classic group by now: .*KIP-848.*group.consumer.migration.policy",
        ),
        (described(tuple("abcdefg")), r"client.id 'a', 'b', 'c', 'd', 'e' and 2 more"),
        (
            described((), "", kind="", state="Dead"),
            "are unknown: the broker shows it as 'Dead', without members.*KIP-848",
        ),
        (
            described((), error=E.GROUP_AUTHORIZATION_FAILED),
            "are unknown: DescribeGroups: GROUP_AUTHORIZATION_FAILED",
        ),
        (described(group_id="other"), "are unknown: the broker does not describe it"),
        (DescribeGroupsResponse(), "are unknown: the broker does not describe it"),
    ],
)
def test_the_error_says_what_the_group_uses_as_far_as_that_can_be_known(
    refused: Driver, answer: DescribeGroupsResponse, says: str
) -> None:
    assert refused.failure() is None, "not before it is known what the group uses"
    assert refused.sent(DescribeGroupsRequest) == [DescribeGroupsRequest(groups=("g",))]
    refused.answer(answer)
    with pytest.raises(InconsistentGroupProtocolError, match=OURS + says):
        raise refused.failure() or AssertionError


def test_a_broker_that_does_not_answer_is_not_waited_for_long(refused: Driver) -> None:
    refused.advance(2_000)
    with pytest.raises(InconsistentGroupProtocolError, match="are unknown: no answer to DESCR"):
        raise refused.failure() or AssertionError


def test_a_lost_connection_leaves_it_unknown(refused: Driver) -> None:
    refused.disconnect(DisconnectedError("cut"))
    with pytest.raises(InconsistentGroupProtocolError, match="are unknown: cut"):
        raise refused.failure() or AssertionError


def test_a_broker_that_lacks_the_request_leaves_it_unknown(refused: Driver) -> None:
    (send,) = refused.outstanding
    refused.outstanding.clear()
    refused.handle(RequestRefused(send.request_id, UnsupportedVersionError("too old")))
    with pytest.raises(InconsistentGroupProtocolError, match="are unknown: too old"):
        raise refused.failure() or AssertionError


def test_nothing_is_joined_meanwhile_and_the_next_attempt_asks_anew(refused: Driver) -> None:
    refused.poll()
    refused.advance(1_500)
    assert refused.view.joining
    assert len(refused.sent(JoinGroupRequest)) == 1
    refused.answer(described())
    refused.raise_failure()
    refused.poll()
    refused.advance(2_000)
    refused.prepare()
    refused.answer(join_refused(E.INCONSISTENT_GROUP_PROTOCOL))
    assert len(refused.sent(DescribeGroupsRequest)) == 2


def test_member_that_left_after_a_protocol_mismatch_is_told_no_failure(refused: Driver) -> None:
    (send,) = refused.outstanding
    assert isinstance(send, Send)
    refused.handle(LeaveRequested("enough"))
    refused.handle(ResponseReceived(send.request_id, described()))
    assert refused.failure() is None
