"""The consumer groups of one log partition, their timers, and the draft of one request."""

from collections.abc import Callable, Iterator
from enum import Enum

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup, GroupRecord
from groupsdk.broker.coordinator.consumer.member import MemberState
from groupsdk.broker.coordinator.counters import CoordinatorCounters
from groupsdk.broker.coordinator.runtime.contract import CoordinatorRecord
from groupsdk.broker.coordinator.runtime.deadlines import Deadline, DeadlineBuckets
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)


_BUCKET_MS = 10


class TimerKind(Enum):
    """The purpose of a consumer group's timer."""

    SESSION = "session"
    """The member must send a heartbeat by then."""
    REBALANCE = "rebalance"
    """The member must revoke its partitions by then."""
    JOIN = "join"
    """A classic member was told to rejoin, and must by then."""
    SYNC = "sync"
    """A classic member joined, and must sync by then."""
    REGEX = "regex"
    """The group's expressions must be resolved; a timer of the group, not of a member."""

    # looked up for each heartbeat, and Enum's own is written in Python
    __hash__ = object.__hash__


class GroupTimer(Deadline):
    """One deadline in a consumer group. It is in no record: sessions restart after loading."""

    __slots__ = ("epoch", "group_id", "kind", "member_id", "steps")

    def __init__(self, kind: TimerKind, group_id: str, member_id: str) -> None:
        super().__init__()
        self.kind = kind
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = -1
        """The member's epoch when the timer was set; if it differs on expiry, the timer is stale."""
        self.steps: Iterator[None] | None = None
        """What is left to be looked up since it expired."""


class ConsumerGroupRegistry:
    """The consumer groups by id, and their timers.

    Args:
        make_room: removes the classic group with this id when a consumer group replaces it.

    Attributes:
        groups: all groups by id; only `replay` and `remove` add and remove them.
    """

    __slots__ = ("_make_room", "_timers", "counters", "groups", "timers")

    def __init__(self, make_room: Callable[[str], None], counters: CoordinatorCounters) -> None:
        self.counters = counters
        self.groups: dict[str, ConsumerGroup] = {}
        self.timers: DeadlineBuckets[GroupTimer] = DeadlineBuckets(_BUCKET_MS)
        # one table for all groups: a table per group would take more memory than its timers
        self._timers: dict[tuple[TimerKind, str, str], GroupTimer] = {}
        self._make_room = make_room

    def replay(self, record: GroupRecord) -> None:
        """Apply one record, while loading or right after it was appended; creates an unknown group."""
        key = record.key
        group_id: str = key.group_id  # type: ignore[attr-defined] # each of the keys has one
        group = self.groups.get(group_id)
        is_tombstone = isinstance(record, CoordinatorRecord) and record.value is None
        if group is None:
            if is_tombstone:
                return
            self._make_room(group_id)
            group = self.groups[group_id] = ConsumerGroup(group_id)
        group.replay(record)
        if not is_tombstone:
            return
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            for kind in TimerKind:
                self.clear(kind, group_id, key.member_id)
        elif isinstance(key, ConsumerGroupMetadataKey):
            self.remove(group_id)

    def remove(self, group_id: str) -> None:
        """Remove a group and all its timers; does nothing if it is unknown."""
        group = self.groups.pop(group_id, None)
        for member_id in ("", *(() if group is None else group.members)):
            for kind in TimerKind:
                self.clear(kind, group_id, member_id)

    def set(
        self, kind: TimerKind, group_id: str, member_id: str, at_ms: int, epoch: int = -1
    ) -> None:
        """Set a timer, replacing the member's of the same kind. On expiry in another epoch, if not -1, it is ignored."""
        place = (kind, group_id, member_id)
        timer = self._timers.get(place)
        if timer is None:
            timer = self._timers[place] = GroupTimer(kind, group_id, member_id)
        timer.epoch = epoch
        timer.steps = None
        self.timers.set(timer, at_ms)

    def clear(self, kind: TimerKind, group_id: str, member_id: str) -> None:
        """Cancel a timer of this kind, if there is one."""
        timer = self._timers.pop((kind, group_id, member_id), None)
        if timer is not None:
            self.timers.clear(timer)

    def is_set(self, kind: TimerKind, group_id: str, member_id: str) -> bool:
        return (kind, group_id, member_id) in self._timers

    def until_ms(self, kind: TimerKind, group_id: str, member_id: str) -> int | None:
        """Return when a timer of this kind expires; None if it is not set."""
        timer = self._timers.get((kind, group_id, member_id))
        return None if timer is None else timer.deadline_ms

    def taken(self, timer: GroupTimer) -> None:
        """Record that an expired timer is being handled, so that it is no longer set."""
        place = (timer.kind, timer.group_id, timer.member_id)
        if self._timers.get(place) is timer:
            del self._timers[place]


class Draft:
    """The records of one request, and the group with these records applied.

    Each step of a request sees the changes of the earlier steps, while the group itself stays unchanged until the
    records are in the log. Valid only while the request is handled.
    """

    __slots__ = ("base", "group", "records", "start")

    def __init__(self, group: ConsumerGroup) -> None:
        """Start from the current state of a group."""
        self.base = group
        self.group = group
        self.records: list[GroupRecord] = []
        self.start: Callable[[], None] | None = None
        """Starts an assignor, once the group's epoch is in the log; None: there is none to start."""

    def write(self, record: GroupRecord) -> None:
        """Add a record and apply it to `group`."""
        if self.group is self.base:
            self.group = self.base.draft()
        self.group.replay(record)
        self.records.append(record)

    def new_members(self) -> list[str]:
        """Return the ids of the members that these records add."""
        if self.group is self.base:
            return []
        return [member for member in self.group.members if member not in self.base.members]

    def hand_over(self, builder: ResultBuilder) -> None:
        """Add the records to a builder; once they are in the log, they are replayed on the real group."""
        builder.write_all(self.records)
        start = self.start
        if start is not None and self.records:
            builder.when_written(lambda _: start())
        elif start is not None:
            start()


def rebalance_timer(
    registry: ConsumerGroupRegistry, draft: Draft, member_id: str, now_ms: int
) -> None:
    """Set the rebalance timer of a member that must revoke partitions; cancel it for other members."""
    group_id, member = draft.group.group_id, draft.group.members[member_id]
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        at_ms = now_ms + max(member.rebalance_timeout_ms, 0)
        registry.set(TimerKind.REBALANCE, group_id, member_id, at_ms, member.epoch)
    else:
        registry.clear(TimerKind.REBALANCE, group_id, member_id)


def not_a_consumer_group(group_id: str, *, is_classic: bool) -> str:
    """Return Kafka's text for a group id that is not one of a consumer group."""
    return f"Group {group_id} {'is not a consumer group' if is_classic else 'not found'}."
