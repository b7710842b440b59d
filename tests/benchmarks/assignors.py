"""Compare the assignors with those of kafka-python, aiokafka and Java, in one run.

With `--full` also what takes kafka-python and aiokafka minutes. Every figure comes from a process of its own: CPU seconds, the mean of as many turns as fill half a
second, and the most memory that Python allocated in one turn on top of its input. A turn is what the leader
does: decode all subscriptions, assign, encode all assignments. All members subscribe to the same topics.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from assignors.registry import resolve
from groupsdk.assignment import Cluster, Subscription
from groupsdk.assignment.check.cases import after_assignment
from groupsdk.assignment.subscriptions import (
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.testing.errors import MissingToolError
from groupsdk.testing.jvm import find_javac
from groupsdk.types import GroupMembers
from tests.assignors.kafka_assignors import RELEASES, kafka_assignors
from tests.benchmarks.python_peers import cluster_metadata
from tests.benchmarks.report import Result, options_of


LIMIT_S = 90
_FILL_S = 0.5
_TURNS = 500
_JAVA_OPTIONS = ("-Xmx6g", "-XX:TieredStopAtLevel=4")


@dataclass(frozen=True)
class Case:
    """One group, and what is done in it."""

    assignor: str
    partitions: int
    topics: int
    members: int
    one_left: bool = False
    """Whether the members own everything but what one had that has left; otherwise nobody owns anything."""

    @property
    def name(self) -> str:
        """What the row is called."""
        what = ", one left" if self.one_left else ""
        return f"{self.assignor}, {self.partitions:,} partitions in {self.topics:,} topics x {self.members:,} members{what}"

    def counts(self) -> dict[str, int]:
        return {
            f"topic-{number:04}": self.partitions // self.topics for number in range(self.topics)
        }

    def member_ids(self) -> list[str]:
        """Name the members, as Kafka does."""
        return [
            f"consumer-{number}-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
            for number in range(self.members)
        ]

    def metadata(self) -> dict[str, bytes]:
        """Encode what the members join with; without a past in the version that all clients read."""
        topics = tuple(self.counts())
        if not self.one_left:
            data = encode_subscription(Subscription(topics), version=0)
            # bytes of their own for each member, as they come from the wire
            return {member_id: bytes(bytearray(data)) for member_id in self.member_ids()}
        member_ids = self.member_ids()
        plan = resolve("sticky").assign(
            Cluster(self.counts()), dict.fromkeys(member_ids, Subscription(topics))
        )
        joined = {}
        for member_id in member_ids[1:]:
            assignor = resolve(self.assignor)
            before = Subscription(topics)
            joined[member_id] = encode_subscription(
                after_assignment(assignor, before, plan[member_id], 1)
            )
        return joined


Steps = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Iterable[bytes]]]


def groupsdk(case: Case) -> Steps:
    """Prepare our own."""
    assignor, cluster = resolve(case.assignor), Cluster(case.counts())
    members = GroupMembers(case.metadata())
    return (
        lambda: decode_subscriptions(members),
        lambda subscriptions: assignor.assign(cluster, subscriptions),
        lambda plan: encode_assignments(plan).values(),
    )


def kafka_python(case: Case) -> Steps:
    """Prepare kafka-python, with what its coordinator does around the assignor."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    assignor = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }[case.assignor]()
    cluster, metadata = cluster_metadata(case.counts()), case.metadata()
    return (
        lambda: [
            SimpleNamespace(
                member_id=member_id,
                group_instance_id=None,
                metadata=ConsumerProtocolSubscription.decode(data),
            )
            for member_id, data in metadata.items()
        ],
        lambda members: assignor.assign(cluster, members),
        lambda plan: [each.encode() for each in plan.values()],
    )


def aiokafka(case: Case) -> Steps:
    """Prepare aiokafka, with what its coordinator does around the assignor."""
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

    assignor = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }[case.assignor]
    cluster, metadata = cluster_metadata(case.counts()), case.metadata()
    return (
        lambda: {
            member_id: ConsumerProtocolMemberMetadata.decode(data)
            for member_id, data in metadata.items()
        },
        lambda members: assignor.assign(cluster, members),
        lambda plan: [each.encode() for each in plan.values()],
    )


CLIENTS: dict[str, Callable[[Case], Steps]] = {
    "groupsdk": groupsdk,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def child(client: str, case: Case) -> dict[str, Any]:
    """Take the turns and return what they took; runs in a process of its own."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 5))
    decode, assign, encode = CLIENTS[client](case)
    figures: dict[str, Any] = {}
    figures["decode"], members = _timed(decode)
    figures["assign"], plan = _timed(lambda: assign(members))
    figures["encode"], encoded = _timed(lambda: encode(plan))
    figures["bytes"] = sum(map(len, encoded))
    if client == "groupsdk":
        del members, plan, encoded
        tracemalloc.start()
        written = encode(assign(decode()))
        figures["mb"] = tracemalloc.get_traced_memory()[1] / 1e6
        assert written
    return figures


def _timed(step: Callable[[], Any]) -> tuple[float, Any]:
    """Repeat a step until it fills half a second, as some machines count CPU time in steps of milliseconds."""
    turns = 0
    start = time.process_time()
    spent = 0.0
    result = None
    while spent < _FILL_S and turns < _TURNS:
        result = step()
        turns += 1
        spent = time.process_time() - start
    return spent / turns, result


def measure(client: str, case: Case) -> dict[str, Any] | None:
    """Measure in a process of its own; None where it took longer than the limit."""
    command = [sys.executable, "-m", "tests.benchmarks.assignors", client]
    done = subprocess.run(
        [*command, json.dumps(asdict(case))], capture_output=True, text=True, check=False
    )
    if done.returncode < 0:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{client}, {case.name}:\n{done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def measure_java(case: Case) -> float | None:
    """Measure `assign` of Java's class; None without a JDK."""
    try:
        find_javac()
    except MissingToolError:
        return None
    question = {
        "assignor": case.assignor,
        "topics": case.counts(),
        "lists": [list(case.counts())],
        "members": [{"id": member_id, "topics": 0} for member_id in case.member_ids()],
    }
    with kafka_assignors(RELEASES[0], *_JAVA_OPTIONS) as kafka:
        # by the wall clock, which on a busy machine runs ahead of the CPU time
        times = kafka.cpu_ns(question, rounds=6, timeout_ms=10_000 * LIMIT_S)
    return statistics.median(times[3:]) / 1e9


PLAIN = ("range", "roundrobin")
LARGE = [Case(assignor, 1_000_000, 1_000, 10_000) for assignor in PLAIN]
LEADER = [
    Case(assignor, 100_000, 100, 1_000) for assignor in (*PLAIN, "sticky", "cooperative-sticky")
]
LATER = [
    Case(assignor, 100_000, 100, 1_000, one_left=True)
    for assignor in ("sticky", "cooperative-sticky")
]
FIRST = [Case(assignor, 5_000, 50, 100) for assignor in (*PLAIN, "sticky", "cooperative-sticky")]


def _peers(case: Case, *, quick: bool) -> list[str]:
    slow = case in LARGE or (case in LEADER and case.assignor not in PLAIN)
    if case.one_left or (quick and slow):
        return []
    return ["kafka-python", *(["aiokafka"] if case.assignor != "cooperative-sticky" else [])]


def _whole(figures: Mapping[str, float]) -> float:
    return figures["decode"] + figures["assign"] + figures["encode"]


def _seconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def run(arguments: list[str], *, quick: bool) -> Result:
    only = options_of("assignors", arguments, only="").only  # rows whose name begins so
    result = Result(
        "assignors",
        "Assignors: CPU seconds of the leader (decode all, assign, encode all), and memory",
        [
            "group",
            "groupsdk: decode + assign + encode = all",
            "memory",
            *("kafka-python: assign, all", "aiokafka: assign, all"),
            f"Java {RELEASES[0]}: assign",
        ],
        raw={},
    )
    cases = [*LARGE, *LEADER, *LATER, *FIRST]
    for case in (case for case in cases if case.name.startswith(only)):
        peers = _peers(case, quick=quick)
        figures = {client: measure(client, case) for client in ("groupsdk", *peers)}
        java = measure_java(case) if case.assignor in PLAIN else None
        ours = figures["groupsdk"]
        assert ours is not None, f"groupsdk took over {LIMIT_S} s on {case.name}"
        row = [
            case.name,
            " + ".join(_seconds(ours[step]) for step in ("decode", "assign", "encode"))
            + f" = {_seconds(_whole(ours))}",
            f"{ours['mb']:.0f} MB",
        ]
        for client in ("kafka-python", "aiokafka"):
            theirs = figures.get(client)
            if client not in figures:
                row.append("-")
            elif theirs is None:
                row.append(f"> {LIMIT_S}")
            else:
                row.append(f"{_seconds(theirs['assign'])}, {_seconds(_whole(theirs))}")
                if theirs["assign"] < ours["assign"]:
                    result.behind.append(f"{case.name}: {client} assigns sooner")
        row.append("-" if java is None else _seconds(java))
        if java is not None and java < ours["assign"]:
            result.behind.append(f"{case.name}: Java assigns sooner")
        result.rows.append(row)
        result.raw[case.name] = figures | {"java": java}
    return result


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], Case(**json.loads(sys.argv[2])))))
