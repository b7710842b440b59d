"""The events of a member's state machine.

A `call_id` is that of the call that an event answers, a `request_id` that of the `Send`. A `reason` is for the log and for
the coordinator (KIP-800).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from groupsdk.errors import GroupSdkError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.member.actions import Node
from groupsdk.types import GroupMembershipOperation, ProtocolMetadata


if TYPE_CHECKING:
    # as in actions: the caller's side needs no message before it asks something
    from groupsdk.member.requests import CoordinatorRequest


# From the caller's thread. An answer to a call shows that the caller is there, as `Polled` does.


@dataclass(frozen=True, slots=True)
class Polled:
    """The caller polled: it may be handed calls, and its poll deadline restarts."""

    unreported_ms: int = 0
    """For how long it may poll again without a word, after this and after each answer that it posts until the next
    `Polled`: the deadline counts from the end of that."""
    posted_count: int = 0
    """How many events the caller has posted, with this one; tells of those that were lost on the way."""


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """The caller requests a rebalance."""

    reason: str
    hand_over: bool = False
    """Whether work waits for it that was released, or is about to be: more such requests are granted at once."""


@dataclass(frozen=True, slots=True)
class RebalanceExpected:
    """The caller knows that another member is about to request a rebalance: heartbeats come often until then."""

    for_ms: int
    """For how long at most."""


@dataclass(frozen=True, slots=True)
class JoinPrepared:
    """Answers `PrepareJoin` with the metadata to join with."""

    call_id: int
    protocol_type: str
    """The group's protocol type, such as "consumer"."""
    protocols: tuple[ProtocolMetadata, ...]
    """The protocols that the member offers, with its metadata for each, by preference."""


@dataclass(frozen=True, slots=True)
class GroupAssigned:
    """Answers `AssignGroup` with the leader's plan."""

    call_id: int
    plan: Mapping[str, bytes]
    """The assignment of each member, encoded, by member id."""


@dataclass(frozen=True, slots=True)
class JoinDelivered:
    """Answers `CompleteJoin`: `on_join_complete` returned."""

    call_id: int


@dataclass(frozen=True, slots=True)
class CallFailed:
    """Answers any call: the user's code raised, and the caller has the exception already."""

    call_id: int
    description: str


@dataclass(frozen=True, slots=True)
class FailureRaised:
    """The caller has raised this failure."""

    failure_id: int


@dataclass(frozen=True, slots=True)
class JoinGivenUp:
    """The caller wants to send a request before leaving, without waiting behind a parked JoinGroup."""


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The caller leaves the group, and may join it again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The caller closes this member for good."""

    operation: GroupMembershipOperation
    """Whether the member leaves the group or lets its session expire (KIP-1092)."""
    timeout_ms: int
    """How long closing may take, in milliseconds."""
    reason: str


@dataclass(frozen=True, slots=True)
class CredentialsChanged:
    """The caller has new credentials for connections opened from now on."""

    username: str
    password: str = field(repr=False)
    """The user's password; never logged."""


@dataclass(frozen=True, slots=True)
class CallerRequest:
    """The caller sends the coordinator a request of its own; answered by an `AnswerCaller`."""

    caller_request_id: int
    request: "CoordinatorRequest"


# From the network.


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """A lookup succeeded."""

    node: Node


@dataclass(frozen=True, slots=True)
class LookupDelayed:
    """An attempt to find the coordinator failed and will be repeated by the driver."""

    error: GroupSdkError


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """A lookup failed with an error that is not retriable."""

    error: GroupSdkError


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection to the coordinator failed or broke; requests sent on it go unanswered."""

    error: GroupSdkError
    """Why, for logs and callers."""
    connected: bool = True
    """Whether there was a connection; without one, nothing was sent."""


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The coordinator responded to a request."""

    request_id: int
    response: object


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A request could not be sent, for example because the broker is too old for it."""

    request_id: int
    error: GroupSdkError


# From the clock.


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The timer set by the last `Wake` fired."""


CallerEvent = (
    Polled
    | RejoinRequested
    | RebalanceExpected
    | JoinPrepared
    | GroupAssigned
    | JoinDelivered
    | CallFailed
    | FailureRaised
    | JoinGivenUp
    | LeaveRequested
    | CloseRequested
    | CredentialsChanged
)
"""What the caller's thread can report."""

NetworkEvent = (
    CoordinatorFound
    | LookupDelayed
    | LookupFailed
    | Disconnected
    | ResponseReceived
    | RequestRefused
)
"""What the connection can report."""

Event = CallerEvent | CallerRequest | NetworkEvent | TimerFired
"""All that `MembershipMachine.handle` takes."""
