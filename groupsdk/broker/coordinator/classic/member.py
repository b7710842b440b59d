"""The members of a classic group, and member ids that were assigned but have not joined yet."""

from typing import TYPE_CHECKING, NamedTuple

from groupsdk.broker.coordinator.classic.protocols import Protocols
from groupsdk.broker.coordinator.runtime.deadlines import Deadline
from groupsdk.wire.coordinator_records.group_metadata import MemberMetadata


if TYPE_CHECKING:
    from groupsdk.broker.coordinator.classic.group import ClassicGroup


class Parked(NamedTuple):
    """A request that is answered later, when its rebalance phase ends."""

    token: int
    """The token of its `RequestContext`."""
    api_version: int
    """The version for which to build the response."""


class GroupMember(Deadline):
    """One member of a group; its deadline is the end of its session.

    Only its entry in the last record of the group is durable, which `replay` copies into it. Its parked requests,
    its session, its other protocols, and what it sent in an unfinished rebalance are in no record.

    Attributes:
        joined_ms: when it joined the group; None: before the coordinator was loaded.
        is_new: whether it has not seen a generation yet: it cannot heartbeat, so another deadline limits its parked
            JoinGroup.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group",
        "instance_id",
        "is_new",
        "join",
        "joined_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        group: "ClassicGroup",
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        """Create a member from its record or its first JoinGroup."""
        super().__init__()
        self.group = group
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join: Parked | None = None
        self.sync: Parked | None = None
        self.is_new = False
        self.joined_ms: int | None = None

    def replay(self, value: MemberMetadata) -> None:
        """Apply its entry in the group's record, except its metadata for the group's protocol."""
        self.member_id = value.member_id
        self.instance_id = value.group_instance_id
        self.client_id = value.client_id
        self.client_host = value.client_host
        timeout_ms = value.rebalance_timeout
        self.rebalance_timeout_ms = value.session_timeout if timeout_ms < 0 else timeout_ms
        self.session_timeout_ms = value.session_timeout
        self.assignment = value.assignment


class PendingMember(Deadline):
    """An assigned member id that has to join before its deadline (KIP-394)."""

    __slots__ = ("group", "member_id")

    def __init__(self, group: "ClassicGroup", member_id: str) -> None:
        """Create it without a deadline."""
        super().__init__()
        self.group = group
        self.member_id = member_id


Session = GroupMember | PendingMember
"""A holder of a deadline in `GroupRegistry.sessions`."""
