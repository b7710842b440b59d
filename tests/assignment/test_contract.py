"""Tests of the contract of partition assignors."""

from groupsdk.assignment import Assignment, RebalanceProtocol, TopicPartition


def test_an_assignment_counts_partitions_and_names_them_when_asked() -> None:
    assignment = Assignment({"b": [3, 1], "a": [0]})
    assert len(assignment) == 3
    assert list(assignment) == [
        TopicPartition("b", 3),
        TopicPartition("b", 1),
        TopicPartition("a", 0),
    ]


def test_the_higher_rebalance_protocol_gives_up_less() -> None:
    # a group uses the highest that all its assignors have in common (KIP-429)
    assert (
        max(RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE) is RebalanceProtocol.COOPERATIVE
    )
