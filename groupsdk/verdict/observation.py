"""The input of the rules: what is known of a group at one moment, and of its past."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupsdk.admin.descriptions import GroupDescription, PartitionLag
from groupsdk.assignment import TopicPartition


class ObstacleKind(StrEnum):
    """Why a question about a group was not answered."""

    RIGHT = "right"
    """The principal lacks a right."""
    COORDINATOR = "coordinator"
    """The group has no coordinator, or it is still loading."""
    BROKER = "broker"
    """A broker cannot be reached, or did not answer in time."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A question about a group that was not answered."""

    kind: ObstacleKind
    question: str
    """What was asked, such as "its committed offsets"."""
    text: str
    """The error."""
    right: str = ""
    """The right that is missing, such as "READ on group orders"."""
    command: str = ""
    """The command that grants it."""
    optional: bool = False
    """Whether the group can be judged without the answer, though by fewer rules."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The sums of one look at a group."""

    at_ms: int
    members: int
    lag: int | None
    """None: unknown."""
    committed: int | None
    """The sum of the committed offsets; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastGeneration:
    """A generation of the last hour, as the group's log or a watcher knows it."""

    seq: int
    at_ms: int
    cause: str
    """A value of `groupsdk.history.explain.changes.Cause`."""
    members: int
    assignor: str = ""
    moved: int = 0
    gap_ms: int = 0
    """The median gap between the commits around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMembership:
    """A membership that began or ended in the last hour, or goes on."""

    client_id: str
    client_host: str
    instance_id: str | None = None
    first_seq: int = -1
    last_seq: int = -1
    start_ms: int | None = None
    """None: before the hour."""
    end_ms: int | None = None
    """None: it goes on."""
    reason: str = ""
    """Why it ended: "leave", "expiry", "static_replaced" or another cause; "" for unknown."""
    confidence: float | None = None
    """In the reason; None if that is not an estimate."""
    silence_ms: int | None = None
    """How long it had not committed when it was gone."""
    session_ms: int | None = None
    poll_ms: int | None = None
    """Its rebalance timeout, which for consumers is max.poll.interval.ms."""

    @property
    def stay_ms(self) -> int | None:
        """How long it lasted; None if it goes on, or began before the hour."""
        if self.start_ms is None or self.end_ms is None:
            return None
        return self.end_ms - self.start_ms

    @property
    def where(self) -> str:
        return f"{self.client_id} at {self.client_host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAdvice:
    """A change that would have spared rebalances, with its price; see `groupsdk.history.explain.advice.Advice`."""

    advice: str
    setting: str
    rebalances: int
    spared_ms: int
    """For how long partitions stood still because of those rebalances, in partition-milliseconds."""
    added_ms: int
    """For how long they would have stood still because of the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What happened in a group lately; all in the order of time."""

    since_ms: int
    """From when on it is known."""
    generations: tuple[PastGeneration, ...] = ()
    memberships: tuple[PastMembership, ...] = ()
    absences: tuple[tuple[int, int], ...] = ()
    """From when to when the group had no members before, where it then came back."""
    advice: tuple[PastAdvice, ...] = ()

    @property
    def changed_ms(self) -> int:
        """Since when the group's members are the same, or at least from when on nothing changed."""
        return max((each.at_ms for each in self.generations), default=self.since_ms)

    @property
    def emptied_ms(self) -> int:
        """Since when an empty group has no members, or at least from when on it had none."""
        empty = (each.at_ms for each in self.generations if not each.members)
        return max(empty, default=self.since_ms)


@dataclass(frozen=True, slots=True)
class LoggedGroup:
    """What the log tells of one group."""

    past: Past
    committed_ms: int | None
    """When another offset than before was committed for the last time, as far back as was read."""

    @property
    def emptied_ms(self) -> int:
        """Since when an empty group has no members; a consumer without membership, which assigns itself, commits meanwhile."""
        return max(self.past.emptied_ms, self.committed_ms or 0)

    @property
    def changed_ms(self) -> int:
        return self.past.changed_ms


@dataclass(frozen=True, slots=True)
class KnownLog:
    """What one who watches groups has read of their log so far."""

    groups: Mapping[str, LoggedGroup] = field(default_factory=dict)
    retention_ms: int | None = None
    """The brokers' offsets.retention.minutes, in milliseconds; None: unknown."""
    problem: Obstacle | None = None
    """Why it is not read; the rules about the past then know what was seen by watching."""
    is_begun: bool = True
    """Whether it was read up to its end once."""

    @property
    def text(self) -> str:
        """What is missing, for people; empty if nothing is."""
        if self.problem is not None:
            why = self.problem.right or self.problem.text
            return f"the groups' log is not read: {why}; what was before is unknown"
        return "" if self.is_begun else "the groups' log is being read; what was before is unknown"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The times and numbers that the rules compare with; times in milliseconds."""

    settle_ms: int = 60_000
    """How long the members must be the same before their assignment is judged."""
    absence_ms: int = 60_000
    """How long a group may be without members, as during a deployment."""
    trend_ms: int = 600_000
    """How long lag must have grown."""
    stall_ms: int = 600_000
    """How long a partition may have lag and no commit while others are committed."""
    standstill_ms: int = 300_000
    """How long a rebalance may take."""
    migration_ms: int = 1_800_000
    """How long members of both protocols may share a group."""
    recent_ms: int = 3_600_000
    """What ended longer ago is over."""
    short_ms: int = 60_000
    """A membership that ended within this time is a short one."""
    repeats: int = 3
    """How often a member must come and go, be replaced or fall silent."""
    lag_records: int = 100
    """The least lag that is reported."""
    lag_seconds: int = 60
    """The least lag that is reported, in seconds of what the group reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that is known of one group. Times are in milliseconds since 1970."""

    group_id: str
    at_ms: int
    group: GroupDescription | None = None
    """None: it could not be described."""
    lag: tuple[PartitionLag, ...] | None = None
    """None: offsets could not be looked up."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """The number of partitions of the topics that the group subscribes to, as far as known."""
    samples: tuple[Sample, ...] = ()
    """Earlier looks, the oldest first."""
    past: Past | None = None
    """None: the log could not be read, and nobody watched."""
    settled_ms: int | None = None
    """Since when its members and their assignments are the same; None: unknown."""
    empty_ms: int | None = None
    """Since when it has no members; None: it has some, or the time is unknown."""
    state_ms: int | None = None
    """Since when it is in its state; None: unknown."""
    stalled: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Since when each partition with lag has had the same committed offset."""
    retention_ms: int | None = None
    """The broker's offsets.retention.minutes, in milliseconds; None: unknown."""
    obstacles: tuple[Obstacle, ...] = ()
