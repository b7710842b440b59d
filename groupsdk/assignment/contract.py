"""Define the contract of partition assignors: what they are given, what they return.

Partitions stand grouped by topic, ``{topic: [partition, ...]}``, as they do on the wire: a million partitions
are a million small integers, not a million objects.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple, Protocol, TypeGuard, runtime_checkable

from groupsdk.errors import ConfigError


class TopicPartition(NamedTuple):
    """One partition of a topic, as a value for users; inside the library partitions are grouped by topic."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number, from 0."""


class RebalanceProtocol(IntEnum):
    """How much members give up for a rebalance (KIP-429); a greater value gives up less."""

    EAGER = 0
    """Everything, before joining."""
    COOPERATIVE = 1
    """Only what moves, after the assignment; whoever gets it does so in a further rebalance."""


Partitions = Mapping[str, Sequence[int]]
"""Topic to partition numbers."""

Lags = Mapping[str, Mapping[int, int]]
"""Topic to partition to the number of its records that are still to be read."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The topics that can be assigned.

    Attributes:
        partition_counts: topic to number of partitions, which are numbered from 0. A topic that is not in
            here is not known, and nothing of it is assigned.
        replica_racks: topic to the racks of each partition's replicas, in the order of the partitions; for
            topics whose racks are known.
        lags: topic to partition to the number of records that the group has still to read, where known; only for an
            assignor with `reads_reports`.
    """

    partition_counts: Mapping[str, int]
    replica_racks: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)
    lags: Lags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemberReport:
    """What one member says about itself to the leader's assignor, or what a broker knows of it.

    Attributes:
        client_id: its `client.id`.
        load: how loaded it is, in a unit of the program's own (`GroupConsumer.report_load`); None: not said.
        lags: the records still to be read of partitions that it has, or had when it joined; exact to one in 1,024.
    """

    client_id: str = ""
    load: float | None = None
    lags: Lags = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription (Kafka: `ConsumerPartitionAssignor.Subscription`).

    Attributes:
        topics: the topics to read.
        user_data: the assignor's own data; None if there is none.
        owned_partitions: the partitions that the member owns, or claims to own.
        generation_id: the generation in which it got them; -1 if not given.
        rack_id: the rack that it runs in; None if not given.
        group_instance_id: of a static member; taken from the group, not from the member's own bytes.
        report: what the member says about itself; None if it says nothing. Only for an assignor with `reads_reports`.
    """

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Partitions = field(default_factory=dict)
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None
    report: MemberReport | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's assignment (Kafka: `ConsumerPartitionAssignor.Assignment`). Iterates over `TopicPartition`.

    Attributes:
        partitions: the partition numbers by topic.
        user_data: the assignor's own data for this member; None if there is none.
    """

    partitions: Partitions = field(default_factory=dict)
    user_data: bytes | None = None

    def __len__(self) -> int:
        return sum(map(len, self.partitions.values()))

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, partitions in self.partitions.items():
            for partition in partitions:
                yield TopicPartition(topic, partition)


GroupSubscription = Mapping[str, Subscription]
"""Member id to subscription."""

GroupAssignment = Mapping[str, Assignment]
"""Member id to assignment."""


PARTS: Final = (
    "name",
    "version",
    "supported_protocols",
    "subscription_user_data",
    "assign",
    "on_assignment",
)
"""The attributes and methods of a `PartitionAssignor`."""

_METHODS = PARTS[3:]


def reads_reports(assignor: object) -> bool:
    """Return whether an assignor wants members to report client id, load and lags (its attribute `reads_reports`)."""
    return bool(getattr(assignor, "reads_reports", False))


def missing_parts(thing: object) -> list[str]:
    """Return the attributes and methods that an object lacks to be a `PartitionAssignor`, in the order of `PARTS`.

    A method that is there but cannot be called counts as missing."""
    return [
        part
        for part in PARTS
        if not hasattr(thing, part) or (part in _METHODS and not callable(getattr(thing, part)))
    ]


def is_assignor(thing: object) -> TypeGuard["PartitionAssignor"]:
    """Return whether an object, not a class, is an assignor.

    Also one that hands its attributes on to another by `__getattr__`, which `isinstance` refuses from Python 3.12 on.
    """
    return not isinstance(thing, type) and not missing_parts(thing)


def misfit(assignor: "PartitionAssignor") -> str | None:
    """Return what is wrong with the attributes of an assignor, or None."""
    name, version, protocols = (getattr(assignor, part) for part in PARTS[:3])
    if not isinstance(name, str) or not name:
        return f"its name is {name!r}, not a non-empty string"
    if not isinstance(version, int) or not 0 <= version < 1 << 15:
        return f"assignor {name!r}: its version is {version!r}, not 0 to 32767"
    if isinstance(protocols, frozenset) and protocols and protocols <= {*RebalanceProtocol}:
        return None
    return f"assignor {name!r}: its supported_protocols are {protocols!r}, not a frozenset of RebalanceProtocol with at least one"


@runtime_checkable
class PartitionAssignor(Protocol):
    """An algorithm that assigns the partitions of topics to members (Kafka: `ConsumerPartitionAssignor`).

    An assignor runs in the leader of a group, for all members; `subscription_user_data` and `on_assignment`
    run in every member. One object serves one member, and one thread at a time.

    An assignor with an attribute `reads_reports` that is true is given `Subscription.report` and `Cluster.lags` as well.
    """

    @property
    def name(self) -> str:
        """The protocol's name on the wire, e.g. "range"; the same in all members."""
        ...

    @property
    def version(self) -> int:
        """The version of the user data; for the assignor's own use."""
        ...

    @property
    def supported_protocols(self) -> frozenset[RebalanceProtocol]:
        """The rebalance protocols that it may be used with."""
        ...

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the data that this member's assignor sends to the leader's; called before every join.

        Returns:
            The user data of the subscription; None for none.
        """
        ...

    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Assign the group's partitions, as the leader.

        Every partition of a known topic with a subscriber goes to exactly one subscriber. The result depends on nothing but the
        arguments, and not on the order of mappings and sets in them. The arguments are not changed.

        Args:
            cluster: the topics that can be assigned, with their numbers of partitions and racks.
            subscriptions: the subscription of each member, by member id.

        Returns:
            The assignment of every member, by member id; members without partitions are included.
        """
        ...

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Receive this member's assignment; called in every member, the leader included.

        Args:
            assignment: the assignment that the leader's assignor made for this member.
        """
        ...


AssignorLike = str | Callable[[], PartitionAssignor] | PartitionAssignor
"""A name, a place ("package.module:Class"), a class (or anything that makes an assignor when called), or an assignor."""


def resolve_assignor(assignor: AssignorLike) -> PartitionAssignor:
    """Return an assignor; names, places and classes are looked up by the installed registry of assignors.

    Args:
        assignor: see `AssignorLike`. An assignor comes back as it is.

    Raises:
        ConfigError: the name is unknown, the registry is not installed, or the value is not an assignor.
    """
    if is_assignor(assignor):
        return assignor
    try:
        # by its name and not by an import: the library knows no assignor, and works with others' alone
        found: Any = resolve_name("assignors.registry:resolve")
    except ImportError as error:
        raise ConfigError(
            f"assignor {assignor!r} cannot be looked up without the package 'assignors' ({error}): give an"
            " assignor itself"
        ) from error
    resolved: PartitionAssignor = found(assignor)
    return resolved
