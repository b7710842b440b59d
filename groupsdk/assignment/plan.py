"""Examine a plan as a whole, the input and output of an assignor, and find the problems in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The input and output of an assignor."""

    cluster: Cluster
    """The topics, and the racks of their replicas where known."""
    subscriptions: GroupSubscription
    """The subscription of each member, by member id."""
    assignment: GroupAssignment
    """The assignment of each member, by member id."""

    def assignable(self) -> dict[str, int]:
        """Return the known topics with a subscriber, with their numbers of partitions."""
        subscribed = {topic for each in self.subscriptions.values() for topic in each.topics}
        return {
            topic: count
            for topic, count in self.cluster.partition_counts.items()
            if count > 0 and topic in subscribed
        }

    def holders(self) -> dict[TopicPartition, str]:
        """Return who was given each partition; of several the last in the order of the plan."""
        return {
            partition: member_id
            for member_id, share in self.assignment.items()
            for partition in share
        }


def find_problems(plan: Plan, *, may_withhold: bool = False) -> Iterator[str]:
    """Yield what makes a plan invalid, in words; nothing if it is valid.

    Every partition of a known topic with a subscriber must be given to exactly one subscriber, nothing
    else may be given, and every member must be in the plan.

    Args:
        may_withhold: a partition that a member claims may be given to nobody, as in the first round of a
            cooperative rebalance; but what one member owns, subscribed or not any more, may not be given
            to another.
    """
    wrong_shape = list(_wrong_shape(plan))
    yield from wrong_shape
    if wrong_shape:
        return
    assignable = plan.assignable()
    given: dict[TopicPartition, str] = {}
    for member_id, share in plan.assignment.items():
        topics = frozenset(plan.subscriptions[member_id].topics)
        for partition in share:
            yield from _wrong_share(member_id, partition, topics, assignable)
            if partition in given:
                yield f"{_name(partition)} is given to both {given[partition]!r} and {member_id!r}"
            given[partition] = member_id
    # also what somebody claims who is not subscribed any more: that one reads it until it is told
    claimed = _claimed(plan, by_anybody=True) if may_withhold else {}
    for topic, count in assignable.items():
        for number in range(count):
            partition = TopicPartition(topic, number)
            if partition not in given and partition not in claimed:
                yield f"{_name(partition)} is not assigned to anyone"
    for partition, owner in claimed.items():
        holder = given.get(partition, owner)
        if owner is not None and holder != owner:
            yield (
                f"{_name(partition)} is given to {holder!r} while {owner!r} still owns it: "
                "it must be revoked first"
            )


def _wrong_shape(plan: Plan) -> Iterator[str]:
    # what assignors return is other people's work, whatever its type says
    assignment: object = plan.assignment
    if not isinstance(assignment, Mapping):
        yield f"the plan must be a mapping of member ids, not {assignment!r}"
        return
    for member_id in sorted(plan.subscriptions.keys() - assignment.keys()):
        yield f"member {member_id!r} is not in the plan"
    for member_id, share in assignment.items():
        if member_id not in plan.subscriptions:
            yield f"the plan has {member_id!r}, which is not a member"
        if not isinstance(share, Assignment):
            yield f"member {member_id!r} is given {share!r}, which is not an Assignment"
        else:
            yield from _wrong_numbers(member_id, share)


def _wrong_numbers(member_id: str, share: Assignment) -> Iterator[str]:
    """Yield what is not a sequence of ints: generators are empty when they are read again, bools and floats equal ints."""
    partitions: object = share.partitions
    if not isinstance(partitions, Mapping):
        yield f"member {member_id!r} is given {partitions!r}, which is not a mapping of topics"
        return
    for topic, numbers in partitions.items():
        if not isinstance(numbers, Sequence) or isinstance(numbers, str | bytes):
            yield (
                f"member {member_id!r} is given a {type(numbers).__name__} of {topic}, which is not a sequence of"
                " partition numbers"
            )
            continue
        for number in numbers:
            if type(number) is not int:
                yield (
                    f"member {member_id!r} is given {number!r} of {topic}: a partition number must be an int, not"
                    f" a {type(number).__name__}"
                )
                break


def owners(plan: Plan) -> dict[TopicPartition, str]:
    """Return the owner of each partition according to the subscriptions: the claim with the highest generation.

    A claim counts if the member is subscribed to the topic and the partition exists; a partition that several members
    claim with the highest generation has no owner.
    """
    claimed = _claimed(plan, by_anybody=False)
    return {partition: owner for partition, owner in claimed.items() if owner is not None}


def _claimed(plan: Plan, *, by_anybody: bool) -> dict[TopicPartition, str | None]:
    assignable = plan.assignable()
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, subscription in plan.subscriptions.items():
        generation_id = max(-1, subscription.generation_id)
        claimed = subscription.owned_partitions.keys()
        for topic in claimed if by_anybody else claimed & set(subscription.topics):
            # a member that claims a partition twice does not dispute it with itself
            for number in set(subscription.owned_partitions[topic]):
                if not 0 <= number < assignable.get(topic, 0):
                    continue
                partition = TopicPartition(topic, number)
                known = best.get(partition, (-2, None))[0]
                if generation_id > known:
                    best[partition] = (generation_id, member_id)
                elif generation_id == known:
                    best[partition] = (generation_id, None)
    return {partition: owner for partition, (_, owner) in best.items()}


def _wrong_share(
    member_id: str, partition: TopicPartition, topics: frozenset[str], counts: Mapping[str, int]
) -> Iterator[str]:
    topic, number = partition
    if not 0 <= number < counts.get(topic, 0):
        yield f"member {member_id!r} is given {_name(partition)}, which does not exist"
    elif topic not in topics:
        yield f"member {member_id!r} is given {_name(partition)}, but did not subscribe to {topic!r}"


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
