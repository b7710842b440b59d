"""`uniform` and `range` beside Kafka's own classes: the same partitions, in the same order."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from groupsdk.broker.coordinator.consumer.assignors import (
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    ServerAssignor,
    UniformAssignor,
)
from groupsdk.broker.coordinator.consumer.topics import Partitions, TopicInfo
from groupsdk.broker.coordinator.hash_order import members_order
from tests.support.java import JavaProgram


PROGRAM = Path(__file__).parent / "java" / "ServerAssignors.java"
RELEASE = "4.3.1"
GROUPS = 120
MANY_GROUPS = 5_000
ROUNDS = 4
"""Assignments of one group, each of which starts from the one before."""

ASSIGNORS: dict[str, ServerAssignor] = {"uniform": UniformAssignor(), "range": RangeAssignor()}


@pytest.fixture(scope="module")
def program(kafka_installed: None) -> Iterator[JavaProgram]:
    jars = [
        f"org.apache.kafka:kafka-group-coordinator:{RELEASE}",
        "com.fasterxml.jackson.core:jackson-databind:2.19.0",
    ]
    with JavaProgram(PROGRAM, jars) as running:
        yield running


@dataclass
class _Group:
    """A group that changes at random; members in the order in which they came."""

    random: random.Random
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    members: dict[str, tuple[str | None, frozenset[str]]] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    new: str | None = None

    def __post_init__(self) -> None:
        most = self.random.choice([6, 6, 40])
        for number in range(self.random.choice([1, 2, 3, 3, 5, 14, 26])):
            name = f"t{number}" if self.random.random() < 0.5 else f"topic-{number}"
            topic_id = UUID(int=self.random.getrandbits(128))
            self.topics[name] = TopicInfo(topic_id, name, self.random.randint(1, most))
        self.is_mixed = self.random.random() < 0.6
        self.most_members = self.random.choice([3, 6, 6, 30])

    def change(self) -> None:
        """Lets members go and come, and change what they read."""
        chosen = self.random
        for name in list(self.topics):
            if chosen.random() < 0.1:
                more = self.topics[name].partitions + chosen.randint(1, 9)
                self.topics[name] = self.topics[name]._replace(partitions=more)
        for member_id in list(self.members):
            if chosen.random() < 0.2 and len(self.members) > 1:
                del self.members[member_id]
                self.targets.pop(member_id, None)
        same = self._some()
        for member_id, (instance, _) in list(self.members.items()):
            if not self.is_mixed or chosen.random() < 0.15:
                read = self._some() if self.is_mixed else same
                self.members[member_id] = (instance, read)
        self._join(same)

    def _join(self, same: frozenset[str]) -> None:
        chosen = self.random
        self.new = None
        for _ in range(chosen.randint(not self.members, self.most_members)):
            if len(self.members) < self.most_members:
                self.new = f"m{chosen.getrandbits(30)}"
                instance = f"i{chosen.getrandbits(30)}" if chosen.random() < 0.3 else None
                self.members[self.new] = (instance, self._some() if self.is_mixed else same)
        if chosen.random() < 0.5:
            self.new = None

    def _some(self) -> frozenset[str]:
        names = sorted(self.topics)
        if self.random.random() < 0.2:
            return frozenset(names)
        return frozenset(self.random.sample(names, self.random.randint(1, len(names))))

    @property
    def is_homogeneous(self) -> bool:
        return len({read for _, read in self.members.values()}) == 1

    def spec(self) -> GroupSpec:
        """Describes the group to ours."""
        ids = {name: topic.topic_id for name, topic in self.topics.items()}
        read = {name for _, names in self.members.values() for name in names}
        return GroupSpec(
            members={
                each: MemberSpec(
                    member_id=each,
                    instance_id=self.members[each][0],
                    rack_id=None,
                    subscribed=frozenset(ids[name] for name in self.members[each][1]),
                    target=self.targets.get(each, {}),
                )
                for each in members_order(self.members, [self.new] if self.new else ())
            },
            topics={ids[name]: self.topics[name] for name in sorted(read)},
            is_homogeneous=self.is_homogeneous,
        )

    def question(self, assignor: str) -> str:
        """Describes the group to Kafka's."""
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        return json.dumps(
            {
                "assignor": assignor,
                "homogeneous": self.is_homogeneous,
                "new": self.new,
                "topics": [
                    [name, *_halves(topic.topic_id), topic.partitions]
                    for name, topic in self.topics.items()
                ],
                "members": [
                    {
                        "id": member_id,
                        "instance": instance,
                        "topics": sorted(read),
                        "target": [
                            [names[each], indexes]
                            for each, indexes in self.targets.get(member_id, {}).items()
                        ],
                    }
                    for member_id, (instance, read) in self.members.items()
                ],
            }
        )

    def read(self, answer: Mapping[str, Any]) -> dict[str, Partitions]:
        """Reads the answer of Kafka's."""
        return {
            member: {self.topics[name].topic_id: tuple(indexes) for name, indexes in share}
            for member, share in answer.items()
        }


def _halves(topic_id: UUID) -> tuple[int, int]:
    data = topic_id.bytes
    return (
        int.from_bytes(data[:8], "big", signed=True),
        int.from_bytes(data[8:], "big", signed=True),
    )


def _listed(made: Mapping[str, Partitions]) -> dict[str, list[tuple[UUID, tuple[int, ...]]]]:
    """Writes an assignment out, so that its order counts."""
    return {member: list(share.items()) for member, share in made.items()}


def _compare(program: JavaProgram, seeds: range) -> None:
    for seed in seeds:
        group = _Group(random.Random(seed))
        for number in range(ROUNDS):
            group.change()
            name = "range" if group.random.random() < 0.15 else "uniform"
            question = group.question(name)
            theirs = group.read(json.loads(program.ask(question)))
            ours = ASSIGNORS[name].assign(group.spec())
            assert _listed(ours) == _listed(theirs), f"seed {seed}, round {number}: {question}"
            for member_id, target in theirs.items():
                # where nothing changed there is no record, and the order stays as it was
                if _sets(target) != _sets(group.targets.get(member_id, {})):
                    group.targets[member_id] = target


def _sets(target: Partitions) -> dict[UUID, frozenset[int]]:
    return {topic_id: frozenset(indexes) for topic_id, indexes in target.items()}


def test_random_groups_get_what_kafka_gives_them(program: JavaProgram) -> None:
    _compare(program, range(GROUPS))


@pytest.mark.parametrize("homogeneous", [True, False])
def test_a_large_group_gets_what_kafka_gives_it(program: JavaProgram, homogeneous: bool) -> None:
    group = _Group(random.Random(1))
    sizes = {"t": 700, "u": 200, "v": 100}
    group.topics = {
        name: TopicInfo(UUID(int=group.random.getrandbits(128)), name, count)
        for name, count in sizes.items()
    }
    for number in range(1_000):
        read = frozenset(sizes) if homogeneous or number % 3 else frozenset({"t", "v"})
        group.members[str(UUID(int=group.random.getrandbits(128)))] = (None, read)
    first = next(iter(group.members))
    group.targets[first] = {
        group.topics[name].topic_id: tuple(range(sizes[name])) for name in ("t", "v")
    }
    theirs = group.read(json.loads(program.ask(group.question("uniform"))))
    assert _listed(UniformAssignor().assign(group.spec())) == _listed(theirs)
    # all of it has moved from one member to the others
    assert max(sum(map(len, each.values())) for each in theirs.values()) <= 1 + (not homogeneous)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_many_random_groups_get_what_kafka_gives_them(program: JavaProgram) -> None:
    _compare(program, range(GROUPS, GROUPS + MANY_GROUPS))
