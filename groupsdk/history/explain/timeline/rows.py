"""The rows of a group's timeline: generations, members, memberships, departures and rejects."""

from typing import NamedTuple

from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.timeline.member import Member


class GroupRecord(NamedTuple):
    """One record of a group, undecoded."""

    group_id: str
    partition: int
    offset: int
    ts_ms: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None


class GenerationRow(NamedTuple):
    """One generation of a classic group, or one epoch of a group of a newer protocol."""

    group_id: str
    protocol: str
    protocol_type: str
    incarnation: int
    """0, and one more each time the group was deleted and recreated."""
    seq: int
    generation: int
    ts_ms: int
    state_ts_ms: int
    """-1 if the record does not have it."""
    assignor: str | None
    leader: str | None
    n_members: int
    n_partitions: int
    joined: int
    gone: int
    changed: int
    causes: tuple[Cause, ...]
    """Without leave and expiry, which only commits can distinguish."""
    missing_before: int
    """How many generations are missing from the log before this one."""
    coordinator_changed: bool
    balance_stddev: float
    is_empty: bool
    converged_ms: int
    """When the last member reached its target assignment; -1 if the log does not show it."""
    partition: int
    offset: int
    leader_epoch: int

    def at(self, record: GroupRecord) -> "GenerationRow":
        """Return the row at a later record, for memberships that begin or end within the generation."""
        return self._replace(ts_ms=record.ts_ms, partition=record.partition, offset=record.offset)

    def of_member(self, phase: str, member: Member) -> "MemberRow":
        return MemberRow(
            *(self.group_id, self.protocol, self.seq, self.generation, self.ts_ms),
            *(phase, member, self.partition, self.offset),
        )


class MemberRow(NamedTuple):
    """One member in one generation, with what it is assigned."""

    group_id: str
    protocol: str
    seq: int
    generation: int
    ts_ms: int
    phase: str
    """"final" in a classic group; "target", "current" or "revoking" in others."""
    member: Member
    partition: int
    offset: int


class MembershipRow(NamedTuple):
    """One membership: a member's time in a group."""

    group_id: str
    protocol: str
    member: Member
    first_seq: int
    last_seq: int
    first_generation: int
    last_generation: int
    start_ms: int
    end_ms: int
    """-1: it has not ended."""
    end_reason: str | None
    """None: it has not ended, or the reason is decided later; see `DepartureRow`."""
    end_seq: int
    """The first generation without it; -1: it has not ended."""
    partition: int
    offset: int


class DepartureRow(NamedTuple):
    """A member that is gone without a successor: it left, or its session timed out."""

    group_id: str
    protocol: str
    """The protocol of the first generation without it."""
    seq: int
    generation: int
    ts_ms: int
    """When it was gone: as that generation began, unless the log is more precise."""
    member: Member
    """The member as of its last generation, with the partitions that it owned, which may be fewer than its target."""
    superseded: bool
    """Its client had joined a second time while this member was still in the group."""
    alive_ms: int = -1
    """When it last answered the coordinator; -1 if the log does not show it."""
    behind: bool = False
    """It had not reached the previous epoch."""


class RejectRow(NamedTuple):
    """A record, or a part of one, that could not be decoded."""

    group_id: str
    partition: int
    offset: int
    record_type: int
    """-1: it has no key."""
    reason: str


Row = GenerationRow | MemberRow | MembershipRow | DepartureRow | RejectRow


class TimelineGeneration(NamedTuple):
    """The short form of a generation, in which storms are found, and on which advice is based."""

    seq: int
    ts_ms: int
    cause: str
    moved: int
    gap_ms: int
    """The median gap between commits around it, over all partitions."""
    stalled_ms: int = 0
    """For how long partitions stood still around it, in partition-milliseconds; see `CommitSpans.stalled_ms`."""
    n_members: int = 0
    n_partitions: int = 0
    is_other: bool = False
    """Whether it has a cause besides members joining and leaving."""


class TimelineMembership(NamedTuple):
    """The short form of a membership."""

    client_id: str
    client_host: str
    first_seq: int
    last_seq: int
    start_ms: int
    """-1: unknown."""
    end_ms: int
    """-1: it has not ended, or the time is unknown."""
    end_reason: str
    """"" if it has not ended."""
    end_seq: int = -1
    """The first generation without the member; -1: it has not ended."""
    instance_id: str | None = None
    silent_ms: int = 0
    """How long it had been silent at its end; 0 if it left."""
    n_partitions: int = 0
    """How many partitions it had at its end."""

    @property
    def stay_ms(self) -> int:
        """How long it lasted; -1: it has not ended, or that is not known."""
        return self.end_ms - self.start_ms if min(self.start_ms, self.end_ms) >= 0 else -1
