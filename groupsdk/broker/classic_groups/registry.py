"""The groups of one partition of the log, and all their deadlines."""

from typing import Final

from groupsdk.broker.classic_groups.config import GroupConfig
from groupsdk.broker.classic_groups.group import NO_TIMESTAMP, ClassicGroup
from groupsdk.broker.classic_groups.member import GroupMember, PendingMember, Session
from groupsdk.broker.runtime.deadlines import DeadlineBuckets
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue


MAX_PENDING_BYTES: Final = 8 * 1024 * 1024
"""What ids that were handed out and did not come back may hold, in one partition's coordinator."""
_PENDING_BYTES: Final = 600


class GroupRegistry:
    """The groups by their ids, the sessions of their members, and the phases of their rebalances.

    Attributes:
        groups: all groups, by id; `replay` makes and removes them, and nothing else.
        sessions: when members are expelled, unless they are heard of; and ids that were handed out.
        phases: when a join or a sync phase ends, whoever is missing.
    """

    __slots__ = (
        "_pending",
        "_pending_bytes",
        "config",
        "groups",
        "phases",
        "sessions",
    )

    def __init__(self, config: GroupConfig) -> None:
        """Create an empty registry."""
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.sessions: DeadlineBuckets[Session] = DeadlineBuckets(config.session_bucket_ms)
        self.phases: DeadlineBuckets[ClassicGroup] = DeadlineBuckets(1)
        self._pending: dict[PendingMember, None] = {}  # in the order in which they were handed out
        self._pending_bytes = 0

    def replay(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Apply the record of a classic group; None removes it."""
        if value is None:
            self.remove(group_id)
            return
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, value.current_state_timestamp)
        for gone in group.replay(value):
            self.sessions.clear(gone)

    def replay_offset(self, group_id: str) -> None:
        """Create a group without members for an unknown id that commits offsets."""
        # since when is in no record: compaction removes the first commit
        self.groups.setdefault(group_id, ClassicGroup(group_id, NO_TIMESTAMP))

    def remove(self, group_id: str) -> None:
        """Remove a group with all its deadlines."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        self.phases.clear(group)
        for member in group.members.values():
            self.sessions.clear(member)
        for pending in (group.pending_joins or {}).values():
            self.forget(pending)

    def renew_session(self, member: GroupMember, now_ms: int) -> None:
        """Restart a member's session."""
        self.sessions.set(member, now_ms + member.session_timeout_ms)

    def add_pending(self, group: ClassicGroup, member_id: str, until_ms: int, now_ms: int) -> None:
        """Register an assigned member id with a deadline.

        Clients come back with it at once. Where those that do not hold too much memory, the time of the oldest
        ids ends now. A client that comes back with such an id is told to ask for another one.
        """
        pending = PendingMember(group, member_id)
        group.add_pending(pending)
        self.sessions.set(pending, until_ms)
        self._pending[pending] = None
        self._pending_bytes += _size(pending)
        while self._pending_bytes > MAX_PENDING_BYTES:
            oldest = next(iter(self._pending))
            self._uncount(oldest)
            self.sessions.set(oldest, now_ms)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> bool:
        """Drop an assigned member id; False if it is unknown."""
        pending = group.drop_pending(member_id)
        if pending is not None:
            self.forget(pending)
        return pending is not None

    def forget(self, pending: PendingMember) -> None:
        """Drop the deadline of an id that its group no longer has."""
        self.sessions.clear(pending)
        self._uncount(pending)

    def _uncount(self, pending: PendingMember) -> None:
        if pending in self._pending:
            del self._pending[pending]
            self._pending_bytes -= _size(pending)


def _size(pending: PendingMember) -> int:
    return len(pending.member_id) + _PENDING_BYTES
