"""Holds the names of what members have to few words."""

from groupsdk.admin.descriptions import Assignment
from groupsdk.assignment import TopicPartition
from groupsdk.web.parts import MAX_RANGES, shown_parts, topic_ranges


def partitions(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, each) for each in numbers)


def test_partitions_are_ranges_of_their_topic() -> None:
    assert shown_parts(Assignment(partitions("big", *range(667)))) == ["big(0-666)"]
    both = (*partitions("orders", 3, 1, 2, 7), *partitions("mail", 0))
    assert topic_ranges(both) == ["mail(0)", "orders(1-3,7)"]


def test_tasks_shards_and_lists_of_other_protocols_have_their_names() -> None:
    connect = Assignment(connectors=("logs, of all",), tasks=("logs-0", "logs-1", "logs-2"))
    assert shown_parts(connect) == ["logs, of all", "logs-(0-2)"]
    assert shown_parts(Assignment(shards={"shard-3": 1, "shard-4": 9, "eu": 2})) == [
        "eu",
        "shard-(3-4)",
    ]
    assert shown_parts(Assignment(other=["a", 2])) == ["a", "2"]
    assert shown_parts(Assignment(other={"base64": "AAA="})) == ['{"base64": "AAA="}']
    assert shown_parts(Assignment()) == []


def test_very_many_topics_and_numbers_are_cut() -> None:
    topics = [each for number in range(150) for each in partitions(f"t{number:03d}-x", 0)]
    shown = shown_parts(Assignment(tuple(topics)))
    assert len(shown) == MAX_RANGES + 1
    assert shown[-1] == "and 50 more"
    (odd,) = shown_parts(Assignment(partitions("t", *range(1, 9_999, 2))))
    assert len(odd) < 1_000
    assert odd.endswith("…")
