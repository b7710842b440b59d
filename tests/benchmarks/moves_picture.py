"""Draw what becomes of one group under the sticky assignors of groupsdk, Java, kafka-python and aiokafka.

`python -m tests.benchmarks.moves_picture` writes docs/moves.svg and prints the table. Each one's own plans are
carried from event to event. The members subscribe to different topics: with equal ones all four
are as balanced, and move as little. Java's CPU time is that of its thread, the median of some calls after as
many to warm up.
"""

import random
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typing_extensions import override

from assignors.sticky import StickyAssignor
from assignors.workbench import Simulation, simulate
from assignors.workbench.events import Event, Join, Leave, SetPartitions, Subscribe, Together
from groupsdk.assignment import (
    Assignment,
    AssignorLike,
    Cluster,
    GroupAssignment,
    GroupSubscription,
)
from groupsdk.clock import thread_cpu_ns
from tests.assignors.kafka_assignors import RELEASES, KafkaAssignors, kafka_assignors
from tests.benchmarks.python_peers import aiokafka, kafka_python


PICTURE = Path(__file__).resolve().parents[2] / "docs" / "moves.svg"

_MEMBERS = 24
_TOPICS = 40
_PARTITIONS = 30
_ROUNDS = 5


class Clock:
    """CPU time in which what another process used stands in for the time of asking it."""

    def __init__(self) -> None:
        self._beyond_ns = 0

    def now_ns(self) -> int:
        """Return the CPU time used so far."""
        return thread_cpu_ns() + self._beyond_ns

    def replace_ns(self, start_ns: int, used_ns: int) -> None:
        """Let this much have passed since a time of this clock."""
        self._beyond_ns += used_ns - (self.now_ns() - start_ns)


class Groupsdk(StickyAssignor):
    """Ours."""

    @property
    @override
    def name(self) -> str:
        return "groupsdk"


class _Peer(StickyAssignor):
    """Another one's `assign`; the user data is the same with all of them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    @override
    def name(self) -> str:
        return self._name


class Java(_Peer):
    """Kafka's own class."""

    def __init__(self, kafka: KafkaAssignors, clock: Clock) -> None:
        super().__init__("Java")
        self._kafka = kafka
        self._clock = clock

    def __deepcopy__(self, memo: object) -> "Java":
        return Java(self._kafka, self._clock)

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        start_ns = self._clock.now_ns()
        question: dict[str, Any] = {
            "assignor": "sticky",
            "topics": dict(cluster.partition_counts),
            "members": [
                {"id": member_id, "topics": list(each.topics)}
                | ({"data": each.user_data.hex()} if each.user_data else {})
                for member_id, each in subscriptions.items()
            ],
        }
        times = self._kafka.cpu_ns(question, 2 * _ROUNDS, timeout_ms=600_000)
        answer = self._kafka.assign(question)
        self._clock.replace_ns(start_ns, int(statistics.median(times[_ROUNDS:])))
        return {member_id: _assignment(listed) for member_id, listed in answer.items()}


class KafkaPython(_Peer):
    """kafka-python's."""

    def __init__(self) -> None:
        super().__init__("kafka-python")

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        plan = kafka_python(cluster.partition_counts, subscriptions)()
        return {
            member_id: Assignment(
                {topic: tuple(numbers) for topic, numbers in share.assigned_partitions}
            )
            for member_id, share in plan.items()
        }


class Aiokafka(_Peer):
    """aiokafka's."""

    def __init__(self) -> None:
        super().__init__("aiokafka")

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        plan = aiokafka(cluster.partition_counts, subscriptions)()
        return {member_id: _assignment(share.partitions()) for member_id, share in plan.items()}


def _assignment(listed: Iterable[tuple[str, int]]) -> Assignment:
    partitions: dict[str, list[int]] = {}
    for topic, number in listed:
        partitions.setdefault(topic, []).append(number)
    return Assignment(partitions)


def run(kafka: KafkaAssignors) -> Simulation:
    """Take the group through what happens."""
    chance = random.Random(5)
    topics = {f"topic-{index:02}": _PARTITIONS for index in range(_TOPICS)}

    def wanted() -> list[str]:
        return sorted(chance.sample(sorted(topics), chance.randint(2, 8)))

    members = {f"member-{index:02}": wanted() for index in range(_MEMBERS)}
    # Nothing is to be without a reader.
    for topic in sorted(topics.keys() - {t for each in members.values() for t in each}):
        members["member-00"].append(topic)
    replaced: list[Event] = [Leave(f"member-{index:02}") for index in range(10, 14)]
    replaced += [Join(f"newcomer-{index}", wanted()) for index in range(4)]
    events: list[Event] = [
        Join("member-late", wanted()),
        Leave("member-05"),
        Together("member-03 subscribes anew", [Subscribe("member-03", wanted())]),
        Together("three topics grow", [SetPartitions(f"topic-{n:02}", 50) for n in range(3)]),
        Together("four members are replaced", replaced),
    ]
    clock = Clock()
    assignors: list[AssignorLike] = [Groupsdk, Java(kafka, clock), KafkaPython, Aiokafka]
    return simulate(members, topics, events, assignors, cpu_ns=clock.now_ns)


def main() -> None:
    with kafka_assignors(RELEASES[0]) as kafka:
        simulation = run(kafka)
    print(simulation)
    PICTURE.write_text(simulation.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
