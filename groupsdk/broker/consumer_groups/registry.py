"""Hold the consumer groups of one partition of the log, what waits for time in them, and one request's draft."""

from collections.abc import Callable, Iterable
from enum import Enum

from groupsdk.broker.consumer_groups.group import ConsumerGroup, GroupRecord
from groupsdk.broker.consumer_groups.member import MemberState
from groupsdk.broker.runtime.deadlines import Deadline, DeadlineBuckets
from groupsdk.broker.runtime.result_builder import ResultBuilder
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)


_BUCKET_MS = 10


class TimerKind(Enum):
    """What a timer of a consumer group is for."""

    SESSION = "session"
    """The member must be heard of."""
    REBALANCE = "rebalance"
    """The member must give up its partitions."""
    JOIN = "join"
    """A classic member was told to rejoin, and must."""
    SYNC = "sync"
    """A classic member joined, and must sync."""
    REGEX = "regex"
    """The expressions of the group are to be resolved; of the group, not of a member."""


class GroupTimer(Deadline):
    """One deadline in a consumer group. It is no part of what lasts: after loading, sessions begin again."""

    __slots__ = ("epoch", "group_id", "kind", "member_id")

    def __init__(self, kind: TimerKind, group_id: str, member_id: str) -> None:
        super().__init__()
        self.kind = kind
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = -1
        """The member's epoch when it was set; another one by then means that it is out of date."""


class ConsumerGroupRegistry:
    """The consumer groups by their ids, and their timers.

    Attributes:
        groups: by group id; changed by `replay` alone.
        timers: everything that is due some time.
    """

    __slots__ = ("_make_room", "_timers", "groups", "timers")

    def __init__(self, make_room: Callable[[str], None]) -> None:
        """Create it without groups; `make_room` removes a classic group whose place a consumer group takes."""
        self.groups: dict[str, ConsumerGroup] = {}
        self.timers: DeadlineBuckets[GroupTimer] = DeadlineBuckets(_BUCKET_MS)
        # one table for all groups: one for each takes more memory than the timers in it
        self._timers: dict[tuple[TimerKind, str, str], GroupTimer] = {}
        self._make_room = make_room

    def replay(self, record: GroupRecord) -> None:
        """Apply one record: while loading, or right after it was appended."""
        key = record.key
        group_id: str = key.group_id  # type: ignore[attr-defined] # each of the keys has one
        group = self.groups.get(group_id)
        if group is None:
            if record.value is None:
                return
            self._make_room(group_id)
            group = self.groups[group_id] = ConsumerGroup(group_id)
        group.replay(record)
        if record.value is not None:
            return
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            for kind in TimerKind:
                self.clear(kind, group_id, key.member_id)
        elif isinstance(key, ConsumerGroupMetadataKey):
            self.remove(group_id)

    def write(self, records: Iterable[GroupRecord], builder: ResultBuilder) -> None:
        """Have records written; each is replayed once it is in the log."""
        builder.write_all(records)

    def remove(self, group_id: str) -> None:
        """Forget a group, with all its timers."""
        group = self.groups.pop(group_id, None)
        for member_id in ("", *(() if group is None else group.members)):
            for kind in TimerKind:
                self.clear(kind, group_id, member_id)

    def set(
        self, kind: TimerKind, group_id: str, member_id: str, at_ms: int, epoch: int = -1
    ) -> None:
        """Set a timer, in place of the one of its kind that the member has."""
        place = (kind, group_id, member_id)
        timer = self._timers.get(place)
        if timer is None:
            timer = self._timers[place] = GroupTimer(kind, group_id, member_id)
        timer.epoch = epoch
        self.timers.set(timer, at_ms)

    def clear(self, kind: TimerKind, group_id: str, member_id: str) -> None:
        """Cancel a timer, if there is one."""
        timer = self._timers.pop((kind, group_id, member_id), None)
        if timer is not None:
            self.timers.clear(timer)

    def is_set(self, kind: TimerKind, group_id: str, member_id: str) -> bool:
        """Return whether a timer runs."""
        return (kind, group_id, member_id) in self._timers

    def until_ms(self, kind: TimerKind, group_id: str, member_id: str) -> int | None:
        """Return when a timer ends; None: it does not run."""
        timer = self._timers.get((kind, group_id, member_id))
        return None if timer is None else timer.deadline_ms

    def taken(self, timer: GroupTimer) -> None:
        """Note that a timer was due: it is not set any more."""
        place = (timer.kind, timer.group_id, timer.member_id)
        if self._timers.get(place) is timer:
            del self._timers[place]


class Draft:
    """The records of one request, and the group as it will be with them.

    Each further step of a request sees what the steps before it wrote, while the group itself stays as it is
    until the records are in the log. Not to be kept for longer than the request.

    Attributes:
        group: the group with the records so far.
        records: in the order in which they will be written.
    """

    __slots__ = ("_base", "group", "records")

    def __init__(self, group: ConsumerGroup) -> None:
        """Begin with a group as it is."""
        self._base = group
        self.group = group
        self.records: list[GroupRecord] = []

    def write(self, record: GroupRecord) -> None:
        """Add a record."""
        if self.group is self._base:
            self.group = self._base.draft()
        self.group.replay(record)
        self.records.append(record)

    def new_members(self) -> list[str]:
        """Return the ids of the members that these records add."""
        if self.group is self._base:
            return []
        return [each for each in self.group.members if each not in self._base.members]

    def hand_over(self, registry: ConsumerGroupRegistry, builder: ResultBuilder) -> None:
        """Have the records written; each is replayed on the real group then."""
        registry.write(self.records, builder)


def rebalance_timer(
    registry: ConsumerGroupRegistry, draft: Draft, member_id: str, now_ms: int
) -> None:
    """Set or cancel the rebalance timer of a member after a step."""
    group_id, member = draft.group.group_id, draft.group.members[member_id]
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        at_ms = now_ms + max(member.rebalance_timeout_ms, 0)
        registry.set(TimerKind.REBALANCE, group_id, member_id, at_ms, member.epoch)
    else:
        registry.clear(TimerKind.REBALANCE, group_id, member_id)
