"""Hold what a coordinator knows of one member, and of one that has only been given its id."""

from typing import TYPE_CHECKING, NamedTuple

from groupsdk.broker.groups.deadlines import Deadline
from groupsdk.broker.groups.protocols import Protocols


if TYPE_CHECKING:
    from groupsdk.broker.groups.group import ClassicGroup


class Parked(NamedTuple):
    """A request that waits for its answer."""

    token: int
    api_version: int


class GroupMember(Deadline):
    """One member of a group; its deadline is the end of its session.

    Attributes:
        group: the group that it is, or was, in.
        join: its parked JoinGroup.
        sync: its parked SyncGroup.
        joined_ms: when it came to the group; None where that was before the coordinator was loaded.
        is_new: whether it has not seen a generation yet: it cannot heartbeat, so another deadline holds
            for its parked join.
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
        """Create a member as its record, or its first join, describes it."""
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


class PendingMember(Deadline):
    """An id that was handed out and is to come back with a JoinGroup (KIP-394), before its deadline."""

    __slots__ = ("group", "member_id")

    def __init__(self, group: "ClassicGroup", member_id: str) -> None:
        """Create it for an id of a group."""
        super().__init__()
        self.group = group
        self.member_id = member_id


Session = GroupMember | PendingMember
"""Whatever ends when nothing is heard of it."""
