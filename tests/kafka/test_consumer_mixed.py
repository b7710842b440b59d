"""Share one group among our consumers and those of every other library, each of them leading once."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from assignors import resolve
from groupsdk.assignment import Cluster, Subscription
from groupsdk.assignment.subscriptions import decode_assignment
from tests.kafka.migrating_group import look, python_peer
from tests.support.consumers import (
    DrivenConsumer,
    Group,
    OwnerWitness,
    tell,
)
from tests.support.go import built_go
from tests.support.groups import GroupSeen, describe_group
from tests.support.java import java_command
from tests.support.processes import LineProgram
from tests.support.topics import create_topic
from tests.support.workers import eventually


_HERE = Path(__file__).parent
_PARTITIONS = 11

_JAVA_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_ALL_FOUR = ("range", "roundrobin", "sticky", "cooperative-sticky")

MATRIX = [
    *(("java-4.1.0", assignor) for assignor in _ALL_FOUR),
    *(("java-4.4.0", assignor) for assignor in _ALL_FOUR),
    *(("librdkafka", assignor) for assignor in ("range", "roundrobin", "cooperative-sticky")),
    *(("kafka-python", assignor) for assignor in _ALL_FOUR),
    *(("aiokafka", assignor) for assignor in ("range", "roundrobin", "sticky")),
    ("aiokafka", "range and roundrobin"),
    *(("franz-go", assignor) for assignor in _ALL_FOUR),
]


class Peer(LineProgram):
    """A consumer of another library."""

    def leave(self) -> None:
        """Have it leave the group and end."""
        said, _ = self.process.communicate("leave\n", timeout=60)
        assert said.split() == ["ready", "left"]


@pytest.fixture(scope="module")
def go_peer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the built peer in Go."""
    return str(built_go(_HERE / "go" / "grouppeer", tmp_path_factory.mktemp("go")))


def command_of(
    library: str,
    servers: str,
    group: str,
    topic: str,
    assignor: str,
    request: pytest.FixtureRequest,
) -> list[str]:
    """Return the command line of a peer."""
    if library == "franz-go":
        return [request.getfixturevalue("go_peer"), servers, group, topic, assignor]
    if not library.startswith("java-"):
        return python_peer(servers, group, topic, assignor, library)
    clients = [f"org.apache.kafka:kafka-clients:{library.removeprefix('java-')}"]
    name = f"org.apache.kafka.clients.consumer.{_JAVA_CLASSES[assignor]}"
    return java_command(_HERE / "java" / "GroupPeer.java", clients, servers, group, topic, name)


class Matrix:
    """One group, our members and a peer, and how the broker sees it."""

    def __init__(self, servers: str, group_id: str, strategy: list[str]) -> None:
        self.address = servers
        self.group_id = group_id
        self.topic = f"topic-{group_id}"
        self.strategy = strategy
        self.stack = ExitStack()
        create_topic(servers, self.topic, _PARTITIONS)

    def join(self, count: int) -> list[DrivenConsumer]:
        settings = {
            "bootstrap.servers": self.address,
            "group.id": self.group_id,
            "partition.assignment.strategy": self.strategy,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            "auto.offset.reset": "earliest",
        }
        made = [DrivenConsumer(self.topic, settings) for _ in range(count)]
        return [self.stack.enter_context(each) for each in made]

    def settled(self, size: int, ours: list[DrivenConsumer]) -> GroupSeen:
        """Wait until the group has so many members and nothing more to move, then check it.

        Two looks that find the same: a cooperative group goes through states where all is well but
        partitions that are still on their way.
        """
        last: list[GroupSeen] = []

        def look() -> GroupSeen | None:
            for each in ours:
                assert not each.errors, each.errors
            seen = describe_group(self.address, self.group_id)
            if seen.state != "Stable" or len(seen.assignments) != size:
                return None
            shares = self.shares(seen)
            whole = sum(map(len, shares.values())) == _PARTITIONS
            taken_up = all(
                set(each.consumer.assignment()) == shares.get(each.consumer.member_id(), set())
                for each in ours
            )
            last.append(seen)
            return seen if whole and taken_up and seen in last[:-1][-3:] else None

        seen = eventually(look, lambda: str(last[-1:]), 60)
        everything = [each for share in self.shares(seen).values() for each in share]
        assert sorted(everything) == [(self.topic, number) for number in range(_PARTITIONS)]
        return seen

    def shares(self, seen: GroupSeen) -> dict[str, set[tuple[str, int]]]:
        """Return what each member has."""
        return {
            member_id: set(decode_assignment(data)) if data else set()
            for member_id, data in seen.assignments.items()
        }

    def check(self, seen: GroupSeen) -> None:
        """Check that the shares are what the leader's library would give: all give the same."""
        shares = self.shares(seen)
        sizes = sorted(map(len, shares.values()))
        assert sizes[-1] - sizes[0] <= 1, sizes
        name = seen.protocol_name
        if name in ("range", "roundrobin"):
            members = {each: Subscription((self.topic,)) for each in shares}
            plan = resolve(name).assign(Cluster({self.topic: _PARTITIONS}), members)
            assert shares == {member_id: set(share) for member_id, share in plan.items()}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("library", "assignor"),
    [
        # one of Java's older release; its other assignors are part of `make test-full`
        pytest.param(*each, marks=[pytest.mark.slow] * (each in MATRIX[1:4]), id="-".join(each))
        for each in MATRIX
    ],
)
def test_one_group_of_both(
    servers: str, group_id: str, request: pytest.FixtureRequest, library: str, assignor: str
) -> None:
    strategy = assignor.split(" and ")
    matrix = Matrix(servers, group_id, strategy)
    command = command_of(library, matrix.address, group_id, matrix.topic, assignor, request)
    with matrix.stack as stack:
        # the peer is first, and leads
        peer = stack.enter_context(Peer(command, quiet=True))
        matrix.settled(1, [])
        ours = matrix.join(2)
        seen = matrix.settled(3, ours)
        assert not any(each.consumer.snapshot().is_leader for each in ours)
        assert seen.protocol_name in strategy
        matrix.check(seen)
        peer.leave()
        # one of ours leads, and the peer comes back
        matrix.check(matrix.settled(2, ours))
        again = stack.enter_context(Peer(command, quiet=True))
        seen = matrix.settled(3, ours)
        assert any(each.consumer.snapshot().is_leader for each in ours)
        matrix.check(seen)
        again.leave()
        matrix.check(matrix.settled(2, ours))


NEW_MATRIX = [cell for cell in MATRIX if cell[0] != "java-4.1.0"]
QUICK_NEW = [
    ("java-4.4.0", "cooperative-sticky"),
    ("librdkafka", "range"),
    ("kafka-python", "sticky"),
    ("aiokafka", "roundrobin"),
    ("franz-go", "cooperative-sticky"),
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("broker", ["paced_kafka", "paced_embedded"])
@pytest.mark.parametrize(
    ("library", "assignor"),
    [
        pytest.param(*cell, marks=() if cell in QUICK_NEW else pytest.mark.slow, id="-".join(cell))
        for cell in NEW_MATRIX
    ],
)
def test_classic_members_of_all_libraries_with_ours_of_the_consumer_protocol(
    group_id: str, request: pytest.FixtureRequest, broker: str, library: str, assignor: str
) -> None:
    servers = str(request.getfixturevalue(broker).bootstrap_servers)
    topic = f"topic-{group_id}"
    create_topic(servers, topic, _PARTITIONS)
    command = command_of(library, servers, group_id, topic, assignor, request)
    group = Group("consumer", group_id, topic, servers, servers).configure()

    def settled(type_: str, size: int, *ours: DrivenConsumer) -> None:
        """Wait until so many members own each partition once, as evenly as can be, by the broker's view and by ours."""

        def look_again() -> bool:
            time.sleep(0.05)  # each look is a connection
            for each in ours:
                assert not each.errors, each.errors
            seen = look(servers, group_id)
            shares = [number for share in seen.shares.values() for number in share]
            return (
                (seen.type, seen.state, len(seen.shares)) == (type_, "Stable", size)
                and sorted(shares) == [*range(_PARTITIONS)]
                and all(each.acts_on == seen.shares[each.consumer.member_id()] for each in ours)
            )

        eventually(look_again, lambda: (look(servers, group_id), tell(*ours)))
        sizes = [len(each) for each in look(servers, group_id).shares.values()]
        assert max(sizes) - min(sizes) <= 1

    with Peer(command, quiet=True) as peer:
        settled("classic", 1)
        with group.consumer() as one, group.consumer() as two, OwnerWitness(one, two) as witness:
            settled("consumer", 3, one, two)
            peer.leave()
            settled("consumer", 2, one, two)
            with Peer(command, quiet=True) as again:
                settled("consumer", 3, one, two)
                one.stop()
                two.stop()
                # the last of the consumer protocol is gone
                settled("classic", 1)
                again.leave()
            witness.check()
