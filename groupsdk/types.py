"""Plain value types that every layer shares."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from groupsdk.lazy_imports import override


NO_GENERATION_ID = -1
"""Generation id of a member that is in no generation."""

UNKNOWN_MEMBER_ID = ""
"""Member id of a member that has none yet."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One completed join of one member; requests sent under an older generation are fenced.

    Of a static member that is replaced, both have the same `generation_id`: what fences is the pair with
    `member_id` (KIP-345). Mirrors `AbstractCoordinator.Generation`.
    """

    generation_id: int
    """Counts the joins that the group has completed; -1 for none."""
    member_id: str
    """Given by the group coordinator; "" for none. May outlive the generation."""
    protocol_name: str | None
    """The protocol that the members agreed on; None until a join completed."""

    @property
    def has_member_id(self) -> bool:
        """Return whether the group coordinator has assigned a member id."""
        return self.member_id != UNKNOWN_MEMBER_ID

    @property
    def is_reset(self) -> bool:
        """Return whether there is no generation; the member id may have been kept."""
        return self.generation_id == NO_GENERATION_ID and self.protocol_name is None


NO_GENERATION = Generation(NO_GENERATION_ID, UNKNOWN_MEMBER_ID, None)
"""The generation of a member that never joined, or that was expelled."""


class ProtocolMetadata(NamedTuple):
    """A protocol that a member supports, and its metadata for the leader."""

    name: str
    """The protocol's name, such as that of an assignor."""
    metadata: bytes
    """The member's metadata under it; the broker does not interpret them."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupMembers(Mapping[str, bytes]):
    """The members' ids with the metadata that they joined with, ordered by id.

    This is what the leader assigns from. `instance_ids` holds the `group.instance.id` of the static ones.
    Equal to any mapping with the same items, as mappings are; `instance_ids` does not count.
    """

    metadata: Mapping[str, bytes]
    """The metadata of each member, by member id."""
    instance_ids: Mapping[str, str] = field(default_factory=dict)
    """The `group.instance.id` of each static member, by member id (KIP-345)."""

    @override
    def __getitem__(self, member_id: str) -> bytes:
        return self.metadata[member_id]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.metadata)

    @override
    def __len__(self) -> int:
        return len(self.metadata)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset and its metadata (`OffsetAndMetadata`)."""

    offset: int
    """The next record to read: one more than that of the last one processed."""
    leader_epoch: int = -1
    """That of the last record, by which a truncated log is noticed (KIP-320); -1 for none."""
    metadata: str | None = ""
    """A note of the user's."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member of a group, as described by the coordinator."""

    member_id: str
    """The member's id."""
    group_instance_id: str | None
    """The instance id of a static member (KIP-345); otherwise None, also from brokers older than 2.4."""
    client_id: str
    """The `client.id` of its connection."""
    client_host: str
    """Its address as the broker sees it, e.g. "/10.0.0.7"."""
    metadata: bytes
    """The metadata that it joined with under the group's protocol; empty while the group rebalances."""
    assignment: bytes
    """Its assignment, as the leader encoded it; empty while the group rebalances."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group, as described by its coordinator (DescribeGroups)."""

    group_id: str
    """The group."""
    state: str
    """Kafka's name of the state: "Stable", "PreparingRebalance", "CompletingRebalance", "Empty" or "Dead"."""
    protocol_type: str
    """The kind of group, such as "consumer"; "" if it has none."""
    protocol_name: str
    """The protocol that the members agreed on; "" if there is none yet."""
    members: tuple[DescribedMember, ...]
    """The members."""


class GroupMembershipOperation(Enum):
    """Whether `close` leaves the group (KIP-1092)."""

    DEFAULT = "default"
    """A dynamic member leaves, a static one stays until its session times out."""
    LEAVE_GROUP = "leave_group"
    """Leave, whether static or not."""
    REMAIN_IN_GROUP = "remain_in_group"
    """Stay, whether static or not: the group notices after the session timeout."""
