"""Rows hold partitions that are alike."""

import random

from assignors.sticky.bitsets import positions
from assignors.sticky.partition_rows import make_partition_rows
from assignors.sticky.subscription_index import SubscriptionIndex
from tests.assignors.sticky.oracle import is_off_rack
from tests.assignors.sticky.random_groups import random_group
from tests.support.cases import each_case


def test_topics_with_the_same_readers_make_one_partition_row() -> None:
    both = frozenset({"a", "b", "c"})
    counts = {"a": 2, "b": 3, "c": 4}
    rows = make_partition_rows(
        SubscriptionIndex([both, {"a", "b"}, both], counts), counts, [None] * 3, {}
    )
    assert rows.row_of_topic == {"a": 0, "b": 0, "c": 1}
    assert rows.sizes == [5, 4]
    assert rows.readers == [0b111, 0b101]
    assert not rows.have_racks
    assert rows.count({"b": [0, 2], "c": (1,), "a": ()}) == {0: 2, 1: 1}


def test_racks_divide_a_topic() -> None:
    racks = {"t": [("a",), ["b"], {"a", "b"}, ("z",), ()]}
    rows = make_partition_rows(
        SubscriptionIndex([{"t"}] * 3, "t"), {"t": 6}, ["a", "b", None], racks
    )
    number = rows.rows_of_topic["t"]
    assert [rows.far[row] for row in number] == [0b010, 0b001, 0, 0b011, 0, 0]
    assert sum(rows.sizes) == 6
    assert rows.count({"t": [0, 4, 5]}) == {number[0]: 1, number[4]: 2}
    assert rows.split({"t": [0, 4, 5]}) == {number[0]: {"t": [0]}, number[4]: {"t": [4, 5]}}
    assert rows.have_racks


def test_racks_that_tell_nothing_apart_divide_nothing() -> None:
    racks = {"t": [("a", "b"), ("b", "a", "c")]}
    rows = make_partition_rows(SubscriptionIndex([{"t"}] * 2, "t"), {"t": 2}, ["a", "b"], racks)
    assert rows.row_of_topic == {"t": 0}
    assert not rows.have_racks


@each_case("seed", range(200))
def test_every_partition_lies_where_it_belongs(seed: int) -> None:
    group = random_group(random.Random(seed))
    cluster = group.cluster
    members = [m for m in sorted(group.subscriptions) if group.subscriptions[m].topics]
    subscribed = [
        frozenset(group.subscriptions[m].topics) & cluster.partition_counts.keys() for m in members
    ]
    counts = {
        topic: count
        for topic, count in cluster.partition_counts.items()
        if any(topic in each for each in subscribed)
    }
    racks = [group.subscriptions[member].rack_id for member in members]
    rows = make_partition_rows(
        SubscriptionIndex(subscribed, counts), counts, racks, cluster.replica_racks
    )
    sizes = [0] * len(rows.sizes)
    for topic, count in counts.items():
        for number in range(count):
            [row] = rows.split({topic: [number]})
            assert rows.count({topic: [number]}) == {row: 1}
            sizes[row] += 1
            readers = {i for i, each in enumerate(subscribed) if topic in each}
            assert set(positions(rows.readers[row])) == readers
            assert set(positions(rows.far[row])) == {
                i for i in readers if is_off_rack(group, topic, number, members[i])
            }
    assert sizes == rows.sizes
