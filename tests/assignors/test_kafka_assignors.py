"""Compares range and roundrobin, list for list, with Kafka's own classes."""

from collections import Counter
from collections.abc import Iterator

import pytest

from assignors.range import RangeAssignor
from assignors.roundrobin import RoundRobinAssignor
from groupsdk.assignment import Cluster
from tests.assignors import golden
from tests.assignors.kafka_assignors import RELEASES, KafkaAssignors, kafka_assignors, listed
from tests.assignors.random_groups import random_groups


Assignor = RangeAssignor | RoundRobinAssignor

both = pytest.mark.parametrize(
    "assignor", [RangeAssignor(), RoundRobinAssignor()], ids=lambda assignor: assignor.name
)


@both
def test_the_results_are_those_that_kafka_gave(assignor: Assignor) -> None:
    cases = golden.read()[assignor.name]

    assert len(cases) == golden.NUMBER
    for group, answer in cases:
        given = assignor.assign(group.cluster, group.subscriptions)
        assert listed(given) == answer, group


def test_the_cases_are_not_all_alike() -> None:
    seen: Counter[str] = Counter()
    for group, answer in golden.read()["range"]:
        plain = RangeAssignor().assign(Cluster(group.cluster.partition_counts), group.subscriptions)
        lists = {member.topics for member in group.subscriptions.values()}
        seen["racks matter"] += {m: set(each) for m, each in listed(plain).items()} != {
            m: set(each) for m, each in answer.items()
        }
        seen["different subscriptions"] += len(lists) > 1
        seen["static"] += any(m.group_instance_id for m in group.subscriptions.values())
        seen["topics not known"] += any(
            topic not in group.cluster.partition_counts for topics in lists for topic in topics
        )
        seen["over twelve topics"] += len(group.cluster.partition_counts) > 12
    assert min(seen.values()) >= 5, seen
    assert seen["racks matter"] >= 25, seen


@pytest.fixture(scope="module", params=RELEASES)
def kafka(request: pytest.FixtureRequest, _java: None) -> Iterator[KafkaAssignors]:
    with kafka_assignors(request.param) as program:
        yield program


@pytest.mark.kafka
@pytest.mark.timeout(300)
@both
def test_ten_thousand_random_groups_come_out_as_with_kafka(
    kafka: KafkaAssignors, assignor: Assignor
) -> None:
    compared = 0
    for group in random_groups(10_000, seed=54):
        given = assignor.assign(group.cluster, group.subscriptions)
        assert listed(given) == kafka.assign(group.question(assignor.name)), group
        compared += 1
    assert compared == 10_000


@pytest.mark.kafka
@pytest.mark.timeout(300)
@both
def test_the_golden_results_are_what_this_release_gives(
    kafka: KafkaAssignors, assignor: Assignor
) -> None:
    for group, answer in golden.read()[assignor.name]:
        assert kafka.assign(group.question(assignor.name)) == answer, group
