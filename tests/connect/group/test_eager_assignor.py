"""Holds the eager assignor to Kafka's example, to Kafka's class itself, and to even shares."""

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

import pytest

from groupsdk.connect.group.assignors import EagerAssignor
from groupsdk.connect.group.coordinator import ConnectCoordinator
from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.types import GroupMembers
from groupsdk.wire.connect_protocol import (
    ConnectAssignment,
    ConnectorTaskId,
    WorkerState,
    decode_assignment,
    encode_metadata,
)
from tests.connect.kafka_assignor import KafkaAssignors


def tasks(*names: str) -> tuple[ConnectorTaskId, ...]:
    """Read "a-0" and the like."""
    return tuple(ConnectorTaskId(each[0], int(each[2:])) for each in names)


EVERYTHING = Work(("a", "b"), tasks("a-0", "a-1", "a-2", "a-3", "b-0", "b-1", "b-2", "b-3"))


def test_eager_assignor_deals_as_in_kafkas_example() -> None:
    given = EagerAssignor().assign(EVERYTHING, ["W2", "W1"])
    assert given.assigned == {
        "W1": Work(("a",), tasks("a-0", "a-2", "b-0", "b-2")),
        "W2": Work(("b",), tasks("a-1", "a-3", "b-1", "b-3")),
    }
    assert given.held == given.assigned
    assert (given.revoked, given.delay_ms) == ({}, 0)


def test_tasks_go_on_where_the_connectors_ended() -> None:
    given = EagerAssignor().assign(Work(("a",), tasks("a-0", "a-1")), ["W1", "W2"])
    assert given.assigned == {
        "W1": Work(("a",), tasks("a-1")),
        "W2": Work((), tasks("a-0")),
    }


def test_members_beyond_the_work_get_nothing() -> None:
    given = EagerAssignor().assign(Work(("a",), ()), ["W1", "W2", "W3"])
    assert [len(each) for each in given.assigned.values()] == [1, 0, 0]


def test_with_weights_each_task_goes_to_who_has_the_least() -> None:
    work = Work(("a",), tasks("a-0", "a-1", "a-2", "a-3"))
    weights = dict(zip(work.tasks, (1, 2, 3, 6), strict=True))
    given = EagerAssignor().assign(work, ["W1", "W2"], weights)
    assert given.assigned == {
        "W1": Work(("a",), tasks("a-3")),
        "W2": Work((), tasks("a-2", "a-1", "a-0")),
    }


class Nobody:
    """Listens to nothing: the coordinator only decides here."""

    def on_assigned(self, assignment: ConnectAssignment, generation: int) -> None:
        raise AssertionError("nothing is assigned")

    def on_revoked(self, work: Work) -> None:
        raise AssertionError("nothing is revoked")


def configs(offset: int, configured: Mapping[str, int]) -> ClusterConfigState:
    """Configurations of connectors with so many tasks."""
    return ClusterConfigState(
        offset, {name: {} for name in configured}, task_counts=dict(configured)
    )


def decided(
    leader: str,
    members: Mapping[str, bytes],
    snapshots: Iterable[ClusterConfigState],
) -> dict[str, bytes]:
    """What our leader answers; it finds one snapshot when it joins, and the next when it looks again."""
    read = iter(snapshots)
    coordinator = ConnectCoordinator(
        {"bootstrap.servers": "nowhere:9092", "group.id": "g"},
        listener=Nobody(),
        configs=lambda: next(read),
        mode="eager",
    )
    coordinator.metadata()
    return coordinator.perform_assignment(leader, "default", GroupMembers(dict(members)))


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(8))
def test_every_answer_is_that_of_kafkas_class(kafka_class: KafkaAssignors, seed: int) -> None:
    """Down to the bytes, except for the order of connectors, which Kafka's class keeps in a hash map."""
    chance = Random(seed)
    seen: Counter[str] = Counter()
    for step in range(50):
        alphabet = chance.choice(("abc", "aB-._9", "a\u00e9\uffff\U00010000"))
        names = ["".join(chance.choices(alphabet, k=chance.randint(1, 4))) for _ in range(8)]
        before = {name: chance.randrange(6) for name in names[: chance.randint(0, 4)]}
        later = {
            **before,
            **{name: chance.randrange(6) for name in names[4 : chance.randint(4, 8)]},
        }
        ids = sorted({f"worker-{each}-{chance.randrange(3)}" for each in names})
        leader = chance.choice(ids)
        offset = chance.randrange(100)
        ahead = offset + chance.choice((0, 0, 3))
        members = {
            member: encode_metadata(
                WorkerState(
                    f"http://{member}:8083",
                    offset
                    if member == leader
                    else chance.choice((offset, ahead, max(0, offset - 2))),
                ),
                0,
            )
            for member in ids
        }
        fresh = chance.choice(((offset, before), (ahead, later), (ahead + 1, later)))
        theirs = kafka_class.eager(leader, members, (offset, before), fresh)
        ours = decided(leader, members, (configs(offset, before), configs(*fresh)))
        assert ours.keys() == theirs.keys()
        for member, data in ours.items():
            mine, other = decode_assignment(data), decode_assignment(theirs[member])
            assert mine == other, (seed, step, member)
            assert sorted(data) == sorted(theirs[member]), (seed, step, member)
            seen["failed" if mine.failed else "shared"] += 1
    assert seen["failed"] >= 1, seen
    assert seen["shared"] >= 1, seen
