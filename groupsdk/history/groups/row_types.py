"""Declare what following a group gives: rows of generations, members, memberships, departures and rejects."""

from typing import NamedTuple

from groupsdk.history.groups.causes import Cause
from groupsdk.history.groups.member import Member


class GroupRecord(NamedTuple):
    """One record of a group, as it stands in the log."""

    group_id: str
    partition: int
    """Of `__consumer_offsets`."""
    offset: int
    ts_ms: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None


class GenerationRow(NamedTuple):
    """One generation of a classic group, or one epoch of a group of a newer protocol."""

    group_id: str
    protocol: str
    """"classic", "consumer", "share" or "streams"."""
    protocol_type: str
    """What the members of a classic group are to each other: "consumer", "connect"; "" for an empty group."""
    incarnation: int
    """0, and one more each time that the group was deleted and made again."""
    seq: int
    """Counts the generations of a group over all incarnations: orders them, whatever the numbers do."""
    generation: int
    ts_ms: int
    state_ts_ms: int
    """-1 where the record does not say."""
    assignor: str | None
    leader: str | None
    n_members: int
    n_partitions: int
    joined: int
    gone: int
    changed: int
    causes: tuple[Cause, ...]
    """Without leave and expiry, between which commits decide."""
    is_first: bool
    """Nothing is known of the generation before."""
    missing_before: int
    """How many generations the log does not have between this one and the one before."""
    coordinator_changed: bool
    balance_stddev: float
    is_empty: bool
    converged_ms: int
    """When the last member had what it was to get, where the log tells; -1 where not."""
    partition: int
    offset: int
    leader_epoch: int
    """Of the log's partition: it rises with each coordinator."""


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
    """One stay of a member in a group."""

    group_id: str
    protocol: str
    member: Member
    """As it was last."""
    first_seq: int
    last_seq: int
    first_generation: int
    last_generation: int
    start_ms: int
    end_ms: int
    """-1: it is still there."""
    end_reason: str | None
    """None: it is still there, or it is not known yet: see `DepartureRow`."""
    end_seq: int
    """The first generation without it; -1: it is still there."""
    partition: int
    offset: int


class DepartureRow(NamedTuple):
    """A member that is in a generation no more and has no successor: it left, or its session timed out."""

    group_id: str
    protocol: str
    """Of the first generation without it."""
    seq: int
    """The first generation without it."""
    generation: int
    ts_ms: int
    """When it went: as that generation began, unless the log tells more closely."""
    member: Member
    """As it was last, with what it had: that may be less than it was to get."""
    superseded: bool
    """Its client, of which there was no other, had come a second time while it was still there."""
    alive_ms: int = -1
    """When it last answered the coordinator, where the log tells; -1 where not."""
    behind: bool = False
    """It had not come to the epoch before yet."""


class TopicRow(NamedTuple):
    """The name of a topic that records name by its id."""

    topic_id: str
    topic: str


class RejectRow(NamedTuple):
    """A record that could not be decoded, or part of one."""

    group_id: str
    partition: int
    offset: int
    record_type: int
    """-1: it has no key."""
    reason: str


Row = GenerationRow | MemberRow | MembershipRow | DepartureRow | TopicRow | RejectRow
