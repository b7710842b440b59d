"""The classic groups of one partition of the log, and all their deadlines."""

from typing import Final

from groupsdk.broker.coordinator.classic.group import NO_TIMESTAMP, ClassicGroup
from groupsdk.broker.coordinator.classic.member import GroupMember, PendingMember, Session
from groupsdk.broker.coordinator.counters import CoordinatorCounters
from groupsdk.broker.coordinator.runtime.deadlines import DeadlineBuckets
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue


MAX_PENDING_BYTES: Final = 8 * 1024 * 1024
"""The most memory for assigned member ids that have not joined, in the coordinator of one partition."""
_PENDING_BYTES: Final = 600


class GroupRegistry:
    """The classic groups by id, their members' sessions and their rebalance phases.

    Attributes:
        groups: all groups by id; only `replay`, `replay_offset` and `remove` add and remove them.
        sessions: when members, and assigned member ids that have not joined, expire.
        phases: when the join or sync phase of a group times out.
    """

    __slots__ = (
        "_pending",
        "_pending_bytes",
        "config",
        "counters",
        "groups",
        "phases",
        "sessions",
    )

    def __init__(self, config: GroupConfig, counters: CoordinatorCounters) -> None:
        self.config = config
        self.counters = counters
        self.groups: dict[str, ClassicGroup] = {}
        self.sessions: DeadlineBuckets[Session] = DeadlineBuckets(config.session_bucket_ms)
        self.phases: DeadlineBuckets[ClassicGroup] = DeadlineBuckets(1)
        self._pending: dict[PendingMember, None] = {}  # in the order of assignment
        self._pending_bytes = 0

    def replay(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Apply the GroupMetadata record of a classic group; a value of None removes the group."""
        if value is None:
            self.remove(group_id)
            return
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, value.current_state_timestamp)
        for gone in group.replay(value):
            self.sessions.clear(gone)

    def replay_offset(self, group_id: str) -> None:
        # no record has the start: compaction removes the first commit
        self.groups.setdefault(group_id, ClassicGroup(group_id, NO_TIMESTAMP))

    def remove(self, group_id: str) -> None:
        """Remove a group with all its deadlines; does nothing if it is unknown."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        self.phases.clear(group)
        for member in group.members.values():
            self.sessions.clear(member)
        for pending in (group.pending_joins or {}).values():
            self.forget(pending)

    def renew_session(self, member: GroupMember, now_ms: int) -> None:
        """Restart a member's session, which ends `member.session_timeout_ms` from now."""
        self.sessions.set(member, now_ms + member.session_timeout_ms)

    def add_pending(self, group: ClassicGroup, member_id: str, until_ms: int, now_ms: int) -> None:
        """Register an assigned member id that has to join before its deadline (KIP-394).

        Clients join with it at once. If those that do not use too much memory, the oldest ids expire now; a client that
        then joins with such an id is answered UNKNOWN_MEMBER_ID, and requests a new one."""
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
        """Drop an assigned member id of a group with its deadline. Return False if it is unknown."""
        pending = group.drop_pending(member_id)
        if pending is not None:
            self.forget(pending)
        return pending is not None

    def forget(self, pending: PendingMember) -> None:
        """Clear the deadline of an assigned member id that was removed from its group."""
        self.sessions.clear(pending)
        self._uncount(pending)

    def _uncount(self, pending: PendingMember) -> None:
        if pending in self._pending:
            del self._pending[pending]
            self._pending_bytes -= _size(pending)


def _size(pending: PendingMember) -> int:
    return len(pending.member_id) + _PENDING_BYTES
