"""Hold the groups of one partition of the log, and the deadlines of all of them."""

from groupsdk.broker.groups.config import GroupConfig
from groupsdk.broker.groups.deadlines import DeadlineBuckets
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.member import GroupMember, PendingMember, Session


class GroupRegistry:
    """The groups by their ids, the sessions of their members, and the phases of their rebalances.

    Attributes:
        groups: all groups, by id.
        sessions: when members are expelled, unless they are heard of; and ids that were handed out.
        phases: when a join or a sync phase ends, whoever is missing.
    """

    __slots__ = ("config", "groups", "phases", "sessions")

    def __init__(self, config: GroupConfig) -> None:
        """Create it without groups."""
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.sessions: DeadlineBuckets[Session] = DeadlineBuckets(config.session_bucket_ms)
        self.phases: DeadlineBuckets[ClassicGroup] = DeadlineBuckets(1)

    def create(self, group_id: str, now_ms: int) -> ClassicGroup:
        """Create an empty group in place of any other."""
        self.remove(group_id)
        group = self.groups[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def remove(self, group_id: str) -> None:
        """Forget a group, with all its deadlines."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        self.phases.clear(group)
        for member in group.members.values():
            self.sessions.clear(member)
        for pending in (group.pending_joins or {}).values():
            self.sessions.clear(pending)

    def renew_session(self, member: GroupMember, now_ms: int) -> None:
        """Start a member's session anew."""
        self.sessions.set(member, now_ms + member.session_timeout_ms)

    def add_pending(self, group: ClassicGroup, member_id: str, until_ms: int) -> None:
        """Note an id that was handed out, for so long."""
        pending = PendingMember(group, member_id)
        group.add_pending(pending)
        self.sessions.set(pending, until_ms)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> bool:
        """Forget an id that was handed out; False if there is none such."""
        pending = group.drop_pending(member_id)
        if pending is not None:
            self.sessions.clear(pending)
        return pending is not None
