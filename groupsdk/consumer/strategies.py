"""The assignors that a consumer supports, and the rebalance protocol that follows from them."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from groupsdk.assignment import (
    Assignment,
    AssignorLike,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    PartitionAssignor,
    RebalanceProtocol,
    TopicPartition,
    resolve_assignor,
)
from groupsdk.assignment.contract import misfit
from groupsdk.errors import (
    AssignmentError,
    ConfigError,
    InconsistentGroupProtocolError,
    MetadataError,
)


class Strategies:
    """The assignors of one consumer, by preference (`partition.assignment.strategy`).

    Raises ConfigError if one is not known, two have the same name, or they share no rebalance protocol.
    """

    def __init__(self, assignors: AssignorLike | Sequence[AssignorLike]) -> None:
        self._by_name: dict[str, PartitionAssignor] = {}
        for chosen in _listed(assignors):
            assignor = resolve_assignor(chosen)
            if wrong := misfit(assignor):
                raise ConfigError(f"partition.assignment.strategy has {assignor!r}: {wrong}")
            if assignor.name in self._by_name:
                raise ConfigError(
                    f"partition.assignment.strategy names {assignor.name!r} twice: a group cannot tell them apart"
                )
            self._by_name[assignor.name] = assignor
        if not self._by_name:
            raise ConfigError("partition.assignment.strategy is empty; give 'range', for example")
        self.protocol = _common_protocol(list(self._by_name.values()))

    def __iter__(self) -> Iterator[PartitionAssignor]:
        return iter(self._by_name.values())

    @property
    def cooperative(self) -> bool:
        """Whether partitions that do not move are kept during a rebalance (KIP-429)."""
        return self.protocol is RebalanceProtocol.COOPERATIVE

    def chosen(self, protocol: str) -> PartitionAssignor:
        """Return the assignor that the group agreed on. Raises InconsistentGroupProtocolError if this consumer did not offer it."""
        try:
            return self._by_name[protocol]
        except KeyError:
            offered = ", ".join(self._by_name)
            raise InconsistentGroupProtocolError(
                23, f"the group chose the assignor {protocol!r}, but this consumer offers {offered}"
            ) from None


def user_data_of(assignor: PartitionAssignor, topics: Collection[str]) -> bytes | None:
    """Return the user data that a member joins with. Raises MetadataError if it is neither bytes nor None."""
    # what an assignor returns is other people's work, whatever its type says
    user_data: object = assignor.subscription_user_data(topics)
    if user_data is not None and not isinstance(user_data, bytes):
        raise MetadataError(
            f"assignor {assignor.name!r}: subscription_user_data() must return bytes or None, not"
            f" {type(user_data).__name__}"
        )
    return user_data


def checked_plan(
    assignor: PartitionAssignor, cluster: Cluster, subscriptions: GroupSubscription
) -> tuple[dict[str, Assignment], list[str]]:
    """Run an assignor, and check the shape of its plan. Return it, and the members that the assignor left out.

    These are in the plan with an empty assignment: a client that is sent none at all may fail on it, as Java's does.
    Raises AssignmentError if the plan is not a mapping of member id to `Assignment`, or names an unknown member.
    """
    plan: object = assignor.assign(cluster, subscriptions)
    if not isinstance(plan, Mapping):
        raise AssignmentError(
            f"assignor {assignor.name!r}: assign() must return a mapping of member id to Assignment, not"
            f" {type(plan).__name__}"
        )
    for member_id, share in plan.items():
        if not isinstance(share, Assignment):
            raise AssignmentError(
                f"assignor {assignor.name!r}: assign() must give {member_id!r} an Assignment, not {share!r}"
            )
        if member_id not in subscriptions:
            raise AssignmentError(
                f"assignor {assignor.name!r}: assign() gives partitions to {member_id!r}, which is not one of the"
                f" {len(subscriptions)} members"
            )
    left_out = sorted(subscriptions.keys() - plan.keys())
    return {**plan, **dict.fromkeys(left_out, Assignment())}, left_out


def check_exists(name: str, cluster: Cluster, plan: GroupAssignment) -> None:
    """Reject a plan with partitions that do not exist: members would wait for them and read nothing."""
    counts = cluster.partition_counts
    for member_id, share in plan.items():
        for topic, numbers in share.partitions.items():
            count = counts.get(topic, 0)
            given: Sequence[object] = numbers
            odd = next((each for each in given if not isinstance(each, int)), None)
            if odd is not None:
                raise AssignmentError(
                    f"assignor {name!r} gives {odd!r} of topic {topic!r} to {member_id!r}: partitions are numbers"
                )
            if numbers and not 0 <= min(numbers) <= max(numbers) < count:
                wrong = next(each for each in numbers if not 0 <= each < count)
                there = f"has partitions 0 to {count - 1}" if count else "does not exist"
                raise AssignmentError(
                    f"assignor {name!r} gives {topic}-{wrong} to {member_id!r}, but topic {topic!r} {there}"
                )


def shared_and_unread(
    cluster: Cluster, plan: GroupAssignment
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the partitions that several members read, and those that nobody reads: an assignor may mean it."""
    shared: list[TopicPartition] = []
    given: dict[str, set[int]] = {topic: set() for topic in cluster.partition_counts}
    for share in plan.values():
        for topic, numbers in share.partitions.items():
            found, new = given[topic], set(numbers)
            shared += [TopicPartition(topic, number) for number in sorted(found & new)]
            found |= new
    unread = [
        TopicPartition(topic, number)
        for topic, count in cluster.partition_counts.items()
        if len(given[topic]) < count
        for number in range(count)
        if number not in given[topic]
    ]
    return shared, unread


def _listed(assignors: AssignorLike | Sequence[AssignorLike]) -> list[AssignorLike]:
    if isinstance(assignors, str):
        return [name.strip() for name in assignors.split(",") if name.strip()]
    return list(assignors) if isinstance(assignors, Sequence) else [assignors]


def _common_protocol(assignors: Sequence[PartitionAssignor]) -> RebalanceProtocol:
    """Return the highest protocol that all support, as Kafka's client does; the error says who supports what."""
    common = frozenset.intersection(*(each.supported_protocols for each in assignors))
    if not common:
        supported = "; ".join(
            f"{each.name}: {', '.join(sorted(p.name for p in each.supported_protocols))}"
            for each in assignors
        )
        raise ConfigError(
            f"the assignors share no rebalance protocol ({supported}): offer one that supports both, like"
            " cooperative-sticky, for the time of a migration"
        )
    return max(common)
