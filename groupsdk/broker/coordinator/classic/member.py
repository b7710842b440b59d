"""The members of a classic group, and member ids that were assigned but have not joined yet."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from groupsdk.broker.coordinator.hash_order import HashOrder, text_hash
from groupsdk.broker.coordinator.runtime.deadlines import Deadline
from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import ConsumerProtocolDecoder
from groupsdk.wire.coordinator_records.group_metadata import MemberMetadata


if TYPE_CHECKING:
    from groupsdk.broker.coordinator.classic.group import ClassicGroup


Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member offers, in order of preference: their names with the member's metadata."""


class Parked(NamedTuple):
    """A request that is answered later, when its rebalance phase ends."""

    token: int
    api_version: int


class GroupMember(Deadline):
    """One member of a group; its deadline is the end of its session.

    Only its entry in the last record of the group is durable, which `replay` copies into it. Its parked requests,
    its session, its other protocols, and what it sent in an unfinished rebalance are in no record.

    Attributes:
        joined_ms: when it joined the group; None: before the coordinator was loaded.
        is_new: whether it has not seen a generation yet: it cannot heartbeat, so another deadline limits its parked
            JoinGroup.
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
        """Create a member from its record or its first JoinGroup."""
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

    def replay(self, value: MemberMetadata) -> None:
        """Apply its entry in the group's record, except its metadata for the group's protocol."""
        self.member_id = value.member_id
        self.instance_id = value.group_instance_id
        self.client_id = value.client_id
        self.client_host = value.client_host
        timeout_ms = value.rebalance_timeout
        self.rebalance_timeout_ms = value.session_timeout if timeout_ms < 0 else timeout_ms
        self.session_timeout_ms = value.session_timeout
        self.assignment = value.assignment


class PendingMember(Deadline):
    """An assigned member id that has to join before its deadline (KIP-394)."""

    __slots__ = ("group", "member_id")

    def __init__(self, group: "ClassicGroup", member_id: str) -> None:
        """Create it without a deadline."""
        super().__init__()
        self.group = group
        self.member_id = member_id


Session = GroupMember | PendingMember
"""A holder of a deadline in `GroupRegistry.sessions`."""


def metadata_of(protocols: Protocols, name: str | None) -> bytes:
    """Return a member's metadata for the protocol of this name; empty if it does not offer it."""
    for offered, metadata in protocols:
        if offered == name:
            return metadata
    return b""


def largest_metadata(protocols: Protocols) -> int:
    """Return the size of the largest metadata in bytes; a group's record holds the metadata for one protocol only."""
    if len(protocols) == 1:
        return len(protocols[0][1])
    return max([len(metadata) for _, metadata in protocols], default=0)


def choose_protocol(offers: Iterable[Protocols], supported: Mapping[str, int]) -> str | None:
    """Return the protocol that most members prefer among those that all of them support; None if there is none.

    Ties are resolved as by Kafka: the name that comes first in the iteration order of a Java HashMap wins.
    """
    listed = list(offers)
    candidates = {name for name, count in supported.items() if count == len(listed)}
    votes: dict[str, int] = {}
    for protocols in listed:
        vote = next((name for name, _ in protocols if name in candidates), None)
        if vote is not None:
            votes[vote] = votes.get(vote, 0) + 1
    if len(votes) < 2:
        return next(iter(votes), None)
    order: HashOrder[str] = HashOrder(text_hash)
    for name in votes:
        order.put(name)
    return max(order, key=votes.__getitem__)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all consumer protocol subscriptions; None if one of them cannot be parsed.

    Members of one application mostly have equal subscriptions: each distinct one is parsed once.
    """
    union: frozenset[str] | None = None
    for each in set(subscriptions):
        topics = _topics(each)
        if topics is None:
            return None
        union = topics if union is None or union == topics else union | topics
    return frozenset() if union is None else union


@lru_cache(maxsize=1024)
def _topics(subscription: bytes) -> frozenset[str] | None:
    # every later version starts with the fields of version 0, so additions of newer clients do not matter
    try:
        return frozenset(ConsumerProtocolDecoder().subscription(b"\0\0" + subscription[2:]).topics)
    except DecodeError:
        return None
