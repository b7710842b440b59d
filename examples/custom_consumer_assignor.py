"""Give consumers an assignor of your own: by capacity, by lag, or sticky to a key.

    python examples/custom_consumer_assignor.py                                     starts an embedded broker
    python examples/custom_consumer_assignor.py --bootstrap-servers localhost:9092  runs there

Two consumers with capacities 3 and 1 share eight partitions: six to one, two to the other.
"""

import argparse
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typing_extensions import override

from assignors import check_assignor
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    RebalanceProtocol,
    TopicPartition,
)
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer


_PARTITIONS = 8


class CapacityAssignor:
    """Give each member partitions in proportion to the capacity that it joined with."""

    name = "capacity"
    version = 0
    supported_protocols = frozenset({RebalanceProtocol.EAGER})

    def __init__(self, capacity: int = 1) -> None:
        self.capacity = capacity

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Tell the leader; asked before every join, so it may be what is measured just now."""
        return str(self.capacity).encode()

    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Deal each partition to the subscriber that has least for its capacity."""
        capacities = {m: _number(each.user_data) for m, each in subscriptions.items()}
        shares: dict[str, dict[str, list[int]]] = {m: {} for m in subscriptions}
        counts = dict.fromkeys(subscriptions, 0)
        for topic, partition in self.order(cluster):
            readers = [m for m, each in subscriptions.items() if topic in each.topics]
            if readers:
                chosen = min(readers, key=lambda m: ((counts[m] + 1) / capacities[m], m))
                shares[chosen].setdefault(topic, []).append(partition)
                counts[chosen] += self.weight(topic, partition)
        return {member_id: Assignment(share) for member_id, share in shares.items()}

    def order(self, cluster: Cluster) -> list[TopicPartition]:
        """Return all partitions; sorted, so that every leader finds the same plan."""
        counts = sorted(cluster.partition_counts.items())
        return [TopicPartition(topic, number) for topic, n in counts for number in range(n)]

    def weight(self, topic: str, partition: int) -> int:
        """Return what a partition counts for."""
        return 1

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Note nothing."""


class LagAssignor(CapacityAssignor):
    """The same, with a partition counting for its lag, the longest dealt first.

    `lags` runs in the leader, once for each plan, and may ask a broker or your monitoring.
    """

    name = "lag"

    def __init__(self, lags: Callable[[], Mapping[tuple[str, int], int]] = dict) -> None:
        super().__init__()
        self._ask, self._lags = lags, lags()

    @override
    def order(self, cluster: Cluster) -> list[TopicPartition]:
        """Return the partitions with the longest lag first."""
        self._lags = self._ask()
        return sorted(super().order(cluster), key=lambda each: -self._lags.get(each, 0))

    @override
    def weight(self, topic: str, partition: int) -> int:
        """Return the lag; 1 at least, so that caught-up partitions are spread too."""
        return max(1, self._lags.get((topic, partition), 0))


class KeyAssignor(CapacityAssignor):
    """Give a topic "key.name" to those who joined with that key, whose caches are warm; else to anyone."""

    name = "key"

    def __init__(self, key: str = "") -> None:
        super().__init__()
        self.key = key

    @override
    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Tell the leader the key."""
        return self.key.encode()

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Share each topic out among those who have its key, or among all subscribers."""
        shares: dict[str, dict[str, list[int]]] = {m: {} for m in subscriptions}
        for topic, count in sorted(cluster.partition_counts.items()):
            readers = sorted(m for m, each in subscriptions.items() if topic in each.topics)
            key = topic.partition(".")[0].encode()
            keepers = [m for m in readers if subscriptions[m].user_data == key] or readers
            for number in range(count if keepers else 0):
                shares[keepers[number % len(keepers)]].setdefault(topic, []).append(number)
        return {member_id: Assignment(share) for member_id, share in shares.items()}


def _number(user_data: bytes | None) -> int:
    """Read a capacity; that of a member which says something else is 1."""
    return max(1, int(user_data)) if user_data and user_data.isdigit() else 1


def consume(
    servers: str, name: str, capacity: int, held: dict[str, int], stop: threading.Event
) -> None:
    """Be a consumer until `stop`; `held` says how many partitions each one has."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "capacities",
        "heartbeat.interval.ms": 500,
    }
    assignor = CapacityAssignor(capacity)

    def tell(given: Collection[TopicPartition]) -> None:
        held[name] = len(given)
        print(f"{name} has {len(given)} partitions\n", end="", flush=True)

    with GroupConsumer(settings, partition_assignment_strategy=assignor) as consumer:
        consumer.subscribe("jobs", on_assign=tell)
        while not stop.is_set():
            consumer.consume(100, 0.2)


def main() -> None:
    """Hold the assignors to their contract, then share a topic out by one of them."""
    for assignor in (CapacityAssignor, LagAssignor, KeyAssignor):
        print(assignor.name, "holds on", check_assignor(assignor), "groups", flush=True)
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: an embedded broker")
    servers = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        if servers is None:
            servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("jobs", _PARTITIONS, 1)])["jobs"].result()
        stop = threading.Event()
        shares, held = {"big": 3, "small": 1}, dict[str, int]()
        threads = [
            threading.Thread(target=consume, args=(servers, name, capacity, held, stop))
            for name, capacity in shares.items()
        ]
        for thread in threads:
            thread.start()
        try:
            # whoever comes first has all of them until the other has come
            while len(held) < len(shares) or sum(held.values()) != _PARTITIONS:
                assert all(thread.is_alive() for thread in threads), "a consumer has ended"
                stop.wait(0.1)
        finally:
            stop.set()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    main()
