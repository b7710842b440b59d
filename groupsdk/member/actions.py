"""The actions of a member's state machine: some for its driver, and callbacks for its caller."""

from typing import TYPE_CHECKING, NamedTuple

from groupsdk.errors import GroupSdkError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.lazy_imports import override
from groupsdk.printable import address_text
from groupsdk.types import Generation, GroupMembers


if TYPE_CHECKING:
    # The caller's side needs the calls below but no message: loading those would double what
    # `import groupsdk` costs.
    from groupsdk.member.requests import CoordinatorRequest, MembershipRequest
    from groupsdk.wire.schema import Response


class Node(NamedTuple):
    """A broker: its id in the cluster and where it listens."""

    node_id: int
    host: str
    port: int

    @override
    def __str__(self) -> str:
        return f"{address_text(self.host, self.port)} (node {self.node_id})"


# To the driver, which owns the connections.


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look up the coordinator, with retries; report `CoordinatorFound` or `LookupFailed`."""


@dataclass(frozen=True, slots=True)
class StopLooking:
    """Stop the lookup, without a report: the coordinator is no longer needed."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to `node`, connecting first if needed; report `ResponseReceived`.

    Requests are answered in order. Where it cannot be sent or answered, report `Disconnected` (the
    connection) or `RequestRefused` (this request alone).
    """

    request_id: int
    node: Node
    request: "MembershipRequest | CoordinatorRequest"
    """The request, not encoded: its version depends on the broker."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Drop the connection to the coordinator and whatever is outstanding on it, without a report."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Report `TimerFired` at a time; replaces the previous timer."""

    at_ms: int | None
    """The time, in milliseconds of the member's clock; None: no timer."""


@dataclass(frozen=True, slots=True)
class AnswerCaller:
    """Give the caller the response to its `CallerRequest`, or the error."""

    caller_request_id: int
    answer: "Response | GroupSdkError"


@dataclass(frozen=True, slots=True)
class Stop:
    """Close everything: the member is closed."""


Action = FindCoordinator | StopLooking | Send | Disconnect | Wake | AnswerCaller | Stop
"""All that `MembershipMachine.handle` returns."""


# To the caller, in whose thread the user's code runs. At most one is outstanding; an answer with another id is dropped.


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """Run `on_join_prepare` (where `run_callback`), then `metadata()`; answer `JoinPrepared`."""

    call_id: int
    generation: Generation
    """The generation before the rebalance; its id and member id are the arguments of `on_join_prepare`."""
    run_callback: bool
    """Whether `on_join_prepare` is due: once per rebalance, not per attempt."""


@dataclass(frozen=True, slots=True)
class AssignGroup:
    """Run `perform_assignment`, as the leader; answer `GroupAssigned`."""

    call_id: int
    generation: Generation
    leader_id: str
    protocol_name: str
    """The protocol that the coordinator chose from those all members offer."""
    members: GroupMembers
    """The metadata of each member, by member id."""
    skip: bool
    """Whether the group keeps its assignments (KIP-814): `on_assignment_skipped` runs instead, and the plan is empty."""


@dataclass(frozen=True, slots=True)
class CompleteJoin:
    """Run `on_join_complete`; answer `JoinDelivered`.

    Not to be run while the member's session may have expired (`MemberView.valid_until_ms`).
    """

    call_id: int
    generation: Generation
    protocol_name: str
    assignment: bytes
    """This member's assignment, as its leader encoded it; empty if the leader assigned it nothing."""


Call = PrepareJoin | AssignGroup | CompleteJoin
"""What the machine may ask of the caller."""
