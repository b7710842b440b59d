"""The part of a member that its group protocol decides: `Membership`, with its reply tables."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol

from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, GroupSdkError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.member.actions import Action
from groupsdk.member.events import GroupAssigned, JoinDelivered, JoinPrepared
from groupsdk.member.member import Deadline, Member
from groupsdk.member.requests import CoordinatorRequest, InFlightRequest, MembershipRequest
from groupsdk.member.view import MemberView
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.groups import DescribeGroupsResponse
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchResponse,
)
from groupsdk.wire.schema import ApiKey


FIRST_JOIN: Final = "the member joins for the first time"

MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""The error codes after any request, a leave as well, that send a member to look for its coordinator again."""


class Reaction(Enum):
    """A member's reaction to an error code; each protocol has its own."""

    @property
    def tells(self) -> bool:
        """Whether a call of the caller raises the error."""
        raise NotImplementedError

    @property
    def ends(self) -> bool:
        """Whether the error is `fatal`: every later call raises it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Reply:
    """One row of a table."""

    reaction: Reaction
    """What the member does."""
    note: str
    """Why, for the log and for docs/protocol.md."""
    if_current: bool = False
    """Whether the error is ignored if the generation has changed since the request was sent."""
    is_logged: bool = True
    """Whether the reaction is worth a line in the log."""


Answer = JoinPrepared | GroupAssigned | JoinDelivered
"""How the caller answers a call."""


class InGroupResponse(Protocol):
    """A response of an API of `Membership.in_group_apis`."""

    @property
    def error_code(self) -> int:
        """The error code; 0 for none."""
        ...


class Membership(ABC):
    """What one group protocol decides about a member: its states, replies, heartbeats and rebalances.

    `MembershipMachine` calls it with what happens, at `member.now_ms`, and carries out what is common to all protocols.
    """

    in_group_apis: ClassVar[frozenset[ApiKey]]
    """The APIs whose error codes are looked up with `reply_to`: they are about the membership."""
    heartbeat_api: ClassVar[ApiKey]
    """The API of heartbeats; one at a time is in flight."""
    leave_api: ClassVar[ApiKey]
    """The API of the request that leaves the group: a closing member waits for its response."""
    caller_replies: ClassVar[Mapping[ErrorCode, Reply]]
    """What an error code in a response to the caller's own request means for the membership."""
    rediscover: ClassVar[Reaction]
    """The reaction to a response of a broker that is not the coordinator."""
    view_type: ClassVar[type[MemberView]] = MemberView
    hidden_metrics: ClassVar[tuple[str, ...]] = ()
    """How the names of metrics begin that mean nothing in this protocol."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.view_details: Mapping[str, object] = MappingProxyType({})
        """The fields of `view_type` beyond those of `MemberView`."""

    @property
    @abstractmethod
    def joining(self) -> bool:
        """Whether a join is needed or under way, calls of the caller aside."""

    @abstractmethod
    def ask_rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        """Rejoin at the caller's request; see `RejoinRequested`."""

    @abstractmethod
    def answered(self, answer: Answer) -> list[Action]:
        """Process the caller's answer to a callback; an answer to an earlier call is dropped."""

    @abstractmethod
    def call_failed(self, call_id: int, description: str) -> None:
        """Record that user code raised; the caller has the exception. A failure of an earlier call is ignored."""

    @abstractmethod
    def leave(self, operation: GroupMembershipOperation, reason: str) -> list[Action]:
        """Leave the group; rejoining is up to the caller."""

    @abstractmethod
    def leave_for_poll_timeout(self, reason: str) -> list[Action]:
        """Leave the group because the caller stopped polling; the member rejoins at the next poll."""

    def leave_deadlines(self) -> list[Deadline]:
        """Return what is due when while `Member.owes_leave`, coordinator or not."""
        return []

    def give_up_join(self) -> list[Action]:
        """Free the connection from a join that the coordinator holds."""
        return []

    @abstractmethod
    def is_of_membership(self, commit: OffsetCommitRequest) -> bool:
        """Return whether the caller made this commit as the member that it still is."""

    def brought_up_to_date(self, request: CoordinatorRequest) -> CoordinatorRequest:
        """Return a request of the caller's as it is sent now."""
        return request

    @abstractmethod
    def reply_to(self, api: ApiKey, code: int) -> Reply:
        """Return the member's reaction to error code `code`, known or not, other than 0."""

    @abstractmethod
    def on_answer(
        self, flight: InFlightRequest, response: InGroupResponse, reply: Reply | None
    ) -> list[Action] | None:
        """Process a response of an API of `in_group_apis`; None: the reaction to its error is to be carried out."""

    def on_other_answer(self, response: object) -> list[Action]:
        """Process the response to any other request of the membership."""
        raise AssertionError(
            f"unexpected response {type(response).__name__}: members do not send its request"
        )

    @abstractmethod
    def describe(self, flight: InFlightRequest, reply: Reply, code: int, response: object) -> str:
        """Name a refused request for the error message, with the setting of the member that is at fault."""

    @abstractmethod
    def carry_out(
        self, reaction: Reaction, flight: InFlightRequest, error: BrokerError, why: str
    ) -> list[Action]:
        """React to an error code, whose reason `why` is for logs and for the next join; a new lookup may follow."""

    @abstractmethod
    def unsent(self, flight: InFlightRequest, error: GroupSdkError) -> list[Action]:
        """Process that a request of the membership cannot be sent."""

    def coordinator_lost(
        self, flights: tuple[InFlightRequest, ...], error: GroupSdkError
    ) -> list[Action]:
        """Process that the coordinator was lost with these requests in flight, and is looked up again."""
        return []

    def call_deadlines(self) -> list[Deadline]:
        """Return what is due when while a call is outstanding, coordinator or not."""
        return []

    @abstractmethod
    def deadlines(self, *, can_call: bool) -> list[Deadline]:
        """Return what is due when beside heartbeats while the coordinator is known, the most urgent first.

        Nothing in it may depend on the time: what is decided here holds until the next event.
        """

    @abstractmethod
    def heartbeat(self) -> MembershipRequest:
        """Return the heartbeat that is being sent."""


def reply_to_caller(
    replies: Mapping[ErrorCode, Reply], response: object
) -> tuple[Reply, int] | None:
    """Return the reaction to a response to the caller's request, and the error code.

    None: there is none in the table.
    """
    for code in error_codes(response):
        reply = replies.get(ErrorCode.of(code))
        if reply is not None:
            return reply, code
    return None


def error_codes(response: Any) -> Iterator[int]:
    """Yield the error codes in a response that are about the group, other than 0."""
    codes: list[int] = []
    match response:
        case OffsetCommitResponse(topics=topics):
            codes = [partition.error_code for topic in topics for partition in topic.partitions]
        case OffsetFetchResponse(error_code=code, groups=groups):
            codes = [code, *(group.error_code for group in groups)]
        case DescribeGroupsResponse(groups=described):
            codes = [group.error_code for group in described]
        case _:
            pass
    yield from (code for code in codes if code)
