"""Assign the partitions of all topics round robin, as Kafka's RoundRobinAssignor does."""

from bisect import bisect_left
from collections.abc import Sequence

from assignors.base import StatelessAssignor, names_wrong_arguments
from assignors.subscribers import checked, member_order, partition_counts, subscribers_of
from groupsdk.assignment import Assignment, Cluster, GroupAssignment, GroupSubscription
from groupsdk.utf16 import utf16_sorted


class RoundRobinAssignor(StatelessAssignor):
    """Assigns partitions round robin over all topics (`RoundRobinAssignor`).

    One pointer goes round the members, static ones first, and on from topic to topic; a member that did not
    subscribe to a topic is passed over. With equal subscriptions the loads differ by at most one; with
    different ones they may differ by much.

    The results are those of Kafka 4's class, list for list. Time is in proportion to subscriptions and
    partitions, where Kafka's class walks on member by member.
    """

    name = "roundrobin"

    @names_wrong_arguments
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Assign the group's partitions, as the leader; see `PartitionAssignor.assign`. Racks are not used.

        Raises:
            TypeError: an argument is of a wrong type; the error names it.
            ValueError: a number of partitions is out of bounds.
        """
        members = checked(subscriptions)
        counts = partition_counts(cluster)
        group = subscribers_of(counts, members, member_order(members))
        shares: list[dict[str, Sequence[int]]] = [{} for _ in group.member_ids]
        numbers = tuple(range(max((counts[topic] for topic in group.topics), default=0)))
        dealt: dict[tuple[int, int], list[Sequence[int]]] = {}
        pointer = 0
        for topic in utf16_sorted(group.topics):
            subscribers = group.topics[topic]
            count, size = counts[topic], len(subscribers)
            if (count, size) not in dealt:
                dealt[count, size] = [
                    numbers[start:count:size] for start in range(min(count, size))
                ]
            # the first subscriber at or after the pointer, wrapping around at the end
            first = bisect_left(subscribers, pointer) % size
            hands = dealt[count, size]
            for number, hand in zip(subscribers[first : first + count], hands, strict=False):
                shares[number][topic] = hand
            for number, hand in zip(subscribers[:first], hands[size - first :], strict=False):
                shares[number][topic] = hand
            pointer = subscribers[(first + count - 1) % size] + 1
        return {
            member_id: Assignment(share)
            for member_id, share in zip(group.member_ids, shares, strict=True)
        }
